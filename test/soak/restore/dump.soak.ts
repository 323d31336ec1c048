/** The commands of the page for own servers, `pg_dump` and `pg_restore`, as they stand there: an empty server gets all rows. */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { findPrograms } from '../../../src/backup/postgres/programs.ts'
import { readRows } from './contents.ts'
import { LocalInstallation } from './local-installation.ts'
import { makeSmall } from './small-installation.ts'

const TIMEOUT_MS = 900_000

/** The blocks below a heading. */
async function blocksBelow(heading: string): Promise<string[]> {
  const [, below = ''] = (await readFile('docs/backup.md', 'utf8')).split(`### ${heading}\n`)
  return [
    ...below
      .split('\n## ', 1)
      .join()
      .matchAll(/```sh\n([\s\S]*?)```/g),
  ].map(([, text = '']) => text)
}

test(
  'page of backups: its commands for own servers: dump a database, and restore it into an empty server',
  async () => {
    const { installation } = await makeSmall()
    const empty = await LocalInstallation.make(0)
    const { bin } = await findPrograms(process.env)
    const [dump = '', restore = '', ...others] = await blocksBelow('Without these commands')
    expect(others).toEqual([])
    const run = (script: string, settings: NodeJS.ProcessEnv) =>
      promisify(execFile)(
        'bash',
        ['-eu', '-c', `npx() { "${resolve('node_modules/.bin/tenon')}" "\${@:2}"; }\n${script}`],
        {
          cwd: installation.dir,
          env: { ...process.env, ...settings, PATH: `${bin}:${process.env['PATH']}` },
        },
      )
    try {
      await installation.withServers(async ({ DATABASE_URL = '' }) => {
        await run(dump, { DATABASE_URL })
        const expected = await readRows(DATABASE_URL)
        await empty.withServers(async (env) => {
          const ADMIN_URL = env['DATABASE_URL'] ?? ''
          const url = new URL(ADMIN_URL)
          url.pathname = '/tenon'
          const key = (await readFile(join(installation.dir, '.tenon/master.key'), 'utf8')).trim()
          const { stdout } = await run(restore, { ADMIN_URL, DATABASE_URL: url.href, TENON_MASTER_KEY: key })
          expect(stdout).toContain('Up to date.')
          expect(await readRows(url.href)).toEqual(expected)
        })
      })
    } finally {
      await installation.remove()
      await empty.remove()
    }
  },
  TIMEOUT_MS,
)
