/** Every method of a hosted server, with every token that is not for it: nothing of the server is seen, and nothing runs. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  callsOf,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  scopesOf,
  tokenFor,
} from '../support/clients/mcp.ts'
import { type Message, TASKS } from '../support/clients/mcp-modern.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../support/fixtures/tenants.ts'

const MODERN = '2026-07-28'
/** In texts, documents and results of the server, and nowhere else. */
const MARK = 'sesame'

const FLOW = `document: { dsl: '1.0.3', namespace: n, name: nap, version: '1.0.0' }
do:
  - nap: { wait: { seconds: 300 } }
`
const TOOLS = Object.fromEntries(
  ['collections:notes:list', 'collections:notes:get', 'collections:notes:create', 'flows:nap:run'].map(
    (candidate) => [candidate, { enabled: true, description: `About ${MARK}.` }],
  ),
)
const PROMPTS = {
  remind: {
    arguments: [{ name: 'who', values: [`${MARK} one`] }],
    messages: [{ role: 'user', content: { type: 'text', text: `Remind {{who}} of ${MARK}.` } }],
  },
}
const RESOURCES = { policy: { uri: 'guide://policy', text: `It is ${MARK}.` } }

let server: PublishedMcpServer
let taskId: string
const tokens: Record<string, Caller> = {}

beforeAll(async () => {
  const [workspace, stranger] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  server = await publishAll(workspace)
  const [beside, foreign] = [await publishAll(sibling), await publishAll(stranger)]
  const scope = scopesOf(server, 'notes_list', 'notes_get', 'notes_create', 'run_nap')
  tokens['own'] = await tokenFor(server, scope)
  tokens['of the sibling workspace'] = await tokenFor(beside, scope)
  tokens['of another tenant'] = await tokenFor(foreign, scope)
  tokens['of the REST API'] = workspace.operator
  tokens['of the REST API, as service'] = await tokenOf({
    roles: ['service'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
  })
  const claims = {
    ...{ sub: 'tenon-operator', client_id: 'tenon-operator', mcp_server: server.id, mcp_version: 1, scope },
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
  }
  const past = Math.floor(Date.now() / 1_000) - 1_000
  tokens['expired'] = await tokenOf({ ...claims, exp: past }, { audience: server.url })
  // The same before its end, so that the end is the reason.
  tokens['own, before its end'] = await tokenOf(claims, { audience: server.url })
  const started = await send(
    'tools/call',
    { name: 'run_nap', arguments: {} },
    tokens['own'] as Caller,
    MODERN,
  )
  taskId = started['result'].taskId
})

async function publishAll(workspace: TestWorkspace): Promise<PublishedMcpServer> {
  const { operator: as, workspaceId: workspace_id, flows } = workspace
  const experimental = { workspace_id, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as, body: experimental }))
  const { id } = await ok(call('POST', `${flows}/definitions`, { as, body: { source: FLOW } }))
  await ok(call('POST', `${flows}/definitions/${id}/versions`, { as, body: {} }))
  const made = await publishMcpServer(workspace, 'sweep', TOOLS)
  const body = { tools: TOOLS, prompts: PROMPTS, resources: RESOURCES }
  await ok(call('PUT', `${made.base}/curation`, { as, body }))
  await ok(call('POST', `${made.base}/publish`, { as, body: { accept: ['breaking'] } }))
  return made
}

type Params = Readonly<Record<string, unknown>>

/** The first message of the answer, with the status of the response. */
async function send(method: string, params: Params, as: Caller, version: string): Promise<Message> {
  const isModern = version === MODERN
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } },
  }
  const name = params['name'] ?? params['uri'] ?? params['taskId']
  const headers = {
    ...RPC,
    'mcp-protocol-version': version,
    ...(isModern && { 'mcp-method': method }),
    ...(isModern && name !== undefined && { 'mcp-name': String(name) }),
  }
  const message = { jsonrpc: '2.0', id: 1, method, params: { ...params, ...(isModern && { _meta }) } }
  const reply = await call('POST', server.path, { as, body: message, headers })
  const text = typeof reply.body === 'string' ? (/^data: (.*)$/m.exec(reply.body)?.[1] ?? '{}') : undefined
  return { status: reply.status, ...(text === undefined ? reply.body : JSON.parse(text)) }
}

interface Method {
  readonly params?: () => Params
  readonly versions: readonly string[]
  /** In the answer to the own token. */
  readonly shows?: string
}

