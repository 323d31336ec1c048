/** Reads the documents at the other end of references, as the caller may read them: one statement for each branch. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import { type SelectedDocument, toDocument } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID, type OrderKey } from '../query/filter.ts'
import { project } from '../query/order-and-selection.ts'
import type { Collection, Stored } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import { type Branch, findBranch, requireDeclared } from './branches.ts'
import type { Expansion } from './expand-syntax.ts'
import { withRelated } from './related.ts'
import { tooDeep, withSelected } from './selected.ts'
import { idAt, oneOf } from './targets.ts'

/** Documents that one request may still read, and what each that it has read comes to. */
interface Budget {
  left: number
  readonly sizes: WeakMap<object, Size>
}

/** Of a document with all below it. */
interface Size {
  readonly documents: number
  readonly bytes: number
}

/** By name: a document or null, documents, or their number. */
export type Expanded = Readonly<Record<string, unknown>>

/**
 * @param collection of the documents
 * @returns what each document gets, in their order
 * @throws Problem `expand_invalid` for a name that is none, or what a branch does not take; `forbidden` for a collection of which the
 *   caller may read nothing; `output_too_large`
 */
export async function expandDocuments(
  scope: WorkspaceScope,
  collection: Pick<Collection, 'name' | 'declared'>,
  wanted: { readonly documents: readonly Stored[]; readonly expand: readonly Expansion[] },
): Promise<readonly Expanded[]> {
  const budget = { left: COLLECTION_LIMITS.expandedDocumentsMax, sizes: new WeakMap<object, Size>() }
  const results = await expandLevel(scope, collection, { ...wanted, budget, level: 1 })
  // A document that many refer to was read once, and is in the reply for each.
  const size = sum(results.map((expanded) => sizeOf(expanded, budget)))
  if (size.documents > COLLECTION_LIMITS.expandedDocumentsMax || size.bytes > INFRA_LIMITS.rowsBytesMax)
    throw tooLarge()
  return results
}

const tooLarge = () =>
  new Problem('output_too_large', {
    detail: `expand returns at most ${COLLECTION_LIMITS.expandedDocumentsMax} documents, and ${INFRA_LIMITS.rowsBytesMax / 1_048_576} MiB; there is more.`,
    hint: 'Ask for a smaller page, or for fewer documents of a branch: `comments(;size=5)`.',
  })

const NONE: Size = { documents: 0, bytes: 0 }

const sum = (sizes: readonly Size[]): Size =>
  sizes.reduce(
    (all, { documents, bytes }) => ({ documents: all.documents + documents, bytes: all.bytes + bytes }),
    NONE,
  )

const sizeOf = (expanded: Expanded | undefined, { sizes }: Budget): Size =>
  sum(
    Object.values(expanded ?? {}).flatMap((value) =>
      [value].flat().map((one) => sizes.get(Object(one)) ?? NONE),
    ),
  )

/** Expands documents of one collection, and those below them. */
async function expandLevel(
  scope: WorkspaceScope,
  collection: Pick<Collection, 'name' | 'declared'>,
  {
    documents,
    expand,
    budget,
    level,
  }: {
    readonly documents: readonly Stored[]
    readonly expand: readonly Expansion[]
    readonly budget: Budget
    /** 1 for the outermost. */
    readonly level: number
  },
): Promise<readonly Expanded[]> {
  if (level > COLLECTION_LIMITS.expandLevelsMax) throw tooDeep()
  const results = documents.map((): Record<string, unknown> => ({}))
  for (const expansion of expand) {
    const branch = await findBranch(scope, collection, { name: expansion.name, code: 'expand_invalid' })
    const values =
      branch.kind === 'one'
        ? await expandOne(scope, branch, { documents, expansion, budget, level, from: collection.name })
        : await expandMany(scope, branch, { documents, expansion, budget, level, from: collection.name })
    for (const [index, value] of values.entries()) (results[index] ?? {})[expansion.name] = value
  }
  return results
}

/** A document as it is returned, with what `expand` adds. */
export const withExpanded = (document: SelectedDocument, expanded: Expanded | undefined): SelectedDocument =>
  expanded === undefined ? document : { ...document, _expand: expanded }

const invalid = (detail: string) => new Problem('expand_invalid', { detail })

