/** The platform MCP server, called by the official clients: operations as tools, and the flow language as resources. */

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { describe, expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../../src/features/index.ts'
import { MCP_LIMITS } from '../../../src/features/mcp-servers/limits.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { inWorkspace } from '../../support/clients/browser.ts'
import { callTool, ok, withModernClient } from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  operator,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const PATH = '/v1/mcp/platform/mcp'

async function withClient<T>(as: Caller, work: (client: Client) => Promise<T>): Promise<T> {
  const url = new URL(`${inject('tenon').url}${PATH}`)
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: as } })
  await client.connect(transport as Parameters<typeof client.connect>[0])
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

const toolsOf = (as: Caller) => withClient(as, async (client) => (await client.listTools()).tools)

const adminOf = (workspace: TestWorkspace, role = 'workspace_admin') =>
  tokenOf({ roles: [role], ...inWorkspace(workspace) })

/** The result of a tool: its text, and whether it is an error. */
async function run(as: Caller, tool: string, args: Record<string, unknown>) {
  const { body } = await callTool(PATH, as, tool, args)
  const { content, isError, structuredContent } = body.result
  return { text: content[0].text as string, isError: isError as boolean, structuredContent }
}

/** The text inside the fence around untrusted data. */
const unfenced = (text: string) => text.split('\n').slice(2, -1).join('\n')

/** The value that a tool returns. @throws if it returns an error */
async function value(as: Caller, tool: string, args: Record<string, unknown>) {
  const { text, isError } = await run(as, tool, args)
  if (isError) throw new Error(text)
  return JSON.parse(text)
}

const flow = (name: string, ...tasks: string[]) =>
  [
    `document: { dsl: '1.0.3', namespace: tools, name: ${name}, version: '1.0.0' }`,
    'do:',
    ...tasks.map((task) => `  - ${task}`),
  ].join('\n')

const ADMIN_WRITES = [
  'approval_decide',
  'execution_cancel',
  'execution_create',
  'flow_create',
  'flow_update',
  'flow_version_create',
  'function_create',
  'mcp_curation_replace',
  'mcp_server_call',
  'mcp_server_create',
  'mcp_version_approve',
  'mcp_version_create',
  'schema_create',
  'schema_update',
]
const SERVICE_WRITES = [
  'batch_run',
  'collection_create',
  'collection_delete',
  'collection_patch',
  'collection_update',
  'flow_start',
  'function_invoke',
  'inbox_decide',
]

describe('tool list', () => {
  test('operator: every administrative read except of payloads, and the listed writes', async () => {
    const tools = await toolsOf(await operator())
    // A tool returns once; operations that stream are no tools.
    const reads = OPERATIONS.filter(
      ({ name, reads: read, domain, http }) =>
        read &&
        domain !== 'data_access' &&
        http.reply !== 'feed' &&
        !/^(codec\.|me\.list_|operation\.get_archive)/.test(name),
    ).map(({ name }) => name.replaceAll('.', '_'))
    const named = (isReading: boolean) =>
      tools.filter(({ annotations }) => annotations?.readOnlyHint === isReading).map(({ name }) => name)
    expect(named(true).sort()).toEqual(reads.sort())
    expect(named(false).sort()).toEqual(ADMIN_WRITES)
    for (const { name, description = '', inputSchema, outputSchema } of tools) {
      expect([name, Object.keys(inputSchema.properties ?? {})]).toEqual([
        name,
        expect.not.arrayContaining(['ws']),
      ])
      const [, scope = 'platform:read'] = /Needs the scope (platform:\w+)\.$/.exec(description) ?? []
      const isPeople = /^(account|user|api_key|oauth_client|mcp_client)_/.test(name)
      const needed = isPeople ? 'people' : ADMIN_WRITES.includes(name) ? 'write' : 'read'
      expect([name, scope]).toEqual([name, `platform:${needed}`])
      expect(description).not.toMatch(/\/v1\//)
      expect(outputSchema).toBeUndefined()
    }
  })

  test('role: decides which writes are listed', async () => {
    const workspace = await createTestWorkspace()
    const writes = async (as: Caller) =>
      (await toolsOf(as))
        .filter(({ annotations }) => annotations?.readOnlyHint === false)
        .map(({ name }) => name)
        .sort()
    // A token with a workspace has the role anon as well, which gives it no tool that writes.
    expect(await writes(await adminOf(workspace))).toEqual(ADMIN_WRITES)
    expect(await writes(await adminOf(workspace, 'service'))).toEqual(SERVICE_WRITES)
    expect(await writes(await adminOf(workspace, 'none'))).toEqual([])
  })

  test('annotations: tell what adds, what overwrites, and what reaches other systems', async () => {
    const workspace = await createTestWorkspace()
    const tools = [
      ...(await toolsOf(await adminOf(workspace))),
      ...(await toolsOf(await adminOf(workspace, 'service'))),
    ]
    const hints = (tool: string) => tools.find(({ name }) => name === tool)?.annotations
    expect(hints('flow_list')).toEqual({ readOnlyHint: true, openWorldHint: false })
    expect(hints('flow_create')).toMatchObject({ destructiveHint: false, openWorldHint: false })
    expect(hints('flow_update')).toMatchObject({ destructiveHint: true, idempotentHint: true })
    expect(hints('collection_delete')).toMatchObject({ destructiveHint: true, idempotentHint: true })
    expect(hints('execution_create')).toMatchObject({ destructiveHint: true, openWorldHint: true })
  })
})

test('tenant admin: sees its own tenant only', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  await withClient(as, async (client) => {
    const list = JSON.stringify((await client.callTool({ name: 'tenant_list', arguments: {} })).content)
    expect(list).toContain(workspace.tenantId)
    expect(list).not.toContain(other.tenantId)
    const foreign = await client.callTool({
      name: 'flow_list',
      arguments: { workspace_id: other.workspaceId },
    })
    expect(foreign).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^not_found: There is no such workspace\.\n/) }],
    })
    const faulty = await client.callTool({ name: 'tenant_list', arguments: { page_size: 1_000 } })
    expect(faulty).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('page_size') }] })
    const unknown = await client.callTool({ name: 'tenant_delete', arguments: {} })
    expect(unknown.isError).toBe(true)
  })
})

