// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The ids of a request in everything that it causes: records, events, requests to other servers, logs, Temporal. */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type LogLine, readLog } from '../../support/clients/logs.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { publishOn } from '../../support/fixtures/event-triggers.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import { executionsOf, publishScheduled } from '../../support/fixtures/schedules.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { FakeServers, type Route } from '../../support/servers/fake-servers.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

interface Recorded {
  readonly id: string
  readonly request_id: string
  readonly trace_id: string
}

let workspace: TestWorkspace
let executions: Executions
let servers: FakeServers
/** Answers to requests, by their path. */
const answers = new Map<string, () => ReturnType<Route>>()
beforeAll(async () => {
  servers = await FakeServers.open({ '/seen': (request) => answers.get(request.url)?.() ?? { json: {} } })
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  await allowLoopback(workspace, servers)
})
afterEach(closeSubscriptions)
afterAll(() => servers?.close())

/** A request of its own id and trace. */
function traced() {
  const traceId = crypto.randomUUID().replaceAll('-', '')
  const requestId = unique('request')
  const headers = { 'x-request-id': requestId, traceparent: `00-${traceId}-b7ad6b7169203331-01` }
  return { traceId, requestId, headers, ids: { request_id: requestId, trace_id: traceId } }
}

/** Lines of a log that have the id of a request. */
const linesAbout = async (process: 'api' | 'worker', id: string): Promise<LogLine[]> =>
  (await readLog(inject('tenon').logs, process)).filter((line) => JSON.stringify(line).includes(id))

/** A task that sends a request which the fake server records. */
const sends = (path: string) =>
  `call: http, with: { method: get, endpoint: '${servers.origin}/seen/${path}' }`

/** The ids of traces that requests to a path had. */
const tracesSent = (path: string) =>
  servers.requestsTo(`/seen/${path}`).map(({ headers }) => String(headers['traceparent']).slice(3, 35))

const started = async (flow: string, headers: Record<string, string>): Promise<Recorded> => {
  const path = `${workspace.flows}/definitions/${flow}/executions`
  const { status, body } = await call('POST', path, { as: workspace.operator, body: {}, headers })
  expect(status, JSON.stringify(body)).toBe(201)
  return body
}

const FETCHES = (url: string) => `export default async (_input, { tenon, log }) => {
  log('working')
  await fetch('${url}')
  return tenon.collections.create('notes', { by: 'function' })
}`

test('request that starts a flow: records, events, sub-flow, function, other servers, logs and Temporal have its ids', async () => {
  const { ids, headers, requestId, traceId } = traced()
  const topic = unique('topic')
  const heard = await subscribeToEvents(workspace.service, `topic=${topic},collections.notes.*`)
  const fn = unique('fn')
  await deployed(workspace, FETCHES(`${servers.origin}/seen/function`), { egress: [servers.host] }, fn)
  const child = await executions.publish(
    `  - ask: { call: http, with: { method: get, endpoint: '${servers.origin}/seen/child' } }\n`,
  )
  const flow =
    await executions.publish(`  - note: { call: collection.create, with: { name: notes, document: { by: flow } } }
  - tell: { call: event.publish, with: { topic: ${topic}, data: {} } }
  - run: { call: function.invoke, with: { id: ${fn}, input: {} } }
  - sub: { run: { workflow: { namespace: n, name: ${child}, version: latest } } }
`)
  const started = await call('POST', `${workspace.flows}/definitions/${flow}/executions`, {
    ...{ as: workspace.operator, body: {}, headers },
  })
  expect(started.body).toMatchObject(ids)
  const execution = await executions.ended(started.body.id)
  expect(execution).toMatchObject({ status: 'completed', ...ids })

  const rows = await asSuperuser<{ kind: string; trace: string }>(
    `select 'run' as kind, trace from tenon.function_runs where workspace_id = $1
      union all select 'execution', trace from tenon.executions where workspace_id = $1`,
    [workspace.workspaceId],
  )
  expect(rows.map(({ kind }) => kind).toSorted()).toEqual(['execution', 'execution', 'run'])
  for (const { trace } of rows)
    expect(trace).toMatch(new RegExp(`^${requestId} 00-${traceId}-[0-9a-f]{16}-01$`))

  const events = await eventually(async () => {
    const data = heard.filter(({ event }) => event !== 'ready').map((event) => event.data)
    return data.length === 3 ? data : undefined
  })
  for (const event of events) {
    expect(event.traceparent).toMatch(new RegExp(`^00-${traceId}-`))
    expect(JSON.stringify(event)).not.toContain(requestId)
  }

  expect(
    servers
      .requestsTo('/seen')
      .map(({ url }) => url)
      .toSorted(),
  ).toEqual(['/seen/child', '/seen/function'])
  for (const { headers: sent } of servers.requestsTo('/seen')) {
    expect(sent['traceparent']).toMatch(new RegExp(`^00-${traceId}-`))
    expect(JSON.stringify(sent)).not.toContain(requestId)
  }

  const workflows = await withRawClient((client) =>
    eventually(async () => {
      const found: string[] = []
      for await (const { workflowId } of client.workflow.list({ query: `RequestIds = '${requestId}'` }))
        found.push(workflowId)
      return found.length === 3 ? found : undefined
    }),
  )
  expect(workflows).toContain(execution.workflow_id)

  const worker = await eventually(async () => {
    const lines = await linesAbout('worker', requestId)
    return lines.some(({ msg, workflow }) => msg === 'execution' && workflow === execution.workflow_id)
      ? lines
      : undefined
  })
  for (const line of worker) expect(line).toMatchObject(ids)
  expect(worker.map(({ activity }) => activity)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^runFunction/)]),
  )
  expect(await linesAbout('api', requestId)).toMatchObject([
    { ...ids, method: 'POST', status: 201, tenant: workspace.tenantId, workspace: workspace.workspaceId },
  ])
  const audited = await eventually(async () => {
    const entries = await asSuperuser<{ entry: Record<string, unknown> }>(
      // Other tests store entries that are no JSON.
      `select entry::json as entry from tenon.audit where case when entry is json then entry::jsonb ->> 'request_id' end = $1`,
      [requestId],
    )
    return entries.length >= 4 ? entries.map(({ entry }) => entry) : undefined
  })
  expect(new Set(audited.map(({ operation }) => operation))).toEqual(
    new Set(['execution.create', 'collection.create', 'event.publish', 'function.invoke']),
  )
  for (const entry of audited) expect(entry).toMatchObject(ids)
})

