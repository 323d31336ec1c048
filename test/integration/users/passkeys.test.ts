/** Passkeys of users: registered on the account page, used at a sign-in; falsified answers, and a browser with an authenticator. */

import { generateKeyPairSync } from 'node:crypto'
import type { Browser as Chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  inWorkspace,
  REDIRECT,
  type Seen,
} from '../../support/clients/browser.ts'
import {
  expectAccessible,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
} from '../../support/clients/chromium.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { ok } from '../../support/clients/mcp.ts'
import {
  accountPageUrl,
  enrol,
  enterAccountPage,
  recoveryCodesIn,
  ticketIn,
} from '../../support/clients/second-factors.ts'
import { type Falsified, SoftAuthenticator } from '../../support/clients/soft-authenticator.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  accountPageOf,
  addUser,
  createUserApp,
  type TestUser,
  type UserApp,
} from '../../support/clients/users.ts'
import { asSuperuser, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'

noticeWithoutChromium('passkeys in a browser')

let app: UserApp
let other: UserApp
let node: CountedApi
/** A relying party is a domain, and this one needs no TLS. */
let base = ''
beforeAll(async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  base = `http://localhost:${port}`
  node = await startCountedApi({ TENON_PUBLIC_URL: base })
  await node.app.listen({ port, host: '127.0.0.1' })
  const workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[app, other] = (await Promise.all(workspaces.map((one) => createUserApp(one)))) as [UserApp, UserApp]
})
afterAll(() => node?.close())

type User = TestUser & { readonly id: string }

const here = (url: string) => url.replace(inject('tenon').url, base)
const optionsIn = ({ html }: Seen) =>
  (/data-options="([^"]+)"/.exec(html)?.[1] ?? '').replaceAll('&quot;', '"').replaceAll('&amp;', '&')

/** Opens the account page with the password. */
async function account(user: TestUser, of = app) {
  const browser = new Browser('nowhere:')
  const first = await browser.open(here(accountPageOf(of)))
  const { email, password } = user
  return { browser, page: await browser.submit(first, { action: 'sign_in', email, password }) }
}

const passkeyForm = (credential: string) => ({ action: 'passkey_add', name: 'Phone', credential })

/** Registers a passkey. */
async function addPasskey(user: TestUser, of = app): Promise<SoftAuthenticator> {
  const { browser, page } = await account(user, of)
  const setup = await browser.submit(page, { action: 'passkey_begin', current: user.password })
  const authenticator = new SoftAuthenticator(base)
  const added = await browser.submit(page, passkeyForm(authenticator.create(optionsIn(setup))))
  if (added.status !== 200) throw new Error(added.html)
  return authenticator
}

/** The sign-in page, with a way to send it a credential. */
async function signInPage({ clientId }: UserApp = app) {
  const browser = new Browser(REDIRECT)
  const page = await browser.open(here(authorization(clientId).url))
  const url = `${page.url}/passkey`
  return {
    page,
    options: optionsIn(page),
    send: (credential: string) => browser.submit({ ...page, url }, { credential }),
  }
}

const isSignedIn = ({ url }: Seen) => url.startsWith(REDIRECT) && new URL(url).searchParams.has('code')

test('passkey: signs in without password and code, at clients of its workspace only', async () => {
  const user = await addUser(app)
  const authenticator = await addPasskey(user)
  await mailTo(user.email, 'has changed')
  const { options, send } = await signInPage()
  expect(JSON.parse(options)).toMatchObject({ rpId: 'localhost', userVerification: 'required' })
  expect(isSignedIn(await send(authenticator.get(options)))).toBe(true)
  const foreign = await signInPage(other)
  expect((await foreign.send(authenticator.get(foreign.options))).status).toBe(401)
  await enrol(app, user)
  const again = await signInPage()
  expect(isSignedIn(await again.send(authenticator.get(again.options)))).toBe(true)
  const as = app.workspace.operator
  const seen = await ok(call('GET', `/v1/users/${user.id}`, { as }))
  expect(seen).toMatchObject({ second_factor: true, passkeys: 1 })
})

