/** Reads the documents at the other end of references, as the caller may read them: one statement for each branch. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { cached, invalidate } from '../../../access/scope-cache.ts'
import { Problem } from '../../../core/problem.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { type SelectedDocument, toDocument } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID, type OrderKey } from '../query/filter.ts'
import { project } from '../query/order-and-selection.ts'
import { resolveCollection, withCollection } from '../resolve-store.ts'
import type { Collection, Stored } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import type { Expansion } from './expand-syntax.ts'
import { type Reference, referringKey } from './reference.ts'
import { idAt, oneOf } from './targets.ts'

/** The meaning of a name in `expand`: the document that is referred to, or the documents that refer. */
type Branch =
  | { readonly kind: 'one'; readonly reference: Reference }
  | { readonly kind: 'many'; readonly reference: Reference; readonly collection: string }

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
  const results = await expandLevel(scope, collection, { ...wanted, budget })
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
  }: {
    readonly documents: readonly Stored[]
    readonly expand: readonly Expansion[]
    readonly budget: Budget
  },
): Promise<readonly Expanded[]> {
  const results = documents.map((): Record<string, unknown> => ({}))
  for (const expansion of expand) {
    const branch = await findBranch(scope, collection, expansion.name)
    const values =
      branch.kind === 'one'
        ? await expandOne(scope, branch, { documents, expansion, budget })
        : await expandMany(scope, branch, { documents, expansion, budget })
    for (const [index, value] of values.entries()) (results[index] ?? {})[expansion.name] = value
  }
  return results
}

/** A document as it is returned, with what `expand` adds. */
export const withExpanded = (document: SelectedDocument, expanded: Expanded | undefined): SelectedDocument =>
  expanded === undefined ? document : { ...document, _expand: expanded }

async function findBranch(
  scope: WorkspaceScope,
  { name: collection, declared }: Pick<Collection, 'name' | 'declared'>,
  name: string,
): Promise<Branch> {
  const one = declared?.references.find((reference) => reference.as === name)
  if (one !== undefined) return { kind: 'one', reference: one }
  const named = (referring: readonly Referring[]) =>
    referring.find(({ reference }) => reference.inverse === name)
  const known = named(await findReferences(scope, collection))
  if (known !== undefined) return { kind: 'many', ...known }
  // It may be newer than what this process has read.
  invalidate(scope, scope.ref, referringKey(collection))
  const referring = await findReferences(scope, collection)
  const many = named(referring)
  if (many !== undefined) return { kind: 'many', ...many }
  const others = [
    ...(declared?.references ?? []).map((reference) => [reference.as, reference.collection] as const),
    ...referring.map(({ reference, collection: other }) => [reference.inverse ?? '', other] as const),
  ]
  throw unknownName({ name, collection }, await readableNames(scope, others))
}

/** The names of collections that the caller may read. */
async function readableNames(
  scope: WorkspaceScope,
  named: readonly (readonly [name: string, collection: string])[],
): Promise<string[]> {
  const names: string[] = []
  for (const [name, collection] of named) {
    const { permissions } = await resolveCollection(scope, collection)
    if (permissions.read !== false) names.push(name)
  }
  return names
}

function unknownName(
  { name, collection }: { name: string; collection: string },
  names: readonly string[],
): Problem {
  if (names.length === 0) return invalid(`${collection} has no references, so there is no ${name} to expand.`)
  return invalid(`${collection} has no reference ${name}; there are ${names.join(', ')}.`)
}

const invalid = (detail: string) => new Problem('expand_invalid', { detail })

interface Referring {
  readonly collection: string
  readonly reference: Reference
}

/** The references to a collection that have a name there. */
async function findReferences(scope: WorkspaceScope, name: string): Promise<readonly Referring[]> {
  const found = await cached(scope, referringKey(name), async () => {
    const rows = await scope.rows<{ collection: string; relations: readonly Reference[] }>(sql`
      select collection, relations from schemas where relations @> ${JSON.stringify([{ collection: name }])}::jsonb
      order by collection`)
    const value = rows.flatMap(({ collection, relations }) =>
      relations
        .filter((reference) => reference.collection === name && reference.inverse !== undefined)
        .map((reference) => ({ collection, reference })),
    )
    return { value, bytes: JSON.stringify(value).length }
  })
  return found ?? []
}

