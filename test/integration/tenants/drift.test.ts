/** Differences between the database and other systems are shown, repaired where that hides no loss, and told by events; as are changes of state. */

import {
  DeleteBucketCommand,
  DeleteBucketTaggingCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
} from '@aws-sdk/client-s3'
import { afterEach, expect, test } from 'vitest'
import { rootClient } from '../../support/clients/object-store.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  isScheduled,
  onlyScheduleOf,
  publishScheduled,
  scheduleId,
  withTemporal,
} from '../../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

afterEach(closeSubscriptions)

type At = NonNullable<Parameters<typeof call>[2]>['at']

async function driftOf({ tenantId, workspaceId, operator: as }: TestWorkspace, at?: At) {
  const reply = await call('GET', `/v1/tenants/${tenantId}/drift`, { as, ...(at !== undefined && { at }) })
  expect(reply.status).toBe(200)
  return reply.body.data.find(({ target }: { target: string }) => target === workspaceId)
}

/** As if an hour had passed. */
const makeDue = ({ workspaceId }: TestWorkspace) =>
  asSuperuser('update tenon.workspaces set drift_due_at = now() where id = $1', [workspaceId])

const typesOf = (events: readonly { data: { type: string } }[]) => events.map(({ data }) => data.type)

test('workspace that is as it should be: no differences; of each workspace, and the tenant', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  await publishScheduled(workspace, unique('daily'), '{ cron: 0 1 1 1 * }')
  const { body } = await call('GET', `/v1/tenants/${workspace.tenantId}/drift`, { as: workspace.operator })
  expect(body.data).toEqual(
    [workspace.tenantId, workspace.workspaceId].map((target) => ({
      ...{ target, checked_at: expect.any(String), differences: [], omitted: 0, unread: [] },
    })),
  )
})

test('bucket removed, or without its tag: shown, reported by one event, and not repaired', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { workspaceId, operator: as } = workspace
  const { bucket: Bucket } = (await call('GET', `/v1/workspaces/${workspaceId}`, { as })).body
  const heard = await subscribeToEvents(workspace.service, 'topic=platform.workspace.drifted')
  const s3 = rootClient()
  const { TagSet } = await s3.send(new GetBucketTaggingCommand({ Bucket }))
  expect(TagSet).toHaveLength(1)
  await s3.send(new DeleteBucketTaggingCommand({ Bucket }))
  expect((await driftOf(workspace)).differences).toMatchObject([
    { resource: 'bucket', name: Bucket, kind: 'foreign', repair: 'by_hand' },
  ])
  await s3.send(new DeleteBucketCommand({ Bucket }))
  const missing = { resource: 'bucket', name: Bucket, kind: 'missing', repair: 'by_hand' }
  expect((await driftOf(workspace)).differences).toMatchObject([missing])
  await makeDue(workspace)
  const [event] = await receivedAtLeast(heard, 1)
  expect(event?.data).toMatchObject({
    type: 'platform.workspace.drifted',
    data: { workspace: { id: workspaceId }, differences: [missing] },
  })
  await expect(s3.send(new HeadBucketCommand({ Bucket }))).rejects.toThrow()
})

