/** Checks of the servers behind the platform: whether each is set up as the platform needs it. */

import type { Config } from '../../infra/config.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { MongoDocuments } from '../../infra/mongo/mongo.ts'
import { DIRECT, lendsTransactions, probePooling } from '../../infra/postgres/pooling.ts'
import type { ObjectClients } from '../../infra/s3/clients.ts'
import type { Temporal } from '../../infra/temporal/temporal.ts'
import type { Streams } from '../../infra/valkey/streams.ts'
import type { StartCheck, Verdict } from './start-check.ts'

type DatabaseUrls = Pick<
  Config,
  'DATABASE_APP_URL' | 'DATABASE_SESSION_URL' | 'DATABASE_BUILDER_URL' | 'DATABASE_PREPARED_STATEMENTS'
>

const SESSIONS = 'The platform needs sessions for elections, locks and the building of indexes'

/** A pooler in transaction mode gives each transaction another server session, so that a session lock would belong to another client. */
export const sessionsCheck = (config: DatabaseUrls): StartCheck => ({
  name: 'sessions',
  stops: ['api', 'worker'],
  isAwaited: true,
  run: async (): Promise<Verdict> => {
    const { DATABASE_SESSION_URL: session, DATABASE_BUILDER_URL: builder } = config
    const probe = (url: string | undefined) => (url === undefined ? DIRECT : probePooling(url))
    const [ofSession, ofBuilder, { lends, keepsStatements }] = await Promise.all([
      probe(session),
      probe(builder),
      probePooling(config.DATABASE_APP_URL),
    ])
    for (const [setting, found] of [
      ['DATABASE_SESSION_URL', ofSession],
      ['DATABASE_BUILDER_URL', ofBuilder],
    ] as const) {
      if (found.lends !== 'transaction') continue
      const detail = `${lendsTransactions(setting)} ${SESSIONS}: it must lead to PostgreSQL itself, or to a pool with pool_mode = session.`
      return { is: 'wrong', detail }
    }
    if (lends !== 'transaction')
      return {
        is: 'good',
        detail: lends === 'none' ? 'no pooler' : 'the pooler lends connections for sessions',
      }
    if (session === undefined) {
      const detail = `${lendsTransactions('DATABASE_APP_URL')} ${SESSIONS}: set DATABASE_SESSION_URL to PostgreSQL itself, or to a pool with pool_mode = session.`
      return { is: 'wrong', detail }
    }
    if (!keepsStatements && config.DATABASE_PREPARED_STATEMENTS) {
      const detail =
        'The pooler of DATABASE_APP_URL does not keep prepared statements. Set DATABASE_PREPARED_STATEMENTS=false, or `max_prepared_statements` of PgBouncer 1.21 or newer.'
      return { is: 'wrong', detail }
    }
    return { is: 'good', detail: 'the pooler lends connections for transactions; sessions go past it' }
  },
})

/** Without it the worker fails each task; the API answers 503 where it needs Temporal. */
export const temporalCheck = (temporal: Pick<Temporal, 'findFault'>): StartCheck => ({
  name: 'temporal',
  stops: ['worker'],
  isAwaited: true,
  run: async () => {
    const fault = await temporal.findFault()
    return fault === undefined
      ? { is: 'good', detail: 'the namespace has all search attributes' }
      : { is: 'wrong', ...fault }
  },
})

/** Counts of rate limits, leases of open streams and sessions of MCP clients are all that expires; events never do. */
const VOLATILE = /^volatile-/

export const valkeyCheck = (streams: Pick<Streams, 'memory'>): StartCheck => ({
  name: 'valkey',
  server: 'valkey',
  stops: ['api', 'worker'],
  run: async (): Promise<Verdict> => {
    const { usedBytes, maxBytes, policy } = await streams.memory()
    if (VOLATILE.test(policy)) {
      const detail = `Valkey deletes keys that expire when its memory is full (maxmemory-policy ${policy}): counts of rate limits, which then begin at zero again, and subscriptions of MCP clients. Events stay. Set \`maxmemory-policy noeviction\`.`
      return { is: 'warning', detail }
    }
    if (policy !== 'noeviction') {
      const detail = `Valkey deletes keys of any kind when its memory is full (maxmemory-policy ${policy}): events would be lost that were acknowledged. Set \`maxmemory-policy noeviction\`.`
      return { is: 'wrong', detail }
    }
    if (maxBytes === 0) {
      const detail =
        'Valkey has no limit of memory (maxmemory 0): when it grows, the system ends it, and events since its last save are lost. Set `maxmemory` below the memory of its machine.'
      return { is: 'warning', detail }
    }
    const percent = Math.round((usedBytes / maxBytes) * 100)
    if (usedBytes > maxBytes * INFRA_LIMITS.valkeyUsedShareMax) {
      const detail = `Valkey uses ${percent} % of its memory (maxmemory ${mib(maxBytes)}): when it is full, publishing and administration answer 503. Raise \`maxmemory\`, or remove what fills it besides Tenon.`
      return { is: 'warning', detail }
    }
    return { is: 'good', detail: `${percent} % of ${mib(maxBytes)} in use, deletes nothing by itself` }
  },
})

const mib = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MiB`

/** @param identity how workspaces reach their buckets */
export const storageCheck = (
  objects: Pick<ObjectClients, 'ping'>,
  identity: Config['S3_IDENTITY'],
): StartCheck => ({
  name: 'storage',
  server: 's3',
  stops: [],
  run: async () => {
    await objects.ping()
    const detail =
      identity === 'session'
        ? 'opens a session of its own for each workspace'
        : 'the platform alone separates the buckets of workspaces, since S3_IDENTITY is none'
    return { is: 'good', detail }
  },
})

export const documentsCheck = (documents: Pick<MongoDocuments, 'findFaults'>): StartCheck => ({
  name: 'documents',
  stops: [],
  run: async () => {
    const faults = await documents.findFaults()
    return faults.length === 0
      ? { is: 'good', detail: 'decides concurrent changes one after the other' }
      : { is: 'wrong', detail: faults.join(' ') }
  },
})
