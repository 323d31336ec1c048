/** Filters on documents at the other end of references: finds the collections that they reach, for which the caller needs `read`. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Filter, type Join, type Path, pathText } from '../query/filter.ts'
import type { Selection } from '../query/order-and-selection.ts'
import { resolveCollection, resolveLookups, withCollections } from '../resolve-store.ts'
import type { Right } from '../rules/access.ts'
import { requireCollectionRights } from '../rules/permissions.ts'
import type { Collection } from '../store.ts'
import { applyDeclaration, declaredNames } from '../typed-query.ts'
import { isAcrossStores, readJoined } from './across-stores.ts'
import { type Branch, findBranch, findReferences, MovedReference, requireDeclared } from './branches.ts'
import { type OpenBranch, openBranches } from './open-branches.ts'
import { type Selected, withSelected } from './selected.ts'

type Related = Extract<Filter, { kind: 'related' }>

interface Reading {
  readonly name: string
  /** The rights that the caller needs in the collection itself. */
  readonly rights: readonly Right[]
  readonly filter: Filter
  /** By default all fields, and no other documents. */
  readonly wanted?: Selected
}

/**
 * Runs work in one collection as {@link withCollection} does. Its filter may be on other documents: `comments=some.(status.eq.open)`,
 * or `customer.plan=eq.pro` for a reference to one document; and it may return others with its own.
 * @param work gets the filter and the branches with the collections that they reach, and a scope with the values that their rules look up
 * @throws Problem `forbidden`, also for a collection that is reached; `filter_invalid` or `expand_invalid` for a name that is no reference
 */
export async function withRelated<T>(scope: WorkspaceScope, reading: Reading, work: Work<T>): Promise<T> {
  let cause: unknown
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    try {
      return await withRelatedOnce(scope, reading, work)
    } catch (error) {
      if (!(error instanceof MovedReference)) throw error
      cause = error
    }
  }
  throw new Problem('overloaded', {
    detail: `A collection that refers to ${reading.name} was renamed too often during the request.`,
    cause,
  })
}

/** Collections are renamed by hand, so no request meets several renamings. */
const ATTEMPTS_MAX = 3

type Work<T> = (
  collection: Collection,
  inside: WorkspaceScope,
  filter: Filter,
  shown: { readonly selection: Selection | undefined; readonly branches: readonly OpenBranch[] },
) => Promise<T>

const ALL_FIELDS: Selected = { selection: undefined, expand: [] }

function withRelatedOnce<T>(
  scope: WorkspaceScope,
  { name, rights, filter, wanted = ALL_FIELDS }: Reading,
  work: Work<T>,
): Promise<T> {
  // Those that are reached are added, so that their declarations are read again, too, if the database rejects the work.
  const reached = new Map([[name, rights]])
  return withCollections(scope, reached, async (at, inside) => {
    const collection = at(name)
    const reach = new Reach(inside, collection, reached)
    const bound = mayReachOthers(filter, collection) ? await reach.bind(filter, collection) : filter
    const { selection, expand } = withSelected(wanted, collection)
    const branches = await openBranches(reach, collection, expand)
    return work(collection, reach.scope, bound, { selection, branches })
  })
}

/** True if it takes a look at the declarations to know. */
function mayReachOthers(filter: Filter, collection: Collection): boolean {
  if ('of' in filter) return filter.of.some((part) => mayReachOthers(part, collection))
  return filter.kind === 'related' || (filter.path.length > 1 && collection.declared !== undefined)
}

/** The reference by whose name a path goes on to a field of another document. */
const referenceAt = ([name, ...below]: Path, { declared }: Collection) =>
  below.length === 0 ? undefined : declared?.references.find((reference) => reference.as === name)

/** The collections that a request reaches by references. */
class Reach {
  #scope: WorkspaceScope
  readonly #reached: Map<string, readonly Right[]>
  readonly #collections: Map<string, Collection>

  constructor(scope: WorkspaceScope, collection: Collection, reached: Map<string, readonly Right[]>) {
    this.#scope = scope
    this.#reached = reached
    this.#collections = new Map([[collection.name, collection]])
  }

  /** With the values that the rules of all of them look up. */
  get scope(): WorkspaceScope {
    return this.#scope
  }

