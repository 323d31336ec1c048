/** The sign-in and consent interactions of the issuer. */

import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { errors, type Grant, type Interaction, type Provider } from 'oidc-provider'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { type ScopedTool, scopeOf } from '../../core/tool-access.ts'
import { AttemptThrottle } from '../authentication/attempt-throttle.ts'
import type { McpServerRegistry } from '../authentication/mcp-server-registry.ts'
import type { Account, AccountsStore } from './accounts-store.ts'
import type { ConsentOutcome, IssuerAudit, Requester } from './audit-events.ts'
import type { OAuthClient, OAuthClients } from './oauth-clients-store.ts'
import { API_SCOPE, type ResourceIndicators } from './resource-indicators.ts'

const OPENID = 'openid'

export interface SignInParts {
  readonly issuer: string
  readonly provider: () => Promise<Provider>
  readonly people: AccountsStore
  readonly clients: OAuthClients
  readonly hosted: McpServerRegistry
  readonly targets: ResourceIndicators
  readonly records: IssuerAudit
}

/** A browser in the middle of an authorization: its cookies say which. */
export interface InteractionRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The last part of the page's path. */
  readonly uid: string
  /** For the audit log. */
  readonly by: Requester
}

/** What the person is to be asked. */
export interface Prompt {
  readonly kind: 'login' | 'consent'
  readonly clientName: string
  /** Nobody has vouched for its name. */
  readonly registered: boolean
  /** Where she is sent when she has answered. */
  readonly redirectUri: string
  /** Whether the tenant has to be named: nothing that is asked for says it. */
  readonly asksTenant: boolean
  /** What the client will be granted. */
  readonly access: readonly ScopeAccess[]
  readonly resource: string
  /** The name of the hosted server that the resource is; empty for the REST API. */
  readonly serverName: string
  readonly email: string
  /** Whether her account may use this client for this resource. */
  readonly isAllowed: boolean
}

/** A scope, and the tools that it reaches at a hosted server. */
export interface ScopeAccess {
  readonly scope: string
  readonly tools: readonly ScopedTool[]
}

export interface Credentials {
  readonly tenant: string
  readonly email: string
  readonly password: string
  /** Whence it came, as platform/limiter/address has it. */
  readonly network: string
}

export type LoginResult = { readonly redirect: string } | { readonly refused: 'wrong' | 'too_many' }

export class SignIn {
  readonly #parts: SignInParts
  readonly #throttle = new AttemptThrottle()

  constructor(parts: SignInParts) {
    this.#parts = parts
  }

