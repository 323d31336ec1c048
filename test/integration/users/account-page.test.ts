/** The page of a user's own account: password, address, sign-out everywhere, deletion. */

import { beforeAll, expect, inject, test } from 'vitest'
import {
  authorization,
  Browser,
  bearer,
  REDIRECT,
  refresh,
  type Seen,
} from '../../support/clients/browser.ts'
import { mailsTo, mailTo } from '../../support/clients/mails.ts'
import {
  accountPageOf,
  addUser,
  confirm,
  createUserApp,
  newUser,
  type TestUser,
  trySignIn,
  type UserApp,
  userTokens,
} from '../../support/clients/users.ts'
import { call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

let app: UserApp
let other: UserApp
beforeAll(async () => {
  const workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[app, other] = (await Promise.all(workspaces.map((one) => createUserApp(one)))) as [UserApp, UserApp]
})

async function openAccount(
  { email, password }: TestUser,
  of = app,
): Promise<{ browser: Browser; page: Seen }> {
  const browser = new Browser('nowhere:')
  const first = await browser.open(accountPageOf(of))
  expect(first.html).not.toContain(email)
  return { browser, page: await browser.submit(first, { action: 'sign_in', email, password }) }
}

const canSignIn = async (user: TestUser) =>
  (await trySignIn(new Browser(REDIRECT), authorization(app.clientId), user)).url.startsWith(REDIRECT)

test('account page: asks for the password; of another workspace or an unknown client: nothing', async () => {
  const user = await addUser(app)
  expect((await openAccount({ ...user, password: 'a wrong password' })).page.status).toBe(401)
  expect((await openAccount(user, other)).page.status).toBe(401)
  const { browser, page } = await openAccount(user)
  expect([page.status, page.html]).toEqual([200, expect.stringContaining(user.email)])
  expect((await browser.open(accountPageOf(app))).html).toContain(user.email)
  expect((await browser.open(accountPageOf(other))).html).not.toContain(user.email)
  const { text } = browser.cookies.find(({ path }) => path === '/auth/user') ?? { text: '' }
  expect(text).toMatch(/; HttpOnly; SameSite=Strict/)
  const { url } = inject('tenon')
  for (const query of ['', '?client_id=x', '?client_id=tenon-operator', '?client_id=a&client_id=b'])
    expect((await browser.open(`${url}/auth/user${query}`)).status).toBe(404)
  const foreign = await browser.submit(page, { action: 'sign_out' }, { 'sec-fetch-site': 'cross-site' })
  expect(foreign.status).toBe(403)
  const left = await browser.submit(page, { action: 'leave' })
  expect(left.html).not.toContain(user.email)
  expect((await browser.open(accountPageOf(app))).html).not.toContain(user.email)
})

test('password: changed with the present one only; signs out everywhere', async () => {
  const user = await addUser(app)
  const { body } = await userTokens(app, user)
  const { browser, page } = await openAccount(user)
  const form = { action: 'password', password: 'another password of mine', again: 'another password of mine' }
  expect((await browser.submit(page, { ...form, current: 'a wrong password' })).status).toBe(401)
  expect((await browser.submit(page, { ...form, again: 'x', current: user.password })).status).toBe(400)
  expect((await browser.submit(page, { ...form, current: user.password })).status).toBe(200)
  expect(await canSignIn(user)).toBe(false)
  expect(await canSignIn({ ...user, password: form.password })).toBe(true)
  expect((await refresh(app.clientId, body['refresh_token'])).status).toBe(400)
  // The session of the page has ended as well.
  expect((await browser.open(accountPageOf(app))).html).not.toContain(user.email)
  await mailTo(user.email, 'has changed')
})

test('address: changed by a link to the new one with the password, once; the old one gets a notice', async () => {
  const user = await addUser(app)
  const { email } = newUser()
  const { browser, page } = await openAccount(user)
  const form = { action: 'email', email, current: user.password }
  expect((await browser.submit(page, { ...form, current: 'a wrong password' })).status).toBe(401)
  expect((await browser.submit(page, { ...form, email: 'x' })).status).toBe(400)
  expect((await browser.submit(page, form)).html).toContain('role="status"')
  const { link } = await mailTo(email, 'Confirm your new e-mail address')
  expect((await mailTo(user.email, 'is about to change')).link).toBe('')
  expect(await canSignIn({ ...user, email })).toBe(false)
  expect((await confirm(link, { email, password: 'a wrong password' })).status).toBe(401)
  expect((await confirm(link, user)).status).toBe(200)
  expect((await confirm(link, user)).status).toBe(404)
  expect(await canSignIn({ ...user, email })).toBe(true)
  expect(await canSignIn(user)).toBe(false)
})

test('address of another user: the same page, no link, nothing changes', async () => {
  const [user, other] = await Promise.all([addUser(app), addUser(app)])
  const { browser, page } = await openAccount(user)
  const reply = await browser.submit(page, { action: 'email', email: other.email, current: user.password })
  expect([reply.status, reply.html]).toEqual([200, expect.stringContaining('role="status"')])
  expect((await mailTo(other.email, 'You already have an account')).link).toBe('')
  expect(await mailsTo(other.email, 'Confirm your new')).toEqual([])
})

test('address that another user takes before the link is used: 404', async () => {
  const user = await addUser(app)
  const twin = newUser()
  const { browser, page } = await openAccount(user)
  await browser.submit(page, { action: 'email', email: twin.email, current: user.password })
  const { link } = await mailTo(twin.email, 'Confirm your new e-mail address')
  await addUser(app, twin)
  expect((await confirm(link, user)).status).toBe(404)
  expect(await canSignIn(user)).toBe(true)
})

test('sign out everywhere: ends sessions and tokens, keeps the account', async () => {
  const user = await addUser(app)
  const { body } = await userTokens(app, user)
  const { browser, page } = await openAccount(user)
  expect((await browser.submit(page, { action: 'sign_out' })).status).toBe(200)
  expect((await refresh(app.clientId, body['refresh_token'])).status).toBe(400)
  const as = bearer(body['access_token'])
  await eventually(
    async () => ((await call('GET', '/v1/me', { as })).status === 401 ? true : undefined),
    5_000,
  )
  expect(await canSignIn(user)).toBe(true)
})

test('deletion: with the password; ends everything, the address is free again', async () => {
  const user = await addUser(app)
  const { body } = await userTokens(app, user)
  const { browser, page } = await openAccount(user)
  expect((await browser.submit(page, { action: 'delete', current: 'a wrong password' })).status).toBe(401)
  expect((await browser.submit(page, { action: 'delete', current: user.password })).status).toBe(200)
  expect(await canSignIn(user)).toBe(false)
  expect((await refresh(app.clientId, body['refresh_token'])).status).toBe(400)
  const seen = await call('GET', `/v1/users/${user.id}`, { as: app.workspace.operator })
  expect(seen.status).toBe(404)
})
