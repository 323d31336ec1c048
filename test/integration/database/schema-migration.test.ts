/** Schema migration: applied once to an empty database, from unchanged files. */

import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { migrate } from '../../../src/infra/postgres/migrate.ts'
import { asSuperuser, unique } from '../../support/fixtures/tenants.ts'

const passwordsOf = () => {
  const { masterKey } = inject('tenon')
  return {
    app: deriveSecret(masterKey, DERIVED.appPassword),
    builder: deriveSecret(masterKey, DERIVED.builderPassword),
  }
}

test('migration: repeated and concurrent: applied once', async () => {
  const { databaseUrl } = inject('tenon')
  const dump = () =>
    asSuperuser(`select table_name, column_name, data_type, column_default from information_schema.columns
      where table_schema = 'tenon' order by 1, 2`)
  const before = await dump()
  const migrations = await Promise.all([
    migrate(databaseUrl, passwordsOf()),
    migrate(databaseUrl, passwordsOf()),
  ])
  expect(migrations.map(({ applied }) => applied)).toEqual([[], []])
  expect(await dump()).toEqual(before)
})

/** An empty database of its own in the same cluster. */
async function withDatabase(work: (url: string, client: Client) => Promise<void>): Promise<void> {
  const name = unique('migrate').replaceAll('-', '_')
  await asSuperuser(`create database ${name} template template0`)
  const url = new URL(`/${name}`, inject('tenon').databaseUrl).href
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    await work(url, client)
  } finally {
    await client.end()
    await asSuperuser(`drop database ${name} with (force)`)
  }
}

test('migration: database from before the first release: refused, unchanged', async () => {
  await withDatabase(async (url, client) => {
    await client.query('create table public.tenon_migrations (name text primary key, sha256 text not null)')
    await client.query("insert into public.tenon_migrations values ('0001-roles.sql', '')")
    await expect(migrate(url, passwordsOf())).rejects.toThrow(
      /before 0\.1\.0\. .* start with an empty database:/,
    )
    expect((await client.query("select to_regnamespace('tenon') as schema")).rows).toEqual([{ schema: null }])
  })
})

test('migration: schema of a newer or another build, or another master key: refused with the next step, unchanged', async () => {
  await withDatabase(async (url, client) => {
    const masterKey = randomBytes(32).toString('base64')
    const { applied } = await migrate(url, { ...passwordsOf(), masterKeys: masterKey })
    expect(applied).toContain('access/audit/audit.sql')
    const others = { app: 'other', builder: 'other' }
    await expect(migrate(url, { ...others, masterKeys: randomBytes(32).toString('base64') })).rejects.toThrow(
      /^TENON_MASTER_KEY is not the key of this installation: .* Set the key with which /,
    )
    await client.query("update public.tenon_migrations set sha256 = '' where name = 'access/audit/audit.sql'")
    await expect(migrate(url, others)).rejects.toThrow(
      /^The database was made by another build, with another version of the file access\/audit\/audit\.sql\. Start the build /,
    )
    await client.query("insert into public.tenon_migrations values ('features/later.sql', '')")
    await expect(migrate(url, others)).rejects.toThrow(
      /^The database has the schema of a newer build: this one does not know the file features\/later\.sql\. Start that build/,
    )
    // Other tests migrate databases of the same server, and set the same passwords anew.
    for (const [username, password] of Object.entries({
      tenon_app: passwordsOf().app,
      tenon_builder: passwordsOf().builder,
    })) {
      const login = new Client({
        connectionString: Object.assign(new URL(url), { username, password }).href,
      })
      await login.connect()
      await login.end()
    }
  })
})