  /** @throws Problem `not_found` where no authorization is under way in this browser */
  async ask(exchange: InteractionRequest): Promise<Prompt> {
    const { details, client } = await this.#open(exchange)
    const person = await this.#personOf(details)
    const resource = String(details.params['resource'] ?? '')
    return {
      kind: details.prompt.name === 'login' ? 'login' : 'consent',
      clientName: client.name,
      registered: client.registered,
      redirectUri: String(details.params['redirect_uri']),
      asksTenant: (await this.#tenantOf(details, client)) === undefined,
      ...(await this.#accessOf(details)),
      resource,
      email: person?.email ?? '',
      isAllowed: person !== undefined && (await this.#parts.targets.allows(person, client.id, resource)),
    }
  }

  /** @throws Problem as {@link ask}, and `overloaded` */
  async login(exchange: InteractionRequest, credentials: Credentials): Promise<LoginResult> {
    const { details, client, provider } = await this.#open(exchange)
    const known = await this.#tenantOf(details, client)
    const person = await this.#recognise(exchange.by, credentials, { tenant: known, clientId: client.id })
    if (typeof person === 'string') return { refused: person }
    this.#parts.records.signedIn(exchange.by, person, client.id)
    const result = { login: { accountId: person.id } }
    const { request, response } = exchange
    return {
      redirect: await provider.interactionResult(request, response, result, {
        mergeWithLastSubmission: false,
      }),
    }
  }

  /** Sets another password for a person with the present one. @throws Problem `overloaded` */
  async change(
    by: Requester,
    credentials: Credentials,
    password: string,
  ): Promise<'changed' | 'wrong' | 'too_many'> {
    const person = await this.#recognise(by, credentials, {})
    if (typeof person === 'string') return person
    const account = await this.#parts.people.change(person, password)
    if (account === undefined) return 'wrong'
    this.#parts.records.passwordSet(by, account)
    return 'changed'
  }

  /** @param at the tenant, if it follows from elsewhere than from what the person names; the client, if there is one */
  async #recognise(
    by: Requester,
    credentials: Credentials,
    at: { readonly tenant?: string | undefined; readonly clientId?: string },
  ): Promise<Account | 'wrong' | 'too_many'> {
    const tenant = at.tenant ?? (await this.#tenantNamed(credentials.tenant))
    const { email, password, network } = credentials
    const guessed = this.#guessed(hash('sha256', `${tenant}/${email.toLowerCase()}`), network)
    const refuse = (refused: 'wrong' | 'too_many', accountId?: string) => {
      const { clientId } = at
      this.#parts.records.signInRefused(by, { tenantId: tenant ?? undefined, accountId, clientId }, refused)
      return refused
    }
    if (!guessed.every(([name, max]) => this.#throttle.admit(name, max))) return refuse('too_many')
    const { person, accountId } = await this.#parts.people.verifyCredentials(tenant, email, password)
    if (person === undefined) return refuse('wrong', accountId)
    const [address, here, anywhere] = guessed
    this.#throttle.uncount(address[0])
    this.#throttle.uncount(anywhere[0])
    this.#throttle.reset(here[0])
    return person
  }

  /** @returns where to go on. @throws Problem as {@link ask}; `forbidden` where it is not hers to allow */
  async allow(exchange: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#open(exchange)
    const { isAllowed: possible, access } = await this.ask(exchange)
    const mayAllow = details.prompt.name === 'consent' && possible
    await this.#record(exchange, details, mayAllow ? 'allowed' : 'forbidden')
    if (!mayAllow) throw new Problem('forbidden')
    const grant = grantOf(provider, details, access)
    const result = { consent: { grantId: await grant.save() } }
    return provider.interactionResult(exchange.request, exchange.response, result)
  }

  /** @returns where to go on */
  async deny(exchange: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#open(exchange)
    await this.#record(exchange, details, 'denied')
    const { request, response } = exchange
    const result = { error: 'access_denied', error_description: 'it was not allowed' }
    return provider.interactionResult(request, response, result, { mergeWithLastSubmission: false })
  }

  /** Records the answer of a person who is signed in; somebody who cancels the sign-in has decided nothing. */
  async #record({ by }: InteractionRequest, details: Interaction, verdict: ConsentOutcome): Promise<void> {
    const person = await this.#personOf(details)
    if (person === undefined) return
    const { client_id: clientId, resource = '', scope = '' } = details.params
    const asked = { clientId: String(clientId), resource: String(resource), scope: String(scope) }
    const server = await this.#parts.hosted.byResource(asked.resource)
    this.#parts.records.consent(by, person, verdict, { ...asked, workspaceId: server?.ref.workspaceId })
  }

  /** Ends the session, so that somebody else may sign in. @returns where the same authorization begins anew */
  async leave(exchange: InteractionRequest): Promise<string> {
    const { details, provider } = await this.#open(exchange)
    const uid = details.session?.uid
    const session = uid === undefined ? undefined : await provider.Session.findByUid(uid)
    await session?.destroy()
    const params = new URLSearchParams()
    for (const [name, value] of Object.entries(details.params)) params.set(name, String(value))
    return `${this.#parts.issuer}/authorize?${params}`
  }

  /**
   * What an attempt counts as, one after the other: what was refused as one is not counted as the next, so that
   * somebody who may guess no more locks nobody out. From many addresses together more may be tried than from one.
   * @param account a digest: the text may be as long as a form
   */
  #guessed(account: string, network: string) {
    return [
      [`address:${network}`, LIMITS.attemptsMax.address],
      [`account:${account}:${network}`, LIMITS.attemptsMax.accountFromAddress],
      [`account:${account}`, LIMITS.attemptsMax.account],
    ] as const
  }

  async #open({ request, response, uid }: InteractionRequest) {
    const provider = await this.#parts.provider()
    const details = await provider.interactionDetails(request, response).catch((cause: unknown) => {
      if (cause instanceof errors.SessionNotFound) throw new Problem('not_found', { cause })
      throw cause
    })
    const client = await this.#parts.clients.find(String(details.params['client_id']))
    if (details.uid !== uid || client === undefined) throw new Problem('not_found')
    return { provider, details, client }
  }

  async #personOf({ session }: Interaction): Promise<Account | undefined> {
    return session?.accountId === undefined ? undefined : this.#parts.people.find(session.accountId)
  }

  /** The tenant that follows from the client or from the server that is asked for. */
  async #tenantOf(details: Interaction, client: OAuthClient): Promise<string | undefined> {
    if (client.tenantId !== null) return client.tenantId
    const server = await this.#parts.hosted.byResource(String(details.params['resource'] ?? ''))
    return server?.ref.tenantId
  }

  /** What is asked for and can be granted: at a hosted server, in the version that was active when the question arose. */
  async #accessOf({ params, prompt }: Interaction): Promise<Pick<Prompt, 'access' | 'serverName'>> {
    const asked = [...new Set(String(params['scope'] ?? '').split(' '))].filter(Boolean)
    const server = await this.#parts.hosted.byResource(String(params['resource'] ?? ''))
    const { version } = prompt.details as ConsentDetails
    const tools = server && version !== undefined ? await this.#parts.hosted.tools(server, version) : []
    const access = asked.map((scope) => ({
      scope,
      tools: tools.filter((tool) => server !== undefined && scopeOf(server.slug, tool) === scope),
    }))
    const granted = access.filter((one) => OWN_SCOPES.has(one.scope) || one.tools.length > 0)
    return { access: granted, serverName: server?.name ?? '' }
  }

  /** Empty: the operators. */
  async #tenantNamed(slug: string): Promise<string | null | undefined> {
    return slug === '' ? null : this.#parts.people.tenantOf(slug)
  }
}

/** What the consent prompt notes when it begins (issuer.ts). */
interface ConsentDetails {
  readonly version?: number
}

/** Scopes that stand for no tools. */
const OWN_SCOPES = new Set([OPENID, API_SCOPE])

/** The provider keeps no member of ours in a grant. A resource with a fragment is none that a request can name (RFC 8707 §2). */
const versionKey = (resource: string) => `${resource}#version`

/** The version of a hosted server whose tools were consented to; undefined for other resources. */
export function consentedVersion(grant: Grant | undefined, resource: string): number | undefined {
  return Number(grant?.getResourceScope(versionKey(resource))) || undefined
}

/** Each consent is a grant of its own: what was given under an earlier one stays as it was consented to then. */
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
  const { version } = prompt.details as ConsentDetails
  if (version !== undefined) grant.addResourceScope(versionKey(resource), String(version))
  return grant
}
