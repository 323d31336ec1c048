/** Faults at every step of a purge: it is resumed wherever it was cut off, leaves nothing, and says what there was. */

import { Client, Connection } from '@temporalio/client'
import { compactVerify, createLocalJWKSet } from 'jose'
import { MongoClient } from 'mongodb'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { targetOf } from '../../../src/core/tenant.ts'
import { PLANS } from '../../../src/features/tenants/provisioning.ts'
import type { WirePayload } from '../../../src/infra/temporal/payload-reader.ts'
import {
  bucketsOf,
  contentOf,
  type Owner,
  rowsOf,
  type Servers,
  tracesOf,
} from '../../support/fixtures/owned-traces.ts'
import { asSuperuser, call, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { killServer, pidOf } from '../../support/stack/own-platform.ts'
import { type ProvisioningNode, startProvisioningNode } from '../../support/stack/provisioning-worker.ts'
import {
  deleteNow,
  endOf,
  expectNothingOf,
  furnishedWorkspace,
  operationOf,
  type PurgePlatform,
  startPurgePlatform,
  waitingStep,
} from '../../support/stack/purge-node.ts'

let platform: PurgePlatform
let node: ProvisioningNode
let servers: Servers
/** In the tenant whose other workspaces are purged, and in a tenant beside those that are. */
let neighbours: {
  readonly workspace: TestWorkspace
  readonly owner: Owner
  readonly buckets: string[]
  readonly content: Content
}[]
beforeAll(async () => {
  platform = await startPurgePlatform()
  node = platform.node
  servers = { at: node.at, namespace: node.namespace }
  node.wrap(hooked)
  neighbours = await Promise.all(
    KINDS.map(async (kind) => {
      const workspace = await furnishedWorkspace(node)
      const owner = ownerOf(kind, workspace)
      const buckets = await bucketsOf(owner, node.at)
      return { workspace, owner, buckets, content: await settledContent(owner, buckets) }
    }),
  )
})
afterAll(() => platform?.close())

const KINDS = ['workspace', 'tenant'] as const
type Kind = (typeof KINDS)[number]

const ownerOf = (kind: Kind, { tenantId, workspaceId }: TestWorkspace): Owner =>
  kind === 'tenant' ? { tenantId } : { tenantId, workspaceId }

const away = () => new Problem('dependency_unavailable', { detail: 'Injected.' })
const final = () => new Problem('conflict', { detail: 'Injected.' })

/** Does a step of the purge of a target, or something else instead. @param run the step as it is */
type Hook = (step: string, run: () => Promise<boolean>) => Promise<boolean>
const hooks = new Map<string, Hook>()
const hooked: Parameters<ProvisioningNode['wrap']>[0] = (run) => (context, input, step) => {
  const usual = () => run(context, input, step)
  return hooks.get(targetOf(input.target))?.(step, usual) ?? usual()
}

/**
 * The first attempt of a step ends before its effect, the second after it and before the worker could tell, and the third, which has its effect
 * twice, fails for good, so that the operation ends.
 */
function failing(at: string): { readonly hook: Hook; readonly tries: () => number } {
  let tries = 0
  const hook: Hook = async (step, run) => {
    if (step !== at || ++tries > 3) return run()
    if (tries === 1) throw away()
    for (let times = 1, until = tries; times < until; times++) await run()
    throw tries === 2 ? away() : final()
  }
  return { hook, tries: () => tries }
}

/** Temporal's index shows by then what has begun and what has ended, and the usage of what was done is counted. */
async function settledContent(owner: Owner, buckets: readonly string[]): Promise<Content> {
  const hasSettled = (names: readonly string[]) =>
    names.some((name) => /:flow_/.test(name)) &&
    names.every((name) => /:flow_/.test(name) || !name.endsWith('RUNNING'))
  return eventually(async () => {
    const content = await contentOf(owner, servers, buckets)
    const isCounted = content.rows['tenon.meters'] !== undefined
    return isCounted && hasSettled(content.workflows) && content.schedules.length > 0 ? content : undefined
  })
}

type Content = Awaited<ReturnType<typeof contentOf>>

/** Without what goes on by itself: usage that is counted, and executions that end. */
const withoutProgress = ({ rows: { 'tenon.meters': _, ...rows }, workflows, ...rest }: Content) => ({
  ...rest,
  ...{ rows, workflows: workflows.map((name) => name.split(' ')[0]) },
})

/** Counts of what there is, by the names that a report has for it. */
async function countedBefore(owner: Owner, buckets: readonly string[]): Promise<Record<string, number>> {
  const { rows, workflows, schedules, keys, objects, payloads } = await tracesOf(owner, servers, buckets)
  const kept = [
    'workspaces',
    'operations',
    'payload_keys',
    ...(owner.workspaceId ? ['audit', 'usage_records'] : []),
  ]
  const own = Object.entries(rows).flatMap(([table, n]) => {
    const [schema, name = ''] = table.split('.')
    return schema === 'tenon' && !kept.includes(name) ? [[name, n] as const] : []
  })
  const found = {
    ...Object.fromEntries(own),
    ...{ declared_tables: Object.keys(rows).filter((table) => table.startsWith('tenon_data.')).length },
    ...{ temporal_workflows: workflows.length, temporal_schedules: schedules.length },
    ...{ valkey_keys: keys.length, stored_objects: objects.length, stored_payloads: payloads.length },
  }
  return Object.fromEntries(Object.entries(found).filter(([, n]) => n > 0))
}

describe.each(KINDS)('purge of a %s', (kind) => {
  test.concurrent.each(PLANS.purge)(
    'step %s ends before and after its effect, twice, and for good: the next deletion ends it, nothing is left, and the report has the counts of the first',
    async (step) => {
      const [ofWorkspace] = neighbours
      const doomed = await furnishedWorkspace(node, kind === 'workspace' ? ofWorkspace?.workspace : undefined)
      const owner = ownerOf(kind, doomed)
      const buckets = await bucketsOf(owner, node.at)
      const first = await deleteNow(owner, doomed, node)
      await settledContent(owner, buckets)
      const before = await countedBefore(owner, buckets)
      expect(Object.keys(before).length).toBeGreaterThan(15)
      const { hook, tries } = failing(step)
      hooks.set(kind === 'tenant' ? doomed.tenantId : doomed.workspaceId, hook)
      await first.begin()
      const failed = await endOf(doomed, first.id, node.at)
      // What has happened by the second attempt of the last step is the end of the operation.
      const isLast = step === PLANS.purge.at(-1)
      expect([failed.state, failed.error?.detail]).toEqual(
        isLast ? ['succeeded', undefined] : ['failed', `The step ${step} failed. Injected.`],
      )
      let job = failed
      if (!isLast) {
        const path = `/v1/${kind}s/${kind === 'tenant' ? doomed.tenantId : doomed.workspaceId}`
        const restored = await call('POST', `${path}/restore`, { as: doomed.operator, at: node.at })
        expect([restored.status, restored.body.code]).toEqual([409, 'state_conflict'])
        const second = await deleteNow(owner, doomed, node)
        expect(second.id).not.toBe(first.id)
        await second.begin()
        job = await endOf(doomed, second.id, node.at)
      }
      await eventually(async () => (tries() >= 3 ? true : undefined))
      expect([job.state, job.error, job.result]).toMatchObject(['succeeded', null, { before, after: {} }])
      expect(job.result.before).toEqual(before)
      await expectNothingOf(owner, servers, buckets, kind === 'tenant' ? 1 : 0)
    },
  )
})

/** A workspace that is to be purged, with its deletion. */
async function doomedWorkspace() {
  const doomed = await furnishedWorkspace(node, neighbours[0]?.workspace)
  const owner = ownerOf('workspace', doomed)
  const buckets = await bucketsOf(owner, node.at)
  return { doomed, owner, buckets }
}

const setTime = (id: string, to: string) =>
  asSuperuser(
    `update tenon.workspaces set delete_after = now() + $2::interval where id = $1`,
    [id, to],
    node.at,
  )

test('clock set back once the purge has begun, and its worker killed: it goes on, since nothing can be restored any more', async () => {
  const { doomed, owner, buckets } = await doomedWorkspace()
  const { id, begin } = await deleteNow(owner, doomed, node)
  let claims = 0
  hooks.set(doomed.workspaceId, async (step, run) => {
    const done = await run()
    if (step !== 'begin_purge' || ++claims > 1) return done
    await setTime(doomed.workspaceId, '7 days')
    throw away()
  })
  await begin()
  expect((await endOf(doomed, id, node.at)).state).toBe('succeeded')
  expect(claims).toBe(2)
  await expectNothingOf(owner, servers, buckets)
})

test('purge that has failed half-way: deleted again with days to restore it, it goes on at once', async () => {
  const { doomed, owner, buckets } = await doomedWorkspace()
  const { workspaceId, operator: as } = doomed
  const first = await deleteNow(owner, doomed, node)
  const { hook } = failing('remove_objects')
  hooks.set(workspaceId, hook)
  await first.begin()
  expect((await endOf(doomed, first.id, node.at)).state).toBe('failed')
  const again = await call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=7`, { as, at: node.at })
  expect(again.status).toBe(202)
  await setTime(workspaceId, '7 days')
  await asSuperuser(
    `update tenon.workspaces set updated_at = updated_at - interval '1 minute' where id = $1`,
    [workspaceId],
    node.at,
  )
  await node.startDue(doomed.tenantId, again.body.id)
  expect((await endOf(doomed, again.body.id, node.at)).state).toBe('succeeded')
  await expectNothingOf(owner, servers, buckets)
})

test('clock set forward after a restoration: nothing is purged, also by a purge that had come to its first step', async () => {
  const { doomed, owner, buckets } = await doomedWorkspace()
  const { workspaceId, operator: as } = doomed
  const first = await deleteNow(owner, doomed, node)
  let isRestored = false
  hooks.set(workspaceId, async (step, run) => {
    if (step === 'begin_purge' && !isRestored) {
      const { body } = await call('POST', `/v1/workspaces/${workspaceId}/restore`, { as, at: node.at })
      isRestored = body.state === 'active'
      await setTime(workspaceId, '-1 year')
    }
    return run()
  })
  await first.begin()
  await eventually(async () => (isRestored ? true : undefined))
  expect((await endOf(doomed, first.id, node.at)).state).toBe('cancelled')
  await node.startDue(doomed.tenantId, first.id)
  const { rows, objects } = await tracesOf(owner, servers, buckets)
  expect([rows['tenon.documents'], objects.length]).toEqual([1, 1])
  expect((await call('GET', `/v1/workspaces/${workspaceId}`, { as, at: node.at })).body.state).toBe('active')
})

/** Waits until a step waits. The API may need the server that is away. */
/** What each server that is away is needed for. The detail names it. */
const AWAY = [
  { server: 'seaweedfs', own: 'remove_objects', detail: /object store/ },
  { server: 'valkey', own: 'remove_streams', detail: /Valkey/ },
  { server: 'temporal', own: 'remove_workflows', detail: /Temporal/ },
] as const

describe.each(
  AWAY.flatMap(({ own, ...away_ }) => [
    { ...away_, step: 'begin_purge' },
    { ...away_, step: own },
  ]),
)('purge with $server away', ({ server, step, detail }) => {
  test(`step ${step}: waits and names the reason, removes nothing before the inventory is complete, and ends afterwards`, async () => {
    const { doomed, owner, buckets } = await doomedWorkspace()
    const { id, begin } = await deleteNow(owner, doomed, node)
    const pid = pidOf(platform.started, server)
    let isStopped = false
    hooks.set(doomed.workspaceId, async (now, run) => {
      if (now === step && !isStopped) isStopped = process.kill(pid, 'SIGSTOP')
      return run()
    })
    try {
      await begin()
      expect(await waitingStep(id, step, node.at)).toMatchObject({
        ...{ code: 'dependency_unavailable', detail: expect.stringMatching(detail) },
      })
      expect((await rowsOf(owner, node.at))['tenon.documents']).toBe(1)
    } finally {
      // One that hangs for long is replaced.
      if (platform.started.stack.supervisor.pid(server) === pid) process.kill(pid, 'SIGCONT')
    }
    expect((await endOf(doomed, id, node.at)).result.after).toEqual({})
    await expectNothingOf(owner, servers, buckets)
  })
})

test.each(['begin_purge', 'remove_rows', 'finish_purge'])(
  'purge, step %s: PostgreSQL crashes: the purge goes on once it is back, and leaves nothing',
  async (step) => {
    const { doomed, owner, buckets } = await doomedWorkspace()
    const { id, begin } = await deleteNow(owner, doomed, node)
    let hasCrashed = false
    hooks.set(doomed.workspaceId, async (now, run) => {
      if (now === step && !hasCrashed) hasCrashed = killServer(platform.started, 'postgres') > 0
      return run()
    })
    await begin()
    await eventually(async () => (hasCrashed ? true : undefined))
    const ended = await eventually(async () => {
      const job = await operationOf(doomed, id, node.at).catch(() => undefined)
      return job?.finished_at ? job : undefined
    }, 120_000)
    expect([ended.state, ended.result.after]).toEqual(['succeeded', {}])
    await expectNothingOf(owner, servers, buckets)
  },
)

/** A payload of an execution's input, as Temporal stores it. */
async function storedPayload({ tenantId }: TestWorkspace): Promise<WirePayload> {
  const connection = await Connection.connect({ address: node.at.env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const { workflow } = new Client({ connection, namespace: node.namespace })
    const query = `TenantId = '${tenantId}' AND ExecutionStatus = 'Running'`
    for await (const { workflowId } of workflow.list({ query })) {
      const { events } = await workflow.getHandle(workflowId).fetchHistory()
      const [payload] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
      const inBase64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
      const metadata = Object.entries(payload?.metadata ?? {}).map(([name, value]) => [name, inBase64(value)])
      return { metadata: Object.fromEntries(metadata), data: inBase64(payload?.data ?? new Uint8Array()) }
    }
    throw new Error('the tenant has no execution')
  } finally {
    await connection.close()
  }
}

test('purge of one of two tenants: its payload from before is unreadable, that of the other is not, and the issuer has signed the report', async () => {
  const [doomed, other] = [await furnishedWorkspace(node), await furnishedWorkspace(node)]
  const { operator: as, tenantId } = doomed
  const payloads = await eventually(async () => {
    const kept = await Promise.all([storedPayload(doomed), storedPayload(other)]).catch(() => undefined)
    return kept
  })
  // A process that has no keys in its memory.
  const decode = async () => {
    const fresh = await startInProcessNode({ TEMPORAL_NAMESPACE: node.namespace }, platform.started.running)
    try {
      const { status, body } = await call('POST', '/v1/codec/decode', {
        as,
        at: fresh.at,
        body: { payloads },
      })
      expect(status).toBe(200)
      return body.payloads.map(({ data }: WirePayload) => Buffer.from(data ?? '', 'base64').toString())
    } finally {
      await fresh.close()
    }
  }
  const readable = await decode()
  expect(readable.join()).not.toContain('payload_unreadable')
  const { id, begin } = await deleteNow({ tenantId }, doomed, node)
  await begin()
  const { result } = await endOf(doomed, id, node.at)
  expect(await decode()).toEqual([expect.stringContaining('payload_unreadable'), readable[1]])
  const { signature, ...report } = result
  const { keys } = (await call('GET', '/auth/jwks', { at: node.at })).body
  const { payload } = await compactVerify(signature, createLocalJWKSet({ keys }))
  expect(JSON.parse(new TextDecoder().decode(payload))).toMatchObject({
    iss: `${platform.started.running.url}/auth`,
    ...report,
  })
  const forged = signature.replace(/\.[^.]/, (two: string) => (two === '.e' ? '.f' : '.e'))
  await expect(compactVerify(forged, createLocalJWKSet({ keys }))).rejects.toThrow('signature')
  // Large enough to be stored beside the history: its bytes are gone, too.
  await expectNothingOf({ tenantId }, servers, [], 1)
})

const mongoMissing = await mongoUnavailableReason()
if (mongoMissing !== undefined) console.log(`skipped: ${mongoMissing}`)

describe.skipIf(mongoMissing !== undefined)('installation with MongoDB', () => {
  let mongo: MongoServer
  let proxy: TcpProxy
  let own: ProvisioningNode
  beforeAll(async () => {
    mongo = await startMongo()
    proxy = await startTcpProxy(new URL(mongo.url))
    own = await startProvisioningNode(
      { MONGODB_URL: `mongodb://127.0.0.1:${proxy.port}/?directConnection=true` },
      platform.started.running,
    )
    own.wrap(hooked)
  })
  afterAll(async () => {
    await own?.close()
    proxy?.close()
    await mongo?.stop()
  })

  const documentsOf = async ({ service: as }: TestWorkspace) =>
    (await call('GET', '/v1/collections/notes/documents', { as, at: own.at })).body.data

  test.each(['begin_purge', 'remove_documents'])(
    'purge of a tenant, step %s: waits while MongoDB is away, and then leaves no document of its own and all of the other',
    async (step) => {
      const [doomed, other] = [await furnishedWorkspace(own), await furnishedWorkspace(own)]
      const { tenantId } = doomed
      const before = await documentsOf(other)
      expect(before).toHaveLength(1)
      const { id, begin } = await deleteNow({ tenantId }, doomed, own)
      const { port } = proxy
      let isAway = false
      hooks.set(tenantId, async (now, run) => {
        if (now === step && !isAway) {
          isAway = true
          proxy.close()
        }
        return run()
      })
      await begin()
      expect(await waitingStep(id, step, node.at)).toMatchObject({
        detail: expect.stringContaining('MongoDB'),
      })
      proxy = await startTcpProxy(new URL(mongo.url), { port })
      const { state, result } = await endOf(doomed, id, own.at)
      expect([state, result.before.mongodb_documents, result.after]).toEqual(['succeeded', 1, {}])
      expect(await documentsOf(other)).toEqual(before)
      expect(await countInMongo(mongo.url, tenantId)).toBe(0)
      expect(await countInMongo(mongo.url, other.tenantId)).toBe(1)
    },
  )
})

async function countInMongo(url: string, tenant: string): Promise<number> {
  const client = await MongoClient.connect(url)
  try {
    const database = client.db('tenon')
    const collections = await database.listCollections().toArray()
    const counts = collections.map(({ name }) => database.collection(name).countDocuments({ tenant }))
    return (await Promise.all(counts)).reduce((sum, n) => sum + n, 0)
  } finally {
    await client.close()
  }
}

test('neighbours of all that was purged: are as they were, in every table and system', async () => {
  for (const { owner, buckets, content } of neighbours)
    expect(withoutProgress(await contentOf(owner, servers, buckets))).toEqual(withoutProgress(content))
})
