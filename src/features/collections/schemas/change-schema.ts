/** Changes a declaration that has documents: validates them first, then alters the table in one transaction. */

import type { AdminScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { canonical } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { refusal } from '../../../infra/postgres/errors.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { bodyProblem, findRow } from '../../operation-helpers.ts'
import { type Check, requestedExclusions } from '../constraints/constraint.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { definitionOf, type FieldChange } from '../postgres/collection-table.ts'
import { type Reference, referencesOf, referringKey } from '../references/reference.ts'
import { requireRightToWiden } from '../rules/access.ts'
import type { DeclarationWarning } from '../rules/check-access.ts'
import { COLUMNS, refOf, requestedOf, type Schema } from './api-types.ts'
import { type BuiltDeclaration, buildDeclaration, type DeclarationRequest } from './build-declaration.ts'
import { cacheKey, type DeclarationRow, toDeclaration } from './declaration-cache.ts'
import { changeDeclaredTable, DECLARED_ROW, type DeclaredRow } from './declared-tables.ts'
import {
  countMatching,
  ExistingDocumentsScan,
  refuseTaken,
  validateConcurrent,
  validateExisting,
} from './existing-documents.ts'
import {
  checkBackfill,
  fieldChangeOf,
  type RequestedFieldChanges,
  renamesOf,
  withRenamed,
} from './field-changes.ts'
import { buildingOf, type IndexBuild, recordBuilding, resumeBuilding } from './index-build.ts'
import { isCompatible } from './is-compatible.ts'
import { prepare } from './schema-language.ts'

/** The changed members of a declaration; absent members stay. */
type Change = Partial<
  Omit<
    DeclarationRequest,
    'store' | 'hasDocumentStore' | 'workspaceId' | 'collection' | 'references' | 'isRestored'
  >
> & { readonly references?: Parameters<typeof referencesOf>[0] | undefined }

/** Members whose naming builds failed indexes again. */
const INDEXED = ['indexes', 'unique', 'trigram', 'search', 'arrays', 'geo'] as const

/** Members that never change. They may be named, so that the file that declares a collection can also change it. */
type Immutable = { readonly [Name in 'collection' | 'store' | 'workspace_id']?: string | undefined }

export interface Changed {
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
    renamed_from,
    backfill,
    ...change
  }: Change & Immutable & RequestedFieldChanges & { readonly revision?: number | undefined },
): Promise<Changed> {
  return retryContended('Others change this declaration at the same time.', async () => {
    const stored = await read(scope, id)
    checkImmutable(stored, { collection, store, workspace_id })
    checkRevision(stored, revision)
    await refuseWhileBuilding(scope, stored)
    const prepared = await prepareChange(scope, stored, { ...change, renamed_from, backfill })
    const { row, built } = prepared
    const changed = await tryChange(scope, prepared)
    if (changed === undefined) return undefined
    forget(scope, row, [...row.relations, ...built.references])
    // The change is committed, so whatever happens here must not make it look refused.
    const warnings = await warningsOfChecks(scope, id, row.checks).catch(() => [NOT_COUNTED])
    return warnings.length === 0
      ? changed
      : { ...changed, schema: withWarnings(changed.schema, { warnings }) }
  })
}

/** A change that was checked, before anything is changed. */
export interface PreparedChange {
  /** The declaration before, in which fields have their new names already. */
  readonly row: DeclaredRow
  readonly request: DeclarationRequest
  readonly built: BuiltDeclaration
  readonly fields: FieldChange
  /** True if documents may not fit the new schema. */
  readonly isScanned: boolean
}

/**
 * Checks a change, but for the documents.
 * @param isPlanned true if what its references lead to may be declared before it
 */
