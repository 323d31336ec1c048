/** Sends requests under an Idempotency-Key, and reads what is stored of them. */

import { createHash, createHmac } from 'node:crypto'
import { inject } from 'vitest'
import { canonical } from '../../../src/core/json.ts'
import { deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { asSuperuser, type Caller, call, type Reply, type Room } from '../fixtures/tenants.ts'

export const DOCUMENTS = '/v1/collections/orders/documents'

export const post = (as: Caller, key: string, body: unknown, path = DOCUMENTS) =>
  call('POST', path, { as, body, headers: { 'idempotency-key': key } })

export const replayed = ({ headers }: Reply) => headers.get('idempotent-replayed')

export const rowsOf = (room: Room) =>
  asSuperuser<Record<string, unknown>>('select * from tenon.idempotency where workspace_id = $1', [
    room.workspaceId,
  ])

/** Number of documents in a collection. */
export async function count(room: Room, collection = 'orders'): Promise<number> {
  const { body } = await call('GET', `/v1/collections/${collection}/documents?page[size]=200`, {
    as: room.service,
  })
  return body.data.length
}

/**
 * Simulates a process that died after the effect: no reply is stored, and the lease has expired. @param body
 * of the request if it was an operator's, since those of all tests are stored together
 */
export async function cutOff(room: Room, body: unknown = null): Promise<void> {
  const digest = createHash('sha256').update(canonical(body)).digest()
  const key = deriveSecret(inject('tenon').masterKey, 'idempotency')
  const request = createHmac('sha256', key).update(digest).digest()
  await asSuperuser(
    `update tenon.idempotency set status = null, reply = null, held_until = now() - interval '1 second'
     where workspace_id = $1 or (workspace_id = '' and request = $2)`,
    [room.workspaceId, request],
  )
}

export async function deploy(room: Room, name: string, source: string, config = {}): Promise<void> {
  const body = { workspace_id: room.workspaceId, name, source, config }
  const { status } = await call('POST', '/v1/functions', { as: room.operator, body })
  if (status !== 201) throw new Error(`a function was refused: ${status}`)
}
