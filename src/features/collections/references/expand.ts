/** Puts the documents at the other end of references into those that are returned, as far as a store has not found them with these. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import { type SelectedDocument, toDocument } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID } from '../query/filter.ts'
import { project } from '../query/order-and-selection.ts'
import type { Branch, BranchFound, Stored } from '../store.ts'
import type { OpenBranch } from './open-branches.ts'
import { idAt, oneOf } from './targets.ts'

/** Of a document with all below it. */
interface Size {
  readonly documents: number
  readonly bytes: number
}

type Sizes = WeakMap<object, Size>

/** By name: a document or null, documents, or their number. */
export type Expanded = Readonly<Record<string, unknown>>

interface Expanding {
  readonly documents: readonly Stored[]
  readonly branches: readonly OpenBranch[]
  /** What the store has found with the documents; by default it is asked for each branch. */
  readonly found?: readonly BranchFound[] | undefined
}

/** @returns what each document gets, in their order @throws Problem `output_too_large` */
export async function expandDocuments(
  scope: WorkspaceScope,
  { documents, branches, found }: Expanding,
): Promise<readonly Expanded[]> {
  const read = found ?? (await readBranches(scope, { documents, branches }, { left: documentsMax }))
  if (countAll(read) > documentsMax) throw tooLarge()
  const sizes: Sizes = new WeakMap()
  const results = expandAll(documents, { branches, found: read, sizes })
  // A document that many refer to was read once, and is in the reply for each.
  const size = sum(results.map((expanded) => sizeOf(expanded, sizes)))
  if (size.documents > documentsMax || size.bytes > INFRA_LIMITS.rowsBytesMax) throw tooLarge()
  return results
}

const { expandedDocumentsMax: documentsMax } = COLLECTION_LIMITS

const tooLarge = () =>
  new Problem('output_too_large', {
    detail: `expand returns at most ${documentsMax} documents, and ${INFRA_LIMITS.rowsBytesMax / 1_048_576} MiB; there is more.`,
    hint: 'Ask for a smaller page, or for fewer documents of a branch: `comments(;size=5)`.',
  })

const countAll = (found: readonly BranchFound[]): number =>
  found.reduce((sum, { documents, below }) => sum + documents.length + countAll(below), 0)

const NONE: Size = { documents: 0, bytes: 0 }

const sum = (sizes: readonly Size[]): Size =>
  sizes.reduce(
    (all, { documents, bytes }) => ({ documents: all.documents + documents, bytes: all.bytes + bytes }),
    NONE,
  )

const sizeOf = (expanded: Expanded | undefined, sizes: Sizes): Size =>
  sum(
    Object.values(expanded ?? {}).flatMap((value) =>
      [value].flat().map((one) => sizes.get(Object(one)) ?? NONE),
    ),
  )

/** A document as it is returned, with what `expand` adds. */
export const withExpanded = (document: SelectedDocument, expanded: Expanded | undefined): SelectedDocument =>
  expanded === undefined ? document : { ...document, _expand: expanded }

/** Asks the store for each branch, and then for those below it. @param budget documents that may still be read */
async function readBranches(
  scope: WorkspaceScope,
  { documents, branches }: { readonly documents: readonly Stored[]; readonly branches: readonly Branch[] },
  budget: { left: number },
): Promise<BranchFound[]> {
  const found: BranchFound[] = []
  for (const branch of branches) {
    const read = await readBranch(scope, branch, { documents, most: budget.left + 1 })
    budget.left -= read.documents.length
    if (budget.left < 0) throw tooLarge()
    const stored = read.documents.map((one) => one.stored)
    const below = await readBranches(scope, { documents: stored, branches: branch.below }, budget)
    found.push({ ...read, below })
  }
  return found
}

async function readBranch(
  scope: WorkspaceScope,
  { kind, field, collection, query }: Branch,
  { documents, most }: { readonly documents: readonly Stored[]; readonly most: number },
): Promise<Pick<BranchFound, 'documents' | 'counts'>> {
  const { store } = collection
  const ids =
    kind === 'one'
      ? [...new Set(documents.flatMap(({ fields }) => idAt(fields, { field }) ?? []))]
      : documents.map(({ id }) => id)
  const counts = new Map<string, number>()
  if (ids.length === 0) return { documents: [], counts }
  if (kind === 'one') {
    const filter = { kind: 'all', of: [oneOf('id', ids), query.filter] } as const
    const { rows } = await store.list(scope, collection, {
      ...query,
      filter,
      order: BY_ID,
      limit: ids.length,
    })
    return { documents: rows.map((stored) => ({ value: stored.id, stored })), counts }
  }
  const by = { path: [field], as: 'uuid', values: ids } as const
  if (kind === 'count')
    return { documents: [], counts: await store.countEach(scope, collection, { ...query, by }) }
  return { documents: await store.listEach(scope, collection, { ...query, by, most }), counts }
}

interface Found {
  readonly branches: readonly OpenBranch[]
  /** Of each branch. */
  readonly found: readonly BranchFound[]
  readonly sizes: Sizes
}

function expandAll(documents: readonly Stored[], { branches, found, sizes }: Found): Expanded[] {
  const results = documents.map((): Record<string, unknown> => ({}))
  for (const [at, branch] of branches.entries()) {
    const valueFor = valuesIn(branch, found[at] ?? NOTHING, sizes)
    for (const [index, stored] of documents.entries()) (results[index] ?? {})[branch.name] = valueFor(stored)
  }
  return results
}

const NOTHING: BranchFound = { documents: [], counts: new Map(), below: [] }

/** What a document gets from a branch: null for a reference to none that the caller may read. */
function valuesIn(branch: OpenBranch, found: BranchFound, sizes: Sizes): (stored: Stored) => unknown {
  const { kind, field } = branch
  if (kind === 'count') return ({ id }) => ({ count: found.counts.get(id) ?? 0 })
  const shown = showAll(branch, found, sizes)
  if (kind === 'one') {
    const byId = new Map(shown.map((document) => [document.id, document]))
    return ({ fields }) => byId.get(idAt(fields, { field }) ?? '') ?? null
  }
  const byValue = Map.groupBy(shown, (_, index) => found.documents[index]?.value)
  return ({ id }) => byValue.get(id) ?? []
}

/** The documents of a branch as they are returned, with those of the branches below. */
function showAll({ selection, below }: OpenBranch, found: BranchFound, sizes: Sizes): SelectedDocument[] {
  const documents = found.documents.map(({ stored }) => stored)
  const expanded =
    below.length === 0 ? [] : expandAll(documents, { branches: below, found: found.below, sizes })
  return documents.map((stored, index) => {
    const own = project(toDocument(stored), selection)
    const document = withExpanded(own, expanded[index])
    const { documents: n, bytes } = sizeOf(expanded[index], sizes)
    sizes.set(document, { documents: n + 1, bytes: bytes + JSON.stringify(own).length })
    return document
  })
}
