/** The setting `auth.providers`: which providers are accepted, and what becomes of their secrets. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { authorization, Browser, REDIRECT } from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import { createUserApp, type UserApp } from '../../support/clients/users.ts'
import { asSuperuser, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeIdentityProvider } from '../../support/servers/fake-identity-provider.ts'
import { configure, tryConfigure } from '../../support/stack/workspace-settings.ts'

const SECRET = 'a-secret-of-the-client'

let app: UserApp
let provider: FakeIdentityProvider
beforeAll(async () => {
  provider = await FakeIdentityProvider.open()
  app = await createUserApp(await createTestWorkspace())
  await configure(app.workspace, { egress: { allow: [provider.host] } })
})
afterAll(() => provider?.close())

const settings = (more: object = {}) => ({
  ...{ id: 'idp', name: 'Corner Shop', issuer: provider.origin, client_id: 'tenon', client_secret: SECRET },
  ...more,
})

const offer = (more: object = {}) => configure(app.workspace, { auth: { providers: [settings(more)] } })

test('secret: is in no response; it stays as long as issuer and client do', async () => {
  const configured = await offer()
  const { issuer, client_id, name } = settings()
  const redirectUri = `${new URL(authorization('').url).origin}/auth/providers/${app.workspace.workspaceId}/idp/callback`
  const expected = { id: 'idp', name, issuer, client_id, has_secret: true, redirect_uri: redirectUri }
  expect(configured.auth.providers).toEqual([expected])
  const read = async () =>
    ok(call('GET', `/v1/services?workspace_id=${app.workspace.workspaceId}`, { as: app.workspace.operator }))
  expect((await read()).auth.providers).toEqual([expected])
  const [row] = await asSuperuser('select auth::text as text from tenon.services where workspace_id = $1', [
    app.workspace.workspaceId,
  ])
  expect((row as { text: string } | undefined)?.text).not.toContain(SECRET)
  expect(JSON.stringify(await entriesOfWorkspace(app.workspace))).not.toContain(SECRET)
  expect((await offer({ name: 'Other', client_secret: undefined })).auth.providers[0].has_secret).toBe(true)
  expect((await offer({ client_id: 'c2', client_secret: undefined })).auth.providers[0].has_secret).toBe(
    false,
  )
  expect((await offer({ client_secret: undefined })).auth.providers[0].has_secret).toBe(false)
  const { auth } = await configure(app.workspace, { auth: { sign_up: 'open' } })
  expect(auth.providers).toHaveLength(1)
})

test.each([
  ['http', { issuer: 'http://example.com' }, 'issuer'],
  ['port that is not opened', { issuer: 'http://127.0.0.1:1' }, 'issuer'],
  ['credentials in the issuer', { issuer: 'https://a:b@example.com' }, 'issuer'],
  ['query', { issuer: 'https://example.com?x' }, 'issuer'],
  ['fragment', { issuer: 'https://example.com#x' }, 'issuer'],
  ['script', { issuer: 'javascript:alert(1)' }, 'issuer'],
  ['id with a slash', { id: 'a/b' }, 'id'],
  ['id with a dot', { id: '..' }, 'id'],
  ['short secret', { client_secret: 'short' }, 'client_secret'],
  ['name with an invisible character', { name: 'A\u202eB' }, 'name'],
  ['unknown member', { token_endpoint: 'https://example.com' }, 'token_endpoint'],
])('%s: 400 that names it', async (_what, more, name) => {
  const reply = await tryConfigure(app.workspace, { auth: { providers: [settings(more)] } })
  expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
  expect(JSON.stringify(reply.body)).toContain(name)
  expect(JSON.stringify(reply.body)).not.toContain(SECRET)
})

test('one id twice, or six providers: 400', async () => {
  for (const ids of [
    ['a', 'a'],
    ['a', 'b', 'c', 'd', 'e', 'f'],
  ]) {
    const providers = ids.map((id) => settings({ id }))
    expect((await tryConfigure(app.workspace, { auth: { providers } })).status).toBe(400)
  }
})

test('name: is escaped on the page; a provider that is gone: 404', async () => {
  await offer({ name: '<b>Shop</b>' })
  const browser = new Browser(REDIRECT)
  const page = await browser.open(authorization(app.clientId).url)
  expect(page.html).toContain('Continue with &lt;b&gt;Shop&lt;/b&gt;')
  await configure(app.workspace, { auth: { providers: [] } })
  expect((await browser.open(`${page.url}/providers/idp`)).status).toBe(404)
})
