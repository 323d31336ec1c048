/** Deletes tenants and workspaces that are in use: restored in time, they go on; purged, nothing is left of them but a report. */

import {
  DeleteBucketTaggingCommand,
  GetBucketTaggingCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutBucketTaggingCommand,
} from '@aws-sdk/client-s3'
import { afterEach, expect, inject, test } from 'vitest'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { createSweepResources } from '../../isolation/sweep-rows.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { closeSubscriptions, endOf as streamEnd, subscribeToEvents } from '../../support/clients/sse.ts'
import { rowsOf } from '../../support/fixtures/owned-traces.ts'
import { publish, readExecution, start, waitForStatus } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { withReadingClient } from '../../support/stack/temporal.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

/** They are the tenant's. */
const KEPT = ['tenon.audit', 'tenon.usage_records']

const DOCUMENTS = '/v1/collections/notes/documents'

const remove = (kind: 'tenants' | 'workspaces', id: string, { operator: as }: TestWorkspace, query = '') =>
  call('DELETE', `/v1/${kind}/${id}${query}`, { as })

/** Waits for the end of the deletion. @returns its operation */
async function purged({ operator: as }: TestWorkspace, operationId: string) {
  const read = async () => (await call('GET', `/v1/operations/${operationId}`, { as })).body
  await eventually(
    async () => (['succeeded', 'failed'].includes((await read()).state) ? true : undefined),
    120_000,
  ).catch(() => {})
  const operation = await read()
  expect([operation.state, operation.error, operation.steps]).toEqual(['succeeded', null, expect.any(Array)])
  return operation
}

/** Tables that only requests change. */
const SETTLED = ['api_keys', 'documents', 'flow_versions', 'function_versions', 'schemas', 'users']

/** A fingerprint of what the requests of a test have made in a workspace, by table. */
async function contentOf(id: string): Promise<Record<string, string>> {
  const digests = SETTLED.map(
    (
      name,
    ) => `select '${name}' as name, md5(string_agg(to_jsonb(t)::text, '' order by to_jsonb(t)::text)) as digest
      from tenon.${name} t where workspace_id = $1`,
  )
  const rows = await asSuperuser<{ name: string; digest: string }>(digests.join(' union all '), [id])
  return Object.fromEntries(rows.map(({ name, digest }) => [name, digest]))
}

async function workflowsOf(query: string): Promise<string[]> {
  return withReadingClient(async (client) => {
    const ids = []
    for await (const { workflowId } of client.workflow.list({ query })) ids.push(workflowId)
    return ids
  })
}

test('workspace in use: deleted: everything in it stops; restored: it goes on where it was', async () => {
  const workspace = await createTestWorkspace()
  const { service: as, workspaceId, operator } = workspace
  await call('POST', DOCUMENTS, { as, body: { n: 1 } })
  await publish(workspace, 'naps', '  - nap: { wait: { seconds: 3 } }\n  - after: { set: { done: true } }\n')
  const execution = await start(workspace, 'naps')
  const { status, body: job, headers } = await remove('workspaces', workspaceId, workspace)
  expect([status, job.type, job.state, job.target]).toEqual([202, 'workspace.delete', 'queued', workspaceId])
  expect(headers.get('location')).toBe(`/v1/operations/${job.id}`)
  expect((await call('GET', DOCUMENTS, { as })).body.code).toBe('workspace_suspended')
  const { body: record } = await call('GET', `/v1/workspaces/${workspaceId}`, { as: operator })
  expect(record.state).toBe('deleting')
  const days = (Date.parse(record.delete_after) - Date.now()) / 86_400_000
  expect([days > 6.9, days < 7.1]).toEqual([true, true])
  await waitForStatus(workspace, execution, 'suspended')
  // Repeated, it is the same deletion.
  expect((await remove('workspaces', workspaceId, workspace)).body.id).toBe(job.id)
  const restored = await call('POST', `/v1/workspaces/${workspaceId}/restore`, { as: operator })
  expect([restored.status, restored.body.state, restored.body.delete_after]).toEqual([200, 'active', null])
  expect((await call('GET', DOCUMENTS, { as })).body.data).toHaveLength(1)
  await waitForStatus(workspace, execution, 'completed')
  expect((await call('GET', `/v1/operations/${job.id}`, { as: operator })).body.state).toBe('cancelled')
  const again = await call('POST', `/v1/workspaces/${workspaceId}/restore`, { as: operator })
  // Repeated, it changes nothing.
  expect([again.status, again.body.state]).toEqual([200, 'active'])
})

