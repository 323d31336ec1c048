/**
 * Deletes documents that others refer to by `cascade` or `set_null`: those are deleted or changed in the same transaction, with the
 * rights of the platform, each with its event, as their references declare it.
 */

import { requireHeld } from '../../../access/completion.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { undefinedOnDeadlock } from '../../../infra/postgres/errors.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import {
  deleteAllStatement,
  doomedStatement,
  expiredStatement,
  type IdsByName,
  lockStatement,
  matchingStatement,
  type ReferenceColumn,
  referringStatement,
  versionsStatement,
} from '../postgres/cascade-statements.ts'
import { conflictOf } from '../postgres/table-constraints.ts'
import type { Filter } from '../query/filter.ts'
import { resolveCollection, withExpired } from '../resolve-store.ts'
import { cacheKey, type DeclarationRow } from '../schemas/declaration-cache.ts'
import {
  type Blocking,
  type CheckedChange,
  type Collection,
  type Conflict,
  isRefusal,
  type Once,
  type Refusal,
  toWritten,
  type Written,
} from '../store.ts'
import { columnOf, isHeld, type Reference } from './reference.ts'
import { type FieldsById, NotNullable, setNull } from './set-null.ts'

const asPlatform = privilege('collections.cascades')

const withRightsOfPlatform = (scope: WorkspaceScope): WorkspaceScope =>
  isPublicRole(scope.actor.role) ? asPlatform(scope) : scope

type Deletion = Extract<CheckedChange, { verb: 'delete' }>

const isDeletion = (change: CheckedChange): change is Deletion => change.verb === 'delete'

interface Edge extends ReferenceColumn {
  readonly reference: Reference
}

/** Ends the transaction, so that nothing is changed. */
class Refused extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super('a change was refused')
    this.refusal = refusal
  }

  /** @param index of the first change that was tried */
  from(index: number): Refused {
    return new Refused({ ...this.refusal, index: index + this.refusal.index })
  }
}

interface Options {
  readonly once?: Once | undefined
  /** True if the changes are deletions whose order does not matter. By default each is made on what the ones before it leave. */
  readonly together?: boolean | undefined
}

/**
 * Makes changes of which the foreign keys have refused one.
 * @param refusal stays if no reference takes documents along
 * @returns undefined if other writers were in the way
 * @throws Problem `cascade_too_large`
 */
export async function writeCascading(
  scope: WorkspaceScope,
  changes: readonly CheckedChange[],
  { refusal, once, together = false }: Options & { readonly refusal: Refusal },
): Promise<readonly Written[] | Refusal | undefined> {
  const deletions = changes.filter(isDeletion)
  const names = deletions.map(({ collection }) => collection.name)
  const edges = await readEdges(withRightsOfPlatform(scope), names)
  if (edges === undefined) return refusal
  const make = async (inside: WorkspaceScope) => {
    const written = await new Cascade(inside, edges, deletions).makeAll(changes, together)
    if (once !== undefined) requireHeld(await inside.rows(once.keep(written)))
    return written
  }
  return inTransaction(scope, make)
}

/**
 * The number of documents that a deletion of those that match would delete or change besides them, by their references.
 * @param service scope with the rights of a service key
 * @returns counted for the first documents that match, and no further than `cascadeDocumentsMax`; undefined if no reference does so
 */
export async function countCascades(
  service: WorkspaceScope,
  collection: Collection,
  filter: Filter,
): Promise<number | undefined> {
  const edges = await readEdges(service, [collection.name])
  if (edges === undefined) return undefined
  const max = COLLECTION_LIMITS.cascadeDocumentsMax
  const matching = await service.rows<{ id: string }>(matchingStatement(collection, filter, max))
  const roots = grouped(matching.map(({ id }) => [collection.name, id] as const))
  const limit = matching.length + max
  const doomed = await findDoomed(service, ofKind(edges, 'cascade'), { roots, limit })
  const counted = new Set<string>()
  for (const edge of ofKind(edges, 'set_null'))
    for (const id of await findStaying(service, edge, { doomed, limit: max, lock: false }))
      counted.add(keyOf(edge.from.name, id))
  return Math.min(max, sizeOf(doomed) - matching.length + counted.size)
}

/** Documents that are read, and deleted together if nothing stands in the way of one of them. */
const EXPIRED_AT_ONCE = 100

/**
 * Deletes expired documents with what their references take along; those that are protected stay.
 * @param service scope with the rights of a service key
 * @param after the id behind which to look
 * @returns how many of them it has deleted, and the last id; undefined if there are no more
 */