interface Expanding {
  readonly documents: readonly Stored[]
  readonly expansion: Expansion
  readonly budget: Budget
}

/** The document that each refers to; null if it refers to none that the caller may read. */
async function expandOne(
  scope: WorkspaceScope,
  { reference }: Branch,
  { documents, expansion, budget }: Expanding,
): Promise<unknown[]> {
  if (expansion.isCount || expansion.size !== undefined || expansion.order.length > 0)
    throw invalid(`${expansion.name} is one document: it has no count, order or size.`)
  const targets = documents.map(({ fields }) => idAt(fields, reference))
  const ids = [...new Set(targets.filter((id) => id !== undefined))]
  const read = async (collection: Collection, inside: WorkspaceScope) => {
    const filter = { kind: 'all', of: [oneOf('id', ids), expansion.filter] } as const
    const query = { filter, order: BY_ID, limit: Math.max(1, ids.length), ...selectedIn(expansion) }
    const typed = applyDeclaration(query, collection.declared)
    const { rows } = ids.length === 0 ? { rows: [] } : await collection.store.list(inside, collection, typed)
    return finish(inside, collection, { documents: rows, expansion, budget })
  }
  const found = await withCollection(scope, reference.collection, ['read'], read)
  const byId = new Map(found.map((document) => [document.id, document]))
  return targets.map((id) => (id === undefined ? null : (byId.get(id) ?? null)))
}

/** The documents that refer to each. */
async function expandMany(
  scope: WorkspaceScope,
  { reference: { field }, collection: name }: Extract<Branch, { kind: 'many' }>,
  { documents, expansion, budget }: Expanding,
): Promise<unknown[]> {
  const ids = documents.map(({ id }) => id)
  const { filter, isCount, size = COLLECTION_LIMITS.expandSizeDefault } = expansion
  if (isCount && (expansion.size !== undefined || expansion.order.length > 0))
    throw invalid(`${expansion.name}(count) has no order and no size.`)
  return withCollection(scope, name, ['read'], async (collection, inside) => {
    const typed = {
      filter,
      order: ordered(expansion.order),
      limit: isCount ? 0 : size,
      ...selectedIn(expansion),
    }
    const query = applyDeclaration(typed, collection.declared)
    const by = { path: [field], as: 'uuid', values: ids } as const
    const { store } = collection
    if (store.listEach === undefined || store.countEach === undefined)
      throw new Problem('not_supported', {
        detail: `The documents of ${name} are in MongoDB, which does not support references.`,
      })
    if (isCount) {
      const counts = await store.countEach(inside, collection, { ...query, by })
      return ids.map((id) => ({ count: counts.get(id) ?? 0 }))
    }
    const found =
      ids.length === 0
        ? []
        : await store.listEach(inside, collection, { ...query, by, most: budget.left + 1 })
    const rows = found.map(({ stored }) => stored)
    const shown = await finish(inside, collection, { documents: rows, expansion, budget })
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
  { documents, expansion, budget }: Expanding,
): Promise<SelectedDocument[]> {
  budget.left -= documents.length
  if (budget.left < 0) throw tooLarge()
  const { expand, selection } = expansion
  // Also for no documents, so that a wrong name is refused whatever is stored.
  const below = expand.length === 0 ? [] : await expandLevel(scope, collection, { documents, expand, budget })
  return documents.map((stored, index) => {
    const own = project(toDocument(stored), selection)
    const document = withExpanded(own, below[index])
    const { documents: n, bytes } = sizeOf(below[index], budget)
    budget.sizes.set(document, { documents: n + 1, bytes: bytes + JSON.stringify(own).length })
    return document
  })
}
