/** The composition root: config in, everything that has a connection out. */

import { Access } from './access.ts'
import { Audit } from './audit/audit.ts'
import { type Config, publicUrl } from './config.ts'
import { MongoDocuments } from './documents/mongo.ts'
import { Egress } from './egress.ts'
import { Relay } from './events/relay.ts'
import { Streams } from './events/streams.ts'
import { Watcher } from './events/watcher.ts'
import { Functions } from './functions/functions.ts'
import { Idempotency } from './idempotency.ts'
import { SubjectStatus } from './identity/holders.ts'
import { IssuerState } from './identity/issuer-state.ts'
import { OAuthClients } from './identity/oauth-clients.ts'
import { People } from './identity/people.ts'
import { SigningKeys } from './identity/signing-keys.ts'
import { Limiter } from './limiter/limiter.ts'
import type { Log } from './log.ts'
import { Meters } from './meters.ts'
import { Objects } from './objects/buckets.ts'
import { ObjectClients } from './objects/clients.ts'
import { StorageIdentities } from './objects/identities.ts'
import { Overdue } from './overdue.ts'
import type { Parts } from './parts.ts'
import { type Patience, TenantCodec } from './payloads/codec.ts'
import { PayloadStore } from './payloads/store.ts'
import { TenantKeys } from './payloads/tenant-keys.ts'
import { Builder } from './pg/builder.ts'
import { Database } from './pg/database.ts'
import { Lookout } from './runs/lookout.ts'
import { News } from './runs/news.ts'
import { Secrets } from './secrets.ts'
import { Temporal } from './temporal.ts'
import { TenantStates } from './tenant-states.ts'
import { ThreadPool } from './thread-pool.ts'
import { openMemo, TtlCache } from './ttl-cache.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** A dependency's name and how to ask whether it answers; /readyz and `tenon doctor` ask. */
export interface Check {
  readonly name: string
  readonly ping: () => Promise<unknown>
}

export interface Platform {
  readonly config: Config
  readonly log: Log
  readonly access: Access
  readonly idempotency: Idempotency
  readonly egress: Egress
  readonly limiter: Limiter
  readonly meters: Meters
  readonly audit: Audit
  readonly webhooks: Webhooks
  /** Starts nothing until it is asked to: the worker alone does. */
  readonly functions: Functions
  /** Likewise. */
  readonly relay: Relay
  /** Likewise. */
  readonly overdue: Overdue
  /** Likewise. */
  readonly watcher: Watcher
  /** For the worker's own connection to Temporal. */
  readonly codec: TenantCodec
  /** The worker alone has one. */
  readonly builder: Builder | undefined
  readonly checks: readonly Check[]
  close(): Promise<void>
}

/**
 * Opens the platform. Connections are lazy: servers may be down now and come up later.
 * @param patience how long payloads wait for a server that is away
 */
export function openPlatform(
  config: Config,
  log: Log,
  patience: Patience = { workflow: 0, activity: 0 },
): { platform: Platform; parts: Parts } {
  const database = Database.open(config.DATABASE_APP_URL, (error) =>
    log.warn({ err: error }, 'idle connection lost'),
  )
  const objects = new Objects(config)
  const streams = new Streams(config.REDIS_URL, (error) => log.warn({ err: error }, 'valkey connection'))
  const onUnseen = (error: unknown) => log.warn({ err: error }, 'executions that are watched')
  const lookout = new Lookout(database, new News(config.REDIS_URL, onUnseen), onUnseen)
  const secrets = new Secrets(config.TENON_MASTER_KEY)
  const payloads = new PayloadStore(config, objects)
  const codec = new TenantCodec(new TenantKeys(database, secrets), payloads, patience)
  const temporal = new Temporal(config, codec)
  const meters = new Meters(database, log)
  const audit = new Audit(database, log)
  const objectClients = new ObjectClients(config, secrets)
  const identities = new StorageIdentities(config)
  const documents = config.MONGODB_URL === undefined ? undefined : new MongoDocuments(config.MONGODB_URL)
  const limiter = new Limiter(config, (error) => log.warn({ err: error }, 'valkey connection'))
  const parts: Parts = {
    database,
    statements: database,
    temporal,
    codec,
    objects,
    objectClients,
    identities,
    streams,
    lookout,
    limiter,
    documents,
    secrets,
    keys: new TtlCache(),
    tenantStates: new TenantStates(database),
    signingKeys: new SigningKeys(database, secrets),
    ...holdersOf(database, secrets),
    publicUrl: publicUrl(config),
    memo: openMemo(),
    threads: new ThreadPool(),
    audit,
    log,
  }
  const functions = new Functions(config.TENON_DENO_BIN)
  const relay = new Relay(database, config.REDIS_URL, log)
  const overdue = new Overdue(database, log)
  const watcher = new Watcher(database, streams, log)
  const platform: Platform = {
    config,
    log,
    access: new Access(parts),
    idempotency: new Idempotency(secrets),
    egress: new Egress(config.TENON_EGRESS_ALLOW.split(',').filter((entry) => entry !== '')),
    limiter,
    meters,
    audit,
    webhooks: new Webhooks(database, secrets),
    functions,
    relay,
    codec,
    overdue,
    watcher,
    builder: config.DATABASE_BUILDER_URL === undefined ? undefined : new Builder(config.DATABASE_BUILDER_URL),
    checks: [
      { name: 'postgres', ping: () => database.ping() },
      { name: 'temporal', ping: () => temporal.ping() },
      { name: 'objects', ping: () => objects.ping() },
      { name: 'streams', ping: () => streams.ping() },
      ...(documents === undefined ? [] : [{ name: 'documents', ping: () => documents.ping() }]),
    ],
    close: async () => {
      await Promise.all([meters.flush(), relay.close(), overdue.close(), watcher.close(), audit.close()])
      await lookout.close()
      for (const part of [objects, objectClients, identities, payloads, parts.threads]) part.close()
      streams.close()
      limiter.close()
      await Promise.all([functions.close(), documents?.close(), database.close(), temporal.close()])
    },
  }
  return { platform, parts }
}

/** Clients and people to whom the issuer has given tokens. */
function holdersOf(
  database: Database,
  secrets: Secrets,
): Pick<Parts, 'oauthClients' | 'holders' | 'issuerState'> {
  const oauthClients = new OAuthClients(database)
  const issuerState = new IssuerState(database, secrets)
  const holders = new SubjectStatus(new People(database), oauthClients, issuerState)
  return { oauthClients, holders, issuerState }
}
