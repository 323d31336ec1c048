/** Crashed and hanging servers: nothing is lost or doubled, no response is a 500. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import type { ServerName } from '../../src/infra/health-report.ts'
import { FLOW_ROWS } from '../isolation/sweep-rows-flows.ts'
import { readLog } from '../support/clients/logs.ts'
import { exported, importInto, openImport } from '../support/clients/ndjson.ts'
import { partStatus } from '../support/clients/status.ts'
import { Executions } from '../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  call as callAt,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Running, Started } from '../support/stack/start.ts'
import { stopwatch } from '../support/stopwatch.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let call: OwnPlatform['call']

beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())

async function publishHello(): Promise<void> {
  const body = await readFile('flows-dsl/examples/hello.yaml', 'utf8')
  const headers = { 'content-type': 'application/yaml' }
  await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body, headers })
  await call('POST', `${workspace.flows}/definitions/hello/versions`, { as: workspace.operator, body: {} })
}

test('worker killed during a wait of hello.yaml: the execution completes, each effect happens once', async () => {
  await publishHello()
  const path = `${workspace.flows}/definitions/hello/executions`
  const run = await call('POST', path, { as: workspace.operator, body: { input: { name: 'Ada' } } })
  await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${run.body.id}`, {
      as: workspace.operator,
    })
    return body.status === 'waiting' ? true : undefined
  })
  killServer(started, 'worker')
  const done = await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${run.body.id}`, {
      as: workspace.operator,
    })
    return body.ended_at === null ? undefined : body
  }, 60_000)
  expect(done.status).toBe('completed')
  const stored = await call('GET', '/v1/collections/greetings/documents', { as: workspace.service })
  expect(stored.body.data).toHaveLength(1)
})

test('worker killed repeatedly during twenty executions: twenty documents, no more', async () => {
  const path = `${workspace.flows}/definitions/hello/executions`
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      call('POST', path, { as: workspace.operator, body: { input: { name: `N${n}` } } }),
    ),
  )
  for (let strike = 0; strike < 2; strike++) {
    await new Promise((done) => setTimeout(done, 900))
    if (started.stack.supervisor.pid('worker') !== undefined) killServer(started, 'worker')
  }
  for (const { body } of replies) {
    const ended = await eventually(async () => {
      const reply = await call('GET', `${workspace.flows}/executions/${body.id}`, { as: workspace.operator })
      return reply.body.ended_at === null ? undefined : reply.body
    }, 90_000)
    expect(ended.status).toBe('completed')
  }
  const stored = await call('GET', '/v1/collections/greetings/documents?page[size]=200', {
    as: workspace.service,
  })
  const names = stored.body.data
    .map(({ message }: { message: string }) => message)
    .filter((m: string) => /N\d/.test(m))
  expect(names.sort()).toEqual(Array.from({ length: 20 }, (_, n) => `Hello, N${n}!`).sort())
})

/** A route for each way in which the platform needs its servers. Each needs PostgreSQL, too. */
const ROUTES: readonly (readonly [
  name: string,
  needs: readonly ServerName[],
  ask: (at: Running) => Promise<Reply>,
])[] = [
  ['documents, read', [], (at) => dataCall('GET', '/v1/collections/greetings/documents', at)],
  ['documents, write', [], (at) => dataCall('POST', '/v1/collections/outages/documents', at, { n: 1 })],
  ['caller', [], (at) => dataCall('GET', '/v1/me', at)],
  ['status', [], (at) => callAt('GET', '/v1/status', { as: workspace.operator, at })],
  ['objects, write', ['s3'], (at) => dataCall('PUT', `/v1/objects/${bucket}/outages`, at, { n: 1 })],
  ['objects, read', ['s3'], (at) => dataCall('GET', `/v1/objects/${bucket}/there`, at)],
  [
    'events, publish',
    ['valkey'],
    (at) => dataCall('POST', '/v1/events/publish', at, { topic: 'a', data: 1 }),
  ],
  ['events, subscribe', ['valkey'], (at) => dataCall('GET', '/v1/events/subscribe?topic=a', at)],
  ['admin, read', ['valkey'], (at) => callAt('GET', '/v1/tenants', { as: workspace.operator, at })],
  ['execution, cancel', ['valkey', 'temporal'], (at) => cancelWaiting(at)],
]

let bucket: string
const dataCall = (method: string, path: string, at: Running, body?: object) =>
  callAt(method, path, { as: workspace.service, at, ...(body && { body }) })
