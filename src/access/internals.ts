/** The internals of scopes and of their opener: the services and rights that they use, for this folder only. */

import type { IdSource } from '../core/ids.ts'
import type { Caddy } from '../infra/caddy.ts'
import type { Secrets } from '../infra/crypto/secrets.ts'
import type { DnsRecords } from '../infra/dns-records.ts'
import type { HealthReader } from '../infra/health-report.ts'
import type { Egress } from '../infra/http-client/egress.ts'
import type { Organizations } from '../infra/keycloak.ts'
import type { Log } from '../infra/log.ts'
import type { MongoDocuments } from '../infra/mongo/mongo.ts'
import type { Database, StatementExecutor } from '../infra/postgres/database.ts'
import type { SessionContext } from '../infra/postgres/statement-batch.ts'
import type { ArchiveStore } from '../infra/s3/archive-store.ts'
import type { Buckets } from '../infra/s3/buckets.ts'
import type { ObjectClients } from '../infra/s3/clients.ts'
import type { TenantCodec } from '../infra/temporal/payload-codec.ts'
import type { PayloadKeys } from '../infra/temporal/payload-keys.ts'
import type { Temporal } from '../infra/temporal/temporal.ts'
import type { ThreadPool } from '../infra/thread-pool.ts'
import type { TrustedIssuer } from '../infra/trusted-issuers.ts'
import type { Sized, TtlCache } from '../infra/ttl-cache.ts'
import type { Streams } from '../infra/valkey/streams.ts'
import type { Audit } from './audit/audit.ts'
import type { ChainSigner } from './audit/chain-signer.ts'
import type { KeyRow } from './authentication/authenticator.ts'
import type { PublishedServer } from './authentication/mcp-server-registry.ts'
import type { SigningKeys } from './authentication/signing-keys.ts'
import type { SubjectStatus } from './authentication/subject-status.ts'
import type { HostNames } from './host-names.ts'
import type { Limiter } from './rate-limit/limiter.ts'
import type { TenantStates } from './tenant-states.ts'

/**
 * Services that functions of scopes use. A feature with a service of its own declares it beside its functions
 * (`features/runs/watcher.ts`).
 */
export interface PlatformServices {
  readonly health: HealthReader
  readonly database: Database
  /** The database, or the transaction of the scope. */
  readonly statements: StatementExecutor
  readonly temporal: Temporal
  readonly codec: TenantCodec
  readonly payloadKeys: PayloadKeys
  readonly buckets: Buckets
  readonly objectClients: ObjectClients
  readonly archives: ArchiveStore
  readonly streams: Streams
  readonly limiter: Limiter
  /** Undefined if none is configured. */
  readonly documents: MongoDocuments | undefined
  readonly secrets: Secrets
  readonly keys: TtlCache<KeyRow>
  readonly publishedServers: TtlCache<PublishedServer | undefined>
  readonly tenantStates: TenantStates
  readonly hostNames: HostNames
  readonly dns: DnsRecords
  /** Undefined if none is configured. */
  readonly caddy: Caddy | undefined
  readonly organizations: Organizations | undefined
  readonly signingKeys: SigningKeys
  readonly subjectStatus: SubjectStatus
  /** External issuers that the configuration trusts. */
  readonly trustedIssuers: readonly TrustedIssuer[]
  /** Base URL for clients. */
  readonly publicUrl: string
  readonly cache: TtlCache<Sized<unknown>>
  readonly threads: ThreadPool
  readonly egress: Egress
  readonly audit: Audit
  readonly chainSigner: ChainSigner
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
  if (internals === undefined) throw new TypeError('the object is not a scope of the platform')
  return internals
}

const SERVICES = new WeakMap<object, PlatformServices>()

/** For the constructor of `Access`, and for scopes about a caller. */
export function attachServices(access: object, services: PlatformServices): void {
  SERVICES.set(access, services)
}

/** The services behind any scope, also one about a caller alone. @throws TypeError for an object that only looks like one */
export const servicesBehind = (scope: object): PlatformServices =>
  SERVICES.get(scope) ?? internalsOf(scope).services

/** The services with which scopes are opened. @throws TypeError for an object that only looks like an `Access` */
export function servicesOf(access: object): PlatformServices {
  const services = SERVICES.get(access)
  if (services === undefined) throw new TypeError('the object opens no scopes of the platform')
  return services
}
