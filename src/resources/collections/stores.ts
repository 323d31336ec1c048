/** Which store a collection is in, what is known of it, and what the caller may do there. */

import { refusal } from '../../platform/pg/errors.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { ANON_MEMO, anonSettings, closedCollection } from '../anon.ts'
import { type AnonAccess, anonAccess, declarationOf, forgetDeclaration } from '../schemas/declarations.ts'
import { mongoStore } from './mongo/store.ts'
import { DeclaredMeanwhile } from './postgres/missed.ts'
import { postgresStore } from './postgres/store.ts'
import type { Collection, Store } from './store.ts'

/** What may be done with documents; anon keys need to be let. */
export type Right = keyof AnonAccess

export interface Where {
  readonly store: Store
  readonly collection: Collection
}

/** Work in one collection, for which the caller needs the rights. @throws Problem `forbidden` */
export function inCollection<T>(
  scope: WorkspaceScope,
  name: string,
  rights: readonly Right[],
  work: (where: Where) => Promise<T>,
): Promise<T> {
  return inCollections(scope, new Map([[name, rights]]), (at) => work(at(name)))
}

/**
 * What is remembered of a declaration may be some seconds old. Where the database refuses because of that, it is
 * asked for anew and the work done again, once for each collection: nothing was done before.
 * @param wanted the rights that the caller needs, by the collection's name
 */
export async function inCollections<T>(
  scope: WorkspaceScope,
  wanted: ReadonlyMap<string, readonly Right[]>,
  work: (at: (name: string) => Where) => Promise<T>,
): Promise<T> {
  for (let left = Math.min(wanted.size, ATTEMPTS_MAX); ; left--) {
    try {
      return await work(await placesOf(scope, wanted))
    } catch (error) {
      const isOutOfDate = error instanceof DeclaredMeanwhile || OUT_OF_DATE.has(refusal(error))
      if (!isOutOfDate || left === 0) throw error
      for (const name of wanted.keys()) forgetDeclaration(scope, name)
      scope.forget(ANON_MEMO)
    }
  }
}

/** Each of several collections may be declared just now. */
const ATTEMPTS_MAX = 5

const OUT_OF_DATE = new Set<string | undefined>(['is_declared', 'no_table', 'no_column'])

async function placesOf(
  scope: WorkspaceScope,
  wanted: ReadonlyMap<string, readonly Right[]>,
): Promise<(name: string) => Where> {
  const places = new Map<string, Where>()
  for (const [name, rights] of wanted) {
    const place = await placeOf(scope, name)
    permit(scope, place.collection, rights)
    places.set(name, place)
  }
  return (name) => {
    const place = places.get(name)
    if (place === undefined) throw new TypeError(`nobody asked for ${name}`)
    return place
  }
}

async function placeOf(scope: WorkspaceScope, name: string): Promise<Where> {
  const [declared, settings] = await Promise.all([declarationOf(scope, name), anonSettings(scope)])
  const anon = anonAccess(declared, settings)
  const { documents } = scope
  const elsewhere = declared?.store !== 'relational' && documents !== undefined
  return {
    store: elsewhere ? mongoStore(lets(anon) ? documents.writable : documents) : postgresStore,
    collection: { name, anon, ...(declared !== undefined && { declared }) },
  }
}

/** Whether anon keys may write at all; each change is permitted by itself before. */
const lets = (anon: AnonAccess) => anon.create || anon.update || anon.delete

/** The policies say the same; here it gets a reason. */
function permit(scope: WorkspaceScope, { name, declared, anon }: Collection, rights: readonly Right[]): void {
  if (scope.actor.role !== 'anon') return
  const right = rights.find((one) => !anon[one])
  if (right === undefined) return
  throw closedCollection(scope, {
    name,
    right,
    isDefault: right === 'read' && declared?.anon.read === undefined,
  })
}
