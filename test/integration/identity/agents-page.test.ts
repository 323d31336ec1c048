/** The page where account holders review the clients that act for them, and take access back. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  type TestAccount,
  type Tokens,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok, type PublishedMcpServer, publishMcpServer, RPC, scopesOf } from '../../support/clients/mcp.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const WITHIN_MS = 5_000
const PAGE = `${inject('tenon').url}/auth/agents`

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let registered: string
let node: Node
beforeAll(async () => {
  ;[workspace, node] = await Promise.all([createTestWorkspace(), startInProcessNode()])
  mcpServer = await publishMcpServer(workspace, 'reviewed')
  const body = { redirect_uris: [REDIRECT], client_name: 'Helpful agent' }
  registered = (await ok(call('POST', '/auth/register', { body }))).client_id
})
afterAll(() => node?.close())

const addPerson = () => addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })

const giveAccess = (person: TestAccount, ...tools: string[]): Promise<Tokens> =>
  tokensOf(registered, person, { resource: mcpServer.url, scope: scopesOf(mcpServer, ...tools) })

async function openPage(person: TestAccount): Promise<{ browser: Browser; page: Seen }> {
  const browser = new Browser('nowhere:')
  const first = await browser.open(PAGE)
  const { tenant, email, password } = person
  return { browser, page: await browser.submit(first, { action: 'sign_in', tenant, email, password }) }
}

const grantsIn = ({ html }: Seen): string[] =>
  [...html.matchAll(/name="grant" value="([\w-]{43})"/g)].map(([, id = '']) => id)

/** The grant with a scope for this tool. */
const grantFor = ({ html, ...page }: Seen, tool: string): string =>
  html
    .split('<section>')
    .filter((section) => section.includes(`<code>mcp:reviewed:${tool}</code>`))
    .flatMap((section) => grantsIn({ ...page, html: section }))
    .join()

const listTools = async ({ body }: Tokens, at = inject('tenon')) => {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const as = bearer(body['access_token'])
  return (await call('POST', mcpServer.path, { as, body: message, headers: RPC, at })).status
}

const canRefresh = async ({ body }: Tokens) =>
  (await refresh(registered, body['refresh_token'])).status === 200

describe('agents page: sign-in', () => {
  test('wrong password, unknown address or tenant: the same 401; too many: 429, even with the right one', async () => {
    const person = await addPerson()
    const { tenant, email, password } = person
    const browser = new Browser('nowhere:')
    const page = await browser.open(PAGE)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('name="tenant"')])
    const signIn = (fields: Record<string, string>) =>
      browser.submit(page, { action: 'sign_in', tenant, email, password, ...fields })
    const wrong = [
      { password: 'a wrong password' },
      { email: `${unique('nobody')}@example.test` },
      { tenant: unique('no-tenant') },
      { tenant: '' },
    ]
    const replies = await Promise.all(wrong.map(signIn))
    expect(replies.map(({ status }) => status)).toEqual([401, 401, 401, 401])
    const pages = replies.map(({ html }) => html.replaceAll(/ value="[^"]*"/g, ''))
    expect(new Set(pages).size).toBe(1)
    expect(browser.cookies).toEqual([])
    for (let n = 1; n < ACCESS_LIMITS.attemptsMax.accountFromAddress; n++)
      expect((await signIn({ password: 'a wrong password' })).status).toBe(401)
    expect((await signIn({ password: 'a wrong password' })).status).toBe(429)
    expect((await signIn({})).status).toBe(429)
    expect((await browser.open(PAGE)).html).not.toContain(email)
  })

  test('the session: for this page alone, ends when the person leaves or the password changes', async () => {
    const person = await addPerson()
    const { browser, page } = await openPage(person)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining(person.email)])
    expect((await browser.open(PAGE)).html).toContain(person.email)
    expect(browser.cookies).toHaveLength(1)
    expect(browser.cookies[0]?.text).toMatch(/; Path=\/auth\/agents; HttpOnly; SameSite=Strict/)
    const other = await openPage(person)
    expect((await browser.submit(page, { action: 'leave' })).html).not.toContain(person.email)
    expect((await browser.open(PAGE)).html).not.toContain(person.email)
    const { tenant, email, password: current } = person
    const password = unique('another horse ')
    const fields = { tenant, email, current, password, again: password }
    const change = await other.browser.open(`${inject('tenon').url}/auth/password`)
    expect((await other.browser.submit(change, fields)).status).toBe(200)
    expect((await other.browser.open(PAGE)).html).not.toContain(person.email)
  })

  test('an operator: signs in without a tenant', async () => {
    const { page } = await openPage(await addAccount(workspace.operator, { role: 'operator' }))
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('No client may act for you')])
  })
})

