/** Checks of API and worker when they start: the schema of their build, the master key, and how their servers are set up. */

import { randomBytes } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { checkApi } from '../../../src/app/start-checks/at-start.ts'
import { openLog } from '../../../src/infra/log.ts'
import { keyChecksOf } from '../../../src/infra/postgres/installation.ts'
import { call, eventually } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'
import type { Running } from '../../support/stack/start.ts'
import { refusalOf, runCheckNamed } from '../../support/stack/start-outcome.ts'

const SILENT = openLog('silent', 'test')

const otherKey = () => randomBytes(32).toString('base64')

/** Starts an API as its process does. */
async function withStartedApi(
  env: Readonly<Record<string, string>>,
  work: (at: Running, platform: Platform) => Promise<void>,
): Promise<void> {
  const platform = openInProcessPlatform(env)
  const node = await startInProcessNode(env, inject('tenon'), platform)
  try {
    await checkApi(platform.startChecks, platform.installation, SILENT)
    platform.health.start()
    await work(node.at, platform)
  } finally {
    await node.close()
  }
}

const SERVED = ['/v1/me', '/v1/tenants', '/auth/jwks', '/v1/collections/a/documents', '/v1/mcp/platform/mcp']

test('master key of another installation: API refuses all but health until the key is right, worker does not start', async () => {
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url, otherKey())
    expect(await refusalOf('worker', env)).toMatch(
      /master_key: TENON_MASTER_KEY is not the key of this installation: .* Set the key/,
    )
    await withStartedApi(env, async (at) => {
      for (const path of SERVED) {
        const { status, body } = await call('GET', path, { at })
        expect([path, status, body.code]).toEqual([path, 503, 'master_key_wrong'])
      }
      expect((await call('GET', '/healthz', { at })).status).toBe(200)
      expect((await call('GET', '/readyz', { at })).status).toBe(503)
      await client.query('update public.tenon_installation set key_check = $1', [
        keyChecksOf(inject('tenon').masterKey)[0],
      ])
      await eventually(async () =>
        (await call('GET', '/auth/jwks', { at })).status === 200 ? true : undefined,
      )
      expect((await call('GET', '/readyz', { at })).status).toBe(200)
    })
  })
})

/** Changes of a migrated database, and what processes say about each. */
const SCHEMAS: readonly (readonly [
  title: string,
  change: string,
  code: 'schema_outdated' | 'schema_newer',
  sentence: RegExp,
])[] = [
  [
    'lacks a file of the build',
    "delete from public.tenon_migrations where name = 'features/analytics/analytics.sql'",
    'schema_outdated',
    /older than this build: it lacks the file features\/analytics\/analytics\.sql\. Run `tenon migrate`/,
  ],
  [
    'has a file that the build does not know',
    "insert into public.tenon_migrations (name, sha256) values ('features/later.sql', '')",
    'schema_newer',
    /schema of a newer build: this one does not know the file features\/later\.sql\. Start that build/,
  ],
  [
    'has other versions of two files',
    "update public.tenon_migrations set sha256 = '' where name in ('access/idempotency.sql', 'access/audit/audit.sql')",
    'schema_outdated',
    /made by another build, with another version of the file access\/\S+ and 1 more\. Start the build that made it/,
  ],
  [
    'lacks a file of the build, and has one of a newer build that this one serves on',
    `delete from public.tenon_migrations where name = 'features/analytics/analytics.sql';
     insert into public.tenon_migrations (name, sha256, serves_from) values ('features/later.sql', '', '0.1.0')`,
    'schema_outdated',
    /migrated by a newer build, and lacks the file features\/analytics\/analytics\.sql of this one/,
  ],
  [
    'was made before builds let processes compare it',
    'drop table public.tenon_installation',
    'schema_outdated',
    /no schema that this build can read\. Run `tenon migrate`/,
  ],
]

test.each(SCHEMAS)(
  'schema that %s: API refuses with a code of its own, worker does not start',
  async (...row) => {
    const [, change, code, sentence] = row
    await withDatabase(async ({ env, url, client }) => {
      await migrateHere(url, inject('tenon').masterKey)
      await client.query(change)
      expect(await refusalOf('worker', env)).toMatch(sentence)
      await withStartedApi(env, async (at) => {
        const { status, body } = await call('GET', '/v1/collections/a/documents', { at })
        expect([status, body.code]).toEqual([503, code])
        // Which files differ is not for callers.
        expect(JSON.stringify(body)).not.toContain('.sql')
        expect((await call('GET', '/readyz', { at })).status).toBe(503)
      })
    })
  },
)

test('schema: empty database: API is ready once it is migrated; a newer build expands it while it serves: it goes on', async () => {
  await withDatabase(async ({ env, url, client }) => {
    await withStartedApi(env, async (at, platform) => {
      expect((await call('GET', '/v1/me', { at })).body.code).toBe('schema_outdated')
      await migrateHere(url)
      await eventually(async () =>
        (await call('GET', '/auth/jwks', { at })).status === 200 ? true : undefined,
      )
      await client.query(
        "insert into public.tenon_migrations (name, sha256, serves_from) values ('features/later.sql', '', '0.1.0')",
      )
      await eventually(async () =>
        (await platform.installation.required[0]?.run())?.detail.includes('features/later.sql')
          ? true
          : undefined,
      )
      expect((await call('GET', '/readyz', { at })).status).toBe(200)
      expect((await call('GET', '/auth/jwks', { at })).status).toBe(200)
      // The first process has stored the check value of its key, since the migration knew none.
      expect((await client.query('select key_check from public.tenon_installation')).rows).toEqual([
        { key_check: keyChecksOf(inject('tenon').masterKey)[0] },
      ])
    })
    // So does a process that starts now, such as after the new build was rolled back.
    expect(await refusalOf('worker', env)).toBe('')
  })
})

test('two installations with the master keys of each other: neither serves', async () => {
  const keys = [otherKey(), otherKey()]
  await withDatabase((first) =>
    withDatabase(async (second) => {
      const databases = [first, second]
      // Also that two migrations, which change the same roles, do not fail each other.
      await Promise.all(databases.map(({ url }, n) => migrateHere(url, keys[n])))
      const refusalWith = (n: number, TENON_MASTER_KEY: string) =>
        refusalOf('worker', { ...databases[n]?.env, TENON_MASTER_KEY })
      const [a = '', b = ''] = keys
      expect(await Promise.all([refusalWith(0, a), refusalWith(1, b)])).toEqual(['', ''])
      for (const refusal of await Promise.all([refusalWith(0, b), refusalWith(1, a)]))
        expect(refusal).toContain('master_key: ')
    }),
  )
})

test('table without forced row-level security: neither API nor worker starts', async () => {
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url)
    await client.query('alter table tenon.accounts no force row level security')
    const sentence =
      /isolation: The table tenon\.accounts does not force row-level security, .* Run `alter table/
    expect(await refusalOf('worker', env)).toMatch(sentence)
    expect(await refusalOf('api', env)).toMatch(sentence)
  })
})

test('clock of the database 10 s behind: reported, and the process starts', async () => {
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url)
    // The search path of the login role finds this function first.
    await client.query(`create function tenon.clock_timestamp() returns timestamptz language sql
      as $$ select pg_catalog.clock_timestamp() - interval '10 s' $$`)
    expect(await runCheckNamed('clock', env)).toMatchObject({
      is: 'warning',
      detail: expect.stringMatching(
        /^The clock of this machine is (9|10|11) s ahead of that of PostgreSQL: /,
      ),
    })
    expect(await refusalOf('worker', env)).toBe('')
  })
})
