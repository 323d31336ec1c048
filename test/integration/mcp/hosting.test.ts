/** Hosted MCP servers: draft, curation, publication, calls by clients of both protocol versions, rollback. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  callTool,
  MARKED,
  NOTES,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const FLOW = (name: string, task: string) =>
  `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n  - step: ${task}\n`

async function createFlow(workspace: TestWorkspace, name: string, task: string): Promise<void> {
  const as = workspace.operator
  const { id } = await ok(
    call('POST', `${workspace.flows}/definitions`, { as, body: { source: FLOW(name, task) } }),
  )
  await ok(call('POST', `${workspace.flows}/definitions/${id}/versions`, { as, body: {} }))
  await enableFlowTools(workspace, true)
}

const enableFlowTools = (workspace: TestWorkspace, on: boolean) =>
  ok(
    call('POST', '/v1/services/configure', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, experimental: on ? ['mcp.flow_tools'] : [] },
    }),
  )

const toolsOf = async (mcpServer: PublishedMcpServer, ...tools: string[]) => {
  const reply = await rpc(
    mcpServer.path,
    await tokenFor(mcpServer, scopesOf(mcpServer, ...tools)),
    'tools/list',
  )
  return reply.body.result.tools as { name: string }[]
}

test('curated server with a collection and a flow: callable through REST and both protocol versions', async () => {
  const workspace = await createTestWorkspace()
  await createFlow(workspace, 'greet', `{ set: { hello: "\${ .who }" } }`)
  const flow = { 'flows:greet:run': { enabled: true, name: 'greet', description: 'Says hello.' } }
  const mcpServer = await publishMcpServer(workspace, 'notes', {
    ...NOTES,
    ...flow,
    'events:stream:publish': { enabled: true },
  })
  const tools = [
    'event_publish',
    'greet',
    'notes_create',
    'notes_delete',
    'notes_get',
    'notes_list',
    'notes_update',
  ]
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, ...tools))
  for (const connect of [withLegacyClient, withModernClient] as const) {
    await connect(mcpServer.url, as, async (client) => {
      const list = await client.listTools()
      expect(list.tools.map(({ name }) => name)).toEqual(tools)
      const use = async (name: string, args: Record<string, unknown>) => {
        const { structuredContent, isError } = await client.callTool({ name, arguments: args })
        expect(isError ?? false).toBe(false)
        return structuredContent as Record<string, unknown>
      }
      const made = await use('notes_create', { document: { by: connect.name } })
      expect(made).toMatchObject({ by: connect.name, _version: 1 })
      const { id } = made as { id: string }
      expect(await use('notes_update', { id, document: { more: 1 } })).toMatchObject({ _version: 2, more: 1 })
      expect(await use('notes_get', { id })).toMatchObject({ by: connect.name, more: 1 })
      expect(await use('notes_delete', { id })).toEqual({ ...MARKED, id, deleted: true })
      expect(await use('notes_list', {})).toMatchObject({
        page: { has_more: false },
        data: [{ text: 'hello' }],
      })
      expect(await use('greet', { input: { who: 'you' } })).toMatchObject({
        status: 'completed',
        output: { hello: 'you' },
      })
      expect(await use('event_publish', { topic: 'a.b', data: 1 })).toMatchObject({ topic: 'a.b' })
    })
  }
  const body = { tool: 'notes_list', arguments: {} }
  const byRest = await ok(call('POST', `${mcpServer.base}/call`, { as: workspace.operator, body }))
  expect(byRest).toMatchObject({ is_error: false, structured_content: { data: [{ text: 'hello' }] } })
})

test('slow flow: reported as waiting; failing flow: a tool error; neither shows the tenant', async () => {
  const workspace = await createTestWorkspace()
  await createFlow(workspace, 'slow', '{ wait: { seconds: 90 } }')
  await createFlow(
    workspace,
    'bad',
    "{ raise: { error: { type: 'https://x.test/no', status: 400, title: 'No' } } }",
  )
  const soon = { enabled: true, limits: { wait_seconds: 2 } }
  const tools = { 'flows:slow:run': soon, 'flows:bad:run': { enabled: true } }
  const mcpServer = await publishMcpServer(workspace, 'flows', tools)
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'run_slow', 'run_bad'))
  const [slow, bad] = await Promise.all([
    callTool(mcpServer.path, as, 'run_slow'),
    callTool(mcpServer.path, as, 'run_bad', { input: {} }),
  ])
  const { execution: id, status } = slow.body.result.structuredContent
  expect([status, slow.body.result.isError]).toEqual(['waiting', false])
  const execution = await ok(call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator }))
  expect(['pending', 'running', 'waiting']).toContain(execution.status)
  expect(execution.started_by).toBe('tenon-operator')
  expect(bad.body.result).toMatchObject({ isError: true, structuredContent: { status: 'faulted' } })
  expect(JSON.stringify([slow.body, bad.body])).not.toContain(workspace.tenantId)
})

describe('curation', () => {
  let mcpServer: PublishedMcpServer
  beforeAll(async () => {
    mcpServer = await publishMcpServer(await createTestWorkspace(), 'curated')
  })

  test('candidates: every possible tool, with closed arguments and correct annotations', async () => {
    const workspace = await createTestWorkspace()
    const mcpServer = await publishMcpServer(workspace, 'c')
    await createFlow(workspace, 'f', '{ set: { a: 1 } }')
    const body = {
      workspace_id: workspace.workspaceId,
      name: 'double',
      source: 'export default (n) => n * 2',
    }
    await ok(call('POST', '/v1/functions', { as: workspace.operator, body }))
    const { data } = await ok(call('GET', `${mcpServer.base}/candidates`, { as: workspace.operator }))
    const names = data.map(({ name }: { name: string }) => name)
    expect(names).toEqual([
      ...['list', 'query', 'aggregate', 'get', 'create', 'update', 'delete'].map((verb) => `notes_${verb}`),
      'call_double',
      'run_f',
      'event_publish',
      'event_read',
      'result_read',
    ])
    for (const { risk, annotations, input_schema } of data) {
      expect(annotations.readOnlyHint).toBe(risk === 'read')
      expect(input_schema.additionalProperties).toBe(false)
      expect(Object.keys(input_schema.properties)).not.toContain('ws')
    }
  })

  test.each([
    ['unknown candidate', { 'collections:other:get': { enabled: true } }, 'is not a candidate'],
    [
      'tool of a flow that is off',
      { 'flows:nightly:run': { enabled: true } },
      '"experimental": ["mcp.flow_tools"]',
    ],
    [
      'name of 65 letters (T26)',
      { 'collections:notes:get': { enabled: true, name: 'a'.repeat(65) } },
      'at most 64',
    ],
    ['name with a space', { 'collections:notes:get': { enabled: true, name: 'a b' } }, 'takes letters'],
    [
      'name with a look-alike letter (T26)',
      { 'collections:notes:get': { enabled: true, name: 'nоtes' } },
      'takes letters',
    ],
    ['reserved name', { 'collections:notes:get': { enabled: true, name: 'Tenon_get' } }, 'reserved'],
    [
      'names that differ in case (T26)',
      { ...NOTES, 'collections:notes:get': { enabled: true, name: 'NOTES_list' } },
      'two tools named',
    ],
    ['zero-width character', { 'collections:notes:get': { enabled: true, title: 'a\u200bb' } }, 'U+200B'],
    [
      'bidirectional override',
      { 'collections:notes:get': { enabled: true, description: 'a\u202eb' } },
      'U+202E',
    ],
    ['tag characters', { 'collections:notes:get': { enabled: true, title: 'a\u{e0041}' } }, 'U+E0041'],
    ['control character', { 'collections:notes:get': { enabled: true, title: 'a\u0007' } }, 'U+0007'],
    [
      'write tool declared as read-only',
      { 'collections:notes:delete': { enabled: true, annotations: { readOnlyHint: true } } },
      'safer than it is',
    ],
    [
      'destructive tool declared as harmless (T27)',
      { 'collections:notes:delete': { enabled: true, annotations: { destructiveHint: false } } },
      'safer than it is',
    ],
  ])('%s: refused, the draft stays unchanged', async (_what, tools, words) => {
    const as = mcpServer.workspace.operator
    const { status, body } = await call('PUT', `${mcpServer.base}/curation`, { as, body: { tools } })
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.detail).toContain(words)
    expect((await ok(call('GET', mcpServer.base, { as }))).curation.tools).toEqual(NOTES)
  })

  test('stricter annotations, own names, shared scopes: accepted', async () => {
    const mcpServer = await publishMcpServer(await createTestWorkspace(), 'strict', {
      'collections:notes:get': {
        enabled: true,
        name: 'look',
        scope: 'read',
        annotations: { readOnlyHint: false, destructiveHint: true },
      },
      'collections:notes:list': { enabled: true, scope: 'read' },
      'collections:notes:delete': { enabled: false },
    })
    const tools = await toolsOf(mcpServer, 'read')
    expect(tools.map(({ name }) => name)).toEqual(['look', 'notes_list'])
    expect(tools[0]).toMatchObject({ annotations: { readOnlyHint: false, destructiveHint: true } })
  })
})

describe('server version', () => {
  test('draft changed: visible after publication with a diff; reactivating the old version restores it byte by byte (T25)', async () => {
    const mcpServer = await publishMcpServer(await createTestWorkspace(), 'v')
    const as = mcpServer.workspace.operator
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list', 'notes_get', 'notes_create'))
    const list = async () => JSON.stringify((await rpc(mcpServer.path, token, 'tools/list')).body)
    const first = await list()
    const { 'collections:notes:create': _gone, ...rest } = NOTES
    const tools = { ...rest, 'collections:notes:get': { enabled: true, title: 'Look' } }
    await ok(call('PUT', `${mcpServer.base}/curation`, { as, body: { tools } }))
    await ok(call('PATCH', mcpServer.base, { as, body: { name: 'Renamed' } }))
    expect(await list()).toBe(first)
    const body = { accept: ['breaking'] }
    const second = await ok(call('POST', `${mcpServer.base}/publish`, { as, body }))
    expect(second).toMatchObject({
      version: 2,
      state: 'active',
      diff: { added: [], removed: ['notes_create'], changed: [{ name: 'notes_get', fields: ['title'] }] },
    })
    expect(await list()).not.toBe(first)
    expect((await callTool(mcpServer.path, token, 'notes_create', { document: {} })).body.error.code).toBe(
      -32_602,
    )
    const back = await ok(call('POST', `${mcpServer.base}/versions/1/activate`, { as, body: {} }))
    expect(back).toMatchObject({ version: 1, active: true })
    expect(await list()).toBe(first)
    const { data } = await ok(call('GET', `${mcpServer.base}/versions`, { as }))
    expect(
      data.map(({ version, active }: { version: number; active: boolean }) => [version, active]),
    ).toEqual([
      [1, true],
      [2, false],
    ])
    expect(new Set(data.map(({ hash }: { hash: string }) => hash)).size).toBe(2)
    expect((await call('POST', `${mcpServer.base}/versions/9/activate`, { as, body: {} })).status).toBe(404)
  })

  test('three concurrent publications of one draft: distinct numbers, equal hashes', async () => {
    const mcpServer = await publishMcpServer(await createTestWorkspace(), 'twice')
    const as = mcpServer.workspace.operator
    const replies = await Promise.all(
      [1, 2, 3].map(() => call('POST', `${mcpServer.base}/publish`, { as, body: {} })),
    )
    const done = replies.filter(({ status }) => status === 201).map(({ body }) => body)
    expect(replies.every(({ status }) => status === 201 || status === 409)).toBe(true)
    expect(new Set(done.map(({ version }) => version)).size).toBe(done.length)
    expect(new Set(done.map(({ hash }) => hash)).size).toBe(1)
  })

  test('flow behind a tool deleted: publication refused, the active version answers not_found', async () => {
    const workspace = await createTestWorkspace()
    await createFlow(workspace, 'gone', '{ set: { a: 1 } }')
    const mcpServer = await publishMcpServer(workspace, 'vanish', { 'flows:gone:run': { enabled: true } })
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'run_gone'))
    await ok(call('DELETE', `${workspace.flows}/definitions/gone`, { as: workspace.operator }))
    const again = await call('POST', `${mcpServer.base}/publish`, { as: workspace.operator, body: {} })
    expect([again.status, again.body.code]).toEqual([400, 'validation_failed'])
    const { body } = await callTool(mcpServer.path, token, 'run_gone')
    expect(body.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^not_found: There is no such flow\.$/m) }],
    })
  })

  test('database roles: may not update a version, nor change or delete a logged call', async () => {
    const grants = await asSuperuser(
      `select table_name, privilege_type from information_schema.table_privileges
       where table_schema = 'tenon' and table_name in ('mcp_server_versions', 'mcp_calls') and grantee like 'tenon_%'
         and grantee not in ('tenon_owner', 'tenon_purger') and privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE')
       order by 1, 2`,
    )
    // A version is deleted with its whole server, and everything with its tenant (tenon_purger).
    expect(grants).toEqual([{ table_name: 'mcp_server_versions', privilege_type: 'DELETE' }])
    const columns = await asSuperuser(
      `select table_name, column_name from information_schema.column_privileges
       where table_schema = 'tenon' and table_name in ('mcp_server_versions', 'mcp_calls') and grantee like 'tenon_%'
         and grantee <> 'tenon_owner' and privilege_type = 'UPDATE' order by 1, 2`,
    )
    // The approval is written once, later; the manifest never changes.
    expect(columns).toEqual(
      ['approved_at', 'approved_by'].map((column_name) => ({
        table_name: 'mcp_server_versions',
        column_name,
      })),
    )
  })
})

describe('tool sources', () => {
  test('function, declared collection and query: callable as tools', async () => {
    const workspace = await createTestWorkspace()
    const as = workspace.operator
    const at = { workspace_id: workspace.workspaceId }
    const source = 'export default (n) => { if (n < 0) throw new Error("below"); return n * 2 }'
    await ok(call('POST', '/v1/functions', { as, body: { ...at, name: 'double', source } }))
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const declared = { ...at, collection: 'declared', store: 'relational', schema, mode: 'enforce' }
    await ok(call('POST', '/v1/schemas', { as, body: declared }))
    const mcpServer = await publishMcpServer(workspace, 'sources', {
      call_double: { enabled: true },
      declared_create: { enabled: true },
      'collections:declared:query': { enabled: true },
    })
    const { curation } = await ok(call('GET', mcpServer.base, { as }))
    expect(Object.keys(curation.tools).sort()).toEqual([
      'collections:declared:create',
      'collections:declared:query',
      'functions:double:invoke',
    ])
    const token = await tokenFor(
      mcpServer,
      scopesOf(mcpServer, 'call_double', 'declared_create', 'declared_query'),
    )
    const use = async (tool: string, args: unknown) =>
      (await callTool(mcpServer.path, token, tool, args)).body.result
    expect(await use('call_double', { input: 21 })).toMatchObject({
      isError: false,
      content: [{ text: '42' }],
    })
    expect(await use('call_double', { input: -1 })).toMatchObject({ isError: true })
    expect(await use('declared_create', { n: 'x' })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('n must be an integer') }],
    })
    const query = { where: [{ field: 'n', operator: 'gte', value: 2 }], order_by: 'n', descending: true }
    for (const n of [1, 2, 3]) await use('declared_create', { n })
    expect(await use('declared_query', query)).toMatchObject({
      structuredContent: { data: [{ n: 3 }, { n: 2 }] },
    })
  })

  test('flow tools not enabled or disabled again: no candidates, calls refused', async () => {
    const workspace = await createTestWorkspace()
    await createFlow(workspace, 'f', '{ set: { a: 1 } }')
    const mcpServer = await publishMcpServer(workspace, 'switch', { 'flows:f:run': { enabled: true } })
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'run_f'))
    expect((await callTool(mcpServer.path, token, 'run_f')).body.result.isError).toBe(false)
    await enableFlowTools(workspace, false)
    const { data } = await ok(call('GET', `${mcpServer.base}/candidates`, { as: workspace.operator }))
    expect(data.map(({ name }: { name: string }) => name)).not.toContain('run_f')
    expect((await callTool(mcpServer.path, token, 'run_f')).body.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('feature_not_enabled') }],
    })
  })
})
