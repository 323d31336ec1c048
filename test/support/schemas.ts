/** Declarations of collections in tests. */

import { call, type Room } from './tenants.ts'

/** Declares a collection, puts a document into it, and has an index built over that. */
export async function buildIndex({ workspaceId, operator: as, service }: Room): Promise<void> {
  const schema = { properties: { n: { type: 'integer' } } }
  const body = { workspace_id: workspaceId, collection: 'indexed', store: 'relational', schema }
  const declared = await call('POST', '/v1/schemas', { as, body })
  await call('POST', '/v1/collections/indexed/documents', { as: service, body: { n: 1 } })
  const path = `/v1/schemas/${declared.body.id}`
  const change = { body: { indexes: [{ fields: ['n'] }] }, headers: { prefer: 'wait=30' } }
  const built = await call('PUT', path, { as, ...change })
  if (built.status >= 300) throw new Error(JSON.stringify(built.body))
}
