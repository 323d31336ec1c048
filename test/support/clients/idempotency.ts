/** Sends requests under an Idempotency-Key, and reads what is stored of them. */

import { createHash } from 'node:crypto'
import { inject } from 'vitest'
import { canonical } from '../../../src/core/json.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { asSuperuser, type Caller, call, type Reply, type TestWorkspace } from '../fixtures/tenants.ts'

export const DOCUMENTS = '/v1/collections/orders/documents'

export const send = (
  method: string,
  as: Caller,
  key: string,
  body: unknown,
  path: string,
  at = inject('tenon'),
) => call(method, path, { as, body, at, headers: { 'idempotency-key': key } })

export const post = (as: Caller, key: string, body: unknown, path = DOCUMENTS) =>
  send('POST', as, key, body, path)

export const replayed = ({ headers }: Reply) => headers.get('idempotent-replayed')

export const rowsOf = (workspace: TestWorkspace) =>
  asSuperuser<Record<string, unknown>>('select * from tenon.idempotency where workspace_id = $1', [
    workspace.workspaceId,
  ])

/** Number of documents in a collection. */
export async function count(workspace: TestWorkspace, collection = 'orders'): Promise<number> {
  const { body } = await call('GET', `/v1/collections/${collection}/documents?page[size]=200`, {
    as: workspace.service,
  })
  return body.data.length
}

/**
 * Simulates a process that died after the effect: no reply is stored but an output in the effect's transaction, and the
 * lease has expired. @param body
 * of the request if it was an operator's, since those of all tests are stored together
 */
export async function simulateCrash(workspace: TestWorkspace, body: unknown = null): Promise<void> {
  await asSuperuser(
    `update tenon.idempotency set status = null, reply = case when done then reply end, held_until = now() - interval '1 second'
     where workspace_id = $1 or (workspace_id = '' and request = $2)`,
    [workspace.workspaceId, digestOf(body)],
  )
}

/** Ends the leases of a workspace, and of an operator's request with this body, as if their processes were gone for seconds. */
export const endLeases = (workspace: TestWorkspace, body: unknown = null) =>
  asSuperuser(
    `update tenon.idempotency set held_until = now()
     where held_until > now() and (workspace_id = $1 or (workspace_id = '' and request = $2))`,
    [workspace.workspaceId, digestOf(body)],
  )

/** The digest of a request as it is stored. */
function digestOf(body: unknown): Buffer {
  const digest = createHash('sha256').update(canonical(body)).digest()
  return new Secrets(inject('tenon').masterKey).macs('idempotency', digest)[0]
}

export async function deploy(
  workspace: TestWorkspace,
  name: string,
  source: string,
  config = {},
): Promise<void> {
  const body = { workspace_id: workspace.workspaceId, name, source, config }
  const { status } = await call('POST', '/v1/functions', { as: workspace.operator, body })
  if (status !== 201) throw new Error(`a function was refused: ${status}`)
}
