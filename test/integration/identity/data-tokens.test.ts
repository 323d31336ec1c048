/** Data tokens: which administrators get one, what it opens, whose its requests are, and what ends it. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  bearer,
  claimsOf,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import { type Machine, post, tokenFor } from '../../support/fixtures/admins.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const WITHIN_MS = 5_000

let workspace: TestWorkspace
let clientId: string
let documentId: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  clientId = await addClient(workspace.operator)
  const body = { title: 'a' }
  const made = await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body })
  documentId = made.body.id
})

const place = () => ({ tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId })

/** A person who has signed in. */
async function signedIn(role: string, at: object = place()): Promise<{ person: TestAccount; as: Caller }> {
  const person = await addAccount(workspace.operator, { role, ...at })
  const { body } = await tokensOf(clientId, person, { scope: 'api' })
  return { person, as: bearer(body['access_token']) }
}

const ask = (as: Caller, scopes: readonly string[], workspaceId = workspace.workspaceId) =>
  call('POST', `/v1/workspaces/${workspaceId}/data-token`, { as, body: { scopes } })

async function dataToken(as: Caller, ...scopes: string[]): Promise<Caller> {
  const { body } = await ask(as, scopes)
  return bearer(body.token)
}

const READS = ['collections:read', 'objects:read', 'events:read', 'analytics:read']
const list = (as: Caller) => call('GET', '/v1/collections/notes/documents', { as })
const create = (as: Caller) => call('POST', '/v1/collections/notes/documents', { as, body: { title: 'b' } })

test('data token: an admin of the workspace or its tenant, and an operator: reads what the token of the admin does not', async () => {
  const admins = {
    workspace_admin: await signedIn('workspace_admin', { workspace_id: workspace.workspaceId }),
    tenant_admin: await signedIn('tenant_admin', { tenant_id: workspace.tenantId }),
    operator: { as: workspace.operator, person: undefined },
  }
  for (const [role, { as, person }] of Object.entries(admins)) {
    expect([role, (await list(as)).body.code]).toEqual([role, 'privilege_domain_mismatch'])
    const { status, body } = await ask(as, ['collections:read', 'collections:read'])
    expect([role, status]).toEqual([role, 201])
    expect(body).toMatchObject({ ...place(), role: 'viewer', scopes: ['collections:read'] })
    expect(Date.parse(body.expires_at) - Date.now()).toBeLessThanOrEqual(600_000)
    const data = bearer(body.token)
    expect((await list(data)).body.data).toMatchObject([{ id: documentId, title: 'a' }])
    const { body: me } = await call('GET', '/v1/me', { as: data })
    expect(me).toMatchObject({ roles: ['service'], domains: ['data_access'], scopes: ['collections:read'] })
    if (person !== undefined) expect(me.subject).toBe(person.id)
  }
})

test('data token: opens what its scopes say in its workspace, and no administration', async () => {
  const sibling = await addTestWorkspace(workspace)
  const { as } = await signedIn('tenant_admin', { tenant_id: workspace.tenantId })
  const reads = await dataToken(as, 'collections:read')
  expect((await create(reads)).body.code).toBe('insufficient_scope')
  expect((await call('GET', '/v1/collections', { as: reads })).status).toBe(200)
  expect((await call('GET', '/v1/events/subscribe?topic=a', { as: reads })).body.code).toBe(
    'insufficient_scope',
  )
  expect((await create(await dataToken(as, 'collections:write'))).status).toBe(201)
  const { body: other } = await ask(as, READS, sibling.workspaceId)
  const elsewhere = `/v1/collections/notes/documents/${documentId}`
  expect((await call('GET', elsewhere, { as: bearer(other.token) })).status).toBe(404)
  for (const path of ['/v1/workspaces', `/v1/schemas?workspace_id=${workspace.workspaceId}`, workspace.flows])
    expect((await call('GET', path, { as: reads })).status).toBeGreaterThanOrEqual(403)
  expect((await ask(reads, READS)).body.code).toBe('privilege_domain_mismatch')
})

