/** The composition root: config in, everything that has a connection out. */

import { Access } from '../access/access.ts'
import { Audit } from '../access/audit/audit.ts'
import { ChainSigner } from '../access/audit/chain-signer.ts'
import type { KeyRow } from '../access/authentication/authenticator.ts'
import { McpServerRegistry, type PublishedServer } from '../access/authentication/mcp-server-registry.ts'
import { SigningKeys } from '../access/authentication/signing-keys.ts'
import { SubjectStatus } from '../access/authentication/subject-status.ts'
import { HostNames } from '../access/host-names.ts'
import { Idempotency } from '../access/idempotency.ts'
import type { PlatformServices } from '../access/internals.ts'
import { Limiter } from '../access/rate-limit/limiter.ts'
import { TenantStates } from '../access/tenant-states.ts'
import { eagerStarts } from '../activities/sdk-patches/eager-starts.ts'
import { Meters } from '../features/analytics/meters.ts'
import { TaskRunner } from '../features/background/task-runner.ts'
import { Relay } from '../features/events/outbox-relay.ts'
import { CallbackVerifier } from '../features/flows/executions/callbacks.ts'
import { Functions } from '../features/functions/sandbox/process-pool.ts'
import { AccountsStore } from '../features/identity/accounts/accounts-store.ts'
import { OAuthClients } from '../features/identity/clients/oauth-clients-store.ts'
import { Grants } from '../features/identity/issuer/grants.ts'
import { IssuerState } from '../features/identity/issuer/issuer-state.ts'
import { UserMails } from '../features/identity/pages/user-mails.ts'
import { Sessions } from '../features/identity/sessions/sessions.ts'
import { ProviderSettings } from '../features/identity/users/identity-provider-settings.ts'
import { UsersStore } from '../features/identity/users/users-store.ts'
import { CallQueue } from '../features/mcp-servers/calls/call-log.ts'
import { ImageServers } from '../features/mcp-servers/images/image-servers.ts'
import { ConvertedImages } from '../features/objects/images/converted-images.ts'
import { PublicBuckets } from '../features/objects/public-objects.ts'
import { RUN_KINDS } from '../features/run-kinds.ts'
import { StreamConsumers } from '../features/runs/triggers/stream-consumer.ts'
import { TriggerStarter } from '../features/runs/triggers/trigger-starter.ts'
import { WebhookVerifier } from '../features/runs/triggers/webhook-verifier.ts'
import { RUNS_CHANNEL, RunWatcher } from '../features/runs/watcher.ts'
import { TRIGGER_TARGETS } from '../features/trigger-targets.ts'
import { Caddy } from '../infra/caddy.ts'
import { type Config, publicUrl } from '../infra/config.ts'
import { Secrets } from '../infra/crypto/secrets.ts'
import { DnsRecords } from '../infra/dns-records.ts'
import type { ServerName } from '../infra/health-report.ts'
import { Egress } from '../infra/http-client/egress.ts'
import { Organizations } from '../infra/keycloak.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Log } from '../infra/log.ts'
import { Mailer } from '../infra/mail/mail.ts'
import { Metrics } from '../infra/metrics/metrics.ts'
import { MongoDocuments } from '../infra/mongo/mongo.ts'
import { Database } from '../infra/postgres/database.ts'
import { Builder } from '../infra/postgres/index-builder.ts'
import { ArchiveStore } from '../infra/s3/archive-store.ts'
import { Buckets } from '../infra/s3/buckets.ts'
import { ObjectClients } from '../infra/s3/clients.ts'
import { type RetryBudget, TenantCodec } from '../infra/temporal/payload-codec.ts'
import { PayloadKeys } from '../infra/temporal/payload-keys.ts'
import { PayloadStore } from '../infra/temporal/payload-store.ts'
import { Temporal } from '../infra/temporal/temporal.ts'
import { ThreadPool } from '../infra/thread-pool.ts'
import { inTrace } from '../infra/trace-context.ts'
import { openCache, TtlCache } from '../infra/ttl-cache.ts'
import { Channels } from '../infra/valkey/channels.ts'
import { Notifier } from '../infra/valkey/notifier.ts'
import { Streams } from '../infra/valkey/streams.ts'
import { Drain } from './drain.ts'
import { Health, type Part, PartFailure } from './health.ts'
import { observePlatform } from './observe.ts'
import { openStartChecks } from './start-checks/index.ts'
import { InstallationChecks } from './start-checks/installation.ts'

/** Of the lock under which buckets are created; unlike those of all other locks. */
const BUCKETS_LOCK = 7_302_531

/** The differences between a process that answers requests and one that does work that was accepted before. */
interface ProcessRole {
  /** Of the payload codec. */
  readonly retryBudget: RetryBudget
  /** True if a start is refused while too many of its tenant wait for Temporal; false if it waits as long as it takes. */
  readonly refusesStarts: boolean
}

