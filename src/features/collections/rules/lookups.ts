/** Reads the lookups of a collection for a user: the values that its rules compare fields with. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { Actor, EndUser } from '../../../core/policy.ts'
import { BY_ID } from '../query/filter.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Collection, type Store, valueAt } from '../store.ts'
import type { Lookup } from './access.ts'
import { bindRule } from './bind-rule.ts'

/** Finds a collection and its store. */
type Locate = (name: string) => Promise<{ readonly store: Store; readonly collection: Collection }>

/**
 * @param service scope with the rights of a service key, since users need not be able to read what is looked up
 * @returns the values by `<collection>/<name>`; the first `ruleLookupValuesMax` documents of each
 */
export async function lookUp(
  service: WorkspaceScope,
  { collection, rules }: Declaration,
  { user, locate }: { readonly user: EndUser; readonly locate: Locate },
): Promise<NonNullable<Actor['lookups']>> {
  const found = Object.entries(rules.lookups).map(async ([name, lookup]) => {
    const values = await valuesOf(service, lookup, user, await locate(lookup.collection))
    return [`${collection}/${name}`, values] as const
  })
  return Object.fromEntries(await Promise.all(found))
}

/** Scalars, each once; those of lists by themselves. */
async function valuesOf(
  service: WorkspaceScope,
  { field, rule }: Lookup,
  user: EndUser,
  { store, collection }: Awaited<ReturnType<Locate>>,
): Promise<unknown[]> {
  const { declared } = collection
  if (declared === undefined) return []
  const filter = bindRule(rule, { user, now: new Date() }, declared)
  const limit = LIMITS.ruleLookupValuesMax
  const { rows } = await store.list(service, collection, { filter, order: BY_ID, limit })
  const values = rows
    .flatMap((row) => valueAt(row, field))
    .filter((value) => value !== null && typeof value !== 'object')
  return [...new Set(values.filter((value) => value !== undefined))].slice(0, limit)
}