const cancelWaiting = async (at: Running) => {
  const { id } = await startWaiting(workspace)
  return callAt('POST', `${workspace.flows}/executions/${id}/cancel`, {
    as: workspace.operator,
    at,
    body: {},
  })
}

const NOTHING_LISTENS = '127.0.0.1:1'
const AWAY: readonly (readonly [ServerName, Readonly<Record<string, string>>])[] = [
  ['temporal', { TEMPORAL_ADDRESS: NOTHING_LISTENS, TENON_EAGER_START_SOCKET: '' }],
  ['s3', { S3_ENDPOINT: `http://${NOTHING_LISTENS}` }],
  ['valkey', { REDIS_URL: `redis://${NOTHING_LISTENS}` }],
  ['mongodb', { MONGODB_URL: `mongodb://${NOTHING_LISTENS}` }],
]

/** Statuses by route, and the part that a problem names. */
async function answersAt(at: Running): Promise<Record<string, string>> {
  const answers = await Promise.all(
    ROUTES.map(async ([name, , ask]) => {
      const { status, body } = await ask(at)
      return [name, status < 300 ? 'served' : `${status} ${body.code} ${body.part}`]
    }),
  )
  return Object.fromEntries(answers)
}

test.each(AWAY)(
  '%s away: readiness warns and names it, its routes answer 503 with its name, all others are served',
  async (part, settings) => {
    const { body } = await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as: workspace.operator })
    bucket = body.bucket
    await dataCall('PUT', `/v1/objects/${bucket}/there`, started.running, { n: 1 })
    const node = await startInProcessNode(settings, started.running)
    try {
      const ready = await callAt('GET', '/readyz', { at: node.at })
      expect([ready.status, ready.body.status]).toEqual([200, 'warn'])
      expect(ready.body.checks[part]).toEqual({ status: 'fail' })
      const seen = { required: false, status: 'fail', cause: 'refused' }
      // On a busy machine, the first look may end by its time.
      await expect.poll(() => partStatus(part, node.at)).toMatchObject(seen)
      // Undeclared collections are there.
      const needs = (name: string, needed: readonly ServerName[]) =>
        needed.includes(part) || (part === 'mongodb' && name.startsWith('documents'))
      const expected = ROUTES.map(([name, needed]) => [
        name,
        needs(name, needed) ? `503 dependency_unavailable ${part}` : 'served',
      ])
      expect(await answersAt(node.at)).toEqual(Object.fromEntries(expected))
    } finally {
      await node.close()
    }
  },
)

test('Valkey is full: readiness warns with the cause, what writes there answers 503 and says so, documents are served, both recover', async () => {
  const { running: at } = started
  const valkey = new Redis(at.env['REDIS_URL'] ?? '')
  const ready = async () => (await callAt('GET', '/readyz', { at })).body
  const publish = () => dataCall('POST', '/v1/events/publish', at, { topic: 'a', data: 1 })
  const [, limit = '0'] = (await valkey.config('GET', 'maxmemory')) as string[]
  await valkey.config('SET', 'maxmemory', '1mb')
  try {
    const checks = await eventually(async () => {
      const { status, checks } = await ready()
      return status === 'warn' ? checks : undefined
    })
    expect(checks.valkey).toEqual({ status: 'fail' })
    expect(await partStatus('valkey', at)).toMatchObject({ status: 'fail', cause: 'full' })
    const [published, written] = [
      await publish(),
      await dataCall('POST', '/v1/collections/outages/documents', at, { n: 1 }),
    ]
    expect(published).toMatchObject({
      status: 503,
      body: { part: 'valkey', detail: expect.stringContaining('writes') },
    })
    expect(written.status).toBe(201)
  } finally {
    await valkey.config('SET', 'maxmemory', limit)
    valkey.disconnect()
  }
  await eventually(async () => ((await ready()).checks.valkey.status === 'pass' ? true : undefined))
  expect((await publish()).status).toBeLessThan(300)
})

const makeTenant = (headers: Record<string, string> = {}) =>
  call('POST', '/v1/tenants', { as: workspace.operator, body: { name: 'X', slug: unique('x') }, headers })

