/** Changes a declaration that has documents: validates them first, then alters the table in one transaction. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { canonical } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { refusal } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { bodyProblem, findRow } from '../../operation-helpers.ts'
import { type Check, requestedExclusions } from '../constraints/constraint.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { documentsOf } from '../mongo/documents.ts'
import { mongoStore } from '../mongo/store.ts'
import { definitionOf, tableName } from '../postgres/collection-table.ts'
import { postgresStore } from '../postgres/store.ts'
import { ALL, BY_ID, type Filter } from '../query/filter.ts'
import { type Reference, referencesOf, referringKey } from '../references/reference.ts'
import { requireRightToWiden } from '../rules/access.ts'
import type { DeclarationWarning } from '../rules/check-access.ts'
import { ALL_RIGHTS } from '../rules/permissions.ts'
import type { Collection, Store, Stored } from '../store.ts'
import { COLUMNS, refOf, requestedOf, type Schema } from './api-types.ts'
import { type BuiltDeclaration, buildDeclaration, type DeclarationRequest } from './build-declaration.ts'
import {
  cacheKey,
  DECLARATION,
  type Declaration,
  type DeclarationRow,
  toDeclaration,
} from './declaration-cache.ts'
import { changeDeclaredTable, type DeclaredRow } from './declared-tables.ts'
import { evaluateInThread } from './evaluate-in-thread.ts'
import { evaluateDocument, isPending, type Violation } from './evaluate-schema.ts'
import { buildingOf, type IndexBuild, recordBuilding, resumeBuilding } from './index-build.ts'
import { isCompatible } from './is-compatible.ts'
import { type Prepared, prepare } from './schema-language.ts'

const openDocuments = privilege('collections.validate')

/** The changed members of a declaration; absent members stay. */
type Change = Partial<
  Omit<
    DeclarationRequest,
    'store' | 'hasDocumentStore' | 'workspaceId' | 'collection' | 'references' | 'isRestored'
  >
> & { readonly references?: Parameters<typeof referencesOf>[0] | undefined }

/** Members that never change. They may be named, so that the file that declares a collection can also change it. */
type Immutable = { readonly [Name in 'collection' | 'store' | 'workspace_id']?: string | undefined }

interface Changed {
  readonly schema: Schema
  /** The job that builds the new indexes, which is yet to be started. */
  readonly building?: IndexBuild
}

/**
 * @param revision the revision that the caller knows; a conflict if it is not the current one
 * @throws Problem `not_found`; `validation_failed` if an immutable member would change; `schema_incompatible` if documents
 *   would not fit; `conflict`; `state_conflict` while an index is built; `overloaded` if the table is in use for long
 */
export async function changeSchema(
  scope: AdminScope,
  id: string,
  {
    revision,
    collection,
    store,
    workspace_id,
    ...change
  }: Change & Immutable & { readonly revision?: number | undefined },
): Promise<Changed> {
  return retryContended('Others change this declaration at the same time.', async () => {
    const row = await read(scope, id)
    checkImmutable(row, { collection, store, workspace_id })
    checkRevision(row, revision)
    await refuseWhileBuilding(scope, row)
    const { schema, mode, access } = row
    if (change.access !== undefined) requireRightToWiden(scope, access, change.access)
    const request = {
      ...{ schema, mode, access, ...requestedOf(row.indexes, row.relations) },
      ...{ checks: row.checks, exclude: requestedExclusions(row.exclusions), ...change },
      references: change.references === undefined ? row.relations : referencesOf(change.references),
      ...{ workspaceId: row.workspace_id, collection: row.collection },
      ...{ store: row.store, hasDocumentStore: hasDocumentStore(scope) },
    }
    const retryFailed = change.indexes !== undefined || change.unique !== undefined
    const built = await buildDeclaration(scope, request, { ...row, retryFailed })
    const changed = await tryChange(scope, row, request, built)
    if (changed === undefined) return undefined
    forget(scope, row, [...row.relations, ...built.references])
    const warnings = await warningsOfChecks(scope, id, row.checks)
    return warnings.length === 0
      ? changed
      : { ...changed, schema: withWarnings(changed.schema, { warnings }) }
  })
}

