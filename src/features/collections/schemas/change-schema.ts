/** Changes a declaration that has documents: validates them first, then alters the table in one transaction. */

import { enterWorkspace } from '../../../access/access.ts'
import { ANON_DEFAULTS } from '../../../access/anon-settings.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
import { documentsOf, hasDocumentStore } from '../../../access/scope-services.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { refusal } from '../../../infra/postgres/errors.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { mongoStore } from '../mongo/store.ts'
import { postgresStore } from '../postgres/store.ts'
import type { Filter, OrderKey } from '../query/filter.ts'
import type { Store, Stored } from '../store.ts'
import { validateInThread } from '../validate-document.ts'
import { COLUMNS, refOf, requestedOf, type Schema } from './api-types.ts'
import {
  type Before,
  type BuiltDeclaration,
  buildDeclaration,
  type DeclarationRequest,
} from './build-declaration.ts'
import {
  anonAccess,
  DECLARATION,
  type Declaration,
  type DeclarationRow,
  memoKey,
  toDeclaration,
} from './declaration-cache.ts'
import { buildingOf, type IndexBuild, recordBuilding, resumeBuilding } from './index-build.ts'
import { isCompatible } from './is-compatible.ts'
import type { Prepared } from './schema-language.ts'
import { isPending, type Violation, validateDocument } from './validate.ts'

/** The changed members of a declaration; absent members stay. */
type Change = Partial<Omit<DeclarationRequest, 'store' | 'hasDocumentStore'>>

interface Row extends DeclarationRow, Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection' | 'revision'> {
  readonly last_column: number
  readonly last_index: number
}

/**
 * @param revision the revision that the caller knows; a conflict if it is not the current one
 * @returns the declaration as it is now, and the job that builds its new indexes, which is yet to be started
 * @throws Problem `not_found`; `schema_incompatible` if documents would not fit; `conflict`; `state_conflict` while an
 *   index is built; `overloaded` if the table is in use for long
 */
export async function changeSchema(
  scope: AdminScope,
  id: string,
  change: Change,
  revision: number | undefined,
): Promise<{ schema: Schema; building?: IndexBuild }> {
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const row = await read(scope, id)
    checkRevision(row, revision)
    const ref = refOf(row)
    await refuseWhileBuilding(scope, ref, row)
    const requested = { ...requestedOf(row.indexes), ...change }
    const built = await buildDeclaration(
      scope,
      requestOf(row, requested, hasDocumentStore(scope)),
      beforeOf(row, change),
    )
    if (
      highest(
        0,
        built.columns.map(({ column }) => column),
      ) > LIMITS.tableColumnsEverMax
    )
      throw columnsExhausted()
    const evolved = await once(scope, row, requested, built)
    if (evolved === undefined) continue
    invalidate(scope, ref, memoKey(row.collection))
    return evolved
  }
  throw new Problem('overloaded', { detail: 'Others change this declaration at the same time.' })
}

/** @returns undefined if the declaration was changed concurrently */
async function once(
  scope: AdminScope,
  row: Row,
  requested: Change,
  built: BuiltDeclaration,
): Promise<{ schema: Schema; building?: IndexBuild } | undefined> {
  const ref = refOf(row)
  const scan = new ExistingDocumentsScan(row.collection, toDeclaration(row), built.prepared)
  const mode = requested.mode ?? row.mode
  try {
    const mark = needsValidation(row, built, mode)
      ? await validateExisting(enterWorkspace(scope, ref), scan)
      : undefined
    return await scope.transaction(ref, async (transaction) => {
      // Locks the row before the table, in the order of schema.delete.
      const locked = await transaction.row(
        sql`select id from schemas where id = ${row.id} and revision = ${row.revision} for update`,
      )
      if (locked === undefined) return undefined
      if (mark !== undefined) await validateConcurrent(enterWorkspace(transaction, ref), scan, mark)
      await transaction.row(sql`
        select tenon.change_collection_table(tenant_id, workspace_id, id, ${JSON.stringify(built.schema)}::jsonb,
          ${mode}, ${JSON.stringify(built.columns)}::jsonb, ${JSON.stringify(built.indexes)}::jsonb,
          ${JSON.stringify(requested.access ?? row.access)}::jsonb)
        from schemas where id = ${row.id}`)
      const schema = await transaction.row<Schema>(sql`select ${COLUMNS} from schemas where id = ${row.id}`)
      if (schema === undefined) return undefined
      if (buildingOf(schema).length === 0) return { schema }
      return { schema, building: await recordBuilding(transaction, ref, schema) }
    })
  } catch (error) {
    // A concurrent change has renamed the table.
    if (refusal(error) === 'no_table') return undefined
    throw error
  }
}

