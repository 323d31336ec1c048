/** Changes a declaration that has documents: validates them first, then alters the table in one transaction. */

import { enterWorkspace } from '../../../access/access.ts'
import { ANON_DEFAULTS } from '../../../access/anon-settings.ts'
import { documentsOf, hasDocumentStore } from '../../../access/capabilities.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
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
import { askedOf, COLUMNS, refOf, type Schema } from './api-types.ts'
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
import { type Fault, isPending, validateDocument } from './validate.ts'

/** The changed members of a declaration; absent members stay. */
type Change = Partial<Omit<DeclarationRequest, 'store' | 'hasDocumentStore'>>

interface Row extends DeclarationRow, Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection' | 'revision'> {
  readonly last_column: number
  readonly last_index: number
}

/**
 * @param revision the one that the caller knows
 * @returns the declaration as it is now; where indexes are yet to be built, the operation that waits to be started
 * @throws Problem `not_found`; `schema_incompatible` where documents would not fit; `conflict` where the revision
 *   is another one; `state_conflict` while an index is built; `overloaded` where the table is in use for long
 */
export async function changeSchema(
  scope: AdminScope,
  id: string,
  change: Change,
  revision: number | undefined,
): Promise<Evolved> {
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const row = await read(scope, id)
    checkRevision(row, revision)
    const ref = refOf(row)
    await refuseWhileBuilding(scope, ref, row)
    const asked = { ...askedOf(row.indexes), ...change }
    const made = await buildDeclaration(
      scope,
      requestOf(row, asked, hasDocumentStore(scope)),
      beforeOf(row, change),
    )
    if (highestColumn(0, made.columns) > LIMITS.tableColumnsEverMax) throw columnsExhausted()
    const evolved = await once(scope, { row, ref, made, asked })
    if (evolved === undefined) continue
    invalidate(scope, ref, memoKey(row.collection))
    return evolved
  }
  throw new Problem('overloaded', { detail: 'Others change this declaration at the same time.' })
}

interface Evolved {
  readonly schema: Schema
  readonly building?: IndexBuild
}

interface Attempt {
  readonly row: Row
  readonly ref: WorkspaceRef
  readonly made: BuiltDeclaration
  readonly asked: Change
}

/** @returns undefined if the declaration was changed concurrently */
async function once(scope: AdminScope, attempt: Attempt): Promise<Evolved | undefined> {
  const { row, ref, made, asked } = attempt
  const scan = new ExistingDocumentsScan(row.collection, toDeclaration(row), made.prepared)
  const mode = asked.mode ?? row.mode
  try {
    const mark = needsExamination(row, made, mode)
      ? await validateExisting(enterWorkspace(scope, ref), scan)
      : undefined
    return await scope.transaction(ref, async (held) => {
      // Locks the row before the table, in the order in which schema.delete takes them.
      const own = await held.row(
        sql`select id from schemas where id = ${row.id} and revision = ${row.revision} for update`,
      )
      if (own === undefined) return undefined
      if (mark !== undefined) await validateConcurrent(enterWorkspace(held, ref), scan, mark)
      await held.row(sql`
        select tenon.change_collection_table(tenant_id, workspace_id, id, ${JSON.stringify(made.schema)}::jsonb,
          ${mode}, ${JSON.stringify(made.columns)}::jsonb, ${JSON.stringify(made.indexes)}::jsonb,
          ${JSON.stringify(asked.access ?? row.access)}::jsonb)
        from schemas where id = ${row.id}`)
      const schema = await held.row<Schema>(sql`select ${COLUMNS} from schemas where id = ${row.id}`)
      if (schema === undefined) return undefined
      if (buildingOf(schema).length === 0) return { schema }
      return { schema, building: await recordBuilding(held, ref, schema) }
    })
  } catch (error) {
    // Its table has the name of another revision by now.
    if (refusal(error) === 'no_table') return undefined
    throw error
  }
}

/** Documents of a schema that was enforced fit it, and so whatever widens it. */
function needsExamination(row: Row, made: BuiltDeclaration, mode: string): boolean {
  if (mode !== 'enforce') return false
  return row.mode !== 'enforce' || !isCompatible(toDeclaration(row).schema.schema, made.prepared.schema)
}

/** All documents while others write, then what was written meanwhile, until that is little. @returns the mark */
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

function requestOf(
  row: Row,
  asked: Change & Pick<DeclarationRequest, 'indexes' | 'unique'>,
  hasDocumentStore: boolean,
): DeclarationRequest {
  const { schema, mode, access, store } = row
  return { schema, mode, access, ...asked, store, hasDocumentStore }
}

const beforeOf = ({ columns, indexes, last_column, last_index }: Row, change: Change): Before => ({
  columns: { columns, last: highestColumn(last_column, columns) },
  indexes: {
    indexes,
    last: highest(
      last_index,
      indexes.map(({ name }) => name),
    ),
    retried: change.indexes !== undefined || change.unique !== undefined,
  },
})

const highestColumn = (last: number, columns: Row['columns']) =>
  highest(
    last,
    columns.map(({ column }) => column),
  )

const highest = (last: number, names: readonly string[]) =>
  Math.max(last, ...names.map((name) => Number(name.slice(1))))

const columnsExhausted = () =>
  new Problem('state_conflict', {
    detail: `The collection's table has had ${LIMITS.tableColumnsEverMax} columns in its life, which is all that it takes.`,
    hint: 'Declare another collection, and copy the documents.',
  })

/** A document that does not fit, with the first of its faults. */
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
  readonly #turns = new CpuBudget(LIMITS.examinationMs)
  readonly #offending: InvalidDocument[] = []
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

  /** The current mark: the oldest transaction that may still change a document unseen. */
  async mark(scope: WorkspaceScope): Promise<string> {
    const row = await scope.row<{ xid: string }>(
      sql`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`,
    )
    return row?.xid ?? '0'
  }

  /** Ids of what was written since the mark. In MongoDB nothing tells: writers there are not waited for. */
  async since(scope: WorkspaceScope, mark: string): Promise<string[]> {
    if (this.#store(scope) !== postgresStore) return []
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
      this.#seen += 1
      const [fault] = await this.#faults(scope, stored.fields)
      if (fault !== undefined)
        this.#offending.push({ id: stored.id, pointer: fault.pointer, detail: fault.detail })
      await this.#turns.yield()
    }
  }

  /** Of a document that takes too long, that it does. */
  async #faults(
    scope: WorkspaceScope,
    fields: object,
  ): Promise<readonly Pick<Fault, 'pointer' | 'detail'>[]> {
    const found = this.#turns.run(() => validateDocument(this.#schema, fields))
    if (!isPending(found)) return found
    try {
      return await validateInThread(scope, found, this.#turns)
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
