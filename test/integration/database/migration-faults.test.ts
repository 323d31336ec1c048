/** `tenon migrate` and `tenon migrate --check` that cannot do their work: one sentence says what is wrong, and the exit code is 1. */

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { readSqlFile } from '../../../src/infra/postgres/schema-files.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'

const migrateAt = (url: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  runCommand(['migrate', ...args], {
    env: { ...process.env, DATABASE_URL: url, TENON_MASTER_KEY: inject('tenon').masterKey, ...env },
  })

/** The URL of the superuser with other parts. */
const urlWith = (parts: Partial<URL>) => Object.assign(new URL(inject('tenon').databaseUrl), parts).href

async function closedPort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return String(port)
}

const FAULTS: Readonly<Record<string, () => Promise<{ url: string; sentence: RegExp }>>> = {
  'no server': async () => {
    const port = await closedPort()
    return {
      url: urlWith({ port }),
      sentence: RegExp(`^PostgreSQL at \\S+:${port} \\(DATABASE_URL\\) refuses connections: it does not run`),
    }
  },
  // Node tries both addresses of such a name, and its error has no text of its own.
  'no server, by a name': async () => {
    const port = await closedPort()
    return {
      url: urlWith({ hostname: 'localhost', port }),
      sentence: RegExp(
        `^PostgreSQL at localhost:${port} \\(DATABASE_URL\\) refuses connections: it does not`,
      ),
    }
  },
  'unknown host': async () => ({
    url: urlWith({ hostname: 'nowhere.invalid' }),
    sentence: /^PostgreSQL at nowhere\.invalid:\d+ \(DATABASE_URL\) has a host name that cannot be resolved/,
  }),
  'no URL': async () => ({
    url: 'localhost',
    sentence: /^DATABASE_URL is no URL of PostgreSQL, such as postgres:\/\/user:password@host:5432\/name\.$/m,
  }),
  'unknown database': async () => ({
    url: urlWith({ pathname: '/nowhere' }),
    sentence:
      /^PostgreSQL at \S+ \(DATABASE_URL\) does not let the .*: database "nowhere" does not exist\.$/m,
  }),
  'wrong password': async () => ({
    url: urlWith({ username: 'tenon_app', password: 'wrong' }),
    sentence: /^PostgreSQL at \S+ \(DATABASE_URL\) refuses the credentials of the platform: correct its/,
  }),
  'role without rights': async () => ({
    url: inject('tenon').env['DATABASE_APP_URL'] ?? '',
    sentence:
      /^The role tenon_app of DATABASE_URL has not the rights for this \(permission denied for .*\): a /,
  }),
}

test.each(
  Object.keys(FAULTS).flatMap(
    (fault) =>
      [
        [fault, '`tenon migrate`', []],
        [fault, '`tenon migrate --check`', ['--check']],
      ] as const,
  ),
)('%s: %s says it in one sentence, without the password', async (fault, _command, args) => {
  const { url, sentence } = (await FAULTS[fault]?.()) ?? { url: '', sentence: /^$/ }
  const { code, stdout, stderr } = await migrateAt(url, args)
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(sentence) })
  expect(stderr.trim().split('\n')).toHaveLength(1)
  expect(stderr).not.toContain('wrong')
})

test('`tenon migrate --check`: the database is that of another build, or of another master key: what the migration would say', async () => {
  await withDatabase(async ({ url, client }) => {
    await migrateHere(url, inject('tenon').masterKey)
    const other = { TENON_MASTER_KEY: Buffer.alloc(32, 1).toString('base64') }
    for (const args of [[], ['--check']])
      expect(await migrateAt(url, args, other)).toMatchObject({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringMatching(/^TENON_MASTER_KEY is not the key of this installation: /),
      })
    await client.query("insert into public.tenon_migrations values ('features/later.sql', '')")
    for (const args of [[], ['--check']])
      expect(await migrateAt(url, args)).toMatchObject({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringMatching(
          /^The database has the schema of a newer build: this one does not know/,
        ),
      })
  })
})

test('`tenon migrate --check`: the server ends its session: a sentence, and no crash', async () => {
  await withDatabase(async ({ url, client }) => {
    await migrateHere(url)
    const holder = new Client({ connectionString: url })
    await holder.connect()
    try {
      await holder.query('begin; lock table public.tenon_migrations in access exclusive mode')
      const checked = migrateAt(url, ['--check'])
      await eventually(async () => {
        const ended = await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where application_name = 'tenon-migrate-check' and wait_event_type = 'Lock' and datname = current_database()`,
        )
        return ended.rowCount ? true : undefined
      })
      expect(await checked).toMatchObject({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringMatching(
          /^PostgreSQL at \S+ \(DATABASE_URL\) does not let the command go on: terminating /,
        ),
      })
    } finally {
      await holder.end()
    }
  })
})

test('schema file that cannot be read: named, with what to do', async () => {
  await expect(readSqlFile('features/none.sql')).rejects.toThrow(
    'The schema file features/none.sql of this version cannot be read (ENOENT): install this version again, or let',
  )
})
