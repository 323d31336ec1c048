/** Who is there, for the doors that have callers: the issuer, opened when it is first needed, and its verifier. */

import { Authenticator } from './auth.ts'
import type { Config } from './config.ts'
import { Identity } from './identity.ts'
import type { Parts } from './scope.ts'

export interface Doorkeeper {
  /** The embedded issuer. Rejects while the database is away; asked again, it tries again. */
  readonly identity: () => Promise<Identity>
  readonly auth: Authenticator
}

export function openDoorkeeper(config: Config, parts: Parts): Doorkeeper {
  let opened: Promise<Identity> | undefined
  const identity = () => {
    opened ??= Identity.open(config, parts.database, parts.secrets).catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }
  return { identity, auth: new Authenticator(parts.database, identity, parts.keys) }
}
