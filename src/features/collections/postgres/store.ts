/** The PostgreSQL document store: each change, and several at once, is one transaction in one round trip. */

import { requireHeld } from '../../../access/completion.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { changeRefused, failedStatement, violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { admits } from '../rules/permissions.ts'
import { withoutExpiry } from '../schemas/declaration-cache.ts'
import {
  type By,
  type CheckedChange,
  type Collection,
  type Create,
  createdBy,
  isRefusal,
  type Once,
  type Refusal,
  type Store,
  toWritten,
  type Written,
} from '../store.ts'
import { compileAggregate } from './aggregate.ts'
import { matching, readRule } from './condition.ts'
import { countStatement, type EachRow, eachStatement, toCounts, toEach } from './each.ts'
import { expiredAmong, removeExpired } from './expired.ts'
import { listRows } from './list.ts'
import { found, searchIn } from './search.ts'
import { type TableRow, tableOf, toStored } from './table.ts'
import { conflictOf } from './table-constraints.ts'
import {
  blindCreateStatement,
  changeStatement,
  createStatement,
  deleteManyStatement,
  restoreStatement,
} from './write-statements.ts'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A statement that makes some of the changes. */
interface Statement {
  readonly changes: readonly CheckedChange[]
  readonly sql: Sql
  /** Reads the result of each change from its rows; undefined for a create whose id exists. */
  readonly read: (rows: Rows) => readonly (Written | undefined)[] | Refusal
}

export const postgresStore: Store = {
  kind: 'postgresql',

  read: async (scope, documents) => {
    const statements = documents.map(({ collection, id }) => {
      const table = tableOf(collection)
      return sql`select ${table.row} from ${table.name} where ${table.own} and id = ${id} and ${readRule(collection)}`
    })
    const found = await (documents.length === 1
      ? scope.batchShared('reading', ...statements)
      : scope.batch(...statements))
    await checkDeclarations(
      scope,
      documents.filter((_, index) => found[index]?.[0] === undefined),
    )
    return documents.map(({ collection }, index) => {
      const row = found[index]?.[0]
      return row && toStored(tableOf(collection), row as unknown as TableRow)
    })
  },

  list: async (scope, collection, query) => {
    const { rows, ...counted } = await listRows(scope, collection, query)
    if (rows.length === 0) await checkDeclarations(scope, [{ collection }])
    return { ...counted, rows }
  },

  listIds: async (scope, collection, { filter, path, limit }) => {
    const table = tableOf(collection)
    const { sql: value } = table.resolve(path, path[0] === 'id' ? undefined : 'uuid')
    const rows = await scope.rows<{ value: string; n: number }>(sql`
      select value::text, count(*)::integer as n from (select ${value} as value from ${table.name}
        where ${value} is not null and ${matching(collection, filter)} limit ${limit + 1}) found group by value`)
    const n = rows.reduce((sum, row) => sum + row.n, 0)
    return n > limit ? undefined : rows.map((row) => row.value)
  },

  listEach: async (scope, collection, { by, most, ...query }) => {
    const rows = await scope.rows<EachRow>(eachStatement(collection, query, { by, values: listed(by), most }))
    return rows.map((row) => toEach(collection, row))
  },

  countEach: async (scope, collection, { filter, by }) => {
    const rows = await scope.rows<EachRow>(countStatement(collection, filter, { by, values: listed(by) }))
    return toCounts(rows)
  },

  aggregate: async (scope, collection, query) => {
    const { name, resolve } = tableOf(collection)
    const searched = await searchIn(scope, collection, query.search)
    const where = sql`${matching(collection, query.aggregate.filter)} and ${found(searched)}`
    const { statement, read, documentsOf } = compileAggregate({ name, resolve }, where, query)
    if (isPublicRole(scope.actor.role)) await requireAffordable(scope, statement)
    const rows = await scope.rows<Rows[number]>(statement)
    if (rows.length === 0 || documentsOf(rows[0]) === 0) await checkDeclarations(scope, [{ collection }])
    return rows.map(read)
  },

  write: async (scope, changes, once, together = false) => {
    const result = await makeAll(scope, changes, { keep: once?.keep, together })
    if (isRefusal(result) && 'missing' in result)
      await checkDeclarations(
        scope,
        changes.filter((_, index) => index === result.index),
      )
    return result
  },

  add: async (scope, collection, creates) => {
    try {
      const made = await scope.rows<{ id: string }>(createStatement({ collection, oneOfMany: true }, creates))
      return { made: made.map(({ id }) => id) }
    } catch (error) {
      const conflict = conflictOf(error, collection)
      if (conflict === undefined) throw error
      return conflict
    }
  },

  restore: async (scope, collection, documents) => {
    try {
      const made = await scope.rows<{ id: string }>(restoreStatement(collection, documents))
      return { made: made.map(({ id }) => id) }
    } catch (error) {
      const conflict = conflictOf(error, collection)
      if (conflict === undefined) throw error
      return conflict
    }
  },

  removeExpired,
  expiredAmong,

  changeOwner: async (scope, collection, { from, to, limit }) => {
    const { name, own } = tableOf(collection)
    const changed = await scope.rows(sql`update ${name} set owner = ${to} where ${own} and id in (
      select id from ${name} where ${own} and owner = ${from} limit ${limit} for update) returning id`)
    return changed.length
  },
}

