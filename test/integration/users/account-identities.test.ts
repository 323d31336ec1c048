/** Identities at providers on the page of a user's own account: disconnected, and connected again. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { authorization, Browser, REDIRECT, type Seen } from '../../support/clients/browser.ts'
import {
  expectAccessible,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
} from '../../support/clients/chromium.ts'
import { mailTo } from '../../support/clients/mails.ts'
import {
  accountPageOf,
  addUser,
  connectIdentity,
  createUserApp,
  type TestUser,
  type UserApp,
} from '../../support/clients/users.ts'
import { call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { FakeIdentityProvider } from '../../support/servers/fake-identity-provider.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

noticeWithoutChromium('identities on the account page in a browser')

let app: UserApp
let provider: FakeIdentityProvider
beforeAll(async () => {
  provider = await FakeIdentityProvider.open()
  app = await createUserApp(await createTestWorkspace())
  const settings = { id: 'idp', name: 'Shop & Sons', issuer: provider.origin, client_id: 'tenon' }
  await configure(app.workspace, {
    egress: { allow: [provider.host] },
    auth: { sign_up: 'open', providers: [settings] },
  })
})
afterAll(() => provider?.close())

/** The page after a sign-in at the provider. */
async function signInThere(email: string, sub: string, browser = new Browser(REDIRECT)): Promise<Seen> {
  provider.person = { sub, email, email_verified: true }
  const page = await browser.open(authorization(app.clientId).url)
  return browser.open(`${page.url.split('?')[0]}/providers/idp`)
}

const isSignedIn = ({ url }: Seen) => new URL(url).searchParams.has('code')

/** A user who has signed in at the provider with the same address, and entered the password. */
async function connectedUser() {
  const user = await addUser(app)
  const sub = unique('sub')
  const browser = new Browser(REDIRECT)
  const page = await signInThere(user.email, sub, browser)
  expect(isSignedIn(await connectIdentity(browser, page, user.password))).toBe(true)
  return { ...user, sub }
}

async function openAccount({ email, password }: TestUser) {
  const browser = new Browser('nowhere:')
  const first = await browser.open(accountPageOf(app))
  return { browser, page: await browser.submit(first, { action: 'sign_in', email, password }) }
}

const identityIn = ({ html }: Seen) => /name="identity" value="([0-9a-f]{64})"/.exec(html)?.[1] ?? ''

test('identity: disconnected with the password; signs in no more, under no other subject; connected again', async () => {
  const user = await connectedUser()
  const { browser, page } = await openAccount(user)
  expect(page.html).toContain('Shop &amp; Sons')
  const form = { action: 'identity_disconnect', identity: identityIn(page), current: user.password }
  expect((await browser.submit(page, { ...form, current: 'a wrong password' })).status).toBe(401)
  expect((await browser.submit(page, { ...form, action: 'identity_connect' })).status).toBe(404)
  expect((await browser.submit(page, { ...form, identity: '0'.repeat(64) })).status).toBe(404)
  expect(isSignedIn(await signInThere(user.email, user.sub))).toBe(true)
  const done = await browser.submit(page, form)
  expect([done.status, done.html]).toEqual([200, expect.stringContaining('can no longer sign you in')])
  for (const sub of [user.sub, unique('sub')]) {
    const refused = await signInThere(user.email, sub)
    expect([refused.status, refused.html]).toEqual([403, expect.stringContaining('You have disconnected')])
  }
  const stored = await call('GET', `/v1/users/${user.id}`, { as: app.workspace.operator })
  expect(stored.body.identities).toEqual([])
  await mailTo(user.email, 'has changed')
  await eventually(
    async () => (await entriesOfWorkspace(app.workspace, '&operation=user.disconnect_identity'))[0],
  )
  // The password, with which it was disconnected, is left.
  const again = await openAccount(user)
  expect(again.page.status).toBe(200)
  await again.browser.submit(again.page, { ...form, action: 'identity_connect' })
  expect(isSignedIn(await signInThere(user.email, user.sub))).toBe(true)
})

test('identity of another user: is not shown, and cannot be disconnected', async () => {
  const [user, other] = [await connectedUser(), await addUser(app)]
  const theirs = identityIn((await openAccount(user)).page)
  const { browser, page } = await openAccount(other)
  expect(page.html).not.toContain('identity_disconnect')
  const form = { action: 'identity_disconnect', identity: theirs, current: other.password }
  expect((await browser.submit(page, form)).status).toBe(404)
  expect(isSignedIn(await signInThere(user.email, user.sub))).toBe(true)
})

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('in Chromium', () => {
  test('identity: disconnected and connected again under a policy without scripts; no finding of axe', async () => {
    const user = await connectedUser()
    const browser = await launchChromium()
    const page = await (await browser.newContext({ viewport: { width: 360, height: 640 } })).newPage()
    await page.goto(accountPageOf(app))
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Continue' }).click()
    for (const [title, button] of [
      ['Sign-in with other providers', 'Disconnect'],
      ['Disconnected providers', 'Connect again'],
    ]) {
      await expectAccessible(page)
      const section = page.locator('section', { hasText: title ?? '' })
      await section.getByLabel('Shop & Sons').check()
      await section.getByLabel('Your password').fill(user.password)
      await section.getByRole('button', { name: button ?? '' }).click()
      expect(await page.getByRole('status').textContent()).toContain('sign you in')
    }
    await browser.close()
  })
})
