/** What the platform lends to scopes. Never handed on. */

import type { Audit } from './audit/audit.ts'
import type { MongoDocuments } from './documents/mongo.ts'
import type { Streams } from './events/streams.ts'
import type { KeyRow } from './identity/auth.ts'
import type { SubjectStatus } from './identity/holders.ts'
import type { IssuerState } from './identity/issuer-state.ts'
import type { OAuthClients } from './identity/oauth-clients.ts'
import type { SigningKeys } from './identity/signing-keys.ts'
import type { Limiter } from './limiter/limiter.ts'
import type { Log } from './log.ts'
import type { Objects } from './objects/buckets.ts'
import type { ObjectClients } from './objects/clients.ts'
import type { StorageIdentities } from './objects/identities.ts'
import type { TenantCodec } from './payloads/codec.ts'
import type { Batches, Database } from './pg/database.ts'
import type { Lookout } from './runs/lookout.ts'
import type { Secrets } from './secrets.ts'
import type { Temporal } from './temporal.ts'
import type { TenantStates } from './tenant-states.ts'
import type { ThreadPool } from './thread-pool.ts'
import type { Sized, TtlCache } from './ttl-cache.ts'

export interface Parts {
  readonly database: Database
  /** The database, or the transaction that a scope is held in. */
  readonly statements: Batches
  readonly temporal: Temporal
  readonly codec: TenantCodec
  readonly objects: Objects
  readonly objectClients: ObjectClients
  readonly identities: StorageIdentities
  readonly streams: Streams
  readonly lookout: Lookout
  readonly limiter: Limiter
  /** Where one is configured. */
  readonly documents: MongoDocuments | undefined
  readonly secrets: Secrets
  readonly keys: TtlCache<KeyRow>
  readonly tenantStates: TenantStates
  readonly signingKeys: SigningKeys
  readonly oauthClients: OAuthClients
  readonly holders: SubjectStatus
  readonly issuerState: IssuerState
  /** Base URL as clients see it. */
  readonly publicUrl: string
  readonly memo: TtlCache<Sized<unknown>>
  readonly threads: ThreadPool
  readonly audit: Audit
  readonly log: Log
}
