/** Creates documents of many owners: a collection with a rule for their owners, and a copy in a table of the competitor. */

import { importJWK, type JWK, SignJWT } from 'jose'
import { Pool } from 'pg'
import { Secrets } from '../../src/infra/crypto/secrets.ts'
import type { Running } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sized } from '../measure.ts'
import { COLLECTION, columnsOf, DOCUMENTS, makeTable, OURS, PROPERTIES, SCHEMA, VALUES } from './documents.ts'

export const OWNERS = sized(1_000, 40)
/** The table of the competitor. */
export const TABLE = 'owned'

export const ownerOf = (n: number): string => `user-${n % OWNERS}`

export interface OwnedDocuments extends TestWorkspace {
  readonly anonKey: string
  /** The value of the header `authorization` for an owner. Each call issues another token. */
  readonly tokenOf: (owner: string) => Promise<string>
}

/** Creates and fills everything. */
export async function loadOwnedDocuments(running: Running): Promise<OwnedDocuments> {
  const pool = new Pool({ connectionString: running.databaseUrl, max: 1 })
  try {
    const workspace = await createTestWorkspace(running)
    await load(workspace, pool)
    const { workspaceId: workspace_id } = workspace
    const anon = { workspace_id, kind: 'anon', name: 'bench' }
    const { key: anonKey } = await workspace.admin.post<{ key: string }>('/v1/api-keys', anon)
    return { ...workspace, anonKey, tokenOf: await issuerOf(workspace, running, pool) }
  } finally {
    await pool.end()
  }
}

/** Writes directly into PostgreSQL as its superuser: users would take as many requests. */
async function load({ admin, tenantId, workspaceId }: TestWorkspace, pool: Pool): Promise<void> {
  const { id: schemaId } = await admin.post<{ id: string }>('/v1/schemas', {
    ...{ workspace_id: workspaceId, collection: COLLECTION, store: 'relational', schema: SCHEMA },
    indexes: [{ fields: ['_owner'] }],
    access: { user: { read: { _owner: '$user.id' } } },
  })
  const columns = Object.keys(PROPERTIES)
    .map(await columnsOf(pool, schemaId))
    .join(', ')
  const ours = `tenon_data.${schemaId}`
  await pool.query(
    `insert into ${ours} (tenant_id, workspace_id, id, ${columns}, owner)
      select $1, $2, uuidv7(), ${VALUES}, 'user-' || n % ${OWNERS} from generate_series(1, ${DOCUMENTS}) n`,
    [tenantId, workspaceId],
  )
  await pool.query(`
    create schema bench; ${makeTable(TABLE)}
    create index on bench.${TABLE} (owner, id);
    insert into bench.${TABLE} (${OURS}, owner, ${Object.keys(PROPERTIES).join(', ')})
      select ${OURS}, owner, ${columns} from ${ours}`)
  for (const table of [ours, `bench.${TABLE}`]) await pool.query(`vacuum analyze ${table}`)
}

/** Signs tokens as the issuer gives them to browsers, with its own key. */
async function issuerOf(
  { tenantId: tenant_id, workspaceId: workspace_id }: TestWorkspace,
  { url, masterKey }: Running,
  pool: Pool,
): Promise<OwnedDocuments['tokenOf']> {
  const { rows } = await pool.query<{ sealed: Buffer }>('select sealed from tenon.signing_keys limit 1')
  const sealed = rows[0]?.sealed ?? Buffer.alloc(0)
  const jwk: JWK = JSON.parse(new Secrets(masterKey).open('signing-key', sealed).toString())
  const key = await importJWK(jwk, 'ES256')
  let issued = 0
  return async (sub) => {
    const claims = {
      ...{ sub, tenant_id, workspace_id, role: 'user', roles: ['user'], jti: `token-${issued++}` },
      ...{ email: `${sub}@example.com`, email_verified: true, claims: { team: 'red' } },
    }
    const token = new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', ...(jwk.kid && { kid: jwk.kid }) })
      .setIssuer(`${url}/auth`)
      .setAudience(`${url}/v1`)
      .setIssuedAt()
      .setExpirationTime('1h')
    return `Bearer ${await token.sign(key)}`
  }
}
