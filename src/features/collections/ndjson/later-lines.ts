/** Finds the lines of an import that refer to documents which a later line may have. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Reference } from '../references/reference.ts'
import { findEach, findIds, idAt } from '../references/targets.ts'
import { withCollection } from '../resolve-store.ts'
import { type Collection, unresolved } from '../store.ts'
import { type Entry, idsOf } from './entries.ts'
import type { StoreOptions } from './store-entries.ts'

interface Lines {
  readonly options: StoreOptions
  readonly entries: readonly Entry[]
  /** The references of the collection to its own documents. */
  readonly own: readonly Reference[]
}

interface Target {
  readonly reference: Reference
  readonly id: string
}

/**
 * The entries that refer to a document of the same collection that is not there yet, nor stored with them: a later line may have it.
 * @returns each with the problem that it has if it never comes; none if the first fault ends the import
 */
export async function unresolvedAmong(
  scope: WorkspaceScope,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, Problem>> {
  const { collection: name, stopOnError } = options
  if (stopOnError) return new Map()
  return withCollection(scope, name, [], async (collection, inside) => {
    const own = collection.declared?.references.filter((reference) => reference.collection === name) ?? []
    if (own.length === 0) return new Map()
    return findOpen(inside, collection, { options, entries, own })
  })
}

async function findOpen(
  inside: WorkspaceScope,
  collection: Collection,
  { options, entries, own }: Lines,
): Promise<ReadonlyMap<Entry, Problem>> {
  const wanted = entries.map((entry) => ({ entry, targets: targetsIn(entry, own) }))
  const made = new Set(idsOf(entries))
  const others = wanted.flatMap(({ targets }) => targets.map(({ id }) => id)).filter((id) => !made.has(id))
  const there = new Set(await findIds(inside, collection, [...new Set(others)]))
  const isMissing = ({ id }: Target) => !made.has(id) && !there.has(id)
  const suspects = wanted.filter(({ targets }) => targets.some(isMissing)).map(({ entry }) => entry)
  const isKept = await findKept(inside, collection, { options, entries: suspects, own })
  const open = new Map<Entry, Problem>()
  // A line that refers to the document of a waiting line has to wait, too.
  for (let before = -1; before < open.size; ) {
    before = open.size
    for (const { entry, targets } of wanted) {
      if (open.has(entry)) continue
      const missing = targets.find((target) => isMissing(target) && !isKept(entry, target))
      if (missing === undefined) continue
      open.set(entry, unresolved(missing.reference))
      if (!(entry.request instanceof Problem)) made.delete(entry.request.id)
    }
  }
  return open
}

function targetsIn({ request }: Entry, references: readonly Reference[]): Target[] {
  if (request instanceof Problem) return []
  return references.flatMap((reference) => {
    const id = idAt(request.data, reference)
    return id === undefined ? [] : [{ reference, id }]
  })
}

/**
 * Tells references that no document has to come for, although their targets are not found, such as expired ones: those of documents
 * that exist and are left, or that have them already.
 */
async function findKept(
  inside: WorkspaceScope,
  collection: Collection,
  { options: { mode, on }, entries, own }: Lines,
): Promise<(entry: Entry, target: Target) => boolean> {
  // By unique fields, the documents are found when they are changed.
  const ids = on.length > 0 ? [] : idsOf(entries)
  const found = await findEach(inside, collection, ids, ({ id, fields }) => {
    const targets = own.map((reference) => idAt(fields, reference))
    return [id, targets] as const
  })
  const targetsById = new Map(found)
  return ({ request }, { id }) => {
    const targets = request instanceof Problem ? undefined : targetsById.get(request.id)
    return targets !== undefined && (mode === 'create' || targets.includes(id))
  }
}