test('workspace admin: is listed no tool that the role may not use; one that is called is forbidden', async () => {
  const as = await adminOf(await createTestWorkspace())
  await withClient(as, async (client) => {
    const names = (await client.listTools()).tools.map(({ name }) => name)
    expect(names).toContain('flow_list')
    const closed = OPERATIONS.filter(
      ({ reads, domain, roles }) =>
        reads && domain === 'structural_admin' && !(roles as readonly string[]).includes('workspace_admin'),
    ).map(({ name }) => name.replaceAll('.', '_'))
    expect(closed).toContain('tenant_list')
    expect(names.filter((name) => closed.includes(name))).toEqual([])
    const refused = await client.callTool({ name: 'tenant_list', arguments: {} })
    expect(refused).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^forbidden:/) }],
    })
  })
})

test('no token or an API key: 401', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const workspace = await createTestWorkspace()
  const as = (caller: Caller) => call('POST', PATH, { as: caller, body })
  expect((await as({})).status).toBe(401)
  expect((await as(workspace.service)).status).toBe(401)
  expect((await as({ authorization: `Bearer ${workspace.service['apikey']}` })).body.code).toBe(
    'token_invalid',
  )
  expect((await call('GET', PATH, { as: workspace.operator })).status).toBe(405)
})

describe('errors', () => {
  test('argument missing: named, before the workspace is looked for', async () => {
    const { text, isError, structuredContent } = await run(await operator(), 'flow_list', {})
    expect([isError, text.split('\n')[0]]).toEqual([true, 'validation_failed: workspace_id: is required'])
    expect(structuredContent).toMatchObject({
      code: 'validation_failed',
      status: 400,
      hint: expect.any(String),
      errors: [{ name: 'workspace_id', detail: 'is required' }],
    })
    expect(structuredContent).not.toHaveProperty('instance')
  })

  test('workspace under the name that only paths have: refused, and the right name is told', async () => {
    const { operator: as, workspaceId: ws } = await createTestWorkspace()
    for (const more of [{}, { workspace_id: ws }]) {
      const { text } = await run(as, 'flow_list', { ws, ...more })
      expect(text).toContain('validation_failed: A tool takes a workspace as workspace_id, not as ws.')
    }
  })

  test('flow with many faults: ten of them with place and hint, one a line', async () => {
    const workspace = await createTestWorkspace()
    const tasks = Array.from({ length: 12 }, (_, n) => `t${n}: { call: colection.get }`)
    const args = { workspace_id: workspace.workspaceId, source: flow('faulty', ...tasks) }
    const { text } = await run(workspace.operator, 'flow_graph', args)
    const [first = '', ...lines] = text.split('\n')
    expect(first).toMatch(/^flow_invalid: 3:\d+ /)
    expect(lines).toHaveLength(11)
    expect(lines[9]).toMatch(/^12:\d+ \/do\/9.*collection\.get/)
    expect(lines[10]).toMatch(/^and \d+ more$/)
  })

  test('secret in an argument: not repeated', async () => {
    const key = 'svc_service_abcdefghijkl'
    const { text, structuredContent } = await run(await operator(), 'me_get', { [key]: 1 })
    expect(text).toContain('is not a known field')
    expect(text + JSON.stringify(structuredContent)).not.toContain(key)
  })
})

