/** The composition root: config in, everything that has a connection out. */

import { Access } from './access.ts'
import { Audit } from './audit/audit.ts'
import { type Config, publicUrl } from './config.ts'
import { MongoDocuments } from './documents/mongo.ts'
import { Egress } from './egress.ts'
import { Relay } from './events/relay.ts'
import { Streams } from './events/streams.ts'
import { TriggerConsumers } from './events/watcher.ts'
import { Functions } from './functions/functions.ts'
import { Idempotency } from './idempotency.ts'
import type { KeyRow } from './identity/auth.ts'
import { SubjectStatus } from './identity/holders.ts'
import { IssuerState } from './identity/issuer-state.ts'
import { OAuthClients } from './identity/oauth-clients.ts'
import { People } from './identity/people.ts'
import { SigningKeys } from './identity/signing-keys.ts'
import type { PlatformServices } from './internals.ts'
import { Limiter } from './limiter/limiter.ts'
import type { Log } from './log.ts'
import { Meters } from './meters.ts'
import { ObjectClients, Objects } from './objects/clients.ts'
import { StorageIdentities } from './objects/identities.ts'
import { ExecutionReconciler } from './overdue.ts'
import { type RetryBudget, TenantCodec } from './payloads/codec.ts'
import { PayloadStore } from './payloads/store.ts'
import { TenantKeys } from './payloads/tenant-keys.ts'
import { Builder } from './pg/builder.ts'
import { Database } from './pg/database.ts'
import { ExecutionNotifier, ExecutionWatcher } from './runs/lookout.ts'
import { Secrets } from './secrets.ts'
import { Temporal } from './temporal.ts'
import { TenantStates } from './tenant-states.ts'
import { ThreadPool } from './thread-pool.ts'
import { openMemo, TtlCache } from './ttl-cache.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** A dependency that /readyz and `tenon doctor` ping. */
export interface Check {
  readonly name: string
  readonly ping: () => Promise<unknown>
}

/** The opened subsystems, for the entry points. */
export type Platform = ReturnType<typeof openPlatform>['platform']

/**
 * Opens the platform. Connections are lazy: servers may be down now and come up later. `functions`, `relay`, `overdue` and
 * `watcher` do nothing until the worker starts them.
 * @param retryBudget of the payload codec
 */
export function openPlatform(
  config: Config,
  log: Log,
  retryBudget: RetryBudget = { workflow: 0, activity: 0 },
) {
  const { parts, payloads } = openServices(config, log, retryBudget)
  const { database, documents, secrets, streams, objects, temporal, audit, limiter, lookout, codec } = parts
  const meters = new Meters(database, log)
  const functions = new Functions(config.TENON_DENO_BIN)
  const relay = new Relay(database, config.REDIS_URL, log)
  const overdue = new ExecutionReconciler(database, log)
  const watcher = new TriggerConsumers(database, streams, log)
  const pinged = { postgres: database, temporal, objects, streams, ...(documents && { documents }) }
  const checks: readonly Check[] = Object.entries(pinged).map(([name, one]) => ({
    name,
    ping: () => one.ping(),
  }))
  const platform = {
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
    checks,
    close: async () => {
      await Promise.all([meters.flush(), relay.close(), overdue.close(), watcher.close(), audit.close()])
      await lookout.close()
      for (const one of [objects, parts.objectClients, parts.identities, payloads, parts.threads]) one.close()
      streams.close()
      limiter.close()
      await Promise.all([functions.close(), documents?.close(), database.close(), temporal.close()])
    },
  }
  return { platform, parts }
}

function openServices(
  config: Config,
  log: Log,
  retryBudget: RetryBudget,
): { parts: PlatformServices; payloads: PayloadStore } {
  const onLost = (error: unknown) => log.warn({ err: error }, 'valkey connection')
  const onUnseen = (error: unknown) => log.warn({ err: error }, 'watching executions failed')
  const database = Database.open(config.DATABASE_APP_URL, (error) =>
    log.warn({ err: error }, 'idle connection lost'),
  )
  const objects = new Objects(config)
  const secrets = new Secrets(config.TENON_MASTER_KEY)
  const payloads = new PayloadStore(config, objects)
  const codec = new TenantCodec(new TenantKeys(database, secrets), payloads, retryBudget)
  const oauthClients = new OAuthClients(database)
  const issuerState = new IssuerState(database, secrets)
  const parts = {
    database,
    statements: database,
    temporal: new Temporal(config, codec),
    codec,
    objects,
    objectClients: new ObjectClients(config, secrets),
    identities: new StorageIdentities(config),
    streams: new Streams(config.REDIS_URL, onLost),
    lookout: new ExecutionWatcher(database, new ExecutionNotifier(config.REDIS_URL, onUnseen), onUnseen),
    limiter: new Limiter(config, onLost),
    documents: config.MONGODB_URL === undefined ? undefined : new MongoDocuments(config.MONGODB_URL),
    secrets,
    keys: new TtlCache<KeyRow>(),
    tenantStates: new TenantStates(database),
    signingKeys: new SigningKeys(database, secrets),
    oauthClients,
    holders: new SubjectStatus(new People(database), oauthClients, issuerState),
    issuerState,
    publicUrl: publicUrl(config),
    memo: openMemo(),
    threads: new ThreadPool(),
    audit: new Audit(database, log),
    log,
  }
  return { parts, payloads }
}
