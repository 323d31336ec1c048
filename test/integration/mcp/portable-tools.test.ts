/** Tools of every kind as all clients take them: portable schemas and names, and nulls that models send for absent arguments. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { unportableTools } from '../../support/checks/portable-tools.ts'
import {
  callTool,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { McpUpstream, textResult } from '../../support/servers/mcp-upstream.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })
const nullable = { type: ['string', 'null'], maxLength: 20 }
const hostile = {
  either: { type: ['string', 'integer'] },
  maybe: { anyOf: [{ type: 'string' }, { type: 'null' }], default: null },
  list: { type: 'array', items: { type: ['object', 'null'] } },
  map: { type: 'object', patternProperties: { '^x-': { type: 'string' } } },
  any: {},
}
const tree = object({ name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#/$defs/tree' } } })

const DECLARED = {
  properties: {
    subject: nullable,
    state: { type: 'string', enum: ['new', 'done'] },
    size: { $ref: '#/$defs/size' },
    extra: { type: ['object', 'null'], properties: { deep: nullable } },
  },
  $defs: { size: { type: ['integer', 'null'] } },
  required: ['state'],
  allOf: [{ required: ['state'] }],
}
const FUNCTION = `export const tool = { description: 'Quotes.' } as const
export const input = ${JSON.stringify(object({ n: { type: 'integer' }, ...hostile, tree: { $ref: '#/$defs/flat' } }, { $defs: { flat: { type: 'string' } } }))}
export const output = ${JSON.stringify(object({ ...hostile, given: {} }))}
export default (given: object) => ({ given })`
const FLOW = `input: { schema: { document: ${JSON.stringify(object({ amount: { type: ['number', 'null'] }, ...hostile }))} } }\n`
const DOCUMENT = {
  openapi: '3.1.0',
  servers: [{ url: 'https://api.example' }],
  components: {
    schemas: { Tree: JSON.parse(JSON.stringify(tree).replace('$defs/tree', 'components/schemas/Tree')) },
  },
  paths: {
    '/things': {
      post: {
        operationId: 'make.thing',
        requestBody: {
          content: {
            'application/json': {
              schema: object({ ...hostile, tree: { $ref: '#/components/schemas/Tree' } }),
            },
          },
        },
        responses: {
          200: {
            content: { 'application/json': { schema: object({ ...hostile, nothing: { type: 'null' } }) } },
          },
        },
      },
    },
  },
}
const UPSTREAM = [
  {
    name: 'draft.seven',
    inputSchema: {
      $schema: 'http://json-schema.org/draft-07/schema#',
      oneOf: [object({ id: { type: 'integer' } }), object({ ref: { $ref: '#/definitions/ref' } })],
      type: 'object',
      properties: { ...hostile, old: { type: 'string', nullable: true } },
      definitions: { ref: { type: 'string' } },
    },
    outputSchema: object(hostile),
    call: (args: object) => ({ ...textResult('{}'), structuredContent: { any: args } }),
  },
]

let workspace: TestWorkspace
let upstream: McpUpstream
let server: PublishedMcpServer
let as: Caller

const use = async (name: string, args: unknown) => (await callTool(server.path, as, name, args)).body

beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  const limits = { workspace_id: workspace.workspaceId, limits: { mcp_servers: -1 } }
  await ok(call('PUT', '/v1/quotas', { as: workspace.operator, body: limits }))
  upstream = await McpUpstream.open('stateless', UPSTREAM)
  const { operator, workspaceId: workspace_id } = workspace
  const post = (path: string, body: object) => ok(call('POST', path, { as: operator, body }))
  await configure(workspace, { egress: { allow: [upstream.host] }, experimental: ['mcp.flow_tools'] })
  const declared = { workspace_id, collection: 'tickets', store: 'relational', mode: 'enforce' }
  await post('/v1/schemas', { ...declared, schema: DECLARED })
  await post('/v1/functions', { workspace_id, name: 'quote-one', source: FUNCTION })
  await new Executions(workspace).publish('  - a: { set: { a: 1 } }\n', { name: 'refund', more: FLOW })
  const sources = `/v1/mcp/workspaces/${workspace_id}/sources`
  await post(sources, { name: 'api', kind: 'openapi', url: 'https://api.example/o.json', document: DOCUMENT })
  await post(sources, { name: 'up', kind: 'mcp', url: upstream.url })
  server = await publishMcpServer(workspace, 'every', { 'collections:notes:list': { enabled: true } })
  const { data } = await ok(call('GET', `${server.base}/candidates`, { as: operator }))
  const kinds = new Set(data.map(({ candidate }: { candidate: string }) => candidate.split(':')[0]))
  const all = ['buckets', 'collections', 'events', 'flows', 'functions', 'mcp', 'openapi', 'results']
  expect([...kinds].sort()).toEqual(all)
  const tools = data.map(({ candidate }: { candidate: string }) => [
    candidate,
    { enabled: true, pinned: true },
  ])
  await publish(server, Object.fromEntries(tools))
  const names = data.map(({ name }: { name: string }) => name)
  as = await tokenFor(server, scopesOf(server, ...names))
})
afterAll(() => upstream.close())

describe('tools/list', () => {
  test.each(['off', 'on'])('search %s: every tool is portable, and none is open or empty', async (search) => {
    await ok(call('PATCH', server.base, { as: workspace.operator, body: { search } }))
    const { tools } = (await rpc(server.path, as, 'tools/list')).body.result
    expect(tools.length).toBeGreaterThan(15)
    expect(unportableTools(tools)).toEqual([])
  })

  test('the server of the platform: every tool is portable', async () => {
    const { tools } = (await rpc('/v1/mcp/platform/mcp', workspace.operator, 'tools/list')).body.result
    expect(tools.length).toBeGreaterThan(40)
    expect(unportableTools(tools)).toEqual([])
  })
})

describe('publication', () => {
  const refused = async (name: string, source: string) => {
    const body = { workspace_id: workspace.workspaceId, name, source }
    await ok(call('POST', '/v1/functions', { as: workspace.operator, body }))
    const made = await publishMcpServer(workspace, name, { 'collections:notes:list': { enabled: true } })
    await ok(
      call('PUT', `${made.base}/curation`, {
        as: workspace.operator,
        body: { tools: { [`call_${name}`]: { enabled: true } } },
      }),
    )
    const { status, body: problem } = await call('POST', `${made.base}/publish`, {
      as: workspace.operator,
      body: {},
    })
    return [status, problem.detail]
  }

  test('a function whose arguments are alternatives: refused with the clients that would drop its tool', async () => {
    const schema = {
      type: 'object',
      oneOf: [object({ a: { type: 'string' } }), object({ b: { type: 'string' } })],
    }
    expect(
      await refused('alternatives', `export const input = ${JSON.stringify(schema)}\nexport default () => 1`),
    ).toEqual([
      400,
      expect.stringMatching(/oneOf at the top: Cursor refuses the tool, and Claude Code drops all tools/),
    ])
  })

  test('a name that clients cannot use: refused in the curation; one that they cut is advice', async () => {
    const curate = (name: string) =>
      call('PUT', `${server.base}/curation`, {
        as: workspace.operator,
        body: { tools: { 'collections:notes:list': { enabled: true, name } } },
      })
    for (const name of ['a.b', 'a/b', 'é', 'x'.repeat(65)])
      expect((await curate(name)).body.detail).toContain('takes letters, digits, _ and -, at most 64')
    const { curation } = await ok(call('GET', server.base, { as: workspace.operator }))
    await ok(curate('x'.repeat(60)))
    const { findings } = await ok(call('GET', `${server.base}/preview`, { as: workspace.operator }))
    expect(findings.filter(({ rule }: { rule: string }) => rule === 'long-name')).toMatchObject([
      { severity: 'advice', detail: expect.stringContaining('has 72 characters as mcp__every__x') },
    ])
    await ok(call('PUT', `${server.base}/curation`, { as: workspace.operator, body: curation }))
  })
})

describe('null', () => {
  test('as all arguments: as none, on the wire, over REST and by `tool_call`', async () => {
    expect((await use('notes_list', null)).result).toMatchObject({ isError: false })
    const byRest = { tool: 'notes_list', arguments: null }
    const rest = await ok(call('POST', `${server.base}/call`, { as: workspace.operator, body: byRest }))
    expect(rest.is_error).toBe(false)
    const searched = await use('tool_call', { name: 'notes_list', arguments: null })
    expect(searched.result, JSON.stringify(searched)).toMatchObject({ isError: false })
    const found = await use('tool_search', { query: 'notes', limit: null })
    expect(found.result).toMatchObject({ isError: false })
  })

  test('of an optional argument: absent where its schema does not allow it, the value where it does', async () => {
    const made = (
      await use('tickets_create', { state: 'new', subject: null, size: null, extra: { deep: null } })
    ).result
    expect(made.structuredContent, JSON.stringify(made)).toMatchObject({
      subject: null,
      size: null,
      extra: { deep: null },
    })
    // As a client with strict schemas of OpenAI sends it.
    const listed = (
      await use('tickets_list', { state: 'new', limit: null, cursor: null, order_by: null, fields: null })
    ).result
    expect(listed.structuredContent.data, JSON.stringify(listed)).toHaveLength(1)
    const quoted = (
      await use('call_quote-one', { n: null, either: null, maybe: null, any: null, list: [null] })
    ).result
    expect(quoted.structuredContent.given, JSON.stringify(quoted)).toEqual({
      maybe: null,
      any: null,
      list: [null],
    })
  })

  test('of a required argument: an error that names it', async () => {
    const { result } = await use('tickets_create', { state: null })
    expect(result.content[0].text).toMatch(/^validation_failed: [\s\S]*state/)
  })
})
