/** The sign-in and consent interactions of the issuer. */

import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { JWTPayload } from 'jose'
import { errors, type Grant, type Interaction, type InteractionResults, type Provider } from 'oidc-provider'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { acrOf, METHODS } from '../../../access/authentication/claims.ts'
import type { ServerVersion } from '../../../access/authentication/mcp-server-registry.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { networkOf } from '../../../access/rate-limit/memory-buckets.ts'
import { Problem } from '../../../core/problem.ts'
import type { Account } from '../accounts/accounts-store.ts'
import type { ClientDocuments } from '../clients/client-documents.ts'
import type { OAuthClient } from '../clients/oauth-clients-store.ts'
import { isUser, type UserAccount, type UserWorkspace } from '../users/users-store.ts'
import type { ConsentOutcome, IssuerAudit, Requester } from './audit-events.ts'
import { accessWithTools, type ScopeAccess, versionKey, versionScope } from './grants.ts'
import type { IssuerServices } from './issuer-services.ts'
import type { ResourceIndicators } from './resource-indicators.ts'
import { findSubject, isClientFor } from './subjects.ts'

const OPENID = 'openid'

/** The services and settings that its parts share. */
export interface IssuerSettings extends IssuerServices {
  readonly issuer: string
  /** Audience of tokens for the REST API. */
  readonly audience: string
  /** Of the client `tenon-operator`: each is accepted. */
  readonly operatorSecrets: readonly string[]
  /** The first one signs cookies, each verifies them. */
  readonly cookieKeys: readonly string[]
  readonly resources: ResourceIndicators
  readonly issuerAudit: IssuerAudit
  readonly clientDocuments: ClientDocuments
  readonly provider: () => Promise<Provider>
  /** Verifies an access token of this issuer for any audience. Rejects with a jose error if it is invalid. */
  readonly verify: (token: string) => Promise<JWTPayload>
}

/** A request of a browser during an authorization, which its cookies identify. */
export interface InteractionRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The last part of the page's path. */
  readonly uid: string
  /** For the audit log. */
  readonly by: Requester
}

/** The content of a sign-in or consent page. */
export interface Prompt {
  readonly kind: 'login' | 'consent'
  readonly clientId: string
  readonly clientName: string
  /** True if the client registered itself: its name is not verified. */
  readonly registered: boolean
  readonly redirectUri: string
  /** True if neither client nor resource determines the tenant. */
  readonly asksTenant: boolean
  /** The scopes that the client will be granted. */
  readonly access: readonly ScopeAccess[]
  readonly resource: string
  /** The name of the hosted MCP server; empty for the REST API. */
  readonly serverName: string
  readonly email: string
  /** True if the account may use this client for this resource. */
  readonly isAllowed: boolean
  /** Set if the client is for the users of this workspace. */
  readonly workspace?: UserWorkspace
  /** The client asks for a sign-up (OpenID Initiating User Registration 1.0), and the workspace allows it. */
  readonly startsWithSignUp: boolean
}

export interface Credentials {
  /** The slug; empty for operators. */
  readonly tenant: string
  readonly email: string
  readonly password: string
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
}

/**
 * `ticket`: the password is right, and a code is needed as well (factors/second-factors.ts). `needsFactor`: the account has to add a second
 * factor first.
 */
export type LoginResult =
  | { readonly redirect: string }
  | { readonly ticket: string }
  | { readonly needsFactor: true }
  | { readonly refused: 'wrong' | 'too_many' }

export class SignIn {
  readonly #services: IssuerSettings
  readonly #throttle = new AttemptThrottle()

  constructor(parts: IssuerSettings) {
    this.#services = parts
  }

