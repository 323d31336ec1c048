/** Builds the row of a declaration from a request, and checks everything that needs no documents. */

import type { AdminScope } from '../../../access/scope.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import {
  type Check,
  checkConstraints,
  type DeclaredExclusion,
  exclusionsOf,
  type RequestedConstraints,
} from '../constraints/constraint.ts'
import { checkFields } from '../document.ts'
import { CREATED_AT, checkExpiry, type Expiry } from '../expiry/expiry.ts'
import type { RowConditions } from '../postgres/table-policies.ts'
import { checkReferences, type Reference } from '../references/reference.ts'
import type { Access } from '../rules/access.ts'
import {
  checkAccess,
  type DeclarationWarning,
  openRules,
  rulesOfWholeLookups,
  rulesWithoutTests,
  unservedRules,
} from '../rules/check-access.ts'
import { rowConditions } from '../rules/rule-policy.ts'
import {
  checkIndexes,
  type Index,
  type IndexesBefore,
  indexDefinitions,
  indexesOf,
  type RequestedIndexes,
  type TextSearch,
} from './api-types.ts'
import {
  arraysOf,
  type ColumnsBefore,
  columnsOf,
  defaultsOf,
  formatsOf,
  propertiesWithDefault,
  scalarsOf,
  type TableColumn,
  withDefaults,
} from './columns.ts'
import { DECLARATION, type Declaration, type DeclarationRow, toDeclaration } from './declaration-cache.ts'
import { findViolation } from './evaluate-in-thread.ts'
import { checkSchema, type Prepared, prepare, type SchemaObject } from './schema-language.ts'

export interface DeclarationRequest extends RequestedIndexes, RequestedConstraints {
  readonly workspaceId: string
  readonly collection: string
  readonly store: 'relational' | 'document'
  readonly schema: unknown
  readonly mode: 'off' | 'warn' | 'enforce'
  readonly access: Access
  readonly references: readonly Reference[]
  readonly ttl: Expiry | null
  /** True if what the references lead to may be declared later. */
  readonly isRestored?: boolean
  /** True if documents of the store `document` are outside PostgreSQL. */
  readonly hasDocumentStore: boolean
}

/** The declaration before a change. */
export type DeclarationBefore = ColumnsBefore &
  IndexesBefore & { readonly exclusions: readonly DeclaredExclusion[] }

export interface BuiltDeclaration {
  readonly schema: SchemaObject
  readonly prepared: Prepared
  readonly columns: readonly TableColumn[]
  readonly indexes: readonly Index[]
  readonly references: readonly Reference[]
  readonly checks: readonly Check[]
  readonly ttl: Expiry | null
  readonly exclusions: readonly DeclaredExclusion[]
  /** The same as documents will be compared with it; its id and the name of its table are not known yet. */
  readonly declared: Declaration
  readonly conditions: RowConditions
  readonly warnings: readonly DeclarationWarning[]
}

/** @throws Problem `schema_invalid`, `validation_failed` or `not_supported`, with every error of its kind */
export async function buildDeclaration(
  scope: AdminScope,
  request: DeclarationRequest,
  before?: DeclarationBefore,
): Promise<BuiltDeclaration> {
  const schema = checkSchema(request.schema)
  const prepared = prepare(schema)
  await checkDefaults(scope, schema)
  const { access, collection, store, mode, references, checks, ttl, hasDocumentStore } = request
  const inMongo = hasDocumentStore && store === 'document'
  const requested = indexDefinitions(inMongo ? { ...request, ttl: null, references: [] } : request)
  if (request.exclude.length > 0) await requireExtension(scope, 'btree_gist', 'exclude')
  if (request.trigram.length > 0) await requireExtension(scope, 'pg_trgm', 'trigram')
  if (request.search !== null && !inMongo) await requireLanguage(scope, request.search)
  const definitions = await withOperators(scope, requested)
  if (request.isRestored !== true) await checkReferences(scope, references, { ...request, schema })
  const types = { scalars: scalarsOf(schema), formats: formatsOf(schema) }
  if (ttl !== null) checkExpiry(ttl, { mode, formats: types.formats })
  checkIndexes(definitions, { mode, scalars: types.scalars, arrays: arraysOf(schema), inMongo, ttl })
  const constrained = checkConstraints(request, { ...request, schema, inMongo })
  const fieldsOfIndexes = definitions.flatMap(({ fields }) => fields).filter((field) => field !== CREATED_AT)
  const indexed = [...fieldsOfIndexes, ...constrained]
  const referring = references.map(({ field }) => field)
  const columns = columnsOf(schema, store, { indexed, referring }, before)
  const indexes = indexesOf(definitions, columns, types, before)
  const exclusions = exclusionsOf(request.exclude, columns, types, before?.exclusions)
  const declared = toDeclaration({
    id: 'sch',
    collection,
    relation: 'unnamed',
    store,
    mode,
    columns,
    indexes,
    access,
    schema,
    checks,
    exclusions,
    ttl,
    relations: references,
  })
  checkAccess(declared, await lookedUpIn(scope, request, declared))
  const isOpen = await isOpenToAnon(scope, request.workspaceId)
  return {
    ...{ schema, prepared, columns, indexes, references, checks, exclusions, ttl, declared },
    conditions: rowConditions(declared),
    warnings: [
      ...rulesWithoutTests(declared),
      ...unservedRules(declared),
      ...rulesOfWholeLookups(declared),
      ...openRules(declared, isOpen),
    ],
  }
}

