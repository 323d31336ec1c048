/** Faults at every step of a creation: either the tenant or workspace has all that it needs, or nothing is left of it. */

import { CreateBucketCommand, HeadBucketCommand, ListBucketsCommand } from '@aws-sdk/client-s3'
import { activityInfo } from '@temporalio/activity'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { typeId } from '../../src/core/ids.ts'
import { Problem } from '../../src/core/problem.ts'
import type { WorkspaceRef } from '../../src/core/tenant.ts'
import { QUEUES } from '../../src/core/work.ts'
import { OPTIONAL, PLANS, UNDO } from '../../src/features/tenants/provisioning.ts'
import type { Drift } from '../../src/features/tenants/resources/drift.ts'
import { rootClient } from '../support/clients/object-store.ts'
import { rowsOf, tracesOf } from '../support/fixtures/owned-traces.ts'
import { FATAL, faultsOf } from '../support/fixtures/provisioning-faults.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'
import { type ProvisioningNode, startProvisioningNode } from '../support/stack/provisioning-worker.ts'
import { openTemporal } from '../support/stack/temporal.ts'

let node: ProvisioningNode
let workspace: TestWorkspace
let as: Caller
beforeAll(async () => {
  ;[node, workspace] = await Promise.all([startProvisioningNode(), createTestWorkspace()])
  as = workspace.operator
})
afterAll(() => node?.close())

const WAIT = { prefer: 'wait=30' }
const ask = (method: string, path: string, body?: object) =>
  call(method, path, { as, at: node.at, headers: WAIT, ...(body !== undefined && { body }) })

/** Names that contain the slug: of buckets at the store, and of rows. */
async function traces(slug: string): Promise<{ buckets: string[]; rows: number }> {
  const { Buckets = [] } = await rootClient().send(new ListBucketsCommand({}))
  const names = Buckets.flatMap(({ Name = '' }) => (Name.includes(slug) ? [Name] : []))
  const [{ n } = { n: -1 }] = await asSuperuser<{ n: number }>(
    'select count(*)::int as n from tenon.buckets where name like $1',
    [`%${slug}%`],
  )
  return { buckets: names, rows: n }
}

const create = (plan: string, slug: string) =>
  plan === 'tenant'
    ? ask('POST', '/v1/tenants', { name: 'T', slug })
    : ask('POST', '/v1/workspaces', {
        ...{ tenant_id: workspace.tenantId, name: 'W', slug },
        ...(plan === 'bare_workspace' && { bucket: null }),
      })

const creations = ['tenant', 'workspace', 'bare_workspace'] as const
type Creation = (typeof creations)[number]
const pathOf = (plan: string, id: string) => `/v1/${plan === 'tenant' ? 'tenants' : 'workspaces'}/${id}`

/** What every system has of a tenant or workspace; not its audit entries and workflows, of which each attempt leaves some. */
async function inventoryOf(plan: Creation, id: string, slug: string) {
  const owner = plan === 'tenant' ? { tenantId: id } : { tenantId: workspace.tenantId, workspaceId: id }
  // Its events are in its streams by then.
  await eventually(async () => ('tenon.outbox' in (await rowsOf(owner, node.at)) ? undefined : true))
  const { buckets } = await traces(slug)
  const { rows, workflows: _, keys, ...others } = await tracesOf(owner, node, buckets)
  const { 'tenon.audit': __, ...kept } = rows
  const names = keys.map((key) => key.replaceAll(id, 'id')).sort()
  return { ...others, buckets: others.buckets.length, keys: names, rows: kept }
}

/** What is left of a creation that has failed before its first effect, and what one that has succeeded has. */
const inventories = new Map<string, object>()
beforeAll(async () => {
  for (const plan of creations) {
    const [refused, made] = [unique('saga'), unique('saga')]
    node.wrap(() => async () => {
      throw FATAL()
    })
    const failed = (await create(plan, refused)).body
    inventories.set(`${plan} provisioning_failed`, await inventoryOf(plan, failed.id, refused))
    node.wrap((run) => run)
    const active = (await create(plan, made)).body
    inventories.set(`${plan} active`, await inventoryOf(plan, active.id, made))
    expect([failed.state, active.state]).toEqual(['provisioning_failed', 'active'])
  }
})

/** Those of optional systems are tested with these (test/conformance/external). */
const steps = (plan: Creation) => PLANS[plan].filter((step) => !(step in OPTIONAL))
const undoOf = (step: string) => UNDO[step as keyof typeof UNDO]