  /** The page to show. @throws Problem `not_found` if no authorization is under way in this browser */
  async ask(interaction: InteractionRequest): Promise<Prompt> {
    const { details, client } = await this.#details(interaction)
    const account = await this.#findAccount(details, client)
    const resource = String(details.params['resource'] ?? '')
    const workspace = await this.#userWorkspace(client)
    const { name: prompt } = details.prompt
    return {
      kind: prompt === 'consent' ? 'consent' : 'login',
      ...(workspace !== undefined && { workspace }),
      startsWithSignUp: prompt === 'create' && workspace?.signUp === 'open',
      clientId: client.id,
      clientName: client.name,
      registered: client.registered,
      redirectUri: String(details.params['redirect_uri']),
      asksTenant: (await this.#findTenant(details, client)) === undefined,
      ...(await this.#readAccess(details)),
      resource,
      email: account?.email ?? '',
      isAllowed:
        account !== undefined && (await this.#services.resources.allows(account, client.id, resource)),
    }
  }

  /** Signs in with a password. @throws Problem as {@link ask}, and `rate_limited` */
  async login(interaction: InteractionRequest, credentials: Credentials): Promise<LoginResult> {
    const { details, client } = await this.#details(interaction)
    const account = await this.#authenticate(interaction.by, credentials, {
      tenant: await this.#findTenant(details, client),
      clientId: client.id,
      workspace: await this.#userWorkspace(client),
    })
    if (typeof account === 'string') return { refused: account }
    const ticket = await this.#services.secondFactors.challenge(account, interaction.uid)
    if (ticket !== undefined) return { ticket }
    if (await this.needsFactor(account)) return { needsFactor: true }
    return { redirect: await this.#end(interaction, account, METHODS.password) }
  }

  /** True if a person whose password is right, and who has no second factor, has to add one first. */
  async needsFactor(person: Account): Promise<boolean> {
    return !isUser(person) && (await this.#services.accounts.requiresSecondFactor(person.tenantId))
  }

  /**
   * Signs in a person whom other means than a password have identified, with a second factor if the person has one.
   * @param methods of RFC 8176, for the tokens
   * @returns the URL to redirect to. @throws Problem as {@link ask}, also if the client is not for this person
   */
  async loginAs(
    interaction: InteractionRequest,
    person: Account,
    methods: readonly string[],
  ): Promise<string> {
    const { client } = await this.#details(interaction)
    if (!isClientFor(client, person)) throw new Problem('not_found')
    return this.#end(interaction, person, methods)
  }

  /** Records the end of a sign-in, with all factors that it has asked for. @param at the client or the page */
  async recordSignIn(by: Requester, person: Account, at: string): Promise<void> {
    const { accounts, users, issuerAudit } = this.#services
    issuerAudit.signedIn(by, person, at)
    await (isUser(person) ? users : accounts).recordSignIn(person)
  }

  /** Signs the account in at the client. @returns the URL to redirect to */
  async #end(interaction: InteractionRequest, account: Account, methods: readonly string[]): Promise<string> {
    const { details, client, provider } = await this.#details(interaction)
    await this.recordSignIn(interaction.by, account, client.id)
    // The prompt `create` ends with the sign-in as well.
    const login = { accountId: account.id, amr: [...methods], acr: acrOf(methods) }
    const redirect = await finish(provider, interaction, { login, create: {} })
    await replaceSubject(provider, details, account.id)
    return redirect
  }

  /**
   * Sets another password for the holder of the present one, if that alone signs the account in.
   * @throws Problem `rate_limited`
   */
  async change(
    by: Requester,
    credentials: Credentials,
    password: string,
  ): Promise<'changed' | 'wrong' | 'too_many' | 'second_factor'> {
    const account = await this.#authenticate(by, credentials, {})
    if (typeof account === 'string') return account
    if ((await this.#services.secondFactors.read(account)) !== undefined) return 'second_factor'
    return (await this.changePassword(by, account, password)) ? 'changed' : 'wrong'
  }

  /** Ends all sessions and tokens of an account. */
  async signOut(by: Requester, account: Account): Promise<void> {
    if (await this.#services.accounts.signOut(account))
      this.#services.issuerAudit.personChanged(by, account, 'sign_out')
  }

  /** Sets another password. @returns false if the account has changed since it was read. @throws Problem `rate_limited` */
  async changePassword(by: Requester, account: Account, password: string): Promise<boolean> {
    const changed = await this.#services.accounts.change(account, password, networkOf(by.address))
    if (changed !== undefined) this.#services.issuerAudit.passwordSet(by, changed)
    return changed !== undefined
  }

  /**
   * The account with this password, for a page of the platform itself, which also asks for the second factor and records the
   * sign-in.
   * @param tenantId undefined: the tenant that the credentials name
   * @throws Problem `rate_limited`
   */
  async identify(
    by: Requester,
    credentials: Credentials,
    tenantId: string | undefined,
    page: string,
  ): Promise<Account | 'wrong' | 'too_many'> {
    return this.#authenticate(by, credentials, { tenant: tenantId, clientId: page })
  }

  /**
   * The user with this password, for a page of the platform itself, which also asks for the second factor and records the
   * sign-in.
   * @throws Problem `rate_limited`
   */
  async identifyUser(
    by: Requester,
    credentials: Omit<Credentials, 'tenant'>,
    workspace: UserWorkspace,
    page: string,
  ): Promise<UserAccount | 'wrong' | 'too_many'> {
    const at = { tenant: workspace.tenantId, clientId: page, workspace }
    const user = await this.#authenticate(by, { ...credentials, tenant: '' }, at)
    if (typeof user === 'string') return user
    if (!isUser(user)) throw new TypeError('a user of a workspace must have the role user')
    return user
  }

  /** @param at the tenant, if client or resource determine it, and the client and the workspace of users, if there is one */
  async #authenticate(
    by: Requester,
    credentials: Credentials,
    at: {
      readonly tenant?: string | undefined
      readonly clientId?: string
      readonly workspace?: UserWorkspace | undefined
    },
  ): Promise<Account | 'wrong' | 'too_many'> {
    const { tenant: slug, email, password, network } = credentials
    const { clientId, workspace } = at
    const tenant = at.tenant ?? (slug === '' ? null : await this.#services.accounts.findTenant(slug))
    const realm = workspace?.workspaceId ?? tenant
    const attempts = this.#attemptsOf(hash('sha256', `${realm}/${email.toLowerCase()}`), network)
    const refuse = (refused: 'wrong' | 'too_many', accountId?: string) => {
      const { workspaceId } = workspace ?? {}
      this.#services.issuerAudit.signInRefused(
        by,
        { tenantId: tenant ?? undefined, workspaceId, accountId, clientId },
        refused,
      )
      return refused
    }
    if (!attempts.every(([name, max]) => this.#throttle.admit(name, max))) return refuse('too_many')
    const { accounts, users } = this.#services
    const { account, accountId } = await this.#throttle.uncountIfFailed(
      attempts.map(([name]) => name),
      workspace === undefined
        ? accounts.verifyCredentials(tenant, email, password, network)
        : users.verifyCredentials(workspace, email, password, network),
    )
    if (account === undefined) return refuse('wrong', accountId)
    const [address, here, anywhere] = attempts
    this.#throttle.uncount(address[0])
    this.#throttle.uncount(anywhere[0])
    this.#throttle.reset(here[0])
    return account
  }

  /** Grants the scopes. @returns the URL to redirect to. @throws Problem as {@link ask}; `forbidden` if the account may not */
  async allow(interaction: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#details(interaction)
    const { isAllowed, access } = await this.ask(interaction)
    const mayAllow = details.prompt.name === 'consent' && isAllowed
    await this.#record(interaction, details, mayAllow ? 'allowed' : 'forbidden')
    if (!mayAllow) throw new Problem('forbidden')
    const grantId = await grantOf(provider, details, access).save()
    return provider.interactionResult(interaction.request, interaction.response, { consent: { grantId } })
  }

  /** @returns the URL to redirect to */
  async deny(interaction: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#details(interaction)
    await this.#record(interaction, details, 'denied')
    return finish(provider, interaction, {
      error: 'access_denied',
      error_description: 'access was denied',
    })
  }

  /** Records the decision of an account that is signed in; cancelling the sign-in is none. */
  async #record({ by }: InteractionRequest, details: Interaction, outcome: ConsentOutcome): Promise<void> {
    const client = await this.#services.oauthClients.find(String(details.params['client_id']))
    const account = client && (await this.#findAccount(details, client))
    if (account === undefined) return
    const { client_id: clientId, resource = '', scope = '' } = details.params
    const request = { clientId: String(clientId), resource: String(resource), scope: String(scope) }
    const server = await this.#services.mcpServers.byResource(request.resource)
    this.#services.issuerAudit.consent(by, account, outcome, {
      ...request,
      workspaceId: server?.ref.workspaceId,
    })
  }

  /** Ends the session, so that another account can sign in. @returns the URL that restarts the authorization */
  async leave(interaction: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#details(interaction)
    const uid = details.session?.uid
    const session = uid === undefined ? undefined : await provider.Session.findByUid(uid)
    await session?.destroy()
    const params = new URLSearchParams()
    for (const [name, value] of Object.entries(details.params)) params.set(name, String(value))
    return `${this.#services.issuer}/authorize?${params}`
  }

  /**
   * The counters of an attempt, checked in this order: an attempt that one refuses is not counted by the next, so that a
   * blocked client cannot lock out the account. All addresses together may try more often than one.
   * @param account a digest, since the text may be as long as a form
   */
  #attemptsOf(account: string, network: string) {
    return [
      [`address:${network}`, this.#services.config.TENON_SIGN_INS_PER_ADDRESS],
      [`account:${account}:${network}`, ACCESS_LIMITS.attemptsMax.accountFromAddress],
      [`account:${account}`, ACCESS_LIMITS.attemptsMax.account],
    ] as const
  }

  async #details({ request, response, uid }: InteractionRequest) {
    const provider = await this.#services.provider()
    const details = await provider.interactionDetails(request, response).catch((cause: unknown) => {
      if (cause instanceof errors.SessionNotFound) throw new Problem('not_found', { cause })
      throw cause
    })
    const client = await this.#services.oauthClients.find(String(details.params['client_id']))
    if (details.uid !== uid || client === undefined) throw new Problem('not_found')
    return { provider, details, client }
  }

  /** The subject of the browser's session, if it may sign in at the client. */
  async #findAccount({ session }: Interaction, client: OAuthClient): Promise<Account | undefined> {
    return session?.accountId === undefined
      ? undefined
      : findSubject(this.#services, session.accountId, client)
  }

  async #userWorkspace(client: OAuthClient): Promise<UserWorkspace | undefined> {
    if (client.audience !== 'users') return undefined
    const workspace = await this.#services.users.workspace(client.workspaceId)
    if (workspace === undefined) throw new Problem('not_found')
    return workspace
  }

  /** The tenant of the client or of the requested server. */
  async #findTenant({ params }: Interaction, { tenantId }: OAuthClient): Promise<string | undefined> {
    return (
      tenantId ?? (await this.#services.mcpServers.byResource(String(params['resource'] ?? '')))?.ref.tenantId
    )
  }

  /** The requested scopes that can be granted; at a hosted server, in the version that was active when the prompt began. */
  async #readAccess({ params, prompt }: Interaction): Promise<Pick<Prompt, 'access' | 'serverName'>> {
    const requested = [...new Set(String(params['scope'] ?? '').split(' '))].filter(Boolean)
    const resource = String(params['resource'] ?? '')
    const server = await this.#services.mcpServers.byResource(resource)
    const { shownVersion } = prompt.details as ConsentDetails
    const own = [OPENID, ...this.#services.resources.ownScopes(resource)]
    const isSame = server !== undefined && shownVersion?.serverId === server.id
    const tools = isSame ? await this.#services.mcpServers.tools(server, shownVersion.version) : []
    const access = accessWithTools(requested, server, tools)
    const granted = access.filter((one) => own.includes(one.scope) || one.tools.length > 0)
    return { access: granted, serverName: server?.name ?? '' }
  }
}

/**
 * Ends the part of another subject in the browser's session, before the authorization of a new one resumes. The provider
 * would ask to confirm this on a page of its own. Its interactions end with this, so it comes after {@link finish}.
 */
async function replaceSubject(
  provider: Provider,
  { session }: Interaction,
  accountId: string,
): Promise<void> {
  if (session?.accountId === undefined || session.accountId === accountId) return
  const stored = await provider.Session.findByUid(session.uid)
  if (stored === undefined) return
  delete stored.accountId
  delete stored.authorizations
  await stored.persist()
}

/** Ends an interaction. @returns the URL to redirect to */
const finish = (provider: Provider, { request, response }: InteractionRequest, result: InteractionResults) =>
  provider.interactionResult(request, response, result, { mergeWithLastSubmission: false })

/** Set by the consent prompt when it begins (provider.ts). */
interface ConsentDetails {
  /** The version whose tools the page shows. */
  readonly shownVersion?: ServerVersion
}

/** Creates a grant for each consent: tokens of earlier grants keep the scopes that were consented to then. */
function grantOf(
  provider: Provider,
  { session, params, prompt }: Interaction,
  access: readonly ScopeAccess[],
): Grant {
  const grant = new provider.Grant({
    accountId: session?.accountId ?? '',
    clientId: String(params['client_id']),
  })
  const resource = String(params['resource'])
  for (const { scope } of access) {
    if (scope === OPENID) grant.addOIDCScope(scope)
    else grant.addResourceScope(resource, scope)
  }
  const { shownVersion } = prompt.details as ConsentDetails
  if (shownVersion !== undefined) grant.addResourceScope(versionKey(resource), versionScope(shownVersion))
  return grant
}
