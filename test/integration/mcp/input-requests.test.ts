/** Tools and prompts that ask their client: multi-round-trip requests of MCP 2026-07-28, elicitation of earlier versions. */

import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { ElicitRequestSchema, type ElicitResult } from '@modelcontextprotocol/sdk/types.js'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { callsOf, callTool, ok, RPC, rpc, withLegacyClient } from '../../support/clients/mcp.ts'
import { type Message, readMessages, type Sending } from '../../support/clients/mcp-modern.ts'
import {
  AS_TASKS,
  type AskingServer,
  accept,
  createAskingServer,
  FORM,
  task,
  use,
} from '../../support/fixtures/asking-server.ts'
import { type Caller, call, eventually } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let at: AskingServer

beforeAll(async () => {
  at = await createAskingServer()
})

describe('functions that ask', () => {
  test('two rounds; each answer is checked against the form before the function runs', async () => {
    const first = (await use(at, 'call_greet')).message['result']
    expect(first).toMatchObject({
      resultType: 'input_required',
      inputRequests: { name: { method: 'elicitation/create' } },
    })
    const { requestState } = first
    const wrong = (
      await use(at, 'call_greet', { requestState, inputResponses: { name: accept({ name: 'too long' }) } })
    ).message
    expect(wrong['result']).toMatchObject({ inputRequests: first.inputRequests })
    const second = (
      await use(at, 'call_greet', {
        requestState,
        inputResponses: { name: accept({ name: 'Ann' }), extra: {} },
      })
    ).message['result']
    expect(Object.keys(second.inputRequests)).toEqual(['colour'])
    const last = await use(at, 'call_greet', {
      requestState: second.requestState,
      inputResponses: { colour: accept({ colour: 'blue' }) },
    })
    expect(JSON.parse(last.message['result'].content[0].text)).toEqual({ said: 'Ann likes blue' })
    const declined = await use(at, 'call_greet', {
      requestState,
      inputResponses: { name: { action: 'decline' } },
    })
    expect(declined.message['result'].content[0].text).toContain('nothing')
  })

  test('answers before the question: count once the function has asked, checked against its form; else it asks', async () => {
    const early = (name: string) =>
      use(at, 'call_greet', { inputResponses: { name: accept({ name }), extra: {} } })
    const second = (await early('Ann')).message['result']
    expect(Object.keys(second.inputRequests)).toEqual(['colour'])
    const first = (await early('too long')).message['result']
    expect(Object.keys(first.inputRequests)).toEqual(['name'])
    const both = { name: accept({ name: 'Ann' }), colour: accept({ colour: 'blue' }) }
    const inputRequest = (await use(at, 'call_greet', { inputResponses: both })).message['result']
    expect(Object.keys(inputRequest.inputRequests)).toEqual(['colour'])
  })

  test('a state that was changed, or is of other arguments, another client or another tool, is refused (T36)', async () => {
    const { requestState } = (await use(at, 'call_greet')).message['result']
    const inputResponses = { name: accept({ name: 'Ann' }) }
    const changed = `${requestState.slice(0, -8)}${requestState.at(-8) === 'A' ? 'B' : 'A'}${requestState.slice(-7)}`
    const refused = await Promise.all([
      use(at, 'call_greet', { requestState: changed, inputResponses }),
      use(at, 'call_greet', { requestState, inputResponses, arguments: { input: { other: 1 } } }),
      use(at, 'call_greet', { requestState, inputResponses }, FORM, at.other),
      use(at, 'run_sleep', { requestState, inputResponses }),
      use(at, 'call_greet', { requestState: 'x', inputResponses }),
      use(at, 'call_greet', { requestState: '', inputResponses }),
    ])
    for (const { message } of refused)
      expect(message['error']).toMatchObject({
        code: -32_602,
        message: expect.stringContaining('requestState'),
      })
    const [entry] = await callsOf(at.server, '&outcome=rpc_error')
    expect(entry).toMatchObject({ rpc_code: -32_602 })
  })

  test('forms that ask for secrets, and pages of other hosts, are not sent (T34)', async () => {
    const page = (url: string) => ({ mode: 'url', message: 'Open it', elicitationId: 'e1', url })
    const form = {
      message: 'Sign in',
      requestedSchema: { type: 'object', properties: { api_key: { type: 'string' } } },
    }
    for (const params of [form, page('https://evil.example/form'), page('javascript:alert(1)')]) {
      const { message } = await use(at, 'call_open', { arguments: { input: params } })
      expect(message['result'].content[0].text).toMatch(/^client_input_refused: it asks /)
    }
    const formsAlone = { capabilities: { elicitation: {} } }
    const ownPage = { arguments: { input: page(`${inject('tenon').url}/auth/agents`) } }
    expect((await use(at, 'call_open', ownPage, formsAlone)).message['error']).toMatchObject({
      code: -32_021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    })
    const own = await use(at, 'call_open', ownPage)
    expect(own.message['error']?.code ?? own.message['result'].resultType).toBe('input_required')
  })

  test('a client that cannot be asked: an error that says what it lacks; earlier versions and REST: a tool error', async () => {
    const { status, message } = await use(at, 'call_greet', {}, {})
    expect([status, message['error']]).toMatchObject([
      400,
      { code: -32_021, data: { requiredCapabilities: { elicitation: {} } } },
    ])
    const legacy = await callTool(at.server.path, at.agent, 'call_greet')
    expect(legacy.body.result).toMatchObject({ isError: true })
    expect(legacy.body.result.content[0].text).toMatch(/^client_input_needed: /)
    const rest = await ok(
      call('POST', `${at.server.base}/call`, { as: at.workspace.operator, body: { tool: 'call_greet' } }),
    )
    expect([rest.is_error, rest.content[0].text]).toEqual([true, legacy.body.result.content[0].text])
  })
})