test('suspended workspace: deleted and restored: suspended still; an admin of the tenant deletes none that an operator suspended', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, tenantId, operator: as } = workspace
  const path = `/v1/workspaces/${workspaceId}`
  await call('POST', `${path}/suspend`, { as, body: {} })
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: tenantId })
  const refused = await call('DELETE', path, { as: admin })
  expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
  expect((await call('DELETE', path, { as })).status).toBe(202)
  expect((await call('POST', `${path}/restore`, { as })).body.state).toBe('suspended')
  for (const days of [-1, 91, 1.5, 'x'])
    expect((await call('DELETE', `${path}?grace_days=${days}`, { as })).status).toBe(400)
})

test('restoration: by an admin of the tenant of what an operator has deleted, or beyond the quota: refused, and nothing goes on by itself', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, tenantId, operator: as } = workspace
  const path = `/v1/workspaces/${workspaceId}`
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: tenantId })
  expect((await call('DELETE', path, { as })).status).toBe(202)
  const [byAdmin, later] = [
    await call('POST', `${path}/restore`, { as: admin }),
    await call('DELETE', `${path}?grace_days=90`, { as: admin }),
  ]
  expect([byAdmin.body.code, later.body.code]).toEqual(['forbidden', 'forbidden'])
  const limits = { workspaces: 1 }
  expect((await call('PUT', '/v1/quotas', { as, body: { tenant_id: tenantId, limits } })).status).toBe(200)
  const body = { tenant_id: tenantId, name: 'W', slug: 'w', bucket: null }
  expect((await call('POST', '/v1/workspaces', { as, body, headers: { prefer: 'wait=30' } })).status).toBe(
    201,
  )
  expect((await call('POST', `${path}/restore`, { as })).body.code).toBe('quota_exceeded')
  // No workflow is left that would restore it when there is room.
  const running = `TenantId = '${tenantId}' AND ExecutionStatus = 'Running'`
  await eventually(async () => ((await workflowsOf(running)).length === 0 ? true : undefined))
  expect((await call('GET', path, { as })).body.state).toBe('deleting')
})

test('workspace that was deleted before its tenant: not restored once the purge of the tenant has begun', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, tenantId, operator: as } = workspace
  const path = `/v1/workspaces/${workspaceId}`
  await call('DELETE', path, { as })
  await asSuperuser('update tenon.tenants set purged_from = now() where id = $1', [tenantId])
  const refused = await call('POST', `${path}/restore`, { as })
  expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  expect((await call('GET', path, { as })).body.state).toBe('deleting')
})