/** All processes read the declaration again, and what leads to the collections that it refers to. */
export function forget(
  scope: AdminScope,
  declared: Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection'>,
  references: readonly Reference[],
): void {
  const keys = new Set(references.map(({ collection }) => referringKey(collection)))
  for (const key of [cacheKey(declared.collection), ...keys]) invalidate(scope, refOf(declared), key)
}

/** @returns undefined if the declaration was changed concurrently */
async function tryChange(
  scope: AdminScope,
  row: DeclaredRow,
  { mode, access }: DeclarationRequest,
  built: BuiltDeclaration,
): Promise<Changed | undefined> {
  const ref = refOf(row)
  const scan = new ExistingDocumentsScan(row, built.prepared)
  try {
    const mark = needsValidation(row, built, mode)
      ? await validateExisting(openDocuments(scope, ref), scan)
      : undefined
    return await scope.transaction(async (transaction) => {
      // Locks the row before the table, in the order of schema.delete.
      const locked = await transaction.row(
        sql`select id from schemas where id = ${row.id} and revision = ${row.revision} for update`,
      )
      if (locked === undefined) return undefined
      if (mark !== undefined) await validateConcurrent(openDocuments(transaction, ref), scan, mark)
      if (isChanged(row, { mode, access }, built))
        await changeDeclaredTable(transaction, row, { ...built, mode, access })
      const schema = await transaction.row<Schema>(sql`select ${COLUMNS} from schemas where id = ${row.id}`)
      if (schema === undefined) return undefined
      const warned = withWarnings(schema, built)
      if (buildingOf(schema).length === 0) return { schema: warned }
      return { schema: warned, building: await recordBuilding(transaction, ref, schema) }
    }, ref.tenantId)
  } catch (error) {
    const refused = refusal(error)
    // A concurrent change has renamed the table, or refers to this one while this one refers to it.
    if (refused === 'no_table' || refused === 'deadlock') return undefined
    throw error
  }
}

/** False if the request declares what is declared already. */
function isChanged(
  row: DeclaredRow,
  { mode, access }: Pick<DeclarationRequest, 'mode' | 'access'>,
  { schema, columns, indexes, references: relations, checks, exclusions }: BuiltDeclaration,
): boolean {
  type Comparable = Omit<DeclarationRow, 'id' | 'collection' | 'relation' | 'store'>
  const comparable = (one: Comparable) =>
    canonical([
      ...[one.schema, one.mode, one.access, one.columns, one.indexes.map(definitionOf)],
      ...[one.relations, one.checks, one.exclusions],
    ])
  const after = { schema, mode, access, columns, indexes, relations, checks, exclusions }
  return comparable(row) !== comparable(after)
}

/** The declaration as the response to a change shows it. */
export const withWarnings = (schema: Schema, { warnings }: Pick<BuiltDeclaration, 'warnings'>): Schema =>
  warnings.length === 0 ? schema : { ...schema, warnings: [...(schema.warnings ?? []), ...warnings] }

/** Warns of documents that were there before a check and break it: they stay as they are. */
async function warningsOfChecks(
  scope: AdminScope,
  id: string,
  before: readonly Check[],
): Promise<DeclarationWarning[]> {
  const isNew = (check: Check) => !before.some((other) => canonical(other.check) === canonical(check.check))
  const row = await read(scope, id)
  const declared = toDeclaration(row)
  const warnings: DeclarationWarning[] = []
  for (const [index, check] of row.checks.entries()) {
    const broken = isNew(check) ? declared.checks[index]?.broken : undefined
    const found = broken && (await countBroken(openDocuments(scope, refOf(row)), declared, broken))
    if (found === undefined || found === 0) continue
    const many = found > COLLECTION_LIMITS.exactCountMax ? `About ${found} documents` : `${found} documents`
    const detail = `${found === 1 ? 'One document breaks' : `${many} break`} the check ${check.name}. They stay as they are; a later write of such a document must meet the check.`
    warnings.push({ pointer: `/checks/${index}`, detail })
  }
  return warnings
}