test('challenge: works once, in its own sign-in, for its own purpose', async () => {
  const user = await addUser(app)
  const authenticator = await addPasskey(user)
  const { options, send } = await signInPage()
  const rival = await signInPage()
  expect((await rival.send(authenticator.get(options))).status).toBe(401)
  const credential = authenticator.get(options)
  expect(isSignedIn(await send(credential))).toBe(true)
  const used = await signInPage()
  expect(await used.send(credential)).toMatchObject({ status: 401 })
  const { browser, page } = await account(user)
  const setup = await browser.submit(page, { action: 'passkey_begin', current: user.password })
  expect((await used.send(authenticator.get(optionsIn(setup)))).status).toBe(401)
  const twice = new SoftAuthenticator(base).create(optionsIn(setup))
  expect((await browser.submit(page, passkeyForm(twice))).status).toBe(200)
  const second = new SoftAuthenticator(base).create(optionsIn(setup))
  expect((await browser.submit(page, passkeyForm(second))).status).toBe(400)
})

test('two answers to one challenge at the same time: one signs in', async () => {
  const authenticator = await addPasskey(await addUser(app))
  const { options, send } = await signInPage()
  const ends = await Promise.all([send(authenticator.get(options)), send(authenticator.get(options))])
  expect(ends.filter(isSignedIn)).toHaveLength(1)
})

let shared: Promise<SoftAuthenticator> | undefined
const sharedAuthenticator = () => {
  shared ??= addUser(app).then((user) => addPasskey(user))
  return shared
}

test.each<[string, Falsified]>([
  ['of another origin', { origin: 'https://evil.test' }],
  ['of another relying party', { rpId: 'evil.test' }],
  ['without verification of the user', { flags: 1 }],
  ['without presence of the user', { flags: 4 }],
  ['with a counter that goes back', { counter: 0 }],
  ['with another challenge', { challenge: 'AAAA' }],
  ['of a registration', { type: 'webauthn.create' }],
  ['without a user', { userHandle: null }],
  ['of another user', { userHandle: Buffer.from('usr_01h455vb4pex5vsknk084sn02q').toString('base64url') }],
  ['signed by another key', { key: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey }],
])('answer %s: 401', async (_what, falsified) => {
  const authenticator = await sharedAuthenticator()
  const first = await signInPage()
  expect(isSignedIn(await first.send(authenticator.get(first.options)))).toBe(true)
  const { options, send } = await signInPage()
  const reply = await send(authenticator.get(options, falsified))
  expect([reply.status, reply.html]).toEqual([401, expect.stringContaining('This passkey cannot be used')])
})

test.each([
  '',
  '{}',
  '[]',
  'null',
  '{"id":"AAAAAAAAAAAAAAAAAAAAAA","response":{"clientDataJSON":"e30"}}',
  `{"id":"AAAAAAAAAAAAAAAAAAAAAA","response":{"clientDataJSON":"${Buffer.from('{"challenge":{}}').toString('base64url')}"}}`,
  `{"id":"${'A'.repeat(2_000)}","response":{"clientDataJSON":"e30"}}`,
])('credential %s: 401, recorded', async (credential) => {
  const { send } = await signInPage()
  expect((await send(credential)).status).toBe(401)
  const denied = await eventually(async () => {
    const entries = await entriesOfWorkspace(app.workspace, '&operation=person.sign_in')
    return entries.find(({ code }) => code === 'passkey_wrong')
  })
  expect(denied).toMatchObject({ outcome: 'denied', status: 401 })
})

