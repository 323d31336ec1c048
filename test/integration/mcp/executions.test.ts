/** Executions that tools over flows have started: inline result, handle, status, cancel, decisions, and whose they are. */

import { beforeAll, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  Browser,
  bearer,
  inWorkspace,
  tokensOf,
} from '../../support/clients/browser.ts'
import {
  askToken,
  callTool,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
} from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

interface Agent {
  readonly id: string
  readonly secret: string
  readonly as: Caller
}

/** The flows are not over by then. */
const SOON = { limits: { wait_seconds: 2 } }
const EXECUTION_TOOLS = ['execution_answer', 'execution_cancel', 'execution_result', 'execution_status']

let workspace: TestWorkspace
let server: PublishedMcpServer
/** An agent's own client, and another one at the same server. */
let agent: Agent
let other: Agent

async function createFlow(source: string): Promise<void> {
  const as = workspace.operator
  const { id } = await ok(call('POST', `${workspace.flows}/definitions`, { as, body: { source } }))
  await ok(call('POST', `${workspace.flows}/definitions/${id}/versions`, { as, body: {} }))
}

async function tokenOf(client: Pick<Agent, 'id' | 'secret'>, tools: readonly string[]): Promise<Caller> {
  const { body } = await askToken({ resource: server.url, scope: scopesOf(server, ...tools) }, client)
  return { authorization: `Bearer ${body['access_token']}` }
}

async function createAgent(name: string): Promise<Agent> {
  const made = await ok(call('POST', `${server.base}/clients`, { as: workspace.operator, body: { name } }))
  const client = { id: made.client_id, secret: made.client_secret }
  return { ...client, as: await tokenOf(client, ['run_refund', 'run_sleep', ...EXECUTION_TOOLS]) }
}

const use = async (tool: string, args: unknown, as = agent.as) => {
  const { body } = await callTool(server.path, as, tool, args)
  if (body.result === undefined) throw new Error(JSON.stringify(body))
  const { content, structuredContent: data, isError = false } = body.result
  return { text: content[0].text as string, data, isError }
}

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const experimental = { workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as: workspace.operator, body: experimental }))
  await createFlow(`document: { dsl: '1.0.3', namespace: n, name: refund, version: '1.0.0', summary: Refunds an order. }
input:
  schema:
    document:
      type: object
      properties:
        order: { type: string, description: Number of the order. }
        cents: { type: integer, minimum: 1 }
      required: [order, cents]
      additionalProperties: false
do:
  - done: { set: { refunded: "\${ .cents }" } }
`)
  await createFlow(`document: { dsl: '1.0.3', namespace: n, name: sleep, version: '1.0.0' }
do:
  - nap: { wait: { seconds: 300 } }
`)
  const tools = { 'flows:refund:run': { enabled: true }, 'flows:sleep:run': { enabled: true, ...SOON } }
  server = await publishMcpServer(workspace, 'desk', tools)
  agent = await createAgent('agent')
  other = await createAgent('other')
})

test('tool over a flow: summary and input of the definition, and the tools over executions', async () => {
  const { body } = await rpc(server.path, agent.as, 'tools/list')
  const tools = body.result.tools as { name: string; description: string; inputSchema: object }[]
  expect(tools.map(({ name }) => name)).toEqual([...EXECUTION_TOOLS, 'run_refund', 'run_sleep'].sort())
  const refund = tools.find(({ name }) => name === 'run_refund')
  expect(refund?.description).toMatch(/^Refunds an order\. /)
  expect(refund?.inputSchema).toMatchObject({
    type: 'object',
    properties: { order: { type: 'string', description: 'Number of the order.' }, cents: { minimum: 1 } },
    required: ['order', 'cents'],
  })
})

test('short flow: its output at once; wrong input: an error that names the field', async () => {
  const { data } = await use('run_refund', { order: 'A1', cents: 5 })
  expect(data).toMatchObject({
    status: 'completed',
    output: { refunded: 5 },
    execution: expect.stringMatching(/^run_/),
  })
  expect((await use('execution_status', { execution: data.execution })).data).toEqual(data)
  const { text, isError } = await use('run_refund', { order: 'A1' })
  expect([isError, text]).toEqual([true, expect.stringContaining('- cents is required')])
})

test('long flow: a handle, which another client cannot use; cancelled by its starter (T35)', async () => {
  const started = await use('run_sleep', {})
  const { execution } = started.data
  expect(started.data).toMatchObject({ status: 'waiting', step: 'nap' })
  for (const tool of EXECUTION_TOOLS) {
    const args = { execution, ...(tool === 'execution_answer' && { approval: 'apr_x', approved: true }) }
    const [foreign, none] = await Promise.all([
      use(tool, args, other.as),
      use(tool, { ...args, execution: 'run_00000000000000000000000000' }, other.as),
    ])
    expect([foreign.isError, foreign.text]).toEqual([
      true,
      expect.stringMatching(/^not_found: There is no such execution\.$/m),
    ])
    expect(none.text).toBe(foreign.text)
  }
  expect((await use('execution_status', { execution })).data).toMatchObject({ status: 'waiting' })
  await use('execution_cancel', { execution })
  const ended = await eventually(async () => {
    const { data } = await use('execution_status', { execution })
    return data.status === 'cancelled' ? data : undefined
  })
  expect(ended.execution).toBe(execution)
})

