/** The indexes that a search, a similarity or a distance needs. */

import { Problem } from '../../core/problem.ts'
import type { Distance } from './query/distance.ts'
import type { Near } from './query/near.ts'
import type { Search } from './query/search.ts'
import type { Index } from './schemas/api-types.ts'
import type { Collection } from './store.ts'

type Kind = NonNullable<Index['kind']>

/** @param field of an index of one field */
const findIndex = (
  { declared }: Pick<Collection, 'declared'>,
  kind: Kind,
  field?: string,
): Index | undefined =>
  declared?.indexes.find((one) => one.kind === kind && (field === undefined || one.fields[0] === field))

/** The index that a query was checked for. */
export function indexOf(collection: Pick<Collection, 'declared'>, kind: Kind, field?: string): Index {
  const index = findIndex(collection, kind, field)
  if (index === undefined) throw new TypeError(`a query needs its index of the kind ${kind}`)
  return index
}

/** @throws Problem `not_supported` if an index that the query needs is missing, or is being built */
export function requireIndexes(
  collection: Collection,
  {
    near,
    search,
    distance,
  }: { readonly near?: Near; readonly search?: Search; readonly distance?: Distance },
): void {
  const name = collection.name.slice(0, 100)
  if (near !== undefined) {
    const field = near.field.slice(0, 100)
    requireReady(collection, findIndex(collection, 'trigram', near.field), {
      building: `The index of ${field} for near is being built.`,
      detail: `The field ${field} of ${collection.name} has no index for near.`,
      adminHint: `Declare one: "trigram": [${JSON.stringify(field)}] in the declaration of ${collection.name}, in PostgreSQL.`,
    })
  }
  if (search !== undefined)
    requireReady(collection, findIndex(collection, 'text'), {
      building: 'The index of _search is being built.',
      detail: `The collection ${name} has no search.`,
      adminHint: `Declare it, in PostgreSQL: "search": {"fields": {"title": "A"}, "language": "english"} in the declaration of ${name}.`,
    })
  if (distance !== undefined)
    requireReady(collection, findIndex(collection, 'geo'), {
      building: 'The index for _distance is being built.',
      detail: `The collection ${name} has no places to order by.`,
      adminHint: `Declare them, in PostgreSQL: "geo": ["lat", "lng"] in the declaration of ${name}.`,
    })
}

function requireReady(
  { store }: Collection,
  index: Index | undefined,
  {
    building,
    ...missing
  }: { readonly building: string; readonly detail: string; readonly adminHint: string },
): void {
  if (index?.state === 'ready' && store.kind === 'postgresql') return
  throw new Problem('not_supported', index?.state === 'building' ? { detail: building } : missing)
}