test('approval that names the client: an elicitation with the fields of its form; the run goes on after the answer', async () => {
  const inputRequest = (await use(at, 'run_pay')).message['result']
  const [[approval, request]] = Object.entries<Message>(inputRequest.inputRequests) as [[string, Message]]
  expect(request['params']).toMatchObject({
    message: 'Pay?',
    requestedSchema: {
      properties: { reason: { type: 'string' }, _approved: { type: 'boolean' } },
      required: ['_approved', 'reason'],
    },
  })
  const { requestState } = inputRequest
  const answer = (content: object) => ({ requestState, inputResponses: { [approval]: accept(content) } })
  const again = (await use(at, 'run_pay', answer({ _approved: true, reason: 'no' }))).message['result']
  expect(Object.keys(again.inputRequests)).toEqual([approval])
  const forged = await use(at, 'run_pay', answer({ _approved: true, reason: 'forged' }), FORM, at.other)
  expect(forged.message['error'].code).toBe(-32_602)
  const paid = (await use(at, 'run_pay', answer({ _approved: true, reason: 'agreed' }))).message['result']
  expect(paid.structuredContent).toMatchObject({ status: 'completed', output: { paid: true } })
  // The state once more: nothing is decided twice, and no second run starts.
  const replayed = (await use(at, 'run_pay', answer({ _approved: false, reason: 'changed' }))).message[
    'result'
  ]
  expect(replayed.structuredContent).toEqual(paid.structuredContent)
})