test('workspace whose resources differ: purged: its tombstone names none of them, and no event follows', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, tenantId, operator: as } = workspace
  const differences = JSON.stringify([{ resource: 'host_proof', name: 'shop.example' }])
  await asSuperuser('update tenon.workspaces set drift = $2 where id = $1', [workspaceId, differences])
  const { body: job } = await call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=0`, { as })
  await purged(workspace, job.id)
  const rows = await asSuperuser('select state, drift from tenon.workspaces where id = $1', [workspaceId])
  expect(rows).toEqual([{ state: 'deleted', drift: [] }])
  expect(Object.keys(await rowsOf({ tenantId, workspaceId })).filter((name) => !KEPT.includes(name))).toEqual(
    [],
  )
})

test('workspace and tenant whose creation has failed, configured meanwhile: deleted at once, nothing is left', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const { workspaceId, tenantId, operator: as } = workspace
  await asSuperuser(`update tenon.workspaces set state = 'provisioning_failed' where id = $1`, [workspaceId])
  const settings = { workspace_id: workspaceId, anon: { collections: 'read' } }
  expect((await call('POST', '/v1/services/configure', { as, body: settings })).status).toBe(200)
  const ofWorkspace = (await remove('workspaces', workspaceId, workspace, '?grace_days=30')).body
  await purged(workspace, ofWorkspace.id)
  expect(Object.keys(await rowsOf({ tenantId, workspaceId })).filter((name) => !KEPT.includes(name))).toEqual(
    [],
  )
  expect((await call('GET', `/v1/workspaces/${workspaceId}`, { as })).status).toBe(404)

  await asSuperuser(`update tenon.tenants set state = 'provisioning_failed' where id = $1`, [other.tenantId])
  const { body: ofTenant } = await remove('tenants', other.tenantId, other)
  expect((await purged(other, ofTenant.id)).result.after).toEqual({})
  const restored = await call('POST', `/v1/tenants/${other.tenantId}/restore`, { as })
  expect(restored.status).toBe(404)
  expect(Object.keys(await rowsOf({ tenantId: other.tenantId })).sort()).toEqual(
    expect.not.arrayContaining(['tenon.audit', 'tenon.quotas', 'tenon.services']),
  )
  const sealed = 'select 1 from tenon.payload_keys where tenant_id = $1 and sealed is not null'
  expect(await asSuperuser(sealed, [other.tenantId])).toEqual([])
})

test('workspace with everything: purged: nothing is left, its neighbour is as it was, and the report says so', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const neighbour = await addTestWorkspaceWithStorage(workspace)
  await Promise.all([workspace, neighbour].map(createSweepResources))
  const bucket = await bucketOf(workspace)
  const { workspaceId, tenantId, operator: as } = workspace
  const slug = (await call('GET', `/v1/workspaces/${workspaceId}`, { as })).body.slug
  const before = await rowsOf({ tenantId, workspaceId })
  expect(Object.keys(before).length).toBeGreaterThan(30)
  expect((await workflowsOf(`WorkspaceId = '${workspaceId}'`)).length).toBeGreaterThan(0)
  const content = await contentOf(neighbour.workspaceId)

  const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
  const { result } = await purged(workspace, job.id)
  expect(result.before).toMatchObject({ documents: expect.any(Number), stored_objects: expect.any(Number) })
  expect(result.after).toEqual({})
  expect(result.signature.split('.')).toHaveLength(3)

  expect(Object.keys(await rowsOf({ tenantId, workspaceId })).filter((name) => !KEPT.includes(name))).toEqual(
    [],
  )
  expect(await workflowsOf(`WorkspaceId = '${workspaceId}'`)).toEqual([])
  await expect(rootClient().send(new ListObjectsV2Command({ Bucket: bucket }))).rejects.toThrow(/bucket/i)
  expect(await contentOf(neighbour.workspaceId)).toEqual(content)
  const kept = `/v1/objects/${await bucketOf(neighbour)}/secrets/plan`
  expect((await call('GET', kept, { as: neighbour.service })).body).toBe('ours')
  expect((await call('GET', `/v1/workspaces/${workspaceId}`, { as })).status).toBe(404)
  expect((await call('POST', `/v1/workspaces/${workspaceId}/restore`, { as })).status).toBe(404)
  expect((await call('GET', DOCUMENTS, { as: workspace.service })).status).toBe(401)
  // It has no settings and quotas, and gets none.
  for (const [method, path, input] of [
    ['GET', `/v1/services?workspace_id=${workspaceId}`, undefined],
    ['POST', '/v1/services/configure', { workspace_id: workspaceId, anon: { events: 'none' } }],
    ['GET', `/v1/quotas?workspace_id=${workspaceId}`, undefined],
    ['PUT', '/v1/quotas', { workspace_id: workspaceId, limits: { flows: 3 } }],
    ['GET', `/v1/users/export?workspace_id=${workspaceId}`, undefined],
  ] as const)
    expect([method, path, (await call(method, path, { as, body: input })).status]).toEqual([
      method,
      path,
      404,
    ])
  // Slug and bucket are free again.
  const body = { tenant_id: tenantId, name: 'Again', slug, bucket }
  const made = await call('POST', '/v1/workspaces', { as, body, headers: { prefer: 'wait=30' } })
  expect([made.status, made.body.state]).toEqual([201, 'active'])
})

test('tenant with everything: purged: only tombstones are left, and nobody can read what Temporal had', async () => {
  const workspace = await provisionTestWorkspace()
  const other = await createTestWorkspaceWithStorage()
  await Promise.all([await addTestWorkspaceWithStorage(workspace), other].map(createSweepResources))
  const content = await contentOf(other.workspaceId)
  const { tenantId, operator: as } = workspace
  const { status, body: job } = await remove('tenants', tenantId, workspace, '?grace_days=0')
  expect([status, job.type]).toEqual([202, 'tenant.delete'])
  const { result } = await purged(workspace, job.id)
  expect(result.after).toEqual({})
  expect(await rowsOf({ tenantId })).toEqual({
    'tenon.operations': 1,
    'tenon.payload_keys': 1,
    'tenon.workspaces': 2,
  })
  const [keys] = await asSuperuser('select sealed from tenon.payload_keys where tenant_id = $1', [tenantId])
  expect(keys).toEqual({ sealed: null })
  expect(await contentOf(other.workspaceId)).toEqual(content)
  expect((await call('GET', `/v1/tenants/${tenantId}`, { as })).status).toBe(404)
  // What the purge itself has left goes, too. A minute after its end, Temporal shows that it has ended.
  const running = `TenantId = '${tenantId}' AND ExecutionStatus = 'Running'`
  await eventually(async () => ((await workflowsOf(running)).length === 0 ? true : undefined))
  await asSuperuser('update tenon.tenants set delete_after = now() where id = $1', [tenantId])
  await eventually(async () =>
    (await workflowsOf(`TenantId = '${tenantId}'`)).length === 0 ? true : undefined,
  )
})

test('tenant: restored, its workspace stays deleted; both purged at the same moment: only tombstones are left', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId, workspaceId, operator: as, service } = workspace
  await call('POST', DOCUMENTS, { as: service, body: { n: 1 } })
  const paths = [`/v1/workspaces/${workspaceId}`, `/v1/tenants/${tenantId}`] as const
  const both = (query = '') => Promise.all(paths.map((path) => call('DELETE', `${path}${query}`, { as })))
  expect((await both()).map(({ status }) => status)).toEqual([202, 202])
  expect((await call('POST', `${paths[1]}/restore`, { as })).body.state).toBe('active')
  expect((await call('GET', paths[0], { as })).body.state).toBe('deleting')
  const [, ofTenant] = await both('?grace_days=0')
  expect((await purged(workspace, ofTenant?.body.id)).result.after).toEqual({})
  // One of the operations is the deletion that was undone.
  const left = { 'tenon.operations': 2, 'tenon.payload_keys': 1, 'tenon.workspaces': 1 }
  await eventually(async () =>
    JSON.stringify(await rowsOf({ tenantId })) === JSON.stringify(left) ? true : undefined,
  ).catch(async () => expect(await rowsOf({ tenantId })).toEqual(left))
})

test('workspace that is written to from all sides while it is purged: no request fails for another reason, and nothing is left', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId, tenantId, flows } = workspace
  const bucket = await bucketOf(workspace)
  await publish(
    workspace,
    'writes',
    '  - put: { call: collection.create, with: { name: written, document: { n: 1 } } }\n',
  )
  const lines = Array.from({ length: 200 }, (_, n) => JSON.stringify({ n })).join('\n')
  const ndjson = { 'content-type': 'application/x-ndjson' }
  let n = 0
  const writers = [
    () => call('POST', DOCUMENTS, { as, body: { n: n++ } }),
    () => call('POST', '/v1/collections/imported/import', { as, body: lines, headers: ndjson }),
    () => call('PUT', `/v1/objects/${bucket}/many/${n++}`, { as, body: 'x'.repeat(1_000) }),
    () => call('POST', '/v1/events/publish', { as, body: { topic: 'told', data: n } }),
    () => call('POST', `${flows}/definitions/writes/executions`, { as: operator, body: { input: {} } }),
  ]
  const answers = new Set<string>()
  let isOver = false
  const lanes = writers.map(async (write) => {
    while (!isOver) {
      const { status, body } = await write()
      answers.add(`${status} ${status < 300 ? '' : body.code}`.trim())
    }
  })
  await eventually(async () => (n > 10 ? true : undefined))
  const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
  await purged(workspace, job.id)
  isOver = true
  await Promise.all(lanes)
  const allowed = [
    '200',
    '201',
    '202',
    '401 api_key_invalid',
    '403 workspace_suspended',
    '404 not_found',
    '409 state_conflict',
  ]
  expect([...answers].filter((answer) => !allowed.includes(answer))).toEqual([])
  await asSuperuser('update tenon.workspaces set delete_after = now() where id = $1', [workspaceId])
  await eventually(async () => {
    const left = Object.keys(await rowsOf({ tenantId, workspaceId })).filter((name) => !KEPT.includes(name))
    return left.length + (await workflowsOf(`WorkspaceId = '${workspaceId}'`)).length === 0 ? true : undefined
  })
})

test('process that stood still through a purge: counts nothing of it, and what it writes late is removed by a later look', async () => {
  const [workspace, neighbour, node] = await Promise.all([
    createTestWorkspace(),
    createTestWorkspace(),
    startInProcessNode(),
  ])
  const { tenantId, workspaceId } = workspace
  try {
    const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
    await purged(workspace, job.id)
    const refs = [workspace, neighbour] as unknown as WorkspaceRef[]
    for (const ref of refs) node.platform.meters.count(ref, 200, 1)
    await node.platform.meters.flush()
    const counted = await asSuperuser<{ workspace_id: string }>(
      'select workspace_id from tenon.meters where workspace_id = any($1)',
      [[workspaceId, neighbour.workspaceId]],
    )
    expect(counted.map(({ workspace_id }) => workspace_id)).toEqual([neighbour.workspaceId])
  } finally {
    await node.close()
  }
  const look = () =>
    asSuperuser('update tenon.workspaces set delete_after = now() where id = $1', [workspaceId])
  await look()
  const hasLooked = async () => {
    const [row] = await asSuperuser<{ later: boolean | null }>(
      'select delete_after > now() as later from tenon.workspaces where id = $1',
      [workspaceId],
    )
    return row?.later
  }
  await eventually(async () => ((await hasLooked()) === false ? undefined : true))
  expect(await hasLooked()).toBe(true)
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data) values ($1, $2, 'notes', gen_random_uuid(), '{}')`,
    [tenantId, workspaceId],
  )
  await look()
  await eventually(async () =>
    (await rowsOf({ tenantId, workspaceId }))['tenon.documents'] === undefined ? true : undefined,
  )
})

