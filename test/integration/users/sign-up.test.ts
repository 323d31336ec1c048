/** Sign-up of end users: from the form over the mail to a token with claims, and what must not work on the way. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  authorization,
  Browser,
  claimsOf,
  exchange,
  REDIRECT,
  refresh,
} from '../../support/clients/browser.ts'
import { mailsTo, mailTo } from '../../support/clients/mails.ts'
import {
  addUser,
  confirm,
  createUserApp,
  expectSameDuration,
  idOf,
  newUser,
  signUp,
  signUpForm,
  submitStep,
  trySignIn,
  type UserApp,
  userTokens,
} from '../../support/clients/users.ts'
import { asSuperuser, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

let app: UserApp
let other: UserApp
beforeAll(async () => {
  const workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[app, other] = (await Promise.all(workspaces.map((one) => createUserApp(one)))) as [UserApp, UserApp]
})

const opened = async (of: UserApp = app, more: Record<string, string> = {}) => {
  const browser = new Browser(REDIRECT)
  return { browser, page: await browser.open(authorization(of.clientId, more).url) }
}

test('sign-up, mail, confirmation, code with PKCE: a token with the claims of the user; refreshed', async () => {
  const user = newUser()
  const link = await signUp(app, user)
  const flow = authorization(app.clientId, { scope: 'openid' })
  const browser = new Browser(REDIRECT)
  // The address is not confirmed yet.
  expect((await trySignIn(browser, flow, user)).status).toBe(401)
  const done = await confirm(link, user)
  expect([done.status, done.html]).toEqual([200, expect.stringContaining('href="http://127.0.0.1:9/"')])
  const end = await trySignIn(browser, flow, user)
  expect(end.url).toMatch(/^http:\/\/127\.0\.0\.1:9\/callback\?code=/)
  const tokens = await exchange(app.clientId, flow, new URL(end.url))
  const { tenantId, workspaceId, operator } = app.workspace
  const id = await idOf(app, user.email)
  const expected = {
    iss: `${inject('tenon').url}/auth`,
    aud: `${inject('tenon').url}/v1`,
    sub: id,
    tenant_id: tenantId,
    workspace_id: workspaceId,
    role: 'user',
    roles: ['user'],
    email: user.email,
    email_verified: true,
    credential: expect.stringMatching(/^g\d+$/),
  }
  expect(claimsOf(tokens.body['access_token'])).toMatchObject({ ...expected, claims: {} })
  const identity = { sub: id, aud: app.clientId, email: user.email, email_verified: true }
  expect(claimsOf(tokens.body['id_token'])).toMatchObject(identity)
  const claims = { plan: 'pro', teams: ['a', 'b'] }
  expect((await call('PATCH', `/v1/users/${id}`, { as: operator, body: { claims } })).status).toBe(200)
  const again = await refresh(app.clientId, tokens.body['refresh_token'])
  expect(claimsOf(again.body['access_token'])).toMatchObject({ ...expected, claims })
})

describe('sign-up form', () => {
  test('prompt=create: shown first where anybody can sign up, else the sign-in', async () => {
    const first = await opened(app, { prompt: 'create' })
    expect([first.page.url, first.page.html]).toEqual([
      expect.stringMatching(/\/sign-up$/),
      expect.stringContaining('Create an account'),
    ])
    const user = await addUser(app)
    const signedIn = await submitStep(first.browser, first.page, 'sign-in', {
      action: 'login',
      email: user.email,
      password: user.password,
    })
    expect(signedIn.url).toMatch(/callback\?code=/)
    const closed = await createUserApp(await createTestWorkspace(), 'invite')
    const second = await opened(closed, { prompt: 'create' })
    expect(second.page.html).toContain('Sign in')
    expect(second.page.html).not.toContain('Create an account')
  })

  test.each(['off', 'invite'])(
    'auth.sign_up "%s": neither link nor form; a sent form is refused',
    async (setting) => {
      const closed = await createUserApp(await createTestWorkspace(), setting)
      const { browser, page } = await opened(closed)
      expect(page.html).not.toContain('Create an account')
      const user = newUser()
      expect((await browser.open(`${page.url}/sign-up`)).status).toBe(404)
      expect((await submitStep(browser, page, 'sign-up', signUpForm(user))).status).toBe(403)
      expect(await mailsTo(user.email, '')).toEqual([])
    },
  )

  test.each([
    ['no address', { email: 'nobody' }],
    ['address with a line break', { email: 'a@b.test\r\nbcc: c@d.test' }],
    ['two addresses', { email: 'a@b.test,c@d.test' }],
    ['long address', { email: `${'a'.repeat(320)}@b.test` }],
    ['invisible character in the name', { name: 'A\u202eB' }],
    ['short password', { password: 'short', again: 'short' }],
    ['two different passwords', { again: 'another one that is long' }],
  ])('%s: 400, keeps the address, sends no mail', async (_what, fields) => {
    const { browser, page } = await opened()
    const user = newUser()
    const reply = await submitStep(browser, page, 'sign-up', signUpForm(user, fields))
    expect([reply.status, reply.html]).toEqual([400, expect.stringContaining('role="alert"')])
    expect(await mailsTo(user.email, '')).toEqual([])
  })

  test('form of another site, or without the cookies of the authorization: refused', async () => {
    const { browser, page } = await opened()
    const url = `${page.url}/sign-up`
    const form = signUpForm(newUser())
    const foreign = await browser.submit({ ...page, url }, form, { origin: 'https://evil.test' })
    expect(foreign.status).toBe(403)
    expect((await new Browser(REDIRECT).submit({ ...page, url }, form)).status).toBe(404)
  })
})

describe('known address', () => {
  test('signs up again: the same page, a notice by mail, nothing changes', async () => {
    const user = await addUser(app)
    const unknown = newUser()
    const pages = []
    for (const email of [user.email, unknown.email]) {
      const { browser, page } = await opened()
      const form = signUpForm({ email, password: 'another password of mine' })
      const reply = await submitStep(browser, page, 'sign-up', form)
      pages.push([reply.status, reply.html.replaceAll(/interaction\/[\w-]+/g, '')])
    }
    expect(pages[0]).toEqual(pages[1])
    const notice = await mailTo(user.email, 'You already have an account')
    expect(notice.link).toBe('')
    expect((await userTokens(app, user)).status).toBe(200)
  })

  test('takes the same time as an unknown one', async () => {
    const user = await addUser(app)
    const { browser, page } = await opened()
    const send = (email = '') =>
      submitStep(browser, page, 'sign-up', signUpForm({ email, password: user.password }))
    // Both hash a password, which takes most of the time. One mail per address and minute: the known ones differ.
    await expectSameDuration({
      known: async () => {
        const { email } = await addUser(app)
        return () => send(email)
      },
      unknown: async () => () => send(newUser().email),
    })
  })
})

describe('link of a sign-up', () => {
  test('opened: changes nothing, as mail scanners open links; used: once', async () => {
    const user = newUser()
    const link = await signUp(app, user)
    const browser = new Browser('nowhere:')
    for (const _ of [1, 2]) expect((await browser.open(link)).status).toBe(200)
    expect((await trySignIn(new Browser(REDIRECT), authorization(app.clientId), user)).status).toBe(401)
    const both = await Promise.all([confirm(link, user), confirm(link, user)])
    const [won, lost] = both.map(({ status }) => status).sort()
    expect(won).toBe(200)
    // In use by the other one, or used already.
    expect([404, 409]).toContain(lost)
    expect((await browser.open(link)).status).toBe(404)
    expect((await confirm(link, user)).status).toBe(404)
  })

  test('forged, cut, expired, or in a workspace that has closed its sign-up: 404', async () => {
    const user = newUser()
    const link = await signUp(app, user)
    const { status } = await new Browser('nowhere:').open(`${link}x`)
    expect([status, (await new Browser('nowhere:').open(link.slice(0, -1))).status]).toEqual([404, 404])
    await asSuperuser("update tenon.user_links set expires_at = now() - interval '1 s' where email = $1", [
      user.email,
    ])
    expect((await confirm(link, user)).status).toBe(404)
    const closing = await createUserApp(await createTestWorkspace())
    const late = newUser()
    const lateLink = await signUp(closing, late)
    await configure(closing.workspace, { auth: { sign_up: 'invite' } })
    expect((await confirm(lateLink, late)).status).toBe(404)
  })

  test('without the password of the sign-up: refused, since another person may have chosen it', async () => {
    const victim = newUser()
    const link = await signUp(app, { ...victim, password: 'known to the attacker' })
    expect((await confirm(link, victim)).status).toBe(401)
    const attacker = { ...victim, password: 'known to the attacker' }
    const flow = authorization(app.clientId)
    expect((await trySignIn(new Browser(REDIRECT), flow, attacker)).status).toBe(401)
  })

  test('guesses of the password: limited', async () => {
    const user = newUser()
    const link = await signUp(app, user)
    const statuses = []
    for (let n = 0; n < 11; n++)
      statuses.push((await confirm(link, { ...user, password: `a wrong password ${n}` })).status)
    expect([new Set(statuses.slice(0, 10)), statuses[10]]).toEqual([new Set([401]), 429])
    expect((await confirm(link, user)).status).toBe(429)
  })

  test('creates a user of its own workspace alone', async () => {
    const user = await addUser(app)
    expect((await trySignIn(new Browser(REDIRECT), authorization(other.clientId), user)).status).toBe(401)
    const query = new URLSearchParams({ workspace_id: other.workspace.workspaceId, email: user.email })
    const seen = await call('GET', `/v1/users?${query}`, { as: other.workspace.operator })
    expect(seen.body.data).toEqual([])
    // The same address is another user there, with another password.
    const twin = await addUser(other, { ...user, password: 'the password over there' })
    expect(twin.id).not.toBe(user.id)
  })

  test('tokens and passwords: in no table in clear', async () => {
    const user = newUser()
    const link = await signUp(app, user)
    const token = new URL(link).searchParams.get('token') ?? ''
    const rows = await asSuperuser<{ row: string }>(
      'select l::text as row from tenon.user_links l where email = $1',
      [user.email],
    )
    expect(rows).toHaveLength(1)
    expect(rows[0]?.row).not.toContain(token)
    expect(rows[0]?.row).not.toContain(user.password)
  })
})

describe('floods', () => {
  let node: Node
  beforeAll(async () => {
    node = await startInProcessNode({
      TENON_USER_MAILS_PER_ADDRESS: '3',
      TENON_USER_MAILS_PER_WORKSPACE: '100000',
    })
  })
  afterAll(() => node?.close())

  /** Signs up at the second node, whose links lead to the first. */
  async function flood(at: Node, times: number): Promise<number[]> {
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(app.clientId).url)
    const url = `${at.at.url}${new URL(page.url).pathname}/sign-up`
    const statuses = []
    for (let n = 0; n < times; n++)
      statuses.push((await browser.submit({ ...page, url }, signUpForm(newUser()))).status)
    return statuses
  }

  test('sign-ups from one address: 429 beyond the limit', async () => {
    expect(await flood(node, 5)).toEqual([200, 200, 200, 429, 429])
  })

  test('sign-ups in one workspace: 429 beyond the limit', async () => {
    const small = await startInProcessNode({ TENON_USER_MAILS_PER_WORKSPACE: '2' })
    try {
      expect(await flood(small, 3)).toEqual([200, 200, 429])
    } finally {
      await small.close()
    }
  })

  test('one address again within a minute: the same page, no other mail', async () => {
    const user = newUser()
    await signUp(app, user)
    const { browser, page } = await opened()
    const reply = await submitStep(browser, page, 'sign-up', signUpForm(user))
    expect([reply.status, reply.html]).toEqual([200, expect.stringContaining('Check your mail')])
    await new Promise((over) => setTimeout(over, 1_000))
    expect(await mailsTo(user.email, '')).toHaveLength(1)
  })

  test('quota of users: full: refused for known and unknown addresses; a pending link waits', async () => {
    const full = await createUserApp(await createTestWorkspace())
    const pending = newUser()
    const link = await signUp(full, pending)
    const user = await addUser(full)
    const { workspaceId: workspace_id, operator: as } = full.workspace
    const limit = (users: number) =>
      call('PUT', '/v1/quotas', { as, body: { workspace_id, limits: { users } } })
    expect((await limit(1)).body.quotas.users).toEqual({ limit: 1, used: 1, remaining: 0 })
    for (const email of [user.email, newUser().email]) {
      const { browser, page } = await opened(full)
      const form = signUpForm({ email, password: user.password })
      expect((await submitStep(browser, page, 'sign-up', form)).status).toBe(403)
    }
    expect((await confirm(link, pending)).status).toBe(403)
    await limit(2)
    expect((await confirm(link, pending)).status).toBe(200)
  })
})