describe.each(creations.flatMap((plan) => steps(plan).map((step) => ({ plan, step }))))(
  'creation $plan, step $step',
  ({ plan, step }) => {
    test.each(faultsOf(undoOf(step)))(
      '$name: $state, with everything or nothing',
      async ({ name, fault, state, undoing }) => {
        const slug = unique('saga')
        node.wrap((run) => fault(run, step, undoOf(step) ?? ''))
        const made = await create(plan, slug)
        // An activation that fails after its effect was made: the workspace is in use, and nothing is undone.
        const expected = step.startsWith('activate') && name === 'fails after its effect' ? 'active' : state
        expect([made.status, made.body.state]).toEqual([201, expected])
        const { id } = made.body
        const left = await inventoryOf(plan, id, slug)
        const usual = inventories.get(`${plan} ${expected}`)
        if (undoing === 'fails') expect(left).not.toEqual(usual)
        else expect(left).toEqual(usual)
        node.wrap((run) => run)
        if (expected === 'provisioning_failed')
          expect((await ask('POST', `${pathOf(plan, id)}/retry`)).body.state).toBe('succeeded')
        expect((await ask('GET', pathOf(plan, id))).body.state).toBe('active')
        expect(withoutJobs(await inventoryOf(plan, id, slug))).toEqual(
          withoutJobs(inventories.get(`${plan} active`)),
        )
      },
    )
  },
)

/** A retry is a job of its own. */
// biome-ignore lint/suspicious/noExplicitAny: of any shape that an inventory has
function withoutJobs(inventory: any): object {
  const { 'tenon.operations': _, ...rows } = inventory.rows
  return { ...inventory, rows }
}

describe('step that waits for longer than it may', () => {
  /** Starts a creation whose steps wait for 1.5 s at most. @returns its operation at its end */
  async function createImpatiently() {
    const [id, operationId, uuid] = [typeId('ws', v7()), typeId('op', v7()), v7()]
    const { tenantId } = workspace
    const target = { tenantId, workspaceId: id } as WorkspaceRef
    await asSuperuser(
      `with made as (insert into tenon.workspaces (id, tenant_id, name, slug, bucket, state) values ($1, $2, 'W', $3, $3, 'provisioning'))
       insert into tenon.operations (id, tenant_id, type, target, workflow_id, state)
       values ($4, $2, 'workspace.create', $1, $2 || ':-:workspace-provision:' || $5, 'running')`,
      [id, tenantId, unique('late'), operationId, uuid],
    )
    const env = { ...node.at.env, TEMPORAL_NAMESPACE: node.namespace }
    const { temporal, close } = openTemporal({ ...node.at, env })
    const input = { operation_id: operationId, kind: 'workspace', target, steps: PLANS.workspace, undo: UNDO }
    try {
      await temporal.workflowsOf({ tenantId: target.tenantId, workspaceId: '-' }).start({
        ...{ definition: 'provision', queue: QUEUES.provisioning, subject: 'workspace-provision', uuid },
        ...{ input: { ...input, step_wait_ms: 1_500 }, summary: 'test' },
      })
    } finally {
      await close()
    }
    return eventually(async () => {
      const { body } = await ask('GET', `/v1/operations/${operationId}`)
      return body.finished_at === null ? undefined : body
    })
  }

  test('every attempt fails: fails with the reason of the last one', async () => {
    node.wrap((run) => async (context, input, step) => {
      if (step !== 'bucket') return run(context, input, step)
      throw new Problem('dependency_unavailable', { detail: 'The store is away.' })
    })
    const { state, error } = await createImpatiently()
    expect([state, error.code]).toEqual(['failed', 'dependency_unavailable'])
    expect(error.detail).toBe('The step bucket failed. The store is away.')
  })

  test('an attempt that never ends: fails, and says so', async () => {
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    node.wrap((run) => async (context, input, step) => {
      if (step !== 'bucket') return run(context, input, step)
      await released
      throw FATAL()
    })
    const { state, error } = await createImpatiently()
    release()
    expect([state, error.code]).toEqual(['failed', 'dependency_unavailable'])
    expect(error.detail).toBe('The step bucket failed. The step has waited for too long.')
  })
})

test('step that fails and cannot be undone: the operation names both; deleted later, nothing is left', async () => {
  const slug = unique('saga')
  const undo = UNDO.bucket as string
  node.wrap((run) => (call_, input, step) => {
    if (step === undo) throw FATAL()
    const done = run(call_, input, step)
    return step === 'bucket' ? done.then(() => Promise.reject(FATAL())) : done
  })
  const made = await create('workspace', slug)
  expect(made.body.state).toBe('provisioning_failed')
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  const { body } = await call('GET', '/v1/operations', { as: admin })
  const [job] = body.data.filter(({ target }: { target: string }) => target === made.body.id)
  expect(job.error.detail).toBe('The step bucket failed. Injected. The step remove_bucket failed. Injected.')
  expect(job.steps).toMatchObject([
    { name: 'bucket', state: 'failed' },
    { name: 'remove_bucket', state: 'failed' },
  ])
  expect((await traces(slug)).buckets).toHaveLength(1)
  node.wrap((run) => run)
  const removal = await ask('DELETE', `/v1/workspaces/${made.body.id}`)
  await eventually(
    async () =>
      (await ask('GET', `/v1/operations/${removal.body.id}`)).body.state === 'succeeded' ? true : undefined,
    60_000,
  )
  expect(await traces(slug)).toEqual({ buckets: [], rows: 0 })
})

