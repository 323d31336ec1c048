/** Sign-in at clients for users: who may use them, sessions of other people, redirects, and the end of tokens. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  askTokens,
  authorization,
  Browser,
  bearer,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  signIn,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok, publishMcpServer } from '../../support/clients/mcp.ts'
import {
  accountPageOf,
  addUser,
  addUserByInvitation,
  addUserClient,
  confirm,
  createUserApp,
  expectSameDuration,
  idOf,
  newUser,
  signUp,
  type TestUser,
  trySignIn,
  type UserApp,
  userTokens,
  WEB_REDIRECT,
} from '../../support/clients/users.ts'
import { addTestWorkspace, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { configure } from '../../support/stack/workspace-settings.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let app: UserApp
let sibling: UserApp
let user: TestUser & { readonly id: string }
let admin: TestAccount
let adminClient: string
beforeAll(async () => {
  const workspace = await createTestWorkspace()
  app = await createUserApp(workspace)
  sibling = await createUserApp(await addTestWorkspace(workspace))
  user = await addUser(app)
  admin = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  adminClient = await addClient(workspace.operator, inWorkspace(workspace))
})

/** A node with a throttle of its own: many tests sign in from this address. */
let node: Node
beforeAll(async () => {
  // Without a folder for mails.
  node = await startInProcessNode({ TENON_MAIL_DIR: '' })
})
afterAll(() => node?.close())

/** An attempt at that node, which is refused. */
const attempt = (clientId: string, who: TestUser) => {
  const flow = authorization(clientId)
  const url = flow.url.replace(inject('tenon').url, node.at.url)
  return trySignIn(new Browser(REDIRECT), { ...flow, url }, who)
}

const web = (clientId: string, more: Record<string, string> = {}) =>
  authorization(clientId, { redirect_uri: WEB_REDIRECT, ...more })

describe('client for users', () => {
  test.each([
    ['an account of the workspace', () => app, () => admin],
    ['a user of another workspace', () => sibling, () => user],
    ['an address without a user', () => app, () => newUser()],
    ['a wrong password', () => app, () => ({ ...user, password: 'a wrong password' })],
  ])('%s: 401 with the same page', async (_who, client, person) => {
    const who = person()
    const page = await attempt(client().clientId, who)
    expect([page.status, page.html]).toEqual([401, expect.stringContaining('is not correct')])
    // In the field where it was entered, and nowhere else.
    expect(page.html.split(who.email)).toHaveLength(2)
    expect(page.html).toContain(`value="${who.email}"`)
  })

  test('a known and an unknown address: take the same time', async () => {
    // With a password of the usual cost.
    const { email: existing } = await addUserByInvitation(app)
    const guess = (email: string) => attempt(app.clientId, { email, password: 'a wrong password' })
    await expectSameDuration({
      known: async () => () => guess(existing),
      unknown: async () => () => guess(newUser().email),
    })
  })

  test.each([
    ['a machine', { kind: 'machine', role: 'service', redirect_uris: [] }],
    ['no workspace', { workspace_id: undefined }],
  ])('created for %s: 400', async (_what, more) => {
    const { operator: as } = app.workspace
    const fields = { kind: 'public', name: 'x', redirect_uris: [REDIRECT], ...inWorkspace(app.workspace) }
    const body = { ...fields, audience: 'users', ...more }
    const reply = await call('POST', '/v1/oauth-clients', { as, body })
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
  })

  test('sign-up on a platform that cannot send mail: refused when it is switched on', async () => {
    const { workspaceId: workspace_id, operator: as } = app.workspace
    const send = (sign_up: string) =>
      call('POST', '/v1/services/configure', { as, at: node.at, body: { workspace_id, auth: { sign_up } } })
    const reply = await send('open')
    expect([reply.status, reply.body.code, reply.body.hint]).toEqual([
      409,
      'state_conflict',
      expect.stringContaining('SMTP_URL'),
    ])
    expect((await send('invite')).status).toBe(200)
    await configure(app.workspace, { auth: { sign_up: 'open' } })
  })

  test('created by an admin of another workspace: 404', async () => {
    const { body } = await tokensOf(adminClient, admin)
    const as = bearer(body['access_token'])
    const fields = { kind: 'public', name: 'x', redirect_uris: [REDIRECT], ...inWorkspace(sibling.workspace) }
    const reply = await call('POST', '/v1/oauth-clients', { as, body: { ...fields, audience: 'users' } })
    expect(reply.status).toBe(404)
  })

  test('requests an MCP server: invalid_target, for users and before any sign-in', async () => {
    const server = await publishMcpServer(app.workspace, 'users')
    const end = await new Browser(REDIRECT).open(authorization(app.clientId, { resource: server.url }).url)
    expect(new URL(end.url).searchParams.get('error')).toBe('invalid_target')
    const { body } = await userTokens(app, user)
    const answer = await askTokens({
      grant_type: 'refresh_token',
      client_id: app.clientId,
      refresh_token: body['refresh_token'] ?? '',
      resource: server.url,
    })
    expect(answer.status).toBe(400)
  })

  test.each(['https://evil.test/', 'https://app.test/callback/../x', 'https://app.test.evil.test/callback'])(
    'redirect URI %s: error page, no redirect',
    async (uri) => {
      const { url } = authorization(app.clientId, { redirect_uri: uri })
      const reply = await fetch(url, { redirect: 'manual' })
      expect([reply.status, reply.headers.get('location')]).toEqual([400, null])
    },
  )
})

