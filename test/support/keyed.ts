/** Requests under an Idempotency-Key, and a look at what is kept of them. */

import { asSuperuser, type Caller, call, type Reply, type Room } from './tenants.ts'

export const DOCUMENTS = '/v1/collections/orders/documents'

export const post = (as: Caller, key: string, body: unknown, path = DOCUMENTS) =>
  call('POST', path, { as, body, headers: { 'idempotency-key': key } })

export const replayed = ({ headers }: Reply) => headers.get('idempotent-replayed')

export const rowsOf = (room: Room) =>
  asSuperuser<Record<string, unknown>>('select * from tenon.idempotency where workspace_id = $1', [
    room.workspaceId,
  ])
