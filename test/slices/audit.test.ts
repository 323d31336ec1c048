/** The audit log as its readers see it: what leaves an entry, what stands in it, who sees it. */

import { expect, test } from 'vitest'
import { aRoom, type Caller, call, eventually, type Room, tokenOf } from '../support/tenants.ts'

interface Entry {
  readonly seq: number
  readonly operation: string
  readonly outcome: string
  readonly [member: string]: unknown
}

export async function entriesOf(as: Caller, query: string): Promise<Entry[]> {
  const { body, status } = await call('GET', `/v1/audit?page[size]=200${query}`, { as })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data
}

const ofRoom = (room: Room, more = '') => entriesOf(room.operator, `&tenant_id=${room.tenantId}${more}`)

test('what changes structure is in the log before its reply; what a key writes, a moment later', async () => {
  const room = await aRoom()
  const made = await call('POST', '/v1/api-keys', {
    as: room.operator,
    body: { workspace_id: room.workspaceId, kind: 'anon', name: 'x' },
    headers: { 'x-request-id': 'the-request' },
  })
  const [entry] = await ofRoom(room)
  expect(entry).toMatchObject({
    operation: 'api_key.create',
    outcome: 'done',
    status: 201,
    request_id: 'the-request',
    target: '/v1/api-keys',
    tenant_id: room.tenantId,
    workspace_id: room.workspaceId,
    before: null,
    actor: { role: 'operator', kind: 'token' },
  })
  expect(made.status).toBe(201)
  await call('POST', '/v1/collections/c/documents', { as: room.service, body: { a: 1 } })
  await eventually(async () => (await ofRoom(room, '&operation=collection.create'))[0])
  const verified = await call('GET', `/v1/audit/verify?tenant_id=${room.tenantId}`, { as: room.operator })
  expect(verified.body).toMatchObject({ ok: true, next: null, first_bad: null })
  expect(verified.body.checked).toBe(verified.body.head.seq)
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: room.tenantId })
  expect((await entriesOf(admin, '')).length).toBe(verified.body.checked)
})