  /** @throws Problem `forbidden` */
  async find(name: string): Promise<Collection> {
    const known = this.#collections.get(name)
    if (known !== undefined) return known
    if (!this.#reached.has(name)) this.#reached.set(name, ['read'])
    this.#scope = await resolveLookups(this.#scope, [name])
    const collection = await resolveCollection(this.#scope, name)
    requireCollectionRights(this.#scope, collection, ['read'])
    this.#collections.set(name, collection)
    return collection
  }

  /** The filter with the collections that it reaches. */
  bind(filter: Filter, collection: Collection): Promise<Filter> {
    return new Binder(this).bind(filter, collection, 0)
  }
}

class Binder {
  readonly #reach: Reach
  #left: number = COLLECTION_LIMITS.relatedMax

  constructor(reach: Reach) {
    this.#reach = reach
  }

  /** @param hops that lead to the collection */
  async bind(filter: Filter, collection: Collection, hops: number): Promise<Filter> {
    if ('of' in filter) {
      const of: Filter[] = []
      for (const part of filter.of) of.push(await this.bind(part, collection, hops))
      return { ...filter, of }
    }
    if ('isOwn' in filter) return filter
    const reference = referenceAt(filter.path, collection)
    if (reference !== undefined) {
      const [name, first = '', ...below] = filter.path
      // A test that is negated is one of the field, as for the document's own fields: it needs a document.
      const inner = { ...filter, path: [first, ...below] as const } as Filter
      const related = { kind: 'related', path: [name], filter: inner, not: false } as const
      return this.#join(related, { branch: { kind: 'one', reference }, hops, from: collection })
    }
    const [name, ...below] = filter.path
    if (filter.kind !== 'related') {
      await this.#checkField(collection, filter.path)
      return filter
    }
    if (below.length > 0)
      throw new Problem('filter_invalid', {
        detail: `${name.slice(0, 50)} of ${pathText(filter.path).slice(0, 100)} is not a reference of ${collection.name} to one document.`,
      })
    const branch = await findBranch(this.#reach.scope, collection, { name, code: 'filter_invalid' })
    return this.#join(filter, { branch, hops, from: collection })
  }

  /** @throws Problem `filter_invalid` for a field of the documents that refer to one, which are several */
  async #checkField(collection: Collection, [name, first, ...below]: Path): Promise<void> {
    const { name: own, declared } = collection
    if (first === undefined || declared === undefined || declaredNames(declared).includes(name)) return
    const referring = await findReferences(this.#reach.scope, own)
    if (!referring.some(({ reference }) => reference.inverse === name)) return
    throw new Problem('filter_invalid', {
      detail: `${name} are several documents, of which \`some\` or \`none\` match a filter.`,
      hint: `Write ${name}=some.(${pathText([first, ...below]).slice(0, 100)}.eq.…).`,
    })
  }

  async #join(
    filter: Related,
    { branch, hops, from }: { readonly branch: Branch; readonly hops: number; readonly from: Collection },
  ): Promise<Filter> {
    this.#left -= 1
    if (this.#left < 0 || hops >= COLLECTION_LIMITS.relatedHopsMax) throw tooMany()
    const { reference } = branch
    const ends = { one: [[reference.field], ['id']], many: [['id'], [reference.field]] } as const
    const [own, other] = ends[branch.kind]
    const collection = await this.#reach.find(
      branch.kind === 'one' ? reference.collection : branch.collection,
    )
    requireDeclared(this.#reach.scope, collection, from.name)
    const bound = await this.bind(filter.filter, collection, hops + 1)
    const typed = applyDeclaration({ filter: bound, order: [], limit: 0 }, collection.declared)
    const join: Join = { collection, own, other }
    const joined = { ...filter, filter: typed.filter, join }
    return isAcrossStores(from, collection) ? readJoined(this.#reach.scope, joined) : joined
  }
}

const tooMany = () =>
  new Problem('filter_too_large', {
    detail: `A query has at most ${COLLECTION_LIMITS.relatedMax} filters on the documents of references, which lead over at most ${COLLECTION_LIMITS.relatedHopsMax} references each.`,
  })
