/** The composition root: config in, everything that has a connection out. */

import { Access } from './access.ts'
import type { Config } from './config.ts'
import { MongoDocuments } from './documents-mongo.ts'
import { Egress } from './egress.ts'
import { KeyCache } from './key-cache.ts'
import type { Log } from './log.ts'
import { Memo } from './memo.ts'
import { Objects } from './objects.ts'
import { Database } from './pg/database.ts'
import type { Parts } from './scope.ts'
import { Secrets } from './secrets.ts'
import { Streams } from './streams.ts'
import { Temporal } from './temporal.ts'

/** A dependency's name and how to ask whether it answers; /readyz and `tenon doctor` ask. */
export interface Check {
  readonly name: string
  readonly ping: () => Promise<unknown>
}

export interface Platform {
  readonly config: Config
  readonly log: Log
  readonly access: Access
  readonly egress: Egress
  readonly checks: readonly Check[]
  close(): Promise<void>
}

/** Opens the platform. Connections are lazy: servers may be down now and come up later. */
export function openPlatform(config: Config, log: Log): { platform: Platform; parts: Parts } {
  const database = Database.open(config.DATABASE_APP_URL, (error) =>
    log.warn({ err: error }, 'idle connection lost'),
  )
  const temporal = new Temporal(config)
  const objects = new Objects(config)
  const streams = new Streams(config.REDIS_URL, (error) => log.warn({ err: error }, 'valkey connection'))
  const secrets = new Secrets(config.TENON_MASTER_KEY)
  const documents = config.MONGODB_URL === undefined ? undefined : new MongoDocuments(config.MONGODB_URL)
  const parts: Parts = {
    database,
    temporal,
    objects,
    streams,
    documents,
    secrets,
    keys: new KeyCache(),
    memo: new Memo(),
  }
  const platform: Platform = {
    config,
    log,
    access: new Access(parts, database),
    egress: new Egress(config.TENON_EGRESS_ALLOW.split(',').filter((entry) => entry !== '')),
    checks: [
      { name: 'postgres', ping: () => database.ping() },
      { name: 'temporal', ping: () => temporal.ping() },
      { name: 'objects', ping: () => objects.ping() },
      { name: 'streams', ping: () => streams.ping() },
      ...(documents === undefined ? [] : [{ name: 'documents', ping: () => documents.ping() }]),
    ],
    close: async () => {
      objects.close()
      streams.close()
      await Promise.all([database.close(), temporal.close(), documents?.close()])
    },
  }
  return { platform, parts }
}
