/**
 * A browser reduced to the needs of OAuth: cookies with paths, forms and redirects; and the client behind it.
 */

import { createHash, randomBytes, scryptSync } from 'node:crypto'
import { inject } from 'vitest'
import { asSuperuser, type Caller, call, type TestWorkspace, unique } from '../fixtures/tenants.ts'
import { ok } from './mcp.ts'

interface Cookie {
  readonly value: string
  readonly path: string
  readonly text: string
}

export interface Seen {
  readonly url: string
  readonly status: number
  readonly html: string
  readonly headers: Headers
}

export class Browser {
  readonly #cookies = new Map<string, Cookie>()
  /** Redirects to this address are not followed: the client listens there. */
  readonly #client: string

  constructor(client: string) {
    this.#client = client
  }

  get cookies(): readonly Cookie[] {
    return [...this.#cookies.values()]
  }

  open(url: string): Promise<Seen> {
    return this.#go('GET', url)
  }

  submit(page: Seen, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Seen> {
    return this.#go('POST', page.url, new URLSearchParams(fields), headers)
  }

  async #go(
    method: string,
    url: string,
    body?: URLSearchParams,
    headers: Record<string, string> = {},
  ): Promise<Seen> {
    const cookie = this.#cookiesFor(url)
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: { ...(cookie !== '' && { cookie }), ...headers },
      ...(body !== undefined && { body }),
    })
    this.#keep(response, url)
    const location = response.headers.get('location')
    if (location === null)
      return { url, status: response.status, html: await response.text(), headers: response.headers }
    const next = new URL(location, url).href
    if (next.startsWith(this.#client))
      return { url: next, status: response.status, html: '', headers: response.headers }
    return this.#go('GET', next)
  }

  #cookiesFor(url: string): string {
    const { hostname, pathname } = new URL(url)
    const fitting = [...this.#cookies].filter(
      ([key, { path }]) => key.endsWith(` ${hostname}`) && pathname.startsWith(path),
    )
    return fitting.map(([key, { value }]) => `${key.split(' ')[0]}=${value}`).join('; ')
  }

  #keep(response: Response, url: string): void {
    for (const text of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = text.split(/; ?/)
      const at = pair.indexOf('=')
      const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5)
      const kept = { value: pair.slice(at + 1), path: path ?? new URL(url).pathname, text }
      const key = `${pair.slice(0, at)} ${kept.path} ${new URL(url).hostname}`
      if (kept.value === '') this.#cookies.delete(key)
      else this.#cookies.set(key, kept)
    }
  }
}

export const REDIRECT = 'http://127.0.0.1:9/callback'

export interface Flow {
  readonly url: string
  readonly verifier: string
  readonly state: string
}

/** The authorization URL of a client, and the values that it keeps for the token request. */
export function authorization(clientId: string, more: Record<string, string> = {}): Flow {
  const verifier = randomBytes(32).toString('base64url')
  const state = randomBytes(8).toString('hex')
  const parameters = {
    client_id: clientId,
    response_type: 'code',
    redirect_uri: REDIRECT,
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  }
  return { url: `${inject('tenon').url}/auth/authorize?${new URLSearchParams(parameters)}`, verifier, state }
}

export interface TestAccount {
  readonly id: string
  readonly email: string
  readonly password: string
  readonly tenant: string
}

interface NewAccount {
  readonly role: string
  readonly tenant_id?: string
  readonly workspace_id?: string
}

/** An account with a password, which costs a hundredth of the time to check that others cost. */
export async function addAccount(as: Caller, body: NewAccount): Promise<TestAccount> {
  const { account } = await invite(as, body)
  const values = [account.id, cheapHash(account.password)]
  await asSuperuser(
    'update tenon.accounts set password = $2, invitation = null, invited_until = null where id = $1',
    values,
  )
  return account
}

/** An account with a password that was set on the page of its invitation. */
export async function addAccountByInvitation(as: Caller, body: NewAccount): Promise<TestAccount> {
  const { account, invitationUrl } = await invite(as, body)
  const { password } = account
  const browser = new Browser('nowhere:')
  const set = await browser.submit(await browser.open(invitationUrl), { password, again: password })
  if (set.status !== 200) throw new Error(set.html)
  return account
}

async function invite(
  as: Caller,
  body: NewAccount,
): Promise<{ account: TestAccount; invitationUrl: string }> {
  const email = `${unique('ada')}@example.test`
  const made = await ok(call('POST', '/v1/accounts', { as, body: { ...body, email } }))
  const tenant =
    made.tenant_id === null ? '' : (await ok(call('GET', `/v1/tenants/${made.tenant_id}`, { as }))).slug
  const account = { id: made.id, email, password: `correct horse ${unique('p')}`, tenant }
  return { account, invitationUrl: made.invitation_url }
}

/** In the format of the platform, which takes the parameters from each hash. */
export function cheapHash(password: string): string {
  const [log2N, r, p, salt] = [10, 8, 1, randomBytes(16)]
  const made = scryptSync(password, salt, 32, { N: 2 ** log2N, r, p })
  return ['scrypt', log2N, r, p, salt.toString('base64url'), made.toString('base64url')].join('$')
}

/** A public client of the whole platform, unless `body` says otherwise. */
export async function addClient(as: Caller, body: Record<string, unknown> = {}): Promise<string> {
  const wanted = { kind: 'public', name: 'App', redirect_uris: [REDIRECT], ...body }
  return (await ok(call('POST', '/v1/oauth-clients', { as, body: wanted }))).client_id
}

/** Signs in and consents. @returns the address that the client is redirected to in the end */
export async function signIn(browser: Browser, flow: Flow, person: TestAccount): Promise<URL> {
  const login = await browser.open(flow.url)
  const { tenant, email, password } = person
  let page = await browser.submit(login, { action: 'login', tenant, email, password })
  if (!page.url.startsWith(REDIRECT)) page = await browser.submit(page, { action: 'allow' })
  if (!page.url.startsWith(REDIRECT)) throw new Error(`${page.status} ${page.url} ${page.html}`)
  return new URL(page.url)
}

export interface Tokens {
  readonly status: number
  readonly body: Record<string, string>
}

export async function askTokens(parameters: Record<string, string>, at = inject('tenon')): Promise<Tokens> {
  const response = await fetch(`${at.url}/auth/token`, {
    method: 'POST',
    body: new URLSearchParams(parameters),
  })
  return { status: response.status, body: (await response.json()) as Record<string, string> }
}

export const exchange = (clientId: string, flow: Flow, end: URL): Promise<Tokens> =>
  askTokens({
    grant_type: 'authorization_code',
    client_id: clientId,
    code: end.searchParams.get('code') ?? '',
    redirect_uri: REDIRECT,
    code_verifier: flow.verifier,
  })

export const refresh = (clientId: string, token: string | undefined, at = inject('tenon')): Promise<Tokens> =>
  askTokens({ grant_type: 'refresh_token', client_id: clientId, refresh_token: token ?? '' }, at)

/** The whole authorization, in a browser of its own. */
export async function tokensOf(
  clientId: string,
  person: TestAccount,
  more: Record<string, string> = {},
): Promise<Tokens> {
  const flow = authorization(clientId, more)
  return exchange(clientId, flow, await signIn(new Browser(REDIRECT), flow, person))
}

export const bearer = (token: string | undefined): Caller => ({ authorization: `Bearer ${token}` })

export const claimsOf = (token = '') =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

export const inWorkspace = (workspace: TestWorkspace) => ({
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
})
