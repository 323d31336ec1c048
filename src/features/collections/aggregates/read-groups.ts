/** Reads one page of the groups of an aggregate, or without groups its only row. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Page } from '../../../core/page.ts'
import type { Json } from '../../../core/work.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'
import { listDigest } from '../../operation-helpers.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readCursor, writeCursor } from '../page.ts'
import type { OrderKey } from '../query/filter.ts'
import type { Search } from '../query/search.ts'
import { requireIndexes } from '../query-indexes.ts'
import { withRelated } from '../references/related.ts'
import { inLine } from '../scans.ts'
import type { AggregateQuery, GroupRow } from '../store.ts'
import type { Aggregate } from './aggregate.ts'
import { applyToAggregate } from './typed-aggregate.ts'

const { workspaceMax, waitMs, waitingMax } = COLLECTION_LIMITS.aggregates
const SLOTS = new KeyedSemaphore(workspaceMax, waitMs)
const BUSY = 'Too many aggregates of the workspace run at the same time, so this one was not run.'

type Group = Readonly<Record<string, Json>>

interface GroupRequest {
  readonly aggregate: Aggregate
  readonly search: Search | undefined
  readonly size: number | undefined
  readonly after: string | undefined
}

/** @throws Problem if the cursor does not fit, the caller may not aggregate, or a store rejects the aggregate */
export async function readGroups(
  scope: WorkspaceScope,
  name: string,
  { aggregate, search, size = COLLECTION_LIMITS.groupsDefault, after }: GroupRequest,
): Promise<Page<Group> | Group> {
  const { filter, groups, measures, having } = aggregate
  const order = totalOrder(aggregate)
  const digest = listDigest(name, { filter, groups, measures, having, search }, order)
  const query: AggregateQuery = {
    aggregate: { ...aggregate, order },
    ...(search !== undefined && { search }),
    limit: size + 1,
    ...(after !== undefined && { after: readCursor(scope, digest, after) }),
  }
  const rows = await run(scope, name, query)
  const [whole] = rows
  if (groups.length === 0) return memberOf(whole)
  const data = rows.slice(0, size)
  const last = data.at(-1)
  const hasMore = rows.length > size && last !== undefined
  const next = hasMore ? writeCursor(scope, digest, last.keys) : null
  return { data: data.map(memberOf), page: { size, next, has_more: hasMore } }
}

/** Names of the platform's caller are checked; `__proto__` becomes an own member. */
const memberOf = (row: GroupRow | undefined): Group => Object.fromEntries(row?.values ?? [])

/** The keys that were asked for, and all groups, so that no two rows are alike. */
function totalOrder({ order, groups }: Aggregate): OrderKey[] {
  const missing = groups.filter(({ name }) => !order.some(({ path }) => path[0] === name))
  const descending = order.at(-1)?.descending ?? false
  return [
    ...order,
    ...missing.map(({ name }): OrderKey => ({ path: [name], descending, nullsFirst: descending })),
  ]
}

function run(scope: WorkspaceScope, name: string, query: AggregateQuery): Promise<readonly GroupRow[]> {
  const { filter } = query.aggregate
  const reading = { name, rights: ['read', 'aggregate'], filter } as const
  return withRelated(scope, reading, async (collection, inside, bound) => {
    const aggregate = applyToAggregate({ ...query.aggregate, filter: bound }, collection.declared)
    const typed = { ...query, aggregate }
    // An aggregate reads all that the filter selects, as a count does.
    const { search } = query
    const read = {
      filter: aggregate.filter,
      ...{ order: [], limit: query.limit, count: 'exact' as const, ...(search && { search }) },
    }
    requireIndexes(collection, query)
    const release = await SLOTS.acquire(scope.ref.workspaceId, BUSY, { waitingMax })
    try {
      return await inLine(inside, collection, read, () =>
        collection.store.aggregate(inside, collection, typed),
      )
    } finally {
      release()
    }
  })
}
