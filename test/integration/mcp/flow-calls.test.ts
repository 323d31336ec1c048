// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `call: mcp`: flows call tools of the servers of their workspace, with the checks and the log of every other call. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  callsOf,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { canary, storeSecret } from '../../support/fixtures/secrets.ts'
import { call, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const ORDERS = {
  properties: {
    customer: { type: 'string' },
    status: { type: 'string', enum: ['late', 'refunded'] },
  },
  required: ['customer', 'status'],
  additionalProperties: false,
}
const TOOLS = Object.fromEntries(
  ['list', 'get', 'update'].map((verb) => [`collections:orders:${verb}`, { enabled: true }]),
)

let workspace: TestWorkspace
let server: PublishedMcpServer
let executions: Executions

const tool = (name: string, args: string, on = 'desk') =>
  `call: mcp, with: { server: ${on}, tool: ${name}, arguments: ${args} }`

/** The faults of a flow with one call, as `code line:column hint`. */
async function faultsOf(task: string): Promise<string[]> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n  - a: { ${task} }\n`
  const { diagnostics } = await ok(
    call('POST', `${workspace.flows}/validate`, { as: workspace.operator, body: { source } }),
  )
  return diagnostics.map(
    (one: Record<string, unknown>) =>
      `${one['code']} ${one['line']}:${one['column']} ${one['hint'] ?? one['message']}`,
  )
}

beforeAll(async () => {
  workspace = await createMcpWorkspace()
  executions = new Executions(workspace)
  const as = workspace.operator
  const experimental = { workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as, body: experimental }))
  const declared = { workspace_id: workspace.workspaceId, collection: 'orders', store: 'relational' }
  await ok(call('POST', '/v1/schemas', { as, body: { ...declared, schema: ORDERS, mode: 'enforce' } }))
  server = await publishMcpServer(workspace, 'desk', TOOLS)
})

test('composite tool: a flow calls two tools of its server; the log has an entry for each', async () => {
  const order = await ok(
    call('POST', '/v1/collections/orders/documents', {
      as: workspace.service,
      body: { customer: 'Ann', status: 'late' },
    }),
  )
  const refund = "{ id: '${ .structuredContent.data[0].id }', status: refunded }"
  const schema = '{ type: object, properties: { customer: { type: string } }, required: [customer] }'
  await executions.publish(
    [
      `  - find: { ${tool('orders_list', "{ customer: '${ .customer }', status: late }")} }`,
      `  - refund: { ${tool('orders_update', refund)}, output: { as: .structuredContent } }\n`,
    ].join('\n'),
    { name: 'refund-late', more: `input: { schema: { document: ${schema} } }\n` },
  )
  await publish(server, { ...TOOLS, 'flows:refund-late:run': { enabled: true } })
  const agent = await tokenFor(server, scopesOf(server, 'run_refund-late'))
  const { body } = await callTool(server.path, agent, 'run_refund-late', { customer: 'Ann' })
  expect(body.result.structuredContent).toMatchObject({
    status: 'completed',
    output: { id: order.id, customer: 'Ann', status: 'refunded' },
  })
  const { execution } = body.result.structuredContent
  const { workflow_id, request_id } = await executions.read(execution)
  const [composite, refunded, found] = await callsOf(server)
  expect(composite).toMatchObject({ channel: 'wire', tool: 'run_refund-late', outcome: 'ok' })
  const byFlow = {
    channel: 'flow',
    principal: workflow_id,
    request_id,
    outcome: 'ok',
    scope: null,
  }
  expect(found).toMatchObject({
    ...byFlow,
    tool: 'orders_list',
    arguments_shape: ['customer: string', 'status: string'],
  })
  expect(refunded).toMatchObject({ ...byFlow, tool: 'orders_update', transport_status: 200, version: 2 })
})

test('error of a tool: caught by `try` as a runtime error with its code, or the error of the execution', async () => {
  const ask = tool('orders_get', '{ id: none }')
  const caught = await executions.publish(`  - a:
      try: [{ ask: { ${ask} } }]
      catch:
        errors: { with: { type: runtime } }
        do: [{ told: { set: { code: '\${ $error.code }', detail: '\${ $error.detail }' } } }]
`)
  const { output } = await executions.ended(await executions.start(caught))
  expect(output).toEqual({
    code: 'not_found',
    detail: expect.stringMatching(/^orders_get: not_found: There is no such document\./),
  })
  const uncaught = await executions.publish(`  - ask: { ${tool('orders_list', '{ limit: 9000 }')} }\n`)
  const { status, error } = await executions.ended(await executions.start(uncaught))
  expect([status, error]).toEqual([
    'faulted',
    expect.objectContaining({ status: 500, code: 'validation_failed', instance: '/do/0/ask' }),
  ])
  expect(error.detail).toContain('- limit ')
})

describe('publication: names and arguments are checked against the active version', () => {
  test.each([
    ['server', tool('orders_list', '{}', 'dsk'), ['unknown_reference 3:29 Did you mean desk?']],
    ['tool', tool('order_list', '{}'), ['unknown_reference 3:43 Did you mean orders_list?']],
    [
      'argument that is missing',
      tool('orders_get', '{}'),
      ['missing_argument 3:61 `orders_get` needs the argument `id`.'],
    ],
    [
      'no arguments',
      'call: mcp, with: { server: desk, tool: orders_get }',
      ['missing_argument 3:21 `orders_get` needs the argument `id`.'],
    ],
    [
      'argument that is unknown',
      tool('orders_list', '{ custmer: Ann }'),
      ['unknown_argument 3:75 Did you mean customer?'],
    ],
    ['arguments by an expression', tool('orders_get', "'${ . }'"), []],
  ])('%s', async (_name, task, expected) => {
    expect(await faultsOf(task)).toEqual(expected)
  })

  test('server of another workspace, by its id: unknown (T38)', async () => {
    const foreign = await publishMcpServer(await createMcpWorkspace(), 'desk')
    expect(await faultsOf(tool('notes_list', '{}', foreign.id))).toEqual([
      'unknown_reference 3:29 There are: desk.',
    ])
  })
})

test('secret that reaches the arguments as data: refused, and not in the log', async () => {
  await storeSecret(workspace, 'key', canary())
  const before = (await callsOf(server)).length
  const ask = tool('orders_list', "'${ . }'")
  const flow = await executions.publish(
    `  - a: { set: { customer: '\${ $secrets.key }' } }\n  - b: { ${ask} }\n`,
    {
      more: 'use: { secrets: [key] }\n',
    },
  )
  const { error } = await executions.ended(await executions.start(flow))
  expect(error).toMatchObject({ title: 'Configuration error', instance: '/do/1/b' })
  expect(await callsOf(server)).toHaveLength(before)
})

test('server deleted after the flow was published: not found', async () => {
  const other = await publishMcpServer(workspace, 'gone')
  const flow = await executions.publish(`  - a: { ${tool('notes_list', '{}', 'gone')} }\n`)
  await ok(call('PATCH', other.base, { as: workspace.operator, body: { suspended: true } }))
  expect((await executions.ended(await executions.start(flow))).error).toMatchObject({
    code: 'state_conflict',
  })
  expect((await callsOf(other))[0]).toMatchObject({
    channel: 'flow',
    outcome: 'denied',
    code: 'state_conflict',
  })
  await ok(call('DELETE', other.base, { as: workspace.operator }))
  expect((await executions.ended(await executions.start(flow))).error).toMatchObject({
    status: 404,
    code: 'not_found',
  })
})

test('tool over a flow: its output, or a handle that goes on; both executions have the same starter', async () => {
  await executions.publish('  - a: { wait: { milliseconds: 300 } }\n  - b: { set: { done: true } }\n', {
    name: 'inner',
  })
  await publish(server, { ...TOOLS, 'flows:inner:run': { enabled: true } })
  const at = "{ execution: '${ .execution }' }"
  const flow = await executions.publish(
    [
      `  - direct: { ${tool('run_inner', '{}')}, output: { as: .structuredContent } }`,
      `  - again: { ${tool('execution_status', at)}, output: { as: .structuredContent } }\n`,
    ].join('\n'),
  )
  const { output, started_by } = await executions.ended(await executions.start(flow))
  expect(output).toMatchObject({ status: 'completed', output: { done: true } })
  expect(await executions.read(output.execution)).toMatchObject({ started_by, trigger: { kind: 'manual' } })
})

test('flow that calls itself by a tool: ends at the bound of the chain', async () => {
  await executions.publish('  - a: { set: {} }\n', { name: 'loop' })
  const looped = { 'flows:loop:run': { enabled: true, limits: { wait_seconds: 0 } } }
  await publish(server, looped)
  await executions.publish(`  - a: { ${tool('run_loop', '{}')} }\n`, { name: 'loop' })
  await publish(server, looped)
  await executions.start('loop')
  const all = await eventually(async () => {
    const page = `${workspace.flows}/executions?flow=loop&page[size]=100`
    const { data } = await ok(call('GET', page, { as: workspace.operator }))
    const last = data.find((one: { status: string }) => one.status === 'faulted')
    return last && data.every((one: { ended_at: unknown }) => one.ended_at !== null) ? data : undefined
  })
  expect(all).toHaveLength(17)
  const faulted = all.filter((one: { status: string }) => one.status === 'faulted')
  expect(faulted).toEqual([
    expect.objectContaining({ error: expect.objectContaining({ code: 'state_conflict' }) }),
  ])
})
