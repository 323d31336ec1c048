/** The packed command behaves like its source modules. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { packedCommand } from '../../../stack/project.mjs'

const BAD =
  "document: { dsl: '1.0.3', namespace: n, name: bad, version: '1.0.0' }\ndo: [{ a: { cal: http } }]\n"
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-packed-'))
  await writeFile(join(folder, 'bad.yaml'), BAD)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Returns exit code and output. */
function runToEnd(program: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const { url, clientId, clientSecret } = inject('tenon')
  const secrets = { TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret, TENON_URL: url }
  const env = { ...process.env, ...secrets, TENON_CALLER_CWD: folder }
  return new Promise((done) => {
    execFile(process.execPath, program, { env }, (error, stdout, stderr) =>
      done({ code: Number(error?.code ?? 0), stdout, stderr: stderr.replace(/req_\w+/, 'req_') }),
    )
  })
}

test.each([
  [['--help'], 0, /Commands:/],
  [['flow', 'run', '--help'], 0, /--detach/],
  [['nothing'], 1, /unknown command 'nothing'/],
  [['flow', 'validate', 'bad.yaml', '--offline'], 1, /bad\.yaml:2:/],
  [['flow', 'show', 'run_x', '--workspace', 'ws_x'], 1, /./],
])('packed command: tenon %j: exit code %i, same output as the sources', async (args, code, expected) => {
  const packed = packedCommand(args[0])
  if (packed === undefined) throw new Error('The platform has started, so its build is there.')
  const [one, other] = await Promise.all([
    runToEnd([packed, ...args]),
    runToEnd([resolve('src/cli/main.ts'), ...args]),
  ])
  expect(one).toEqual(other)
  expect(one.code).toBe(code)
  expect(one.stdout + one.stderr).toMatch(expected)
})

test('packed command: code that starts servers or reads the checkout: not included', () => {
  for (const verb of ['up', 'migrate', 'demo', 'build', 'doctor', 'reference'])
    expect([verb, packedCommand(verb)]).toEqual([verb, undefined])
})
