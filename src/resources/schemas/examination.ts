/** Documents against a schema that is to come: which of them would not fit, found page by page. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { documentsOf } from '../../platform/capabilities.ts'
import { Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { CpuBudget } from '../../platform/turns.ts'
import { ANON_DEFAULTS } from '../anon.ts'
import type { Filter, OrderKey } from '../collections/grammar/filter.ts'
import { mongoStore } from '../collections/mongo/store.ts'
import { postgresStore } from '../collections/postgres/store.ts'
import type { Store, Stored } from '../collections/store.ts'
import { anonAccess, type Declaration } from './declarations.ts'
import type { Prepared } from './prepare.ts'
import { type Fault, isPending, validateDocument } from './validate.ts'
import { faultsInThread } from './validate-in-thread.ts'

/** A document that does not fit, with the first of its faults. */
interface Offence {
  readonly id: string
  readonly pointer: string
  readonly detail: string
}

const ALL: Filter = { kind: 'all', of: [] }
const BY_ID: readonly OrderKey[] = [{ path: ['id'], descending: false, nullsFirst: false }]

export class Examination {
  readonly #collection: string
  readonly #was: Declaration
  readonly #schema: Prepared
  readonly #untilMs = Date.now() + LIMITS.examinationMs
  readonly #turns = new CpuBudget(LIMITS.examinationMs)
  readonly #offending: Offence[] = []
  #seen = 0

  /** @param was the declaration under which the documents are kept */
  constructor(collection: string, was: Declaration, schema: Prepared) {
    this.#collection = collection
    this.#was = was
    this.#schema = schema
  }

  /**
   * Every document, however many: memory holds one page.
   * @throws Problem `schema_incompatible` at the end of the page that has the last offence that is shown, or of all;
   *   `query_timeout` where they are too many for `examinationMs`
   */
  async all(scope: WorkspaceScope): Promise<void> {
    await this.#pages(scope, ALL)
    this.#judge()
  }

  /** Those of the ids that are still there. */
  async these(scope: WorkspaceScope, ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += LIMITS.filterValuesMax) {
      const values = ids.slice(at, at + LIMITS.filterValuesMax).map((id) => [id] as const)
      await this.#pages(scope, { kind: 'test', path: ['id'], test: { op: 'in', values }, not: false })
    }
    this.#judge()
  }

  /** Where the documents stand now: the oldest transaction that may still change one unseen. */
  async mark(scope: WorkspaceScope): Promise<string> {
    const row = await scope.row<{ xid: string }>(
      sql`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`,
    )
    return row?.xid ?? '0'
  }

  /** Ids of what was written since the mark. In MongoDB nothing tells: writers there are not waited for. */
  async since(scope: WorkspaceScope, mark: string): Promise<string[]> {
    if (this.#inMongo(scope)) return []
    const table = sql`tenon_data.${Sql.identifier(this.#was.relation)}`
    // Counted from now, since ids of transactions begin anew after four thousand million.
    const rows = await scope.rows<{ id: string }>(
      sql`select id from ${table} where age(xmin) <= age(${mark}::text::xid8::xid)`,
    )
    return rows.map(({ id }) => id)
  }

  /** Keeps everybody else out of the table until the transaction ends. */
  async lock(scope: WorkspaceScope): Promise<void> {
    await scope.batch(
      sql`lock table tenon_data.${Sql.identifier(this.#was.relation)} in access exclusive mode`,
    )
  }

  async #pages(scope: WorkspaceScope, filter: Filter): Promise<void> {
    const store = this.#store(scope)
    const declared = this.#was
    const collection = { name: this.#collection, declared, anon: anonAccess(declared, ANON_DEFAULTS) }
    const limit = LIMITS.examinedAtOnce
    let last: string | undefined
    do {
      const after = last === undefined ? {} : { after: [last] }
      const { rows: page } = await store.list(scope, collection, { filter, order: BY_ID, limit, ...after })
      await this.#page(scope, page)
      last = page.length < limit ? undefined : page.at(-1)?.id
    } while (last !== undefined && this.#offending.length < LIMITS.faultsShownMax)
  }

  /** Up to the last offence that is shown: each may have taken a fifth of a second. */
  async #page(scope: WorkspaceScope, page: readonly Stored[]): Promise<void> {
    for (const stored of page) {
      if (Date.now() > this.#untilMs) throw tooMany(this.#seen)
      if (this.#offending.length >= LIMITS.faultsShownMax) return
      await this.#examine(scope, stored)
      await this.#turns.yield()
    }
  }

  async #examine(scope: WorkspaceScope, { id, fields }: Stored): Promise<void> {
    this.#seen += 1
    const [fault] = await this.#faults(scope, fields)
    if (fault !== undefined) this.#offending.push({ id, pointer: fault.pointer, detail: fault.detail })
  }

  /** Of a document that takes too long, that it does. */
  async #faults(
    scope: WorkspaceScope,
    fields: object,
  ): Promise<readonly Pick<Fault, 'pointer' | 'detail'>[]> {
    const found = this.#turns.run(() => validateDocument(this.#schema, fields))
    if (!isPending(found)) return found
    try {
      return await faultsInThread(scope, found, this.#turns)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'validation_too_costly') throw error
      return [{ pointer: '', detail: error.message }]
    }
  }

  #judge(): void {
    if (this.#offending.length === 0) return
    const offending = this.#offending.slice(0, LIMITS.faultsShownMax)
    const detail = `Of ${this.#seen} documents examined, ${this.#offending.length} do not fit the new schema.`
    throw new Problem('schema_incompatible', { detail, members: { examined: this.#seen, offending } })
  }

  #inMongo(scope: WorkspaceScope): boolean {
    return this.#store(scope) !== postgresStore
  }

  #store(scope: WorkspaceScope): Store {
    const documents = this.#was.store === 'document' ? documentsOf(scope) : undefined
    return documents === undefined ? postgresStore : mongoStore(documents)
  }
}

const tooMany = (seen: number) =>
  new Problem('query_timeout', {
    detail: `${seen} documents were examined within ${LIMITS.examinationMs / 1_000} s, and there are more. Nothing was changed.`,
    hint: 'A change that surely takes every document needs no examination: see docs/schemas.md.',
  })
