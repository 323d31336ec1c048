/** Sweeps the audit log: every changing operation and every refusal leaves exactly one entry. */

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AnyOperation } from '../../src/core/operation.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { type Entry, recorded } from '../support/clients/audit.ts'
import { type Caller, call, createTestWorkspaceWithStorage } from '../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../support/stack/counted-api.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'
import { RUN_COMMANDS } from './sweep-rows-flows.ts'

let own: CountedApi
let url: string
let world: World

beforeAll(async () => {
  own = await startCountedApi()
  url = await own.app.listen({ port: 0, host: '127.0.0.1' })
  world = await createSweepResources(await createTestWorkspaceWithStorage())
  // A refusal by quota would only be counted.
  const { workspaceId: workspace_id, operator: as } = world.workspace
  const body = { workspace_id, limits: { mcp_servers: 10 } }
  expect((await call('PUT', '/v1/quotas', { as, body })).status).toBe(200)
})
afterAll(() => own?.close())

const id = randomUUID()

/** Sends from an address of its own for each operation, so that no entry is throttled. */
async function send(operation: AnyOperation, as: Caller, kind: string): Promise<number> {
  const row = ROWS[operation.name]
  const body = row?.body?.(world)
  const sent = request(`${url}${row?.path(world)}`, {
    method: operation.http.method,
    headers: {
      ...as,
      'x-request-id': `${id}.${kind}.${operation.name}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...row?.headers?.(world),
    },
    localAddress: `127.0.${kind.length}.${OPERATIONS.indexOf(operation) + 1}`,
    agent: false,
  })
  sent.end(typeof body === 'string' || body === undefined ? body : JSON.stringify(body))
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  reply.resume()
  await once(reply, 'end')
  return reply.statusCode ?? 0
}

/** Deleting and disabling operations come late, those of what others are in later, suspension and deletion of all last. */
const LATE = [
  /delete|revoke|quota\.set|(mcp_server|account)\.update/,
  /^(flow|function|mcp_server)\.delete$/,
  /(tenant|workspace)\.(suspend|resume)/,
  /(tenant|workspace)\.(delete|restore)/,
]
const orderOf = ({ name }: AnyOperation) => LATE.findLastIndex((late) => late.test(name))

/** Those about their caller need a person, whom no caller here is: test/integration/identity/sessions.test.ts. */
const changing = OPERATIONS.filter(({ reads, reach }) => !reads && reach !== 'caller').sort(
  (a, b) => orderOf(a) - orderOf(b),
)

function byOperation(entries: readonly Entry[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { operation } of entries) counts[operation] = (counts[operation] ?? 0) + 1
  return counts
}

const oneEach = (operations: readonly AnyOperation[]) =>
  Object.fromEntries(operations.map(({ name }) => [name, 1]))

test('every changing operation: one audit entry with its status', async () => {
  const statuses: Record<string, number> = {}
  for (const operation of changing) {
    const as = operation.domain === 'data_access' ? world.workspace.service : world.workspace.operator
    statuses[operation.name] = await send(operation, as, 'done')
  }
  await own.platform.audit.flush()
  const all = await recorded(`${id}.done.%`)
  const entries = all.filter(({ operation, request_id }) => request_id === `${id}.done.${operation}`)
  expect(byOperation(entries), JSON.stringify(statuses)).toEqual(oneEach(changing))
  // The tool that `mcp_server.call` calls creates a document.
  const others = all.filter((entry) => !entries.includes(entry))
  expect(others).toMatchObject([{ operation: 'collection.create', request_id: `${id}.done.mcp_server.call` }])
  const mismatched = entries.filter(({ operation, outcome, status }) => {
    const answered = statuses[operation] ?? 0
    return status !== answered || outcome !== (answered < 400 ? 'done' : 'failed')
  })
  expect(mismatched).toEqual([])
  // Nearly all operations succeed here; the exceptions are listed.
  // A tenant is exported only while all of its workspaces are complete, which depends on how far the one is that the sweep creates.
  const refused = Object.entries(statuses).filter(
    ([name, status]) => status >= 400 && name !== 'tenant.export',
  )
  expect(refused).toEqual([
    // Their creation has not failed.
    ['tenant.retry', 409],
    // DNS does not have the proof.
    ['host.verify', 409],
    ['workspace.retry', 409],
    // The sweep sends JSON, which is no archive.
    ['workspace.import', 422],
    ['tenant.import', 422],
    // An account that was never accepted, and an active version.
    ['account.reset', 409],
    ['account.confirm', 409],
    // There are no such sessions.
    ['account.end_session', 404],
    ['user.end_session', 404],
    // The sweep has made no plan.
    ['schema.apply', 409],
    // The sweep sends JSON, which is no form.
    ['object.upload_form', 415],
    ...RUN_COMMANDS.map((name) => [name, 409]),
    ['mcp_version.create', 409],
    ['mcp_version.approve', 409],
  ])
  // Operations of the issuer belong to no tenant; nor does what an operator asks of a thing that does not exist, or an import that is refused.
  const untenanted = [
    'tenant.create',
    'tenant.import',
    'issuer.rotate_keys',
    'account.end_session',
    'user.end_session',
  ]
  const misplaced = entries.filter(
    ({ tenant_id, operation }) => tenant_id !== world.workspace.tenantId && !untenanted.includes(operation),
  )
  expect(misplaced).toEqual([])
  const [made] = entries.filter(({ operation }) => operation === 'tenant.create')
  expect(made?.tenant_id).toMatch(/^ten_/)
})

test.each([
  ['no credential', 'anonymous', 401, () => ({})],
  ['credential of the wrong domain', 'wrong', 403, undefined],
] as const)(
  '%s: every operation leaves one audit entry of its refusal',
  async (_what, kind, status, caller) => {
    const swept = OPERATIONS.filter(({ domain }) => kind === 'anonymous' || domain !== 'any')
    for (const operation of swept) {
      const wrong = operation.domain === 'data_access' ? world.workspace.operator : world.workspace.service
      expect(await send(operation, caller?.() ?? wrong, kind), operation.name).toBe(status)
    }
    await own.platform.audit.flush()
    const entries = await recorded(`${id}.${kind}.%`)
    expect(byOperation(entries)).toEqual(oneEach(swept))
    for (const entry of entries) {
      expect(entry).toMatchObject({ outcome: 'denied', status, before: null, after: null, count: 1 })
      // A key belongs to its tenant; an operator or unknown caller to none.
      const operation = swept.find(({ name }) => name === entry.operation)
      const keyed = kind === 'wrong' && operation?.domain === 'structural_admin'
      expect(entry.tenant_id).toBe(keyed ? world.workspace.tenantId : '-')
    }
  },
)