interface Expanding {
  readonly documents: readonly Stored[]
  readonly expansion: Expansion
  readonly budget: Budget
  readonly level: number
  /** The collection of the documents. */
  readonly from: string
}

/** The document that each refers to; null if it refers to none that the caller may read. */
async function expandOne(
  scope: WorkspaceScope,
  { reference }: Branch,
  { documents, expansion: wanted, ...on }: Expanding,
): Promise<unknown[]> {
  const { name: as, isCount, size, order, filter } = wanted
  if (isCount || size !== undefined || order.length > 0)
    throw invalid(`${as} is one document: it has no count, order or size.`)
  const targets = documents.map(({ fields }) => idAt(fields, reference))
  const ids = [...new Set(targets.filter((id) => id !== undefined))]
  const reading = { name: reference.collection, rights: ['read'], filter } as const
  const found = await withRelated(scope, reading, async (collection, inside, bound) => {
    requireDeclared(inside, collection, on.from)
    const expansion = withSelected(wanted, collection)
    const among = { kind: 'all', of: [oneOf('id', ids), bound] } as const
    const query = { filter: among, order: BY_ID, limit: Math.max(1, ids.length), ...selectedIn(expansion) }
    const typed = applyDeclaration(query, collection.declared)
    const { rows } = ids.length === 0 ? { rows: [] } : await collection.store.list(inside, collection, typed)
    return finish(inside, collection, { documents: rows, expansion, ...on })
  })
  const byId = new Map(found.map((document) => [document.id, document]))
  return targets.map((id) => (id === undefined ? null : (byId.get(id) ?? null)))
}

/** The documents that refer to each. */
async function expandMany(
  scope: WorkspaceScope,
  { reference: { field }, collection: name }: Extract<Branch, { kind: 'many' }>,
  { documents, expansion: wanted, ...on }: Expanding,
): Promise<unknown[]> {
  const ids = documents.map(({ id }) => id)
  const { filter, isCount, size = COLLECTION_LIMITS.expandSizeDefault } = wanted
  if (isCount && (wanted.size !== undefined || wanted.order.length > 0))
    throw invalid(`${wanted.name}(count) has no order and no size.`)
  return withRelated(scope, { name, rights: ['read'], filter }, async (collection, inside, bound) => {
    requireDeclared(inside, collection, on.from)
    const expansion = withSelected(wanted, collection)
    const typed = {
      filter: bound,
      order: ordered(expansion.order),
      limit: isCount ? 0 : size,
      ...selectedIn(expansion),
    }
    const query = applyDeclaration(typed, collection.declared)
    const by = { path: [field], as: 'uuid', values: ids } as const
    const { store } = collection
    if (isCount) {
      const counts = await store.countEach(inside, collection, { ...query, by })
      return ids.map((id) => ({ count: counts.get(id) ?? 0 }))
    }
    const found =
      ids.length === 0
        ? []
        : await store.listEach(inside, collection, { ...query, by, most: on.budget.left + 1 })
    const rows = found.map(({ stored }) => stored)
    const shown = await finish(inside, collection, { documents: rows, expansion, ...on })
    const byId = Map.groupBy(shown, (_, index) => found[index]?.value)
    return ids.map((id) => byId.get(id) ?? [])
  })
}

const selectedIn = ({ selection }: Expansion) => selection && { selected: [...selection.keys()] }

/** A total order. */
const ordered = (order: readonly OrderKey[]): readonly OrderKey[] =>
  order.some(({ path: [name] }) => name === 'id') ? order : [...order, ...BY_ID]

/** The documents of a branch as they are returned, with those of the branches below. */
async function finish(
  scope: WorkspaceScope,
  collection: Collection,
  { documents, expansion, budget, level }: Expanding,
): Promise<SelectedDocument[]> {
  budget.left -= documents.length
  if (budget.left < 0) throw tooLarge()
  const { expand, selection } = expansion
  // Also for no documents, so that a wrong name is refused whatever is stored.
  const below =
    expand.length === 0
      ? []
      : await expandLevel(scope, collection, { documents, expand, budget, level: level + 1 })
  return documents.map((stored, index) => {
    const own = project(toDocument(stored), selection)
    const document = withExpanded(own, below[index])
    const { documents: n, bytes } = sizeOf(below[index], budget)
    budget.sizes.set(document, { documents: n + 1, bytes: bytes + JSON.stringify(own).length })
    return document
  })
}
