/** Sign-in of users at identity providers of their workspace: whom it signs in, falsified responses, a second issuer. */

import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import {
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  REDIRECT,
  type Seen,
} from '../../support/clients/browser.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { ok } from '../../support/clients/mcp.ts'
import { codeAt, type Enrolled, enrol, forgetUsedCodes } from '../../support/clients/second-factors.ts'
import {
  addUser,
  addUserClient,
  connectIdentity,
  createUserApp,
  idOf,
  newUser,
  submitStep,
  trySignIn,
  type UserApp,
} from '../../support/clients/users.ts'
import { asSuperuser, call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { FakeIdentityProvider } from '../../support/servers/fake-identity-provider.ts'
import { startCountedApi } from '../../support/stack/counted-api.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const SECRET = 'a-secret-of-the-client'

let app: UserApp
let provider: FakeIdentityProvider
beforeAll(async () => {
  provider = await FakeIdentityProvider.open()
  app = await createUserApp(await createTestWorkspace())
})
afterAll(() => provider?.close())

const settings = (more: object = {}) => ({
  ...{
    id: 'idp',
    name: 'Corner Shop & Sons',
    issuer: provider.origin,
    client_id: 'tenon',
    client_secret: SECRET,
  },
  ...more,
})

beforeEach(async () => {
  provider.flaws = {}
  await offer()
})

const offer = (more: object = {}, signUp = 'open') =>
  configure(app.workspace, {
    egress: { allow: [provider.host] },
    auth: { sign_up: signUp, providers: [settings(more)] },
  })

/** A person whom the provider has not signed in before. */
function newPerson(claims: object = {}) {
  const person = {
    sub: unique('sub'),
    email: `${unique('Ida')}@example.test`,
    email_verified: true,
    name: 'Ida',
  }
  provider.person = { ...person, ...claims }
  return { ...person, email: person.email.toLowerCase() }
}

const isSignedIn = ({ url }: Seen) => url.startsWith(REDIRECT) && new URL(url).searchParams.has('code')

/** Chooses the provider on the sign-in page. @returns the page that follows */
async function choose(browser = new Browser(REDIRECT), flow = authorization(app.clientId), id = 'idp') {
  const page = await browser.open(flow.url)
  const [interaction] = page.url.split('?')
  return browser.open(`${interaction}/providers/${id}`)
}

/** Enters the code of a second factor. */
function enterCode(browser: Browser, page: Seen, code: string): Promise<Seen> {
  const ticket = /name="ticket" value="([^"]+)"/.exec(page.html)?.[1] ?? ''
  return submitStep(browser, page, 'code', { action: 'code', ticket, code })
}

async function codeOf(user: Enrolled): Promise<string> {
  await forgetUsedCodes(user)
  return codeAt(user.secret)
}

/** The tokens of the person who signs in. */
async function tokens(of = app, id = 'idp') {
  const flow = authorization(of.clientId)
  const end = await choose(new Browser(REDIRECT), flow, id)
  if (!isSignedIn(end)) throw new Error(`${end.status} ${end.url} ${end.html}`)
  return (await exchange(of.clientId, flow, new URL(end.url))).body
}

const userOf = async (email: string) =>
  await ok(call('GET', `/v1/users/${await idOf(app, email)}`, { as: app.workspace.operator }))

