/** The services that the parts of the issuer share. */

import type { Audit } from '../../../access/audit/audit.ts'
import type { McpServerRegistry } from '../../../access/authentication/mcp-server-registry.ts'
import type { SigningKeys } from '../../../access/authentication/signing-keys.ts'
import type { TokenVerifier } from '../../../access/authentication/token-verifier.ts'
import type { Config } from '../../../infra/config.ts'
import type { Secrets } from '../../../infra/crypto/secrets.ts'
import type { Log } from '../../../infra/log.ts'
import type { AccountsStore } from '../accounts/accounts-store.ts'
import type { OAuthClients } from '../clients/oauth-clients-store.ts'
import type { Passkeys } from '../factors/passkeys.ts'
import type { SecondFactors } from '../factors/second-factors.ts'
import type { UserMails } from '../pages/user-mails.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { IdentitiesStore } from '../users/identities-store.ts'
import type { IdentityProviders } from '../users/identity-providers.ts'
import type { UserLinks } from '../users/user-links.ts'
import type { UsersStore } from '../users/users-store.ts'
import type { IssuerState } from './issuer-state.ts'

export interface IssuerServices {
  readonly config: Config
  readonly secrets: Secrets
  readonly signingKeys: SigningKeys
  readonly tokens: TokenVerifier
  readonly accounts: AccountsStore
  readonly users: UsersStore
  readonly secondFactors: SecondFactors
  readonly passkeys: Passkeys
  readonly identityProviders: IdentityProviders
  readonly identitiesStore: IdentitiesStore
  readonly userLinks: UserLinks
  readonly userMails: UserMails
  readonly oauthClients: OAuthClients
  readonly mcpServers: McpServerRegistry
  readonly issuerState: IssuerState
  readonly sessions: Sessions
  readonly audit: Audit
  readonly log: Log
}
