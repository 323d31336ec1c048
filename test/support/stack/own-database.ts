/** A database of its own in the PostgreSQL of all tests, for what changes a whole installation. */

import { Client } from 'pg'
import { inject } from 'vitest'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { type Migrated, migrate } from '../../../src/infra/postgres/migrate.ts'
import { asSuperuser, unique } from '../fixtures/tenants.ts'

export interface OwnDatabase {
  /** Settings of a process on this database. */
  readonly env: { readonly DATABASE_APP_URL: string }
  /** Of its superuser. */
  readonly url: string
  readonly client: Client
}

export async function withDatabase<T>(work: (database: OwnDatabase) => Promise<T>): Promise<T> {
  const name = unique('start').replaceAll('-', '_')
  await asSuperuser(`create database ${name} template template0`)
  const url = new URL(`/${name}`, inject('tenon').databaseUrl).href
  const env = { DATABASE_APP_URL: new URL(`/${name}`, inject('tenon').env['DATABASE_APP_URL']).href }
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    return await work({ env, url, client })
  } finally {
    await client.end()
    await asSuperuser(`drop database ${name} with (force)`)
  }
}

/** Migrates as the operator of the common platform does, so that the passwords of the roles stay as they are. */
export function migrateHere(url: string, masterKeys?: string): Promise<Migrated> {
  const of = (purpose: string) => deriveSecret(inject('tenon').masterKey, purpose)
  const passwords = { app: of(DERIVED.appPassword), builder: of(DERIVED.builderPassword) }
  return migrate(url, { ...passwords, ...(masterKeys !== undefined && { masterKeys }) })
}