describe('person', () => {
  test('unknown: becomes a user; the next sign-in finds that user by the subject, whatever the address', async () => {
    const { email } = newPerson()
    const first = claimsOf((await tokens())['access_token'])
    expect(first).toMatchObject({ role: 'user', email, email_verified: true })
    expect(await userOf(email)).toMatchObject({
      id: first.sub,
      name: 'Ida',
      created_by: 'identity-provider',
      identities: [provider.origin],
      status: 'active',
    })
    provider.person = { ...provider.person, email: 'elsewhere@example.test' }
    expect(claimsOf((await tokens())['access_token'])).toMatchObject({ sub: first.sub, email })
    const [{ body, authorization: sent } = { body: undefined, authorization: '' }] =
      provider.exchanges.slice(-1)
    expect(body?.get('code_verifier')).toMatch(/^[\w-]{43}$/)
    // RFC 6749 §2.3.1: both are form-encoded first.
    expect(decodeURIComponent(atob(sent?.replace('Basic ', '') ?? ''))).toBe(`tenon:${SECRET}`)
  })

  test('described by the UserInfo endpoint only: becomes a user', async () => {
    const { email } = newPerson({ sub: 'sub-1' })
    provider.flaws = { userInfo: true }
    expect(claimsOf((await tokens())['access_token']).email).toBe(email)
    await asSuperuser("delete from tenon.user_identities where subject = 'sub-1'")
  })

  test('with the address of a user who has a password: enters it once, gets a mail, and is that user from then on', async () => {
    const user = await addUser(app)
    newPerson({ email: user.email })
    const browser = new Browser(REDIRECT)
    const page = await choose(browser)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('Enter your password')])
    const wrong = await connectIdentity(browser, page, 'a wrong password')
    expect([wrong.status, isSignedIn(wrong)]).toEqual([401, false])
    // A ticket of another sign-in, or none.
    const other = new Browser(REDIRECT)
    const elsewhere = await other.open(authorization(app.clientId).url)
    for (const html of [page.html, ''])
      expect(isSignedIn(await connectIdentity(other, { ...elsewhere, html }, user.password))).toBe(false)
    expect((await userOf(user.email)).identities).toEqual([])
    expect(isSignedIn(await connectIdentity(browser, page, user.password))).toBe(true)
    expect(claimsOf((await tokens())['access_token']).sub).toBe(user.id)
    await mailTo(user.email, 'has changed')
    await eventually(
      async () => (await entriesOfWorkspace(app.workspace, '&operation=user.connect_identity'))[0],
    )
    expect(isSignedIn(await trySignIn(new Browser(REDIRECT), authorization(app.clientId), user))).toBe(true)
  })

  test('with the address of a user, whose password changes before it is entered: is refused', async () => {
    const user = await addUser(app)
    newPerson({ email: user.email })
    const browser = new Browser(REDIRECT)
    const page = await choose(browser)
    const { operator: as } = app.workspace
    await ok(call('POST', `/v1/users/${user.id}/sign-out`, { as, body: {} }))
    expect(isSignedIn(await connectIdentity(browser, page, user.password))).toBe(false)
    expect((await userOf(user.email)).identities).toEqual([])
  })

  test('with the address of a user without a password: uses a mailed link once, and is that user from then on', async () => {
    const { email } = newPerson()
    const { sub } = claimsOf((await tokens())['access_token'])
    provider.person = { ...provider.person, sub: unique('sub') }
    const page = await choose()
    expect([page.status, isSignedIn(page)]).toEqual([200, false])
    expect(page.html).toContain('Check your mail')
    const { link } = await mailTo(email, 'may sign in')
    const mailed = new Browser('nowhere:')
    const form = await mailed.open(link)
    expect([form.status, isSignedIn(await choose())]).toEqual([200, false])
    expect((await mailed.submit(form, { action: 'confirm' })).status).toBe(200)
    expect((await mailed.submit(form, { action: 'confirm' })).status).toBe(404)
    expect(claimsOf((await tokens())['access_token']).sub).toBe(sub)
    await mailTo(email, 'has changed')
  })

  test('with the address of a user, not verified: is refused', async () => {
    const user = await addUser(app)
    for (const claims of [
      { email_verified: false },
      { email_verified: 'true' },
      { email_verified: undefined },
    ]) {
      newPerson({ email: user.email, ...claims })
      const page = await choose()
      expect([page.status, page.html]).toEqual([403, expect.stringContaining('has not confirmed')])
    }
    expect((await userOf(user.email)).identities).toEqual([])
  })

  test('with an address that users cannot have: is refused', async () => {
    for (const email of ['no address', 'ädä@example.test', `${'a'.repeat(320)}@example.test`, '', 7]) {
      newPerson({ email })
      expect((await choose()).status).toBe(403)
    }
  })

  test('name with an invisible character: is left out', async () => {
    const { email } = newPerson({ name: 'I\u202eda' })
    await tokens()
    expect((await userOf(email)).name).toBe('')
  })

  test('with a second factor: the sign-in also asks for a code', async () => {
    const user = await enrol(app, await addUser(app))
    newPerson({ email: user.email })
    const browser = new Browser(REDIRECT)
    const page = await connectIdentity(browser, await choose(browser), user.password)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('Enter a code')])
    expect(isSignedIn(await enterCode(browser, page, await codeOf(user)))).toBe(true)
  })

  test('with a second factor: is connected after the code, and not before', async () => {
    const user = await enrol(app, await addUser(app))
    newPerson({ email: user.email })
    const browser = new Browser(REDIRECT)
    const page = await connectIdentity(browser, await choose(browser), user.password)
    expect((await enterCode(browser, page, '000000')).status).toBe(401)
    expect((await userOf(user.email)).identities).toEqual([])
    expect(isSignedIn(await enterCode(browser, page, await codeOf(user)))).toBe(true)
    expect((await userOf(user.email)).identities).toEqual([provider.origin])
  })

  // What may happen between the steps of a sign-in, at each of which the identity is connected, or is to be.
  const BETWEEN: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
    'the identity is disconnected': () =>
      asSuperuser('update tenon.user_identities set disconnected_at = now() where subject = $1', [
        provider.person['sub'],
      ]),
    'another identity of the provider is disconnected': (id) =>
      asSuperuser(
        `insert into tenon.user_identities (tenant_id, workspace_id, issuer, subject, user_id, disconnected_at)
         select tenant_id, workspace_id, $2, $3, id, now() from tenon.users where id = $1`,
        [id, provider.origin, unique('sub')],
      ),
    'the user is signed out everywhere': (id) =>
      ok(call('POST', `/v1/users/${id}/sign-out`, { as: app.workspace.operator, body: {} })),
    'the user is disabled': (id) =>
      ok(call('PATCH', `/v1/users/${id}`, { as: app.workspace.operator, body: { disabled: true } })),
  }
  test.each(
    Object.keys(BETWEEN).flatMap((event) =>
      [true, false]
        // An identity that is not connected yet cannot be disconnected, and one that is connected outlives others.
        .filter(
          (isNew) =>
            event !==
            (isNew ? 'the identity is disconnected' : 'another identity of the provider is disconnected'),
        )
        .map((isNew) => [event, isNew ? 'new' : 'connected'] as const),
    ),
  )('%s, while the code is asked for (%s identity): nobody is signed in', async (event, state) => {
    const user = await enrol(app, await addUser(app))
    newPerson({ email: user.email })
    const begin = async (browser: Browser) => connectIdentity(browser, await choose(browser), user.password)
    if (state === 'connected') {
      const browser = new Browser(REDIRECT)
      expect(isSignedIn(await enterCode(browser, await begin(browser), await codeOf(user)))).toBe(true)
    }
    const browser = new Browser(REDIRECT)
    const page = await (state === 'connected' ? choose(browser) : begin(browser))
    expect(page.html).toContain('Enter a code')
    await BETWEEN[event]?.(user.id)
    const end = await enterCode(browser, page, await codeOf(user))
    expect([isSignedIn(end), end.html]).toEqual([false, expect.stringContaining('has changed since')])
    const rows = await asSuperuser(
      'select from tenon.user_identities where subject = $1 and disconnected_at is null',
      [provider.person['sub']],
    )
    expect(rows).toHaveLength(state === 'connected' && event !== 'the identity is disconnected' ? 1 : 0)
  })

  test('disabled, or deleted and not invited again: the sign-in is refused', async () => {
    const { email } = newPerson()
    await tokens()
    const id = await idOf(app, email)
    const as = app.workspace.operator
    await ok(call('PATCH', `/v1/users/${id}`, { as, body: { disabled: true } }))
    expect(await choose()).toMatchObject({ status: 403, html: expect.stringContaining('cannot sign in') })
    // Under another subject as well.
    provider.person = { ...provider.person, sub: unique('sub') }
    expect((await choose()).status).toBe(403)
    expect((await call('DELETE', `/v1/users/${id}`, { as })).status).toBe(200)
    await offer({}, 'invite')
    expect((await choose()).status).toBe(403)
  })
})

