/** The PostgreSQL document store: each change, and several at once, is one transaction in one round trip. */

import { requireHeld } from '../../../access/completion.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { changeRefused, failedStatement, violated } from '../../../infra/postgres/errors.ts'
import { commas, type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { hasReadFilter } from '../rules/access.ts'
import { admits, compilePermission } from '../rules/permissions.ts'
import {
  type Collection,
  createdBy,
  type DocumentLocation,
  type Outcome,
  problemOf,
  type Query,
  type Store,
  type Write,
} from '../store.ts'
import { type Column, compileAfter, compileFilter, compileOrder } from './compile.ts'
import { type Table, type TableRow, tableOf, toStored } from './table.ts'
import {
  blindCreateStatement,
  changeStatement,
  createStatement,
  type StatementPurpose,
} from './write-statements.ts'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A statement for some of the writes, and a function from its rows to their outcomes. */
interface Step {
  readonly writes: readonly Write[]
  readonly statement: Sql
  readonly outcomes: (rows: Rows) => (Outcome | undefined)[]
}

export const postgresStore: Store = {
  kind: 'postgresql',

  read: async (scope, places) => {
    const statements = places.map(({ collection, id }) => {
      const table = tableOf(collection)
      return sql`select ${table.row} from ${table.name} where ${table.own} and id = ${id} and ${readRule(collection)}`
    })
    const found = await (places.length === 1
      ? scope.batchShared('reading', ...statements)
      : scope.batch(...statements))
    await checkDeclarations(
      scope,
      places.filter((_, index) => found[index]?.[0] === undefined),
    )
    return places.map(({ collection }, index) => {
      const row = found[index]?.[0]
      return row && toStored(tableOf(collection), row as unknown as TableRow)
    })
  },

  list: async (scope, collection, query) => {
    const table = tableOf(collection)
    const { rows, ...counted } = await listRows(scope, table, query, collection)
    if (rows.length === 0) await checkDeclarations(scope, [{ collection }])
    return { ...counted, rows: rows.map((row) => toStored(table, row)) }
  },

  write: async (scope, writes, once) => {
    const outcomes = await tryAll(scope, writes, once?.keep)
    await checkDeclarations(
      scope,
      writes.filter((_, index) => 'missing' in (outcomes[index] ?? {})),
    )
    return outcomes
  },

  add: async (scope, collection, creates) => {
    try {
      const purpose = purposeOf(collection, true)
      const made = await scope.rows(createStatement(tableOf(collection), purpose, creates))
      return { made: made.length }
    } catch (error) {
      const outcome = takenOf(error, collection)
      if (outcome === undefined) throw error
      return outcome
    }
  },
}

/** The caller's read rule. The policy of the table enforces it as well; here the planner sees its values. */
const readRule = (collection: Collection): Sql =>
  compilePermission(collection.permissions.read, (filter) =>
    compileFilter(filter, tableOf(collection).resolve),
  )

/** Makes all changes or none; if one is rejected, its outcome has the reason, and the others are undefined. */
async function tryAll(
  scope: WorkspaceScope,
  writes: readonly Write[],
  keep: ((outcomes: readonly Outcome[]) => Sql) | undefined,
): Promise<(Outcome | undefined)[]> {
  const steps = await buildSteps(scope, writes)
  const locks = locksOf(scope, writes)
  const run = async (inside: WorkspaceScope) => {
    const statements = [...locks, ...steps.map((step) => step.statement)]
    const all = await (writes.length === 1
      ? inside.batchShared('writing', ...statements)
      : inside.batch(...statements))
    const found = all.slice(locks.length)
    const outcomes = steps.flatMap((step, index) => step.outcomes(found[index] ?? []))
    return withExisting(inside, writes, outcomes)
  }
  try {
    return await (keep === undefined ? run(scope) : runAndKeep(scope, run, keep))
  } catch (error) {
    if (error instanceof NotMadeError) return [...error.outcomes]
    const failed = failedStatement(error)
    if (error instanceof Problem && error.code === 'query_timeout') throw changeTimedOut(error)
    if (failed !== undefined && failed < locks.length) throw error
    const at = (failed ?? locks.length) - locks.length
    const outcome = outcomeOfError(scope, error, steps[at], writes.length === 1)
    const before = steps.slice(0, at).reduce((sum, step) => sum + step.writes.length, 0)
    // If several writes share one statement, the error does not tell which one failed.
    const named = writes.length > 1 && steps[at]?.writes.length === 1 && failed !== undefined
    if (outcome === undefined)
      throw error instanceof Problem && named ? error.with({ op_index: before }) : error
    return writes.map((_, index) => (index === before ? outcome : undefined))
  }
}

/** Some change was not made, so the transaction that would keep the output is rolled back. */
class NotMadeError extends Error {
  readonly outcomes: readonly Outcome[]

  constructor(outcomes: readonly Outcome[]) {
    super('not made')
    this.outcomes = outcomes
  }
}

/** Makes the changes and keeps their results in one transaction, which is rolled back if a change was not made. */
function runAndKeep(
  scope: WorkspaceScope,
  run: (inside: WorkspaceScope) => Promise<Outcome[]>,
  keep: (outcomes: readonly Outcome[]) => Sql,
): Promise<Outcome[]> {
  return scope.transaction(async (inside) => {
    const outcomes = await run(inside)
    if (outcomes.some((outcome) => problemOf(outcome) !== undefined)) throw new NotMadeError(outcomes)
    requireHeld(await inside.rows(keep(outcomes)))
    return outcomes
  })
}

/** A change names its documents, so nothing narrows it; the server was busy, and has rolled the change back. */
const changeTimedOut = (cause: Problem): Problem =>
  new Problem('overloaded', { detail: 'The change took too long, so it was not made.', cause })

/**
 * Locks several documents before any is changed, always in the same order, so that concurrent writers cannot deadlock.
 */
function locksOf({ actor }: WorkspaceScope, writes: readonly Write[]): Sql[] {
  const wanted = new Map<string, { collection: Write['collection']; ids: Set<string> }>()
  for (const { collection, change } of writes) {
    if (change.verb === 'create') continue
    const known = wanted.get(collection.name) ?? { collection, ids: new Set() }
    wanted.set(collection.name, { collection, ids: known.ids.add(change.id) })
  }
  const count = [...wanted.values()].reduce((sum, { ids }) => sum + ids.size, 0)
  // A lock takes the right to update, which others that delete may lack.
  if (count < 2 || isPublicRole(actor.role)) return []
  return [...wanted.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { collection, ids }]) => {
      const { name, own } = tableOf(collection)
      return sql`select from ${name} where ${own} and id = any(${textArray([...ids])}::uuid[]) order by id for update`
    })
}

