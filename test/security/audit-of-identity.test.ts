/** Audit entries of the issuer: in the right tenant's log, without secrets, throttled. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ACCESS_LIMITS } from '../../src/access/limits.ts'
import { type Entry, entriesOf, entriesOfWorkspace, verified } from '../support/clients/audit.ts'
import {
  addAccount,
  addAccountByInvitation,
  addClient,
  authorization,
  Browser,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  signIn,
  type TestAccount,
  tokensOf,
} from '../support/clients/browser.ts'
import {
  askToken,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
} from '../support/clients/mcp.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let person: TestAccount
let clientId: string
/** A node with its own throttle: other tests from this address count elsewhere. */
let node: Node
beforeAll(async () => {
  ;[workspace, node] = await Promise.all([createTestWorkspace(), startInProcessNode()])
  mcpServer = await publishMcpServer(workspace, 'recorded')
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  clientId = await addClient(workspace.operator)
})

/** Entries of one operation, newest first, once there are `least`. */
const recorded = (operation: string, least = 1, of = workspace) =>
  eventually(async () => {
    const found = await entriesOfWorkspace(of, `&operation=${operation}`)
    return found.length >= least ? found : undefined
  }, 5_000)

afterAll(() => node?.close())

const ofPlatform = (operation: string, matches: (entry: Entry) => boolean) =>
  eventually(
    async () => (await entriesOf(workspace.operator, `&operation=${operation}`)).find(matches),
    5_000,
  )

const detailOf = (entry: Entry | undefined) => entry?.['detail'] as Record<string, string> | undefined
const requestedAccess = () => ({ resource: mcpServer.url, scope: scopesOf(mcpServer, 'notes_list') })

describe('account', () => {
  test('invitation accepted or password reset: logged in its tenant', async () => {
    const someone = await addAccountByInvitation(workspace.operator, {
      role: 'tenant_admin',
      tenant_id: workspace.tenantId,
    })
    const target = `/v1/accounts/${someone.id}`
    const accepted = await eventually(async () => {
      const found = await entriesOfWorkspace(workspace, '&operation=account.accept')
      return found.find((entry) => entry['target'] === target)
    }, 5_000)
    expect(accepted).toMatchObject({
      actor: { kind: 'person', subject: someone.id, role: 'tenant_admin' },
      outcome: 'done',
      tenant_id: workspace.tenantId,
    })
    const reset = await ok(call('POST', `${target}/reset`, { as: workspace.operator, body: {} }))
    const password = `another horse ${unique('p')}`
    const body = new URLSearchParams({ password, again: password })
    expect((await fetch(reset.reset_url, { method: 'POST', body })).status).toBe(200)
    const [again] = await recorded('account.password_set')
    expect(again).toMatchObject({ target, actor: { subject: someone.id }, outcome: 'done' })
  })
})

