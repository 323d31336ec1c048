/** Tools and prompts that ask their client (MCP 2026-07-28), progress of calls, and executions as tasks. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  askToken,
  callsOf,
  callTool,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  scopesOf,
  withLegacyClient,
} from '../../support/clients/mcp.ts'
import { type Message, modernRpc, type Sending, TASKS } from '../../support/clients/mcp-modern.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const FORM = { capabilities: { elicitation: { form: {}, url: {} } } }
const AS_TASKS = { capabilities: { elicitation: {}, extensions: { [TASKS]: {} } } }

/** Asks for a name, then for a colour, and says both. Its state is the name. */
const GREET = `
const ask = (field, state) => ({
  resultType: 'input_required',
  inputRequests: { [field]: { method: 'elicitation/create', params: {
    mode: 'form', message: 'Your ' + field + '?',
    requestedSchema: { type: 'object', properties: { [field]: { type: 'string', maxLength: 5 } }, required: [field] },
  } } },
  ...(state && { requestState: state }),
})
export default (input, { mcp = {} }) => {
  const { name, colour } = mcp.inputResponses ?? {}
  if (colour) return { said: mcp.requestState + ' likes ' + colour.content.colour }
  if (name) return name.action === 'accept' ? ask('colour', name.content.name) : { said: 'nothing' }
  return ask('name')
}`
/** Sends one elicitation with its input as parameters. */
const OPEN = `export default (params) => ({
  resultType: 'input_required', inputRequests: { it: { method: 'elicitation/create', params } },
})`
const TOOLS = ['call_greet', 'call_open', 'run_steps', 'run_pay', 'run_sleep', 'run_fail']

let workspace: TestWorkspace
let server: PublishedMcpServer
let client: { id: string; secret: string }
let agent: Agent
let other: Agent

interface Agent {
  readonly id: string
  readonly as: Caller
}

const flow = (name: string, body: string) =>
  `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\ndo:\n${body}\n`

async function createFlow(source: string): Promise<void> {
  const as = workspace.operator
  const { id } = await ok(call('POST', `${workspace.flows}/definitions`, { as, body: { source } }))
  await ok(call('POST', `${workspace.flows}/definitions/${id}/versions`, { as, body: {} }))
}

async function createAgent(name: string): Promise<{ id: string; secret: string }> {
  const made = await ok(call('POST', `${server.base}/clients`, { as: workspace.operator, body: { name } }))
  return { id: made.client_id, secret: made.client_secret }
}

async function signIn(client: { id: string; secret: string }, tools = TOOLS): Promise<Agent> {
  const { body } = await askToken({ resource: server.url, scope: scopesOf(server, ...tools) }, client)
  return { id: client.id, as: { authorization: `Bearer ${body['access_token']}` } }
}

const use = async (
  name: string,
  params: Readonly<Record<string, unknown>> = {},
  sending: Sending = FORM,
  as = agent.as,
) => modernRpc(server.path, as, 'tools/call', { name, arguments: {}, ...params }, sending)

const task = async (method: string, params: Readonly<Record<string, unknown>>, as = agent.as) =>
  (await modernRpc(server.path, as, `tasks/${method}`, params, AS_TASKS)).message

const accept = (content: object) => ({ action: 'accept', content })

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const as = workspace.operator
  const { workspaceId: workspace_id } = workspace
  const configured = { workspace_id, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as, body: configured }))
  await ok(call('POST', '/v1/functions', { as, body: { workspace_id, name: 'greet', source: GREET } }))
  await ok(call('POST', '/v1/functions', { as, body: { workspace_id, name: 'open', source: OPEN } }))
  await createFlow(
    flow(
      'steps',
      ['one', 'two', 'three'].map((name) => `  - ${name}: { wait: { milliseconds: 600 } }`).join('\n'),
    ),
  )
  await createFlow(flow('sleep', '  - nap: { wait: { seconds: 300 } }'))
  await createFlow(
    flow(
      'fail',
      "  - nap: { wait: { seconds: 1 } }\n  - bad: { raise: { error: { type: 'https://x.example/bad', status: 500, title: Bad } } }",
    ),
  )
  server = await publishMcpServer(workspace, 'asking', { 'functions:greet:invoke': { enabled: true } })
  client = await createAgent('agent')
  const second = await createAgent('other')
  const form = `{ type: object, properties: { reason: { type: string, minLength: 3 } }, required: [reason] }`
  await createFlow(
    flow(
      'pay',
      `  - ask: { approve: { title: 'Pay?', approvers: ['${client.id}'], fourEyes: false, form: ${form} } }\n  - paid: { set: { paid: true } }`,
    ),
  )
  const enabled = Object.fromEntries(
    ['steps', 'sleep', 'fail', 'pay'].map((name) => [`flows:${name}:run`, { enabled: true }]),
  )
  const functions = {
    'functions:greet:invoke': { enabled: true },
    'functions:open:invoke': { enabled: true },
  }
  await publish(server, { ...functions, ...enabled })
  agent = await signIn(client)
  other = await signIn(second)
}, 60_000)