const ANSWERS_REQUESTS: ProcessRole = { retryBudget: { workflow: 0, activity: 0 }, refusesStarts: true }
export const DOES_WORK: ProcessRole = { retryBudget: INFRA_LIMITS.payloads.retryMs, refusesStarts: false }

/** The opened subsystems, for the entry points. */
export type Platform = ReturnType<typeof openPlatform>['platform']

/**
 * Opens the platform. Connections are lazy: servers may be down now and come up later. `functions`, `relay`, `taskRunner`
 * and `streamConsumers` do nothing until the worker starts them.
 * @param role of the process; by default it answers requests
 */
export function openPlatform(config: Config, log: Log, role: ProcessRole = ANSWERS_REQUESTS) {
  const mailer = new Mailer(config)
  const metrics = new Metrics(config.TENON_OPS_LISTEN !== undefined)
  const { parts, payloads, health } = openServices(config, log, { role, mailer })
  const {
    database,
    documents,
    secrets,
    streams,
    channels,
    temporal,
    audit,
    limiter,
    runWatcher,
    codec,
    meters,
  } = parts
  const functions = new Functions(config.TENON_DENO_BIN)
  const relay = new Relay(database, config.VALKEY, log)
  const taskRunner = new TaskRunner(database, log)
  const streamConsumers = new StreamConsumers(database, streams, log)
  const installation = new InstallationChecks(config, database)
  for (const part of installation.parts) health.add(part)
  const work = { functions, mailer, taskRunner, streamConsumers }
  const stopObserving = observePlatform(metrics, parts, { ...work, health })
  const platform = {
    config,
    log,
    metrics,
    access: new Access(parts),
    idempotency: new Idempotency(secrets),
    egress: parts.egress,
    limiter,
    hostNames: parts.hostNames,
    meters,
    audit,
    chainSigner: parts.chainSigner,
    triggers: new TriggerStarter(TRIGGER_TARGETS),
    webhooks: new WebhookVerifier(database, secrets),
    callbacks: new CallbackVerifier(database),
    publicBuckets: new PublicBuckets(database),
    ...work,
    relay,
    codec,
    builder: config.DATABASE_BUILDER_URL === undefined ? undefined : new Builder(config.DATABASE_BUILDER_URL),
    health,
    installation,
    startChecks: openStartChecks({ ...parts, config, installation }),
    drain: new Drain(health),
    idleQueues: (identity: string) => temporal.idleQueues(identity),
    close: async () => {
      stopObserving()
      await Promise.all([
        meters.flush(),
        relay.close(),
        taskRunner.close(),
        streamConsumers.close(),
        audit.close(),
        parts.callQueue.close(),
      ])
      await parts.imageServers.close()
      mailer.close()
      health.close()
      await runWatcher.close()
      for (const one of [parts.buckets, parts.objectClients, parts.archives, payloads, parts.threads])
        one.close()
      streams.close()
      channels.close()
      limiter.close()
      await Promise.all([functions.close(), documents?.close(), database.close(), temporal.close()])
    },
  }
  return { platform, parts }
}