test('Temporal hangs: 503 with Retry-After, executions are pending, data routes work, foreign ids get 404 without asking it', async () => {
  const path = (flow: string) => `${workspace.flows}/definitions/${flow}/executions`
  await whileStopped(started, 'temporal', async () => {
    const [tenant, foreign, mine, read] = await Promise.all([
      makeTenant(),
      call('POST', path('flow_01m7ygfq8we2wv190wsbdsy9t4'), { as: workspace.operator, body: {} }),
      call('POST', path('hello'), { as: workspace.operator, body: {} }),
      call('GET', '/v1/collections/greetings/documents', { as: workspace.service }),
    ])
    expect([tenant.status, tenant.body.code]).toEqual([503, 'dependency_unavailable'])
    expect(Number(tenant.headers.get('retry-after'))).toBeGreaterThan(0)
    expect([foreign.status, mine.status, mine.body.status, read.status]).toEqual([404, 201, 'pending', 200])
  })
})

/** How long a request waits for Temporal. */
const TEMPORAL_TIMEOUT_MS = 5_000

/** The commands of executions, as the sweep of test/isolation sends them. */
const COMMANDS = OPERATIONS.filter(
  ({ http }) => http.method === 'POST' && http.path.includes('/executions/{id}/'),
).map(({ name }) => FLOW_ROWS[name as 'execution.cancel'])

/** Starts an execution that waits. */
async function startWaiting(of: TestWorkspace) {
  const executions = new Executions(of, started.running)
  const flow = await executions.publish('  - heard: { listen: { to: { one: { with: { type: x } } } } }')
  const id = await executions.start(flow)
  return { flow, ...(await executions.shown(id, 'waiting')) }
}

test('Temporal hangs, commands to executions of other workspaces: 404 without asking it; own ones can be read and watched', async () => {
  expect(COMMANDS).toHaveLength(9)
  const { running: at } = started
  const others = [await addTestWorkspace(workspace, at), await createTestWorkspace(at)]
  const [mine, ...theirs] = [await startWaiting(workspace), ...(await Promise.all(others.map(startWaiting)))]
  const send = (row: (typeof COMMANDS)[number], executionId: string) =>
    call('POST', row.path({ workspace, executionId } as Parameters<typeof row.path>[0]), {
      as: workspace.operator,
      body: row.body?.(),
    })
  const get = (path: string) => call('GET', `${workspace.flows}${path}`, { as: workspace.operator })
  await whileStopped(started, 'temporal', async () => {
    const cancelled = send(FLOW_ROWS['execution.cancel'], mine.id)
    const elapsedMs = stopwatch()
    const refused = await Promise.all(
      theirs.flatMap(({ id, flow_id }) => [
        ...COMMANDS.map((row) => send(row, id)),
        call('POST', `${workspace.flows}/definitions/${flow_id}/executions`, {
          as: workspace.operator,
          body: {},
        }),
      ]),
    )
    expect(refused.map(({ status, body }) => `${status} ${body.code}`)).toEqual(
      Array(2 * (COMMANDS.length + 1)).fill('404 not_found'),
    )
    const [listed, read, watched] = await Promise.all(
      ['/executions', `/executions/${mine.id}`, `/executions/${mine.id}/events`].map(get),
    )
    expect(listed?.body.data.map(({ id }: { id: string }) => id)).toContain(mine.id)
    expect(read?.body).toMatchObject({ id: mine.id, status: 'waiting' })
    expect([watched?.status, watched?.body]).toEqual([200, expect.stringContaining('event: ready')])
    // A request to Temporal would not have been answered yet.
    expect(elapsedMs()).toBeLessThan(TEMPORAL_TIMEOUT_MS)
    expect(await cancelled).toMatchObject({ status: 503, body: { code: 'dependency_unavailable' } })
  })
  // The executions exist: each accepts signals in its own workspace.
  for (const [nth, { id }] of theirs.entries()) {
    const executions = new Executions(others[nth] as TestWorkspace, at)
    expect((await executions.send(id, 'signal', { event: { type: 'x' } })).status).toBe(202)
    await executions.shown(id, 'completed')
  }
})

test('Temporal crashes and restarts: provisioning and flows work again', async () => {
  killServer(started, 'temporal')
  const back = await eventually(async () => {
    const tried = await makeTenant({ prefer: 'wait=20' })
    expect([201, 202, 503]).toContain(tried.status)
    return tried.status === 201 ? tried : undefined
  }, 90_000)
  expect(back.body.state).toBe('active')
})

