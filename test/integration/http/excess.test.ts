/** Excessive requests: refused or served in parts, without effect on others. */

import { Client, Connection } from '@temporalio/client'
import { expect, inject, test } from 'vitest'
import { deployed } from '../../support/fixtures/functions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

test('page: many large documents: refused; smaller page: served', async () => {
  const workspace = await createTestWorkspace()
  const path = '/v1/collections/large/documents'
  const text = 'x'.repeat(260_000)
  for (let n = 0; n < 140; n += 10) {
    const written = Array.from({ length: 10 }, () =>
      call('POST', path, { as: workspace.service, body: { text } }),
    )
    for (const { status } of await Promise.all(written)) expect(status).toBe(201)
  }
  const query = (limit: number) =>
    call('POST', '/v1/collections/large/query', { as: workspace.service, body: { limit } })
  const refused = await query(1_000)
  expect([refused.status, refused.body.code]).toEqual([413, 'output_too_large'])
  const served = await query(100)
  expect([served.status, served.body.data.length, served.body.page.has_more]).toEqual([200, 100, true])
})

test("stream: megabytes of old events: all sent at the client's pace, then new ones", async () => {
  const workspace = await createTestWorkspace()
  const publish = (data: string) =>
    call('POST', '/v1/events/publish', { as: workspace.service, body: { topic: 'large', data } })
  const count = 40
  for (let n = 0; n < count; n++) expect((await publish(`${n}:${'x'.repeat(200_000)}`)).status).toBe(202)
  const controller = new AbortController()
  const { body } = await fetch(`${inject('tenon').url}/v1/events/subscribe?topic=large`, {
    headers: { ...workspace.anon, 'last-event-id': '0-0' },
    signal: controller.signal,
  })
  let text = ''
  const read = (async () => {
    for await (const chunk of body ?? []) text += new TextDecoder().decode(chunk)
  })().catch(() => {})
  await eventually(async () => (text.includes(`${count - 1}:xxx`) ? true : undefined))
  await publish('new')
  await eventually(async () => (text.includes('"data":"new"') ? true : undefined))
  controller.abort()
  await read
  const received = [...text.matchAll(/"data":"(\d+):x/g)].map(([, n]) => Number(n))
  expect(received).toEqual(Array.from({ length: count }, (_, n) => n))
  expect(text).not.toContain('event: end')
})

test('HEAD: event stream: refused, since its reply would never end', async () => {
  const workspace = await createTestWorkspace()
  const head = await call('HEAD', '/v1/events/subscribe?topic=a', { as: workspace.service })
  expect([head.status, head.headers.get('allow')]).toEqual([405, 'GET'])
})

test('HTTP method: on no route: refused like any other', async () => {
  const workspace = await createTestWorkspace()
  const refused = await call('QUERY', '/v1/events/publish', { as: workspace.service })
  expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST'])
})

test('JSON: any depth: client error', async () => {
  const workspace = await createTestWorkspace()
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  const event = { as: workspace.service, body: `{"topic":"a","data":${deep}}` }
  expect((await call('POST', '/v1/events/publish', event)).status).toBe(400)
  const body = `{"workspace_id":"${workspace.workspaceId}","experimental":${deep}}`
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(400)
})

async function runToEnd(workspace: TestWorkspace, tasks: string, input: unknown): Promise<Reply> {
  const name = unique('flow')
  const source = `document: {dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0'}\ndo:\n${tasks}`
  const as = workspace.operator
  expect((await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })).status).toBe(201)
  const at = `${workspace.flows}/definitions/${name}`
  expect((await call('POST', `${at}/versions`, { as, body: {} })).status).toBe(201)
  const began = await call('POST', `${at}/executions`, { as, body: { input } })
  return eventually(async () => {
    const run = await call('GET', `${workspace.flows}/executions/${began.body.id}`, { as })
    return run.body.ended_at === null ? undefined : run
  }, 40_000)
}

test('call: payload too large, alone or in twelve branches: the execution faults', async () => {
  const workspace = await createTestWorkspace()
  const grown = `- grow: {set: '\${ {t: (.s + .s + .s + .s + .s + .s)} }'}\n`
  const save = '- save: {call: collection.create, with: {name: large, document: {t: "${ .t }"}}}\n'
  const large = await runToEnd(workspace, grown + save, { s: '\u0001'.repeat(80_000) })
  expect([large.body.status, large.body.error?.instance]).toEqual(['faulted', '/do/1/save'])
  const branch = (n: number) => `{b${n}: {call: event.publish, with: {topic: a, data: "\${ .t }"}}}`
  const fork = `- all: {fork: {branches: [${Array.from({ length: 12 }, (_, n) => branch(n)).join(', ')}]}}\n`
  const many = await runToEnd(workspace, grown + fork, { s: 'x'.repeat(150_000) })
  expect(many.body.status).toBe('faulted')
})

