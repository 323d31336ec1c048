/** The audit log: which actions leave entries, their contents, and who can read them. */

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { canonical } from '../../../src/core/json.ts'
import { type Entry, entriesOf, entriesOfWorkspace, recorded, verified } from '../../support/clients/audit.ts'
import { ok, publishMcpServer, rpc, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

let own: CountedApi
let url: string
let testWorkspace: TestWorkspace
let admin: Caller
beforeAll(async () => {
  own = await startCountedApi()
  url = await own.app.listen({ port: 0, host: '127.0.0.1' })
  testWorkspace = await createTestWorkspace()
  admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: testWorkspace.tenantId })
})
afterAll(() => own?.close())

const createKey = (more: object = {}, headers: Record<string, string> = {}) => {
  const body = { workspace_id: testWorkspace.workspaceId, kind: 'anon', name: 'x', ...more }
  return call('POST', '/v1/api-keys', { as: testWorkspace.operator, body, headers })
}

describe('entry', () => {
  test('audit entry: structural change: written before the reply', async () => {
    const made = await createKey({}, { 'x-request-id': 'the-request' })
    const [entry] = await entriesOfWorkspace(testWorkspace)
    expect(entry).toMatchObject({
      ...{ operation: 'api_key.create', outcome: 'done', status: 201, request_id: 'the-request' },
      ...{
        target: '/v1/api-keys',
        tenant_id: testWorkspace.tenantId,
        workspace_id: testWorkspace.workspaceId,
        before: null,
      },
      actor: { role: 'operator', kind: 'token' },
    })
    expect(made.status).toBe(201)
  })

  test('audit entry: document change: follows shortly', async () => {
    await call('POST', '/v1/collections/c/documents', { as: testWorkspace.service, body: { a: 1 } })
    const [entry] = await eventually(async () => {
      const found = await entriesOfWorkspace(testWorkspace, '&operation=collection.create')
      return found.length > 0 ? found : undefined
    })
    expect(entry).toMatchObject({ actor: { kind: 'api_key', role: 'service' }, outcome: 'done' })
  })

  test('audit entry: change: digests of the resource before and after, as GET shows it', async () => {
    const { body: key } = await createKey()
    const path = `/v1/api-keys/${key.id}`
    const before = await call('GET', path, { as: admin })
    const [made] = await entriesOfWorkspace(testWorkspace)
    expect(made).toMatchObject({ operation: 'api_key.create', before: null })
    expect(made?.['after']).toBe(sha256(canonical(before.body)))
    await call('PATCH', path, { as: admin, body: { name: 'renamed' } })
    const after = await call('GET', path, { as: admin })
    expect((await entriesOfWorkspace(testWorkspace))[0]).toMatchObject({
      operation: 'api_key.update',
      before: sha256(canonical(before.body)),
      after: sha256(canonical(after.body)),
    })
    await call('DELETE', path, { as: admin })
    const [revoked] = await entriesOfWorkspace(testWorkspace)
    expect(revoked?.['before']).toBe(sha256(canonical(after.body)))
    expect(revoked?.['after']).toBe(sha256(canonical((await call('GET', path, { as: admin })).body)))
  })

  test('audit entry: deleted run of a function: no digest of its input and result', async () => {
    const { workspaceId: workspace_id, operator: as, service } = testWorkspace
    const body = { workspace_id, name: 'audited', source: 'export default () => "a result"' }
    const { id } = await ok(call('POST', '/v1/functions', { as, body }))
    const invoked = await call('POST', '/v1/functions/audited/invoke', { as: service, body: {} })
    const path = `/v1/functions/${id}/runs/${invoked.headers.get('x-run-id')}`
    const deleted = await ok(call('DELETE', path, { as }))
    expect((await entriesOfWorkspace(testWorkspace))[0]).toMatchObject({
      ...{ operation: 'function_run.delete', outcome: 'done', before: null },
      after: sha256(canonical(deleted)),
    })
  })

  test('audit entry: request repeated under its key: one entry', async () => {
    const headers = { 'idempotency-key': 'once', 'x-request-id': 'once' }
    const replies = [await createKey({}, headers), await createKey({}, headers)]
    expect(replies.map((reply) => reply.headers.get('idempotent-replayed'))).toEqual([null, 'true'])
    expect(await recorded('once')).toHaveLength(1)
  })

  test('audit entry: failed operation: outcome failed', async () => {
    await call('DELETE', '/v1/api-keys/key_nothing', { as: admin, headers: { 'x-request-id': 'nothing' } })
    await eventually(async () => (await recorded('nothing'))[0])
    expect(await recorded('nothing')).toMatchObject([
      { operation: 'api_key.revoke', outcome: 'failed', status: 404, code: 'not_found', before: null },
    ])
  })
})