describe('sign_up', () => {
  test.each([
    ['off', undefined, 403],
    ['invite', undefined, 403],
    ['invite', 'open', 200],
    ['off', 'open', 200],
    ['open', 'invite', 403],
  ])('%s, of the provider %s: an unknown person gets %i', async (signUp, ofProvider, status) => {
    await offer(ofProvider === undefined ? {} : { sign_up: ofProvider }, signUp)
    newPerson()
    const page = await choose()
    expect(isSignedIn(page) ? 200 : page.status).toBe(status)
  })

  test('invite: an invited person accepts by signing in, and the invitation becomes void', async () => {
    await offer({}, 'invite')
    const { email } = newPerson()
    const body = { workspace_id: app.workspace.workspaceId, email }
    const invited = await ok(call('POST', '/v1/users', { as: app.workspace.operator, body }))
    expect(claimsOf((await tokens())['access_token']).sub).toBe(invited.id)
    const { password } = newUser()
    const browser = new Browser('nowhere:')
    const page = await browser.open(invited.invitation_url)
    const set = await browser.submit(page, { action: 'set', password, again: password })
    expect(set.status).toBe(404)
  })

  test('quota of users: is refused', async () => {
    const { workspaceId, operator: as } = app.workspace
    const body = { workspace_id: workspaceId, limits: { users: 0 } }
    await ok(call('PUT', '/v1/quotas', { as, body }))
    newPerson()
    expect(await choose()).toMatchObject({
      status: 403,
      html: expect.stringContaining('New accounts cannot'),
    })
    await ok(call('PUT', '/v1/quotas', { as, body: { ...body, limits: { users: 10_000 } } }))
  })
})