test('object store crashes: 503 meanwhile, the API keeps running, stored objects remain', async () => {
  const api = started.stack.supervisor.pid('api')
  const { body } = await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as: workspace.operator })
  const path = `/v1/objects/${body.bucket}/kept`
  await call('PUT', path, { as: workspace.service, body: { kept: true } })
  killServer(started, 'seaweedfs')
  const statuses = new Set<number>()
  await eventually(async () => {
    const { status } = await call('PUT', `${path}/too`, { as: workspace.service, body: {} })
    statuses.add(status)
    return status < 300 && statuses.size > 1 ? true : undefined
  }, 30_000)
  expect([...statuses].filter((status) => status !== 200 && status !== 201)).toEqual([503])
  expect((await call('GET', path, { as: workspace.service })).body).toEqual({ kept: true })
  expect(started.stack.supervisor.pid('api')).toBe(api)
})

test('PostgreSQL crashes under load: 503 and never 500, the API keeps running, acknowledged documents remain', async () => {
  const api = started.stack.supervisor.pid('api')
  const path = '/v1/collections/ledger/documents'
  const acknowledged: string[] = []
  const statuses = new Set<number>()
  let last = 0
  const write = async () => {
    const { status, body, headers } = await call('POST', path, { as: workspace.service, body: {} })
    statuses.add(status)
    last = status
    if (status === 201) acknowledged.push(body.id)
    else
      expect({ body, retryAfter: headers.get('retry-after') }).toMatchObject({
        retryAfter: expect.any(String),
      })
  }
  const lane = async () => {
    for (let n = 0; n < 60; n++) await write()
  }
  const lanes = Promise.all(Array.from({ length: 30 }, lane))
  await eventually(async () => (acknowledged.length > 100 ? true : undefined))
  killServer(started, 'postgres')
  await lanes
  await eventually(async () => {
    await write()
    // The reads below need a server that has recovered.
    return last === 201 && statuses.has(503) ? true : undefined
  }, 60_000)
  expect([...statuses].sort()).toEqual([201, 503])
  expect(started.stack.supervisor.pid('api')).toBe(api)
  const stored = new Set<string>()
  for (let after: string | null = ''; after !== null; ) {
    const page: string = after && `&page[after]=${after}`
    const { body } = await call('GET', `${path}?page[size]=200${page}`, { as: workspace.service })
    for (const { id } of body.data) stored.add(id)
    after = body.page.next
  }
  expect(acknowledged.filter((id) => !stored.has(id))).toEqual([])
})

const ROWS = repeated(2_000, 5_000)

test('PostgreSQL crashes during import and export: neither reports an incomplete result as complete', async () => {
  const { running: at } = started
  const options = { as: workspace.service, at, headers: { 'idempotency-key': 'k' } }
  const rows = Array.from({ length: ROWS }, (_, n) => `{"n":${n},"x":"${'x'.repeat(5_000)}"}\n`)
  await importInto('first', rows.join(''), options)
  const name = unique('c')
  const { sent, reply } = openImport(name, options)
  sent.on('error', () => {})
  sent.write(rows.slice(0, 1_000).join(''))
  await eventually(async () => ((await exported(name, options)).length > 400 ? true : undefined))
  const leaving = await fetch(`${at.url}/v1/collections/first/export`, { headers: workspace.service })
  killServer(started, 'postgres')
  for (const row of rows.slice(1_000)) sent.write(row)
  sent.end()
  const ended = await reply
  expect([ended.status, ended.body.code]).toEqual([503, 'dependency_unavailable'])
  const { lines, created } = ended.body.imported
  expect([created, created > 400, created < ROWS]).toEqual([lines, true, true])
  const text = await leaving.text().catch(() => undefined)
  if (text !== undefined) expect(text.trimEnd().split('\n')).toHaveLength(ROWS)
  const again = await eventually(async () => {
    const whole = await importInto(name, rows.join(''), options)
    return whole.status === 200 ? whole.body : undefined
  }, 60_000)
  expect([again.created + again.existing, again.failed]).toEqual([ROWS, 0])
  expect(again.existing).toBeGreaterThanOrEqual(created)
  expect(await exported(name, options)).toHaveLength(ROWS)
})

test('logs of all these outages: each line of API and worker is JSON, with time and level', async () => {
  const folder = join(own.dir, 'logs')
  for (const process of ['api', 'worker'] as const) {
    const lines = await readLog(folder, process)
    // The core of Temporal's SDK has warned, too.
    expect(new Set(lines.map(({ level }) => level))).toContain(40)
    expect(lines.filter(({ msg }) => msg === 'warning of Node.js')).toEqual([])
  }
})
