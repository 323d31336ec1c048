/**
 * Checks per request that the subject and client of a token are still active, and that neither the token nor its grant was
 * revoked. All results are cached for `INFRA_LIMITS.credentialCacheMs`.
 */

import { idPattern } from '../../core/ids.ts'
import type { EndUser } from '../../core/policy.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import { generationId, type IssuedToken, type SubjectClaims } from './claims.ts'
import { isClientId } from './client-ids.ts'

const ACCOUNT_ID = new RegExp(idPattern('acct'))
const USER_ID = new RegExp(idPattern('usr'))

/** Subjects that sign in: accounts, or users of workspaces. */
interface Subjects {
  /** The generation of a subject that is neither disabled nor deleted. */
  findGeneration(id: string): Promise<number | undefined>
}

/** The stores of identity (features/identity), as far as the verification of tokens reads them; the composition root hands them over. */
export interface TokenSubjects {
  readonly accounts: Subjects
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

export class SubjectStatus {
  readonly #subjects: TokenSubjects
  /** Ids of generations by account or user; null if there is none. */
  readonly #known = new TtlCache<string | null>()
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
    const store = USER_ID.test(subject) ? this.#subjects.users : this.#subjects.accounts
    if (!USER_ID.test(subject) && !ACCOUNT_ID.test(subject)) return true
    const generation = await this.#known.load(subject, async () => {
      const current = await store.findGeneration(subject)
      return current === undefined ? null : generationId(current)
    })
    return generation !== null && (credential === undefined || credential === generation)
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