test('execution that runs while its workspace is purged: ends, and leaves nothing', async () => {
  const workspace = await createTestWorkspace()
  await publish(workspace, 'long', '  - nap: { wait: { minutes: 10 } }\n')
  const id = await start(workspace, 'long')
  await eventually(async () => ((await readExecution(workspace, id)).status === 'waiting' ? true : undefined))
  const { body: job } = await remove('workspaces', workspace.workspaceId, workspace, '?grace_days=0')
  await purged(workspace, job.id)
  expect(await workflowsOf(`WorkspaceId = '${workspace.workspaceId}'`)).toEqual([])
})

test('workspace with an event stream and uploads by tus: deleted: the stream ends and says why, the upload goes no further, and purged, nothing is left', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { service: as, workspaceId, tenantId, operator } = workspace
  const received = await subscribeToEvents(as, 'topic=told')
  const bucket = await bucketOf(workspace)
  const tus = { 'tus-resumable': '1.0.0' }
  const described = `bucket ${btoa(bucket)},key ${btoa('film')}`
  const begun = await call('POST', '/v1/uploads', {
    ...{ as, headers: { ...tus, 'upload-length': '10', 'upload-metadata': described } },
  })
  const upload = begun.headers.get('location') ?? ''
  const send = (from: number) =>
    call('PATCH', new URL(upload, inject('tenon').url).pathname, {
      ...{ as, body: 'xxxxx' },
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(from) },
    })
  expect((await send(0)).status).toBe(204)
  const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
  expect(await streamEnd(received)).toBe('workspace_suspended')
  const refused = await send(5)
  expect([refused.status, refused.body.code]).toEqual([403, 'workspace_suspended'])
  await purged(workspace, job.id)
  expect((await send(5)).status).toBe(401)
  const left = Object.keys(await rowsOf({ tenantId, workspaceId }))
  expect(left.filter((name) => !KEPT.includes(name))).toEqual([])
  const uploads = await rootClient()
    .send(new ListMultipartUploadsCommand({ Bucket: bucket }))
    .catch((error: { name: string }) => error.name)
  expect(uploads).toBe('NoSuchBucket')
  expect((await call('GET', `/v1/operations/${job.id}`, { as: operator })).body.state).toBe('succeeded')
})

