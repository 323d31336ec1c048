/** Filters on documents at the other end of references: finds the collections that they reach, for which the caller needs `read`. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Filter, type Join, type Path, pathText } from '../query/filter.ts'
import { resolveCollection, withCollection, withCollections } from '../resolve-store.ts'
import type { Right } from '../rules/access.ts'
import type { Collection } from '../store.ts'
import { applyDeclaration, declaredNames } from '../typed-query.ts'
import { isAcrossStores, readJoined } from './across-stores.ts'
import { type Branch, findBranch, findReferences, MovedReference, requireDeclared } from './branches.ts'

type Related = Extract<Filter, { kind: 'related' }>

interface Reading {
  readonly name: string
  /** The rights that the caller needs in the collection itself. */
  readonly rights: readonly Right[]
  readonly filter: Filter
}

/**
 * Runs work in one collection as {@link withCollection} does. Its filter may be on other documents: `comments=some.(status.eq.open)`,
 * or `customer.plan=eq.pro` for a reference to one document.
 * @param work gets the filter with the collections that it reaches, and a scope with the values that their rules look up
 * @throws Problem `forbidden`, also for a collection that the filter reaches; `filter_invalid` for a name that is no reference
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

type Work<T> = (collection: Collection, inside: WorkspaceScope, filter: Filter) => Promise<T>

function withRelatedOnce<T>(
  scope: WorkspaceScope,
  { name, rights, filter }: Reading,
  work: Work<T>,
): Promise<T> {
  return withCollection(scope, name, rights, async (collection, inside) => {
    if (!mayReachOthers(filter, collection)) return work(collection, inside, filter)
    const reached = new Map([[name, rights]])
    const find = (other: string) => {
      reached.set(other, reached.get(other) ?? ['read'])
      return resolveCollection(inside, other)
    }
    const finder = new Binder(inside, find)
    await finder.bind(filter, collection, 0)
    if (!finder.reachesOthers) return work(collection, inside, filter)
    return withCollections(scope, reached, async (at, together) => {
      const own = at(name)
      const bound = await new Binder(together, at, { reads: true }).bind(filter, own, 0)
      return work(own, together, bound)
    })
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

class Binder {
  readonly #scope: WorkspaceScope
  readonly #find: (name: string) => Collection | Promise<Collection>
  /** True if it reads what no statement of one store finds. */
  readonly #reads: boolean
  #left: number = COLLECTION_LIMITS.relatedMax

  constructor(
    scope: WorkspaceScope,
    find: (name: string) => Collection | Promise<Collection>,
    { reads }: { readonly reads: boolean } = { reads: false },
  ) {
    this.#scope = scope
    this.#find = find
    this.#reads = reads
  }

  /** True once a filter on other documents has been bound. */
  get reachesOthers(): boolean {
    return this.#left < COLLECTION_LIMITS.relatedMax
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
    const branch = await findBranch(this.#scope, collection, { name, code: 'filter_invalid' })
    return this.#join(filter, { branch, hops, from: collection })
  }

  /** @throws Problem `filter_invalid` for a field of the documents that refer to one, which are several */
  async #checkField(collection: Collection, [name, first, ...below]: Path): Promise<void> {
    const { name: own, declared } = collection
    if (first === undefined || declared === undefined || declaredNames(declared).includes(name)) return
    const referring = await findReferences(this.#scope, own)
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
    const collection = await this.#find(branch.kind === 'one' ? reference.collection : branch.collection)
    requireDeclared(this.#scope, collection, from.name)
    const bound = await this.bind(filter.filter, collection, hops + 1)
    const typed = applyDeclaration({ filter: bound, order: [], limit: 0 }, collection.declared)
    const join: Join = { collection, own, other }
    const joined = { ...filter, filter: typed.filter, join }
    return this.#reads && isAcrossStores(from, collection) ? readJoined(this.#scope, joined) : joined
  }
}

const tooMany = () =>
  new Problem('filter_too_large', {
    detail: `A query has at most ${COLLECTION_LIMITS.relatedMax} filters on the documents of references, which lead over at most ${COLLECTION_LIMITS.relatedHopsMax} references each.`,
  })