describe('sign-in', () => {
  test('succeeds: sign-in, consent and tokens are logged in the tenant', async () => {
    const { body } = await tokensOf(clientId, person, requestedAccess())
    const actor = { kind: 'person', subject: person.id, role: 'service' }
    const [signedIn] = await recorded('person.sign_in')
    expect(signedIn).toMatchObject({ actor, outcome: 'done', detail: { client_id: clientId } })
    expect(signedIn?.['address']).toMatch(/127\.0\.0\.1$/)
    const [allowed] = await recorded('consent.allow')
    expect(allowed).toMatchObject({
      actor,
      outcome: 'done',
      workspace_id: workspace.workspaceId,
      detail: { client_id: clientId, ...requestedAccess() },
    })
    const [issued] = await recorded('token.issue')
    expect(issued).toMatchObject({
      actor: { kind: 'client', subject: clientId },
      detail: { subject: person.id, grant_type: 'authorization_code', resource: mcpServer.url },
    })
    expect((await refresh(clientId, body['refresh_token'])).status).toBe(200)
    const [refreshed] = await recorded('token.issue', 2)
    expect(detailOf(refreshed)?.['grant_type']).toBe('refresh_token')
  })

  test('consent denied: logged', async () => {
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(clientId, requestedAccess()).url)
    const { email, password } = person
    const consent = await browser.submit(login, { action: 'login', email, password })
    await browser.submit(consent, { action: 'deny' })
    expect((await recorded('consent.deny'))[0]).toMatchObject({
      actor: { subject: person.id },
      outcome: 'done',
    })
  })

  test('fails: each attempt is logged up to the limit, without what was typed', async () => {
    const own = await createTestWorkspace()
    const target = await addAccount(own.operator, { role: 'tenant_admin', tenant_id: own.tenantId })
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(clientId).url)
    const wrongCredentials = { email: unique('typed'), password: unique('guessed') }
    const login = (fields: object) =>
      browser.submit(page, { action: 'login', tenant: target.tenant, ...wrongCredentials, ...fields })
    expect((await login({})).status).toBe(401)
    expect((await login({ email: target.email })).status).toBe(401)
    const [known, unknown] = await recorded('person.sign_in', 2, own)
    expect(unknown).toMatchObject({
      outcome: 'denied',
      status: 401,
      code: 'password_wrong',
      actor: { kind: 'anonymous', subject: null },
      detail: { client_id: clientId },
    })
    expect(detailOf(known)).toEqual({ client_id: clientId, account_id: target.id })
    for (let n = 0; n < ACCESS_LIMITS.attemptsMax.accountFromAddress; n++)
      await login({ email: target.email })
    const all = await recorded('person.sign_in', ACCESS_LIMITS.attemptsMax.accountFromAddress, own)
    // Further attempts are part of a summary.
    expect(all.filter((entry) => entry['status'] === 429)).toEqual([])
    expect(JSON.stringify(all)).not.toMatch(
      new RegExp(`${wrongCredentials.email}|${wrongCredentials.password}`),
    )
  })

  test('fails for an unknown tenant: logged for the platform', async () => {
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(clientId).url)
    const fields = { tenant: unique('no'), email: 'x@example.test', password: 'x' }
    const headers = { 'x-request-id': unique('req') }
    const atNode = { ...page, url: page.url.replace(inject('tenon').url, node.at.url) }
    await browser.submit(atNode, { action: 'login', ...fields }, headers)
    const id = headers['x-request-id']
    expect(await ofPlatform('person.sign_in', (entry) => entry.request_id === id)).toMatchObject({
      outcome: 'denied',
      tenant_id: '-',
    })
  })
})

describe('client', () => {
  test('registers itself: logged for the platform', async () => {
    const body = { redirect_uris: [REDIRECT], client_name: unique('Agent') }
    const made = await ok(call('POST', '/auth/register', { body, at: node.at }))
    const named = (entry: Entry) => detailOf(entry)?.['client_id'] === made.client_id
    expect(await ofPlatform('oauth_client.register', named)).toMatchObject({
      outcome: 'done',
      status: 201,
      actor: { kind: 'anonymous' },
      detail: { client_name: body.client_name },
    })
  })

  test('agent gets a token or sends a wrong secret: each is logged in its tenant', async () => {
    const made = await ok(
      call('POST', `${mcpServer.base}/clients`, { as: workspace.operator, body: { name: 'a' } }),
    )
    const { client_id: id, client_secret: secret } = made
    await askToken({}, { id, secret })
    expect((await askToken({}, { id, secret: 'wrong' })).status).toBe(401)
    const actor = { kind: 'client', subject: id }
    const isOf = (outcome: string) => (entry: Entry) =>
      entry.outcome === outcome && (entry['actor'] as { subject: string }).subject === id
    const [issued, refused] = await eventually(async () => {
      const all = await entriesOfWorkspace(workspace, '&operation=token.issue')
      const found = [all.find(isOf('done')), all.find(isOf('denied'))]
      return found.includes(undefined) ? undefined : found
    }, 5_000)
    expect(issued).toMatchObject({
      actor,
      detail: { grant_type: 'client_credentials', resource: mcpServer.url },
    })
    expect(refused).toMatchObject({ actor, status: 401, code: 'invalid_client' })
    expect(JSON.stringify([issued, refused])).not.toContain(secret)
  })
})