test('bucket whose tag was changed or removed by hand: the purge waits and says why, removes no object, and ends with the tag', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { workspaceId, operator: as, service } = workspace
  const Bucket = await bucketOf(workspace)
  await call('PUT', `/v1/objects/${Bucket}/kept`, { as: service, body: 'x' })
  const s3 = rootClient()
  const { TagSet } = await s3.send(new GetBucketTaggingCommand({ Bucket }))
  const Key = TagSet?.[0]?.Key
  await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key, Value: 'another' }] } }))
  const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
  const waitsWith = (attempts: number) =>
    eventually(async () => {
      const [step] = (await call('GET', `/v1/operations/${job.id}`, { as })).body.steps
      return step?.state === 'waiting' && step.attempts >= attempts ? step : undefined
    }, 60_000)
  const first = await waitsWith(1)
  expect(first).toMatchObject({ name: 'begin_purge', code: 'dependency_unavailable' })
  expect(first.detail).toContain(`The tag ${Key} of the bucket ${Bucket} does not name ${workspaceId}`)
  await s3.send(new DeleteBucketTaggingCommand({ Bucket }))
  await waitsWith(first.attempts + 2)
  expect((await s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(1)
  await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }))
  const { result } = await purged(workspace, job.id)
  expect([result.before.stored_objects, result.after]).toEqual([1, {}])
})