export async function expireCascading(
  service: WorkspaceScope,
  collection: Collection,
  after: string,
): Promise<{ readonly removed: number; readonly last: string } | undefined> {
  const edges = await readEdges(service, [collection.name])
  if (edges === undefined) return undefined
  const limit = EXPIRED_AT_ONCE
  const found = await service.rows<{ id: string }>(expiredStatement(collection, { after, limit }))
  const deletions = found.map(({ id }) => ({ verb: 'delete', collection, id, warnings: [] }) as const)
  const last = found.at(-1)?.id
  if (last === undefined) return undefined
  if (await expireAll(service, edges, deletions)) return { removed: deletions.length, last }
  let removed = 0
  for (const one of deletions) if (await expireAll(service, edges, [one])) removed += 1
  return { removed, last }
}

/** @returns false if one of the documents is protected, or was taken along before */
async function expireAll(
  service: WorkspaceScope,
  edges: readonly Edge[],
  deletions: readonly Deletion[],
): Promise<boolean> {
  try {
    const made = await inTransaction(service, (inside) =>
      new Cascade(inside, edges, deletions).deleteAll(deletions, 'expired'),
    )
    return made !== undefined && !isRefusal(made)
  } catch (error) {
    if (error instanceof Problem && error.code === 'cascade_too_large') return false
    throw error
  }
}

/** @returns the refusal that has ended the transaction; undefined after a deadlock */
async function inTransaction<T>(
  scope: WorkspaceScope,
  make: (inside: WorkspaceScope) => Promise<T>,
): Promise<T | Refusal | undefined> {
  try {
    return await scope.transaction(make)
  } catch (error) {
    if (error instanceof Refused) return error.refusal
    if (error instanceof Problem && error.code === 'query_timeout')
      throw new Problem('overloaded', {
        detail: 'The deletion took too long, so it was not made.',
        cause: error,
      })
    return undefinedOnDeadlock(error)
  }
}

/** The references that lead, over others, to some collections; undefined if none of them takes documents along. */
async function readEdges(
  service: WorkspaceScope,
  names: readonly string[],
): Promise<readonly Edge[] | undefined> {
  type Row = Pick<DeclarationRow, 'collection' | 'relation' | 'relations' | 'columns'>
  const rows = await service.rows<Row>(sql`
    select collection, relation, relations, columns from schemas where relations <> '[]' order by collection`)
  const reached = new Set(names)
  const leading = (one: Reference) => isHeld(one) && reached.has(one.collection)
  for (let size = 0; size < reached.size; ) {
    size = reached.size
    for (const { collection, relations } of rows)
      if (relations.some((one) => one.on_delete === 'cascade' && leading(one))) reached.add(collection)
  }
  const found = rows.filter(({ relations }) => relations.some(leading))
  if (!found.some(({ relations }) => relations.some((one) => leading(one) && one.on_delete !== 'restrict')))
    return undefined
  const edges: Edge[] = []
  for (const row of found) {
    const from = await resolveAt(service, row)
    // Its table has documents of the time before MongoDB was configured; the foreign key protects what they refer to.
    if (from.store.kind !== 'postgresql') continue
    for (const reference of row.relations.filter(leading)) {
      const column = columnOf(reference, row.columns)
      if (column === undefined) continue
      edges.push({ from, to: reference.collection, column: Sql.identifier(column), reference })
    }
  }
  return edges
}

/** The collection as its row declares it, also if an older declaration is cached, with the documents that have expired. */
async function resolveAt(
  service: WorkspaceScope,
  { collection: name, relation }: Pick<DeclarationRow, 'collection' | 'relation'>,
): Promise<Collection> {
  const known = await resolveCollection(service, name)
  if (known.declared?.relation === relation) return withExpired(service, known)
  invalidate(service, service.ref, cacheKey(name))
  return withExpired(service, await resolveCollection(service, name))
}

/** The deletions of one transaction, each with what it takes along. */
class Cascade {
  readonly #scope: WorkspaceScope
  readonly #service: WorkspaceScope
  readonly #edges: readonly Edge[]
  readonly #collections = new Map<string, Collection>()
  /** The documents that are deleted so far. */
  readonly #gone = new Set<string>()

  constructor(inside: WorkspaceScope, edges: readonly Edge[], deletions: readonly Deletion[]) {
    this.#scope = inside
    this.#service = withRightsOfPlatform(inside)
    this.#edges = edges
    const isQuiet = deletions.some(({ collection }) => collection.isQuiet === true)
    const all = [...deletions.map(({ collection }) => collection), ...edges.map(({ from }) => from)]
    for (const one of all) this.#collections.set(one.name, isQuiet ? { ...one, isQuiet } : one)
  }