const listed = ({ values }: By): Sql => sql`${textArray(values)}`

interface Making {
  /** Ends the claim of the request in the same transaction. */
  readonly keep: Once['keep'] | undefined
  /** True for deletions whose order does not matter. */
  readonly together: boolean
}

/** Makes all changes or none. */
async function makeAll(
  scope: WorkspaceScope,
  changes: readonly CheckedChange[],
  { keep, together }: Making,
): Promise<readonly Written[] | Refusal> {
  const deletion = together ? deletionOf(changes) : undefined
  const statements = deletion === undefined ? await buildStatements(scope, changes) : [deletion]
  const locks = locksOf(scope, changes)
  const run = (inside: WorkspaceScope) => runStatements(inside, locks, statements)
  try {
    return await (keep === undefined ? run(scope) : runAndKeep(scope, run, keep))
  } catch (error) {
    if (error instanceof Problem && error.code === 'query_timeout') throw changeTimedOut(error)
    const failed = failedStatement(error)
    if (failed !== undefined && failed < locks.length) throw error
    const at = (failed ?? locks.length) - locks.length
    const index = statements.slice(0, at).reduce((sum, statement) => sum + statement.changes.length, 0)
    const result = resultOfError(scope, error, {
      statement: statements[at],
      index,
      isAlone: changes.length === 1,
    })
    if (result !== undefined) return result
    // If several changes share one statement, the error does not tell which one failed.
    const isNamed = changes.length > 1 && statements[at]?.changes.length === 1 && failed !== undefined
    throw error instanceof Problem && isNamed ? error.with({ op_index: index }) : error
  }
}

/** A single change shares its transaction with those of other requests. */
async function runStatements(
  scope: WorkspaceScope,
  locks: readonly Sql[],
  statements: readonly Statement[],
): Promise<readonly Written[] | Refusal> {
  const texts = [...locks, ...statements.map((statement) => statement.sql)]
  const changes = statements.flatMap((statement) => statement.changes)
  const all = await (changes.length === 1 ? scope.batchShared('writing', ...texts) : scope.batch(...texts))
  const results: (Written | undefined)[] = []
  for (const [index, { read }] of statements.entries()) {
    const result = read(all[locks.length + index] ?? [])
    if (isRefusal(result)) return result
    results.push(...result)
  }
  return withExisting(scope, changes, results)
}

/** Makes the changes and keeps their results in one transaction. One change that is refused alone has changed nothing. */
function runAndKeep(
  scope: WorkspaceScope,
  run: (inside: WorkspaceScope) => Promise<readonly Written[] | Refusal>,
  keep: Once['keep'],
): Promise<readonly Written[] | Refusal> {
  return scope.transaction(async (inside) => {
    const result = await run(inside)
    if (!isRefusal(result)) requireHeld(await inside.rows(keep(result)))
    return result
  })
}

/** A change names its documents, so nothing narrows it; the server was busy, and has rolled the change back. */
const changeTimedOut = (cause: Problem): Problem =>
  new Problem('overloaded', { detail: 'The change took too long, so it was not made.', cause })

/**
 * Locks several documents before any is changed, always in the same order, so that concurrent writers cannot deadlock.
 */