export async function prepareChange(
  scope: AdminScope,
  stored: DeclaredRow,
  { renamed_from, backfill, ...change }: Change & RequestedFieldChanges,
  isPlanned = false,
): Promise<PreparedChange> {
  const inMongo = hasDocumentStore(scope) && stored.store === 'document'
  const requested = { renamed_from, backfill }
  const renames = renamesOf(stored, requested, { schema: change.schema ?? stored.schema, inMongo })
  const row = withRenamed(stored, renames)
  const { schema, mode, access } = row
  if (change.access !== undefined) requireRightToWiden(scope, access, change.access)
  const request = {
    ...{ schema, mode, access, ...requestedOf(row.indexes, { references: row.relations, ttl: row.ttl }) },
    ...{ checks: row.checks, exclude: requestedExclusions(row.exclusions), ttl: row.ttl, ...change },
    references: change.references === undefined ? row.relations : referencesOf(change.references, inMongo),
    ...{ workspaceId: row.workspace_id, collection: row.collection },
    ...{ store: row.store, hasDocumentStore: hasDocumentStore(scope), isRestored: isPlanned },
  }
  const retryFailed = INDEXED.some((name) => change[name] !== undefined)
  const built = await buildDeclaration(scope, request, { ...row, retryFailed })
  checkBackfill(requested, built, inMongo)
  const isScanned = needsValidation(row, built, request.mode)
  if (isScanned && renames.size > 0) throw renamedAlone()
  return { row, request, built, fields: fieldChangeOf(row, renames, requested), isScanned }
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
  { row, request, built, fields, isScanned }: PreparedChange,
): Promise<Changed | undefined> {
  const { mode, access } = request
  const ref = refOf(row)
  const values = Object.fromEntries(fields.values)
  const scan = new ExistingDocumentsScan({ declared: toDeclaration(row) }, built.prepared, values)
  try {
    const mark = isScanned ? await validateExisting(scope, ref, scan) : undefined
    return await scope.transaction(async (transaction) => {
      // Locks the row before the table, in the order of schema.delete.
      const locked = await transaction.row(
        sql`select id from schemas where id = ${row.id} and revision = ${row.revision} for update`,
      )
      if (locked === undefined) return undefined
      if (mark !== undefined) await validateConcurrent(transaction, ref, scan, mark)
      await refuseTaken(transaction, ref, toDeclaration(row), [...fields.renames.values()])
      if (fields.renames.size + fields.values.size > 0 || isChanged(row, { mode, access }, built))
        await changeDeclaredTable(transaction, row, { ...built, mode, access }, fields)
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

const renamedAlone = () =>
  new Problem('state_conflict', {
    detail: 'Fields are renamed by a change that needs no look at the documents otherwise.',
    hint: 'Send the change with `renamed_from` first, without other changes of the schema, and these in a second one.',
  })

/** False if the request declares what is declared already. */
function isChanged(
  row: DeclaredRow,
  { mode, access }: Pick<DeclarationRequest, 'mode' | 'access'>,
  { schema, columns, indexes, references: relations, checks, exclusions, ttl }: BuiltDeclaration,
): boolean {
  type Comparable = Omit<DeclarationRow, 'id' | 'collection' | 'relation' | 'store'>
  const comparable = (one: Comparable) =>
    canonical([
      ...[one.schema, one.mode, one.access, one.columns, one.indexes.map(definitionOf)],
      ...[one.relations, one.checks, one.exclusions, one.ttl],
    ])
  const after = { schema, mode, access, columns, indexes, relations, checks, exclusions, ttl }
  return comparable(row) !== comparable(after)
}

/** The declaration as the response to a change shows it. */
export const withWarnings = (schema: Schema, { warnings }: Pick<BuiltDeclaration, 'warnings'>): Schema =>
  warnings.length === 0 ? schema : { ...schema, warnings: [...(schema.warnings ?? []), ...warnings] }

const NOT_COUNTED: DeclarationWarning = {
  pointer: '/checks',
  detail:
    'The documents that break the new checks could not be counted. They stay as they are; a later write of such a document must meet the checks.',
}

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
    const found = broken && (await countMatching(scope, refOf(row), declared, broken))
    if (found === undefined || found === 0) continue
    const many = found > COLLECTION_LIMITS.exactCountMax ? `About ${found} documents` : `${found} documents`
    const detail = `${found === 1 ? 'One document breaks' : `${many} break`} the check ${check.name}. Stored documents stay as they are; a later write of such a document must meet the check.`
    warnings.push({ pointer: `/checks/${index}`, detail })
  }
  return warnings
}

/** False if the old schema was enforced and the new one accepts every document that the old one accepts. */
function needsValidation(row: DeclaredRow, built: BuiltDeclaration, mode: string): boolean {
  if (mode !== 'enforce') return false
  return row.mode !== 'enforce' || !isCompatible(prepare(row.schema).schema, built.prepared.schema)
}

const read = (scope: AdminScope, id: string) =>
  findRow<DeclaredRow>(
    scope,
    'schema',
    sql`select ${DECLARED_ROW}
      from schemas where id = ${id}`,
  )

export function checkImmutable(row: DeclaredRow, named: Immutable): void {
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
