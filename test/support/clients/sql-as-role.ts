/** Runs SQL statements as a role of the database, for tests of row-level security. */

import { Client } from 'pg'
import { inject } from 'vitest'
import { call, type TestWorkspace, unique } from '../fixtures/tenants.ts'

/** Creates a relational collection with one document. @returns the schema */
export async function createTable(
  workspace: TestWorkspace,
  more: object = {},
): Promise<{ id: string; collection: string }> {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' },
    ...{ schema: { properties: { n: { type: 'integer' } } }, ...more },
  }
  const { body: schema } = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  const path = `/v1/collections/${schema.collection}/documents`
  await call('POST', path, { as: workspace.service, body: { n: 1 } })
  return schema
}

/**
 * Runs statements of the login role after it has set a role, in one transaction that is rolled back. @param
 * ref tenant, workspace, and for tenon_user the JSON of the end user @returns the last one's rows
 */
export async function sqlAsRole<T extends object>(
  mask: string,
  ref: readonly string[],
  text: string,
): Promise<T[]> {
  const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  await client.connect()
  try {
    await client.query('begin')
    await client.query(
      `select set_config('role', $1, true), set_config('tenon.tenant', $2, true),
        set_config('tenon.workspace', $3, true), set_config('tenon.user', $4, true)`,
      [mask, ref[0] ?? '', ref[1] ?? '', ref[2] ?? ''],
    )
    return ([await client.query(text)].flat().at(-1)?.rows ?? []) as T[]
  } finally {
    await client.end()
  }
}