/** False if the old schema was enforced and the new one accepts every document that the old one accepts. */
function needsValidation(row: Row, built: BuiltDeclaration, mode: string): boolean {
  if (mode !== 'enforce') return false
  return row.mode !== 'enforce' || !isCompatible(toDeclaration(row).schema.schema, built.prepared.schema)
}

/** Validates all documents while others write, then those written meanwhile, until they are few. @returns the last mark */
async function validateExisting(inside: WorkspaceScope, scan: ExistingDocumentsScan): Promise<string> {
  let mark = await scan.mark(inside)
  await scan.all(inside)
  for (let round = 0; round < CATCHING_UP_MAX; round++) {
    const next = await scan.mark(inside)
    const ids = await scan.since(inside, mark)
    if (ids.length < LIMITS.examinedWhileLockedMax) break
    await scan.these(inside, ids)
    mark = next
  }
  return mark
}
const CATCHING_UP_MAX = 10

/** Locks the table until the transaction ends, and validates what was written since the mark. */
async function validateConcurrent(
  inside: WorkspaceScope,
  scan: ExistingDocumentsScan,
  mark: string,
): Promise<void> {
  await scan.lock(inside)
  await scan.these(inside, await scan.since(inside, mark))
}

const read = (scope: AdminScope, id: string) =>
  findRow<Row>(
    scope,
    'schema',
    sql`select ${DECLARATION}, tenant_id, workspace_id, collection, revision, last_column, last_index
      from schemas where id = ${id}`,
  )

function checkRevision({ revision }: Row, known: number | undefined): void {
  if (known === undefined || known === revision) return
  throw new Problem('conflict', {
    detail: `The declaration is at revision ${revision}, not ${known}.`,
    hint: 'Read it again, then retry.',
  })
}

async function refuseWhileBuilding(scope: AdminScope, ref: WorkspaceRef, row: Row): Promise<void> {
  const building = row.indexes.filter(({ state }) => state === 'building')
  if (building.length === 0) return
  const names = building.map(({ name }) => name)
  const operation = await resumeBuilding(scope, ref, row.id, names)
  throw new Problem('state_conflict', {
    detail: `An index over ${building.map(({ fields }) => fields.join(', ')).join(' and over ')} is being built.`,
    hint: `Wait until its operation has ended: ${operation}.`,
  })
}

const requestOf = (
  { schema, mode, access, store }: Row,
  requested: Change & Pick<DeclarationRequest, 'indexes' | 'unique'>,
  hasDocumentStore: boolean,
): DeclarationRequest => ({ schema, mode, access, ...requested, store, hasDocumentStore })

const beforeOf = ({ columns, indexes, last_column, last_index }: Row, change: Change): Before => ({
  columns: {
    columns,
    last: highest(
      last_column,
      columns.map(({ column }) => column),
    ),
  },
  indexes: {
    indexes,
    last: highest(
      last_index,
      indexes.map(({ name }) => name),
    ),
    retried: change.indexes !== undefined || change.unique !== undefined,
  },
})

const highest = (last: number, names: readonly string[]) =>
  Math.max(last, ...names.map((name) => Number(name.slice(1))))

const columnsExhausted = () =>
  new Problem('state_conflict', {
    detail: `The collection's table has had ${LIMITS.tableColumnsEverMax} columns in its life, which is all that it takes.`,
    hint: 'Declare another collection, and copy the documents.',
  })

