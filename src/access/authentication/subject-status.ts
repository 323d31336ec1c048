/**
 * Checks per request that the subject and client of a token are still active, whether the subject has or needs a second factor, and that
 * neither the token nor its grant was revoked. All results are cached for `INFRA_LIMITS.credentialCacheMs`.
 */

import { idPattern } from '../../core/ids.ts'
import type { EndUser } from '../../core/policy.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import { generationId, type IssuedToken, type SubjectClaims } from './claims.ts'
import { isClientId } from './client-ids.ts'

const ACCOUNT_ID = new RegExp(idPattern('acct'))
const USER_ID = new RegExp(idPattern('usr'))

/** What changes of a subject end or restrict its tokens. */
export interface SubjectState {
  /** Increases with changes that end all earlier tokens. */
  readonly generation: number
  readonly hasSecondFactor: boolean
  /** Its tenant, or the platform for operators, requires one. */
  readonly needsSecondFactor: boolean
}

/** Subjects that sign in: accounts, or users of workspaces. */
interface Subjects {
  /** The state of a subject that is neither disabled nor deleted. */
  findState(id: string): Promise<SubjectState | undefined>
}

/** The stores of identity (features/identity), as far as the verification of tokens reads them; the composition root hands them over. */
export interface TokenSubjects {
  readonly accounts: Subjects & {
    /** True if the accounts of a tenant need a second factor; null: operators. */
    requiresSecondFactor(tenantId: string | null): Promise<boolean>
  }
  readonly users: Subjects & { find(id: string): Promise<EndUser | undefined> }
  readonly clients: {
    /** @param secretId the secret that the token was issued for; absent for a client of people */
    exists(id: string, secretId?: string): Promise<boolean>
  }
  readonly revocations: {
    /** True if neither the token nor its grant was revoked. */
    isNotRevoked(token: IssuedToken): Promise<boolean>
  }
}

const isOurs = (subject: string) => USER_ID.test(subject) || ACCOUNT_ID.test(subject)

export class SubjectStatus {
  readonly #subjects: TokenSubjects
  /** By account or user; null if there is none. */
  readonly #known = new TtlCache<SubjectState | null>()
  /** By tenant; '' for operators. */
  readonly #policies = new TtlCache<boolean>()
  /** By id. */
  readonly #users = new TtlCache<EndUser | undefined>()

  constructor(subjects: TokenSubjects) {
    this.#subjects = subjects
  }

  /** True if neither the token nor its grant was revoked. */
  isNotRevoked(token: IssuedToken): Promise<boolean> {
    return this.#subjects.revocations.isNotRevoked(token)
  }

  /** True if a token for the REST API is still valid: it ends with its grant, its subject and its client. */
  async isTokenActive(token: SubjectClaims): Promise<boolean> {
    const { sub, clientId = sub, credential } = token
    const checks = [this.isNotRevoked(token), this.isActive(sub, credential)]
    if (clientId !== sub) checks.push(this.isActive(clientId))
    return (await Promise.all(checks)).every(Boolean)
  }

  /**
   * @param subject of a token of the embedded issuer, or its client
   * @param credential the machine's secret that it was issued for, or the generation of the account or user
   */
  async isActive(subject: string, credential?: string): Promise<boolean> {
    if (isClientId(subject)) return this.#subjects.clients.exists(subject, credential)
    if (!isOurs(subject)) return true
    const state = await this.#stateOf(subject)
    return state !== null && (credential === undefined || credential === generationId(state.generation))
  }

  /** Whether an account or a user has a second factor, and needs one; neither for subjects of other issuers. */
  async readSecondFactor(
    subject: string,
  ): Promise<Pick<SubjectState, 'hasSecondFactor' | 'needsSecondFactor'>> {
    const state = isOurs(subject) ? await this.#stateOf(subject) : null
    return state ?? { hasSecondFactor: false, needsSecondFactor: false }
  }

  /** True if admins of a tenant need a second factor, whoever issues their tokens. @param tenantId undefined: operators */
  requiresSecondFactor(tenantId: string | undefined): Promise<boolean> {
    const { accounts } = this.#subjects
    return this.#policies.load(tenantId ?? '', () => accounts.requiresSecondFactor(tenantId ?? null))
  }

  #stateOf(subject: string): Promise<SubjectState | null> {
    const store = USER_ID.test(subject) ? this.#subjects.users : this.#subjects.accounts
    return this.#known.load(subject, async () => (await store.findState(subject)) ?? null)
  }

  /** A user as the workspace describes it now, for a credential that outlives a token; undefined if there is none. */
  async describeUser(id: string): Promise<Omit<EndUser, 'id'> | undefined> {
    const user = await this.#users.load(id, () => this.#subjects.users.find(id))
    if (user === undefined) return undefined
    const { email, emailVerified, claims } = user
    return { email, emailVerified, claims }
  }

  /** Drops an account or a user from the cache of this node; other nodes reload it within `INFRA_LIMITS.credentialCacheMs`. */
  forget(subject: string): void {
    this.#known.drop(subject)
    this.#users.drop(subject)
  }

  /** True if the client acts for accounts, the subject is one, and both are active. */
  async isPersonActive(clientId: string, subject: string, credential?: string): Promise<boolean> {
    if (!isClientId(clientId) || !ACCOUNT_ID.test(subject)) return false
    return (await this.isActive(clientId)) && this.isActive(subject, credential)
  }
}
