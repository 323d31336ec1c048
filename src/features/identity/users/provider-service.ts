/** Signs users in whom an identity provider of their workspace has identified. */

import { AuthorizationResponseError } from 'openid-client'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { Problem } from '../../../core/problem.ts'
import { Tickets } from '../factors/tickets.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { IssuerServices } from '../issuer/issuer-services.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { CODE_ERRORS } from '../pages/factor-pages.ts'
import { providerName } from '../pages/identity-pages.ts'
import { LOGIN_ERRORS } from '../pages/pages.ts'
import { type Refusal, USER_LIMIT } from '../pages/user-pages.ts'
import type { ProvenIdentity } from './identities-store.ts'
import type { StoredProvider } from './identity-provider-settings.ts'
import type { Identity } from './identity-providers.ts'
import { reportSignInChange } from './sign-in-changes.ts'
import { isUserEmail, isUserName } from './user-service.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

type Services = Pick<
  IssuerServices,
  'config' | 'log' | 'secrets' | 'users' | 'userLinks' | 'userMails' | 'identityProviders' | 'identitiesStore'
>

/** The sign-in that a browser continues. */
interface Visit {
  readonly by: Requester
  readonly workspace: UserWorkspace
  /** Identifies the sign-in. */
  readonly at: string
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
}

/** The authorization response, which the provider sends as parameters of a redirect (RFC 6749 §4.1.2). */
interface Answer extends Visit {
  readonly parameters: URLSearchParams
  /** The client, for the audit log. */
  readonly clientId: string
}

/** A user whom a provider has identified. The sign-in ends with {@link ProviderService.complete}. */
export interface Identified {
  readonly user: UserAccount
  readonly identity: ProvenIdentity
}

/**
 * The next step for a person whom the provider signs in for the first time, if a user has the address of that person. `password`:
 * the page asks for the password of the user. `mail`: the user, who has no password, gets a mail with a link.
 */
export type Confirmation =
  | { readonly ask: 'password'; readonly identified: Identified; readonly ticket: string }
  | { readonly ask: 'mail'; readonly provider: string }

/** An identity that a user with a password has not connected yet. */
interface Unconfirmed {
  readonly userId: string
  readonly generation: number
  readonly identity: ProvenIdentity
  readonly at: string
}

const UNKNOWN: Refusal = { status: 404, text: 'This sign-in method is no longer available.' }
const EXPIRED: Refusal = CODE_ERRORS.expired
const TOO_MANY: Refusal = LOGIN_ERRORS.too_many
const INACTIVE: Refusal = { status: 403, text: 'This account cannot sign in.' }
const CLOSED: Refusal = { status: 403, text: 'No account has your e-mail address.' }

const disconnected = ({ name }: StoredProvider): Refusal => ({
  status: 403,
  text: `You have disconnected ${name} from your account. Sign in another way, then connect it again on the page of your account.`,
})

/** True if no response came; the library wraps errors of requests. */
const isUnavailable = (error: unknown): boolean =>
  error instanceof Problem || (error instanceof Error && error.cause instanceof Problem)

const unavailable = ({ name }: StoredProvider): Refusal => ({
  status: 503,
  text: `${name} cannot be reached at the moment. Try again later, or sign in another way.`,
})
const denied = ({ name }: StoredProvider): Refusal => ({
  status: 401,
  text: `You were not signed in at ${name}.`,
})
const invalid = ({ name }: StoredProvider): Refusal => ({
  status: 401,
  text: `The response of ${name} is not valid. Sign in again.`,
})
const unverified = ({ name }: StoredProvider): Refusal => ({
  status: 403,
  text: `${name} has not confirmed an e-mail address of yours that can be used here.`,
})

export class ProviderService {
  readonly #services: Services
  readonly #audit: IssuerAudit
  readonly #tickets: Tickets
  readonly #throttle = new AttemptThrottle()
  readonly #mails = new AttemptThrottle(ISSUER_LIMITS.users.mailIntervalMs)

  constructor(services: Services, audit: IssuerAudit) {
    this.#services = services
    this.#tickets = new Tickets(services.secrets)
    this.#audit = audit
  }