/** Bytes of the rows of a tenant in all tables of the platform. */
async function storedBytesOf({ tenantId }: TestWorkspace): Promise<number> {
  const tables = await asSuperuser<{ relation: string }>(`
    select format('%I.%I', table_schema, table_name) as relation from information_schema.columns
    join information_schema.tables using (table_schema, table_name)
    where table_schema in ('tenon', 'tenon_data') and column_name = 'tenant_id' and table_type = 'BASE TABLE'`)
  const sums = tables.map(
    ({ relation }) =>
      `select coalesce(sum(pg_column_size(r.*)), 0) as bytes from ${relation} r where tenant_id = $1`,
  )
  const [row] = await asSuperuser<{ bytes: string }>(
    `select sum(bytes) as bytes from (${sums.join(' union all ')}) all_rows`,
    [tenantId],
  )
  return Number(row?.bytes)
}

test('executions whose calls give 5 MB each: fault, and the database grows like that of a tenant whose calls give nothing', async () => {
  const [large, small] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const grown = await Promise.all(
    [large, small].map(async (workspace) => {
      // Random, since what compresses well hides in the database.
      const bytes = workspace === large ? 2_500_000 : 0
      const source = `export default () => ({ data: crypto.getRandomValues(new Uint8Array(65_536)).toHex().repeat(${bytes} / 65_536) })`
      const id = await deployed(workspace, source)
      const before = await storedBytesOf(workspace)
      const tasks = `- get: {call: function.invoke, with: {id: ${id}, input: {}}}\n`
      const ends = await Promise.all(Array.from({ length: 8 }, () => runToEnd(workspace, tasks, {})))
      const statuses = new Set(ends.map(({ body }) => body.status))
      expect(statuses).toEqual(new Set([workspace === large ? 'faulted' : 'completed']))
      return (await storedBytesOf(workspace)) - before
    }),
  )
  const [ofLarge = 0, ofSmall = 0] = grown
  expect(ofSmall).toBeGreaterThan(1_000)
  // Errors name sizes and limits, which takes some more bytes.
  expect(ofLarge).toBeLessThan(ofSmall * 3)
})

test('execution: more data than a Temporal history may hold: completes, large payloads stay outside', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { bucket } = (
    await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as: workspace.operator })
  ).body
  const headers = { 'content-type': 'text/plain' }
  const path = `/v1/objects/${bucket}/large`
  expect(
    (await call('PUT', path, { as: workspace.service, body: 'x'.repeat(1_000_000), headers })).status,
  ).toBe(201)
  const get = `get: {call: object.get, with: {bucket: ${bucket}, key: large}, output: {as: '\${ {} }'}}`
  const loop = `- all: {for: {each: n, in: '\${ .l }'}, do: [{${get}}]}\n`
  const { body } = await runToEnd(workspace, loop, { l: Array.from({ length: 60 }, (_, n) => n) })
  expect(body.status, JSON.stringify(body.error)).toBe('completed')
  const { historySize = 0 } = await withRawClient((client) =>
    client.workflow.getHandle(body.workflow_id).describe(),
  )
  expect(historySize).toBeLessThan(1_000_000)
})

test('raised error: detail of 900 kB: shortened to 4 KiB', async () => {
  const workspace = await createTestWorkspace()
  const raise = `- no: {raise: {error: {type: 'https://a.b/c', status: 400, detail: '\${ .s + .s }'}}}\n`
  const { body } = await runToEnd(workspace, raise, { s: '€'.repeat(160_000) })
  expect([body.status, body.error.status]).toEqual(['faulted', 400])
  expect(Buffer.byteLength(body.error.detail)).toBeLessThanOrEqual(4_096)
  expect(await endedOnTemporal(workspace, body.flow_id)).toBe(true)
})

/** Our record is written before the workflow fails; only Temporal knows whether the workflow ended. */
async function endedOnTemporal(workspace: TestWorkspace, flowId: string): Promise<boolean> {
  const { env } = inject('tenon')
  const connection = await Connection.connect({ address: env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const client = new Client({ connection })
    const query = `FlowId = '${flowId}' and TenantId = '${workspace.tenantId}'`
    return await eventually(async () => {
      for await (const run of client.workflow.list({ query })) if (run.status.name === 'FAILED') return true
      return undefined
    })
  } finally {
    await connection.close()
  }
}
