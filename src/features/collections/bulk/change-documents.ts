/** Makes bulk changes: finds the next documents, changes them together, and records the step in the transaction of the changes. */

import { type MarkedEffect, requireHeld } from '../../../access/completion.ts'
import { permitActor } from '../../../access/permission.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Suspended } from '../../../access/tenant-states.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { BulkProgress, FunctionTrigger, WorkCaller } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { currentCaller } from '../../runs/caller.ts'
import { updateBy } from '../batch-operations.ts'
import type { WantedChange } from '../check-changes.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readOperators } from '../operators.ts'
import { readBodyFilter } from '../query/body.ts'
import { BY_ID, type Filter } from '../query/filter.ts'
import { withRelated } from '../references/related.ts'
import { withCollection } from '../resolve-store.ts'
import { inLine } from '../scans.ts'
import type { Once, Written } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import { writeAll } from '../write.ts'
import { deleteMany, updateMany } from './bulk-api.ts'
import { BULK_RIGHTS, type BulkRequest, recordStep, type Step } from './bulk-change.ts'

interface Recorded {
  readonly id: string
  readonly collection: string
  readonly verb: 'update' | 'delete'
  readonly request: BulkRequest
  readonly caller: WorkCaller
  readonly trigger: FunctionTrigger
  readonly last_id: string | null
  readonly matched: number
  readonly max_documents: number | null
  readonly begun: Document | null
  readonly created_at: string
}

/** A document that matches, as it was found. */
interface Document {
  readonly id: string
  readonly version: number
}

interface Found {
  readonly documents: readonly Document[]
  readonly isAtomic: boolean
}

export interface BulkScopes {
  /** Reads the record as an admin of the workspace. */
  readonly record: WorkspaceScope
  /** The workspace with the rights of the caller, at a depth of a chain of runs. @throws Suspended */
  readonly open: (caller: WorkCaller, chainDepth: number) => Promise<WorkspaceScope>
}

/** A query for the next documents that took too long at each attempt. It would do so again. */
export class QueryTooSlow extends Problem {
  constructor(cause: Problem, { actor }: WorkspaceScope) {
    const hint = isPublicRole(actor.role) ? cause.publicHint : cause.fullHint
    super('query_timeout', { detail: `The query for the next documents took too long. ${hint}`, cause })
  }
}

/**
 * Goes on with a bulk change for some time.
 * @returns whether there is more to do, and if so now or when the workspace may have been resumed
 * @throws QueryTooSlow; Problem that ends it, such as `forbidden` or `insufficient_scope` if the caller has lost the right
 */
export async function changeDocuments(scopes: BulkScopes, id: string): Promise<BulkProgress> {
  try {
    return await changeSome(scopes, id)
  } catch (error) {
    if (!(error instanceof Suspended)) throw error
    return 'suspended'
  }
}

async function changeSome({ record, open }: BulkScopes, id: string): Promise<BulkProgress> {
  const untilMs = performance.now() + COLLECTION_LIMITS.bulkServedMs
  while (performance.now() < untilMs) {
    const row = await record.row<Recorded>(sql`
      select id, collection, verb, request, caller, trigger, last_id, matched::integer, max_documents, begun, created_at from bulk_changes
      where id = ${id} and ended_at is null`)
    if (row === undefined) return 'ended'
    const { caller, lost } = await currentCaller(record, row)
    if (lost !== undefined) throw new Problem('forbidden', { detail: `The bulk change was ended: ${lost}.` })
    const scope = await open(caller, row.trigger.chain_depth ?? 0)
    // The key may have lost scopes since the last step.
    permitActor(OPERATIONS[row.verb], scope.actor, row.request)
    const hasMore = await new BulkStep(scope, row).run()
    if (!hasMore) {
      await scope.batch(sql`
        update bulk_changes set status = 'completed', ended_at = now() where id = ${id} and ended_at is null`)
      return 'ended'
    }
  }
  return 'more'
}

/** By how much fewer documents are read if so many are too large together. */
const LARGE_DOCUMENTS = 5

