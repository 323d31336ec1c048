/** A platform without its own worker, and a worker in the test's process that purges: nothing moves but what a test has begun, and steps can be made to fail. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type Owner, type Servers, tracesOf } from '../fixtures/owned-traces.ts'
import { publishScheduled } from '../fixtures/schedules.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../fixtures/tenants.ts'
import { type ProvisioningNode, startProvisioningNode } from './provisioning-worker.ts'
import { type Running, type Started, startPlatform } from './start.ts'
import { bucketOf } from './workspace-settings.ts'

export interface PurgePlatform {
  readonly started: Started
  readonly node: ProvisioningNode
  close(): Promise<void>
}

/** @param settings of the node */
export async function startPurgePlatform(
  settings: Readonly<Record<string, string>> = {},
): Promise<PurgePlatform> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-purge-'))
  const started = await startPlatform(dir, { lasting: true })
  const end = async () => {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
  try {
    await started.stack.supervisor.end('worker')
    const node = await startProvisioningNode(settings, started.running)
    const close = async () => {
      try {
        await node.close()
      } finally {
        await end()
      }
    }
    return { started, node, close }
  } catch (error) {
    await end()
    throw error
  }
}

/** A workspace that has something in every system. @param tenant in which it is made; absent: one of its own */
export async function furnishedWorkspace(
  { at }: ProvisioningNode,
  tenant?: TestWorkspace,
): Promise<TestWorkspace> {
  const workspace =
    tenant === undefined
      ? await createTestWorkspaceWithStorage(at)
      : await addTestWorkspaceWithStorage(tenant, at)
  const { service, operator: as, workspaceId } = workspace
  const ok = async (method: string, path: string, options: Parameters<typeof call>[2]) => {
    const reply = await call(method, path, { ...options, at })
    expect(reply.status, `${path}: ${JSON.stringify(reply.body)}`).toBeLessThan(300)
  }
  const declaration = { workspace_id: workspaceId, collection: 'declared', store: 'relational', schema: {} }
  await ok('POST', '/v1/schemas', { as, body: declaration })
  for (const collection of ['declared', 'notes'])
    await ok('POST', `/v1/collections/${collection}/documents`, { as: service, body: { n: 1 } })
  await ok('PUT', `/v1/objects/${await bucketOf(workspace, at)}/kept`, { as: service, body: 'ours' })
  await ok('POST', '/v1/events/publish', { as: service, body: { topic: 'told', data: 1 } })
  await publishScheduled(workspace, 'daily', '{ every: { hours: 24 } }', undefined, at)
  const path = `${workspace.flows}/definitions/daily/executions`
  // Larger than what Temporal keeps itself.
  await ok('POST', path, { as, body: { input: { text: 'x'.repeat(300_000) } } })
  return workspace
}

/** Deletes without a time to restore it. @returns the operation, and how it is begun */
export async function deleteNow(
  { tenantId, workspaceId }: Owner,
  { operator: as }: TestWorkspace,
  node: ProvisioningNode,
) {
  const { at } = node
  const [kind, id] = workspaceId === undefined ? ['tenants', tenantId] : ['workspaces', workspaceId]
  const { status, body } = await call('DELETE', `/v1/${kind}/${id}?grace_days=0`, { as, at })
  expect([status, body.state], JSON.stringify(body)).toEqual([202, 'queued'])
  return {
    id: body.id as string,
    begin: async () => {
      // Every process knows of the deletion by then.
      await asSuperuser(
        `update tenon.${kind} set updated_at = updated_at - interval '1 minute' where id = $1`,
        [id],
        at,
      )
      await node.startDue(tenantId, body.id)
    },
  }
}

export const operationOf = async (
  { operator: as }: Pick<TestWorkspace, 'operator'>,
  id: string,
  at: Running,
) => (await call('GET', `/v1/operations/${id}`, { as, at })).body

/** Waits until the operation has ended. */
export const endOf = (of: Pick<TestWorkspace, 'operator'>, id: string, at: Running) =>
  eventually(async () => {
    const job = await operationOf(of, id, at)
    return job.finished_at === null ? undefined : job
  }, 120_000)

/** Tables whose rows outlive a purge: tombstones, and what a workspace leaves to its tenant. */
const KEPT = {
  tenant: ['tenon.operations', 'tenon.payload_keys', 'tenon.workspaces'],
  workspace: ['tenon.audit', 'tenon.usage_records'],
}

/** Expects that no system has anything of the owner any more. @param buckets that it had @param purges whose workflows may be there still */
export async function expectNothingOf(
  owner: Owner,
  servers: Servers,
  buckets: readonly string[],
  purges = 0,
): Promise<void> {
  const kept = KEPT[owner.workspaceId === undefined ? 'tenant' : 'workspace']
  const { rows, workflows, ...others } = await tracesOf(owner, servers, buckets)
  expect(Object.keys(rows).filter((table) => !kept.includes(table))).toEqual([])
  // A tenant has the workflow of the purge itself until its leftovers are removed.
  expect(
    workflows.filter((name) => !/:-:tenant-provision:[^ ]+ (RUNNING|COMPLETED|FAILED)$/.test(name)),
  ).toEqual([])
  expect(workflows.length).toBeLessThanOrEqual(purges)
  expect(others).toEqual({ schedules: [], keys: [], buckets: [], objects: [], payloads: [] })
}

/** The step of an operation that waits for a server, once it does. */
export const waitingStep = (id: string, step: string, at: Running) =>
  eventually(async () => {
    const [row] = await asSuperuser<{ steps: { name: string; state: string; detail?: string }[] }>(
      'select steps from tenon.operations where id = $1',
      [id],
      at,
    )
    return row?.steps.find(({ name, state }) => name === step && state === 'waiting')
  }, 60_000)