/** A document that does not fit, with its first violation. */
interface InvalidDocument {
  readonly id: string
  readonly pointer: string
  readonly detail: string
}

const ALL: Filter = { kind: 'all', of: [] }
const BY_ID: readonly OrderKey[] = [{ path: ['id'], descending: false, nullsFirst: false }]

class ExistingDocumentsScan {
  readonly #collection: string
  readonly #was: Declaration
  readonly #schema: Prepared
  readonly #untilMs = Date.now() + LIMITS.examinationMs
  readonly #budget = new CpuBudget(LIMITS.examinationMs)
  readonly #invalid: InvalidDocument[] = []
  #seen = 0

  /** @param was the declaration under which the documents are stored */
  constructor(collection: string, was: Declaration, schema: Prepared) {
    this.#collection = collection
    this.#was = was
    this.#schema = schema
  }

  /**
   * Validates every document; memory holds one page.
   * @throws Problem `schema_incompatible` after the page with the last violation that is shown, or after all pages;
   *   `query_timeout` if they take longer than `examinationMs`
   */
  async all(scope: WorkspaceScope): Promise<void> {
    await this.#pages(scope, ALL)
    this.#throwInvalid()
  }

  /** Validates the documents with these ids that still exist. */
  async these(scope: WorkspaceScope, ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += LIMITS.filterValuesMax) {
      const values = ids.slice(at, at + LIMITS.filterValuesMax).map((id) => [id] as const)
      await this.#pages(scope, { kind: 'test', path: ['id'], test: { op: 'in', values }, not: false })
    }
    this.#throwInvalid()
  }

  /** The current mark: the oldest transaction that may still change a document unseen. */
  async mark(scope: WorkspaceScope): Promise<string> {
    const row = await scope.row<{ xid: string }>(
      sql`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`,
    )
    return row?.xid ?? '0'
  }

  /** Ids of documents written since the mark. MongoDB cannot tell them, so writers there are not awaited. */
  async since(scope: WorkspaceScope, mark: string): Promise<string[]> {
    if (this.#store(scope) !== postgresStore) return []
    const table = sql`tenon_data.${Sql.identifier(this.#was.relation)}`
    // Compares ages, since transaction ids start again after four thousand million.
    const rows = await scope.rows<{ id: string }>(
      sql`select id from ${table} where age(xmin) <= age(${mark}::text::xid8::xid)`,
    )
    return rows.map(({ id }) => id)
  }

  /** Locks the table for all others until the transaction ends. */
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
    } while (last !== undefined && this.#invalid.length < LIMITS.faultsShownMax)
  }

  /** Stops at the last violation that is shown: each may take a fifth of a second. */
  async #page(scope: WorkspaceScope, page: readonly Stored[]): Promise<void> {
    for (const stored of page) {
      if (Date.now() > this.#untilMs) throw tooMany(this.#seen)
      if (this.#invalid.length >= LIMITS.faultsShownMax) return
      this.#seen += 1
      const [violation] = await this.#violations(scope, stored.fields)
      if (violation !== undefined)
        this.#invalid.push({ id: stored.id, pointer: violation.pointer, detail: violation.detail })
      await this.#budget.yield()
    }
  }

  /** The violations of a document; a document that takes too long has that as its violation. */
  async #violations(
    scope: WorkspaceScope,
    fields: object,
  ): Promise<readonly Pick<Violation, 'pointer' | 'detail'>[]> {
    const result = this.#budget.run(() => validateDocument(this.#schema, fields))
    if (!isPending(result)) return result
    try {
      return await validateInThread(scope, result, this.#budget)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'validation_too_costly') throw error
      return [{ pointer: '', detail: error.message }]
    }
  }

  #throwInvalid(): void {
    if (this.#invalid.length === 0) return
    const offending = this.#invalid.slice(0, LIMITS.faultsShownMax)
    const detail = `Of ${this.#seen} documents examined, ${this.#invalid.length} do not fit the new schema.`
    throw new Problem('schema_incompatible', { detail, members: { examined: this.#seen, offending } })
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
