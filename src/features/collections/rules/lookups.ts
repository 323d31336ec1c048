/** Reads the lookups of a collection for a user: the values that its rules compare fields with. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Actor, EndUser, LookupResult } from '../../../core/policy.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID } from '../query/filter.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Collection, valueAt } from '../store.ts'
import type { Lookup } from './access.ts'
import { bindRule } from './bind-rule.ts'

type Locate = (name: string) => Promise<Collection>

/**
 * @param service scope with the rights of a service key, since users need not be able to read what is looked up
 * @returns by `<collection>/<name>` the values of the first `ruleLookupValuesMax` documents, and whether there are others
 */
export async function lookUp(
  service: WorkspaceScope,
  { collection, rules }: Declaration,
  { user, locate }: { readonly user: EndUser; readonly locate: Locate },
): Promise<NonNullable<Actor['lookups']>> {
  const found = Object.entries(rules.lookups).map(async ([name, lookup]) => {
    const values = await readValues(service, lookup, user, await locate(lookup.collection))
    return [`${collection}/${name}`, values] as const
  })
  return Object.fromEntries(await Promise.all(found))
}

/** Scalars, each once; those of lists by themselves. An object is no such value, so a list without it is not the whole. */
async function readValues(
  service: WorkspaceScope,
  { field, rule }: Lookup,
  user: EndUser,
  collection: Collection,
): Promise<LookupResult> {
  const { declared } = collection
  if (declared === undefined) return { values: [], isTruncated: true }
  const filter = bindRule(rule, { user, now: new Date() }, declared)
  const limit = COLLECTION_LIMITS.ruleLookupValuesMax
  const { rows } = await collection.store.list(service, collection, {
    filter,
    order: BY_ID,
    limit: limit + 1,
  })
  const found = rows
    .slice(0, limit)
    .flatMap((row) => valueAt(row, field))
    .filter((value) => value !== null && value !== undefined)
  const values = [...new Set(found.filter((value) => typeof value !== 'object'))]
  const isTruncated =
    rows.length > limit || values.length > limit || found.some((value) => typeof value === 'object')
  return { values: values.slice(0, limit), isTruncated }
}
