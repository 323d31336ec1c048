/** Finds the documents that stand in the way: of a change, as far as its caller may read them, and of an exclusion that is declared. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { updatedFields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { tableName } from '../postgres/collection-table.ts'
import { overlapping } from '../postgres/table-constraints.ts'
import { BY_ID, type Comparison, type Filter, type Test } from '../query/filter.ts'
import { ifInLine } from '../scans.ts'
import { sortKey } from '../schemas/canonical-text.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type CheckedChange, type Conflict, createdBy, problemOf } from '../store.ts'
import { readCondition } from './condition.ts'
import type { DeclaredExclusion } from './constraint.ts'

type WithOther = Extract<Conflict, { duplicated: unknown } | { overlapped: unknown }>

export const isWithOther = (conflict: object): conflict is WithOther =>
  'duplicated' in conflict || 'overlapped' in conflict

/** The problem of a change that conflicts with another document. It has the id of one that the caller may read, if that is found soon. */
export async function conflictProblem(
  scope: WorkspaceScope,
  change: CheckedChange,
  conflict: WithOther,
): Promise<Problem> {
  const problem = problemOf(conflict)
  const other = await findOther(scope, change, conflict).catch((error: unknown) => {
    // The change is refused all the same.
    if (!(error instanceof Problem)) scope.logError(error, 'document in the way of a change not found')
    return undefined
  })
  return other === undefined ? problem : problem.with({ conflicting_id: other })
}

async function findOther(
  scope: WorkspaceScope,
  change: CheckedChange,
  conflict: WithOther,
): Promise<string | undefined> {
  const { collection, id } = change
  const { declared, permissions, store } = collection
  const fields = permissions.read === false ? undefined : await fieldsAfter(scope, change)
  if (fields === undefined || declared === undefined) return undefined
  const { duplicated, overlapped } = { duplicated: undefined, overlapped: undefined, ...conflict }
  const { where, fields: equal = [] } = duplicated ?? overlapped ?? {}
  // A document without one of the values conflicts with no other.
  if (equal.some((name) => fields[name] === undefined || fields[name] === null)) return undefined
  const [start, end] = overlapped?.range ?? []
  const filter: Filter = {
    kind: 'all',
    of: [
      { kind: 'test', path: ['id'], test: { op: 'in', values: [[id]] }, not: true },
      ...equal.map((name) => equalTo(name, fields[name], declared)),
      ...(start === undefined || end === undefined
        ? []
        : [compared(start, 'lt', fields[end], declared), compared(end, 'gt', fields[start], declared)]),
      ...(where === undefined ? [] : [readCondition(where, declared)]),
    ],
  }
  const query = { filter, order: BY_ID, limit: 1 } as const
  // Policies of the table keep PostgreSQL from using the index of an exclusion, so each refusal may read the whole collection.
  const found = await ifInLine(scope, collection, query, () => store.list(scope, collection, query))
  return found?.rows[0]?.id
}

/** The fields of the document as the change would leave them, with its owner; undefined if it is gone. */
async function fieldsAfter(
  scope: WorkspaceScope,
  change: CheckedChange,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (change.verb === 'delete') return undefined
  const { collection, id, content } = change
  if (change.verb === 'create') return { ...content.fields, _owner: createdBy(scope.actor, change).owner }
  const [current] = await collection.store.read(scope, [{ collection, id }])
  if (current === undefined) return undefined
  const fields =
    change.verb === 'replace' ? content.fields : updatedFields(current.fields, content.fields, change.unset)
  return { ...fields, _owner: current.owner }
}

type Types = Pick<Declaration, 'formats'>

/** Compares texts of a format by their canonical text. */
export const equalTo = (name: string, value: unknown, types: Types): Filter =>
  tested(name, { op: 'in', values: [[keyOf(name, value, types)]] }, types)

const compared = (name: string, op: Comparison, value: unknown, types: Types): Filter =>
  tested(name, { op, value: [keyOf(name, value, types)] }, types)

const keyOf = (name: string, value: unknown, { formats }: Types) => sortKey(formats.get(name), value) as Json

function tested(name: string, test: Test, { formats }: Types): Filter {
  const format = formats.get(name)
  return { kind: 'test', path: [name], test, not: false, ...(format !== undefined && { as: format }) }
}

/**
 * Compares the documents of a collection with exclusions that its declaration gets.
 * @param documents scope with the rights of a service key, in the transaction that has locked the table against writers
 * @throws Problem `exclusion_violation` with some documents whose ranges overlap; `state_conflict` if there are so many documents that others
 *   would wait for long
 */
export async function requireDisjoint(
  documents: WorkspaceScope,
  { relation }: { readonly relation: string },
  {
    exclusions,
    declared,
  }: { readonly exclusions: readonly DeclaredExclusion[]; readonly declared: Declaration },
): Promise<void> {
  if (exclusions.length === 0) return
  const table = tableName({ relation })
  const limit = COLLECTION_LIMITS.exclusionDocumentsMax
  const counted = await documents.row<{ n: string }>(
    sql`select count(*) as n from (select from ${table} limit ${limit + 1}) found`,
  )
  if (Number(counted?.n) > limit) throw tooMany(limit)
  for (const exclusion of exclusions) {
    const pairs = await documents.rows<{ id: string; next_id: string }>(
      overlapping(table, exclusion, declared),
    )
    if (pairs.length > 0) throw overlaps(exclusion, pairs)
  }
}

const tooMany = (limit: number) =>
  new Problem('state_conflict', {
    detail: `The collection has more than ${limit} documents: others would wait too long for the index of a new member of exclude.`,
    hint: 'Declare another collection with it, and import the documents there.',
  })

function overlaps(
  { range }: DeclaredExclusion,
  pairs: readonly { readonly id: string; readonly next_id: string }[],
): Problem {
  const ids = pairs.map(({ id, next_id }) => [id, next_id])
  return new Problem('exclusion_violation', {
    detail: `The ranges ${range.join(' to ')} of documents overlap: ${ids.map((pair) => pair.join(' and ')).join('; ')}.`,
    members: { fields: range, overlapping: ids },
  })
}
