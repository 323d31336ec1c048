/** Search of tools: what is listed, found and called where a server has many tools; a call through it meets the same gate. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  askToken,
  callsOf,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import { type Caller, call, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const THINGS = [
  'orders',
  'refunds',
  'invoices',
  'customers',
  'shipments',
  'returns',
  'carts',
  'coupons',
  'taxes',
]
const VERBS = ['list', 'get', 'create', 'update', 'delete']
const PINNED = 'collections:orders:list'
const TOOLS = Object.fromEntries(
  THINGS.flatMap((thing) =>
    VERBS.map((verb) => {
      const candidate = `collections:${thing}:${verb}`
      return [candidate, { enabled: true, ...(candidate === PINNED && { pinned: true }) }]
    }),
  ),
)
const META = ['tool_search', 'tool_call']

let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

beforeAll(async () => {
  workspace = await createMcpWorkspace()
  for (const thing of THINGS)
    await ok(
      call('POST', `/v1/collections/${thing}/documents`, { as: workspace.service, body: { text: thing } }),
    )
  server = await publishMcpServer(workspace, 'many', TOOLS)
  as = await tokenFor(server, scopesOf(server, 'refunds_list', 'refunds_create', 'orders_list'))
})

const change = (body: object) => ok(call('PATCH', server.base, { as: workspace.operator, body }))
const listed = async (of = server, by = as) =>
  (await rpc(of.path, by, 'tools/list')).body.result.tools as { name: string; annotations: object }[]
const names = (tools: readonly { name: string }[]) => tools.map(({ name }) => name)
const search = async (query: string, more: object = {}, by = as) =>
  JSON.parse((await callTool(server.path, by, 'tool_search', { query, ...more })).body.result.content[0].text)
const through = (name: string, args?: object, by = as) =>
  callTool(server.path, by, 'tool_call', { name, ...(args && { arguments: args }) })
const lastCall = async () => (await callsOf(server))[0]

describe('tools/list', () => {
  test('above 40 tools: the pinned ones and the search, as the preview says; off: all; on: also for few', async () => {
    const tools = await listed()
    expect(names(tools)).toEqual(['orders_list', ...META])
    const preview = await ok(call('GET', `${server.base}/preview`, { as: workspace.operator }))
    const { with_search } = preview
    expect(with_search).toMatchObject({
      active: true,
      tools,
      tokens: Math.ceil(JSON.stringify(tools).length / 4),
    })
    expect(preview.tools).toHaveLength(45)
    expect(with_search.tokens * 10).toBeLessThan(preview.tokens)
    await change({ search: 'off' })
    expect(names(await listed())).toEqual(['orders_list', 'refunds_create', 'refunds_list'])
    const refused = await callTool(server.path, as, 'tool_call', { name: 'refunds_list' })
    expect(refused.body.error).toMatchObject({ code: -32_602 })
    await change({ search: 'auto' })

    const few = await publishMcpServer(workspace, 'few')
    const reader = await tokenFor(few, scopesOf(few, 'notes_list'))
    expect(names(await listed(few, reader))).toEqual(['notes_list'])
    await ok(call('PATCH', few.base, { as: workspace.operator, body: { search: 'on' } }))
    expect(names(await listed(few, reader))).toEqual(META)
  })

  test('40 tools: listed all; 41: only by search', async () => {
    const many = (count: number) => Object.fromEntries(Object.entries(TOOLS).slice(0, count))
    const listedWith = async (count: number) => {
      await publish(server, many(count))
      const { tools, with_search } = await ok(
        call('GET', `${server.base}/preview`, { as: workspace.operator }),
      )
      return [tools.length, with_search.active, names(await listed())]
    }
    expect(await listedWith(40)).toEqual([40, false, ['orders_list', 'refunds_create', 'refunds_list']])
    expect(await listedWith(41)).toEqual([41, true, ['orders_list', ...META]])
    await publish(server, TOOLS)
  })

  test('tool_call: looks no safer than any tool of the server', async () => {
    const hints = async () => (await listed()).find(({ name }) => name === 'tool_call')?.annotations
    expect(await hints()).toMatchObject({ readOnlyHint: false, destructiveHint: true })
    const reading = Object.fromEntries(Object.entries(TOOLS).filter(([name]) => /:(list|get)$/.test(name)))
    await publish(server, reading)
    await change({ search: 'on' })
    expect(await hints()).toMatchObject({ readOnlyHint: true, destructiveHint: false })
    await change({ search: 'auto' })
    await publish(server, TOOLS)
  })

  test.each(['tool_search', 'Tool_Call'])('tool named %s: refused', async (name) => {
    const body = { tools: { [PINNED]: { enabled: true, name } } }
    const { status, body: problem } = await call('PUT', `${server.base}/curation`, {
      as: workspace.operator,
      body,
    })
    expect([status, problem.errors[0].detail]).toEqual([400, 'is a reserved name'])
  })
})

describe('tool_search', () => {
  test('ranks what the client may see, always alike; names the scope that is missing', async () => {
    const found = await search('create a refund')
    expect(found.tools.map(({ name }: { name: string }) => name)).toEqual(['refunds_create', 'refunds_list'])
    expect(found.tools[0]).toMatchObject({
      title: expect.any(String),
      description: expect.any(String),
      inputSchema: { type: 'object', properties: { document: expect.anything() } },
    })
    expect(await search('create a refund')).toEqual(found)
    expect(JSON.stringify(found)).not.toContain('needs_scope')

    await change({ list: 'grantable' })
    const all = await search('create a refund', { limit: 3 })
    expect(all.tools.map(({ name, needs_scope }: Record<string, string>) => [name, needs_scope])).toEqual([
      ['refunds_create', undefined],
      ['refunds_get', 'mcp:many:refunds_get'],
      ['refunds_delete', 'mcp:many:refunds_delete'],
    ])
    expect(all.more).toBeGreaterThan(0)
    await change({ list: 'auto' })
  })

  test('tools that the client may not see: neither found nor named', async () => {
    const { tools, names: known } = await search('coupons')
    expect([tools, known]).toEqual([[], ['orders_list', 'refunds_create', 'refunds_list']])
    const { body } = await askToken({ resource: server.url, scope: scopesOf(server, 'coupons_list') })
    const other = { authorization: `Bearer ${body['access_token']}` }
    expect((await search('coupons', {}, other)).tools).toMatchObject([{ name: 'coupons_list' }])
  })

  test.each([
    [{ query: 'x'.repeat(201) }, 'query'],
    [{ query: '' }, 'query'],
    [{ query: 'x', limit: 21 }, 'limit'],
    [{ query: 'x', more: 1 }, 'more is unknown'],
    [{}, 'query is required'],
  ])('arguments %j: a tool error', async (args, expected) => {
    const { result } = (await callTool(server.path, as, 'tool_search', args)).body
    expect([result.isError, result.content[0].text]).toEqual([true, expect.stringContaining(expected)])
  })

  test('flood: counted by the quota of calls, recorded, and answered with the seconds to wait', async () => {
    const set = (max: number) => {
      const body = { workspace_id: workspace.workspaceId, limits: { mcp_calls_per_minute: max } }
      return ok(call('PUT', '/v1/quotas', { as: workspace.operator, body }))
    }
    await set(3)
    const query = Array.from({ length: 66 }, (_, n) => String.fromCharCode(97 + (n % 26), 98)).join(' ')
    const texts = await Promise.all(
      Array.from({ length: 9 }, async () => {
        const { result } = (await callTool(server.path, as, 'tool_search', { query })).body
        return result.content[0].text as string
      }),
    )
    await set(-1)
    expect(texts.filter((text) => text.startsWith('quota_exceeded'))).toHaveLength(6)
    const calls = (await callsOf(server, '&tool=tool_search')).slice(0, 9)
    expect(calls.filter(({ outcome }) => outcome === 'denied')).toHaveLength(6)
  })
})

describe('tool_call', () => {
  test.each([
    ['legacy', withLegacyClient],
    ['modern', withModernClient],
  ] as const)(
    '%s client: finds and calls a tool; recorded under its name; a direct call goes on',
    async (_era, connect) => {
      await connect(server.url, as, async (client) => {
        const found = await client.callTool({ name: 'tool_search', arguments: { query: 'refunds list' } })
        const [{ text }] = found.content as [{ text: string }]
        const [{ name }] = JSON.parse(text).tools
        const made = await client.callTool({
          name: 'tool_call',
          arguments: { name, arguments: { limit: 1 } },
        })
        // The client was shown no schema of results, so the result is text for the model.
        expect(made.structuredContent).toBeUndefined()
        expect((made.content as [{ text: string }])[0].text).toContain('"refunds"')
        expect(await lastCall()).toMatchObject({
          tool: 'refunds_list',
          scope: 'mcp:many:refunds_list',
          outcome: 'ok',
          arguments_shape: ['limit: number'],
        })
        const direct = await client.callTool({ name: 'refunds_list', arguments: {} })
        expect(direct.structuredContent).toMatchObject({ data: [{ text: 'refunds' }] })
      })
    },
  )

  test('tool without its scope, called through tool_call: the challenge, refusal and entry of a direct call (T15)', async () => {
    const direct = await callTool(server.path, as, 'coupons_create', { document: {} })
    const inner = await through('coupons_create', { document: {} })
    expect([inner.status, inner.body.code, inner.headers.get('www-authenticate')]).toEqual([
      403,
      'insufficient_scope',
      direct.headers.get('www-authenticate'),
    ])
    expect(inner.headers.get('www-authenticate')).toContain('scope="mcp:many:coupons_create"')
    const [second, first] = await callsOf(server)
    expect(second).toMatchObject({
      tool: 'coupons_create',
      scope: 'mcp:many:coupons_create',
      outcome: 'denied',
      arguments_shape: first?.['arguments_shape'],
      transport_status: 403,
    })
    await change({ challenge: 'tool_error' })
    const { result } = (await through('coupons_create', { document: {} })).body
    await change({ challenge: 'auto' })
    expect([result.isError, result.content[0].text]).toEqual([
      true,
      expect.stringMatching(/^insufficient_scope: .*mcp:many:coupons_create/),
    ])
    expect(await lastCall()).toMatchObject({ tool: 'coupons_create', outcome: 'denied' })
    const { data } = await ok(call('GET', '/v1/collections/coupons/documents', { as: workspace.service }))
    expect(data).toHaveLength(1)
  })

  test('rate of the inner tool: shared with direct calls', async () => {
    const limits = { calls_per_minute: 1 }
    const outcomes: unknown[] = []
    // If Valkey takes longer than 75 ms, the process limits by itself for a second: then another tool, with a bucket of its own.
    for (const tool of ['refunds', 'orders']) {
      await publish(server, { ...TOOLS, [`collections:${tool}:list`]: { enabled: true, limits } })
      const list = `${tool}_list`
      const results = [
        (await through(list, {})).body.result,
        (await callTool(server.path, as, list)).body.result,
        (await through(list, {})).body.result,
      ]
      outcomes.push(results.map(({ isError, content }) => (isError ? content[0].text.split(':')[0] : 'ok')))
      expect(await lastCall()).toMatchObject({ tool: list, outcome: 'denied' })
      if (results[1].isError) break
    }
    expect(outcomes.at(-1)).toEqual(['ok', 'rate_limited', 'rate_limited'])
    await publish(server, TOOLS)
  })

  test('arguments of the inner tool: checked; tool that does not exist, and nested calls: refused', async () => {
    const wrong = (await through('refunds_list', { nope: 1 })).body.result
    expect([wrong.isError, wrong.content[0].text]).toEqual([
      true,
      expect.stringContaining('arguments of refunds_list are not valid'),
    ])
    for (const name of ['none', 'tool_call', 'tool_search', '__proto__']) {
      const { body } = await through(name, { name: 'refunds_list', query: 'x' })
      expect(body.error).toMatchObject({ code: -32_602 })
      expect(await lastCall()).toMatchObject({ tool: name, outcome: 'rpc_error', code: 'not_found' })
    }
  })

  test.each([
    [{ name: 'refunds_list', limit: 1 }, 'limit is unknown. The arguments are name, arguments.'],
    [{ name: ['refunds_list'] }, 'name must be a string'],
    [{ arguments: {} }, 'name is required'],
    [{ name: 'refunds_list', arguments: [] }, 'arguments must be an object'],
  ])('%j: a tool error that says what is wrong, recorded as tool_call', async (args, expected) => {
    const { result } = (await callTool(server.path, as, 'tool_call', args)).body
    expect([result.isError, result.content[0].text]).toEqual([true, expect.stringContaining(expected)])
    expect(await lastCall()).toMatchObject({ tool: 'tool_call', code: 'validation_failed' })
  })

  test('arguments that are no object: refused by the protocol', async () => {
    const params = { name: 'tool_call', arguments: 'refunds_list' }
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
    const { status } = await call('POST', server.path, { as, body, headers: RPC })
    expect(status).toBe(400)
  })
})
