/** Runs every command of the runbooks against the common platform. */

import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { binary } from '../../../stack/binaries.mjs'
import { opsAddress } from '../../support/clients/metrics.ts'
import { asSuperuser } from '../../support/fixtures/tenants.ts'

const execute = promisify(execFile)

const FOLDER = 'docs/runbooks'
const TEXT = readdirSync(FOLDER)
  .map((page) => readFileSync(`${FOLDER}/${page}`, 'utf8'))
  .join('\n')

/** The blocks of a language, without repetitions. */
const blocks = (language: string): string[] => [
  ...new Set(
    [...TEXT.matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\\n\`\`\``, 'g'))].map(([, code = '']) => code),
  ),
]
const lines = (language: string): string[] => [
  ...new Set(blocks(language).flatMap((code) => code.split('\n'))),
]

let env: NodeJS.ProcessEnv
/** Has Temporal's program under its usual name. */
const programs = mkdtempSync(join(tmpdir(), 'tenon-programs-'))
afterAll(() => rmSync(programs, { recursive: true, force: true }))
beforeAll(async () => {
  const { url, logs, clientId, clientSecret, env: settings } = inject('tenon')
  symlinkSync(await binary('temporal'), join(programs, 'temporal'))
  env = {
    ...process.env,
    ...{ OPS: await opsAddress('worker'), TENON_URL: url, LOGS: logs },
    ...{ TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret },
    TEMPORAL_ADDRESS: settings['TEMPORAL_ADDRESS'],
    PATH: [programs, process.env['PATH']].join(delimiter),
  }
})

/** `grep` has 1 if it finds nothing, and `tenon doctor` if it finds something. */
const MAY_BE_1 = /\| grep '[^|]*'$|tenon doctor$/

test.each(lines('sh'))(
  'command of a runbook: %s: runs',
  async (command) => {
    const { code, stderr } = await execute('sh', ['-c', command], { env }).then(
      ({ stderr }) => ({ code: 0, stderr }),
      (error: { code: number; stderr: string }) => error,
    )
    expect(code === 0 || (code === 1 && MAY_BE_1.test(command)), `${code} ${stderr}`).toBe(true)
  },
  60_000,
)

test.each(blocks('sql'))('statement of a runbook: %s: runs', async (statement) => {
  expect(await asSuperuser(statement)).toBeInstanceOf(Array)
})

test.each(lines('valkey'))('command of a runbook for Valkey: %s: runs', async (line) => {
  const redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
  const [command = '', ...words] = line.split(' ')
  expect(await redis.call(command, ...words)).toBeTruthy()
  redis.disconnect()
})