const OPERATIONS = { update: updateMany, delete: deleteMany } as const

/** Documents that exist when the change is asked for: those that come meanwhile are not of it. */
const existing = ({ request, created_at }: Recorded): Filter => {
  const test = { op: 'lte', value: [new Date(created_at).toISOString()] } as const
  // Combined when it is read: in JSON the caller's filter would be one test and one level larger, and may be as large as filters are.
  return {
    kind: 'all',
    of: [
      readBodyFilter(request.filter, { joins: true }),
      { kind: 'test', path: ['_created_at'], test, not: false },
    ],
  }
}

class BulkStep {
  readonly #scope: WorkspaceScope
  readonly #change: Recorded
  /** The last document of the record, as far as this attempt has come. */
  #after: string | null

  constructor(scope: WorkspaceScope, change: Recorded) {
    this.#scope = scope
    this.#change = change
    this.#after = change.last_id
  }

  /** @returns false if no document is left */
  async run(): Promise<boolean> {
    const { documents, isAtomic } = await this.#find(this.#after)
    try {
      if (await this.#countBegun(documents)) return true
      this.#requireFewer(documents)
      if (isAtomic) await this.#make(documents)
      else for (const document of documents) await this.#make([document])
    } catch (error) {
      // Another worker has come further, or the change was cancelled: its record tells.
      if (!(error instanceof Problem && error.code === 'idempotency_in_flight')) throw error
      return true
    }
    return documents.length > 0
  }

  /** Documents that others change may come to match after they were counted. @throws Problem `too_many_matches` */
  #requireFewer(documents: readonly Document[]): void {
    const { matched, max_documents: max } = this.#change
    if (max === null || matched + documents.length <= max) return
    throw new Problem('too_many_matches', {
      detail: `More documents match now than \`max_documents\`, ${max}. The documents that it has changed until then stay changed.`,
    })
  }

