/** Resolves the name of a collection to its declaration, its store and what the caller may do, and authorizes the caller. */

import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { invalidate } from '../../access/scope-cache.ts'
import type { Actor, EndUser, LookupResult } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { refusal } from '../../infra/postgres/errors.ts'
import { PUBLIC_ACCESS_KEY, readPublicAccess } from '../tenants/public-access.ts'
import { documentsOf } from './mongo/documents.ts'
import { mongoRules, mongoStore } from './mongo/store.ts'
import { postgresStore, StaleDeclarationError } from './postgres/store.ts'
import type { Permissions, Right } from './rules/access.ts'
import { lookUp } from './rules/lookups.ts'
import { ALL_RIGHTS, permissionsOf, readersOf, requireCollectionRights } from './rules/permissions.ts'
import { cacheKey, type Declaration, findDeclaration, withoutExpiry } from './schemas/declaration-cache.ts'
import type { Collection, Store } from './store.ts'

const asService = privilege('collections.rules')
const withLookups = privilege('collections.lookups')

/** Runs work in one collection, for which the caller needs the rights. @throws Problem `forbidden` */
export function withCollection<T>(
  scope: WorkspaceScope,
  name: string,
  rights: readonly Right[],
  work: (collection: Collection, inside: WorkspaceScope) => Promise<T>,
): Promise<T> {
  return withCollections(scope, new Map([[name, rights]]), (at, inside) => work(at(name), inside))
}

/**
 * Runs work in several collections. Cached declarations may be some seconds old: if the database rejects the work because
 * of that, the declarations are read again and the work is repeated. The rejected attempt had no effect.
 * @param rightsByName the rights that the caller needs, by the collection's name; `work` may add those that it reaches
 * @param work gets the scope that its statements have to use: the caller's, with the values that the rules look up
 * @throws Problem `forbidden`; `overloaded` if the declarations change faster than the work is repeated
 */
export async function withCollections<T>(
  scope: WorkspaceScope,
  rightsByName: ReadonlyMap<string, readonly Right[]>,
  work: (at: (name: string) => Collection, inside: WorkspaceScope) => Promise<T>,
): Promise<T> {
  let cause: unknown
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    try {
      const inside = await resolveLookups(scope, [...rightsByName.keys()])
      return await work(await resolveAll(inside, rightsByName), inside)
    } catch (error) {
      const isOutOfDate = error instanceof StaleDeclarationError || OUT_OF_DATE.has(refusal(error))
      if (!isOutOfDate) throw error
      cause = error
      for (const name of rightsByName.keys()) invalidate(scope, scope.ref, cacheKey(name))
      invalidate(scope, scope.ref, PUBLIC_ACCESS_KEY)
    }
  }
  throw new Problem('overloaded', {
    detail: 'The declaration of the collection was changed too often during the request.',
    cause,
  })
}

/** A change of a declaration takes longer than a write, so a write misses few of them in a row. */
const ATTEMPTS_MAX = 10

const OUT_OF_DATE = new Set<string | undefined>(['is_declared', 'no_table', 'no_column'])

/** The scope with the lookups of the collections for its user, besides those it has. @returns the same scope if there are none */
export async function resolveLookups(
  scope: WorkspaceScope,
  names: readonly string[],
): Promise<WorkspaceScope> {
  const { user, role } = scope.actor
  if (role !== 'user' || user === undefined) return scope
  const lookups: Record<string, LookupResult> = {}
  for (const name of names) Object.assign(lookups, await lookupsFor(asService(scope), name, user))
  return Object.keys(lookups).length === 0
    ? scope
    : withLookups(scope, { ...scope.actor.lookups, ...lookups })
}

/** The values that the rules of a collection look up for a user. @param service scope with the rights of a service key */
export async function lookupsFor(service: WorkspaceScope, name: string, user: EndUser) {
  const declared = await findDeclaration(service, name)
  if (declared === undefined || Object.keys(declared.rules.lookups).length === 0) return {}
  return lookUp(service, declared, { user, locate: (other) => resolveCollection(service, other) })
}

async function resolveAll(
  scope: WorkspaceScope,
  rightsByName: ReadonlyMap<string, readonly Right[]>,
): Promise<(name: string) => Collection> {
  const collections = new Map<string, Collection>()
  for (const [name, rights] of rightsByName) {
    const collection = await resolveCollection(scope, name)
    requireCollectionRights(scope, collection, rights)
    collections.set(name, collection)
  }
  return (name) => {
    const collection = collections.get(name)
    if (collection === undefined) throw new TypeError(`${name} was not requested`)
    return collection
  }
}

/** A collection as a service key sees it, to learn whether rules hide something from the caller. Nothing of it may be returned to them. */
export const withoutRules = (scope: WorkspaceScope, collection: Collection) => ({
  service: asService(scope),
  collection: { ...collection, permissions: ALL_RIGHTS },
})

/** A collection with the documents that have expired, too. None of these may be returned to a caller. */
export function withExpired(scope: WorkspaceScope, collection: Collection): Collection {
  if (collection.declared?.expiry === undefined) return collection
  const declared = withoutExpiry(collection.declared)
  return { ...collection, declared, store: storeFor(scope, declared, collection.permissions) }
}

/** A collection, with what the actor may do in it now: by default the scope's. Lookups are those of the actor. */
export async function resolveCollection(
  scope: WorkspaceScope,
  name: string,
  actor: Pick<Actor, 'role' | 'user' | 'lookups'> = scope.actor,
): Promise<Collection> {
  const [declared, settings] = await Promise.all([findDeclaration(scope, name), readPublicAccess(scope)])
  const permissions = permissionsOf(actor, declared, settings)
  return {
    ...{ name, permissions, readers: readersOf(declared, settings) },
    store: storeFor(scope, declared, permissions),
    ...(declared !== undefined && { declared }),
  }
}

function storeFor(scope: WorkspaceScope, declared: Declaration | undefined, permissions: Permissions): Store {
  const documents = declared?.store === 'relational' ? undefined : documentsOf(scope)
  return documents === undefined
    ? postgresStore
    : mongoStore(documents.under(mongoRules(permissions, declared)))
}
