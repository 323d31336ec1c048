/** Setting quotas and reading them back, for the tests of each. */

import { call, type Reply, type Room } from './tenants.ts'

export const limit = (room: Room, limits: Record<string, number>): Promise<Reply> =>
  call('PUT', '/v1/quotas', { as: room.operator, body: { workspace_id: room.workspaceId, limits } })

export const limitTenant = (room: Room, limits: Record<string, number>): Promise<Reply> =>
  call('PUT', '/v1/quotas', { as: room.operator, body: { tenant_id: room.tenantId, limits } })

export async function quota(room: Room, name: string, of: 'workspace' | 'tenant' = 'workspace') {
  const id = of === 'workspace' ? `workspace_id=${room.workspaceId}` : `tenant_id=${room.tenantId}`
  const { body } = await call('GET', `/v1/quotas?${id}`, { as: room.operator })
  return body.quotas[name]
}

/** How often each status came. */
export function tally(replies: readonly Reply[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** So many at once. */
export const rush = <T>(times: number, work: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, (_, n) => work(n)))