describe('token', () => {
  test.each(['code', 'refresh token'])('%s presented twice: logged in its tenant', async (kind) => {
    const own = await createTestWorkspace()
    const someone = await addAccount(own.operator, { role: 'tenant_admin', tenant_id: own.tenantId })
    const flow = authorization(clientId)
    const end = await signIn(new Browser(REDIRECT), flow, someone)
    const { body } = await exchange(clientId, flow, end)
    if (kind === 'code') await exchange(clientId, flow, end)
    else {
      await refresh(clientId, body['refresh_token'])
      // As if the grace were over.
      await asSuperuser(
        "update tenon.issuer_state set consumed_at = consumed_at - interval '1 hour' where client_id = $1",
        [clientId],
      )
      await refresh(clientId, body['refresh_token'])
    }
    const [reused] = await recorded('token.reuse', 1, own)
    expect(reused).toMatchObject({
      outcome: 'denied',
      code: 'invalid_grant',
      actor: { kind: 'client', subject: clientId },
      detail: { subject: someone.id },
    })
    expect(JSON.stringify(await entriesOfWorkspace(own))).not.toContain(body['refresh_token'])
  })

  test('revoked: logged in its tenant', async () => {
    const { body } = await tokensOf(clientId, person, requestedAccess())
    for (const token of [body['access_token'] ?? '', body['refresh_token'] ?? '']) {
      const parameters = new URLSearchParams({ client_id: clientId, token })
      await fetch(`${inject('tenon').url}/auth/revoke`, { method: 'POST', body: parameters })
    }
    const types = (await recorded('token.revoke', 2)).map((entry) => detailOf(entry)?.['token_type'])
    expect(types.sort()).toEqual(['access_token', 'refresh_token'])
  })
})

describe('decoding of payloads', () => {
  const data = Buffer.from('"hidden"').toString('base64')
  const plain = { metadata: { encoding: Buffer.from('json/plain').toString('base64') }, data }
  const encoded = async (of: TestWorkspace) => {
    const body = { payloads: [plain], tenant_id: of.tenantId }
    return (await ok(call('POST', '/v1/codec/encode', { as: of.operator, body }))).payloads[0]
  }

  test("by an operator: logged in each tenant's chain before the payloads are shown", async () => {
    const [one, two] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    const payloads = await Promise.all([encoded(one), encoded(two), encoded(two)])
    const headers = { 'x-request-id': unique('decode') }
    await ok(call('POST', '/v1/codec/decode', { as: workspace.operator, body: { payloads }, headers }))
    for (const of of [one, two])
      expect(await entriesOfWorkspace(of, '&operation=codec.decode')).toMatchObject([
        {
          request_id: headers['x-request-id'],
          outcome: 'done',
          actor: { role: 'operator' },
          before: null,
          after: null,
        },
      ])
  })

  test('by a tenant admin: logged in its own tenant only', async () => {
    const [one, two] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    const as = await tokenOf({ roles: ['tenant_admin', 'payload_reader'], tenant_id: one.tenantId })
    const payloads = await Promise.all([encoded(one), encoded(two)])
    await ok(call('POST', '/v1/codec/decode', { as, body: { payloads } }))
    expect(await entriesOfWorkspace(one, '&operation=codec.decode')).toHaveLength(1)
    expect(await entriesOfWorkspace(two, '&operation=codec.decode')).toEqual([])
  })

  test('by a tool of the platform server: there is none', async () => {
    const own = await createTestWorkspace()
    const args = { name: 'codec_decode', arguments: { payloads: [await encoded(own)] } }
    const reply = await rpc('/v1/mcp/platform/mcp', workspace.operator, 'tools/call', args)
    expect(reply.body.result).toMatchObject({ isError: true, structuredContent: { code: 'not_found' } })
    expect(JSON.stringify(reply.body)).not.toContain(data)
  })
})

describe('audit chain', () => {
  test('with entries of the issuer: verifies', async () => {
    expect(await verified(workspace)).toMatchObject({ ok: true, next: null })
  })

  test('of another or no tenant: 404 when verified', async () => {
    const stranger = await createTestWorkspace()
    const as = await tokenOf({ roles: ['tenant_admin', 'payload_reader'], tenant_id: stranger.tenantId })
    const verify = (id: string, caller = as) =>
      call('GET', `/v1/audit/verify?tenant_id=${id}`, { as: caller })
    const [foreign, absent] = [await verify(workspace.tenantId), await verify('ten_nothing')]
    expect([foreign.status, foreign.body.code]).toEqual([404, 'not_found'])
    expect({ ...foreign.body, instance: '', request_id: '' }).toEqual({
      ...absent.body,
      instance: '',
      request_id: '',
    })
    expect((await verify('-')).status).toBe(404)
    expect((await verify('ten_nothing', workspace.operator)).status).toBe(404)
    expect((await verify(stranger.tenantId)).body).toMatchObject({ ok: true })
    expect((await verify(stranger.tenantId, workspace.operator)).body).toMatchObject({ ok: true })
    expect((await verify('-', workspace.operator)).status).toBe(200)
  })
})