describe('functions that ask', () => {
  test('two rounds; each answer is checked against the form before the function runs', async () => {
    const first = (await use('call_greet')).message['result']
    expect(first).toMatchObject({
      resultType: 'input_required',
      inputRequests: { name: { method: 'elicitation/create' } },
    })
    const { requestState } = first
    const wrong = (
      await use('call_greet', { requestState, inputResponses: { name: accept({ name: 'too long' }) } })
    ).message
    expect(wrong['result']).toMatchObject({ inputRequests: first.inputRequests })
    const second = (
      await use('call_greet', { requestState, inputResponses: { name: accept({ name: 'Ann' }), extra: {} } })
    ).message['result']
    expect(Object.keys(second.inputRequests)).toEqual(['colour'])
    const last = await use('call_greet', {
      requestState: second.requestState,
      inputResponses: { colour: accept({ colour: 'blue' }) },
    })
    expect(JSON.parse(last.message['result'].content[0].text)).toEqual({ said: 'Ann likes blue' })
    const declined = await use('call_greet', {
      requestState,
      inputResponses: { name: { action: 'decline' } },
    })
    expect(declined.message['result'].content[0].text).toContain('nothing')
  })

  test('T36: a state that was changed, or is of other arguments, another client or another tool, is refused', async () => {
    const { requestState } = (await use('call_greet')).message['result']
    const inputResponses = { name: accept({ name: 'Ann' }) }
    const changed = `${requestState.slice(0, -8)}${requestState.at(-8) === 'A' ? 'B' : 'A'}${requestState.slice(-7)}`
    const refused = await Promise.all([
      use('call_greet', { requestState: changed, inputResponses }),
      use('call_greet', { requestState, inputResponses, arguments: { input: { other: 1 } } }),
      use('call_greet', { requestState, inputResponses }, FORM, other.as),
      use('run_sleep', { requestState, inputResponses }),
      use('call_greet', { requestState: 'x', inputResponses }),
      use('call_greet', { requestState: '', inputResponses }),
    ])
    for (const { message } of refused)
      expect(message['error']).toMatchObject({
        code: -32_602,
        message: expect.stringContaining('requestState'),
      })
    const [entry] = await callsOf(server, '&outcome=rpc_error')
    expect(entry).toMatchObject({ rpc_code: -32_602 })
  })

  test('T34: forms that ask for secrets, and pages of other hosts, are not sent', async () => {
    const page = (url: string) => ({ mode: 'url', message: 'Open it', elicitationId: 'e1', url })
    const form = {
      message: 'Sign in',
      requestedSchema: { type: 'object', properties: { api_key: { type: 'string' } } },
    }
    for (const params of [form, page('https://evil.example/form'), page('javascript:alert(1)')]) {
      const { message } = await use('call_open', { arguments: { input: params } })
      expect(message['result'].content[0].text).toMatch(/^client_input_refused: it asks /)
    }
    const own = await use('call_open', { arguments: { input: page(`${inject('tenon').url}/auth/agents`) } })
    expect(own.message['error']?.code ?? own.message['result'].resultType).toBe('input_required')
  })

  test('a client that cannot be asked: an error that says what it lacks; earlier versions and REST: a tool error', async () => {
    const { status, message } = await use('call_greet', {}, {})
    expect([status, message['error']]).toMatchObject([
      400,
      { code: -32_021, data: { requiredCapabilities: { elicitation: {} } } },
    ])
    const legacy = await callTool(server.path, agent.as, 'call_greet')
    expect(legacy.body.result).toMatchObject({ isError: true })
    expect(legacy.body.result.content[0].text).toMatch(/^client_input_needed: /)
    const rest = await ok(
      call('POST', `${server.base}/call`, { as: workspace.operator, body: { tool: 'call_greet' } }),
    )
    expect([rest.is_error, rest.content[0].text]).toEqual([true, legacy.body.result.content[0].text])
  })
})

