/** Who is there, for the doors that have callers: the issuer, opened when it is first needed, and its verifiers. */

import { Problem } from '../../core/problem.ts'
import { type Config, issuerUrl, publicUrl } from '../config.ts'
import { Egress } from '../egress.ts'
import type { PlatformServices } from '../internals.ts'
import { Authenticator } from './auth.ts'
import { ExternalIssuer } from './external-issuer.ts'
import { Guests } from './guests.ts'
import type { Holders } from './holders.ts'
import { HostedServers } from './hosted.ts'
import { Identity } from './identity.ts'
import { PagePass } from './page-pass.ts'
import { People } from './people.ts'
import { type TokenIssuer, Tokens } from './tokens.ts'

export interface Doorkeeper {
  /** The embedded issuer. Rejects while the database is away; asked again, it tries again. */
  readonly identity: () => Promise<Identity>
  readonly auth: Authenticator
  readonly hosted: HostedServers
  readonly guests: Guests
  readonly pagePass: PagePass
}

/** @param now milliseconds that never go back; tests have a clock of their own */
export function openDoorkeeper(
  config: Config,
  parts: PlatformServices,
  now = () => performance.now(),
): Doorkeeper {
  const hosted = new HostedServers(parts.database, publicUrl(config))
  const { oauthClients: clients, holders, issuerState: state } = parts
  const people = new People(parts.database, (account) => holders.forget(account))
  const { database, secrets, signingKeys: keys, audit, log } = parts
  let opened: Promise<Identity> | undefined
  const identity = () => {
    opened ??= Identity.open({ config, secrets, keys, hosted, people, clients, state, audit, log }).catch(
      (error: unknown) => {
        opened = undefined
        throw error
      },
    )
    return opened
  }
  const tokens = new Tokens(
    new Map([
      ...externalIssuers(config, parts, now),
      [issuerUrl(config), embeddedIssuer(identity, holders)] as const,
    ]),
  )
  const auth = new Authenticator(database, tokens, parts.keys, parts.tenantStates)
  return {
    identity,
    auth,
    hosted,
    guests: new Guests(hosted, identity, holders),
    pagePass: new PagePass(secrets, publicUrl(config)),
  }
}

function embeddedIssuer(identity: () => Promise<Identity>, holders: Holders): TokenIssuer {
  return {
    verify: async (token) => {
      const claims = await (await identity()).verify(token)
      if (!(await holders.honours(claims))) throw new Problem('token_invalid')
      return claims
    },
  }
}

/** By the `iss` of their tokens. */
function externalIssuers({ OIDC_ISSUERS: trusted }: Config, { log }: PlatformServices, now: () => number) {
  const onFailure = (issuer: string, error: unknown) =>
    log.warn({ err: error, issuer }, 'the keys of an issuer cannot be read')
  // What flows may reach is no matter of issuers: the operator has named these.
  const parts = { egress: new Egress([]), now, onFailure }
  return trusted.map((settings) => [settings.issuer, new ExternalIssuer(settings, parts)] as const)
}