test('workspace whose index is being built: purged, and neither its table nor the index is left', async () => {
  const workspace = await createTestWorkspace()
  const { operator: as, service, workspaceId } = workspace
  const declared = { workspace_id: workspaceId, collection: 'indexed', store: 'relational' }
  const body = { ...declared, schema: { properties: { n: { type: 'integer' } } } }
  const { body: schema } = await call('POST', '/v1/schemas', { as, body })
  await call('POST', '/v1/collections/indexed/documents', { as: service, body: { n: 1 } })
  const [{ relation } = { relation: '' }] = await asSuperuser<{ relation: string }>(
    'select relation from tenon.schemas where id = $1',
    [schema.id],
  )
  const reader = await connectSuperuser(inject('tenon'))
  // The build waits until a reader that began before it has ended.
  await reader.query('begin isolation level repeatable read; select from tenon.schemas limit 1')
  const { rows } = await reader.query('select pg_backend_pid() as pid')
  const indexes = { indexes: [{ fields: ['n'] }] }
  expect((await call('PUT', `/v1/schemas/${schema.id}`, { as, body: indexes })).status).toBe(202)
  const building =
    "select pid from pg_stat_activity where $1 = any(pg_blocking_pids(pid)) and query ~* 'index concurrently'"
  await eventually(async () => (await asSuperuser(building, [rows[0].pid]))[0])
  const { body: job } = await remove('workspaces', workspaceId, workspace, '?grace_days=0')
  await eventually(async () => {
    const { steps } = (await call('GET', `/v1/operations/${job.id}`, { as })).body
    return steps.some(({ name }: { name: string }) => name === 'remove_rows') || undefined
  })
  await reader.end()
  expect((await purged(workspace, job.id)).result.after).toEqual({})
  expect(await workflowsOf(`WorkspaceId = '${workspaceId}'`)).toEqual([])
  const tables = `select relname from pg_class where relname like $1 || '%'`
  expect(await asSuperuser(tables, [relation])).toEqual([])
})
