/** A request is permitted once before its body is read, and once with its input, at each entry point. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { Permission } from '../../src/access/permission.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'

let node: Node
let workspace: TestWorkspace
const checks: string[] = []

beforeAll(async () => {
  const { require } = Permission
  const { confirm } = Permission.prototype
  vi.spyOn(Permission, 'require').mockImplementation((operation, principal) => {
    checks.push(`require ${operation.name}`)
    return require(operation, principal)
  })
  vi.spyOn(Permission.prototype, 'confirm').mockImplementation(function (this: Permission, input) {
    checks.push(`confirm ${this.operation.name}`)
    confirm.call(this, input)
  })
  node = await startInProcessNode()
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  vi.restoreAllMocks()
  await node.close()
})

/** The checks that a piece of work causes. */
async function checksOf(work: () => Promise<{ readonly status: number }>): Promise<[number, string[]]> {
  checks.length = 0
  const { status } = await work()
  return [status, [...checks]]
}

const once = (name: string) => [`require ${name}`, `confirm ${name}`]

test('request of a key, of an admin, and about its caller: each is permitted once, and confirmed once', async () => {
  const { at } = node
  const { service, operator, workspaceId } = workspace
  const create = () => call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 }, at })
  expect(await checksOf(create)).toEqual([201, once('collection.create')])
  const list = () => call('GET', `/v1/flows/workspaces/${workspaceId}/definitions`, { as: operator, at })
  expect(await checksOf(list)).toEqual([200, once('flow.list')])
  expect(await checksOf(() => call('GET', '/v1/me', { as: service, at }))).toEqual([200, once('me.get')])
})

test('keyed request: is permitted once, and confirmed once, also when it is repeated', async () => {
  const headers = { 'idempotency-key': 'one' }
  const create = () =>
    call('POST', '/v1/collections/notes/documents', {
      as: workspace.service,
      body: { n: 2 },
      headers,
      at: node.at,
    })
  expect(await checksOf(create)).toEqual([201, once('collection.create')])
  expect(await checksOf(create)).toEqual([201, once('collection.create')])
})

test('event stream: is permitted and confirmed as it opens, and again together while it is open', async () => {
  const subscribe = () =>
    call('GET', '/v1/events/subscribe?topic=notes', { as: workspace.service, at: node.at })
  const [status, seen] = await checksOf(subscribe)
  const pair = once('event.subscribe')
  expect([status, seen.slice(0, 2)]).toEqual([200, pair])
  expect(seen).toEqual(Array.from({ length: seen.length / 2 }, () => pair).flat())
})

test('refused request: is not confirmed', async () => {
  const create = () =>
    call('POST', '/v1/collections/notes/documents', { as: workspace.operator, body: { n: 1 }, at: node.at })
  expect(await checksOf(create)).toEqual([403, ['require collection.create']])
})

test('tool of the platform server: is permitted once, and confirmed once', async () => {
  const params = { name: 'flow_list', arguments: { workspace_id: workspace.workspaceId } }
  const callFlowList = () =>
    call('POST', '/v1/mcp/platform/mcp', {
      as: workspace.operator,
      headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      at: node.at,
    })
  expect(await checksOf(callFlowList)).toEqual([200, once('flow.list')])
})
