/** The names by which the documents of a collection reach others: of its own references, and of those that lead to it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { cached, invalidate } from '../../../access/scope-cache.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { resolveCollection } from '../resolve-store.ts'
import type { Collection } from '../store.ts'
import { type Reference, referringKey } from './reference.ts'

/** The meaning of a name in `expand` and in filters: the document that is referred to, or the documents that refer. */
export type Branch =
  | { readonly kind: 'one'; readonly reference: Reference }
  | { readonly kind: 'many'; readonly reference: Reference; readonly collection: string }

/** @throws Problem `code` that lists the names there are, as far as the caller may read their documents */
export async function findBranch(
  scope: WorkspaceScope,
  { name: collection, declared }: Pick<Collection, 'name' | 'declared'>,
  { name, code }: { readonly name: string; readonly code: 'expand_invalid' | 'filter_invalid' },
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
  throw unknownName({ name, collection, code }, await readableNames(scope, others))
}

/** A reference leads to a collection that has another name by now. */
export class MovedReference extends Error {}

/**
 * Checks that the collection at the other end of a reference has its declaration. One that was renamed since its name was cached has none.
 * @param from the collection that the reference leads from or to
 * @throws MovedReference, after which `withRelated` repeats the work with the names that the database has
 */
export function requireDeclared(
  scope: WorkspaceScope,
  { declared }: Pick<Collection, 'declared'>,
  from: string,
): void {
  if (declared !== undefined) return
  invalidate(scope, scope.ref, referringKey(from))
  throw new MovedReference()
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
  { name, collection, code }: { name: string; collection: string; code: 'expand_invalid' | 'filter_invalid' },
  names: readonly string[],
): Problem {
  const there = names.length === 0 ? 'no references' : `no reference ${name}; there are ${names.join(', ')}`
  return new Problem(code, { detail: `${collection} has ${there}.` })
}

interface Referring {
  readonly collection: string
  readonly reference: Reference
}

/** The references to a collection that have a name there. */
export async function findReferences(scope: WorkspaceScope, name: string): Promise<readonly Referring[]> {
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
