/** Objects that are deleted while an export runs: for how long their bytes stay, and which. */

import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { typeId } from '../../../src/core/ids.ts'
import { ARCHIVE_LIMITS } from '../../../src/features/archives/limits.ts'
import { workspaceRetention } from '../../../src/features/retention/workspace-retention.ts'
import { TENANT_LIMITS } from '../../../src/features/tenants/limits.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const HOUR_S = 3_600
/** Seconds of one attempt of an export, with its waiting. */
const ATTEMPT_S = (ARCHIVE_LIMITS.attemptMs + TENANT_LIMITS.provisioningStepMs) / 1_000

let platform: Platform
beforeAll(() => {
  platform = openInProcessPlatform()
})
afterAll(() => platform.close())

/** An export that was asked for days ago, and whose last attempt began so many seconds ago; null: none has. */
const recordExport = (
  { tenantId }: TestWorkspace,
  { target, begunS }: { target: string; begunS: number | null },
) =>
  asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state, created_at, result)
      values ($1, $2, $3, $4, 'none', 'running', now() - interval '9 days',
        jsonb_build_object('begun_at', now() - make_interval(secs => $5)))`,
    [
      typeId('op', v7()),
      tenantId,
      target === tenantId ? 'tenant.export' : 'workspace.export',
      target,
      begunS,
    ],
  )

/** Objects that were deleted so many seconds ago. @returns of which of them a look of the retention leaves the bytes */
async function keptOf(workspace: TestWorkspace, deletedS: readonly number[]): Promise<number[]> {
  const { service: as, workspaceId } = workspace
  const path = `/v1/objects/${await bucketOf(workspace)}/a.txt`
  const blobs = new Map<string, number>()
  for (const seconds of deletedS) {
    await call('PUT', path, { as, headers: { 'content-type': 'text/plain' }, body: 'bytes' })
    expect((await call('DELETE', path, { as })).status).toBe(200)
    const [row] = await asSuperuser<{ blob: string }>(
      `update tenon.unused_blobs set unused_at = now() - make_interval(secs => $2)
        where workspace_id = $1 and unused_at > now() - interval '30 minutes' returning blob`,
      [workspaceId, seconds],
    )
    blobs.set(row?.blob ?? '', seconds)
  }
  const [scope, service] = [scopeOf(platform, workspace), scopeOf(platform, workspace, 'service')]
  await workspaceRetention([]).run(
    { scope, service, isActive: true },
    { retention: { workspace: {}, tenant: {} } },
  )
  const left = await asSuperuser<{ blob: string }>(
    'select blob from tenon.unused_blobs where workspace_id = $1',
    [workspaceId],
  )
  return left.map(({ blob }) => blobs.get(blob) ?? 0).sort((a, b) => a - b)
}

test('export of a workspace: bytes that were deleted since its attempt began stay, those before and of a neighbour do not', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const neighbour = await addTestWorkspaceWithStorage(workspace)
  await recordExport(workspace, { target: workspace.workspaceId, begunS: 3 * HOUR_S })
  // A deletion has the time of its beginning, and may have ended after the export began.
  const [since, shortlyBefore, before] = [2 * HOUR_S, 3 * HOUR_S + 10, 4 * HOUR_S]
  expect(await keptOf(workspace, [since, shortlyBefore, before])).toEqual([since, shortlyBefore])
  expect(await keptOf(neighbour, [since, before])).toEqual([])
})

test('export of a tenant: bytes of all its workspaces stay', async () => {
  const first = await createTestWorkspaceWithStorage()
  const second = await addTestWorkspaceWithStorage(first)
  await recordExport(first, { target: first.tenantId, begunS: 3 * HOUR_S })
  const [since, before] = [2 * HOUR_S, 4 * HOUR_S]
  for (const workspace of [first, second]) expect(await keptOf(workspace, [since, before])).toEqual([since])
})

test('export that has not begun, or whose attempt must have ended: holds no bytes', async () => {
  for (const begunS of [null, ATTEMPT_S + 60]) {
    const workspace = await createTestWorkspaceWithStorage()
    await recordExport(workspace, { target: workspace.workspaceId, begunS })
    expect(await keptOf(workspace, [2 * HOUR_S])).toEqual([])
  }
})