function locksOf({ actor }: WorkspaceScope, changes: readonly CheckedChange[]): Sql[] {
  const idsByName = new Map<string, { collection: Collection; ids: Set<string>; deletes: boolean }>()
  for (const { verb, collection, id } of changes) {
    if (verb === 'create') continue
    const { ids = new Set<string>(), deletes = false } = idsByName.get(collection.name) ?? {}
    idsByName.set(collection.name, { collection, ids: ids.add(id), deletes: deletes || verb === 'delete' })
  }
  const count = [...idsByName.values()].reduce((sum, { ids }) => sum + ids.size, 0)
  // A lock takes the right to update, which others that delete may lack.
  if (count < 2 || isPublicRole(actor.role)) return []
  return [...idsByName.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { collection, ids, deletes }]) => {
      const { name, own } = tableOf(collection)
      // Documents that refer to one hold it against deletion alone.
      const lock = deletes ? sql`for update` : sql`for no key update`
      return sql`select from ${name} where ${own} and id = any(${textArray([...ids])}::uuid[]) order by id ${lock}`
    })
}

/** The result of the first change, as the error of its statement gives it; undefined if the error is about no change. */
function resultOfError(
  { actor }: WorkspaceScope,
  error: unknown,
  { statement, index, isAlone }: { statement: Statement | undefined; index: number; isAlone: boolean },
): readonly Written[] | Refusal | undefined {
  const refused = changeRefused(error)
  if (refused !== undefined) return refusalOf(index, refused.current)
  const change = statement?.changes[0]
  if (change === undefined) return undefined
  const isTaken = change.verb === 'create' && violated(error)?.endsWith('_pkey') === true
  if (isTaken && change.mustBeNew) return { index, exists: true }
  // For several changes it stays an error, since the results of the others are unknown.
  if (isAlone && isTaken) return [toWritten(change, 1, createdBy(actor, change))]
  const conflict = conflictOf(error, change.collection, change.verb)
  return conflict && { index, ...conflict }
}

/** One statement for deletions in one collection, each at a version. @returns undefined for other changes */
function deletionOf(changes: readonly CheckedChange[]): Statement | undefined {
  const [first, ...others] = changes
  const deletions = changes.flatMap((change) => {
    const [version, ...more] = (change.verb === 'delete' && change.ifVersions) || []
    const isSimilar = change.collection === first?.collection && version !== undefined && more.length === 0
    return isSimilar ? [{ id: change.id, version }] : []
  })
  if (first === undefined || others.length === 0 || deletions.length < changes.length) return undefined
  const statement = deleteManyStatement({ collection: first.collection, oneOfMany: true }, deletions)
  const read = (rows: Rows) =>
    changes.map((change, index) => toWritten(change, Number(rows[index]?.['version'])))
  return { changes, sql: statement, read }
}

/**
 * Consecutive creates in the same collection become one statement, unless one alone could be refused. Building statements
 * yields to other requests: a wide update takes up to a millisecond, and a batch may have hundreds.
 */
async function buildStatements(
  scope: WorkspaceScope,
  changes: readonly CheckedChange[],
): Promise<Statement[]> {
  const [first, ...others] = changes
  if (first !== undefined && others.length === 0) return [statementOf(scope, [first], false)]
  const groups: CheckedChange[][] = []
  for (const change of changes) {
    const group = groups.at(-1)
    if (group !== undefined && !isBlind(scope, change) && isSimilar(group[0], change)) group.push(change)
    else groups.push([change])
  }
  const budget = new CpuBudget()
  const statements: Statement[] = []
  for (const group of groups) {
    statements.push(budget.run(() => statementOf(scope, group, true)))
    const rest = budget.yield()
    if (rest !== undefined) await rest
  }
  return statements
}

/** True if the caller may not read the document that it creates. Each such change is a statement of its own that returns nothing. */
const isBlind = ({ actor }: WorkspaceScope, change: CheckedChange): change is Create =>
  change.verb === 'create' && !admits(change.collection.permissions.read, createdBy(actor, change))

const isSimilar = (a: CheckedChange | undefined, b: CheckedChange) =>
  a?.verb === 'create' &&
  b.verb === 'create' &&
  a.mustBeNew !== true &&
  b.mustBeNew !== true &&
  a.collection === b.collection &&
  a.collection.declared?.indexes.some(({ unique }) => unique) !== true &&
  (a.collection.declared?.exclusions.length ?? 0) === 0 &&
  (a.collection.declared?.checks.length ?? 0) === 0 &&
  (a.collection.declared?.references.length ?? 0) === 0

