/** Reads the documents that a collection has when its declaration changes: validates them, and counts those that a check would refuse. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { shortPointer } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { documentsOf } from '../mongo/documents.ts'
import { mongoStore } from '../mongo/store.ts'
import { tableName } from '../postgres/collection-table.ts'
import { postgresStore } from '../postgres/store.ts'
import { ALL, BY_ID, type Filter } from '../query/filter.ts'
import { ALL_RIGHTS } from '../rules/permissions.ts'
import type { Collection, Store, Stored } from '../store.ts'
import type { Declaration } from './declaration-cache.ts'
import { evaluateInThread } from './evaluate-in-thread.ts'
import { evaluateDocument, isPending, type Violation } from './evaluate-schema.ts'
import type { Prepared } from './schema-language.ts'

const openDocuments = privilege('collections.validate')

/** Validates all documents while others write, then those written meanwhile, until they are few. @returns the last mark */
export async function validateExisting(
  admin: AdminScope,
  ref: WorkspaceRef,
  scan: ExistingDocumentsScan,
): Promise<string> {
  const scope = openDocuments(admin, ref)
  let mark = await scan.mark(scope)
  await scan.validateAll(scope)
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const next = await scan.mark(scope)
    const ids = await scan.writtenSince(scope, mark)
    if (ids.length < COLLECTION_LIMITS.validatedUnderLockMax) break
    await scan.validateIds(scope, ids)
    mark = next
  }
  return mark
}
const ROUNDS_MAX = 10

/** Locks the table until the transaction ends, and validates what was written since the mark. */
export async function validateConcurrent(
  admin: AdminScope,
  ref: WorkspaceRef,
  scan: ExistingDocumentsScan,
  mark: string,
): Promise<void> {
  const scope = openDocuments(admin, ref)
  await scan.lock(scope)
  await scan.validateIds(scope, await scan.writtenSince(scope, mark))
}

/**
 * Locks the table until the transaction ends, if fields are to get these names.
 * @throws Problem `schema_incompatible` with documents that have such a field already, which is not declared
 */
export async function refuseTaken(
  admin: AdminScope,
  ref: WorkspaceRef,
  { relation }: Declaration,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return
  const [table, scope] = [tableName({ relation }), openDocuments(admin, ref)]
  await scope.batch(sql`lock table ${table} in access exclusive mode`)
  for (const name of names) {
    const found = await scope.rows<{ id: string }>(sql`
      select id from ${table} where extra ? ${name}::text order by id limit ${CORE_LIMITS.diagnosticsReturnedMax}`)
    if (found.length === 0) continue
    const [pointer, detail] = [`/${shortPointer(name)}`, 'is there already']
    throw new Problem('schema_incompatible', {
      detail: `Documents have a field ${name.slice(0, 100)} already, so no other can get the name.`,
      members: { offending: found.map(({ id }) => ({ id, pointer, detail })) },
    })
  }
}

/**
 * The number of documents of a declaration that match, estimated if they are many.
 * @returns undefined if they are not in PostgreSQL, or too many to be counted in time
 */
export async function countMatching(
  scope: AdminScope,
  ref: WorkspaceRef,
  declared: Declaration,
  filter: Filter,
): Promise<number | undefined> {
  const service = openDocuments(scope, ref)
  if (declared.store === 'document' && documentsOf(service) !== undefined) return undefined
  const readers = { anon: false, user: false }
  const collection = { name: declared.collection, declared, permissions: ALL_RIGHTS, readers }
  const query = { filter, order: BY_ID, limit: 1, count: 'estimated' } as const
  const counted = postgresStore.list(service, { ...collection, store: postgresStore }, query)
  const found = await counted.catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'query_timeout') return undefined
    throw error
  })
  return found?.total
}

/** A document that does not fit, with its first violation. */
interface InvalidDocument {
  readonly id: string
  readonly pointer: string
  readonly detail: string
}

/** The documents of a declaration, or those of a collection of the name that is not declared. */
type Existing = { readonly declared: Declaration } | { readonly undeclared: string }

export class ExistingDocumentsScan {
  readonly #collection: Omit<Collection, 'store'>
  readonly #table: Sql
  /** The documents of the collection in that table. */
  readonly #own: Sql
  readonly #isDocumentStore: boolean
  readonly #schema: Prepared
  readonly #values: Readonly<Record<string, unknown>>
  readonly #deadlineMs = Date.now() + COLLECTION_LIMITS.validationOfExistingMs
  readonly #budget = new CpuBudget(COLLECTION_LIMITS.validationOfExistingMs)
  readonly #invalid: InvalidDocument[] = []
  #examined = 0