describe('registration', () => {
  let user: User
  beforeAll(async () => {
    user = await addUser(app)
  })

  test('without the password, or with the challenge of another user: adds nothing', async () => {
    const { browser, page } = await account(user)
    const refused = await browser.submit(page, { action: 'passkey_begin', current: 'a wrong password' })
    expect(refused.status).toBe(401)
    const twin = await account(await addUser(app))
    const credential = (options: string) => new SoftAuthenticator(base).create(options)
    const setup = await browser.submit(page, { action: 'passkey_begin', current: user.password })
    const reply = await twin.browser.submit(twin.page, passkeyForm(credential(optionsIn(setup))))
    expect(reply.status).toBe(400)
    const { options } = await signInPage()
    expect((await browser.submit(page, passkeyForm(credential(options)))).status).toBe(400)
  })

  test.each<[string, Falsified]>([
    ['of another origin', { origin: 'https://evil.test' }],
    ['of another relying party', { rpId: 'evil.test' }],
    ['without verification of the user', { flags: 1 }],
    ['of a sign-in', { type: 'webauthn.get' }],
  ])('answer %s: adds nothing', async (_what, falsified) => {
    const { browser, page } = await account(user)
    const setup = await browser.submit(page, { action: 'passkey_begin', current: user.password })
    const credential = new SoftAuthenticator(base).create(optionsIn(setup), falsified)
    expect((await browser.submit(page, passkeyForm(credential))).status).toBe(400)
  })

  test('attestation with a certificate, in any format: refused', async () => {
    const { browser, page } = await account(user)
    for (const format of ['packed', 'fido-u2f', 'tpm', 'android-key', 'apple']) {
      const setup = await browser.submit(page, { action: 'passkey_begin', current: user.password })
      const statement = new Map<string, unknown>([
        ['alg', -7],
        ['sig', new Uint8Array(70)],
        ['x5c', [new Uint8Array(300)]],
      ])
      const credential = new SoftAuthenticator(base).create(optionsIn(setup), {
        attestation: { format, statement },
      })
      expect((await browser.submit(page, passkeyForm(credential))).status).toBe(400)
    }
  })

  test('eleventh passkey, or one that is known: refused', async () => {
    const rich = await addUser(app)
    const authenticator = await addPasskey(rich)
    const { browser, page } = await account(rich)
    const begin = () => browser.submit(page, { action: 'passkey_begin', current: rich.password })
    const again = authenticator.create(optionsIn(await begin()))
    expect((await browser.submit(page, passkeyForm(again))).status).toBe(400)
    await asSuperuser(
      `insert into tenon.passkeys (id, tenant_id, workspace_id, user_id, public_key, counter, name)
       select id || n, tenant_id, workspace_id, user_id, public_key, counter, name
       from tenon.passkeys, generate_series(1, 9) n where user_id = $1`,
      [rich.id],
    )
    const eleventh = new SoftAuthenticator(base).create(optionsIn(await begin()))
    expect((await browser.submit(page, passkeyForm(eleventh))).status).toBe(400)
  })
})

test('deletion: with the password, of own passkeys; the passkey then opens nothing', async () => {
  const [user, twin] = await Promise.all([addUser(app), addUser(app)])
  const [mine, foreign] = [await addPasskey(user), await addPasskey(twin)]
  const { browser, page } = await account(user)
  const form = { action: 'passkey_delete', passkey: mine.id.toString('base64url'), current: user.password }
  expect((await browser.submit(page, { ...form, current: 'a wrong password' })).status).toBe(401)
  const stolen = { ...form, passkey: foreign.id.toString('base64url') }
  expect((await browser.submit(page, stolen)).status).toBe(404)
  expect((await browser.submit(page, form)).status).toBe(200)
  const { options, send } = await signInPage()
  expect((await send(mine.get(options))).status).toBe(401)
  const kept = await signInPage()
  expect(isSignedIn(await kept.send(foreign.get(kept.options)))).toBe(true)
})

test('passkey of an account: is asked for after the password, signs in alone, and comes with recovery codes', async () => {
  const { workspace } = app
  const [clientId, person] = await Promise.all([
    addClient(workspace.operator),
    addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) }),
  ])
  const pageUrl = here(accountPageUrl())
  const { browser, page } = await enterAccountPage(person, pageUrl)
  const setup = await browser.submit(page, { action: 'passkey_begin', current: person.password })
  const authenticator = new SoftAuthenticator(base)
  const added = await browser.submit(page, passkeyForm(authenticator.create(optionsIn(setup))))
  const [recovery = ''] = recoveryCodesIn(added.html)
  expect(recovery).not.toBe('')
  // The password alone leads to a page with a passkey, and for recovery codes.
  const visit = await enterAccountPage(person, pageUrl)
  expect(visit.page.html).toContain('Use your passkey')
  expect(visit.browser.cookies).toEqual([])
  const opened = await visit.browser.submit(visit.page, {
    action: 'passkey',
    credential: authenticator.get(optionsIn(visit.page)),
  })
  expect(opened.html).toContain(`Signed in as <b>${person.email}`)
  const withCode = await enterAccountPage(person, pageUrl)
  const code = { action: 'code', ticket: ticketIn(withCode.page), code: recovery }
  expect((await withCode.browser.submit(withCode.page, code)).html).toContain('Recovery codes left: 9')
  // At a client, without tenant and password.
  const flow = authorization(clientId)
  const login = new Browser(REDIRECT)
  const first = await login.open(here(flow.url))
  const credential = authenticator.get(optionsIn(first))
  const consent = await login.submit(
    { ...first, url: `${first.url}/passkey` },
    { action: 'passkey', credential },
  )
  const end = await login.submit(consent, { action: 'allow' })
  expect(isSignedIn(end)).toBe(true)
  // Users of a workspace sign in elsewhere.
  const foreign = await signInPage()
  expect((await foreign.send(authenticator.get(foreign.options))).status).toBe(401)
  const passkey = authenticator.id.toString('base64url')
  const deletion = { action: 'passkey_delete', passkey, current: person.password }
  expect((await visit.browser.submit(opened, deletion)).html).toContain('The passkey is deleted')
  expect((await enterAccountPage(person, pageUrl)).page.html).toContain(`Signed in as <b>${person.email}`)
})

