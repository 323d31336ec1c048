/** Conditions on the documents of a collection as the caller may read them, also on those at the other end of references. */

import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Filter, Path } from '../query/filter.ts'
import { compilePermission } from '../rules/permissions.ts'
import { type Collection, joinedCollection } from '../store.ts'
import { compileFilter } from './compile.ts'
import { tableOf } from './table.ts'

/** Selects the documents that are in the collection, that the caller may read, and that match the filter. */
export const matching = (collection: Collection, filter: Filter): Sql =>
  matchingAt(collection, { filter, at: tableOf(collection).name, hops: 0 })

/** The caller's read rule. The policy of the table enforces it as well; here the planner sees its values. */
export const readRule = (collection: Collection): Sql =>
  compilePermission(collection.permissions.read, (filter) =>
    compileFilter(filter, tableOf(collection).resolve),
  )

interface Place {
  readonly filter: Filter
  /** The name of the table in the statement. */
  readonly at: Sql
  readonly hops: number
}

function matchingAt(collection: Collection, { filter, at, hops }: Place): Sql {
  const { own, resolve } = tableOf(collection)
  const condition = compileFilter(filter, resolve, (related) => existsIn(collection, related, { at, hops }))
  return sql`${own} and ${readRule(collection)} and ${condition}`
}

/** By the number of references that lead there. A table may be there already: a reference may lead to the same collection. */
const NAMES = [sql`related_1`, sql`related_2`, sql`related_3`]

/** An id, or the column of a reference. */
function uuidAt(collection: Collection, path: Path): Sql | undefined {
  const [name] = path
  const { sql: column, type } = tableOf(collection).resolve(path, name === 'id' ? undefined : 'uuid')
  return type === 'uuid' ? column : undefined
}

function existsIn(
  from: Collection,
  { join, filter, not, path }: Extract<Filter, { kind: 'related' }>,
  { at, hops }: Omit<Place, 'filter'>,
): Sql {
  const alias = NAMES[hops]
  if (join === undefined || alias === undefined) throw new TypeError(`${path[0]} must have been found before`)
  const { own, other } = join
  const collection = joinedCollection(join)
  const [here, there] = [uuidAt(from, own), uuidAt(collection, other)]
  // A build that knows no references may have changed the table.
  if (here === undefined || there === undefined)
    throw new Problem('not_supported', {
      detail: `The reference ${path[0]} has no column, so documents cannot be found by it.`,
      adminHint: 'Declare the collection again with its references.',
    })
  // Names without a table are those of the innermost one.
  const same = sql`${there} = ${at}.${here}`
  const found = sql`exists (select from ${tableOf(collection).name} as ${alias}
    where ${same} and ${matchingAt(collection, { filter, at: alias, hops: hops + 1 })})`
  return not ? sql`not ${found}` : found
}
