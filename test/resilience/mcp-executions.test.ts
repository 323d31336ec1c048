/** Executions that were started over MCP, when the worker and the API are killed. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { ok } from '../support/clients/mcp.ts'
import { type Message, modernRpc, sendModern, TASKS } from '../support/clients/mcp-modern.ts'
import { type Caller, eventually, type Reply } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

const FLOW = `document: { dsl: '1.0.3', namespace: n, name: nap, version: '1.0.0' }
input:
  schema:
    document:
      type: object
      properties: { who: { type: string } }
do:
  - nap: { wait: { seconds: 4 } }
  - done: { set: { slept: "\${ .who }" } }
`
const AS_TASKS = { capabilities: { extensions: { [TASKS]: {} } } }

let own: OwnPlatform
let servers: string
let path: string
let agent: Caller

const call = (method: string, to: string, body?: object): Promise<Reply['body']> =>
  ok(own.call(method, to, { as: own.workspace.operator, ...(body && { body }) }))

async function publishServer(): Promise<void> {
  const { flows, workspaceId } = own.workspace
  servers = `/v1/mcp/workspaces/${workspaceId}/servers`
  const experimental = { workspace_id: workspaceId, experimental: ['mcp.flow_tools'] }
  await call('POST', '/v1/services/configure', experimental)
  const { id } = await call('POST', `${flows}/definitions`, { source: FLOW })
  await call('POST', `${flows}/definitions/${id}/versions`, {})
  ;({ path } = await call('POST', servers, { name: 'Desk', slug: 'desk' }))
  await call('PUT', `${servers}/desk/curation`, { tools: { 'flows:nap:run': { enabled: true } } })
  await call('POST', `${servers}/desk/publish`, {})
}

/** A token of an agent's own client, which no later request renews. */
async function signIn(): Promise<Caller> {
  const { url } = own.started.running
  const { client_id, client_secret } = await call('POST', `${servers}/desk/clients`, { name: 'agent' })
  const scope = ['run_nap', 'execution_status', 'execution_result']
    .map((tool) => `mcp:desk:${tool}`)
    .join(' ')
  const response = await fetch(`${url}/auth/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: `${url}${path}`, scope }),
  })
  const { access_token } = (await response.json()) as { access_token: string }
  return { authorization: `Bearer ${access_token}` }
}

beforeAll(async () => {
  own = await sharedPlatform()
  await publishServer()
  agent = await signIn()
})
afterAll(() => own?.end())

const ask = async (method: string, params: Record<string, unknown>, sending: object = {}): Promise<Message> =>
  (await modernRpc(path, agent, method, params, { at: own.started.running, ...sending })).message

/** The structured content of a tool over executions. */
const read = async (tool: string, execution: string) =>
  (await ask('tools/call', { name: tool, arguments: { execution } }))['result'].structuredContent

const executions = async () =>
  (await call('GET', `${own.workspace.flows}/executions?flow=nap`)).data as { id: string }[]

test('worker and API killed during calls of flows: each call is one execution, which the same token follows to its result (T37)', async () => {
  const start = (who: string) => ({ name: 'run_nap', arguments: { who } })
  const { taskId } = (await ask('tools/call', start('task'), AS_TASKS))['result']
  const [task, ...none] = await executions()
  expect([task?.id, none]).toEqual([taskId, []])
  // The call without tasks waits for the output when its connection breaks.
  const cut = sendModern(path, agent, 'tools/call', start('cut'), { at: own.started.running })
  const broken = expect(cut).rejects.toThrow()
  const second = await eventually(async () => (await executions()).find(({ id }) => id !== taskId))
  for (const name of ['worker', 'api']) killServer(own.started, name)
  await broken

  const known = await eventually(() => read('execution_status', taskId).catch(() => undefined), 60_000)
  expect(known).toMatchObject({ execution: taskId })
  const ended = await eventually(async () => {
    const { result } = await ask('tasks/get', { taskId }, AS_TASKS)
    return result.status === 'completed' ? result : undefined
  }, 60_000)
  const output = (who: string) => ({ status: 'completed', output: { slept: who } })
  expect(ended).toMatchObject({
    taskId,
    result: { structuredContent: { execution: taskId, ...output('task') } },
  })
  expect(await read('execution_result', taskId)).toEqual(ended.result.structuredContent)
  expect(await read('execution_result', second.id)).toMatchObject({ execution: second.id, ...output('cut') })
  expect((await ask('tasks/get', { taskId: second.id }, AS_TASKS))['result']).toMatchObject({
    taskId: second.id,
    result: { structuredContent: { execution: second.id } },
  })
  expect((await executions()).map(({ id }) => id).sort()).toEqual([taskId, second.id].sort())
})