describe('result above the budget', () => {
  const text = 'x'.repeat(60_000)

  test('reading tool: refused with the argument that makes it smaller', async () => {
    const workspace = await createTestWorkspace()
    const as = await adminOf(workspace, 'service')
    const create = () =>
      call('POST', '/v1/collections/large/documents', { as: workspace.service, body: { text } })
    await Promise.all([ok(create()), ok(create())])
    const page = await run(as, 'collection_list', { name: 'large' })
    expect([page.isError, page.text]).toEqual([
      true,
      expect.stringMatching(/^output_too_large: .* at most 100000\.\nAsk for a smaller page_size\./),
    ])
    const query = await run(as, 'collection_query', { name: 'large', filter: {} })
    expect(query.text).toMatch(/^output_too_large: .*\nAsk for a smaller limit\./)
    const small = await run(as, 'collection_list', { name: 'large', page_size: 1 })
    expect([small.isError, JSON.parse(unfenced(small.text)).data]).toMatchObject([false, [{ text }]])
    expect(small.structuredContent).toBeUndefined()
  })

  test('writing tool: done, and says so', async () => {
    const workspace = await createTestWorkspace()
    const as = await adminOf(workspace, 'service')
    const document = { text: text.repeat(2) }
    const made = await run(as, 'collection_create', { name: 'large', document })
    expect(made.isError).toBe(false)
    const [, id] = /^Done, id (\S+)\. .*Do not repeat the call\.$/.exec(made.text) ?? []
    const kept = await call('GET', `/v1/collections/large/documents/${id}`, { as: workspace.service })
    expect(kept.body.text).toHaveLength(document.text.length)
    expect(document.text.length).toBeGreaterThan(MCP_LIMITS.resultBytesDefault)
  })
})

test('writing tools: each has its entry in the audit log of the tenant', async () => {
  const workspace = await createTestWorkspace()
  const source = flow('audited', 'a: { set: { b: 1 } }')
  await value(workspace.operator, 'flow_create', { workspace_id: workspace.workspaceId, source })
  const deploy = (as: Caller, name: string, code: string) =>
    run(as, 'function_create', { workspace_id: workspace.workspaceId, name, source: code })
  await deploy(workspace.operator, 'one', 'export default () => 1')
  await deploy(await adminOf(workspace), 'two', 'export default (')
  const entries = async (operation: string) =>
    (await entriesOfWorkspace(workspace, `&operation=${operation}`)).map(({ outcome, actor, target }) => [
      outcome,
      (actor as { role: string }).role,
      target,
    ])
  expect(await entries('flow.create')).toEqual([
    ['done', 'operator', `/v1/flows/workspaces/${workspace.workspaceId}/definitions`],
  ])
  const deployed = await eventually(async () => {
    const found = await entries('function.create')
    return found.length === 2 ? found : undefined
  })
  expect(deployed).toEqual([
    ['failed', 'workspace_admin', '/v1/functions'],
    ['done', 'operator', '/v1/functions'],
  ])
  const foreign = await createTestWorkspace()
  const refused = await run(await adminOf(foreign), 'flow_create', {
    workspace_id: workspace.workspaceId,
    source,
  })
  expect(refused.text).toMatch(/^not_found:/)
})

test('publishing a flow with a webhook: does not show the secret', async () => {
  const workspace = await createTestWorkspace()
  const ws = workspace.workspaceId
  const source = `${flow('hooked', 'a: { set: { b: 1 } }')}\nschedule: { webhook: { name: hook } }`
  const draft = await value(workspace.operator, 'flow_create', { workspace_id: ws, source })
  expect(draft.diagnostics).toEqual([])
  const published = await value(workspace.operator, 'flow_version_create', {
    workspace_id: ws,
    flow: 'hooked',
  })
  expect(published.webhooks).toMatchObject([{ name: 'hook', secret: '[redacted]' }])
})