test('data token: scopes that do not exist, none, or that decide approvals: refused', async () => {
  const wrong = [[], ['collections:reed'], ['flows:approve'], ['collections:read', 'operators:write']]
  for (const scopes of wrong)
    expect([scopes, (await ask(workspace.operator, scopes)).body.code]).toEqual([scopes, 'validation_failed'])
  const { body } = await ask(workspace.operator, ['collections:reed'])
  expect(body.detail).toContain('Did you mean collections:read?')
})

describe('who gets none', () => {
  test('developer, viewer: 403 forbidden', async () => {
    for (const role of ['developer', 'viewer']) {
      const { as } = await signedIn(role, { workspace_id: workspace.workspaceId })
      const { status, body } = await ask(as, READS)
      expect([role, status, body.code]).toEqual([role, 403, 'forbidden'])
      expect((await list(as)).body.code).toBe('privilege_domain_mismatch')
    }
  })

  test('admin of another workspace, of another tenant: 404', async () => {
    const other = await createTestWorkspace()
    const sibling = await addTestWorkspace(workspace)
    for (const at of [{ tenant_id: other.tenantId }, { workspace_id: sibling.workspaceId }]) {
      const role = 'tenant_id' in at ? 'tenant_admin' : 'workspace_admin'
      const { as } = await signedIn(role, at)
      expect((await ask(as, READS)).status).toBe(404)
    }
  })

  test('machine client that is an admin: 403 with the next step', async () => {
    const client = { kind: 'machine', name: 'ci', role: 'workspace_admin', ...place() }
    const as = await tokenFor((await post(workspace.operator, '/v1/oauth-clients', client)) as Machine)
    const { status, body } = await ask(as, READS)
    expect([status, body.code]).toEqual([403, 'forbidden'])
    expect(body.hint).toContain('API key')
  })

  test('scope payloads:read: only for those who see payloads', async () => {
    const { as } = await signedIn('workspace_admin', { workspace_id: workspace.workspaceId })
    expect((await ask(as, ['flows:read', 'payloads:read'])).body.code).toBe('forbidden')
    const sees = await tokenOf({ sub: 'pia', roles: ['workspace_admin', 'payload_reader'], ...place() })
    const { status, body } = await ask(sees, ['flows:read', 'payloads:read'])
    expect([status, body.scopes]).toEqual([201, ['flows:read', 'payloads:read']])
    const without = await dataToken(sees, 'flows:read')
    const seen = async (data: Caller) => (await call('GET', '/v1/me', { as: data })).body.sees_payloads
    expect([await seen(bearer(body.token)), await seen(without)]).toEqual([true, false])
  })
})

test('requests with a data token, and its creation: in the audit log as those of the person', async () => {
  const { person, as } = await signedIn('workspace_admin', { workspace_id: workspace.workspaceId })
  expect((await create(await dataToken(as, 'collections:write', 'collections:read'))).status).toBe(201)
  const entries = await eventually(async () => {
    const query = new URLSearchParams({ tenant_id: workspace.tenantId, actor: person.id })
    const { body } = await call('GET', `/v1/audit?${query}`, { as: workspace.operator })
    const found = body.data.filter(({ operation }: { operation: string }) =>
      /^(data_token|coll)/.test(operation),
    )
    return found.length === 2 ? found : undefined
  })
  const of = (operation: string) => entries.find((one: { operation: string }) => one.operation === operation)
  expect(of('data_token.create')).toMatchObject({
    actor: { subject: person.id, role: 'workspace_admin', kind: 'token' },
    detail: { role: 'service', scopes: 'collections:read collections:write' },
  })
  expect(of('collection.create')).toMatchObject({
    actor: { subject: person.id, role: 'service', kind: 'token' },
  })
  expect(JSON.stringify(entries)).not.toContain('eyJ')
})