describe('response that is not valid', () => {
  const other = 'https://other.example'
  test.each([
    ['nonce of another request', { claims: { nonce: 'other' } }, 401],
    ['issuer of another provider', { claims: { iss: other } }, 401],
    ['audience of another client', { claims: { aud: 'other' } }, 401],
    ['several audiences, for another party', { claims: { aud: ['tenon', 'other'], azp: 'other' } }, 401],
    ['expired', { claims: { exp: 1 } }, 401],
    ['without a subject', { claims: { sub: undefined } }, 401],
    ['subject of 1 MB', { claims: { sub: 'x'.repeat(1_000_000) } }, 503],
    ['subject of 10 KB', { claims: { sub: 'x'.repeat(10_000) } }, 401],
    ['signed with another key', { signature: 'of another key' }, 401],
    ['not signed', { signature: 'none' }, 401],
    ['from another issuer (RFC 9207)', { redirect: { iss: other } }, 401],
    ['without the issuer that it announces', { redirect: { iss: '' } }, 401],
    ['code that it did not issue', { redirect: { code: 'other' } }, 401],
    ['no code', { redirect: { code: '' } }, 401],
    ['refusal', { redirect: { code: '', error: 'access_denied', error_description: '<b>no</b>' } }, 401],
    ['state that is not ours', { redirect: { state: 'other' } }, 404],
    ['token endpoint that refuses', { token: 'refused' }, 401],
    ['no ID token', { token: 'without ID token' }, 401],
    ['token endpoint that hangs', { token: 'hangs' }, 503],
  ] as const)('%s: nobody is signed in', async (_what, flaws, status) => {
    const { email } = newPerson()
    provider.flaws = flaws
    const page = await choose()
    expect([page.status, isSignedIn(page), page.html.includes('<b>no</b>')]).toEqual([status, false, false])
    await expect(idOf(app, email)).rejects.toThrow()
  })

  test.each([
    ['another issuer', () => ({ issuer: other })],
    ['authorization endpoint that is a script', () => ({ authorization_endpoint: 'javascript:alert(1)' })],
    ['no authorization endpoint', () => ({ authorization_endpoint: undefined })],
  ])('discovery document with %s: 503 that names the provider', async (_what, discovery) => {
    provider.flaws = { discovery: discovery() }
    // Another client, which is not cached.
    await offer({ client_id: unique('c') })
    const page = await choose()
    expect([page.status, page.html]).toEqual([
      503,
      expect.stringContaining('Corner Shop &amp; Sons cannot be'),
    ])
  })

  test('token endpoint at an address that is not public: is not called', async () => {
    const victim = await FakeIdentityProvider.open()
    provider.flaws = { discovery: { token_endpoint: `${victim.origin}/token` } }
    await offer({ client_id: unique('c') })
    newPerson()
    expect((await choose()).status).toBe(503)
    expect(victim.exchanges).toEqual([])
    await victim.close()
  })

  test('opened in another browser: nobody is signed in', async () => {
    newPerson()
    const origin = new URL(authorization('').url).origin
    // This one stops where the provider sends it.
    const { url } = await choose(new Browser(`${origin}/auth/providers/`))
    expect(new URL(url).searchParams.has('code')).toBe(true)
    const rival = new Browser(REDIRECT)
    await rival.open(authorization(app.clientId).url)
    expect((await rival.open(url)).status).toBe(404)
    expect((await rival.open(url.replace(/ws_\w+/, 'ws_other'))).status).toBe(404)
  })

  test('used before, or of another provider: is refused', async () => {
    const user = await addUser(app)
    newPerson({ email: user.email })
    await configure(app.workspace, { auth: { providers: [settings(), settings({ id: 'other' })] } })
    const browser = new Browser(REDIRECT)
    const page = await choose(browser)
    expect(page.html).toContain('Enter your password')
    expect(await browser.open(page.url)).toMatchObject({ status: 401 })
    const elsewhere = page.url.replace('/providers/idp/', '/providers/other/')
    expect(await browser.open(elsewhere)).toMatchObject({
      status: 401,
      html: expect.stringContaining('took too long'),
    })
  })
})