test('client that disconnects: the execution goes on (T37)', async () => {
  const disconnect = new AbortController()
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'run_sleep', arguments: {} } }
  const headers = { ...RPC, ...agent.as, 'content-type': 'application/json' }
  const sent = fetch(server.url, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    signal: disconnect.signal,
  })
  const running = async () => {
    const { data } = await ok(
      call('GET', `${workspace.flows}/executions?flow=sleep`, { as: workspace.operator }),
    )
    return data.filter(({ status }: { status: string }) => status === 'waiting')
  }
  const [{ id }] = await eventually(async () => {
    const open = await running()
    return open.length > 0 ? open : undefined
  })
  disconnect.abort()
  await expect(sent).rejects.toThrow('aborted')
  expect((await use('execution_status', { execution: id })).data).toMatchObject({
    status: 'waiting',
    step: 'nap',
  })
  await use('execution_cancel', { execution: id })
})

test('approval that names the client: decided by it; one that names others: refused', async () => {
  const approval = (
    name: string,
    approver: string,
  ) => `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }
do:
  - ask: { approve: { title: 'Pay?', approvers: ['${approver}'], fourEyes: false } }
  - paid: { set: { paid: true } }
`
  await createFlow(approval('mine', agent.id))
  await createFlow(approval('theirs', 'boss@example.test'))
  await publish(server, {
    'flows:mine:run': { enabled: true, ...SOON },
    'flows:theirs:run': { enabled: true, ...SOON },
  })
  const as = await tokenOf(agent, ['run_mine', 'run_theirs', ...EXECUTION_TOOLS])
  const [mine, theirs] = await Promise.all(['run_mine', 'run_theirs'].map((tool) => use(tool, {}, as)))
  const [own] = mine?.data.approvals ?? []
  expect(own).toMatchObject({ title: 'Pay?', approvers: [agent.id], yours: true })
  const [foreign] = theirs?.data.approvals ?? []
  expect(foreign).toMatchObject({ approvers: ['boss@example.test'], yours: false })
  const refused = await use(
    'execution_answer',
    { execution: theirs?.data.execution, approval: foreign.approval, approved: true },
    as,
  )
  expect(refused.text).toMatch(/^forbidden: Only boss@example\.test can decide.*\nAsk one of them/s)
  const crossed = await use(
    'execution_answer',
    { execution: mine?.data.execution, approval: foreign.approval, approved: true },
    as,
  )
  expect(crossed.text).toMatch(/^not_found: There is no such open approval of this execution\.$/m)
  await use(
    'execution_answer',
    { execution: mine?.data.execution, approval: own.approval, approved: true },
    as,
  )
  const { data } = await use('execution_result', { execution: mine?.data.execution }, as)
  expect(data).toMatchObject({ status: 'completed', output: { paid: true } })
})

test('approval that names the user of the client by e-mail: a link by which the user alone decides, signed in', async () => {
  const { operator } = workspace
  const person = await addAccount(operator, { role: 'service', ...inWorkspace(workspace) })
  await createFlow(`document: { dsl: '1.0.3', namespace: n, name: user, version: '1.0.0' }
do:
  - ask: { approve: { title: 'Pay?', approvers: ['${person.email}'], fourEyes: false } }
`)
  await publish(server, { 'flows:user:run': { enabled: true } })
  const access = {
    resource: server.url,
    scope: scopesOf(server, 'run_user', 'execution_answer', 'execution_result'),
  }
  const { body } = await tokensOf(await addClient(operator), person, access)
  const as = bearer(body['access_token'])
  const elapsedMs = stopwatch()
  const { data } = await use('run_user', {}, as)
  // At once, not after the 25 s that a call waits for an output.
  expect(elapsedMs()).toBeLessThan(15_000)
  const [approval] = data.approvals
  expect(approval).toMatchObject({ approvers: [person.email], yours: false })
  const page = await fetch(approval.link)
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('password')])
  const { text } = await use(
    'execution_answer',
    { execution: data.execution, approval: approval.approval, approved: true },
    as,
  )
  expect(text).toMatch(/^forbidden: /)
  const browser = new Browser('nowhere:')
  const signIn = { action: 'sign_in', password: person.password }
  const form = await browser.submit(await browser.open(approval.link), signIn)
  expect((await browser.submit(form, { action: 'approve' })).html).toContain(`Approved by ${person.email}`)
  const ended = await eventually(async () => {
    const result = await use('execution_result', { execution: data.execution }, as)
    return result.data?.status === 'completed' ? result.data : undefined
  })
  expect(ended.output.decisions).toMatchObject([{ by: person.id, as: person.email }])
})
