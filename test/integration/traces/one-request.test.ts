// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The ids of a request in everything that it causes: records, events, requests to other servers, logs, Temporal. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

let workspace: TestWorkspace
let executions: Executions
let servers: FakeServers
beforeAll(async () => {
  servers = await FakeServers.open({ '/seen': () => ({ json: {} }) })
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
async function linesAbout(process: 'api' | 'worker', id: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(join(inject('tenon').logs, `${process}.log`), 'utf8')
  return text
    .split('\n')
    .filter((line) => line.includes(id))
    .map((line) => JSON.parse(line))
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
      `select entry::json as entry from tenon.audit where entry::jsonb ->> 'request_id' = $1`,
      [requestId],
    )
    return entries.length >= 4 ? entries.map(({ entry }) => entry) : undefined
  })
  expect(new Set(audited.map(({ operation }) => operation))).toEqual(
    new Set(['execution.create', 'collection.create', 'event.publish', 'function.invoke']),
  )
  for (const entry of audited) expect(entry).toMatchObject(ids)
})