  /** The next documents behind one. @throws QueryTooSlow */
  async #find(after: string | null): Promise<Found> {
    let limit: number = COLLECTION_LIMITS.bulkDocuments[this.#change.verb]
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#query(after, limit)
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        if (error.code === 'output_too_large' && limit > 1) {
          limit = Math.ceil(limit / LARGE_DOCUMENTS)
          continue
        }
        if (error.code !== 'query_timeout') throw error
        if (attempt >= COLLECTION_LIMITS.bulkTimeoutsMax) throw new QueryTooSlow(error, this.#scope)
      }
    }
  }

  async #query(after: string | null, limit: number): Promise<Found> {
    const { collection: name, verb } = this.#change
    const filter = existing(this.#change)
    const reading = { name, rights: BULK_RIGHTS[verb], filter }
    const page = { order: BY_ID, limit, selected: [], ...(after !== null && { after: [after] }) }
    return withRelated(this.#scope, reading, async (collection, inside, bound) => {
      const query = applyDeclaration({ ...page, filter: bound }, collection.declared)
      const { rows } = await inLine(inside, collection, query, () =>
        collection.store.list(inside, collection, query),
      )
      return { documents: rows, isAtomic: collection.store.kind === 'postgresql' }
    })
  }

  /**
   * In MongoDB: counts the document that an attempt before has changed and not recorded, if it does not match any more.
   * @returns true if there was one
   */
  async #countBegun(documents: readonly Document[]): Promise<boolean> {
    const { collection: name, verb, begun } = this.#change
    if (begun === null || documents.some(({ id }) => id === begun.id)) return false
    try {
      const made = await withCollection(this.#scope, name, BULK_RIGHTS[verb], async (collection, inside) =>
        collection.store.findMade?.(inside, { collection, id: begun.id, verb }, this.#effect(begun)),
      )
      if (made === undefined) return false
      requireHeld(await this.#scope.rows(this.#record([begun], { changed: 1 })))
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'idempotency_outcome_unknown') throw error
      await this.#leave(begun, error)
    }
    return true
  }

  /** Changes documents together; if one of them stands in the way, each half by itself, down to that one. */
  async #make(documents: readonly Document[]): Promise<void> {
    const [first] = documents
    if (first === undefined) return
    try {
      const wanted = documents.map((document) => this.#wanted(document))
      const together = this.#change.verb === 'delete'
      await writeAll(this.#scope, wanted, { once: this.#once(documents), together })
      this.#after = documents.at(-1)?.id ?? null
    } catch (error) {
      if (!(error instanceof Problem) || !mayDivide(error, documents)) throw error
      if (documents.length === 1) return this.#leave(first, error)
      const half = Math.ceil(documents.length / 2)
      await this.#make(documents.slice(0, half))
      await this.#make(documents.slice(half))
    }
  }

  #wanted({ id, version }: Document): WantedChange {
    const { verb, collection, request } = this.#change
    const on = { collection, id, ifVersions: [version] }
    if (verb === 'delete') return { op: 'delete', ...on }
    return updateBy(on, readOperators(request))
  }

  /** Ends the step in the transaction of its changes; in MongoDB after them, by the mark that they leave. */
  #once(documents: readonly Document[]): Once {
    const keep = (written: readonly Written[]) =>
      this.#record(documents, {
        changed: written.filter(({ version }, index) => this.#isChanged(version, documents[index])).length,
      })
    const [first = { id: '', version: 0 }] = documents
    return { keep, effect: this.#effect(first) }
  }

  #isChanged(version: number, before: Document | undefined): boolean {
    const { verb, begun } = this.#change
    if (verb === 'delete' || version !== before?.version) return true
    // An attempt before has made this version, and was cut off before it could record that.
    return begun?.id === before.id && version === begun.version + 1
  }

  #record(documents: readonly Document[], step: Partial<Step>) {
    const lastId = documents.at(-1)?.id ?? ''
    return recordStep(this.#change.id, this.#after, {
      ...{ lastId, matched: documents.length, changed: 0, failures: [] },
      ...step,
    })
  }

  #effect({ id }: Document): MarkedEffect {
    const { id: change, begun } = this.#change
    return {
      mark: `${change}:${id}`,
      begunAt: begun?.id === id ? begun.version : undefined,
      begin: (version) => sql`
        update bulk_changes set begun = ${JSON.stringify({ id, version })}::jsonb
        where id = ${change} and ended_at is null and last_id is not distinct from ${this.#after}::uuid returning id`,
    }
  }

  /** Records that a document was not changed: it has changed meanwhile, so it is looked at again, or it is gone, or it cannot be changed. */
  async #leave(document: Document, problem: Problem, attempt = 1): Promise<void> {
    if (problem.code === 'precondition_failed' && attempt < COLLECTION_LIMITS.bulkAttemptsMax) {
      const now = (await this.#find(this.#after)).documents.find(({ id }) => id === document.id)
      if (now === undefined) return this.#pass(document)
      try {
        await writeAll(this.#scope, [this.#wanted(now)], { once: this.#once([now]) })
        this.#after = now.id
        return
      } catch (error) {
        if (!(error instanceof Problem) || error.status >= 500 || ENDS_ALL.has(error.code)) throw error
        return this.#leave(now, error, attempt + 1)
      }
    }
    if (problem.code === 'not_found') return this.#pass(document)
    requireHeld(
      await this.#scope.rows(this.#record([document], { failures: [{ id: document.id, problem }] })),
    )
    this.#after = document.id
  }

  /** Goes on behind a document that does not match any more. */
  async #pass(document: Document): Promise<void> {
    requireHeld(await this.#scope.rows(this.#record([document], { matched: 0 })))
    this.#after = document.id
  }
}

/** True if fewer documents may succeed: one of them stands in the way, or they take too long together. */
const mayDivide = ({ code, status }: Problem, documents: readonly Document[]): boolean =>
  code === 'overloaded' ? documents.length > 1 : status < 500 && !ENDS_ALL.has(code)

/** Problems that are not about one document. */
const ENDS_ALL: ReadonlySet<string> = new Set(['idempotency_in_flight', 'quota_exceeded', 'rate_limited'])