test('queued execution: starts in its own trace when another passes its slot on', async () => {
  const [first, second] = [traced(), traced()]
  const path = unique('queued')
  const wait = '  - go: { listen: { to: { one: { with: { type: go } } } } }'
  const more = 'concurrency: { limit: 1 }\n'
  const flow = await executions.publish(`${wait}\n  - ask: { ${sends(path)} }\n`, { more })
  const runs = [await started(flow, first.headers), await started(flow, second.headers)]
  expect(runs[1]).toMatchObject({ status: 'pending', ...second.ids })
  for (const { id } of runs) {
    await executions.shown(id, 'waiting')
    await executions.send(id, 'signal', { event: { type: 'go' } })
    await executions.ended(id)
  }
  expect(tracesSent(path)).toEqual([first.traceId, second.traceId])
})

test('call that is repeated: each attempt is in the trace of the request', async () => {
  const { headers, traceId } = traced()
  const path = unique('flaky')
  let attempts = 0
  answers.set(`/seen/${path}`, () => (++attempts < 3 ? { status: 503 } : { json: {} }))
  const retry = 'retry: { delay: { milliseconds: 10 }, limit: { attempt: { count: 3 } } }'
  const flow = await executions.publish(
    `  - a: { try: [{ ask: { ${sends(path)} } }], catch: { errors: { with: { status: 503 } }, ${retry} } }\n`,
  )
  const { id } = await started(flow, headers)
  expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
  expect(tracesSent(path)).toEqual([traceId, traceId, traceId])
  const spans = servers
    .requestsTo(`/seen/${path}`)
    .map((sent) => String(sent.headers['traceparent']).slice(36, 52))
  expect(new Set(spans).size).toBe(3)
})

test('event of a request: what it starts has an id of its own, in the trace of the event', async () => {
  const { headers, requestId, traceId } = traced()
  const [topic, path] = [unique('topic'), unique('heard')]
  const { flowId } = await publishOn(workspace, `{ one: { with: { type: ${topic} } } }`, {
    tasks: `  - ask: { ${sends(path)} }`,
  })
  await call('POST', '/v1/events/publish', { as: workspace.service, body: { topic, data: {} }, headers })
  const run = await endedOf(flowId)
  expect(run).toMatchObject({ trace_id: traceId, request_id: expect.stringMatching(/^req_/) })
  expect(run.request_id).not.toBe(requestId)
  expect(tracesSent(path)).toEqual([traceId])
})

