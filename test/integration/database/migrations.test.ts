/** Migrations of a database in use: what they lock, how they are repeated, and which builds serve afterwards. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { withAdminSession } from '../../../src/infra/postgres/admin-session.ts'
import { applyFile, isLockWait, rehearse } from '../../../src/infra/postgres/migration-file.ts'
import type { SqlFile } from '../../../src/infra/postgres/schema-files.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { migrateHere, type OwnDatabase, withDatabase } from '../../support/stack/own-database.ts'
import { refusalOf, runCheckNamed } from '../../support/stack/start-outcome.ts'

const HEAD = '-- Serves builds from 0.1.0 on.\n'
const NO_TRANSACTION = '-- No transaction: can be repeated after it was cut off.\n'
const EXPANDS = {
  name: 'infra/postgres/migrations/0001-expands.sql',
  text: `${HEAD}alter table tenon.tenants add column later text;`,
}

const withMigrated = (work: (database: OwnDatabase) => Promise<void>) =>
  withDatabase(async (database) => {
    await migrateHere(database.url, inject('tenon').masterKey)
    await work(database)
  })

const columnsOf = async (client: Client, table: string) => {
  const { rows } = await client.query(
    "select column_name from information_schema.columns where table_schema = 'tenon' and table_name = $1",
    [table],
  )
  return rows.map(({ column_name }) => column_name)
}

test('migration of a newer build: this one serves and migrates as before if the file says so, also after a restart; else not', async () => {
  await withMigrated(async ({ env, url, client }) => {
    await applyFile(client, EXPANDS)
    expect(await columnsOf(client, 'tenants')).toContain('later')
    expect(await refusalOf('worker', env)).toBe('')
    expect(await runCheckNamed('schema', env)).toMatchObject({
      is: 'good',
      detail: expect.stringMatching(/^A newer build has migrated the database, and this one serves on its/),
    })
    // `npm start` and containers of the old build migrate before they start.
    expect((await migrateHere(url)).applied).toEqual([])
    const contracts = {
      name: 'infra/postgres/migrations/0002-contracts.sql',
      text: '-- Serves builds from 0.2.0 on.\nalter table tenon.tenants drop column later;',
    }
    await applyFile(client, contracts)
    expect(await refusalOf('worker', env)).toMatch(
      /schema of a newer build: .* does not know the file \S+0002-contracts\.sql\./,
    )
    await expect(migrateHere(url)).rejects.toThrow('Start that build, or a newer one.')
  })
})

test('migration: a transaction holds its table: it lets go after half a second and changes nothing; repeated later, it is applied', async () => {
  await withMigrated(async ({ url, client }) => {
    const other = new Client({ connectionString: url })
    await other.connect()
    try {
      await other.query('begin')
      await other.query('select from tenon.tenants')
      const error = await applyFile(client, EXPANDS).catch((caught: unknown) => caught)
      expect([isLockWait(error), String(error)]).toEqual([
        true,
        expect.stringContaining('0001-expands.sql has not got a lock: a transaction holds a table'),
      ])
      expect(await columnsOf(client, 'tenants')).not.toContain('later')
      await other.query('commit')
      await applyFile(client, EXPANDS)
      expect(await columnsOf(client, 'tenants')).toContain('later')
    } finally {
      await other.end()
    }
  })
})

test('migration: autovacuum holds its table: gives way before the migration lets go, since this sets when', async () => {
  await withMigrated(async ({ client }) => {
    const text = `${HEAD}create table tenon.waits as select current_setting('deadlock_timeout') as before, current_setting('lock_timeout') as until;`
    await applyFile(client, { name: 'waits.sql', text })
    expect((await client.query('select before, until from tenon.waits')).rows).toEqual([
      { before: '100ms', until: '500ms' },
    ])
    expect((await client.query('show deadlock_timeout')).rows).toEqual([{ deadlock_timeout: '1s' }])
  })
})

test('migration without a transaction: cut off in the midst: applied again as a whole', async () => {
  await withMigrated(async ({ url, client }) => {
    const file = (builds: string) => ({
      name: 'infra/postgres/migrations/0001-index.sql',
      text: `${HEAD}${NO_TRANSACTION}
drop index concurrently if exists tenon.later;
create ${builds} index concurrently later on tenon.tenants (state);\n`,
    })
    await client.query(
      `insert into tenon.tenants (id, slug, name, state) values ('a', 'a', 'a', 'active'), ('b', 'b', 'b', 'active')`,
    )
    // A build that fails leaves an index that is not valid, as one that is cut off.
    await expect(applyFile(client, file('unique'))).rejects.toThrow('could not create unique index')
    const isValid = async () =>
      (await client.query("select indisvalid from pg_index where indexrelid = 'tenon.later'::regclass")).rows
    expect(await isValid()).toEqual([{ indisvalid: false }])
    await applyFile(client, file(''))
    expect(await isValid()).toEqual([{ indisvalid: true }])
    expect((await migrateHere(url)).applied).toEqual([])
  })
})

test('rehearsal: names locks on tables that are there, and changes nothing', async () => {
  await withMigrated(async ({ client }) => {
    const adds = {
      name: 'b.sql',
      text: `${HEAD}create table tenon.more (id text); create index on tenon.accounts (email);`,
    }
    const noTransaction = { name: 'c.sql', text: `${HEAD}${NO_TRANSACTION}` }
    expect(await rehearse(client, [EXPANDS, adds, noTransaction, EXPANDS])).toEqual([
      expect.objectContaining({ locks: [{ table: 'tenon.tenants', mode: 'AccessExclusiveLock' }] }),
      expect.objectContaining({
        ms: expect.any(Number),
        locks: [{ table: 'tenon.accounts', mode: 'ShareLock' }],
      }),
      { name: 'c.sql', serves_from: '0.1.0', beside_requests: true, locks: null, ms: null },
      { name: EXPANDS.name, serves_from: '0.1.0', beside_requests: false, locks: null, ms: null },
    ])
    expect(await columnsOf(client, 'tenants')).not.toContain('later')
  })
})

test.each([
  ['migration', (client: Client, file: SqlFile) => applyFile(client, file)],
  ['rehearsal', async (client: Client, file: SqlFile) => void (await rehearse(client, [file]))],
])(
  '%s: a file would stop requests for longer than a second: cut off with a sentence, and nothing is changed',
  async (_title, work) => {
    await withMigrated(async ({ url, client }) => {
      const slow = { name: 'slow.sql', text: `${EXPANDS.text}\nselect pg_sleep(3600);` }
      await expect(withAdminSession(url, 'test', (session) => work(session, slow))).rejects.toThrow(
        'The file slow.sql was cut off after 1000 ms, since requests wait for its locks. Nothing of the file was applied.',
      )
      expect(await columnsOf(client, 'tenants')).not.toContain('later')
    })
  },
)

test('migration of a database that nothing uses yet: takes the time that it needs', async () => {
  await withMigrated(async ({ client }) => {
    const file = { name: 'slow.sql', text: `${HEAD}select pg_sleep(1.1);` }
    await applyFile(client, file, false)
  })
})

test('rehearsal: a file does not get its lock while those before it hold theirs: it is not rehearsed', async () => {
  await withMigrated(async ({ url, client }) => {
    const other = new Client({ connectionString: url })
    await other.connect()
    try {
      await other.query('begin; select from tenon.accounts')
      const text = `${HEAD}alter table tenon.accounts add column later text;`
      expect(await rehearse(client, [EXPANDS, { name: 'b.sql', text }])).toEqual([
        expect.objectContaining({ locks: [expect.anything()] }),
        expect.objectContaining({ beside_requests: false, locks: null, ms: null }),
      ])
      expect(await columnsOf(client, 'tenants')).not.toContain('later')
    } finally {
      await other.end()
    }
  })
})

test('rehearsal: the first file takes half of the time: the next one is not rehearsed', async () => {
  await withMigrated(async ({ client }) => {
    const slow = { name: 'a.sql', text: `${HEAD}select pg_sleep(0.51);` }
    expect(await rehearse(client, [slow, EXPANDS])).toEqual([
      expect.objectContaining({ locks: [] }),
      expect.objectContaining({ beside_requests: false, locks: null }),
    ])
  })
})

test.each([
  ['commits', 'create table tenon.more (id text);\ncommit;', 'ends its transaction by itself'],
  [
    'locks a table outside of a transaction',
    `${NO_TRANSACTION}alter table tenon.tenants add column later text;`,
    'does not let requests go on (concurrently, validate constraint): ',
  ],
  [
    'adds a foreign key that counts as checked',
    'alter table tenon.tenants add column later text;\nalter table tenon.tenants add foreign key (later) references tenon.tenants (id);',
    'adds a foreign key to a table that is there: without `not valid`, PostgreSQL would',
  ],
  [
    'validates in a transaction',
    'alter table tenon.tenants add column later text;\nalter table tenon.tenants validate constraint tenants_check;',
    'validates a constraint in a transaction, whose locks it would hold as long',
  ],
])(
  'file that %s: refused by migration and rehearsal, and nothing is changed',
  async (_title, text, sentence) => {
    await withMigrated(async ({ client }) => {
      const file = { name: 'bad.sql', text: `${HEAD}${text}` }
      await expect(rehearse(client, [file])).rejects.toThrow(`The file bad.sql`)
      await expect(applyFile(client, file)).rejects.toThrow(sentence)
      expect(await columnsOf(client, 'tenants')).not.toContain('later')
      expect(await columnsOf(client, 'more')).toEqual([])
    })
  },
)

test('migration validates: a check by all rows of all tenants; a foreign key, whose rows row-level security hides, not at all', async () => {
  await withMigrated(async ({ client }) => {
    await client.query(`set session_replication_role = replica;
      insert into tenon.documents (tenant_id, workspace_id, collection, id, data) values ('a', 'a', 'a', uuidv7(), '{}')`)
    await applyFile(client, {
      name: 'adds.sql',
      text: `${HEAD}alter table tenon.documents add constraint none check (collection <> 'a') not valid,
        add constraint of_workspace foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id) not valid;`,
    })
    const validate = (constraint: string) =>
      applyFile(client, {
        name: `${constraint}.sql`,
        text: `${HEAD}${NO_TRANSACTION}alter table tenon.documents validate constraint ${constraint};`,
      })
    await expect(validate('none')).rejects.toThrow('"none" of relation "documents" is violated by some row')
    await expect(validate('of_workspace')).rejects.toThrow('would be affected by row-level security policy')
    const { rows } = await client.query(
      "select conname from pg_constraint where conrelid = 'tenon.documents'::regclass and not convalidated",
    )
    expect(rows.map(({ conname }) => conname).toSorted()).toEqual(['none', 'of_workspace'])
  })
})

test('two migrations at once, one with an index that is built beside writes: both end', async () => {
  await withMigrated(async ({ url, client }) => {
    // What `migrate` does while it holds its lock.
    await client.query('select pg_advisory_lock(7302516)')
    const second = migrateHere(url)
    await applyFile(client, {
      name: 'infra/postgres/migrations/0001-index.sql',
      text: `${HEAD}${NO_TRANSACTION}
create index concurrently later on tenon.tenants (state);\n`,
    })
    await client.query('select pg_advisory_unlock(7302516)')
    expect((await second).applied).toEqual([])
  })
})

test('`tenon migrate --check`: schema, settings and flows, as lines and as JSON; the exit code says whether this build refuses any', async () => {
  await withMigrated(async ({ url, client }) => {
    const { masterKey } = inject('tenon')
    const check = (env: NodeJS.ProcessEnv, ...args: string[]) =>
      runCommand(['migrate', '--check', ...args], {
        env: { ...process.env, DATABASE_URL: url, TENON_MASTER_KEY: masterKey, ...env },
      })
    expect(await check(inject('tenon').env)).toMatchObject({
      code: 0,
      stdout:
        'Schema: up to date.\nSettings: this build accepts those of this environment.\nFlows: this build accepts all 0 published flows.\n',
    })
    await client.query(`
      insert into tenon.flows (tenant_id, workspace_id, id, name, source, latest_version) values ('t', 'w', 'f', 'broken', 'a', 1);
      insert into tenon.flow_versions (tenant_id, workspace_id, flow_id, version, sha256, source, ir, namespace, document_name, document_version, created_by)
        values ('t', 'w', 'f', 1, 'a', 'do: [', '{}', 'a', 'a', '1.0.0', 'a')`)
    const refused = await check({ ...inject('tenon').env, TENON_RATE_USER: 'often' }, '--json')
    expect([refused.code, JSON.parse(refused.stdout)]).toEqual([
      1,
      {
        ...{ isNew: false, files: [] },
        settings: [expect.stringContaining('TENON_RATE_USER')],
        flows: {
          checked: 1,
          refused: [
            {
              tenant_id: 't',
              workspace_id: 'w',
              name: 'broken',
              version: 1,
              problem: expect.stringMatching(/\.$/),
            },
          ],
        },
      },
    ])
  })
})
