/** End users of a workspace: signs them up by the pages and mails, and in at a client of their workspace. */

import { expect, inject } from 'vitest'
import { asSuperuser, call, type TestWorkspace, unique } from '../fixtures/tenants.ts'
import { configure } from '../stack/workspace-settings.ts'
import {
  authorization,
  Browser,
  cheapHash,
  exchange,
  type Flow,
  inWorkspace,
  REDIRECT,
  type Seen,
  type Tokens,
} from './browser.ts'
import { mailTo } from './mails.ts'
import { ok } from './mcp.ts'

export interface TestUser {
  readonly email: string
  readonly password: string
}

/** A redirect URI that is not on the user's machine. A client with this one alone signs in without a question in a session. */
export const WEB_REDIRECT = 'https://app.test/callback'

export interface UserApp {
  readonly workspace: TestWorkspace
  readonly clientId: string
}

export const newUser = (): TestUser => ({
  email: `${unique('uma')}@example.test`,
  password: `correct horse ${unique('p')}`,
})

/** A client for the users of a workspace in which anybody can sign up. */
export async function createUserApp(workspace: TestWorkspace, signUp = 'open'): Promise<UserApp> {
  await configure(workspace, { auth: { sign_up: signUp } })
  return { workspace, clientId: await addUserClient(workspace, [REDIRECT, WEB_REDIRECT]) }
}

/** Another client for the users of the workspace. */
export async function addUserClient(workspace: TestWorkspace, redirectUris: string[]): Promise<string> {
  const body = {
    kind: 'public',
    audience: 'users',
    name: 'App',
    redirect_uris: redirectUris,
    ...inWorkspace(workspace),
  }
  return (await ok(call('POST', '/v1/oauth-clients', { as: workspace.operator, body }))).client_id
}

type Step = 'sign-in' | 'sign-up' | 'forgot' | 'code' | 'passkey' | 'identity'

/** The address of another page of an authorization, at the same browser. */
const stepOf = (page: Seen, step: Step): string => {
  const [interaction = ''] = /^.*\/auth\/interaction\/[^/]+/.exec(page.url) ?? []
  return `${interaction}/${step}`
}

/** Sends the form of a step. */
export async function submitStep(
  browser: Browser,
  page: Seen,
  step: Step,
  fields: Record<string, string>,
): Promise<Seen> {
  return browser.submit({ ...page, url: stepOf(page, step) }, fields)
}

export const signUpForm = ({ email, password }: TestUser, more: Record<string, string> = {}) => ({
  action: 'sign_up',
  email,
  password,
  again: password,
  ...more,
})

/** Sends the sign-up form. @returns the link in the mail */
export async function signUp({ clientId }: UserApp, user: TestUser): Promise<string> {
  const browser = new Browser(REDIRECT)
  const page = await browser.open(authorization(clientId).url)
  const sent = await submitStep(browser, page, 'sign-up', signUpForm(user))
  if (sent.status !== 200) throw new Error(`${sent.status} ${sent.html}`)
  return (await mailTo(user.email, 'Confirm your e-mail address')).link
}

/** Uses the link of a mail. */
export async function confirm(link: string, { password }: TestUser): Promise<Seen> {
  const browser = new Browser('nowhere:')
  return browser.submit(await browser.open(link), { action: 'confirm', password, again: password })
}

/** A user whose password is hashed with a hundredth of the cost that the platform uses. */
export async function addUser(app: UserApp, user = newUser()): Promise<TestUser & { readonly id: string }> {
  const { id } = await invite(app, user.email)
  await asSuperuser(
    `with link as (delete from tenon.user_links where user_id = $1)
    update tenon.users set password = $2, email_verified_at = now() where id = $1`,
    [id, cheapHash(user.password)],
  )
  return { ...user, id }
}

/** A user who has accepted an invitation; the password is hashed with the cost that the platform uses. */
export async function addUserByInvitation(
  app: UserApp,
  user = newUser(),
): Promise<TestUser & { readonly id: string }> {
  const { id, invitation_url: url } = await invite(app, user.email)
  const { password } = user
  const browser = new Browser('nowhere:')
  const set = await browser.submit(await browser.open(url), { action: 'set', password, again: password })
  if (set.status !== 200) throw new Error(`${set.status} ${set.html}`)
  return { ...user, id }
}

/** Sends the password that a sign-in at an identity provider asks for, since a user has the address. @returns the page that follows */
export function connectIdentity(browser: Browser, page: Seen, password: string): Promise<Seen> {
  const ticket = /name="ticket" value="([^"]+)"/.exec(page.html)?.[1] ?? ''
  return submitStep(browser, page, 'identity', { action: 'identity', ticket, password })
}

const invite = ({ workspace }: UserApp, email: string) =>
  ok(
    call('POST', '/v1/users', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, email },
    }),
  )

export async function idOf({ workspace }: UserApp, email: string): Promise<string> {
  const query = new URLSearchParams({ workspace_id: workspace.workspaceId, email })
  const { data } = await ok(call('GET', `/v1/users?${query}`, { as: workspace.operator }))
  return data[0].id
}

/** Sends the sign-in form. @returns the page that follows */
export async function trySignIn(browser: Browser, flow: Flow, { email, password }: TestUser): Promise<Seen> {
  const page = await browser.open(flow.url)
  return browser.submit(page, { action: 'login', email, password })
}

/** @returns the tokens of a user who signs in with a browser of their own */
export async function userTokens(
  { clientId }: UserApp,
  user: TestUser,
  more: Record<string, string> = {},
): Promise<Tokens> {
  const flow = authorization(clientId, more)
  const end = await trySignIn(new Browser(REDIRECT), flow, user)
  if (!end.url.startsWith(REDIRECT)) throw new Error(`${end.status} ${end.url} ${end.html}`)
  return exchange(clientId, flow, new URL(end.url))
}

/** The page of a user's own account. */
export const accountPageOf = ({ clientId }: UserApp): string =>
  `${inject('tenon').url}/auth/user?client_id=${clientId}`

/** Rounds of a comparison: so many at least, and at most before it fails. */
const ROUNDS = { min: 4, max: 20 }

/**
 * Checks that two kinds of request take the same time. Of each, the fastest of some counts, in turn: what else the machine does slows
 * the others alone. @param works prepare a request, and return what is measured
 */
export async function expectSameDuration(
  works: Readonly<Record<string, () => Promise<() => Promise<unknown>>>>,
): Promise<void> {
  const fastest = new Map<string, number>()
  const ratio = () => Math.max(...fastest.values()) / Math.min(...fastest.values())
  for (let n = 0; n < ROUNDS.min || (n < ROUNDS.max && ratio() >= 2); n++) {
    for (const [name, prepare] of Object.entries(works)) {
      const work = await prepare()
      const startedMs = performance.now()
      await work()
      const tookMs = performance.now() - startedMs
      fastest.set(name, Math.min(tookMs, fastest.get(name) ?? Number.POSITIVE_INFINITY))
    }
  }
  expect(ratio(), JSON.stringify([...fastest])).toBeLessThan(2)
}
