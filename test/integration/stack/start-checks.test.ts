/** Checks of API and worker when they start: the schema of their build, the master key, and how their servers are set up. */

import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { checkApi, checkWorker, StartRefused } from '../../../src/app/start-checks/at-start.ts'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { openLog } from '../../../src/infra/log.ts'
import { keyCheckOf } from '../../../src/infra/postgres/installation.ts'
import { migrate } from '../../../src/infra/postgres/migrate.ts'
import { asSuperuser, call, eventually, unique } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'

const SILENT = openLog('silent', 'test')

interface OwnDatabase {
  /** Settings of a process on this database. */
  readonly env: { readonly DATABASE_APP_URL: string }
  /** Of its superuser. */
  readonly url: string
  readonly client: Client
}

/** A database of its own in the server of all tests. */
async function withDatabase(work: (database: OwnDatabase) => Promise<void>): Promise<void> {
  const name = unique('start').replaceAll('-', '_')
  await asSuperuser(`create database ${name} template template0`)
  const url = new URL(`/${name}`, inject('tenon').databaseUrl).href
  const env = { DATABASE_APP_URL: new URL(`/${name}`, inject('tenon').env['DATABASE_APP_URL']).href }
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    await work({ env, url, client })
  } finally {
    await client.end()
    await asSuperuser(`drop database ${name} with (force)`)
  }
}

/** Migrates as the operator of the common platform does, so that the passwords of the roles stay as they are. */
function migrateHere(url: string, masterKey?: string) {
  const of = (purpose: string) => deriveSecret(inject('tenon').masterKey, purpose)
  const passwords = { app: of(DERIVED.appPassword), builder: of(DERIVED.builderPassword) }
  return migrate(url, { ...passwords, ...(masterKey !== undefined && { masterKey }) })
}

const setKey = (client: Client, masterKey: string) =>
  client.query('update public.tenon_installation set key_check = $1', [keyCheckOf(masterKey)])

const otherKey = () => randomBytes(32).toString('base64')

/** The start of a worker with these settings, up to its checks. @returns the message with which it refuses */
async function workerRefusal(env: Readonly<Record<string, string>>): Promise<string> {
  const platform = openInProcessPlatform(env)
  try {
    await checkWorker(platform.startChecks, platform.installation, SILENT)
    return ''
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error
    return error.message
  } finally {
    await platform.close()
  }
}

test('API: master key of another installation: refuses all but health, and is ready as soon as the key is right', async () => {
  const { masterKey } = inject('tenon')
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url, otherKey())
    const platform = openInProcessPlatform(env)
    const node = await startInProcessNode(env, inject('tenon'), platform)
    try {
      await checkApi(platform.startChecks, platform.installation, SILENT)
      const statuses = async (...paths: string[]) => {
        const replies = await Promise.all(paths.map((path) => call('GET', path, { at: node.at })))
        return replies.map(({ status, body }) => [status, body.code])
      }
      const served = [
        '/v1/me',
        '/v1/tenants',
        '/auth/jwks',
        '/v1/collections/a/documents',
        '/v1/mcp/platform/mcp',
      ]
      for (const reply of await statuses(...served)) expect(reply).toEqual([503, 'master_key_wrong'])
      expect(await statuses('/healthz', '/readyz')).toEqual([
        [200, undefined],
        [503, undefined],
      ])
      await setKey(client, masterKey)
      await eventually(async () =>
        (await fetch(`${node.at.url}/auth/jwks`)).status === 200 ? true : undefined,
      )
      expect((await fetch(`${node.at.url}/readyz`)).status).toBe(200)
    } finally {
      await node.close()
    }
  })
})

test('worker: master key of another installation: does not start, says which key to set', async () => {
  await withDatabase(async ({ env, url }) => {
    await migrateHere(url, otherKey())
    expect(await workerRefusal(env)).toMatch(
      /master_key: TENON_MASTER_KEY is not the key of this installation/,
    )
  })
})