function openServices(
  config: Config,
  log: Log,
  { role, mailer }: { readonly role: ProcessRole; readonly mailer: Mailer },
): { parts: PlatformServices; payloads: PayloadStore; health: Health } {
  // A connection keeps the trace of the request that opened it, which has nothing to do with its loss.
  const warn = (message: string) => (err: unknown) => inTrace(undefined, () => log.warn({ err }, message))
  const onLost = warn('valkey connection failed')
  const database = Database.of(config, warn('idle database connection lost'))
  const buckets = new Buckets(config, (work) => database.exclusively(BUCKETS_LOCK, work))
  const secrets = new Secrets(config.TENON_MASTER_KEY)
  const payloads = new PayloadStore(config, buckets)
  const payloadKeys = new PayloadKeys(database, secrets)
  const codec = new TenantCodec(payloadKeys, payloads, role.retryBudget)
  const oauthClients = new OAuthClients(database)
  const issuerState = new IssuerState(database, secrets)
  const signingKeys = new SigningKeys(database, secrets)
  const subjectStatus = new SubjectStatus({
    accounts: new AccountsStore(database),
    users: new UsersStore(database),
    clients: oauthClients,
    revocations: issuerState,
  })
  const publishedServers = new TtlCache<PublishedServer | undefined>()
  const userMails = new UserMails(mailer, log, publicUrl(config))
  const patch = eagerStarts(config, log)
  const temporal = new Temporal(config, codec, { patch, refusesStarts: role.refusesStarts })
  const streams = new Streams(config.VALKEY, onLost)
  const documents = config.MONGODB_URL === undefined ? undefined : new MongoDocuments(config.MONGODB_URL)
  const objectClients = new ObjectClients(config)
  const servers = {
    ...{ postgres: database, s3: objectClients, valkey: streams, mongodb: documents },
    temporal: { ping: () => pingTemporal(temporal) },
  }
  const health = new Health(serverParts(config, servers), { log, idleQueues: () => temporal.idleQueues() })
  const parts = {
    health,
    database,
    statements: database,
    temporal,
    codec,
    payloadKeys,
    buckets,
    objectClients,
    archives: new ArchiveStore(config, buckets),
    streams,
    channels: new Channels(config.VALKEY, onLost),
    runKinds: RUN_KINDS,
    runWatcher: openRunWatcher(config, database, warn('watch of runs failed')),
    limiter: new Limiter(config, onLost),
    documents,
    secrets,
    keys: new TtlCache<KeyRow>(),
    publishedServers,
    tenantStates: new TenantStates(database),
    ...placesOf(config, database),
    signingKeys,
    oauthClients,
    subjectStatus,
    userMails,
    identityAdmin: {
      ...{ publicUrl: publicUrl(config), subjectStatus, oauthClients, signingKeys, userMails },
      providers: new ProviderSettings(secrets, publicUrl(config)),
    },
    issuerState,
    ...openOwnAccess(config, { database, issuerState, oauthClients, publishedServers }),
    trustedIssuers: config.OIDC_ISSUERS,
    publicUrl: publicUrl(config),
    cache: openCache(),
    threads: new ThreadPool(),
    convertedImages: new ConvertedImages(),
    egress: new Egress(config.TENON_EGRESS_ALLOWLIST.split(',').filter((entry) => entry !== '')),
    imageServers: new ImageServers(config, log),
    audit: new Audit(database, log),
    chainSigner: new ChainSigner(secrets),
    callQueue: new CallQueue(log),
    meters: new Meters(database, log),
    log,
  }
  return { parts, payloads, health }
}

const openRunWatcher = (config: Config, database: Database, onUnseen: (error: unknown) => void) =>
  new RunWatcher(database, new Notifier(config.VALKEY, RUNS_CHANNEL, onUnseen), onUnseen)

/** Where people are signed in, and the access that they have given to clients. */
function openOwnAccess(
  config: Config,
  {
    database,
    publishedServers,
    ...stores
  }: Pick<PlatformServices, 'database' | 'issuerState' | 'oauthClients' | 'publishedServers'>,
): Pick<PlatformServices, 'sessions' | 'ownAccess'> {
  const sessions = new Sessions(database)
  const mcpServers = new McpServerRegistry(database, publicUrl(config), publishedServers)
  const grants = new Grants({ ...stores, mcpServers, audience: `${publicUrl(config)}/v1` })
  return { sessions, ownAccess: { sessions, grants } }
}

/** Where tenants and workspaces are reached: their host names, and what proves and routes them. */
const placesOf = (config: Config, database: Database) => ({
  hostNames: new HostNames(database, config),
  dns: new DnsRecords(config.TENON_DNS_SERVERS.split(',').filter((address) => address !== '')),
  caddy:
    config.TENON_CADDY_ADMIN_URL === undefined ? undefined : new Caddy(config.TENON_CADDY_ADMIN_URL, config),
  organizations: config.TENON_KEYCLOAK === undefined ? undefined : new Organizations(config.TENON_KEYCLOAK),
})

/** Without its search attributes no workflow starts in the namespace. @throws as Part.ping */
async function pingTemporal(temporal: Temporal): Promise<void> {
  await temporal.ping()
  const fault = await temporal.findFault()
  if (fault !== undefined) throw new PartFailure(fault.detail, fault.kind)
}

/** The servers as parts to check. Without PostgreSQL nothing works; without any other, routes that do not need it go on. */
function serverParts(
  config: Config,
  servers: Readonly<Record<ServerName, Pick<Part, 'ping'> | undefined>>,
): readonly Part[] {
  const urls: Readonly<Partial<Record<string, string>>> = {
    postgres: config.DATABASE_APP_URL,
    temporal: `${config.TEMPORAL.connection.tls ? 'https' : 'http'}://${config.TEMPORAL.address}`,
    s3: config.S3_ENDPOINT,
    valkey: config.REDIS_URL,
    mongodb: config.MONGODB_URL,
  }
  return Object.entries(servers).flatMap(([name, server]) => {
    if (server === undefined) return []
    const url = urls[name]
    const at = url !== undefined && URL.canParse(url) ? { url: new URL(url) } : {}
    return [{ name, required: name === 'postgres', ...at, ping: () => server.ping() }]
  })
}
