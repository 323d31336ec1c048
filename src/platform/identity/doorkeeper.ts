/** Who is there, for the doors that have callers: the issuer, opened when it is first needed, and its verifiers. */

import { type Config, publicUrl } from '../config.ts'
import type { Parts } from '../parts.ts'
import { Authenticator } from './auth.ts'
import { Guests } from './guests.ts'
import { Holders } from './holders.ts'
import { HostedServers } from './hosted.ts'
import { Identity } from './identity.ts'
import { OAuthClients } from './oauth-clients.ts'
import { People } from './people.ts'

export interface Doorkeeper {
  /** The embedded issuer. Rejects while the database is away; asked again, it tries again. */
  readonly identity: () => Promise<Identity>
  readonly auth: Authenticator
  readonly hosted: HostedServers
  readonly guests: Guests
}

export function openDoorkeeper(config: Config, parts: Parts): Doorkeeper {
  const hosted = new HostedServers(parts.database, publicUrl(config))
  const people = new People(parts.database)
  const clients = new OAuthClients(parts.database)
  const holders = new Holders(people, clients)
  const { database, secrets, signingKeys: keys } = parts
  let opened: Promise<Identity> | undefined
  const identity = () => {
    opened ??= Identity.open({ config, database, secrets, keys, hosted, people, clients }).catch(
      (error: unknown) => {
        opened = undefined
        throw error
      },
    )
    return opened
  }
  const auth = new Authenticator(database, identity, parts.keys, parts.tenantStates, holders)
  return { identity, auth, hosted, guests: new Guests(hosted, identity, holders) }
}
