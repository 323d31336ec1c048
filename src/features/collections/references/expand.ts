/** Reads the documents at the other end of references, as the caller may read them: one statement for each branch. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { cached } from '../../../access/scope-cache.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { type SelectedDocument, toDocument } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID, type OrderKey } from '../query/filter.ts'
import { project } from '../query/order-and-selection.ts'
import { withCollection } from '../resolve-store.ts'
import type { Collection, Stored } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import type { Expansion } from './expand-syntax.ts'
import { type Reference, referringKey } from './reference.ts'
import { idAt, oneOf } from './targets.ts'

/** What a name in `expand` stands for: a document that is referred to, or those that refer. */
type Branch =
  | { readonly kind: 'one'; readonly reference: Reference }
  | { readonly kind: 'many'; readonly reference: Reference; readonly collection: string }

/** Documents that one request may still expand to. */
interface Budget {
  left: number
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
  { documents, expand }: { readonly documents: readonly Stored[]; readonly expand: readonly Expansion[] },
  budget: Budget = { left: COLLECTION_LIMITS.expandedDocumentsMax },
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
  const references = declared?.references ?? []
  const one = references.find((reference) => reference.as === name)
  if (one !== undefined) return { kind: 'one', reference: one }
  const referring = await findReferring(scope, collection)
  const many = referring.find(({ reference }) => reference.inverse === name)
  if (many !== undefined) return { kind: 'many', ...many }
  const names = [...references.map((one) => one.as), ...referring.map(({ reference }) => reference.inverse)]
  throw invalid(
    names.length === 0
      ? `${collection} has no references, so there is no ${name} to expand.`
      : `${collection} has no reference ${name}; there are ${names.join(', ')}.`,
  )
}

const invalid = (detail: string) => new Problem('expand_invalid', { detail })

/** The references to a collection that have a name there. */
async function findReferring(scope: WorkspaceScope, name: string) {
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
    const query = { filter, order: BY_ID, limit: Math.max(1, ids.length) }
    const { rows } =
      ids.length === 0
        ? { rows: [] }
        : await collection.store.list(inside, collection, applyDeclaration(query, collection.declared))
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
    const limit = isCount ? 0 : size
    const query = applyDeclaration({ filter, order: ordered(expansion.order), limit }, collection.declared)
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
    const found = await store.listEach(inside, collection, { ...query, by, most: budget.left + 1 })
    const rows = found.map(({ stored }) => stored)
    const shown = await finish(inside, collection, { documents: rows, expansion, budget })
    return ids.map((id) => shown.filter((_, index) => found[index]?.value === id))
  })
}

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
  if (budget.left < 0)
    throw new Problem('output_too_large', {
      detail: `expand returns at most ${COLLECTION_LIMITS.expandedDocumentsMax} documents; there are more.`,
      hint: 'Ask for a smaller page, or for fewer documents of a branch: `comments(;size=5)`.',
    })
  const { expand, selection } = expansion
  const below =
    expand.length === 0 || documents.length === 0
      ? []
      : await expandDocuments(scope, collection, { documents, expand }, budget)
  return documents.map((stored, index) => withExpanded(project(toDocument(stored), selection), below[index]))
}