test('approval that names the client: an elicitation with the fields of its form; the run goes on after the answer', async () => {
  const asked = (await use('run_pay')).message['result']
  const [[approval, request]] = Object.entries<Message>(asked.inputRequests) as [[string, Message]]
  expect(request['params']).toMatchObject({
    message: 'Pay?',
    requestedSchema: {
      properties: { reason: { type: 'string' }, _approved: { type: 'boolean' } },
      required: ['_approved', 'reason'],
    },
  })
  const { requestState } = asked
  const answer = (content: object) => ({ requestState, inputResponses: { [approval]: accept(content) } })
  const again = (await use('run_pay', answer({ _approved: true, reason: 'no' }))).message['result']
  expect(Object.keys(again.inputRequests)).toEqual([approval])
  const forged = await use('run_pay', answer({ _approved: true, reason: 'forged' }), FORM, other.as)
  expect(forged.message['error'].code).toBe(-32_602)
  const paid = (await use('run_pay', answer({ _approved: true, reason: 'agreed' }))).message['result']
  expect(paid.structuredContent).toMatchObject({ status: 'completed', output: { paid: true } })
  // The state once more: nothing is decided twice, and no second run starts.
  const replayed = (await use('run_pay', answer({ _approved: false, reason: 'changed' }))).message['result']
  expect(replayed.structuredContent).toEqual(paid.structuredContent)
})

test('progress: one notification for each step that begins, in both generations; without a token none', async () => {
  const { notifications, message } = await use('run_steps', {}, { progressToken: 'p1' })
  const reports = notifications.map(({ method, params }) => ({ method, ...params }))
  expect(reports.map(({ message: step }) => step)).toEqual(expect.arrayContaining(['two', 'three']))
  for (const [index, report] of reports.entries()) {
    expect(report).toMatchObject({ method: 'notifications/progress', progressToken: 'p1' })
    if (index > 0) expect(report.progress).toBeGreaterThan(reports[index - 1]?.progress)
  }
  expect(message['result'].structuredContent).toMatchObject({ status: 'completed' })
  const heard: number[] = []
  await withLegacyClient(server.url, agent.as, (client) =>
    client.callTool({ name: 'run_steps', arguments: {} }, undefined, {
      onprogress: ({ progress }) => heard.push(progress),
    }),
  )
  expect(heard).toEqual([...heard].sort((a, b) => a - b))
  expect(heard.length).toBeGreaterThan(1)
  expect((await use('run_steps')).notifications).toEqual([])
})

describe('T35: tasks', () => {
  test('an execution that goes on is a task of its starter alone; cancelled once, acknowledged twice', async () => {
    const started = (await use('run_sleep', {}, AS_TASKS)).message['result']
    expect(started).toMatchObject({
      resultType: 'task',
      status: 'working',
      ttlMs: null,
      pollIntervalMs: 1_000,
    })
    const { taskId } = started
    expect((await task('get', { taskId }))['result']).toMatchObject({ taskId, status: 'working' })
    const unknown = await task('get', { taskId: 'run_00000000000000000000000000' }, other.as)
    for (const [method, params] of [
      ['get', {}],
      ['update', { inputResponses: {} }],
      ['cancel', {}],
    ] as const)
      expect((await task(method, { taskId, ...params }, other.as))['error']).toEqual(unknown['error'])
    expect(unknown['error']).toMatchObject({ code: -32_602 })
    const limited = await signIn(client, ['call_greet'])
    expect((await task('get', { taskId }, limited.as))['error']).toEqual(unknown['error'])
    for (const _ of [1, 2])
      expect((await task('cancel', { taskId }))['result']).toEqual({
        resultType: 'complete',
        _meta: expect.anything(),
      })
    const ended = await eventually(async () => {
      const { result } = await task('get', { taskId })
      return result.status === 'cancelled' ? result : undefined
    })
    expect(ended.result).toBeUndefined()
  })

  test('a flow that fails is a completed task whose result says so; one that asks is answered with tasks/update', async () => {
    const [failing, paying] = await Promise.all([use('run_fail', {}, AS_TASKS), use('run_pay', {}, AS_TASKS)])
    const { taskId } = paying.message['result']
    const waiting = await eventually(async () => {
      const { result } = await task('get', { taskId })
      return result.status === 'input_required' ? result : undefined
    })
    const [approval = ''] = Object.keys(waiting.inputRequests)
    const update = (content: object) =>
      task('update', { taskId, inputResponses: { [approval]: accept(content) } })
    await update({ _approved: true })
    expect((await task('get', { taskId }))['result'].status).toBe('input_required')
    await update({ _approved: true, reason: 'agreed' })
    await update({ _approved: false, reason: 'too late' })
    const ended = async (id: string) =>
      eventually(async () => {
        const { result } = await task('get', { taskId: id })
        return result.status === 'completed' ? result : undefined
      })
    expect((await ended(taskId)).result.structuredContent).toMatchObject({
      status: 'completed',
      output: { paid: true },
    })
    const failed = await ended(failing.message['result'].taskId)
    expect(failed.result).toMatchObject({ isError: true, structuredContent: { status: 'faulted' } })
  })

  test('a client without the extension gets results, and no methods of tasks', async () => {
    const { status, message } = await modernRpc(server.path, agent.as, 'tasks/get', { taskId: 'run_x' }, FORM)
    expect([status, message['error'].code]).toEqual([400, -32_021])
  })
})
