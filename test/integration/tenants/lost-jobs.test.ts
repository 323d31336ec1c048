/** Jobs of tenants and workspaces whose workflow was never started, is another one's, or was ended in Temporal. */

import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { typeId } from '../../../src/core/ids.ts'
import type { TenantRef } from '../../../src/core/tenant.ts'
import { QUEUES } from '../../../src/core/work.ts'
import { PLANS } from '../../../src/features/tenants/provisioning.ts'
import { buildIndex } from '../../support/fixtures/schemas.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openTemporal, withRawClient } from '../../support/stack/temporal.ts'

let temporal: ReturnType<typeof openTemporal>
beforeAll(() => {
  temporal = openTemporal()
})
afterAll(() => temporal.close())

const jobOf = async ({ operator: as }: TestWorkspace, id: string) =>
  (await call('GET', `/v1/operations/${id}`, { as })).body

const becomes = (workspace: TestWorkspace, id: string, state: string) =>
  eventually(async () => ((await jobOf(workspace, id)).state === state ? true : undefined), 60_000).catch(
    async () => expect(await jobOf(workspace, id)).toMatchObject({ state }),
  )

const workflowOf = async (id: string): Promise<string> => {
  const [row] = await asSuperuser<{ workflow_id: string }>(
    'select workflow_id from tenon.operations where id = $1',
    [id],
  )
  return row?.workflow_id ?? ''
}

/** Starts the workflow of a job, as the platform does. @returns its id */
const startPurge = (target: TenantRef, operationId: string, workflow: string) =>
  temporal.temporal.workflowsOf({ tenantId: target.tenantId, workspaceId: '-' }).start({
    ...{ definition: 'provision', queue: QUEUES.provisioning, subject: 'workspace-provision' },
    uuid: workflow.split(':').at(-1) ?? '',
    input: { operation_id: operationId, kind: 'workspace', target, steps: PLANS.purge },
    summary: 'test',
  })

test('purge of a deletion that was undone: purges nothing of the deletion that followed', async () => {
  const workspace = await createTestWorkspace()
  const { operator: as, workspaceId, tenantId } = workspace
  const path = `/v1/workspaces/${workspaceId}`
  const undone = (await call('DELETE', path, { as })).body.id
  expect((await call('POST', `${path}/restore`, { as })).body.state).toBe('active')
  const { body: second } = await call('DELETE', path, { as })
  // Due, and not started: the leader starts none whose tenant is purged itself.
  await asSuperuser('update tenon.tenants set purged_from = now() where id = $1', [tenantId])
  await asSuperuser('update tenon.workspaces set delete_after = now() where id = $1', [workspaceId])
  const ref = { tenantId, workspaceId } as TenantRef
  const workflow = await startPurge(ref, undone, await workflowOf(undone))
  const work = temporal.temporal.workflowsOf({ tenantId: ref.tenantId, workspaceId: '-' })
  expect(await work.ended(workflow, 60_000)).toBe(true)
  const rows = await asSuperuser('select state, purged_from from tenon.workspaces where id = $1', [
    workspaceId,
  ])
  expect(rows).toEqual([{ state: 'deleting', purged_from: null }])
  expect((await jobOf(workspace, second.id)).state).toBe('queued')
})

test('purge that was ended in Temporal: the operation fails with the next request, which begins another one', async () => {
  const workspace = await createTestWorkspace()
  const { operator: as, workspaceId, tenantId } = workspace
  const path = `/v1/workspaces/${workspaceId}?grace_days=0`
  await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { n: 1 } })
  // Its purge waits for the end of this creation.
  const creation = `${tenantId}:-:workspace-provision:${v7()}`
  const [held] = await holdCreation(workspace, creation)
  const { body: first } = await call('DELETE', path, { as })
  await eventually(async () =>
    (await jobOf(workspace, first.id)).steps.at(-1)?.name === 'end_of_creation' ? true : undefined,
  )
  const again = await call('DELETE', path, { as })
  expect([again.status, again.body.detail]).toEqual([409, expect.stringContaining('under way')])
  const purge = await workflowOf(first.id)
  await withRawClient(async (client) => {
    await client.workflow.getHandle(purge).terminate('test')
    await client.workflow.getHandle(creation).terminate('test')
  })
  await asSuperuser(`update tenon.operations set state = 'failed', finished_at = now() where id = $1`, [held])
  // As the steps have done before the purge was cut off.
  await asSuperuser('delete from tenon.documents where workspace_id = $1', [workspaceId])
  const second = await call('DELETE', path, { as })
  expect([second.status, second.body.id === first.id]).toEqual([202, false])
  expect((await jobOf(workspace, first.id)).state).toBe('failed')
  await becomes(workspace, second.body.id, 'succeeded')
  expect((await jobOf(workspace, second.body.id)).result.before.documents).toBe(1)
})

