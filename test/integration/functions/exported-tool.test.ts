/** Functions that export `tool`: deployed and shown through the API, published and called as tools of an MCP server. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  callTool,
  MARKED,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const INPUT = {
  type: 'object',
  properties: {
    sku: { type: 'string', pattern: '^[A-Z]{3}$', description: 'Article number.' },
    count: { type: 'integer', minimum: 1 },
    input: { type: 'string' },
    version: { type: 'integer' },
  },
  required: ['sku'],
  additionalProperties: false,
}
const OUTPUT = { type: 'object', properties: { price: { type: 'number' } }, required: ['price'] }
const TOOL = { description: 'Quotes a price for an order.', readOnly: true }
const SCHEMAS = `export const input = ${JSON.stringify(INPUT)}
export const output = ${JSON.stringify(OUTPUT)}
`
const QUOTE = `${SCHEMAS}export const tool = ${JSON.stringify(TOOL)} as const
export default (order: { sku: string, count?: number }) =>
  order.sku === 'BAD' ? { price: 'unknown' } : { price: 4 * (order.count ?? 1), order }`
const SHOWN = {
  tool: { description: TOOL.description, read_only: true },
  input_schema: INPUT,
  output_schema: OUTPUT,
}

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const deploy = (name: string, source: string): Promise<Reply> =>
  call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name, source },
  })

async function functionNamed(name: string): Promise<{ id: string }> {
  const path = `/v1/functions?workspace_id=${workspace.workspaceId}`
  const { data } = await ok(call('GET', path, { as: workspace.operator }))
  return data.find((one: { name: string }) => one.name === name)
}

describe('deployment of a function', () => {
  test('exports `tool`: the answer and the function show it, lists do not; the next version has its own', async () => {
    const as = workspace.operator
    const made = await ok(deploy('shown', QUOTE))
    expect(made).toMatchObject(SHOWN)
    const { id } = made
    expect(await ok(call('GET', `/v1/functions/${id}`, { as }))).toMatchObject(SHOWN)
    const list = await ok(call('GET', `/v1/functions?workspace_id=${workspace.workspaceId}`, { as }))
    expect(list.data.find((one: { id: string }) => one.id === id)).not.toHaveProperty('tool')
    const next = await ok(deploy('shown', 'export const tool = {}\nexport default () => 1'))
    expect([next.version, next.tool]).toEqual([2, {}])
    expect(await ok(deploy('shown', 'export default () => 1'))).not.toHaveProperty('tool')
    expect(await ok(call('GET', `/v1/functions/${id}`, { as }))).not.toHaveProperty('tool')
  })

  test('exports a `tool` that is no literal: refused with the location in its source, and nothing runs', async () => {
    const source = `interface Order { sku: string }
export const tool = {
  description: (() => { throw new Error('it ran') })(),
}
export default () => 1`
    const { status, body } = await deploy('refused', source)
    expect([status, body.code]).toEqual([422, 'function_invalid'])
    expect(body.diagnostics).toEqual([
      {
        line: 3,
        column: expect.any(Number),
        message: expect.stringContaining('`tool.description`: The export `tool` must be'),
      },
    ])
    const missing = await call('GET', `/v1/functions?workspace_id=${workspace.workspaceId}`, {
      as: workspace.operator,
    })
    expect(JSON.stringify(missing.body)).not.toContain('refused')
  })
})

describe('tool over a function', () => {
  let mcpServer: PublishedMcpServer
  let as: Caller
  beforeAll(async () => {
    await ok(deploy('quote', QUOTE))
    await ok(deploy('plain', 'export default (input) => input'))
    mcpServer = await publishMcpServer(workspace, 'quotes', {
      call_quote: { enabled: true },
      call_plain: { enabled: true },
    })
    as = await tokenFor(mcpServer, scopesOf(mcpServer, 'call_quote', 'call_plain'))
  })
  const use = async (tool: string, args: unknown) =>
    (await callTool(mcpServer.path, as, tool, args)).body.result

  test('exported schemas: listed as they are, and clients of both protocol versions call with flat arguments', async () => {
    for (const connect of [withLegacyClient, withModernClient] as const) {
      await connect(mcpServer.url, as, async (client) => {
        const { tools } = await client.listTools()
        expect(tools.find(({ name }) => name === 'call_quote')).toMatchObject({
          description: TOOL.description,
          inputSchema: INPUT,
          outputSchema: OUTPUT,
          annotations: {
            readOnlyHint: true,
            destructiveHint: false,
            idempotentHint: true,
            openWorldHint: false,
          },
        })
        // Arguments named like fields of the operation belong to the function, whose version stays fixed.
        const args = { sku: 'ABC', count: 3, input: 'x', version: 9 }
        const { structuredContent } = await client.callTool({ name: 'call_quote', arguments: args })
        expect(structuredContent).toEqual({ ...MARKED, price: 12, order: args })
      })
    }
    const { data } = await ok(call('GET', `${mcpServer.base}/candidates`, { as: workspace.operator }))
    const risks = data.map(({ name, risk }: { name: string; risk: string }) => [name, risk])
    expect(risks).toContainEqual(['call_quote', 'read'])
    expect(risks).toContainEqual(['call_plain', 'write'])
  })

  test.each([
    [{}, '- sku is required'],
    [{ sku: 'abc' }, '- sku must match ^[A-Z]{3}$'],
    [{ sku: 'ABC', count: 0 }, '- count must be at least 1'],
    [{ sku: 'ABC', more: 1 }, '- more is unknown.'],
    [
      { sku: 'BAD' },
      'function_output_invalid: The result does not match the schema of the function: /price must',
    ],
  ])('arguments %j: a tool error', async (args, text) => {
    const result = await use('call_quote', args)
    expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining(text) }] })
    expect(result).not.toHaveProperty('structuredContent')
  })

  test('function without `tool`: its input stays one argument', async () => {
    expect(await use('call_plain', { input: { a: 1 } })).toMatchObject({ content: [{ text: '{"a":1}' }] })
    expect(await use('call_plain', { a: 1 })).toMatchObject({ isError: true })
  })

  test('run of a tool: names its server; answers that a caller makes up in `context` do not reach the code', async () => {
    const forged = { input: 1, context: { mcp: { inputResponses: { sure: { action: 'accept' } } } } }
    expect(await use('call_plain', forged)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('context is unknown') }],
    })
    await use('call_plain', { input: 'named' })
    const { id } = await functionNamed('plain')
    const runs = await ok(call('GET', `/v1/functions/${id}/runs?trigger=mcp`, { as: workspace.operator }))
    const started = new Set(runs.data.map(({ trigger }: { trigger: object }) => JSON.stringify(trigger)))
    expect([...started].map((one) => JSON.parse(String(one)))).toEqual([{ kind: 'mcp', id: mcpServer.id }])
  })

  test('redeployed with more effects: published again, it waits for approval', async () => {
    const { readOnly: _no, ...rest } = TOOL
    await ok(
      deploy(
        'quote',
        `${SCHEMAS}export const tool = ${JSON.stringify(rest)}\nexport default () => ({ price: 1 })`,
      ),
    )
    expect(await use('call_quote', { sku: 'ABC' })).toMatchObject({ structuredContent: { price: 4 } })
    const published = await publish(mcpServer, { call_quote: { enabled: true } })
    expect(published).toMatchObject({ state: 'needs_approval' })
  })
})
