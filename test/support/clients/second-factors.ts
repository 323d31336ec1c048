/** Further factors of users and accounts in tests: an authenticator app, and the page of the own account. */

import { Secret, TOTP } from 'otpauth'
import { inject } from 'vitest'
import { asSuperuser } from '../fixtures/tenants.ts'
import { type Flow, REDIRECT } from './browser.ts'
import { Browser, type Seen, type TestAccount } from './page-browser.ts'
import { accountPageOf, type TestUser, type UserApp } from './users.ts'

/** A user with an authenticator app. */
export interface Enrolled extends TestUser {
  readonly id: string
  /** In base32. */
  readonly secret: string
  readonly recovery: readonly string[]
}

/** What the app shows. @param steps ahead of now, of 30 s each */
export const codeAt = (secret: string, steps = 0): string =>
  TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: Date.now() + steps * 30_000 })

/** The platform forgets which codes were used, as if time had passed. */
export const forgetUsedCodes = ({ id }: { readonly id: string }): Promise<unknown> =>
  asSuperuser('update tenon.second_factors set last_step = 0 where subject_id = $1', [id])

export const ticketIn = ({ html }: Seen) => /name="ticket" value="([^"]+)"/.exec(html)?.[1] ?? ''

/** Opens the account page in a browser of its own, with a code if the user has a second factor. */
export async function openAccount(
  app: UserApp,
  user: TestUser | Enrolled,
): Promise<{ browser: Browser; page: Seen }> {
  const browser = new Browser('nowhere:')
  const { email, password } = user
  let page = await browser.submit(await browser.open(accountPageOf(app)), {
    action: 'sign_in',
    email,
    password,
  })
  if ('secret' in user) {
    await forgetUsedCodes(user)
    page = await browser.submit(page, { action: 'code', ticket: ticketIn(page), code: codeAt(user.secret) })
  }
  if (!page.html.includes('Signed in as')) throw new Error(`${page.status} ${page.html}`)
  return { browser, page }
}

/** Switches the second factor on. */
export async function enrol<T extends TestUser & { readonly id: string }>(
  app: UserApp,
  user: T,
): Promise<T & Enrolled> {
  const { browser, page } = await openAccount(app, user)
  return { ...user, ...(await addApp(browser, page, user.password)) }
}

/** Adds an authenticator app on the page of the own account. */
async function addApp(browser: Browser, page: Seen, password: string) {
  const setup = await browser.submit(page, { action: 'totp_begin', current: password })
  const [, secret = ''] = /secret=([A-Z2-7]+)/.exec(setup.html) ?? []
  const form = { action: 'totp_on', ticket: ticketIn(setup), code: codeAt(secret) }
  const { html } = await browser.submit(page, form)
  return { secret, recovery: recoveryCodesIn(html) }
}

export const recoveryCodesIn = (html: string): string[] =>
  [...html.matchAll(/<li><code>([^<]+)<\/code>/g)].map(([, code = '']) => code)

/** An account with an authenticator app. */
export interface EnrolledAccount extends TestAccount {
  readonly secret: string
  readonly recovery: readonly string[]
}

export const accountPageUrl = (at = inject('tenon')): string => `${at.url}/auth/account`

/** Signs an account in at a page of its own, with a code if it has an app. @returns what follows */
export async function enterAccountPage(
  person: TestAccount | EnrolledAccount,
  url = accountPageUrl(),
): Promise<{ browser: Browser; page: Seen }> {
  const browser = new Browser('nowhere:')
  const { tenant, email, password } = person
  const first = await browser.open(url)
  let page = await browser.submit(first, { action: 'sign_in', tenant, email, password })
  if ('secret' in person) page = await sendCode(browser, page, person)
  return { browser, page }
}

/** Answers a page that asks for a code. */
export async function sendCode(browser: Browser, page: Seen, person: EnrolledAccount): Promise<Seen> {
  await forgetUsedCodes(person)
  return browser.submit(page, { action: 'code', ticket: ticketIn(page), code: codeAt(person.secret) })
}

/** Switches the second factor of an account on. */
export async function enrolAccount(person: TestAccount): Promise<EnrolledAccount> {
  const { browser, page } = await enterAccountPage(person)
  return { ...person, ...(await addApp(browser, page, person.password)) }
}

/** Signs an account in at a client, with a code. @returns the address that the client is redirected to */
export async function signInWithCode(
  browser: Browser,
  { url }: Pick<Flow, 'url'>,
  person: EnrolledAccount,
): Promise<URL> {
  const { tenant, email, password } = person
  let page = await browser.submit(await browser.open(url), { action: 'login', tenant, email, password })
  const interaction = page.url.replace(/\/auth\/interaction\/([^/]+).*$/, '/auth/interaction/$1')
  page = await sendCode(browser, { ...page, url: `${interaction}/code` }, person)
  if (!page.url.startsWith(REDIRECT)) page = await browser.submit(page, { action: 'allow' })
  if (!page.url.startsWith(REDIRECT)) throw new Error(`${page.status} ${page.url} ${page.html}`)
  return new URL(page.url)
}