  async makeAll(changes: readonly CheckedChange[], together: boolean): Promise<readonly Written[]> {
    if (together) return this.deleteAll(changes.filter(isDeletion), 'own')
    const written: Written[] = []
    for (const group of inGroups(changes)) {
      const index = written.length
      const made = await this.#makeGroup(group).catch((error: unknown) => {
        if (error instanceof Refused) throw error.from(index)
        if (!(error instanceof Problem) || changes.length === 1) throw error
        throw error.with({ op_index: index + Number(error.members['op_index'] ?? 0) })
      })
      written.push(...made)
    }
    return written
  }

  async #makeGroup(group: readonly CheckedChange[]): Promise<readonly Written[]> {
    const [first] = group
    if (first === undefined) return []
    if (isDeletion(first)) return this.deleteAll([first], 'own')
    const result = await first.collection.store.write(this.#scope, group)
    if (!isRefusal(result)) return result
    const refused = group[result.index]
    throw new Refused(
      'missing' in result && refused ? { ...this.#missing(refused), index: result.index } : result,
    )
  }

  /** Tells a document that was taken along from one that another writer has deleted. */
  #missing(change: CheckedChange) {
    const isTakenAlong = this.#gone.has(keyOf(change.collection.name, change.id))
    return isTakenAlong ? ({ missing: true, isTakenAlong } as const) : ({ missing: true } as const)
  }

  /**
   * Deletes some documents, and all that follows from it.
   * @param which those that requests find, or those that have expired
   * @throws Refused; Problem `cascade_too_large`
   */
  async deleteAll(deletions: readonly Deletion[], which: 'own' | 'expired'): Promise<readonly Written[]> {
    const doomed = await this.#lockDoomed(deletions)
    const versions = await this.#readVersions(deletions, which)
    const blocking = await this.#findBlocking(doomed)
    if (blocking !== undefined) throw new Refused({ index: 0, ...blocking })
    const staying = await this.#lockStaying(doomed)
    for (const [name, fieldsById] of staying) await this.#setNull(this.#at(name), fieldsById)
    const all = [...doomed].map(([name, ids]) => ({ collection: this.#at(name), ids }))
    const verb = which === 'expired' ? 'expired' : 'deleted'
    await this.#service.batch(deleteAllStatement(all, verb)).catch((error: unknown) => {
      const conflict = deletions[0] && conflictOf(error, deletions[0].collection, 'delete')
      throw conflict === undefined ? error : new Refused({ index: 0, ...conflict })
    })
    for (const [collection, ids] of doomed) for (const id of ids) this.#gone.add(keyOf(collection, id))
    return deletions.map((deletion, index) => toWritten(deletion, versions[index] ?? 0))
  }

  #at(name: string): Collection {
    const collection = this.#collections.get(name)
    if (collection === undefined) throw new TypeError(`${name} is not one of the collections`)
    return collection
  }

  /** All documents that are to be deleted, locked: none comes to refer to them meanwhile. */
  async #lockDoomed(deletions: readonly Deletion[]): Promise<IdsByName> {
    const roots = grouped(deletions.map(({ collection, id }) => [collection.name, id] as const))
    const locked = new Set<string>()
    for (;;) {
      const max = COLLECTION_LIMITS.cascadeDocumentsMax
      const doomed = await findDoomed(this.#service, ofKind(this.#edges, 'cascade'), {
        roots,
        limit: max + 1,
      })
      if (sizeOf(doomed) > max) throw tooLarge()
      const open = [...doomed].flatMap(([name, ids]) =>
        [...ids].filter((id) => !locked.has(keyOf(name, id))).map((id) => [name, id] as const),
      )
      if (open.length === 0) return doomed
      const locks = [...grouped(open)].sort(([a], [b]) => (a < b ? -1 : 1))
      await this.#service.batch(...locks.map(([name, ids]) => lockStatement(this.#at(name), ids)))
      for (const [name, id] of open) locked.add(keyOf(name, id))
    }
  }

  /** @throws Refused if one is not there, or at another version */
  async #readVersions(deletions: readonly Deletion[], which: 'own' | 'expired'): Promise<readonly number[]> {
    const versions = new Map<string, number>()
    const byName = Map.groupBy(deletions, ({ collection }) => collection)
    for (const [collection, some] of byName) {
      const ids = some.map(({ id }) => id)
      const rows = await this.#service.rows<{ id: string; version: string }>(
        versionsStatement(collection, ids, which),
      )
      for (const { id, version } of rows) versions.set(keyOf(collection.name, id), Number(version))
    }
    return deletions.map((deletion, index) => {
      const version = versions.get(keyOf(deletion.collection.name, deletion.id))
      if (version === undefined) throw new Refused({ index, ...this.#missing(deletion) })
      if (deletion.ifVersions?.includes(version) === false)
        throw new Refused({ index, current: version, bytes: 0 })
      return version
    })
  }

  /** Some documents that stay and protect one that is to be deleted. */
  async #findBlocking(doomed: IdsByName): Promise<Conflict | undefined> {
    const limit = COLLECTION_LIMITS.referringShownMax
    for (const edge of ofKind(this.#edges, 'restrict')) {
      const ids = await findStaying(this.#service, edge, { doomed, limit, lock: false })
      if (ids.length > 0) return referencedBy(edge.from, { ids })
    }
    return undefined
  }

  /** The documents that stay without their reference: the fields to be null, by collection and id. */
  async #lockStaying(doomed: IdsByName): Promise<ReadonlyMap<string, FieldsById>> {
    const staying = new Map<string, FieldsById>()
    const limit = COLLECTION_LIMITS.cascadeDocumentsMax + 1
    let left = COLLECTION_LIMITS.cascadeDocumentsMax - sizeOf(doomed)
    for (const edge of ofKind(this.#edges, 'set_null')) {
      const { from, reference } = edge
      const fields = staying.get(from.name) ?? new Map<string, readonly string[]>()
      for (const id of await findStaying(this.#service, edge, { doomed, limit, lock: true })) {
        const known = fields.get(id)
        if (known === undefined) left -= 1
        if (left < 0) throw tooLarge()
        fields.set(id, [...(known ?? []), reference.field])
      }
      if (fields.size > 0) staying.set(from.name, fields)
    }
    return staying
  }

  async #setNull(collection: Collection, fieldsById: FieldsById): Promise<void> {
    try {
      await setNull(this.#service, collection, fieldsById)
    } catch (error) {
      if (!(error instanceof NotNullable)) throw error
      throw new Refused({ index: 0, ...referencedBy(collection, { ids: error.ids, isInvalid: true }) })
    }
  }
}

const ofKind = (edges: readonly Edge[], onDelete: Reference['on_delete']): readonly Edge[] =>
  edges.filter(({ reference }) => reference.on_delete === onDelete)

/** Some documents with those that refer to them, those that refer to these, and so on. @param limit of all together */
async function findDoomed(
  service: WorkspaceScope,
  edges: readonly Edge[],
  { roots, limit }: { readonly roots: IdsByName; readonly limit: number },
): Promise<IdsByName> {
  if (edges.length === 0) return roots
  const names = [...new Set([...roots.keys(), ...edges.flatMap(({ from, to }) => [from.name, to])])]
  const rows = await service.rows<{ n: number; id: string }>(doomedStatement(names, edges, { roots, limit }))
  return grouped(rows.map(({ n, id }) => [names[Number(n)] ?? '', id] as const))
}

/** Documents that refer to some that are to be deleted, and are not deleted themselves. @param limit of them */
async function findStaying(
  service: WorkspaceScope,
  edge: Edge,
  { doomed, limit, lock }: { readonly doomed: IdsByName; readonly limit: number; readonly lock: boolean },
): Promise<string[]> {
  const [targets, own] = [doomed.get(edge.to), doomed.get(edge.from.name)]
  if (targets === undefined) return []
  const most = limit + (own?.size ?? 0)
  const found = await service.rows<{ id: string }>(referringStatement(edge, targets, { limit: most, lock }))
  return found
    .map(({ id }) => id)
    .filter((id) => own?.has(id) !== true)
    .slice(0, limit)
}

const tooLarge = () =>
  new Problem('cascade_too_large', {
    detail: `The deletion would delete or change more than ${COLLECTION_LIMITS.cascadeDocumentsMax} documents, which is the maximum.`,
  })

const keyOf = (collection: string, id: string) => `${collection}/${id}`

const sizeOf = (ids: IdsByName): number => [...ids.values()].reduce((sum, { size }) => sum + size, 0)

function grouped(all: readonly (readonly [name: string, id: string])[]): IdsByName {
  const byName = new Map<string, Set<string>>()
  for (const [name, id] of all) byName.set(name, (byName.get(name) ?? new Set()).add(id))
  return byName
}

/** Each deletion by itself, and the other changes that follow one another together. */
function inGroups(changes: readonly CheckedChange[]): CheckedChange[][] {
  const groups: CheckedChange[][] = []
  for (const change of changes) {
    const group = groups.at(-1)
    if (group?.[0] !== undefined && !isDeletion(group[0]) && !isDeletion(change)) group.push(change)
    else groups.push([change])
  }
  return groups
}

const referencedBy = ({ name, declared }: Collection, blocking: Omit<Blocking, 'collection'>) => ({
  referenced: declared?.id ?? '',
  blocking: { collection: name, ...blocking },
})