describe('resources', () => {
  const EXPECTED = [
    'tenon://docs/flow-schema',
    'tenon://docs/flows',
    'tenon://docs/flow-language',
    'tenon://docs/functions',
    'tenon://docs/collections',
    'tenon://docs/mcp',
    'tenon://examples/hello',
  ]

  test('client of 2025: lists and reads them', async () => {
    await withClient(await operator(), async (client) => {
      const { resources } = await client.listResources()
      expect(resources.map(({ uri }) => uri)).toEqual(expect.arrayContaining(EXPECTED))
      expect(resources.every(({ description = '' }) => description.length > 10)).toBe(true)
      expect((await client.listResourceTemplates()).resourceTemplates).toEqual([])
      const schema = await client.readResource({ uri: 'tenon://docs/flow-schema' })
      expect(JSON.parse((schema.contents[0] as { text: string }).text)).toMatchObject({ type: 'object' })
      const example = await client.readResource({ uri: 'tenon://examples/hello' })
      expect(example.contents).toMatchObject([
        { uri: 'tenon://examples/hello', text: expect.stringContaining('name: hello') },
        { uri: 'tenon://examples/hello.cases', text: expect.stringContaining('expect:') },
      ])
      const uris = resources.map(({ uri }) => uri)
      for (const uri of uris.filter((one) => /docs\/(?!flow-schema)/.test(one))) {
        const [document] = (await client.readResource({ uri })).contents as { text: string }[]
        const links = [...(document?.text ?? '').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
        const opened = links.filter(
          (link) => uris.includes(link.split('#')[0] ?? '') || link.startsWith('https://'),
        )
        expect(links).toEqual(opened)
      }
      for (const uri of ['tenon://examples/nothing', 'tenon://examples/../../package', 'file:///etc/passwd'])
        await expect(client.readResource({ uri })).rejects.toMatchObject({ code: -32_002 })
    })
  })

  test('client of 2026: lists and reads them', async () => {
    await withModernClient(`${inject('tenon').url}${PATH}`, await operator(), async (client) => {
      const { resources } = await client.listResources()
      expect(resources.map(({ uri }) => uri)).toEqual(expect.arrayContaining(EXPECTED))
      expect((await client.listResourceTemplates()).resourceTemplates).toEqual([])
      const language = await client.readResource({ uri: 'tenon://docs/flow-language' })
      expect(language).toMatchObject({ ttlMs: 0, cacheScope: 'private' })
      expect(language.contents).toMatchObject([{ mimeType: 'text/markdown' }])
      await expect(client.readResource({ uri: 'tenon://docs/nothing' })).rejects.toMatchObject({
        code: -32_602,
      })
    })
  })
})

test('agent with nothing but tools and resources: writes, publishes and runs a flow', async () => {
  const workspace = await createTestWorkspace()
  await withClient(await adminOf(workspace), async (client) => {
    const use = async (name: string, args: Record<string, unknown>) => {
      const { content, isError } = await client.callTool({ name, arguments: args })
      const [{ text }] = content as [{ text: string }]
      if (isError) throw new Error(text)
      return JSON.parse(text)
    }
    expect(client.getInstructions()).toContain('tenon://docs/flow-language')
    const { workspace_id: ws } = await use('me_get', {})
    const { resources } = await client.listResources()
    const uri = resources.find(({ description }) => description?.includes('Greets by name'))?.uri ?? ''
    const { contents } = await client.readResource({ uri })
    const source = (contents[0] as { text: string }).text.replace('name: hello', 'name: welcome')
    const faulty = source.replace('collection.create', 'colection.create')
    const { diagnostics } = await use('flow_validate', { workspace_id: ws, source: faulty })
    expect(diagnostics).toMatchObject([{ hint: expect.stringContaining('collection.create') }])
    expect(await use('flow_validate', { workspace_id: ws, source })).toMatchObject({ valid: true })
    const mocks = { keep: { output: { id: 'doc_1' } } }
    const simulated = await use('flow_simulate', { workspace_id: ws, source, mocks, input: { name: 'Ada' } })
    expect(simulated).toMatchObject({ status: 'completed', output: { message: 'Hello, Ada!' } })
    expect(await use('flow_create', { workspace_id: ws, source })).toMatchObject({
      name: 'welcome',
      valid: true,
    })
    expect(await use('flow_version_create', { workspace_id: ws, flow: 'welcome' })).toMatchObject({
      version: 1,
    })
    const started = await use('execution_create', {
      workspace_id: ws,
      flow: 'welcome',
      input: { name: 'Ada' },
      wait: 30,
    })
    const read = await use('execution_get', { workspace_id: ws, id: started.id })
    expect(read).toMatchObject({ status: 'completed', output: { message: 'Hello, Ada!' } })
    expect(read.started_by).not.toBe('')
  })
})
