/** Whether those whom the issuer gave a token are still there: a token lives longer than an account or a client. */

import { idPattern } from '../../core/ids.ts'
import { KeyCache } from './key-cache.ts'
import type { OAuthClients } from './oauth-clients.ts'
import type { People } from './people.ts'

const ACCOUNT_ID = new RegExp(idPattern('acct'))
const CLIENT_ID = new RegExp(idPattern('client'))

export class Holders {
  readonly #people: People
  readonly #clients: OAuthClients
  readonly #known = new KeyCache<boolean>()

  constructor(people: People, clients: OAuthClients) {
    this.#people = people
    this.#clients = clients
  }

  /**
   * @param subject of a token of the embedded issuer, or its client; asked anew after a few seconds
   * @param secretId which of a machine's secrets it was given for
   */
  async stands(subject: string, secretId?: string): Promise<boolean> {
    if (CLIENT_ID.test(subject)) return this.#clients.isThere(subject, secretId)
    if (!ACCOUNT_ID.test(subject)) return true
    const known = this.#known.get(subject)
    if (known !== undefined) return known
    const stands = (await this.#people.find(subject)) !== undefined
    this.#known.set(subject, stands)
    return stands
  }

  /** Whether the client is one through which people act, and the subject is such a person. */
  async actsFor(clientId: string, subject: string): Promise<boolean> {
    if (!CLIENT_ID.test(clientId) || !ACCOUNT_ID.test(subject)) return false
    return (await this.stands(clientId)) && this.stands(subject)
  }
}