function statementOf(
  scope: WorkspaceScope,
  changes: readonly CheckedChange[],
  oneOfMany: boolean,
): Statement {
  const [first] = changes
  if (first === undefined) throw new TypeError('a statement must have a change')
  const target = { collection: first.collection, oneOfMany }
  if (first.verb !== 'create')
    return { changes, sql: changeStatement(target, first), read: ([row]) => readChange(first, row) }
  if (isBlind(scope, first)) {
    const written = toWritten(first, 1, createdBy(scope.actor, first))
    return { changes, sql: blindCreateStatement(target, first), read: () => [written] }
  }
  const creates = changes.filter((change) => change.verb === 'create')
  const read = (rows: Rows) => {
    const byId = new Map(rows.map((row) => [row['id'], row]))
    return creates.map((create) => {
      const row = byId.get(create.id)
      return row && writtenOf(create, row)
    })
  }
  return { changes, sql: createStatement(target, creates), read }
}

/** Reads back the documents that an earlier attempt of the same request created, also if they have expired since. */
async function withExisting(
  scope: WorkspaceScope,
  changes: readonly CheckedChange[],
  results: readonly (Written | undefined)[],
): Promise<readonly Written[]> {
  const existing = changes
    .filter((_, index) => results[index] === undefined)
    .map(({ collection, id }) => ({ collection: keepingExpired(collection), id }))
  const found = existing.length === 0 ? [] : await postgresStore.read(scope, existing)
  return changes.map((change, index) => {
    const result = results[index]
    if (result !== undefined) return result
    const stored = found.shift()
    if (stored === undefined) throw new Problem('overloaded', { detail: 'The document is being deleted.' })
    return toWritten(change, stored.version, stored)
  })
}

const keepingExpired = (collection: Collection): Collection =>
  collection.declared === undefined
    ? collection
    : { ...collection, declared: withoutExpiry(collection.declared) }

/** A row without an id reports why a change, which is the only one, was not made. */
function readChange(change: CheckedChange, row: Rows[number] | undefined): readonly [Written] | Refusal {
  if (row === undefined || typeof row['id'] !== 'string')
    return refusalOf(0, row?.['current'] as CurrentDocument)
  return [writtenOf(change, row)]
}

function writtenOf(change: CheckedChange, row: Rows[number]): Written {
  const version = Number(row['version'])
  if (!('extra' in row)) return toWritten(change, version)
  return toWritten(change, version, toStored(tableOf(change.collection), row as unknown as TableRow))
}

type CurrentDocument = { readonly version: number; readonly bytes: number } | null | undefined

function refusalOf(index: number, current: CurrentDocument): Refusal {
  if (current === null || current === undefined) return { index, missing: true }
  return { index, current: current.version, bytes: current.bytes }
}

/** @throws Problem `query_too_costly` if the planner expects too many rows at one of the plan's steps */
async function requireAffordable(scope: WorkspaceScope, statement: Sql): Promise<void> {
  const [explained] = await scope.rows(sql`explain (format json) ${statement}`)
  const [{ Plan }] = (explained as Rows[number])['QUERY PLAN'] as [{ Plan: PlanStep }]
  if (mostRows(Plan) <= COLLECTION_LIMITS.plannedRowsMax) return
  throw new Problem('query_too_costly', {
    detail: `The aggregate would read more than ${COLLECTION_LIMITS.plannedRowsMax} documents.`,
  })
}

interface PlanStep {
  readonly 'Plan Rows': number
  readonly Plans?: readonly PlanStep[]
}

const mostRows = ({ Plans = [], ...step }: PlanStep): number =>
  Math.max(step['Plan Rows'], ...Plans.map(mostRows))

/** The cached declaration of a collection is out of date. */
export class StaleDeclarationError extends Error {}

/**
 * Checks that no collection was declared, or closed to anon keys, since its declaration was cached. A dropped table and a
 * write fail by themselves; a read from the wrong table would be an empty success.
 * @throws StaleDeclarationError
 */
async function checkDeclarations(
  scope: WorkspaceScope,
  used: readonly { readonly collection: Collection }[],
): Promise<void> {
  const collections = used.map(({ collection }) => collection)
  const names = collections.filter(({ declared }) => declared === undefined).map(({ name }) => name)
  const mayBeClosed =
    scope.actor.role === 'anon' && collections.some(({ declared }) => declared?.rules.anon.read === undefined)
  if (names.length === 0 && !mayBeClosed) return
  const found = await scope.rows(sql`
    select from schemas where collection in (select jsonb_array_elements_text(${JSON.stringify(names)}::jsonb))
    union all select where ${mayBeClosed}::boolean and tenon.anon_workspace() is null limit 1`)
  if (found.length > 0) throw new StaleDeclarationError()
}
