/** Finds the lines of an import that refer to documents which a later line may have. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Reference } from '../references/reference.ts'
import { findEach, findIds, idAt } from '../references/targets.ts'
import { withCollection } from '../resolve-store.ts'
import { unresolved } from '../store.ts'
import type { Entry } from './entries.ts'
import type { StoreOptions } from './store-entries.ts'

interface Target {
  readonly reference: Reference
  readonly id: string
}

/**
 * The entries that refer to a document of the same collection that is not there yet, nor stored with them: a later line may have it.
 * In MongoDB references have no integrity.
 * @returns each with the problem that it has if it never comes; none if the first fault ends the import
 */
export async function unresolvedAmong(
  scope: WorkspaceScope,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, Problem>> {
  const { collection: name, stopOnError } = options
  if (stopOnError) return new Map()
  const { declared, store } = await withCollection(scope, name, [], async (found) => found)
  const own = declared?.references.filter((reference) => reference.collection === name) ?? []
  if (own.length === 0 || store.kind !== 'postgresql') return new Map()
  const wanted = entries.map((entry) => ({ entry, targets: targetsIn(entry, own) }))
  const made = new Set(idsOf(entries))
  const others = wanted.flatMap(({ targets }) => targets.map(({ id }) => id)).filter((id) => !made.has(id))
  const there = new Set(
    await withCollection(scope, name, [], (collection, inside) =>
      findIds(inside, collection, [...new Set(others)]),
    ),
  )
  const isMissing = ({ id }: Target) => !made.has(id) && !there.has(id)
  const suspects = wanted.filter(({ targets }) => targets.some(isMissing)).map(({ entry }) => entry)
  const isKept = await findKept(scope, options, { entries: suspects, references: own })
  const open = new Map<Entry, Problem>()
  // What refers to a line that waits has to wait, too.
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

const idsOf = (entries: readonly Entry[]): string[] =>
  entries.flatMap(({ request }) => (request instanceof Problem ? [] : [request.id]))

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
  scope: WorkspaceScope,
  { collection: name, mode, on }: StoreOptions,
  { entries, references }: { readonly entries: readonly Entry[]; readonly references: readonly Reference[] },
): Promise<(entry: Entry, target: Target) => boolean> {
  // By unique fields, the documents are found when they are changed.
  const ids = on.length > 0 ? [] : idsOf(entries)
  const found = await withCollection(scope, name, [], (collection, inside) =>
    findEach(inside, collection, ids, ({ id, fields }) => {
      const targets = references.map((reference) => idAt(fields, reference))
      return [id, targets] as const
    }),
  )
  const targetsById = new Map(found)
  return ({ request }, { id }) => {
    const targets = request instanceof Problem ? undefined : targetsById.get(request.id)
    return targets !== undefined && (mode === 'create' || targets.includes(id))
  }
}