describe('agents page: list', () => {
  test('an agent at an MCP server: name, origin, server, effects and times; renewed after a refresh', async () => {
    const person = await addPerson()
    const tokens = await giveAccess(person, 'notes_list', 'notes_delete')
    const { browser, page } = await openPage(person)
    for (const text of [
      'Helpful agent',
      'registered itself. Its name is not verified',
      `<code>${new URL(REDIRECT).host}</code>`,
      `<b>Server reviewed</b><br><code>${mcpServer.url}</code>`,
      'reads data',
      'changes or deletes data',
      `<code>mcp:reviewed:notes_delete</code>`,
      '<dd>not yet',
    ])
      expect(page.html).toContain(text)
    expect(page.html).not.toContain('notes_create')
    const [consentedAt = '', ends = ''] = [...page.html.matchAll(/datetime="([^"]+)"/g)].map(([, at]) => at)
    expect(Math.abs(Date.now() - Date.parse(consentedAt))).toBeLessThan(60_000)
    const seconds = ISSUER_LIMITS.refreshSeconds + ISSUER_LIMITS.signInSeconds
    expect(Math.abs(Date.parse(ends) - Date.parse(consentedAt) - seconds * 1_000)).toBeLessThan(60_000)
    expect(await canRefresh(tokens)).toBe(true)
    const renewed = await browser.open(PAGE)
    expect(renewed.html).not.toContain('<dd>not yet')
    expect(renewed.html.match(/datetime=/g)).toHaveLength(3)
  })

  test('hostile name of a client: escaped; no scripts, never in a frame (T20)', async () => {
    const name = '</h2><script>alert(1)</script><img src=x onerror="alert(2)">'
    const person = await addPerson()
    await tokensOf(await addClient(workspace.operator, { name }), person)
    const { page } = await openPage(person)
    expect(page.html).toContain(
      '&lt;/h2&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&quot;',
    )
    expect(page.html).not.toMatch(/<(script|img)/)
    expect(page.html).toContain('Use the REST API as you')
    expect(page.html).not.toContain('registered itself')
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      expect.stringMatching(/^style-src 'sha256-/),
      "form-action 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
    ])
    expect(page.headers.get('x-frame-options')).toBe('DENY')
    expect(page.headers.get('cache-control')).toBe('no-store')
  })

  test('server that is no longer published: still listed, and removable', async () => {
    const own = await publishMcpServer(await createTestWorkspace(), 'gone')
    const as = own.workspace.operator
    const person = await addAccount(as, { role: 'service', ...inWorkspace(own.workspace) })
    await tokensOf(registered, person, { resource: own.url, scope: scopesOf(own, 'notes_list') })
    await ok(call('PATCH', own.base, { as, body: { suspended: true } }))
    const { browser, page } = await openPage(person)
    expect(page.html).toContain('No access until the server is published')
    const [grant = ''] = grantsIn(page)
    expect(grantsIn(await browser.submit(page, { action: 'remove', grant }))).toEqual([])
  })
})

