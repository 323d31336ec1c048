/** The internals of scopes: the services and rights that they use, which no file outside of this folder may ask for. */

import type { IdSource } from '../core/ids.ts'
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
import type { ObjectClients, Objects } from './objects/clients.ts'
import type { StorageIdentities } from './objects/identities.ts'
import type { TenantCodec } from './payloads/codec.ts'
import type { SessionContext } from './pg/batch.ts'
import type { Database, StatementExecutor } from './pg/database.ts'
import type { ExecutionWatcher } from './runs/lookout.ts'
import type { Secrets } from './secrets.ts'
import type { Temporal } from './temporal.ts'
import type { TenantStates } from './tenant-states.ts'
import type { ThreadPool } from './thread-pool.ts'
import type { Sized, TtlCache } from './ttl-cache.ts'

/** Internal services that capabilities of scopes use; not for features. */
export interface PlatformServices {
  readonly database: Database
  /** The database, or the transaction of the scope. */
  readonly statements: StatementExecutor
  readonly temporal: Temporal
  readonly codec: TenantCodec
  readonly objects: Objects
  readonly objectClients: ObjectClients
  readonly identities: StorageIdentities
  readonly streams: Streams
  readonly lookout: ExecutionWatcher
  readonly limiter: Limiter
  /** Undefined if none is configured. */
  readonly documents: MongoDocuments | undefined
  readonly secrets: Secrets
  readonly keys: TtlCache<KeyRow>
  readonly tenantStates: TenantStates
  readonly signingKeys: SigningKeys
  readonly oauthClients: OAuthClients
  readonly holders: SubjectStatus
  readonly issuerState: IssuerState
  /** Base URL for clients. */
  readonly publicUrl: string
  readonly memo: TtlCache<Sized<unknown>>
  readonly threads: ThreadPool
  readonly audit: Audit
  readonly log: Log
}

/** The part of a scope that only this folder may use (.dependency-cruiser.cjs). */
export interface ScopeInternals {
  readonly services: PlatformServices
  readonly ids: IdSource
  /** The rights of the scope's statements. */
  readonly context: SessionContext
}

const INTERNALS = new WeakMap<object, ScopeInternals>()

/** For constructors of scopes. */
export function attachInternals(scope: object, internals: ScopeInternals): void {
  INTERNALS.set(scope, internals)
}

/** @throws TypeError for an object that only looks like a scope */
export function internalsOf(scope: object): ScopeInternals {
  const internals = INTERNALS.get(scope)
  if (internals === undefined) throw new TypeError('not a scope of the platform')
  return internals
}
