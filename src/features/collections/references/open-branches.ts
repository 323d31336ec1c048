/** Finds the collections of the branches of `expand`, and makes of each what its store is asked. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID, type Filter, type OrderKey } from '../query/filter.ts'
import type { Selection } from '../query/order-and-selection.ts'
import type { Branch, Collection } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import { findBranch, requireDeclared } from './branches.ts'
import type { Expansion } from './expand-syntax.ts'
import { tooDeep, withSelected } from './selected.ts'

/** A branch whose collection is known, and which its caller may read. */
export interface OpenBranch extends Branch {
  readonly name: string
  readonly selection: Selection | undefined
  readonly below: readonly OpenBranch[]
}

/** Finds collections, and binds filters on their documents. */
interface Reach {
  readonly scope: WorkspaceScope
  find(name: string): Promise<Collection>
  bind(filter: Filter, collection: Collection): Promise<Filter>
}

/**
 * @param collection of the documents that are expanded
 * @param level 1 for the outermost
 * @throws Problem `expand_invalid` for a name that is none, or what a branch does not take; `forbidden` for a collection of which the
 *   caller may read nothing
 */
export async function openBranches(
  reach: Reach,
  collection: Collection,
  expand: readonly Expansion[],
  level = 1,
): Promise<readonly OpenBranch[]> {
  if (expand.length > 0 && level > COLLECTION_LIMITS.expandLevelsMax) throw tooDeep()
  const branches: OpenBranch[] = []
  for (const expansion of expand) branches.push(await openBranch(reach, collection, { expansion, level }))
  return branches
}

async function openBranch(
  reach: Reach,
  from: Collection,
  { expansion: wanted, level }: { readonly expansion: Expansion; readonly level: number },
): Promise<OpenBranch> {
  const { name, isCount } = wanted
  const found = await findBranch(reach.scope, from, { name, code: 'expand_invalid' })
  checkMembers(wanted, found.kind)
  const collection = await reach.find(found.kind === 'one' ? found.reference.collection : found.collection)
  requireDeclared(reach.scope, collection, from.name)
  const { selection, expand, filter, order, size } = withSelected(wanted, collection)
  const query = {
    filter: await reach.bind(filter, collection),
    order: found.kind === 'one' ? BY_ID : total(order),
    limit: isCount ? 0 : (size ?? COLLECTION_LIMITS.expandSizeDefault),
    ...(selection !== undefined && { selected: [...selection.keys()] }),
  }
  return {
    ...{ name, kind: isCount ? 'count' : found.kind, field: found.reference.field, collection, selection },
    query: applyDeclaration(query, collection.declared),
    below: await openBranches(reach, collection, expand, level + 1),
  }
}

const invalid = (detail: string) => new Problem('expand_invalid', { detail })

function checkMembers({ name, isCount, size, order }: Expansion, kind: 'one' | 'many'): void {
  const isOrdered = size !== undefined || order.length > 0
  if (kind === 'one' && (isCount || isOrdered))
    throw invalid(`${name} is one document: it has no count, order or size.`)
  if (isCount && isOrdered) throw invalid(`${name}(count) has no order and no size.`)
}

/** A total order. */
const total = (order: readonly OrderKey[]): readonly OrderKey[] =>
  order.some(({ path: [name] }) => name === 'id') ? order : [...order, ...BY_ID]