test('creation that was ended in Temporal while it was undone: retried', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, tenantId, operator: as } = workspace
  await asSuperuser(`update tenon.workspaces set state = 'provisioning_failed' where id = $1`, [workspaceId])
  const ended = await recordUnstarted(workspace, { type: 'workspace.create', state: 'running' })
  const retried = await call('POST', `/v1/workspaces/${workspaceId}/retry`, {
    as,
    headers: { prefer: 'wait=30' },
  })
  expect([retried.status, retried.body.state, retried.body.tenant_id]).toEqual([202, 'succeeded', tenantId])
  expect((await jobOf(workspace, ended)).state).toBe('failed')
})

/** A creation of the workspace whose workflow does not end. @returns the id of its operation */
async function holdCreation({ workspaceId, tenantId }: TestWorkspace, workflow: string): Promise<string[]> {
  const id = workspaceId.replace('ws_', 'op_')
  await asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state)
     values ($1, $2, 'workspace.create', $3, $4, 'running')`,
    [id, tenantId, workspaceId, workflow],
  )
  await temporal.temporal.workflowsOf({ tenantId, workspaceId: '-' } as TenantRef).start({
    ...{ definition: 'provision', queue: QUEUES.provisioning, subject: 'workspace-provision' },
    uuid: workflow.split(':').at(-1) ?? '',
    input: { operation_id: id, kind: 'workspace', target: { tenantId, workspaceId }, steps: [] },
    summary: 'test',
    delayMs: 600_000,
  })
  return [id]
}

/** As a process leaves it that dies between the record of a creation and the start of its workflow. */
async function recordUnstarted(
  { workspaceId, tenantId }: TestWorkspace,
  {
    type,
    target = workspaceId,
    state = 'queued',
  }: { readonly type: string; readonly target?: string; readonly state?: string },
): Promise<string> {
  const id = typeId('op', v7())
  await asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state, created_at)
     values ($1, $2, $3, $4, $5, $6, now() - interval '1 hour')`,
    [
      id,
      tenantId,
      type,
      target,
      `${tenantId}:-:${target === tenantId ? 'tenant' : 'workspace'}-provision:${v7()}`,
      state,
    ],
  )
  return id
}

test('creations whose process died before their workflow was started: completed', async () => {
  const [ofWorkspace, ofTenant] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await asSuperuser(`update tenon.workspaces set state = 'provisioning' where id = $1`, [
    ofWorkspace.workspaceId,
  ])
  await asSuperuser(`update tenon.tenants set state = 'provisioning' where id = $1`, [ofTenant.tenantId])
  const target = ofTenant.tenantId
  const jobs = [
    await recordUnstarted(ofWorkspace, { type: 'workspace.create' }),
    await recordUnstarted(ofTenant, { type: 'tenant.create', target }),
  ]
  for (const [n, of] of [ofWorkspace, ofTenant].entries()) await becomes(of, jobs[n] as string, 'succeeded')
  const { operator: as } = ofWorkspace
  const records = [`/v1/workspaces/${ofWorkspace.workspaceId}`, `/v1/tenants/${target}`]
  for (const path of records) expect((await call('GET', path, { as })).body.state).toBe('active')
})

test('removal of a user, export, and build of an index that were not started: done; of what is gone: ended', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const [user, schema] = [await insertUser(workspace), await declareUnbuilt(workspace)]
  const jobs = [
    await recordUnstarted(workspace, { type: 'user.delete', target: user }),
    await recordUnstarted(workspace, { type: 'workspace.export' }),
    await recordUnstarted(workspace, { type: 'index.build', target: schema }),
  ]
  for (const id of jobs) await becomes(workspace, id, 'succeeded')
  expect(await asSuperuser('select 1 from tenon.users where id = $1', [user])).toEqual([])
  const gone = await recordUnstarted(workspace, { type: 'workspace.export', target: typeId('ws', v7()) })
  await becomes(workspace, gone, 'failed')
  expect((await jobOf(workspace, gone)).error.code).toBe('not_found')
})

test('removals whose user is gone, since their last step was done and not recorded: succeeded', async () => {
  const workspace = await createTestWorkspace()
  const jobs = [
    await recordUnstarted(workspace, { type: 'user.delete', target: typeId('usr', v7()) }),
    // The last step takes the user out of the operation, too.
    await recordUnstarted(workspace, { type: 'user.anonymize', target: '-' }),
  ]
  for (const id of jobs) {
    await becomes(workspace, id, 'succeeded')
    expect(await jobOf(workspace, id)).toMatchObject({ error: null, finished_at: expect.any(String) })
  }
})

async function insertUser({ tenantId, workspaceId }: TestWorkspace): Promise<string> {
  const id = typeId('usr', v7())
  await asSuperuser(
    `insert into tenon.users (id, tenant_id, workspace_id, email, name, created_by) values ($1, $2, $3, $4, 'U', 'test')`,
    [id, tenantId, workspaceId, `${id}@example.com`],
  )
  return id
}

/** A schema whose index is still to be built. */
async function declareUnbuilt(workspace: TestWorkspace): Promise<string> {
  await buildIndex(workspace)
  const [row] = await asSuperuser<{ id: string }>(
    `update tenon.schemas set indexes = replace(indexes::text, '"ready"', '"building"')::jsonb
     where workspace_id = $1 returning id`,
    [workspace.workspaceId],
  )
  return row?.id ?? ''
}