  /**
   * @param existing under which the documents are stored
   * @param values that documents get which lack them
   */
  constructor(existing: Existing, schema: Prepared, values: Readonly<Record<string, unknown>> = {}) {
    this.#values = values
    const rights = { permissions: ALL_RIGHTS, readers: { anon: false, user: false } }
    this.#schema = schema
    if ('undeclared' in existing) {
      this.#collection = { name: existing.undeclared, ...rights }
      this.#table = sql`documents`
      this.#own = sql`collection = ${existing.undeclared}`
      this.#isDocumentStore = true
      return
    }
    const { declared } = existing
    this.#collection = { name: declared.collection, declared, ...rights }
    this.#table = tableName(declared)
    this.#own = sql`true`
    this.#isDocumentStore = declared.store === 'document'
  }

  /**
   * Validates every document; memory holds one page.
   * @throws Problem `schema_incompatible` after the page with the last violation that is returned, or after all pages;
   *   `query_timeout` if they take longer than `examinationMs`
   */
  async validateAll(scope: WorkspaceScope): Promise<void> {
    await this.#validatePages(scope, ALL)
    this.#throwInvalid()
  }

  /** Validates the documents with these ids that still exist. */
  async validateIds(scope: WorkspaceScope, ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += COLLECTION_LIMITS.filterValuesMax) {
      const values = ids.slice(at, at + COLLECTION_LIMITS.filterValuesMax).map((id) => [id] as const)
      await this.#validatePages(scope, { kind: 'test', path: ['id'], test: { op: 'in', values }, not: false })
    }
    this.#throwInvalid()
  }

  /** The oldest transaction that may still change a document unseen. */
  async mark(scope: WorkspaceScope): Promise<string> {
    const row = await scope.row<{ xid: string }>(
      sql`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`,
    )
    return row?.xid ?? '0'
  }

  /** Ids of documents written since the mark. MongoDB cannot tell them, so concurrent writes there are not validated. */
  async writtenSince(scope: WorkspaceScope, mark: string): Promise<string[]> {
    if (this.#store(scope) !== postgresStore) return []
    // Compares ages, since transaction ids start again after four thousand million.
    const rows = await scope.rows<{ id: string }>(
      sql`select id from ${this.#table} where ${this.#own} and age(xmin) <= age(${mark}::text::xid8::xid)`,
    )
    return rows.map(({ id }) => id)
  }

  /** Locks the table for all others until the transaction ends. */
  async lock(scope: WorkspaceScope): Promise<void> {
    await scope.batch(sql`lock table ${this.#table} in access exclusive mode`)
  }

  async #validatePages(scope: WorkspaceScope, filter: Filter): Promise<void> {
    const store = this.#store(scope)
    const limit = COLLECTION_LIMITS.validationBatchDocuments
    let last: string | undefined
    do {
      const after = last === undefined ? {} : { after: [last] }
      const query = { filter, order: BY_ID, limit, ...after }
      const { rows } = await store.list(scope, { ...this.#collection, store }, query)
      for (const document of rows) await this.#validate(scope, document)
      last = rows.length < limit ? undefined : rows.at(-1)?.id
    } while (last !== undefined && this.#invalid.length < CORE_LIMITS.diagnosticsReturnedMax)
  }

  /** Skips the rest after the last violation that is returned: each document may take a fifth of a second. */
  async #validate(scope: WorkspaceScope, { id, fields }: Stored): Promise<void> {
    if (Date.now() > this.#deadlineMs) throw tooManyDocuments(this.#examined)
    if (this.#invalid.length >= CORE_LIMITS.diagnosticsReturnedMax) return
    this.#examined += 1
    const result = this.#budget.run(() => evaluateDocument(this.#schema, { ...this.#values, ...fields }))
    const [violation] = isPending(result)
      ? await evaluateInThread(scope, result, this.#budget).catch(costlyAsViolation)
      : result
    if (violation !== undefined)
      this.#invalid.push({ id, pointer: violation.pointer, detail: violation.detail })
    await this.#budget.yield()
  }

  #throwInvalid(): void {
    if (this.#invalid.length === 0) return
    const detail = `${this.#invalid.length} of ${this.#examined} examined documents do not match the new schema.`
    const members = { examined: this.#examined, offending: this.#invalid }
    throw new Problem('schema_incompatible', { detail, members })
  }

  #store(scope: WorkspaceScope): Store {
    const documents = this.#isDocumentStore ? documentsOf(scope) : undefined
    return documents === undefined ? postgresStore : mongoStore(documents)
  }
}

/** A document that takes too long has that as its violation. */
function costlyAsViolation(error: unknown): readonly Pick<Violation, 'pointer' | 'detail'>[] {
  if (!(error instanceof Problem) || error.code !== 'validation_too_costly') throw error
  return [{ pointer: '', detail: error.message }]
}

const tooManyDocuments = (examined: number) =>
  new Problem('query_timeout', {
    detail: `${examined} documents were examined within ${COLLECTION_LIMITS.validationOfExistingMs / 1_000} s, and there are more. Nothing was changed.`,
    hint: 'Make a compatible change, which examines no documents (docs/schemas.md).',
  })