function outcomeOfError(
  { actor }: WorkspaceScope,
  error: unknown,
  step: Step | undefined,
  alone: boolean,
): Outcome | undefined {
  const refused = changeRefused(error)
  if (refused !== undefined) return outcomeOf(refused.current)
  const { collection, change } = step?.writes[0] ?? {}
  // For several writes it stays an error, since the outcome of the others is unknown.
  if (alone && change?.verb === 'create' && violated(error)?.endsWith('_pkey'))
    return { version: 1, stored: createdBy(actor, change) }
  return collection && takenOf(error, collection)
}

function takenOf(error: unknown, { declared }: Write['collection']) {
  const constraint = violated(error)
  const index = declared?.indexes.find(({ name }) => `${declared.id}_${name}` === constraint)
  return index && { taken: index.fields }
}

/**
 * Consecutive creates in the same collection become one statement, unless one alone could be rejected. Building statements
 * yields to other requests: a wide update takes up to a millisecond, and a batch may have hundreds.
 */
async function buildSteps(scope: WorkspaceScope, writes: readonly Write[]): Promise<Step[]> {
  const runs: Write[][] = []
  for (const write of writes) {
    const run = runs.at(-1)
    if (run !== undefined && !isBlind(scope, write) && alike(run[0], write)) run.push(write)
    else runs.push([write])
  }
  const budget = new CpuBudget()
  const steps: Step[] = []
  for (const run of runs) {
    steps.push(budget.run(() => stepOf(scope, run, writes.length > 1)))
    const rest = budget.yield()
    if (rest !== undefined) await rest
  }
  return steps
}

/** True if the caller may not read the document that it creates. Each such change is a statement of its own that returns nothing. */
const isBlind = ({ actor }: WorkspaceScope, { collection, change }: Write): boolean =>
  change.verb === 'create' && !admits(collection.permissions.read, createdBy(actor, change))

const alike = (a: Write | undefined, b: Write) =>
  a?.change.verb === 'create' &&
  b.change.verb === 'create' &&
  a.collection === b.collection &&
  a.collection.declared?.indexes.some(({ unique }) => unique) !== true

function stepOf(scope: WorkspaceScope, writes: readonly Write[], oneOfMany: boolean): Step {
  const [first] = writes
  if (first === undefined) throw new TypeError('a step must have a write')
  const { collection, change } = first
  const table = tableOf(collection)
  const purpose = purposeOf(collection, oneOfMany)
  if (change.verb !== 'create') {
    const outcomes = ([row]: Rows) => [rowOutcome(collection, row)]
    return { writes, statement: changeStatement(table, purpose, change), outcomes }
  }
  if (isBlind(scope, first)) {
    const statement = blindCreateStatement(table, purpose, change)
    return { writes, statement, outcomes: () => [{ version: 1, stored: createdBy(scope.actor, change) }] }
  }
  const creates = writes.flatMap((write) => (write.change.verb === 'create' ? [write.change] : []))
  const outcomes = (rows: Rows) => {
    const byId = new Map(rows.map((row) => [row['id'], row]))
    return creates.map(({ id }) => (byId.has(id) ? rowOutcome(collection, byId.get(id)) : undefined))
  }
  return { writes, statement: createStatement(table, purpose, creates), outcomes }
}

const purposeOf = (
  { name, readers, declared }: Write['collection'],
  oneOfMany: boolean,
): StatementPurpose => ({
  ...{ collection: name, oneOfMany, readers },
  keepsDeleted: declared !== undefined && hasReadFilter(declared.rules),
})

