/** Documents over the MongoDB wire protocol: one collection for all tenants, each handle bound to one workspace. */

import { setTimeout as pause } from 'node:timers/promises'
import type { AggregationCursor, Collection, MongoClient } from 'mongodb'
import { type Actor, isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from '../unavailable.ts'
import { findServerFaults } from './probe.ts'

/** A stored document: `d` its fields, `k` its keys for filters and orders. */
export interface MongoDocument {
  readonly id: string
  readonly d: object
  readonly k: Readonly<Record<string, string>>
  /** Version of the form of `d` and `k`; absent in the first one. */
  readonly f?: number
  readonly v: number
  readonly created_at: Date
  readonly updated_at: Date
  /** The latest changes under an idempotency key, oldest first: the mark of each, and the version that it made. */
  readonly marks?: readonly { readonly by: string; readonly v: number }[]
  /** The end user who created it. Set by the handle that inserts it, or by a service key; no update changes it. */
  readonly owner?: string
}
export type MongoFilter = Readonly<Record<string, unknown>>

export interface MongoQuery {
  readonly filter: MongoFilter
  /** Computed fields that the sort names. */
  readonly set: Readonly<Record<string, unknown>>
  readonly sort: Readonly<Record<string, 1 | -1>>
  readonly limit: number
}

export interface OwnerChange {
  readonly from: string
  readonly to: string
  /** How many documents at most. */
  readonly limit: number
}

interface StoredDocument extends MongoDocument {
  readonly _id: string
  readonly tenant: string
  readonly workspace: string
  readonly collection: string
}

const DATABASE = 'tenon'
const CONNECT_MS = 2_000

const OPTIONS = {
  appName: 'tenon',
  maxPoolSize: INFRA_LIMITS.poolConnectionsMax,
  serverSelectionTimeoutMS: CONNECT_MS,
  connectTimeoutMS: CONNECT_MS,
  waitQueueTimeoutMS: INFRA_LIMITS.poolWaitMs,
  socketTimeoutMS: INFRA_LIMITS.storeIdleMs,
  ignoreUndefined: true,
}

const PING_MS = 1_500

/** The connection, which never leaves this class: callers receive a handle of one workspace. */
export class MongoDocuments {
  readonly #url: string
  #client: Promise<MongoClient> | undefined
  /** Why the server is away; a command says only that it found none. */
  #lost: Error | undefined
  #ready: Promise<Collection<StoredDocument>> | undefined

  constructor(url: string) {
    this.#url = url
  }

  /** A handle without restrictions for service keys; for all others it is closed until {@link DocumentsHandle.under} opens it. */
  handle(ref: WorkspaceRef, actor: Pick<Actor, 'role' | 'user'>): DocumentsHandle {
    return new DocumentsHandle(ref, actor, () => this.#collection(), actor.role === 'service' ? OPEN : CLOSED)
  }

  /** Counts up to a limit. @param ref of a tenant as a whole: the documents of all of its workspaces */
  async count(ref: TenantRef, limit: number): Promise<number> {
    return this.#asProblem(async () => (await this.#collection()).countDocuments(ownedBy(ref), { limit }))
  }

  /** Deletes all documents of a tenant or a workspace. */
  async removeAll(ref: TenantRef): Promise<void> {
    await this.#asProblem(async () => (await this.#collection()).deleteMany(ownedBy(ref)))
  }

  #asProblem<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((error: unknown) => {
      throw unavailable('mongodb', error)
    })
  }

  /** @throws the error of the connection or of the server; the driver itself would still look for a server */
  async ping(): Promise<void> {
    const asked = (await this.#connected()).db(DATABASE).command({ ping: 1 })
    const lost = pause(PING_MS, undefined, { ref: false }).then(() => {
      throw this.#lost ?? new Error(`timeout: no answer within ${PING_MS} ms`)
    })
    await Promise.race([asked, lost]).finally(() => {
      for (const either of [asked, lost]) either.catch(() => {})
    })
  }

  /** @returns a sentence for each fault of the server that loses or refuses what the platform promises */
  async findFaults(): Promise<string[]> {
    const database = (await this.#connected()).db(DATABASE)
    return findServerFaults(database.collection('probes'))
  }

  async close(): Promise<void> {
    await (await this.#client)?.close()
  }

  /** Loads the driver on first use, since loading takes longer than the rest of the start. */
  #connected(): Promise<MongoClient> {
    this.#client ??= import('mongodb').then(({ MongoClient }) => {
      const client = new MongoClient(this.#url, OPTIONS)
      client.on('serverHeartbeatFailed', ({ failure }) => {
        this.#lost = failure
      })
      client.on('serverHeartbeatSucceeded', () => {
        this.#lost = undefined
      })
      return client
    })
    return this.#client
  }

  /** The collection with its index, which is created once per process, and again after a failure. */
  #collection(): Promise<Collection<StoredDocument>> {
    this.#ready ??= this.#open().catch((error: unknown) => {
      this.#ready = undefined
      throw error
    })
    return this.#ready
  }

  async #open(): Promise<Collection<StoredDocument>> {
    const collection = (await this.#connected()).db(DATABASE).collection<StoredDocument>('documents')
    await collection.createIndex({ tenant: 1, workspace: 1, collection: 1, id: 1 })
    return collection
  }
}