/** @returns undefined if they are not in PostgreSQL, or too many to be counted in time */
async function countBroken(
  service: WorkspaceScope,
  declared: Declaration,
  broken: Filter,
): Promise<number | undefined> {
  if (declared.store === 'document' && documentsOf(service) !== undefined) return undefined
  const readers = { anon: false, user: false }
  const collection = { name: declared.collection, declared, permissions: ALL_RIGHTS, readers }
  const query = { filter: broken, order: BY_ID, limit: 1, count: 'estimated' } as const
  const counted = postgresStore.list(service, { ...collection, store: postgresStore }, query)
  const found = await counted.catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'query_timeout') return undefined
    throw error
  })
  return found?.total
}

/** False if the old schema was enforced and the new one accepts every document that the old one accepts. */
function needsValidation(row: DeclaredRow, built: BuiltDeclaration, mode: string): boolean {
  if (mode !== 'enforce') return false
  return row.mode !== 'enforce' || !isCompatible(prepare(row.schema).schema, built.prepared.schema)
}

/** Validates all documents while others write, then those written meanwhile, until they are few. @returns the last mark */
async function validateExisting(scope: WorkspaceScope, scan: ExistingDocumentsScan): Promise<string> {
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
async function validateConcurrent(
  scope: WorkspaceScope,
  scan: ExistingDocumentsScan,
  mark: string,
): Promise<void> {
  await scan.lock(scope)
  await scan.validateIds(scope, await scan.writtenSince(scope, mark))
}

const read = (scope: AdminScope, id: string) =>
  findRow<DeclaredRow>(
    scope,
    'schema',
    sql`select ${DECLARATION}, tenant_id, workspace_id, revision, last_column, last_index
      from schemas where id = ${id}`,
  )

function checkImmutable(row: DeclaredRow, named: Immutable): void {
  for (const name of ['collection', 'store', 'workspace_id'] as const) {
    if (named[name] === undefined || named[name] === row[name]) continue
    const detail = `is ${row[name]} for good`
    throw bodyProblem(`/${name}`, detail, `${name}: ${detail}`)
  }
}

function checkRevision({ revision }: DeclaredRow, known: number | undefined): void {
  if (known === undefined || known === revision) return
  throw new Problem('conflict', {
    detail: `The declaration is at revision ${revision}, not ${known}.`,
    hint: 'Read the declaration again, then retry.',
  })
}

async function refuseWhileBuilding(scope: AdminScope, row: DeclaredRow): Promise<void> {
  const building = buildingOf(row)
  if (building.length === 0) return
  const names = building.map(({ name }) => name)
  const operation = await resumeBuilding(scope, refOf(row), row.id, names)
  throw new Problem('state_conflict', {
    detail: `An index over ${building.map(({ fields }) => fields.join(', ')).join(' and over ')} is being built.`,
    hint: `Wait until its operation has ended: ${operation}.`,
  })
}

/** A document that does not fit, with its first violation. */
interface InvalidDocument {
  readonly id: string
  readonly pointer: string
  readonly detail: string
}

class ExistingDocumentsScan {
  readonly #collection: Omit<Collection, 'store'>
  readonly #table: Sql
  readonly #isDocumentStore: boolean
  readonly #schema: Prepared
  readonly #deadlineMs = Date.now() + COLLECTION_LIMITS.validationOfExistingMs
  readonly #budget = new CpuBudget(COLLECTION_LIMITS.validationOfExistingMs)
  readonly #invalid: InvalidDocument[] = []
  #examined = 0

  /** @param row the declaration under which the documents are stored */
  constructor(row: DeclaredRow, schema: Prepared) {
    const declared = toDeclaration(row)
    const readers = { anon: false, user: false }
    this.#collection = { name: row.collection, declared, permissions: ALL_RIGHTS, readers }
    this.#table = tableName(row)
    this.#isDocumentStore = row.store === 'document'
    this.#schema = schema
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
      sql`select id from ${this.#table} where age(xmin) <= age(${mark}::text::xid8::xid)`,
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
    const result = this.#budget.run(() => evaluateDocument(this.#schema, fields))
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