/** @throws Problem `not_supported` if the server lacks an extension that a member of the declaration needs */
async function requireExtension(
  scope: AdminScope,
  name: 'btree_gist' | 'pg_trgm',
  member: 'exclude' | 'trigram',
): Promise<void> {
  const row = await scope.row(sql`
    select from pg_extension where extname = ${name} and extnamespace = 'public'::regnamespace`)
  if (row !== undefined) return
  throw new Problem('not_supported', {
    detail: `The database of this installation lacks the extension ${name}, which \`${member}\` needs.`,
    adminHint: `An administrator of the database can add it: create extension ${name} with schema public.`,
  })
}

/** @throws Problem `not_supported` if the server is older than the language */
async function requireLanguage(scope: AdminScope, { language }: TextSearch): Promise<void> {
  const row = await scope.row(sql`
    select from pg_ts_config where cfgname = ${language} and cfgnamespace = 'pg_catalog'::regnamespace`)
  if (row !== undefined) return
  throw new Problem('not_supported', {
    detail: `PostgreSQL of this installation does not know the language ${language}.`,
    hint: 'Declare the search with the language simple, which compares words as they are written.',
  })
}

/** The operator classes of the platform that serve each kind of index under row-level security (0012-search.sql). */
const OPERATOR_CLASSES: Readonly<Partial<Record<NonNullable<Index['kind']>, string>>> = {
  text: 'words_ops',
  array: 'json_ops',
  trigram: 'patterns_ops',
}

/** Marks the indexes that row-level security lets PostgreSQL use. */
async function withOperators<D extends Pick<Index, 'kind'>>(
  scope: AdminScope,
  definitions: readonly D[],
): Promise<(D & { readonly leakproof?: true })[]> {
  if (definitions.every(({ kind }) => kind === undefined)) return [...definitions]
  const rows = await scope.rows<{ name: string }>(sql`
    select opcname as name from pg_opclass where opcnamespace = 'tenon'::regnamespace`)
  const made = new Set(rows.map(({ name }) => name))
  return definitions.map((one) =>
    one.kind !== undefined && made.has(OPERATOR_CLASSES[one.kind] ?? '') ? { ...one, leakproof: true } : one,
  )
}

/** True if anon keys of the workspace read what is declared without `access`. */
async function isOpenToAnon(scope: AdminScope, workspaceId: string): Promise<boolean> {
  const row = await scope.row(
    sql`select from services where workspace_id = ${workspaceId} and anon ->> 'collections' = 'read'`,
  )
  return row !== undefined
}

/** The declarations of the collections that the lookups of a declaration read, itself perhaps among them. */
async function lookedUpIn(
  scope: AdminScope,
  { workspaceId, collection }: DeclarationRequest,
  declared: Declaration,
): Promise<ReadonlyMap<string, Declaration>> {
  const names = Object.values(declared.rules.lookups).map((lookup) => lookup.collection)
  const rows =
    names.length === 0
      ? []
      : await scope.rows<DeclarationRow>(sql`select ${DECLARATION} from schemas
          where workspace_id = ${workspaceId} and collection = any(${textArray(names)}::text[])`)
  const found = rows.map((row) => [row.collection, toDeclaration(row)] as const)
  return new Map([...found, [collection, declared]])
}

/** Rejects defaults that do not fit their own property: documents that rely on them would be invalid. */
async function checkDefaults(scope: AdminScope, schema: SchemaObject): Promise<void> {
  const errors: InputError[] = []
  const budget = new CpuBudget()
  for (const [pointer, property] of propertiesWithDefault(schema)) {
    const violation = await findViolation(scope, { schema, property, value: property['default'] }, budget)
    await budget.yield()
    if (violation === undefined) continue
    const detail = `does not match its property: ${violation.detail}`
    errors.push({ in: 'body', name: 'schema', pointer: `/schema${pointer}/default`, detail })
  }
  if (errors.length > 0) {
    const detail = errors.map((error) => `${error.pointer} ${error.detail}`).join('; ')
    throw new Problem('schema_invalid', { detail, errors: errors.slice(0, 20) })
  }
  checkFields(withDefaults(defaultsOf(schema), {}))
}