describe('agents page: removal', () => {
  test('one of two: its tokens end within 5 s on every node, the other stays; recorded in the tenant (T17)', async () => {
    const person = await addPerson()
    const kept = await giveAccess(person, 'notes_get')
    const removed = await giveAccess(person, 'notes_list')
    for (const at of [inject('tenon'), node.at])
      expect([await listTools(removed, at), await listTools(kept, at)]).toEqual([200, 200])
    const { browser, page } = await openPage(person)
    const [grant, other] = [grantFor(page, 'notes_list'), grantFor(page, 'notes_get')]
    const after = await browser.submit(page, { action: 'remove', grant })
    expect([after.status, after.html]).toEqual([200, expect.stringContaining('The access is removed.')])
    expect(grantsIn(after)).toEqual([other])
    expect(await listTools(removed)).toBe(401)
    expect(await canRefresh(removed)).toBe(false)
    await eventually(async () => ((await listTools(removed, node.at)) === 401 ? true : undefined), WITHIN_MS)
    expect([await listTools(kept), await listTools(kept, node.at)]).toEqual([200, 200])
    expect(await canRefresh(kept)).toBe(true)
    const again = await browser.submit(page, { action: 'remove', grant })
    expect([again.status, grantsIn(again)]).toEqual([404, [other]])
    const entry = await eventually(async () => {
      const found = await entriesOfWorkspace(workspace, '&operation=grant.revoke')
      return found.find(({ detail }) => detail?.['grant_id'] === grant)
    }, WITHIN_MS)
    expect(entry).toMatchObject({
      actor: { kind: 'person', subject: person.id, role: 'service' },
      target: '/auth/agents',
      outcome: 'done',
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
      detail: { client_id: registered, resource: mcpServer.url },
    })
  })

  test('while the browser is still signed in: the client needs consent again', async () => {
    const person = await addPerson()
    // Not on loopback, so that a live session with a consent is not asked again (RFC 8252 §8.6).
    const redirect_uri = 'https://app.example/callback'
    const clientId = await addClient(workspace.operator, { redirect_uris: [redirect_uri] })
    const { url } = authorization(clientId, { redirect_uri, resource: mcpServer.url })
    const app = new Browser(redirect_uri)
    const { tenant, email, password } = person
    const login = await app.open(url)
    const consent = await app.submit(login, { action: 'login', tenant, email, password })
    expect((await app.submit(consent, { action: 'allow' })).url).toMatch(redirect_uri)
    expect((await app.open(url)).url).toMatch(redirect_uri)
    const { browser, page } = await openPage(person)
    await browser.submit(page, { action: 'remove', grant: grantsIn(page)[0] ?? '' })
    const consentPage = await app.open(url)
    expect(consentPage.html).toContain('Allow access?')
    expect(consentPage.html).toContain('href="../agents"')
  })

  test('“Remove all”: ends every grant of the account, and none of another one', async () => {
    const [person, other] = await Promise.all([addPerson(), addPerson()])
    const tokens = [await giveAccess(person, 'notes_get'), await giveAccess(person, 'notes_list')]
    const foreign = await giveAccess(other, 'notes_list')
    const { browser, page } = await openPage(person)
    expect(grantsIn(page)).toHaveLength(2)
    const after = await browser.submit(page, { action: 'remove_all' })
    expect([grantsIn(after), after.html]).toEqual([[], expect.stringContaining('No client may act for you')])
    for (const one of tokens) expect([await listTools(one), await canRefresh(one)]).toEqual([401, false])
    expect([await listTools(foreign), await canRefresh(foreign)]).toEqual([200, true])
  })

  test('by another person: not listed, and 404 with its form fields', async () => {
    const [person, other] = await Promise.all([addPerson(), addPerson()])
    const tokens = await giveAccess(person, 'notes_list')
    const [grant = ''] = grantsIn((await openPage(person)).page)
    const admin = await addAccount(workspace.operator, {
      role: 'tenant_admin',
      tenant_id: workspace.tenantId,
    })
    for (const who of [other, admin]) {
      const { browser, page } = await openPage(who)
      expect([grantsIn(page), page.html]).toEqual([[], expect.not.stringContaining('Helpful agent')])
      const refused = await browser.submit(page, { action: 'remove', grant })
      expect([refused.status, refused.html]).toEqual([404, expect.stringContaining('does not exist')])
      expect((await browser.submit(page, { action: 'remove_all' })).status).toBe(200)
    }
    expect([await listTools(tokens), await canRefresh(tokens)]).toEqual([200, true])
  })

  test('without a session, from another site, or without a choice: refused, nothing ends', async () => {
    const person = await addPerson()
    const tokens = await giveAccess(person, 'notes_list')
    const { browser, page } = await openPage(person)
    const [grant = ''] = grantsIn(page)
    for (const headers of [
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ])
      for (const fields of [{ action: 'remove', grant }, { action: 'remove_all' }, { action: 'sign_in' }])
        expect((await browser.submit(page, fields, headers)).status).toBe(403)
    for (const fields of [{ grant }, { action: 'anything', grant }])
      expect((await browser.submit(page, fields)).status).toBe(400)
    for (const fields of [{ action: 'remove' }, { action: 'remove', grant: '*' }])
      expect((await browser.submit(page, fields)).status).toBe(404)
    const stranger = await new Browser('nowhere:').submit(page, { action: 'remove', grant })
    expect(stranger.html).not.toContain('Helpful agent')
    expect(grantsIn(await browser.open(PAGE))).toEqual([grant])
    expect([await listTools(tokens), await canRefresh(tokens)]).toEqual([200, true])
  })
})