describe('session of the browser', () => {
  test('of an account: leads to the sign-in page; the user replaces it', async () => {
    const browser = new Browser(REDIRECT)
    await signIn(browser, authorization(adminClient), admin)
    const flow = authorization(app.clientId)
    const page = await browser.open(flow.url)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('<h1>Sign in</h1>')])
    const end = await trySignIn(browser, flow, user)
    expect(end.url).toMatch(/callback\?code=/)
    const { body } = await exchange(app.clientId, flow, new URL(end.url))
    expect((await call('GET', '/v1/me', { as: bearer(body['access_token']) })).body.subject).toBe(user.id)
  })

  test('of a user: leads to the sign-in page at clients for accounts and of other workspaces', async () => {
    const browser = new Browser(REDIRECT)
    await trySignIn(browser, authorization(app.clientId), user)
    for (const clientId of [adminClient, sibling.clientId]) {
      const page = await browser.open(authorization(clientId).url)
      expect([page.status, page.html]).toEqual([200, expect.stringContaining('<h1>Sign in</h1>')])
    }
    const end = await signIn(browser, authorization(adminClient), admin)
    expect(end.searchParams.get('code')).not.toBeNull()
  })

  test('of the same user: signs in without a question, but for a client on the machine of the user', async () => {
    const browser = new Browser(WEB_REDIRECT)
    const [site, desktop] = await Promise.all([
      addUserClient(app.workspace, [WEB_REDIRECT]),
      addUserClient(app.workspace, [REDIRECT]),
    ])
    const first = await trySignIn(browser, web(app.clientId), user)
    expect(first.url).toMatch(/^https:\/\/app\.test\/callback\?code=/)
    for (const more of [{}, { prompt: 'none' }])
      expect((await browser.open(web(site, more).url)).url).toMatch(/callback\?code=/)
    const page = await browser.open(authorization(desktop).url)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining(user.email)])
    const other = new Browser(REDIRECT)
    await trySignIn(other, authorization(desktop), user)
    const consentPage = await other.open(authorization(desktop).url)
    expect((await other.submit(consentPage, { action: 'allow' })).url).toMatch(/\?code=/)
  })

  test('cancelled: back to the client with access_denied', async () => {
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(app.clientId).url)
    const end = await browser.submit(page, { action: 'deny' })
    expect(new URL(end.url).searchParams.get('error')).toBe('access_denied')
  })
})

