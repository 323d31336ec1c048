/** What the platform lends to scopes. Never handed on. */

import type { KeyRow } from './auth.ts'
import type { MongoDocuments } from './documents-mongo.ts'
import type { KeyCache } from './key-cache.ts'
import type { Log } from './log.ts'
import type { Memo } from './memo.ts'
import type { ObjectClients } from './object-clients.ts'
import type { Objects } from './objects.ts'
import type { Database } from './pg/database.ts'
import type { Secrets } from './secrets.ts'
import type { StorageIdentities } from './storage-identities.ts'
import type { Streams } from './streams.ts'
import type { Temporal } from './temporal.ts'

export interface Parts {
  readonly database: Database
  readonly temporal: Temporal
  readonly objects: Objects
  readonly objectClients: ObjectClients
  readonly identities: StorageIdentities
  readonly streams: Streams
  /** Where one is configured. */
  readonly documents: MongoDocuments | undefined
  readonly secrets: Secrets
  readonly keys: KeyCache<KeyRow>
  readonly memo: Memo
  readonly log: Log
}
