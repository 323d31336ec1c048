// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Code that reaches the platform's own entry points by `fetch`: each counts the depth of the chain, which ends at its limit. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { SHARED_LIMITS } from '../../src/features/limits.ts'
import { inWorkspace } from '../support/clients/browser.ts'
import { publishMcpServer, RPC, scopesOf, tokenFor } from '../support/clients/mcp.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { ASYNC } from '../support/fixtures/function-runs.ts'
import { deployed, EVALUATES, invoke } from '../support/fixtures/functions.ts'
import { publishScheduled, schedulesOf } from '../support/fixtures/schedules.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'
import { configure } from '../support/stack/workspace-settings.ts'

const MAX = SHARED_LIMITS.chainDepthMax
/** Sends `{ left }`, one less than it got, as long as there is one left: a chain without a limit would end, too. */
const RELAY = `export default async ({ to, headers = {}, body, left }) => {
  if (left === 0) return { status: 0 }
  const sent = JSON.stringify(left === undefined ? body : { to, left: left - 1 })
  const response = await fetch(to, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: sent })
  const got = { status: response.status, text: await response.text() }
  if (left !== undefined && got.status > 299) throw new Error(got.text)
  return got
}`

const { origin, host } = new URL(inject('tenon').url)
const deep = (depth: number) => ({ 'tenon-chain-depth': String(depth) })

let workspace: TestWorkspace
let relay: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: [host] } })
  relay = await deployed(workspace, RELAY, { egress: [host], timeout: '20s' }, 'relay')
})

describe('webhook', () => {
  /** Publishes a flow with a webhook whose URL is secret. @returns its id, and the URL */
  async function publishHook(tasks: string): Promise<{ flowId: string; url: string }> {
    const published = await publishScheduled(workspace, unique('hook'), '{ webhook: { verify: url } }', tasks)
    expect(published.status, JSON.stringify(published.body)).toBe(201)
    const url = new URL(published.body.webhooks[0].url)
    return { flowId: published.body.flow_id, url: `${origin}${url.pathname}${url.search}` }
  }

  const send = (to: string, depth: number) =>
    call('POST', to.slice(origin.length), { body: { to, left: 5 }, headers: deep(depth) })

  const executionsOf = (flowId: string) =>
    asSuperuser<{ status: string; chain_depth: number; error: unknown }>(
      'select status, chain_depth, error from tenon.executions where flow_id = $1 order by id',
      [flowId],
    )

  test.each([
    ['a function that it calls', '{ call: function.invoke, with: { id: relay, input: "${ .body }" } }', 9, 3],
    [
      'a request of its own',
      `{ call: http, with: { method: post, endpoint: '\${ .body.to }', headers: { Tenon-Chain-Depth: '1' }, body: '\${ .body }' } }`,
      11,
      2,
    ],
  ])('flow that delivers to its own webhook by %s: ends at the limit', async (_by, task, first, step) => {
    const { flowId, url } = await publishHook(`\n  - again: ${task}`)
    expect((await send(url, first)).status).toBe(202)
    const runs = await eventually(async () => {
      const all = await executionsOf(flowId)
      return all.some(({ status }) => status === 'faulted') ? all : undefined
    }, 10_000)
    const depths = runs.map(({ chain_depth }) => chain_depth)
    expect(depths).toEqual(Array.from(depths, (_, n) => first + 1 + n * step))
    expect(depths.at(-1)).toBe(MAX)
    expect(JSON.stringify(runs.at(-1)?.error)).toMatch(new RegExp(`state_conflict|${MAX} \\w+ have started`))
  })

  test('delivery at the limit: refused, and starts nothing', async () => {
    const { flowId, url } = await publishHook('\n  - a: { set: { seen: true } }')
    const { status, body } = await send(url, MAX)
    expect([status, body.code]).toEqual([409, 'state_conflict'])
    expect(body.detail).toContain(`${MAX} executions have started one another`)
    expect(await executionsOf(flowId)).toEqual([])
    expect((await send(url, MAX - 1)).status).toBe(202)
  })
})

