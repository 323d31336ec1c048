/** Schema migration: applied once to an empty database, from unchanged files. */

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
      /before 0\.1\.0\. Start with an empty database:/,
    )
    expect((await client.query("select to_regnamespace('tenon') as schema")).rows).toEqual([{ schema: null }])
  })
})

test('migration: file changed after it was applied: refused', async () => {
  await withDatabase(async (url, client) => {
    const { applied } = await migrate(url, passwordsOf())
    expect(applied).toContain('access/audit/audit.sql')
    await client.query("update public.tenon_migrations set sha256 = '' where name = 'access/audit/audit.sql'")
    await expect(migrate(url, passwordsOf())).rejects.toThrow(/audit\.sql was changed after/)
  })
})