test('schedule deleted, paused or left over in Temporal: shown, and repaired at the next look', async () => {
  const workspace = await createTestWorkspace()
  const name = unique('daily')
  await publishScheduled(workspace, name, '{ cron: 0 1 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  const handle = <T>(work: (id: string) => Promise<T>) => work(scheduleId(workspace, schedule))
  const heard = await subscribeToEvents(workspace.service, 'topic=platform.workspace.drifted')
  const difference = { resource: 'schedule', name: schedule.id, repair: 'automatic' }
  /** Temporal's index is some moments behind. */
  const isSeen = (kind: string) =>
    eventually(async () => {
      const { differences } = await driftOf(workspace)
      if (differences.length === 0) return undefined
      expect(differences).toMatchObject([{ ...difference, kind }])
      return true
    })

  await handle((id) => withTemporal((client) => client.schedule.getHandle(id).delete()))
  await isSeen('missing')
  await makeDue(workspace)
  await eventually(async () => ((await isScheduled(workspace, schedule)) ? true : undefined))
  expect((await receivedAtLeast(heard, 1))[0]?.data.data.differences).toMatchObject([{ kind: 'missing' }])

  await handle((id) => withTemporal((client) => client.schedule.getHandle(id).pause()))
  await isSeen('altered')
  await makeDue(workspace)
  await eventually(async () => ((await driftOf(workspace)).differences.length === 0 ? true : undefined))

  await asSuperuser('delete from tenon.triggers where id = $1', [schedule.id])
  await eventually(async () => {
    const { differences: found } = await driftOf(workspace)
    return found[0]?.kind === 'left_over' ? true : undefined
  })
  await makeDue(workspace)
  await eventually(async () => ((await isScheduled(workspace, schedule)) ? undefined : true))
})

// The only resource of a tenant itself is its organization in Keycloak: test/conformance/external changes and repairs one.
test('tenant that differed at the look before, and is as it should be at the next one: all of its workspaces hear of it', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId } = workspace
  const stream = (of: TestWorkspace) => subscribeToEvents(of.service, 'topic=platform.tenant.drifted')
  const heard = [await stream(workspace), await stream(await addTestWorkspace(workspace))]
  const stranger = await stream(await createTestWorkspace())
  const found = [{ resource: 'realm', name: tenantId, kind: 'missing', repair: 'automatic' }]
  await asSuperuser('update tenon.tenants set drift = $2, drift_due_at = now() where id = $1', [
    tenantId,
    JSON.stringify(found),
  ])
  for (const events of heard) {
    const received = await receivedAtLeast(events, 2)
    expect(typesOf(received)).toEqual(['platform.tenant.drifted', 'platform.tenant.drifted'])
    expect(received.map(({ data }) => data.data)).toEqual(
      [found, []].map((differences) => ({
        tenant: { id: tenantId, slug: expect.any(String) },
        differences,
      })),
    )
  }
  expect(messages(stranger)).toEqual([])
})

test('object store away: the bucket is unread, and the rest is compared', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const node = await startInProcessNode({ S3_ENDPOINT: 'http://127.0.0.1:9' })
  try {
    const drift = await driftOf(workspace, node.at)
    expect(drift.differences).toEqual([])
    expect(drift.unread).toMatchObject([{ resource: 'bucket', detail: expect.any(String) }])
  } finally {
    await node.close()
  }
})

test('changes of state: one event each, of a workspace for itself alone, of a tenant for all of its workspaces', async () => {
  const since = { 'last-event-id': `${Date.now() - 60_000}-0` }
  const workspace = await provisionTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const { tenantId, workspaceId, operator: as } = workspace
  const change = async (path: string) => {
    const [, noun, id, verb = ''] = path.split('/')
    const reply =
      verb === 'delete'
        ? await call('DELETE', `/v1/${noun}/${id}`, { as })
        : await call('POST', `/v1${path}`, { as, body: {} })
    expect(reply.status).toBeLessThan(300)
  }
  const verbs = ['suspend', 'resume', 'delete', 'restore']
  for (const verb of verbs) await change(`/workspaces/${workspaceId}/${verb}`)
  for (const verb of verbs) await change(`/tenants/${tenantId}/${verb}`)
  const topics = 'topic=platform.workspace.*,platform.tenant.*'
  const own = await eventually(() =>
    subscribeToEvents(workspace.service, topics, since).catch(() => undefined),
  )
  const others = await subscribeToEvents(sibling.service, topics, since)
  const of = (noun: string) =>
    ['suspended', 'resumed', 'deleted', 'restored'].map((verb) => `platform.${noun}.${verb}`)
  const expected = ['platform.workspace.created', ...of('workspace'), ...of('tenant')]
  expect(typesOf(await receivedAtLeast(own, expected.length))).toEqual(expected)
  expect(typesOf(await receivedAtLeast(others, 4))).toEqual(of('tenant'))
})
