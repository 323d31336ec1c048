/** What a role sees and does in the database itself, for tests that look behind the walls. */

import { Client } from 'pg'
import { inject } from 'vitest'
import { call, type Room, unique } from '../fixtures/tenants.ts'

/** A relational collection with one document. @returns the schema */
export async function aTable(room: Room, more: object = {}): Promise<{ id: string; collection: string }> {
  const body = {
    ...{ workspace_id: room.workspaceId, collection: unique('c'), store: 'relational' },
    ...{ schema: { properties: { n: { type: 'integer' } } }, ...more },
  }
  const { body: schema } = await call('POST', '/v1/schemas', { as: room.operator, body })
  const path = `/v1/collections/${schema.collection}/documents`
  await call('POST', path, { as: room.service, body: { n: 1 } })
  return schema
}

/** Statements of the login role under a mask, in one transaction that leaves nothing. @returns the last one's rows */
export async function masked<T extends object>(
  mask: string,
  ref: readonly string[],
  text: string,
): Promise<T[]> {
  const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  await client.connect()
  try {
    await client.query('begin')
    await client.query(
      "select set_config('role', $1, true), set_config('tenon.tenant', $2, true), set_config('tenon.workspace', $3, true)",
      [mask, ref[0] ?? '', ref[1] ?? ''],
    )
    return ([await client.query(text)].flat().at(-1)?.rows ?? []) as T[]
  } finally {
    await client.end()
  }
}