  /** @returns the address at the provider where the browser goes */
  async begin({ workspace, at, network }: Visit, providerId: string): Promise<URL | Refusal> {
    const provider = workspace.providers.find(({ id }) => id === providerId)
    if (provider === undefined) return UNKNOWN
    // Each attempt at a provider that is away sends a request to it.
    if (!this.#admit(network)) return TOO_MANY
    const { identityProviders } = this.#services
    return identityProviders.authorizationUrl(workspace, provider, at).then(
      (url) => {
        this.#throttle.uncount(network)
        return url
      },
      (error: unknown) => {
        this.#warn(error, workspace, provider)
        return unavailable(provider)
      },
    )
  }

  /** @returns the user, whose second factor is still to be checked */
  async end(answer: Answer, providerId: string): Promise<Identified | Refusal | Confirmation> {
    const { by, workspace, clientId } = answer
    const { tenantId, workspaceId } = workspace
    const result = await this.#identify(answer, providerId)
    if ('text' in result) {
      const reason = result === TOO_MANY ? 'too_many' : 'wrong_identity'
      this.#audit.signInRefused(by, { tenantId, workspaceId, accountId: undefined, clientId }, reason)
    }
    return result
  }

  /** The user who is asked for the password, and the identity; undefined if it took too long. */
  async unconfirmed(
    { workspace, at }: Pick<Visit, 'workspace' | 'at'>,
    ticket: string,
  ): Promise<Identified | undefined> {
    const unconfirmed = this.#tickets.read<Unconfirmed>('identity', ticket)
    if (unconfirmed === undefined || unconfirmed.at !== at) return undefined
    const user = await this.#services.users.find(unconfirmed.userId)
    const isSame = user?.workspaceId === workspace.workspaceId && user.generation === unconfirmed.generation
    return isSame ? { user, identity: unconfirmed.identity } : undefined
  }

  /**
   * Ends the sign-in of a user who has passed all steps, and connects the identity if it is new.
   * @returns false if the user, or the connection of the identity, has changed since the first step
   */
  async complete(by: Requester, { brand }: UserWorkspace, user: UserAccount, identity: ProvenIdentity) {
    const { identitiesStore, userMails } = this.#services
    if (!(await identitiesStore.complete(user, identity))) return false
    if (!identity.isNew) return true
    const text = `${identity.provider} can now sign in to your account.`
    reportSignInChange(
      { audit: this.#audit, userMails },
      { by, person: user, brand },
      'connect_identity',
      text,
    )
    return true
  }

  async #identify(answer: Answer, providerId: string): Promise<Identified | Refusal | Confirmation> {
    const { workspace, at, parameters, network } = answer
    const { identityProviders } = this.#services
    const provider = workspace.providers.find(({ id }) => id === providerId)
    if (provider === undefined) return UNKNOWN
    const pending = identityProviders.pending(parameters.get('state') ?? '')
    const isOfThis = pending?.workspaceId === workspace.workspaceId && pending.providerId === providerId
    if (!isOfThis || pending.at !== at) return EXPIRED
    if (!this.#admit(network)) return TOO_MANY
    const identity = await identityProviders
      .identity(workspace, provider, pending, parameters)
      .catch((error: unknown) => {
        if (error instanceof AuthorizationResponseError) return denied(provider)
        this.#warn(error, workspace, provider)
        return isUnavailable(error) ? unavailable(provider) : invalid(provider)
      })
    if ('text' in identity) return identity
    this.#throttle.uncount(network)
    return this.#resolveUser(answer, provider, identity)
  }

  /** The user with the identity; the first time a new or an invited one, or the next step for one with its verified address. */
  async #resolveUser(
    { by, workspace, at }: Answer,
    provider: StoredProvider,
    identity: Identity,
  ): Promise<Identified | Refusal | Confirmation> {
    const { users, identitiesStore } = this.#services
    const { issuer, subject } = identity
    const proven: ProvenIdentity = { issuer, subject, provider: provider.name, isNew: false }
    const known = await identitiesStore.find(workspace, identity)
    if (known?.isConnected === false) return disconnected(provider)
    if (known !== undefined) {
      const user = await users.find(known.userId)
      return user === undefined ? INACTIVE : { user, identity: proven }
    }
    if (!isUserEmail(identity.verifiedEmail)) return unverified(provider)
    const mayCreate = (provider.sign_up ?? workspace.signUp) === 'open'
    const name = isUserName(identity.name) ? identity.name : ''
    const connected = await identitiesStore.connect(workspace, { ...identity, name }, mayCreate)
    if (connected === 'user_limit') return USER_LIMIT
    if (connected?.how === 'disconnected') return disconnected(provider)
    const user = connected && (await users.find(connected.id))
    if (user === undefined) return CLOSED
    if (connected?.how === 'with_password') return this.#askPassword(user, { ...proven, isNew: true }, at)
    if (connected?.how === 'without_password') return this.#askByMail(user, workspace, provider, identity)
    this.#audit.personChanged(by, user, connected?.how === 'created' ? 'verify' : 'connect_identity')
    return { user, identity: proven }
  }

  #askPassword(user: UserAccount, identity: ProvenIdentity, at: string) {
    const sealed: Unconfirmed = { userId: user.id, generation: user.generation, identity, at }
    const ticket = this.#tickets.issue('identity', sealed, ISSUER_LIMITS.users.factorSeconds)
    return { ask: 'password', identified: { user, identity }, ticket } as const
  }

  async #askByMail(
    user: UserAccount,
    { brand }: UserWorkspace,
    { name }: StoredProvider,
    identity: Identity,
  ) {
    const { userLinks, userMails } = this.#services
    if (this.#mails.admit(user.id, 1)) {
      const token = await userLinks.identity(user, identity, name)
      userMails.connectIdentity({ to: user.email, brandName: brand.name }, name, token)
    }
    return { ask: 'mail', provider: name } as const
  }

  /** Disconnects an identity of the user, or connects it again. @returns false if the user has no such identity */
  async setConnected(
    by: Requester,
    { brand, providers }: UserWorkspace,
    user: UserAccount,
    { id, isConnected }: { readonly id: string; readonly isConnected: boolean },
  ): Promise<boolean> {
    const { identitiesStore, userMails } = this.#services
    const identity = await identitiesStore.setConnected(user, id, isConnected)
    if (identity === undefined) return false
    const verb = isConnected ? 'connect_identity' : 'disconnect_identity'
    const text = `${providerName(providers, identity)} can ${isConnected ? 'sign in to your account again' : 'no longer sign in to your account'}.`
    reportSignInChange({ audit: this.#audit, userMails }, { by, person: user, brand }, verb, text)
    return true
  }

  #admit(network: string): boolean {
    return this.#throttle.admit(network, this.#services.config.TENON_SIGN_INS_PER_ADDRESS)
  }

  #warn(error: unknown, { workspaceId }: UserWorkspace, { issuer }: StoredProvider): void {
    this.#services.log.warn({ err: error, workspace_id: workspaceId, issuer }, 'identity provider failed')
  }
}
