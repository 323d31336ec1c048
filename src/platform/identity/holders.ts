/** Checks at each request that a token of the issuer, its holder, its client and its grant have not ended. */

import { idPattern } from '../../core/ids.ts'
import { TtlCache } from '../ttl-cache.ts'
import type { IssuedToken, IssuerState } from './issuer-state.ts'
import type { OAuthClients } from './oauth-clients.ts'
import { generationId, type People } from './people.ts'

const ACCOUNT_ID = new RegExp(idPattern('acct'))
const CLIENT_ID = new RegExp(idPattern('client'))

/** What a verified token says of itself and its holder. */
export interface HeldToken extends IssuedToken {
  readonly sub: string
  readonly clientId?: string
  readonly credential?: string
}

export class Holders {
  readonly #people: People
  readonly #clients: OAuthClients
  readonly #state: IssuerState
  /** Ids of generations; null where the account is not there. */
  readonly #known = new TtlCache<string | null>()

  constructor(people: People, clients: OAuthClients, state: IssuerState) {
    this.#people = people
    this.#clients = clients
    this.#state = state
  }

  /** Returns whether the token was not revoked, nor the grant that it was issued under. */
  isLive(token: IssuedToken): Promise<boolean> {
    return this.#state.isLive(token)
  }

  /** Returns whether a token for the REST API still counts: it ends with its grant, its holder and its client. */
  async honours(token: HeldToken): Promise<boolean> {
    const { sub, clientId = sub, credential } = token
    const checks = [this.isLive(token), this.stands(sub, credential)]
    if (clientId !== sub) checks.push(this.stands(clientId))
    return (await Promise.all(checks)).every(Boolean)
  }

  /**
   * @param subject of a token of the embedded issuer, or its client; asked anew after a few seconds
   * @param credential which of a machine's secrets it was given for, or in which generation of an account
   */
  async stands(subject: string, credential?: string): Promise<boolean> {
    if (CLIENT_ID.test(subject)) return this.#clients.isThere(subject, credential)
    if (!ACCOUNT_ID.test(subject)) return true
    const generation = await this.#generationOf(subject)
    return generation !== null && (credential === undefined || credential === generation)
  }

  /** This node learns at once that an account has another generation; others do within a few seconds. */
  forget(account: string): void {
    this.#known.drop(account)
  }

  #generationOf(account: string): Promise<string | null> {
    return this.#known.load(account, async () => {
      const generation = await this.#people.generationOf(account)
      return generation === undefined ? null : generationId(generation)
    })
  }

  /** Whether the client is one through which people act, and the subject is such a person. */
  async actsFor(clientId: string, subject: string, credential?: string): Promise<boolean> {
    if (!CLIENT_ID.test(clientId) || !ACCOUNT_ID.test(subject)) return false
    return (await this.stands(clientId)) && this.stands(subject, credential)
  }
}
