// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Spans for a collector of OpenTelemetry: their tree, and that executions have the same histories with and without them. */

import { readFile } from 'node:fs/promises'
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

/** A span as a collector gets it (OTLP, JSON). */
interface Span {
  readonly service: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly { readonly key: string; readonly value: unknown }[]
}

const PARENT = 'b7ad6b7169203331'
let collector: FakeServers
let own: OwnPlatform
beforeAll(async () => {
  collector = await FakeServers.open({ '/v1/traces': () => ({ json: {} }), '/seen': () => ({ json: {} }) })
  own = await ownPlatform({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin } })
})
afterAll(async () => {
  await own?.end()
  await collector?.close()
})

/** Runs a flow that calls a function and another server. @returns the execution */
async function runFlow(workspace: TestWorkspace, at: Running, headers: Record<string, string>) {
  const executions = new Executions(workspace, at)
  const { operator: as, workspaceId: workspace_id, flows } = workspace
  const egress = { allow: [collector.host] }
  await call('POST', '/v1/services/configure', { as, at, body: { workspace_id, egress } })
  const source = 'export default () => 1'
  await call('POST', '/v1/functions', { as, at, body: { workspace_id, name: 'one', source, config: {} } })
  const flow = await executions.publish(
    [
      '  - run: { call: function.invoke, with: { id: one, input: {} } }',
      `  - ask: { call: http, with: { method: post, endpoint: '${collector.origin}/seen' } }\n`,
    ].join('\n'),
  )
  const path = `${flows}/definitions/${flow}/executions`
  const { body } = await call('POST', path, { as, at, body: {}, headers })
  return executions.ended(body.id)
}

/** All spans of a trace that the collector has got. */
const spansOf = (traceId: string): Span[] =>
  collector
    .requestsTo('/v1/traces')
    .flatMap(({ body }) => JSON.parse(body).resourceSpans)
    .flatMap(({ resource, scopeSpans }) => {
      const name = resource.attributes.find(({ key }: { key: string }) => key === 'service.name')
      return scopeSpans.flatMap(({ spans }: { spans: object[] }) =>
        spans.map((span) => ({ service: name.value.stringValue, ...span })),
      )
    })
    .filter((span) => span.traceId === traceId)

test('request of a client that records: its spans are below the span of the client, in API and worker', async () => {
  const traceId = crypto.randomUUID().replaceAll('-', '')
  const headers = { traceparent: `00-${traceId}-${PARENT}-01`, 'x-request-id': 'recorded' }
  await runFlow(own.workspace, own.started.running, headers)
  const spans = await eventually(async () => {
    const all = spansOf(traceId)
    const names = all.map(({ name }) => name)
    return names.some((name) => name.startsWith('POST 127')) &&
      names.some((name) => name.startsWith('POST /v1'))
      ? all
      : undefined
  })
  const ids = new Set([PARENT, ...spans.map(({ spanId }) => spanId)])
  for (const { parentSpanId, attributes } of spans) {
    expect(ids).toContain(parentSpanId)
    expect(attributes).toContainEqual({ key: 'tenon.request_id', value: { stringValue: 'recorded' } })
  }
  expect(new Set(spans.map(({ service }) => service))).toEqual(new Set(['tenon-api', 'tenon-worker']))
  const [server] = spans.filter(({ service }) => service === 'tenon-api')
  expect(server).toMatchObject({
    name: 'POST /v1/flows/workspaces/:ws/definitions/:flow/executions',
    parentSpanId: PARENT,
  })
  // The other server may continue the trace below the span of the request to it.
  const [asked] = collector.requestsTo('/seen')
  const client = spans.find(({ name }) => name.startsWith('POST 127'))
  expect(asked?.headers['traceparent']).toBe(`00-${traceId}-${client?.spanId}-01`)
})

test('request of a client that records nothing: no span', async () => {
  const traceId = crypto.randomUUID().replaceAll('-', '')
  const { running } = own.started
  await call('GET', '/v1/me', {
    as: own.workspace.service,
    at: running,
    headers: { traceparent: `00-${traceId}-${PARENT}-00` },
  })
  // A later span of the same process has arrived, so this one would have.
  const later = crypto.randomUUID().replaceAll('-', '')
  await call('GET', '/v1/me', {
    as: own.workspace.service,
    at: running,
    headers: { traceparent: `00-${later}-${PARENT}-01` },
  })
  await eventually(async () => spansOf(later)[0])
  expect(spansOf(traceId)).toEqual([])
})

test('history of an execution: has the same events with spans as without, and replays', async () => {
  const histories = []
  const without = await createTestWorkspace()
  for (const [workspace, at] of [
    [own.workspace, own.started.running],
    [without, inject('tenon')],
  ] as const) {
    const { workflow_id: id } = await runFlow(workspace, at, {})
    const history = await withRawClient((client) => client.workflow.getHandle(id).fetchHistory(), at)
    histories.push({ id, at, history })
  }
  const [withSpans, plain] = histories.map(({ history }) =>
    (history.events ?? []).map(({ eventType }) => eventType),
  )
  expect(withSpans).toEqual(plain)
  Runtime.install({ logger: new DefaultLogger('ERROR', () => {}) })
  for (const { id, at, history } of histories) {
    const code = await readFile(at.env['TENON_WORKFLOW_BUNDLE'] ?? '', 'utf8')
    const platform = openInProcessPlatform(at.env)
    const dataConverter = { payloadCodecs: [platform.codec] }
    try {
      await Worker.runReplayHistory({ workflowBundle: { code }, dataConverter }, history, id)
    } finally {
      await platform.close()
    }
  }
})