test('step of a thousand attempts: goes on in a new workflow before its history is too long', async () => {
  const slug = unique('saga')
  const runs = new Set<string | undefined>()
  let attempts = 0
  node.wrap((run) => async (call_, input, step) => {
    if (step !== 'activate_workspace') return run(call_, input, step)
    runs.add(activityInfo().workflowExecution?.runId)
    attempts += 1
    return attempts < 1_000 || run(call_, input, step)
  })
  // Its first step marks the operation as begun, so that nobody else starts it.
  const { body } = await create('workspace', slug)
  const id = body.target ?? body.id
  await eventually(
    async () => ((await ask('GET', `/v1/workspaces/${id}`)).body.state === 'active' ? true : undefined),
    120_000,
  )
  expect([attempts, runs.size]).toEqual([1_000, 2])
})

test('retry while the failed creation is being undone: 409, and succeeds afterwards', async () => {
  const slug = unique('saga')
  let end: () => void = () => {}
  const undone = new Promise<void>((resolve) => {
    end = resolve
  })
  node.wrap((run) => async (call_, input, step) => {
    if (step === 'remove_bucket') {
      await run(call_, input, step)
      await undone
    }
    const done = await run(call_, input, step)
    if (step === 'bucket') throw FATAL()
    return done
  })
  const body = { tenant_id: workspace.tenantId, name: 'W', slug }
  const job = (await call('POST', '/v1/workspaces', { as, at: node.at, body })).body
  const path = `/v1/workspaces/${job.target}`
  await eventually(async () =>
    (await ask('GET', path)).body.state === 'provisioning_failed' ? true : undefined,
  )
  const refused = await ask('POST', `${path}/retry`)
  expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  expect(refused.body.detail).toContain('is being undone')
  end()
  await eventually(async () =>
    (await ask('GET', `/v1/operations/${job.id}`)).body.state === 'failed' ? true : undefined,
  )
  node.wrap((run) => run)
  expect((await ask('POST', `${path}/retry`)).body.state).toBe('succeeded')
  expect((await ask('GET', path)).body.state).toBe('active')
})

test('two jobs of one creation, one fails when the other has completed: the workspace keeps its bucket', async () => {
  const slug = unique('saga')
  let release: () => void = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let first: string | undefined
  node.wrap((run) => async (call_, input, step) => {
    first ??= input.operation_id
    if (step !== 'bucket' || input.operation_id !== first) return run(call_, input, step)
    await held
    throw FATAL()
  })
  const body = { tenant_id: workspace.tenantId, name: 'W', slug }
  const job = (await call('POST', '/v1/workspaces', { as, at: node.at, body })).body
  const path = `/v1/workspaces/${job.target}`
  await eventually(async () => (first === undefined ? undefined : true))
  expect((await ask('POST', `${path}/retry`)).body.state).toBe('succeeded')
  release()
  await eventually(async () =>
    (await ask('GET', `/v1/operations/${job.id}`)).body.state === 'failed' ? true : undefined,
  )
  expect((await ask('GET', path)).body.state).toBe('active')
  const { buckets } = await traces(slug)
  expect(buckets).toHaveLength(1)
  await rootClient().send(new HeadBucketCommand({ Bucket: buckets[0] }))
})

test('bucket of another under the same name: the creation fails, and the bucket stays', async () => {
  node.wrap((run) => run)
  const Bucket = unique('foreign')
  await rootClient().send(new CreateBucketCommand({ Bucket }))
  const body = { tenant_id: workspace.tenantId, name: 'W', slug: unique('saga'), bucket: Bucket }
  expect((await ask('POST', '/v1/workspaces', body)).body.state).toBe('provisioning_failed')
  await rootClient().send(new HeadBucketCommand({ Bucket }))
})

test('20 creations at the same time: all complete, and no bucket is without a workspace', async () => {
  node.wrap((run) => run)
  const slug = unique('saga')
  const made = await Promise.all(Array.from({ length: 20 }, (_, n) => create('workspace', `${slug}-${n}`)))
  expect(made.map(({ body }) => body.state)).toEqual(Array(20).fill('active'))
  const { buckets, rows } = await traces(slug)
  expect([buckets.length, rows]).toEqual([20, 20])
  const ids = made.map(({ body }) => body.id)
  const { body } = await ask('GET', `/v1/tenants/${workspace.tenantId}/drift?page[size]=200`)
  const drifts = body.data.filter(({ target }: { target: string }) => ids.includes(target))
  expect(drifts.map(({ differences, unread }: Drift) => [differences, unread])).toEqual(
    Array(20).fill([[], []]),
  )
})