const ownedBy = ({ tenantId: tenant, workspaceId: workspace }: TenantRef) =>
  workspace === '-' ? { tenant } : { tenant, workspace }

/** The documents that a caller may read, update and delete, and whether they may create any. */
export interface DocumentRules {
  readonly create: boolean
  readonly read: MongoFilter
  readonly update: MongoFilter
  readonly delete: MongoFilter
}

const NOTHING: MongoFilter = { $nor: [{}] }
const OPEN: DocumentRules = { create: true, read: {}, update: {}, delete: {} }
const CLOSED: DocumentRules = { create: false, read: NOTHING, update: NOTHING, delete: NOTHING }

/**
 * The documents of one workspace. Every statement carries tenant and workspace and the caller's rule; every new document
 * is stamped with tenant, workspace and owner.
 */
export class DocumentsHandle {
  readonly #ref: WorkspaceRef
  readonly #actor: Pick<Actor, 'role' | 'user'>
  readonly #open: () => Promise<Collection<StoredDocument>>
  readonly #rules: DocumentRules

  constructor(
    ref: WorkspaceRef,
    actor: Pick<Actor, 'role' | 'user'>,
    open: () => Promise<Collection<StoredDocument>>,
    rules: DocumentRules,
  ) {
    this.#ref = ref
    this.#actor = actor
    this.#open = open
    this.#rules = rules
  }

  /** A handle for one collection, under its rules for the caller. */
  under(rules: DocumentRules): DocumentsHandle {
    return new DocumentsHandle(this.#ref, this.#actor, this.#open, rules)
  }

  /** For work of the platform on the workspace's documents, whoever caused it. */
  get withoutRules(): DocumentsHandle {
    return this.under(OPEN)
  }

  /** Inserts a document, or returns the one that has its id already; what was to be inserted, if the caller may not read that. */
  async insert(
    collection: string,
    document: MongoDocument,
  ): Promise<{ readonly document: MongoDocument; readonly isNew: boolean }> {
    this.#requireCreate()
    const stamped = this.#stamped(collection, document)
    return this.#run(async (documents) => {
      try {
        await documents.insertOne(stamped)
        return { document: stamped, isNew: true }
      } catch (error) {
        if ((error as { code?: unknown }).code !== DUPLICATE) throw error
        const found = await documents.findOne(this.#own(collection, { id: document.id }, 'read'))
        return { document: found ?? stamped, isNew: false }
      }
    })
  }