describe('what ends a data token within 5 s', () => {
  const ended = (data: Caller) =>
    eventually(async () => ((await list(data)).status === 401 ? true : undefined), WITHIN_MS)

  async function opened() {
    const { person, as } = await signedIn('workspace_admin', { workspace_id: workspace.workspaceId })
    const data = await dataToken(as, 'collections:read')
    expect((await list(data)).status).toBe(200)
    return { person, as, data }
  }

  test('the session of the person is ended', async () => {
    const { as, data } = await opened()
    const { id } = (await ok(call('GET', '/v1/me/sessions', { as }))).data[0]
    await ok(call('DELETE', `/v1/me/sessions/${id}`, { as }))
    await ended(data)
  })

  test('the account is disabled', async () => {
    const { person, data } = await opened()
    const body = { disabled: true }
    await ok(call('PATCH', `/v1/accounts/${person.id}`, { as: workspace.operator, body }))
    await ended(data)
  })

  test('the account, and so its role, is deleted', async () => {
    const { person, data } = await opened()
    await ok(call('DELETE', `/v1/accounts/${person.id}`, { as: workspace.operator }))
    await ended(data)
  })

  test('the token that it was made with is revoked', async () => {
    const { as, data } = await opened()
    const token = String(as['authorization']).replace('Bearer ', '')
    expect(claimsOf(token)['jti']).not.toBe(claimsOf(String(data['authorization']).slice(7))['jti'])
    await revoke(token)
    await ended(data)
  })
})

async function revoke(token: string): Promise<void> {
  const body = new URLSearchParams({ token, client_id: clientId })
  expect((await fetch(`${inject('tenon').url}/auth/revoke`, { method: 'POST', body })).status).toBe(200)
}

test('data token of a token without a session: ends no later than that', async () => {
  const soon = Math.floor(Date.now() / 1_000) + 120
  const as = await tokenOf({ sub: 'eve', roles: ['workspace_admin'], exp: soon, ...place() })
  expect(Date.parse((await ask(as, READS)).body.expires_at)).toBe(soon * 1_000)
})

describe('workspace that refuses operators', () => {
  test('their data tokens: 403 with a sentence, also those that they have; its admins get theirs', async () => {
    const refusing = await createTestWorkspace()
    const { tenantId: tenant_id, workspaceId: workspace_id, operator } = refusing
    const held = bearer((await ask(operator, READS, workspace_id)).body.token)
    expect((await call('GET', '/v1/collections', { as: held })).status).toBe(200)
    const admin = await tokenOf({ sub: 'ada', roles: ['workspace_admin'], tenant_id, workspace_id })
    const set = (as: Caller, data: string) =>
      call('POST', '/v1/services/configure', { as, body: { workspace_id, operators: { data } } })
    expect((await set(admin, 'refused')).body).toMatchObject({
      operators: { data: 'refused' },
      changes: [{ pointer: '/operators/data', before: 'allowed', after: 'refused' }],
    })
    const { status, body } = await ask(operator, READS, workspace_id)
    expect([status, body.code]).toEqual([403, 'forbidden'])
    expect(body.detail).toBe(
      'The workspace refuses operators access to its data: its setting operators.data is "refused".',
    )
    await eventually(
      async () => ((await call('GET', '/v1/collections', { as: held })).status === 403 ? true : undefined),
      WITHIN_MS,
    )
    expect((await ask(admin, READS, workspace_id)).status).toBe(201)
    expect((await set(operator, 'allowed')).body.detail).toContain('can change operators.data')
    expect((await set(operator, 'refused')).status).toBe(200)
    expect((await set(admin, 'allowed')).status).toBe(200)
    expect((await ask(operator, READS, workspace_id)).status).toBe(201)
  })

  test('other settings: a change by an operator leaves it', async () => {
    const refusing = await createTestWorkspace()
    const { operator, workspaceId } = refusing
    await configure(refusing, { operators: { data: 'refused' } })
    await configure(refusing, { anon: { events: 'none' } })
    expect((await ask(operator, READS, workspaceId)).status).toBe(403)
  })
})