describe('clients of 2025-11-25 and before', () => {
  /** A client that answers forms, over the stream of its call. */
  const withForms = <T>(
    answer: (params: Message) => object,
    work: (client: Client) => Promise<T>,
    as = at.agent,
  ) =>
    withLegacyClient(at.server.url, as, work, (client) =>
      client.setRequestHandler(ElicitRequestSchema, async ({ params }) => answer(params) as ElicitResult),
    )

  test('elicitation in the stream of a call: functions in rounds, approvals with their form; a declined one is not repeated', async () => {
    const sentForms: string[] = []
    await withForms(
      ({ message, requestedSchema }) => {
        sentForms.push(message)
        const [field = ''] = Object.keys(requestedSchema.properties)
        return message === 'Pay?'
          ? accept({ _approved: true, reason: 'agreed' })
          : accept({ [field]: field.slice(0, 5) })
      },
      async (client) => {
        const greeted = await client.callTool({ name: 'call_greet', arguments: {} })
        expect(JSON.stringify(greeted.content)).toContain('name likes colou')
        const { structuredContent } = await client.callTool({ name: 'run_pay', arguments: {} })
        expect(structuredContent).toMatchObject({ status: 'completed', output: { paid: true } })
      },
    )
    expect(sentForms).toEqual(['Your name?', 'Your colour?', 'Pay?'])
    let forms = 0
    const declined = await withForms(
      () => {
        forms += 1
        return { action: 'decline' }
      },
      (client) => client.callTool({ name: 'run_pay', arguments: {} }),
    )
    expect([forms, declined.structuredContent]).toMatchObject([
      1,
      { status: 'waiting', approvals: [{ yours: true }] },
    ])
  })

  test('a session is of one client at one server; an unknown, changed or foreign one is 404 (T7)', async () => {
    const initialize = {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'a', version: '1' },
    }
    const { headers } = await rpc(at.server.path, at.agent, 'initialize', initialize)
    const id = headers.get('mcp-session-id') ?? ''
    const list = (as: Caller, session: string) =>
      call('POST', at.server.path, {
        as,
        body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        headers: { ...RPC, 'mcp-session-id': session },
      })
    expect((await list(at.agent, id)).status).toBe(200)
    const changed = `${id.slice(0, -6)}${id.at(-6) === 'A' ? 'B' : 'A'}${id.slice(-5)}`
    for (const reply of await Promise.all([list(at.other, id), list(at.agent, changed), list(at.agent, 'x')]))
      expect([reply.status, reply.body.detail]).toEqual([404, 'There is no such session.'])
  })

  test('API restarted: a session goes on; with an id that it does not know a client is told so, and begins another', async () => {
    const initialize = {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'a', version: '1' },
    }
    const send = (node: Node, method: string, params: object, session?: string) =>
      call('POST', at.server.path, {
        ...{ at: node.at, as: at.agent, body: { jsonrpc: '2.0', id: 1, method, params } },
        headers: { ...RPC, ...(session !== undefined && { 'mcp-session-id': session }) },
      })
    const begun = async (node: Node, session?: string) => {
      const { status, headers } = await send(node, 'initialize', initialize, session)
      expect(status).toBe(200)
      return headers.get('mcp-session-id') ?? ''
    }
    const before = await startInProcessNode()
    const id = await begun(before)
    await before.close()
    const after = await startInProcessNode()
    try {
      const greet = { name: 'call_greet', arguments: {} }
      expect((await send(after, 'tools/list', {}, id)).body.result.tools.length).toBeGreaterThan(1)
      // The client is asked in the stream of its call, as its session says that it can be.
      expect((await send(after, 'tools/call', greet, id)).body).toContain('elicitation/create')
      const changed = `${id.slice(0, -6)}${id.at(-6) === 'A' ? 'B' : 'A'}${id.slice(-5)}`
      for (const stale of [changed, crypto.randomUUID(), 'x', '0'.repeat(4_000)]) {
        for (const [method, params] of [
          ['tools/list', {}],
          ['tools/call', greet],
          ['ping', {}],
        ] as const)
          expect([stale, method, (await send(after, method, params, stale)).status]).toEqual([
            stale,
            method,
            404,
          ])
        const next = await begun(after, stale)
        expect((await send(after, 'tools/list', {}, next)).status).toBe(200)
      }
    } finally {
      await after.close()
    }
  })

  test('an answer counts only if it comes from the client that was asked', async () => {
    const { headers } = await rpc(at.server.path, at.agent, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'a', version: '1' },
    })
    const session = { ...RPC, 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    const response = await fetch(at.server.url, {
      method: 'POST',
      headers: { ...at.agent, ...session, 'content-type': 'application/json' },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'call_greet', arguments: {} },
      }),
    })
    const messages: Message[] = []
    const ended = readMessages(response, (message) => messages.push(message))
    const first = await eventually(async () => messages[0])
    const answer = (as: Caller, content: object, headers = RPC as Record<string, string>) =>
      call('POST', at.server.path, {
        as,
        headers,
        body: { jsonrpc: '2.0', id: first['id'], result: accept(content) },
      })
    expect((await answer(at.other, { name: 'Eve' })).status).toBe(202)
    expect((await answer(at.agent, { name: 'Ann' }, session)).status).toBe(202)
    const second = await eventually(async () => messages[1])
    await call('POST', at.server.path, {
      as: at.agent,
      headers: session,
      body: { jsonrpc: '2.0', id: second['id'], result: accept({ colour: 'blue' }) },
    })
    await ended
    expect(JSON.stringify(messages.at(-1))).toContain('Ann likes blue')
  })
})

describe('search of tools', () => {
  const setSearch = (search: string) =>
    ok(call('PATCH', at.server.base, { as: at.workspace.operator, body: { search } }))
  const through = (name: string, params: object = {}, sending: Sending = FORM, args: object = {}) =>
    use(at, 'tool_call', { arguments: { name, arguments: args }, ...params }, sending)

  test('tool_call: a tool asks and is answered, its state is for itself alone; an execution goes on as a task', async () => {
    await setSearch('on')
    const { requestState } = (await through('call_greet')).message['result']
    const inputResponses = { name: accept({ name: 'Ann' }) }
    const next = (await through('call_greet', { requestState, inputResponses })).message['result']
    expect(Object.keys(next.inputRequests)).toEqual(['colour'])
    const direct = (await use(at, 'call_greet', { requestState, inputResponses })).message['result']
    expect(Object.keys(direct.inputRequests)).toEqual(['colour'])
    for (const refused of [
      await through('run_sleep', { requestState, inputResponses }),
      await through('call_greet', { requestState, inputResponses }, FORM, { input: { other: 1 } }),
    ])
      expect(refused.message['error']).toMatchObject({ code: -32_602 })
    const { taskId, resultType } = (await through('run_sleep', {}, AS_TASKS)).message['result']
    expect([resultType, (await task(at, 'get', { taskId }))['result'].status]).toEqual(['task', 'working'])
    await task(at, 'cancel', { taskId })
    await setSearch('auto')
  })

  test('tool over a flow: cannot look safer than what the flow may call', async () => {
    for (const annotations of [
      { destructiveHint: false },
      { readOnlyHint: true },
      { openWorldHint: false },
    ]) {
      const tools = { 'flows:sleep:run': { enabled: true, annotations } }
      const { status, body } = await call('PUT', `${at.server.base}/curation`, {
        as: at.workspace.operator,
        body: { tools },
      })
      expect([status, body.errors[0].detail]).toEqual([
        400,
        expect.stringContaining('would make the tool look safer'),
      ])
    }
  })
})