  /** Inserts the documents with new ids. @returns these ids */
  async insertMany(collection: string, documents: readonly MongoDocument[]): Promise<string[]> {
    this.#requireCreate()
    const stamped = documents.map((document) => this.#stamped(collection, document))
    const taken = await this.#run(async (all) => {
      try {
        await all.insertMany(stamped, { ordered: false })
        return new Set<number>()
      } catch (error) {
        return indexesOfDuplicates(error)
      }
    })
    return documents.flatMap(({ id }, index) => (taken.has(index) ? [] : [id]))
  }

  find(collection: string, query: MongoQuery): Promise<MongoDocument[]> {
    return this.#find(collection, query, { k: 0, marks: 0 })
  }

  /** These parts of the documents alone, such as `id` and `d.name`. */
  findParts(
    collection: string,
    query: MongoQuery,
    names: readonly string[],
  ): Promise<Partial<MongoDocument>[]> {
    const named = Object.fromEntries(names.map((name) => [name, 1 as const]))
    return this.#find(collection, query, { _id: 0, ...named })
  }

  #find(
    collection: string,
    { filter, set, sort, limit }: MongoQuery,
    parts: Readonly<Record<string, 0 | 1>>,
  ): Promise<StoredDocument[]> {
    const computed = Object.keys(set).length === 0 ? [] : [{ $set: set }]
    const stages = [
      { $match: this.#own(collection, filter, 'read') },
      ...computed,
      { $sort: sort },
      { $limit: limit },
    ]
    return this.#run((documents) =>
      bounded(
        documents.aggregate<StoredDocument>([...stages, { $project: parts }], {
          maxTimeMS: this.#timeoutMs,
        }),
      ),
    )
  }

  /**
   * These parts of documents that match, in any order, as they come in.
   * @param limit documents at most
   */
  async *each(
    collection: string,
    filter: MongoFilter,
    { names, limit }: { readonly names: readonly string[]; readonly limit: number },
  ): AsyncGenerator<{ readonly document: Partial<MongoDocument>; readonly bytes: number }> {
    const projection = { _id: 0, ...Object.fromEntries(names.map((name) => [name, 1 as const])) }
    const query = { projection, limit, maxTimeMS: this.#timeoutMs }
    const found = await this.#run(async (all) => all.find(this.#own(collection, filter, 'read'), query))
    const { BSON } = await import('mongodb')
    try {
      // Leaving the loop closes the cursor.
      for await (const document of found) yield { document, bytes: BSON.calculateObjectSize(document) }
    } catch (cause) {
      throw await translate(cause)
    }
  }

  /** The ids of the first documents that match. */
  findIds(collection: string, filter: MongoFilter, limit: number): Promise<string[]> {
    const own = this.#own(collection, filter, 'read')
    const query = { projection: { _id: 0, id: 1 }, limit, maxTimeMS: this.#timeoutMs } as const
    return this.#run(async (documents) => {
      const found = await documents.find(own, query).sort({ id: 1 }).toArray()
      return found.map(({ id }) => id)
    })
  }

  /** Deletes those of the documents that match. */
  async deleteAll(collection: string, ids: readonly string[], filter: MongoFilter): Promise<void> {
    const own = this.#own(collection, { $and: [{ id: { $in: ids } }, filter] }, 'delete')
    await this.#run((documents) => documents.deleteMany(own))
  }

  /** Deletes all documents of a collection. @returns how many */
  deleteCollection(collection: string): Promise<number> {
    return this.#run(async (all) => (await all.deleteMany(this.#own(collection, {}, 'delete'))).deletedCount)
  }

  /**
   * The last of the next documents in the order of their ids: a query up to it reads no more than these.
   * @returns undefined if there are fewer
   */
  async findNth(collection: string, after: string, n: number): Promise<string | undefined> {
    const stages = [
      { $match: this.#own(collection, { id: { $gt: after } }, 'read') },
      ...[{ $sort: { id: 1 } }, { $skip: n - 1 }, { $limit: 1 }, { $project: { _id: 0, id: 1 } }],
    ]
    return this.#run(async (documents) => {
      const found = documents.aggregate<{ id: string }>(stages, { maxTimeMS: this.#timeoutMs })
      return (await found.toArray())[0]?.id
    })
  }

  count(collection: string, filter: MongoFilter): Promise<number> {
    return this.#run((documents) =>
      documents.countDocuments(this.#own(collection, filter, 'read'), { maxTimeMS: this.#timeoutMs }),
    )
  }

  /** Names of collections that have documents, after the given name. */
  names(after: string): Promise<string[]> {
    const { tenantId: tenant, workspaceId: workspace } = this.#ref
    const own = { tenant, workspace, collection: { $gt: after } }
    // Not `distinct`: FerretDB supports no time limit for it.
    const stages = [{ $match: own }, { $sort: { collection: 1 } }, { $group: { _id: '$collection' } }]
    return this.#run(async (documents) => {
      const found = documents.aggregate<{ _id: string }>(stages, { maxTimeMS: this.#timeoutMs })
      return (await found.toArray()).map(({ _id }) => _id)
    })
  }

  get(collection: string, id: string): Promise<MongoDocument | undefined> {
    return this.#run(async (documents) => {
      const found = await documents.findOne(this.#own(collection, { id }, 'read'), {
        projection: { k: 0 },
        maxTimeMS: this.#timeoutMs,
      })
      return found ?? undefined
    })
  }

  /** Replaces the fields of a document at version `from`. @returns true if it had that version */
  replace(collection: string, from: number, to: MongoDocument): Promise<boolean> {
    const { id, ...rest } = to
    return this.#run(async (documents) => {
      const answer = await documents.updateOne(this.#own(collection, { id, v: from }, 'update'), {
        $set: rest,
      })
      return answer.matchedCount === 1
    })
  }

  /** Gives some documents of an owner to another. @returns how many */
  changeOwner(collection: string, { from, to, limit }: OwnerChange): Promise<number> {
    return this.#run(async (documents) => {
      const query = { projection: { id: 1 }, limit, maxTimeMS: this.#timeoutMs } as const
      const found = await documents.find(this.#own(collection, { owner: from }, 'update'), query).toArray()
      if (found.length === 0) return 0
      const ids = found.map(({ id }) => id)
      const some = this.#own(collection, { owner: from, id: { $in: ids } }, 'update')
      return (await documents.updateMany(some, { $set: { owner: to } })).matchedCount
    })
  }

  /** @returns true if it existed at version `from` */
  delete(collection: string, id: string, from: number): Promise<boolean> {
    return this.#run(async (documents) => {
      const answer = await documents.deleteOne(this.#own(collection, { id, v: from }, 'delete'))
      return answer.deletedCount === 1
    })
  }

  #stamped(collection: string, document: MongoDocument): StoredDocument {
    const { tenantId: tenant, workspaceId: workspace } = this.#ref
    const _id = `${tenant}:${workspace}:${collection}:${document.id}`
    const { user, role } = this.#actor
    const { owner: named, ...unowned } = document
    const owner = user?.id ?? (role === 'service' ? named : undefined)
    return { ...unowned, _id, tenant, workspace, collection, ...(owner !== undefined && { owner }) }
  }

  /** Isolation: a filter of a caller is combined with it and cannot replace it. */
  #own(collection: string, filter: MongoFilter, right: 'read' | 'update' | 'delete'): object {
    const { tenantId: tenant, workspaceId: workspace } = this.#ref
    return { $and: [{ tenant, workspace, collection }, this.#rules[right], filter] }
  }

  /** As grants do in PostgreSQL. */
  #requireCreate(): void {
    if (!this.#rules.create) throw new Problem('forbidden')
  }

  get #timeoutMs(): number {
    return INFRA_LIMITS.statementTimeoutMs[isPublicRole(this.#actor.role) ? 'anon' : 'service']
  }

  async #run<T>(work: (documents: Collection<StoredDocument>) => Promise<T>): Promise<T> {
    try {
      return await work(await this.#open())
    } catch (cause) {
      throw await translate(cause)
    }
  }
}

const DUPLICATE = 11_000
const TIMED_OUT = 50

/** @returns the indexes of the documents whose id exists @throws the error, unless these are all failures */
async function indexesOfDuplicates(error: unknown): Promise<ReadonlySet<number>> {
  const { MongoBulkWriteError } = await import('mongodb')
  if (!(error instanceof MongoBulkWriteError)) throw error
  const faults = [error.writeErrors].flat()
  if (faults.length === 0 || faults.some(({ code }) => code !== DUPLICATE)) throw error
  return new Set(faults.map(({ index }) => index))
}

/** Bounds the bytes of an answer, as for PostgreSQL: a page of the largest documents would have hundreds of megabytes. */
async function bounded<T extends object>(found: AggregationCursor<T>): Promise<T[]> {
  const { BSON } = await import('mongodb')
  const documents: T[] = []
  let bytes = 0
  // Leaving the loop closes the cursor.
  for await (const document of found) {
    bytes += BSON.calculateObjectSize(document)
    if (bytes > INFRA_LIMITS.rowsBytesMax) {
      const detail = `The answer has more than ${INFRA_LIMITS.rowsBytesMax} bytes.`
      throw new Problem('output_too_large', { detail })
    }
    documents.push(document)
  }
  return documents
}

/** An error of the server is a bug of ours; any other error of the driver means that the server was not reached. */
async function translate(error: unknown): Promise<unknown> {
  const { MongoError, MongoServerError } = await import('mongodb')
  if (error instanceof MongoServerError)
    return error.code === TIMED_OUT ? new Problem('query_timeout', { cause: error }) : error
  if (!(error instanceof MongoError)) return error
  return unavailable('mongodb', error)
}
