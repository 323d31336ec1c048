/** What callers ask to be done with a document, and the change that it comes to. */

import { mergePatch } from '../../../flows-dsl/json.ts'
import { Problem } from '../../core/problem.ts'
import { withDefaults } from '../schemas/defaults.ts'
import { checkFields } from './bounds.ts'
import { after, type Fields } from './fields.ts'
import { type Judgement, judge, judgeChange, judgesAlone } from './judge.ts'
import { missing, stale } from './refusals.ts'
import type { Change, Collection, Content, Stored } from './store.ts'
import type { Right } from './stores.ts'

interface OnOne {
  readonly id: string
  /** Versions that the caller takes; where absent, any. */
  readonly ifVersions?: readonly number[] | undefined
}

type Update = { readonly op: 'update'; readonly data: Fields; readonly unset: readonly string[] } & OnOne

export type Wish =
  | { readonly op: 'create'; readonly data: Fields }
  /** Updates the document with these values in the unique fields `on`; creates one where there is none. */
  | { readonly op: 'upsert'; readonly on: readonly string[]; readonly data: Fields }
  | Update
  /** RFC 7396. */
  | ({ readonly op: 'merge'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'replace'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'increment'; readonly field: string; readonly by: number } & OnOne)
  | ({ readonly op: 'delete' } & OnOne)

/** What anon keys need for it. What was read shows in what comes back, but for a new document. */
export const RIGHTS: Readonly<Record<Wish['op'], readonly Right[]>> = {
  create: ['create'],
  upsert: ['read', 'create', 'update'],
  update: ['read', 'update'],
  merge: ['read', 'update'],
  replace: ['read', 'update'],
  increment: ['read', 'update'],
  delete: ['read', 'delete'],
}

/** A document as it is, or as earlier changes of the same transaction will have left it. */
export type Current = Pick<Stored, 'id' | 'fields' | 'version'>

export interface Planned {
  readonly change: Change
  readonly warnings: Judgement
  /** It rests on what was read: where that has changed meanwhile, it is planned again. */
  readonly again: boolean
}

/** Whether the change can be told without the document. */
export function standsAlone(collection: Collection, wish: Wish): boolean {
  if (wish.op === 'update')
    return judgesAlone(collection) && (wish.unset.length === 0 || collection.declared === undefined)
  return wish.op === 'create' || wish.op === 'replace' || wish.op === 'delete'
}

/** The change of a wish that stands alone. @param newId the id of a document that comes to be */
export function planAlone(collection: Collection, wish: Wish, newId: string): Planned {
  if (wish.op === 'create') return creation(collection, wish.data, newId)
  if (wish.op !== 'update' && wish.op !== 'replace' && wish.op !== 'delete')
    throw new TypeError(`${wish.op} does not stand alone`)
  const at = { id: wish.id, ...(wish.ifVersions !== undefined && { ifVersions: wish.ifVersions }) }
  if (wish.op === 'delete') return { change: { verb: 'delete', ...at }, warnings: [], again: false }
  if (wish.op === 'replace') {
    const { content, warnings } = checked(collection, defaulted(collection, wish.data))
    return { change: { verb: 'replace', ...at, content }, warnings, again: false }
  }
  const content = checkFields(wish.data)
  const warnings = judgeChange(collection, content.fields)
  return { change: { verb: 'update', ...at, content, unset: wish.unset }, warnings, again: false }
}

/**
 * The change of any wish, from what is there. What is judged is the document that comes out; it is written on the
 * condition that nobody else has written meanwhile.
 * @throws Problem where there is nothing, it is at another version, or what came of it may not be
 */
export function planOn(
  collection: Collection,
  wish: Wish,
  current: Current | undefined,
  newId: string,
): Planned {
  if (wish.op === 'create') return creation(collection, wish.data, newId)
  if (wish.op === 'upsert') return planUpsert(collection, wish.data, current, newId)
  if (current === undefined) throw missing()
  const { id, version } = current
  if (wish.ifVersions !== undefined && !wish.ifVersions.includes(version)) throw stale(version)
  const at = { id, ifVersions: [version] }
  switch (wish.op) {
    case 'delete':
      return { change: { verb: 'delete', ...at }, warnings: [], again: true }
    case 'replace':
      return written(collection, at, defaulted(collection, wish.data))
    case 'merge':
      if (Object.keys(wish.data).length === 0) return setting(collection, at, current, NOTHING)
      // The patch is held to the same bounds as what comes of it.
      return written(collection, at, mergePatch(current.fields, checkFields(wish.data).fields))
    case 'update':
      return setting(collection, at, current, wish)
    case 'increment': {
      const data = { [wish.field]: increased(current.fields, wish.field, wish.by) }
      return setting(collection, at, current, { data, unset: [] })
    }
  }
}

function planUpsert(
  collection: Collection,
  data: Fields,
  current: Current | undefined,
  newId: string,
): Planned {
  if (current === undefined) return { ...creation(collection, data, newId), again: true }
  const at = { id: current.id, ifVersions: [current.version] }
  return setting(collection, at, current, { data, unset: [] })
}

function creation(collection: Collection, data: Fields, id: string): Planned {
  const { content, warnings } = checked(collection, defaulted(collection, data))
  return { change: { verb: 'create', id, content }, warnings, again: false }
}

const NOTHING = { data: {}, unset: [] } as const

type At = { readonly id: string; readonly ifVersions: readonly number[] }

function written(collection: Collection, at: At, fields: Fields): Planned {
  const { content, warnings } = checked(collection, fields)
  return { change: { verb: 'replace', ...at, content }, warnings, again: true }
}

function setting(
  collection: Collection,
  at: At,
  current: Current,
  { data, unset }: Pick<Update, 'data' | 'unset'>,
): Planned {
  const content = checkFields(data)
  const { warnings } = checked(collection, after(current.fields, content.fields, unset))
  return { change: { verb: 'update', ...at, content, unset }, warnings, again: true }
}

function checked(collection: Collection, fields: Fields): { content: Content; warnings: Judgement } {
  const content = checkFields(fields)
  return { content, warnings: judge(collection, content.fields) }
}

/** In any mode: a default is no condition. */
function defaulted({ declared }: Collection, fields: Fields): Fields {
  return declared === undefined ? fields : withDefaults(declared.defaults, fields)
}

function increased(fields: Fields, field: string, by: number): number {
  const now = Object.hasOwn(fields, field) ? fields[field] : 0
  if (typeof now === 'number') return now + by
  throw new Problem('state_conflict', { detail: `The field ${field.slice(0, 100)} is not a number.` })
}
