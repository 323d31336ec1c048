/** People who sign in, and the client behind their browser. */

import { createHash, randomBytes, scryptSync } from 'node:crypto'
import { inject } from 'vitest'
import { asSuperuser, type Caller, call, type TestWorkspace, unique } from '../fixtures/tenants.ts'
import { ok } from './mcp.ts'
import { Agent } from './mcp-sdk.ts'
import { Browser, REDIRECT, signIn, type TestAccount } from './page-browser.ts'

export { Browser, REDIRECT, type Seen, signIn, type TestAccount } from './page-browser.ts'

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

interface NewAccount {
  readonly role: string
  readonly tenant_id?: string
  readonly workspace_id?: string
  readonly groups?: readonly string[]
  readonly email?: string
}

/**
 * An account with a password, which costs a hundredth of the time to check that others cost. Its address is verified, as by
 * the link in a mail.
 */
export async function addAccount(as: Caller, body: NewAccount): Promise<TestAccount> {
  const { account } = await invite(as, { ...body, mail: true })
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
  body: NewAccount & { readonly mail?: boolean },
): Promise<{ account: TestAccount; invitationUrl: string }> {
  const { email = `${unique('ada')}@example.test` } = body
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

/** The OAuth side of an MCP client whose user is this person. */
export function agentOf(person: TestAccount): Agent {
  const browser = new Browser(REDIRECT)
  return new Agent((url) => signIn(browser, { url }, person))
}

export const bearer = (token: string | undefined): Caller => ({ authorization: `Bearer ${token}` })

export const claimsOf = (token = '') =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

export const inWorkspace = (workspace: TestWorkspace) => ({
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
})