/** Reads back the documents that an earlier attempt of the same request created. */
async function withExisting(
  scope: WorkspaceScope,
  writes: readonly Write[],
  outcomes: (Outcome | undefined)[],
): Promise<Outcome[]> {
  const places = writes.flatMap(({ collection, change }, index): DocumentLocation[] =>
    outcomes[index] === undefined ? [{ collection, id: change.id }] : [],
  )
  const found = places.length === 0 ? [] : await postgresStore.read(scope, places)
  return outcomes.map((outcome) => {
    if (outcome !== undefined) return outcome
    const stored = found.shift()
    if (stored === undefined) throw new Problem('overloaded', { detail: 'The document is being deleted.' })
    return { version: stored.version, stored }
  })
}

function rowOutcome(collection: Write['collection'], row: Rows[number] | undefined): Outcome {
  const id = row?.['id']
  if (typeof id !== 'string' || row === undefined) return outcomeOf(row?.['current'] as Current)
  const version = Number(row['version'])
  if (!('extra' in row)) return { version }
  return { version, stored: toStored(tableOf(collection), row as unknown as TableRow) }
}

type Current = { readonly version: number; readonly bytes: number } | null | undefined

function outcomeOf(current: Current): Outcome {
  if (current === null || current === undefined) return { missing: true }
  return { current: current.version, bytes: current.bytes }
}

async function listRows(
  scope: WorkspaceScope,
  table: Table,
  { filter, order, after, limit, count }: Query,
  collection: Collection,
): Promise<{ rows: TableRow[]; total?: number }> {
  const { name, own, resolve: columns } = table
  const where = sql`${own} and ${readRule(collection)} and ${compileFilter(filter, columns)}`
  const page = pageStatement(table, where, { order, limit, ...(after !== undefined && { after }) })
  if (count === undefined) return { rows: await scope.rows<TableRow>(page) }
  // An estimate of the shared table would reveal documents of other tenants, one under a rule those of other users.
  const isOpen = collection.declared !== undefined && collection.permissions.read === true
  const guess = count === 'estimated' && isOpen
  const counts = guess
    ? [counted(name, where, COLLECTION_LIMITS.exactCountMax), planned(name, where)]
    : [counted(name, where)]
  const [rows = [], [all] = [], [plan] = []] = await scope.batch(page, ...counts)
  return { rows: rows as unknown as TableRow[], total: totalOf(Number(all?.['n']), plan) }
}

/**
 * The limit is a parameter, so the planner makes a plan for its values each time, which pays off for rare values.
 * Rows behind the cursor are several ranges of an index: each is read to the limit, and the results are merged.
 */
function pageStatement(
  { name, row, columns, compared, resolve }: Table,
  where: Sql,
  { order, after, limit }: Pick<Query, 'order' | 'after' | 'limit'>,
): Sql {
  const end = sql`order by ${compileOrder(order, resolve)} limit ${limit}`
  const range = (condition: Sql, shown = row) =>
    sql`select ${shown} from ${name} where ${where} and ${condition} ${end}`
  const ranges = after === undefined ? [sql`true`] : compileAfter(order, after, resolve)
  const [first = sql`false`, ...others] = ranges
  if (others.length === 0) return range(first)
  // Keys without a column have no index, and cannot be ordered by outside the table.
  if (columns.length === 0 || order.some((key) => isComputed(resolve(key.path, key.as))))
    return range(sql`(${others.reduce((all, other) => sql`${all} or ${other}`, first)})`)
  const shown = commas([row, ...compared])
  const all = others.reduce(
    (union, other) => sql`${union} union all (${range(other, shown)})`,
    sql`(${range(first, shown)})`,
  )
  return sql`select * from (${all}) as found ${end}`
}

const isComputed = ({ type, computed }: Column) => type === 'jsonb' || computed === true

/** @param most counts at most one more than this */
function counted(name: Sql, where: Sql, most?: number): Sql {
  if (most === undefined) return sql`select count(*) as n from ${name} where ${where}`
  return sql`select count(*) as n from (select from ${name} where ${where} limit ${most + 1}) found`
}

const planned = (name: Sql, where: Sql): Sql => sql`explain (format json) select from ${name} where ${where}`

/** Counts exactly up to `countedMax`; beyond that returns the planner's estimate, if it is not lower. */
function totalOf(all: number, plan: Readonly<Record<string, unknown>> | undefined): number {
  if (plan === undefined || all <= COLLECTION_LIMITS.exactCountMax) return all
  const [{ Plan }] = plan['QUERY PLAN'] as [{ Plan: { 'Plan Rows': number } }]
  return Math.max(all, Plan['Plan Rows'])
}

/** The cached declaration of a collection is out of date. */
export class StaleDeclarationError extends Error {}

/**
 * Checks that no collection was declared, or closed to anon keys, since its declaration was cached. A dropped table and a
 * write fail by themselves; a read from the wrong table would be an empty success.
 * @throws StaleDeclarationError
 */
async function checkDeclarations(
  scope: WorkspaceScope,
  used: readonly Pick<Write, 'collection'>[],
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