const LEGACY = '2025-11-25'
const BOTH = [LEGACY, MODERN]
const METHODS: Readonly<Record<string, Method>> = {
  initialize: {
    versions: [LEGACY],
    params: () => ({ protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'a', version: '1' } }),
    shows: 'Server sweep',
  },
  'server/discover': { versions: [MODERN], shows: 'Server sweep' },
  ping: { versions: [LEGACY] },
  'tools/list': { versions: BOTH, shows: MARK },
  'tools/call': {
    versions: BOTH,
    params: () => ({ name: 'notes_list', arguments: {} }),
    shows: 'hello',
  },
  'resources/list': { versions: BOTH, shows: 'guide://policy' },
  'resources/read': { versions: BOTH, params: () => ({ uri: 'guide://policy' }), shows: MARK },
  'resources/templates/list': { versions: BOTH, shows: 'tenon://notes/{id}' },
  'prompts/list': { versions: BOTH, shows: 'remind' },
  'prompts/get': {
    versions: BOTH,
    params: () => ({ name: 'remind', arguments: { who: 'Ann' } }),
    shows: `Remind Ann of ${MARK}.`,
  },
  'completion/complete': {
    versions: BOTH,
    params: () => ({ ref: { type: 'ref/prompt', name: 'remind' }, argument: { name: 'who', value: 's' } }),
    shows: `${MARK} one`,
  },
  'tasks/get': { versions: [MODERN], params: () => ({ taskId }), shows: 'working' },
  'tasks/update': { versions: [MODERN], params: () => ({ taskId, inputResponses: {} }) },
  'subscriptions/listen': {
    versions: [MODERN],
    params: () => ({ notifications: { toolsListChanged: true } }),
    shows: 'notifications/subscriptions/acknowledged',
  },
  'logging/setLevel': { versions: [LEGACY], params: () => ({ level: 'info' }) },
  // The last one, since it ends the task.
  'tasks/cancel': { versions: [MODERN], params: () => ({ taskId }) },
}

const CELLS = Object.entries(METHODS).flatMap(([method, { versions }]) =>
  versions.map((version) => [method, version] as const),
)
const FOREIGN = [
  'of the sibling workspace',
  'of another tenant',
  'of the REST API',
  'of the REST API, as service',
  'expired',
]

describe.each(CELLS)('%s, %s', (method, version) => {
  const { params = () => ({}), shows } = METHODS[method] as Method

  test('any token of another server, tenant or audience: 401, and nothing of the server (T15, T39)', async () => {
    for (const what of FOREIGN) {
      const { status, ...answer } = await send(method, params(), tokens[what] as Caller, version)
      expect([what, status]).toEqual([what, 401])
      const text = JSON.stringify({ ...answer, instance: '' })
      for (const own of [MARK, 'notes', 'remind', 'Server sweep', server.id, taskId, 'result'])
        expect(text).not.toContain(own)
      expect(answer['code']).toBe(what === 'expired' ? 'token_expired' : 'token_invalid')
    }
  })

  test('own token: data (T15, T39)', async () => {
    for (const what of ['own, before its end', 'own']) {
      if (method.startsWith('tasks/') && what !== 'own') continue
      const as = await sessionOf(tokens[what] as Caller, method)
      const answer = await send(method, params(), as, version)
      expect([answer['status'], answer['error']]).toEqual([200, undefined])
      if (shows !== undefined) expect(JSON.stringify(answer)).toContain(shows)
    }
  })
})

/** Log levels are of a session. */
async function sessionOf(as: Caller, method: string): Promise<Caller> {
  if (method !== 'logging/setLevel') return as
  const { params = () => ({}) } = METHODS['initialize'] as Method
  const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params: params() }
  const { headers } = await call('POST', server.path, { as, body, headers: RPC })
  return { ...as, 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
}

test('what was refused is recorded as denied, and has run nothing (T15, T39)', async () => {
  const entries = await callsOf(server)
  const denied = entries.filter(({ outcome }) => outcome === 'denied')
  expect(denied.length).toBeGreaterThan(50)
  const codes = new Set(denied.map(({ code }) => code))
  expect(codes).toEqual(new Set(['token_invalid', 'token_expired']))
  for (const entry of denied) expect(entry).toMatchObject({ tool: null, transport_status: 401 })
  const path = `${server.workspace.flows}/executions?flow=nap`
  expect((await ok(call('GET', path, { as: server.workspace.operator }))).data).toHaveLength(1)
})