describe('user', () => {
  const isEnded = (as: Record<string, string>) =>
    eventually(async () => ((await call('GET', '/v1/me', { as })).status === 401 ? true : undefined), 5_000)

  test.each([
    ['disabled', (id: string) => ['PATCH', `/v1/users/${id}`, { disabled: true }] as const],
    ['signed out', (id: string) => ['POST', `/v1/users/${id}/sign-out`, {}] as const],
    ['deleted', (id: string) => ['DELETE', `/v1/users/${id}`, undefined] as const],
  ])(
    '%s by an admin: access tokens end within 5 s, refresh tokens and sessions at once',
    async (what, change) => {
      const one = await addUser(app)
      const browser = new Browser(WEB_REDIRECT)
      const flow = web(app.clientId)
      await trySignIn(browser, flow, one)
      const { body } = await userTokens(app, one)
      const as = bearer(body['access_token'])
      expect((await call('GET', '/v1/me', { as })).status).toBe(200)
      const [method, path, sent] = change(one.id)
      await ok(call(method, path, { as: app.workspace.operator, ...(sent && { body: sent }) }))
      expect((await refresh(app.clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
      expect((await browser.open(web(app.clientId).url)).html).toContain('<h1>Sign in</h1>')
      await isEnded(as)
      const again = await trySignIn(new Browser(REDIRECT), authorization(app.clientId), one)
      expect(again.url.startsWith(REDIRECT)).toBe(what === 'signed out')
    },
  )

  test('deleted while a stream is open: it ends within 5 s', async () => {
    const one = await addUser(app)
    const { body } = await userTokens(app, one)
    const { url } = inject('tenon')
    const stream = await fetch(`${url}/v1/events/subscribe?topic=collections.*`, {
      headers: bearer(body['access_token']),
    })
    expect(stream.status).toBe(200)
    await ok(call('DELETE', `/v1/users/${one.id}`, { as: app.workspace.operator }))
    const elapsedMs = stopwatch()
    for await (const _ of stream.body ?? []);
    expect(elapsedMs()).toBeLessThan(5_000)
  })

  test('of a suspended workspace: neither signs in nor refreshes', async () => {
    const suspended = await createUserApp(await addTestWorkspace(app.workspace))
    const one = await addUser(suspended)
    const { body } = await userTokens(suspended, one)
    const { workspaceId, operator: as } = suspended.workspace
    await ok(call('POST', `/v1/workspaces/${workspaceId}/suspend`, { as, body: {} }))
    await eventually(async () => {
      const reply = await refresh(suspended.clientId, body['refresh_token'])
      return reply.status >= 400 ? true : undefined
    }, 5_000)
    const page = await fetch(accountPageOf(suspended))
    expect(page.status).toBe(404)
  })

  test('sign-ins, sign-ups and refusals: in the audit log of the workspace, without addresses', async () => {
    const signedUp = newUser()
    await confirm(await signUp(app, signedUp), signedUp)
    const one = { ...signedUp, id: await idOf(app, signedUp.email) }
    await userTokens(app, one)
    await trySignIn(new Browser(REDIRECT), authorization(app.clientId), { ...one, password: 'a wrong one' })
    const entries = await eventually(async () => {
      const all = await entriesOfWorkspace(app.workspace)
      const own = all.filter(({ actor }) => (actor as { subject: string }).subject === one.id)
      const operations = own.map(({ operation }) => operation)
      const isComplete = ['user.verify', 'person.sign_in'].every((name) => operations.includes(name))
      const refused = all.some(
        ({ operation, outcome, detail }) =>
          operation === 'person.sign_in' &&
          outcome === 'denied' &&
          (detail as { account_id?: string }).account_id === one.id,
      )
      return isComplete && refused ? all : undefined
    }, 5_000)
    expect(entries.some(({ operation }) => operation === 'user.sign_up')).toBe(true)
    expect(JSON.stringify(entries)).not.toContain(one.email)
    for (const entry of entries.filter(({ operation }) => operation.startsWith('user.')))
      expect(entry['workspace_id']).toMatch(/^ws_/)
  })
})