test('schedule: each start has ids of its own, and its child acts in them', async () => {
  const [name, path] = [unique('tick'), unique('ticked')]
  const published = await publishScheduled(
    workspace,
    name,
    '{ every: PT1S }',
    `\n  - ask: { ${sends(path)} }`,
  )
  const { headers, traceId } = traced()
  await call('GET', '/v1/me', { as: workspace.service, headers })
  const [first, second] = await eventually(async () => {
    const runs = (await executionsOf(workspace, name)).filter(
      ({ status }: { status: string }) => status === 'completed',
    )
    return runs.length >= 2 ? (runs as Recorded[]) : undefined
  })
  await publishScheduled(workspace, name, '', `\n  - ask: { ${sends(path)} }`)
  expect(published.status).toBe(201)
  expect(first?.request_id).toMatch(/^req_/)
  expect(first?.request_id).not.toBe(second?.request_id)
  expect(first?.trace_id).not.toBe(second?.trace_id)
  expect(tracesSent(path)).toEqual(expect.arrayContaining([first?.trace_id, second?.trace_id]))
  expect(tracesSent(path)).not.toContain(traceId)
})

test('documents that many requests write at once: each event is in the trace of its request', async () => {
  const many = Array.from({ length: 60 }, () => traced())
  const path = '/v1/collections/written/documents'
  const as = workspace.service
  await call('POST', path, { as, body: { n: -1 } })
  const heard = await subscribeToEvents(as, 'topic=collections.written.*')
  const made = await Promise.all(
    many.map(({ headers }, n) => call('POST', path, { as, body: { n }, headers })),
  )
  const changed = await Promise.all(
    many.map(({ headers }, n) =>
      call('PATCH', `${path}/${made[n]?.body.id}`, { as, body: { m: n }, headers }),
    ),
  )
  expect(new Set([...made, ...changed].map(({ status }) => status))).toEqual(new Set([201, 200]))
  const events = await eventually(async () => {
    const all = heard.filter(({ event }) => event !== 'ready').map((event) => event.data)
    const data = all.filter(({ data: { document } }) => document.n >= 0)
    return data.length === 2 * many.length ? data : undefined
  })
  const traces = events.map(({ traceparent, data }) => [data.document.n, traceparent.slice(3, 35)])
  expect(traces.toSorted()).toEqual(
    many
      .flatMap(({ traceId }, n) => [
        [n, traceId],
        [n, traceId],
      ])
      .toSorted(),
  )
})

test('executions that many requests start at once: each is in the trace of its request', async () => {
  const many = Array.from({ length: 40 }, () => traced())
  const flow = await executions.publish('  - a: { set: { a: 1 } }\n')
  const runs = await Promise.all(many.map(({ headers }) => started(flow, headers)))
  expect(runs.map(({ request_id, trace_id }) => ({ request_id, trace_id }))).toEqual(
    many.map(({ ids }) => ids),
  )
  await Promise.all(runs.map(({ id }) => executions.ended(id)))
})

test('request whose body arrives in pieces: acts in its trace', async () => {
  const { headers, traceId } = traced()
  const topic = unique('large')
  const heard = await subscribeToEvents(workspace.service, `topic=${topic}`)
  const { url } = inject('tenon')
  const sending = request(`${url}/v1/events/publish`, {
    method: 'POST',
    headers: { ...workspace.service, ...headers, 'content-type': 'application/json' },
  })
  const replied = once(sending, 'response')
  sending.write(`{ "topic": "${topic}", `)
  // By then the API waits for the rest.
  await call('GET', '/v1/me', { as: workspace.service })
  sending.end('"data": {} }')
  const [response] = (await replied) as [IncomingMessage]
  response.resume()
  expect(response.statusCode).toBe(202)
  const { data } = await eventually(async () => heard.find(({ event }) => event !== 'ready'))
  expect(data.traceparent).toContain(traceId)
})

test('invalid traceparent: a new trace; the response has the id of the request, the record has both', async () => {
  const flow = await executions.publish('  - a: { set: { a: 1 } }\n')
  const { traceId } = traced()
  for (const traceparent of [
    `00-${traceId}-0000000000000000-01`,
    `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
    'x',
  ]) {
    const { trace_id, request_id } = await started(flow, { traceparent })
    expect([trace_id, request_id]).toEqual([
      expect.stringMatching(/^[0-9a-f]{32}$/),
      expect.stringMatching(/^req_/),
    ])
    expect(trace_id).not.toBe(traceId)
  }
})

/** The execution of a flow, once it has ended. */
const endedOf = (flowId: string): Promise<Recorded> =>
  eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/definitions/${flowId}/executions`, {
      as: workspace.operator,
    })
    const [run] = body.data
    return run?.status === 'completed' ? run : undefined
  })