test('provider that is away: attempts from one address are limited', async () => {
  const node = await startInProcessNode({ TENON_SIGN_INS_PER_ADDRESS: '2' })
  await offer({ issuer: 'https://127.0.0.1:1' })
  const statuses: number[] = []
  for (const _ of [1, 2, 3]) {
    const flow = authorization(app.clientId)
    const url = flow.url.replace(inject('tenon').url, node.at.url)
    statuses.push((await choose(new Browser(REDIRECT), { ...flow, url })).status)
  }
  await node.close()
  expect(statuses).toEqual([503, 503, 429])
})

test('another workspace: its users are others, and its sign-in takes no response for this one', async () => {
  const other = await createUserApp(await createTestWorkspace())
  await configure(other.workspace, {
    egress: { allow: [provider.host] },
    auth: { providers: [settings()] },
  })
  const { email } = newPerson()
  const here = claimsOf((await tokens())['access_token'])
  const there = claimsOf((await tokens(other))['access_token'])
  expect([here.email, there.email]).toEqual([email, email])
  expect(here.sub).not.toBe(there.sub)
  expect(there.workspace_id).toBe(other.workspace.workspaceId)
})

test('a second Tenon as the provider: its user signs in, with the code and PKCE of a public client', async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  // Another host, so that a browser keeps the cookies of the two apart.
  const base = `http://localhost:${port}`
  const second = await startCountedApi({ TENON_PUBLIC_URL: base })
  try {
    await second.app.listen({ port, host: '127.0.0.1' })
    const staff = await createUserApp(await createTestWorkspace())
    const { auth } = await configure(app.workspace, {
      egress: { allow: [new URL(base).host] },
      auth: {
        providers: [{ id: 'tenon', name: 'Staff', issuer: `${base}/auth`, client_id: 'later' }],
      },
    })
    const clientId = await addUserClient(staff.workspace, [auth.providers[0].redirect_uri])
    await configure(app.workspace, {
      auth: { providers: [{ id: 'tenon', name: 'Staff', issuer: `${base}/auth`, client_id: clientId }] },
    })
    const user = await addUser(staff)
    const browser = new Browser(REDIRECT)
    const flow = authorization(app.clientId)
    const page = await choose(browser, flow, 'tenon')
    expect(page.url).toContain(`${base}/auth/interaction/`)
    const end = await browser.submit(page, { action: 'login', email: user.email, password: user.password })
    expect(isSignedIn(end), `${end.status} ${end.url} ${end.html}`).toBe(true)
    const { access_token: token } = (await exchange(app.clientId, flow, new URL(end.url))).body
    const { sub, email, workspace_id } = claimsOf(token)
    expect([email, workspace_id]).toEqual([user.email, app.workspace.workspaceId])
    expect(sub).not.toBe(user.id)
    const me = await ok(call('GET', '/v1/me', { as: bearer(token) }))
    expect(me).toMatchObject({ subject: sub, roles: ['user'] })
  } finally {
    await second.close()
  }
})
