/** Further factors of users in tests: an authenticator app, and the page of the own account. */

import { Secret, TOTP } from 'otpauth'
import { asSuperuser } from '../fixtures/tenants.ts'
import { Browser, type Seen } from './browser.ts'
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
export const forgetUsedCodes = ({ id }: Enrolled): Promise<unknown> =>
  asSuperuser('update tenon.second_factors set last_step = 0 where user_id = $1', [id])

const ticketIn = ({ html }: Seen) => /name="ticket" value="([^"]+)"/.exec(html)?.[1] ?? ''

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
  const setup = await browser.submit(page, { action: 'totp_begin', current: user.password })
  const [, secret = ''] = /secret=([A-Z2-7]+)/.exec(setup.html) ?? []
  const form = { action: 'totp_on', ticket: ticketIn(setup), code: codeAt(secret) }
  const { html } = await browser.submit(page, form)
  const recovery = [...html.matchAll(/<li><code>([^<]+)<\/code>/g)].map(([, code = '']) => code)
  return { ...user, secret, recovery }
}
