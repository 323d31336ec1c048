/** Making the schema: once, of an empty database, and only from the files that were applied. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { migrate } from '../../src/platform/pg/migrate.ts'
import { DERIVED, deriveSecret } from '../../src/platform/secrets.ts'
import { asSuperuser } from '../support/tenants.ts'

const passwordsOf = () => {
  const { masterKey } = inject('tenon')
  return {
    app: deriveSecret(masterKey, DERIVED.appPassword),
    builder: deriveSecret(masterKey, DERIVED.builderPassword),
  }
}

test('migrations are idempotent, also two at once', async () => {
  const { databaseUrl } = inject('tenon')
  const dump = () =>
    asSuperuser(`select table_name, column_name, data_type, column_default from information_schema.columns
      where table_schema = 'tenon' order by 1, 2`)
  const before = await dump()
  const runs = await Promise.all([migrate(databaseUrl, passwordsOf()), migrate(databaseUrl, passwordsOf())])
  expect(runs.map(({ applied }) => applied)).toEqual([[], []])
  expect(await dump()).toEqual(before)
})

test('a database of a build before the first release: refused, and left as it was', async () => {
  const { databaseUrl } = inject('tenon')
  const name = `early_${Date.now()}`
  await asSuperuser(`create database ${name} template template0`)
  const early = new URL(`/${name}`, databaseUrl).href
  const client = new Client({ connectionString: early })
  try {
    await client.connect()
    await client.query('create table public.tenon_migrations (name text primary key, sha256 text not null)')
    await client.query("insert into public.tenon_migrations values ('0001-roles.sql', '')")
    await expect(migrate(early, passwordsOf())).rejects.toThrow(
      /before 0\.1\.0\. Start with an empty database/,
    )
    expect((await client.query("select to_regnamespace('tenon') as schema")).rows).toEqual([{ schema: null }])
  } finally {
    await client.end()
    await asSuperuser(`drop database ${name} with (force)`)
  }
})

test('a file that was changed after it was applied: refused', async () => {
  const { databaseUrl } = inject('tenon')
  const files = 'public.tenon_migrations'
  const [row] = await asSuperuser<{ sha256: string }>(`select sha256 from ${files} where name = 'audit.sql'`)
  const set = (digest: string) =>
    asSuperuser(`update ${files} set sha256 = $1 where name = 'audit.sql'`, [digest])
  await set('another')
  try {
    await expect(migrate(databaseUrl, passwordsOf())).rejects.toThrow(/audit\.sql was changed after/)
  } finally {
    await set(row?.sha256 ?? '')
  }
})
