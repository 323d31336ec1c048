/**
 * The audit log while its database is unreachable: pending entries are bounded, lost ones are reported,
 * administration is refused.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { AuditEvent } from '../../src/access/audit/entry.ts'
import { ACCESS_LIMITS } from '../../src/access/limits.ts'
import { openPlatform, type Platform } from '../../src/app/platform.ts'
import { parseConfig } from '../../src/infra/config.ts'
import { openLog } from '../../src/infra/log.ts'
import { entriesOfWorkspace, recorded, verified } from '../support/clients/audit.ts'
import { createTestWorkspace, eventually, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'

let proxy: Server
let port: number
const sockets = new Set<Socket>()
let platform: Platform
let workspace: TestWorkspace

/** Opens a proxy between the platform and PostgreSQL that can be cut. */
function openProxy(at: number): Promise<void> {
  const { hostname, port: upstream } = new URL(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  proxy = createServer((client) => {
    const server = connect({ host: hostname, port: Number(upstream) })
    for (const end of [client, server]) sockets.add(end.on('error', () => end.destroy()))
    client.pipe(server).pipe(client)
  })
  return new Promise((done) => proxy.listen(at, '127.0.0.1', done))
}

async function closeProxy(): Promise<void> {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  await new Promise((done) => proxy.close(done))
}

beforeAll(async () => {
  await openProxy(0)
  port = (proxy.address() as { port: number }).port
  const { env } = inject('tenon')
  const url = new URL(env['DATABASE_APP_URL'] ?? '')
  url.port = String(port)
  platform = openPlatform(
    parseConfig({ ...env, DATABASE_APP_URL: url.href }),
    openLog('silent', 'test'),
  ).platform
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  await platform?.close()
  await closeProxy()
})

const auditEvent = (requestId: string): AuditEvent => ({
  owner: { tenantId: workspace.tenantId },
  requestId,
  actor: { subject: 'somebody', role: 'service', kind: 'api_key' },
  operation: 'collection.create',
  target: '/v1/x',
  outcome: 'done',
  status: 201,
  code: null,
  before: null,
  after: null,
})

test('database unreachable: pending entries are written later in order, lost ones counted in one entry', async () => {
  const { audit } = platform
  const name = unique('away')
  await audit.append(auditEvent(`${name}-before`))
  await closeProxy()
  await audit.append(auditEvent(`${name}-0`))
  expect(() => audit.refuseUnlessReady()).not.toThrow()
  for (let n = 1; n < ACCESS_LIMITS.auditEntriesPendingMax / 2; n++) audit.enqueue(auditEvent(`${name}-${n}`))
  expect(() => audit.refuseUnlessReady()).toThrow('accepts no entries at the moment')
  for (let n = ACCESS_LIMITS.auditEntriesPendingMax / 2; n < ACCESS_LIMITS.auditEntriesPendingMax + 7; n++)
    audit.enqueue(auditEvent(`${name}-${n}`))
  await openProxy(port)
  const lost = await eventually(async () => (await entriesOfWorkspace(workspace, '&operation=audit.lost'))[0])
  expect(lost).toMatchObject({ count: 7, outcome: 'failed', actor: { kind: 'platform' } })
  const names = (await recorded(`${name}-%`)).map(({ request_id }) => request_id)
  const expected = Array.from({ length: ACCESS_LIMITS.auditEntriesPendingMax }, (_none, n) => `${name}-${n}`)
  expect(names).toEqual([`${name}-before`, ...expected])
  expect(() => audit.refuseUnlessReady()).not.toThrow()
  const first = await verified(workspace)
  expect(first).toMatchObject({
    ok: true,
    checked: ACCESS_LIMITS.auditVerifiedMax,
    next: ACCESS_LIMITS.auditVerifiedMax,
  })
  expect(await verified(workspace, `&after=${first.next}`)).toMatchObject({ ok: true, next: null })
})

test('platform closed: pending entries and throttled counts are written first', async () => {
  const { env } = inject('tenon')
  const other = openPlatform(parseConfig(env), openLog('silent', 'test')).platform
  const name = unique('end')
  for (let n = 0; n < 25; n++)
    other.audit.enqueueThrottled({ ...auditEvent(`${name}-${n}`), outcome: 'denied', address: '::1' })
  other.audit.enqueue(auditEvent(`${name}-done`))
  await other.close()
  const written = await recorded(`${name}-%`)
  expect(written).toHaveLength(ACCESS_LIMITS.auditAlikePerMinuteMax + 1)
  const [summary] = await entriesOfWorkspace(workspace, '&operation=audit.summary')
  expect(summary).toMatchObject({
    count: 25 - ACCESS_LIMITS.auditAlikePerMinuteMax,
    address: '::1',
    outcome: 'denied',
  })
})

test('entry that the database refuses: dropped, others are written', async () => {
  const name = unique('odd')
  platform.audit.enqueue(auditEvent(`${name}-a`))
  // PostgreSQL texts cannot contain this character.
  platform.audit.enqueue({ ...auditEvent(`${name}-b`), owner: { tenantId: 'ten_\u0000' } })
  platform.audit.enqueue(auditEvent(`${name}-c`))
  await platform.audit.flush()
  expect((await recorded(`${name}-%`)).map(({ request_id }) => request_id)).toEqual([
    `${name}-a`,
    `${name}-c`,
  ])
})