describe('readers', () => {
  test('audit log: tenant admin: own tenant; workspace admin: own workspace; another tenant: nothing', async () => {
    const sibling = await addTestWorkspace(testWorkspace)
    const mine = await tokenOf({
      roles: ['workspace_admin'],
      tenant_id: testWorkspace.tenantId,
      workspace_id: sibling.workspaceId,
    })
    const seen = await entriesOf(mine, '')
    expect(seen.length).toBeGreaterThan(0)
    expect(new Set(seen.map((entry) => entry['workspace_id']))).toEqual(new Set([sibling.workspaceId]))
    expect((await call('GET', '/v1/audit/verify', { as: mine })).status).toBe(403)
    const all = new Set((await entriesOf(admin, '')).map((entry) => entry['workspace_id']))
    expect(all).toContain(sibling.workspaceId)
    expect(all).toContain(testWorkspace.workspaceId)
    const other = await createTestWorkspace()
    const otherAdmin = await tokenOf({ roles: ['tenant_admin'], tenant_id: other.tenantId })
    expect(await entriesOf(otherAdmin, `&tenant_id=${testWorkspace.tenantId}`)).toEqual([])
    expect(await entriesOf(otherAdmin, '&tenant_id=-')).toEqual([])
    const foreign = `/v1/audit/verify?tenant_id=${testWorkspace.tenantId}`
    const verified = await call('GET', foreign, { as: otherAdmin })
    expect([verified.status, verified.body.code]).toEqual([404, 'not_found'])
  })

  test('audit log: filters and pages: no gap, no repetition', async () => {
    const all = await entriesOf(admin, '')
    const [newest] = all
    const seqs = [...all].map(({ seq }) => seq)
    expect(seqs).toEqual([...seqs].sort((a, b) => b - a))
    const paged: number[] = []
    let after = ''
    do {
      const { body } = await call('GET', `/v1/audit?page[size]=3&until=${newest?.['at']}${after}`, {
        as: admin,
      })
      paged.push(...body.data.map(({ seq }: Entry) => seq))
      after = body.page.next === null ? '' : `&page[after]=${body.page.next}`
    } while (after !== '')
    expect(paged).toEqual(all.filter(({ at }) => String(at) < String(newest?.['at'])).map(({ seq }) => seq))
    expect(await entriesOf(admin, `&since=${newest?.['at']}`)).toEqual(
      all.filter(({ at }) => String(at) >= String(newest?.['at'])),
    )
    const failed = await entriesOf(admin, '&outcome=failed')
    expect(failed.length).toBeGreaterThan(0)
    expect(new Set(failed.map(({ outcome }) => outcome))).toEqual(new Set(['failed']))
    const mine = await entriesOf(admin, '&actor=user-1')
    expect(mine.length).toBeGreaterThan(0)
    expect(mine.every(({ actor }) => (actor as { subject: string }).subject === 'user-1')).toBe(true)
    expect((await call('GET', '/v1/audit?page[after]=c1_eA', { as: admin })).body.code).toBe('cursor_invalid')
  })
})

