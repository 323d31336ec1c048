/** Stored idempotency claims expire and are bounded; a workspace over its bound loses its own oldest. */

import { describe, expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { post, replayed, rowsOf } from '../../support/clients/idempotency.ts'
import { asSuperuser, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

test('expired claims: any new claim: removes some of them, of any workspace', async () => {
  const [silent, busy] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await asSuperuser(
    `insert into tenon.idempotency (tenant_id, workspace_id, role, id, request, seed, expires_at)
     select $1, $2, 'tenon_service', sha256(n::text::bytea), sha256('x'), '\\x00112233445566778899aabbccddeeff', now() - interval '9 days'
     from generate_series(1, 50) n`,
    [silent.tenantId, silent.workspaceId],
  )
  await post(busy.service, 'k', { n: 1 })
  expect((await rowsOf(silent)).length).toBeLessThanOrEqual(30)
  for (const key of ['a', 'b']) await post(busy.service, key, { n: 1 })
  expect(await rowsOf(silent)).toEqual([])
  expect(await rowsOf(busy)).toHaveLength(3)
})

describe('bounds of a workspace', () => {
  /** Older rows in the partition of the workspace's single row. */
  const fill = (workspace: TestWorkspace, role: string, rows: number, bytes: number, more = '') =>
    asSuperuser(
      `insert into tenon.idempotency
         (tenant_id, workspace_id, role, id, request, seed, expires_at, made_at, status, reply, held_until)
       select i.tenant_id, i.workspace_id, $2, set_byte(sha256(n::text::bytea), 0, get_byte(i.id, 0)), i.request,
         i.seed, i.expires_at, now() - n * interval '1 second', 200, convert_to(repeat('x', $4::integer), 'UTF8'), null
       from generate_series(1, $3::integer) n, tenon.idempotency i where i.workspace_id = $1 ${more}`,
      [workspace.workspaceId, role, rows, bytes],
    )

  test('claims: bound by rows reached: the own oldest are dropped', async () => {
    const [workspace, neighbour] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    for (const { service } of [workspace, neighbour]) await post(service, 'k', { n: 1 })
    await fill(workspace, 'tenon_service', 500, 1)
    await fill(neighbour, 'tenon_service', 500, 1)
    expect(replayed(await post(workspace.service, 'k', { n: 1 }))).toBe('true')
    const left = await rowsOf(workspace)
    expect(left).toHaveLength(ACCESS_LIMITS.idempotencyRepliesMax)
    const oldest = Math.min(...left.map(({ made_at }) => (made_at as Date).getTime()))
    expect(Date.now() - oldest).toBeLessThan((ACCESS_LIMITS.idempotencyRepliesMax + 60) * 1_000)
    expect(await rowsOf(neighbour)).toHaveLength(501)
  })

  test('claims: bound by bytes reached: the own oldest are dropped; anon keys never drop those of service keys', async () => {
    const workspace = await createTestWorkspace()
    await post(workspace.service, 'k', { n: 1 })
    await fill(workspace, 'tenon_anon', 3, 500_000)
    await fill(workspace, 'tenon_service', 4, 500_000, "and i.role = 'tenon_service'")
    expect(replayed(await post(workspace.service, 'k', { n: 1 }))).toBe('true')
    const roles = (await rowsOf(workspace)).map(({ role }) => role).sort()
    expect(roles).toEqual([...Array(3).fill('tenon_anon'), ...Array(3).fill('tenon_service')])
  })

  test('claims: bound reached: running ones are kept', async () => {
    const workspace = await createTestWorkspace()
    await post(workspace.service, 'k', { n: 1 })
    await fill(workspace, 'tenon_service', 450, 1)
    const running = `update tenon.idempotency set status = null, reply = null, held_until = now() + interval '1 minute'
      where workspace_id = $1 and made_at < now() - interval '445 seconds'`
    await asSuperuser(running, [workspace.workspaceId])
    await post(workspace.service, 'k', { n: 1 })
    const left = await rowsOf(workspace)
    expect(left.filter(({ status }) => status === null).length).toBeGreaterThanOrEqual(5)
    expect(left.length).toBeLessThanOrEqual(ACCESS_LIMITS.idempotencyRepliesMax + 6)
  })
})
