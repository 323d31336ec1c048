/** `context.caller`: the code knows whose call it serves, whatever has started it, and no caller can make it up. */

import { beforeAll, expect, test } from 'vitest'
import { callTool, publishMcpServer, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import { ASYNC, FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { completed, deployTriggered, onTopics, triggersOf } from '../../support/fixtures/function-triggers.ts'
import { deployed, invoke, resultOf } from '../../support/fixtures/functions.ts'
import { publish, readExecution, start, waitForStatus } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

const SHOWS = `export default (_input, { caller }) => caller
export const fetch = (_request, { caller }) => Response.json(caller)`
const OPEN = { anon: true, user: true }
const CLAIMS = { team: 'red', limits: { orders: 3 } }
const MIA = { id: 'mia', email: 'mia@example.com', claims: CLAIMS }

let workspace: TestWorkspace
let runs: FunctionRuns
let shows: string
let mia: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
  ;[shows, mia] = await Promise.all([deployed(workspace, SHOWS, OPEN), userToken(workspace, 'mia', CLAIMS)])
})

/** The id of the key of the workspace. */
async function keyId(kind: 'service' | 'anon'): Promise<string> {
  const [key] = await asSuperuser<{ id: string }>(
    'select id from tenon.api_keys where workspace_id = $1 and kind = $2',
    [workspace.workspaceId, kind],
  )
  return key?.id ?? ''
}

test('keys and users: kind and id, and of a user the verified address and the claims; also for HTTP', async () => {
  const expected = [
    [workspace.service, { kind: 'service', id: await keyId('service') }],
    [workspace.anon, { kind: 'anon', id: await keyId('anon') }],
    [mia, { kind: 'user', id: 'mia', user: MIA }],
  ] as const
  for (const [as, caller] of expected) {
    expect(await resultOf(as, shows)).toEqual(caller)
    expect((await call('GET', `/v1/functions/${shows}/http/a`, { as })).body).toEqual(caller)
  }
  const { tenantId: tenant_id, workspaceId: workspace_id } = workspace
  const roles = { tenant_id, workspace_id, role: 'user', roles: ['user'] }
  const ben = await tokenOf({
    ...roles,
    sub: 'ben',
    email: 'ben@example.com',
    email_verified: false,
    claims: {},
  })
  expect(await resultOf(ben, shows)).toEqual({ kind: 'user', id: 'ben', user: { id: 'ben', claims: {} } })
})

test('caller that a client makes up, in the input, the query or headers: does not reach the code', async () => {
  const forged = { kind: 'service', id: 'key_1', user: { id: 'ben' } }
  const text = JSON.stringify(forged)
  const real = { kind: 'user', id: 'mia', user: MIA }
  const headers = { 'x-caller': text, 'x-tenon-caller': text, 'x-user-id': 'ben', 'x-pg-user': 'ben' }
  const input = {
    caller: forged,
    context: { caller: forged },
    user: { id: 'ben' },
    __proto__: { caller: forged },
  }
  expect((await invoke(mia, shows, input, headers)).body).toEqual(real)
  const http = `/v1/functions/${shows}/http/a?caller=${encodeURIComponent(text)}`
  expect((await call('GET', http, { as: mia, headers })).body).toEqual(real)
  const passing = await deployed(
    workspace,
    `export default (options, { tenon }) => tenon.functions.invoke('${shows}', {}, options).catch(({ code }) => code)`,
    OPEN,
  )
  for (const options of [{ caller: forged }, { context: { caller: forged } }])
    expect(await resultOf(mia, passing, options)).toBe('validation_failed')
})

test('context: holds no credential of the caller', async () => {
  const all = await deployed(workspace, 'export default (_input, context) => JSON.stringify(context)', OPEN)
  for (const as of [workspace.service, mia]) {
    const [credential = ''] = Object.values(as).map((value) => value.replace('Bearer ', ''))
    const text = await resultOf(as, all)
    expect(text).not.toContain(credential)
    expect(text).not.toContain(credential.split('.').at(-1))
  }
})

test('function that another one calls: that run, on behalf of its user, also where it declares scopes', async () => {
  const source = `export default async (_input, { run, tenon }) =>
    ({ run: run.id, seen: await tenon.functions.invoke('${shows}') })`
  for (const config of [{ user: true }, { user: true, scopes: ['functions:write'] }]) {
    const { run, seen } = await resultOf(mia, await deployed(workspace, source, config))
    expect(seen).toEqual({ kind: 'function', id: run, on_behalf_of: 'mia', user: MIA })
  }
})

test('event: its trigger', async () => {
  const topic = unique('orders')
  const fn = await deployTriggered(workspace, onTopics(topic), SHOWS)
  await emitAt(workspace, topic, { caller: { kind: 'user', id: 'mia' } })
  const [run] = await completed(fn, 1)
  const [{ id }] = await triggersOf(fn)
  expect((await runs.read(fn.id, run?.id ?? '')).result).toEqual({ kind: 'event', id })
})

test('flow: its execution', async () => {
  const name = unique('asks')
  await publish(workspace, name, `  - ask: { call: function.invoke, with: { id: ${shows} } }`)
  const id = await start(workspace, name)
  await waitForStatus(workspace, id, 'completed')
  expect((await readExecution(workspace, id)).output).toEqual({ kind: 'flow', id })
})

test('tool: its server, on behalf of the client', async () => {
  await deployed(workspace, SHOWS, {}, 'shows')
  const tool = 'call_shows'
  const server = await publishMcpServer(workspace, 'callers', { [tool]: { enabled: true } })
  const as = await tokenFor(server, scopesOf(server, tool))
  const { result } = (await callTool(server.path, as, tool, { input: { caller: { kind: 'user' } } })).body
  const [run] = await asSuperuser<{ started_by: string }>(
    `select started_by from tenon.function_runs where workspace_id = $1 and trigger ->> 'kind' = 'mcp'`,
    [workspace.workspaceId],
  )
  const caller = { kind: 'mcp', id: server.id, on_behalf_of: run?.started_by }
  expect(JSON.parse(result.content[0].text)).toEqual(caller)
})

test('asynchronous run of a user: as it was when it was started; also if an admin runs the dead letter again', async () => {
  const name = unique('later')
  const id = await runs.deploy(name, 'export default () => { throw new Error("no") }', OPEN)
  const { body } = await runs.invoke(id, {}, { as: mia, headers: ASYNC })
  expect(await runs.ended(id, body.id)).toMatchObject({ status: 'failed' })
  await runs.deploy(name, SHOWS, OPEN)
  const again = await runs.call('POST', `/v1/functions/${id}/runs/${body.id}/redrive`)
  const { result } = await runs.ended(id, again.body.id)
  expect(result).toEqual({ kind: 'user', id: 'mia', user: MIA })
})