describe('other entry points', () => {
  test('audit entry: MCP tool with a side effect, over REST and over the wire: written', async () => {
    const mcpServer = await publishMcpServer(testWorkspace, 'notes')
    const tool = { tool: 'notes_create', arguments: { document: { text: 'by rest' } } }
    const headers = { 'x-request-id': 'by-rest' }
    await ok(call('POST', `${mcpServer.base}/call`, { as: testWorkspace.operator, body: tool, headers }))
    await eventually(async () => ((await recorded('by-rest')).length === 2 ? true : undefined))
    expect((await recorded('by-rest')).map(({ operation }) => operation).sort()).toEqual([
      'collection.create',
      'mcp_server.call',
    ])
    const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_create'))
    const params = { name: 'notes_create', arguments: { document: { text: 'by wire' } } }
    expect((await rpc(mcpServer.path, as, 'tools/call', params)).status).toBe(200)
    await eventually(async () => {
      const entries = await entriesOfWorkspace(testWorkspace, '&operation=collection.create')
      return entries.find(({ actor }) => (actor as { kind: string }).kind === 'mcp_client')
    })
    expect((await rpc(mcpServer.path, {}, 'tools/list')).status).toBe(401)
    const refused = await eventually(
      async () => (await entriesOfWorkspace(testWorkspace, '&operation=mcp.message'))[0],
    )
    expect(refused).toMatchObject({ outcome: 'denied', status: 401, actor: { kind: 'anonymous' } })
  })

  test('audit entry: change by an execution: the execution is the actor', async () => {
    const source = `document:\n  dsl: '1.0.3'\n  namespace: test\n  name: writes\n  version: '1.0.0'\ndo:
  - put:\n      call: collection.create\n      with: { name: written, document: { a: 1 } }\n`
    const as = testWorkspace.operator
    const { body: flow } = await call('POST', `${testWorkspace.flows}/definitions`, { as, body: { source } })
    await ok(call('POST', `${testWorkspace.flows}/definitions/${flow.id}/versions`, { as, body: {} }))
    const ran = await call('POST', `${testWorkspace.flows}/definitions/${flow.id}/executions`, {
      as,
      body: { input: {} },
      headers: { prefer: 'wait=20' },
    })
    expect(ran.body, JSON.stringify(ran.body)).toMatchObject({ status: 'completed' })
    const entry = await eventually(async () => {
      const entries = await entriesOfWorkspace(testWorkspace, '&operation=collection.create')
      return entries.find(({ actor }) => (actor as { kind: string }).kind === 'run')
    })
    expect((entry['actor'] as { subject: string }).subject).toContain(
      `${testWorkspace.tenantId}:${testWorkspace.workspaceId}:`,
    )
    expect(entry['target']).toBe('/v1/collections/written/documents')
  })
})

describe('hash chain', () => {
  test('hash chain: exported entries: verifiable on their own', async () => {
    const entries = (await entriesOf(admin, '')).reverse()
    let before = '0'.repeat(64)
    for (const { seq, prev_hash, hash, ...entry } of entries) {
      expect(prev_hash).toBe(before)
      expect(hash).toBe(sha256(`${prev_hash}\n${seq}\n${canonical(entry)}`))
      before = hash
    }
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_entry, index) => index + 1))
  })

  test('hash chain: several processes append: one chain', async () => {
    const { workspaceId, operator, service } = await provisionTestWorkspace()
    const body = { workspace_id: workspaceId, kind: 'anon', name: 'x' }
    const writes = Array.from({ length: 100 }, async (_none, n) => {
      const here = call('POST', '/v1/api-keys', { as: operator, body, at: { ...inject('tenon'), url } })
      const there = call('POST', `/v1/collections/c/documents`, { as: service, body: { n } })
      return [(await here).status, (await there).status]
    })
    expect(new Set((await Promise.all(writes)).flat())).toEqual(new Set([201]))
    const { body: workspace } = await call('GET', `/v1/workspaces/${workspaceId}`, { as: operator })
    const of = { tenantId: workspace.tenant_id, operator } as TestWorkspace
    const state = await eventually(async () => {
      const result = await verified(of)
      // Made by provisioning: the tenant, the workspace and two keys.
      return result.checked === 204 ? result : undefined
    })
    expect(state).toMatchObject({ ok: true, head: { seq: 204 } })
  })
})