describe('function that is reached by `fetch` of another one', () => {
  const json = { 'content-type': 'application/json' }
  const rpcCall = (name: string, args: object) => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name, arguments: args },
  })
  const bearer = ({ authorization = '' }: Caller) => ({ ...json, ...RPC, authorization })

  interface Entry {
    readonly path: string
    readonly headers: Record<string, string>
    readonly body: unknown
  }
  const key = () => ({ apikey: workspace.service['apikey'] ?? '' })
  const ENTRIES: readonly [name: string, entryOf: (target: string) => Promise<Entry>][] = [
    ['its own `fetch`', async (id) => ({ path: `/v1/functions/${id}/http/a?b=c`, headers: key(), body: {} })],
    [
      'an asynchronous `invoke`',
      async (id) => ({ path: `/v1/functions/${id}/invoke`, headers: { ...key(), ...ASYNC }, body: {} }),
    ],
    [
      'a tool of a hosted MCP server',
      async (id) => {
        const name = await nameOf(id)
        const server = await publishMcpServer(workspace, unique('loop'), {
          [`call_${name}`]: { enabled: true },
        })
        const as = await tokenFor(server, scopesOf(server, `call_${name}`))
        return { path: server.path, headers: bearer(as), body: rpcCall(`call_${name}`, {}) }
      },
    ],
    [
      'the MCP server of the platform',
      async (id) => {
        const as = await tokenOf({ roles: ['service'], ...inWorkspace(workspace) })
        const body = rpcCall('function_invoke', { id, input: {} })
        return { path: '/v1/mcp/platform/mcp', headers: bearer(as), body }
      },
    ],
  ]

  const nameOf = async (id: string): Promise<string> =>
    (await call('GET', `/v1/functions/${id}`, { as: workspace.operator })).body.name

  const depthsOf = async (id: string): Promise<unknown[]> => {
    const rows = await asSuperuser<{ depth: number }>(
      "select (trigger ->> 'chain_depth')::integer as depth from tenon.function_runs where function_id = $1",
      [id],
    )
    return rows.map(({ depth }) => depth)
  }

  const TARGET = 'export default () => 1\nexport const fetch = () => new Response("1")'

  test.each(ENTRIES)('through %s: is two deeper than its sender, up to the limit', async (_name, entryOf) => {
    const target = await deployed(workspace, TARGET, {}, unique('t').replaceAll('-', ''))
    const { path, headers, body } = await entryOf(target)
    const at = async (depth: number) =>
      (await invoke(workspace.service, relay, { to: `${origin}${path}`, headers, body }, deep(depth))).body
    const admitted = await at(MAX - 3)
    expect(admitted.status, JSON.stringify(admitted)).toBeLessThan(300)
    expect(admitted.text).not.toContain('state_conflict')
    const refused = await at(MAX - 2)
    expect(refused.text).toContain('state_conflict')
    expect(refused.text).toContain(`${MAX} runs have started one another`)
    const unsent = await at(MAX - 1)
    expect([unsent.code, JSON.stringify(unsent)]).toEqual([
      'function_error',
      expect.stringContaining('this one sends no requests'),
    ])
    expect(await depthsOf(target)).toEqual([MAX])
  })

  test('through `tenon.functions.invoke` without waiting: is one deeper, up to the limit', async () => {
    const target = await deployed(workspace, TARGET)
    const caller = await deployed(workspace, EVALUATES)
    const run = 'tenon.functions.invoke(input.target, {}, { respond_async: true })'
    const at = async (depth: number) =>
      (await invoke(workspace.service, caller, { run, target }, deep(depth))).body
    expect(await at(MAX - 2)).toMatchObject({ id: expect.any(String) })
    expect(await at(MAX - 1)).toMatchObject({ code: 'state_conflict' })
    expect(await depthsOf(target)).toEqual([MAX])
  })
})

test('rerun of an execution, and a schedule that is triggered: count the depth of the request', async () => {
  const name = unique('again')
  const cron = await publishScheduled(workspace, name, "{ cron: '0 0 1 1 *' }")
  expect(cron.status, JSON.stringify(cron.body)).toBe(201)
  const [schedule] = await schedulesOf(workspace, name)
  const executions = new Executions(workspace)
  const ended = await executions.ended(await executions.start(name))
  for (const path of [`/executions/${ended.id}/rerun`, `/schedules/${schedule?.id}/trigger`]) {
    const at = (depth: number) =>
      call('POST', `${workspace.flows}${path}`, { as: workspace.operator, body: {}, headers: deep(depth) })
    const refused = await at(MAX)
    expect([path, refused.status, refused.body.code]).toEqual([path, 409, 'state_conflict'])
    const started = await at(MAX - 1)
    expect(started.status, JSON.stringify(started.body)).toBeLessThan(300)
    const [row] = await asSuperuser('select chain_depth from tenon.executions where id = $1', [
      started.body.id,
    ])
    expect(row).toEqual({ chain_depth: MAX })
  }
})
