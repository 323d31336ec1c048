/** Fields of other documents in `select`: `customer.name` is the short form of `expand=customer(name)`. */

import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { ALL } from '../query/filter.ts'
import type { Selection } from '../query/order-and-selection.ts'
import type { Collection } from '../store.ts'
import type { Expansion } from './expand-syntax.ts'

/** The fields to return of each document, undefined for all, and the documents of references to return with it. */
export interface Selected {
  readonly selection: Selection | undefined
  readonly expand: readonly Expansion[]
}

/** Moves the names of references to one document from the selection to `expand`. @throws Problem `expand_invalid` for one that is in both */
export function withSelected<T extends Selected>(wanted: T, { declared }: Pick<Collection, 'declared'>): T {
  const { selection, expand } = wanted
  const isNamed = (as: string) => selection?.has(as) === true && selection.quoted?.has(as) !== true
  const named = declared?.references.filter(({ as }) => isNamed(as)) ?? []
  if (selection === undefined || named.length === 0) return wanted
  const own = new Map(selection)
  const moved = named.map(({ as }): Expansion => {
    if (expand.some(({ name }) => name === as))
      throw new Problem('expand_invalid', {
        detail: `${as} is in \`select\` and in \`expand\`: name it in one.`,
      })
    const below = own.get(as)
    own.delete(as)
    const fields = below === undefined || below.size === 0 ? undefined : below
    return {
      name: as,
      selection: fields,
      filter: ALL,
      order: [],
      size: undefined,
      isCount: false,
      expand: [],
    }
  })
  const all = [...expand, ...moved]
  if (all.length > COLLECTION_LIMITS.expandBranchesMax)
    throw new Problem('expand_invalid', {
      detail: `\`select\` and \`expand\` name at most ${COLLECTION_LIMITS.expandBranchesMax} references.`,
    })
  return { ...wanted, selection: own, expand: all }
}

/** A path in `select` may lead further than `expand` is written. */
export const tooDeep = (): Problem =>
  new Problem('expand_invalid', {
    detail: `\`select\` and \`expand\` lead over at most ${COLLECTION_LIMITS.expandLevelsMax} references.`,
  })