test('user who is disabled, or whose factors were reset: the passkey opens nothing', async () => {
  const [user, twin] = await Promise.all([addUser(app), addUser(app)])
  const [one, two] = [await addPasskey(user), await addPasskey(twin)]
  const as = app.workspace.operator
  await ok(call('PATCH', `/v1/users/${user.id}`, { as, body: { disabled: true } }))
  expect(await ok(call('POST', `/v1/users/${twin.id}/reset-factors`, { as, body: {} }))).toMatchObject({
    passkeys: 0,
  })
  for (const authenticator of [one, two]) {
    const { options, send } = await signInPage()
    expect((await send(authenticator.get(options))).status).toBe(401)
  }
})

test('platform at an IP address: offers no passkeys, and its pages have no script', async () => {
  const page = await new Browser(REDIRECT).open(authorization(app.clientId).url)
  expect(page.html).not.toMatch(/passkey|<script/)
  expect(page.headers.get('content-security-policy')).not.toContain('script-src')
})

test('database roles: public keys are for the issuer; rows of other workspaces are invisible', async () => {
  await addPasskey(await addUser(app))
  const { tenantId, workspaceId } = app.workspace
  for (const role of ['tenon_admin', 'tenon_operator'])
    await expect(
      sqlAsRole(role, [tenantId, workspaceId], 'select public_key from tenon.passkeys'),
    ).rejects.toThrow(/permission denied/)
  for (const role of ['tenon_anon', 'tenon_service', 'tenon_user', 'tenon_relay'])
    await expect(sqlAsRole(role, [tenantId, workspaceId], 'select from tenon.passkeys')).rejects.toThrow(
      /permission denied/,
    )
  const all = `select id from tenon.passkeys where tenant_id = '${tenantId}'`
  expect((await sqlAsRole('tenon_admin', [tenantId, workspaceId], all)).length).toBeGreaterThan(0)
  expect(
    await sqlAsRole('tenon_admin', [other.workspace.tenantId, other.workspace.workspaceId], all),
  ).toEqual([])
})

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('passkeys in Chromium', () => {
  let browser: Chromium
  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())

  test('virtual authenticator: registers and signs in; the policy allows one script', async () => {
    const user = await addUser(app)
    const context = await browser.newContext({ viewport: { width: 360, height: 640 } })
    const page = await context.newPage()
    const cdp = await context.newCDPSession(page)
    await cdp.send('WebAuthn.enable')
    await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        ...{ protocol: 'ctap2', transport: 'internal', automaticPresenceSimulation: true },
        ...{ hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
      },
    })
    await page.goto(here(accountPageOf(app)))
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Continue' }).click()
    const section = page.locator('section', { hasText: 'Passkeys' })
    await section.getByLabel('Your password').fill(user.password)
    await section.getByRole('button', { name: 'Add a passkey' }).click()
    await expectAccessible(page)
    await page.getByLabel('Name of the passkey').fill('My phone')
    await page.getByRole('button', { name: 'Create the passkey' }).click()
    await page.getByRole('status').waitFor()
    await expectAccessible(page)
    expect(await page.locator('input[name=passkey]').count()).toBe(1)
    const redirect_uri = 'https://app.test/callback'
    const loaded = await page.goto(here(authorization(app.clientId, { redirect_uri }).url))
    const policy = loaded?.headers()['content-security-policy'] ?? ''
    expect(policy).toMatch(/script-src 'sha256-[^' ]+';/)
    await expectAccessible(page)
    const arrival = page.waitForRequest(/app\.test\/callback/)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    expect(new URL((await arrival).url()).searchParams.get('code')).toBeTruthy()
    await context.close()
  })

  test('without JavaScript: the sign-in page shows no button for passkeys', async () => {
    const context = await browser.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(here(authorization(app.clientId).url))
    expect(await page.getByRole('button', { name: 'Sign in', exact: true }).isVisible()).toBe(true)
    expect(await page.getByText('Sign in with a passkey').isVisible()).toBe(false)
    await context.close()
  })
})
