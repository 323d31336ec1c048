/** What is inside arrays and objects as mongo/form.ts keeps them, as MongoDB conditions. Pure. */

import type { Json } from '../../../core/work.ts'
import type { MongoFilter } from '../../../platform/documents/mongo.ts'
import type { Literal, Members } from '../grammar/filter.ts'
import { ARRAY, storedName } from './form.ts'

export const NOTHING: MongoFilter = { $nor: [{}] }
export const allOf = (of: readonly MongoFilter[]): MongoFilter => (of.length === 0 ? {} : { $and: of })
export const someOf = (of: readonly MongoFilter[]): MongoFilter => (of.length === 0 ? NOTHING : { $or: of })

/** Places are named from the document; those inside an element, from the element, which itself is ''. */
const placeOf = (at: string, name: string) => (at === '' ? name : `${at}.${name}`)
export const memberOf = (at: string, name: string) => placeOf(at, storedName(name))
export const elementsOf = (at: string) => placeOf(at, ARRAY)
export const elementOf = (at: string, index: string | number) => `${elementsOf(at)}.${index}`

/** The array at a place has each of the values, one of them, or no others. */
export function compareArray(at: string, how: 'cs' | 'cd' | 'ov', values: readonly Literal[]): MongoFilter {
  const isArray = { [elementsOf(at)]: { $exists: true } }
  if (how === 'cd') {
    const others = { [elementsOf(at)]: { $elemMatch: { $nin: values.flat() } } }
    return allOf([isArray, { $nor: [others] }])
  }
  const each = values.map((forms) => someOf(forms.map((form) => hasElement(at, form))))
  return how === 'ov' ? someOf(each) : allOf([isArray, ...each])
}

/** Where one thing alone is asked of an element, MongoDB looks for it in each by itself. */
function hasElement(at: string, wanted: Json): MongoFilter {
  const place = elementsOf(at)
  const [only, ...more] = needs('', wanted)
  if (only !== undefined && more.length === 0 && only.anywhere)
    return { [only.at === '' ? place : `${place}.${only.at}`]: only.is }
  return { [place]: { $elemMatch: contains('', wanted) } }
}

/** What stands at a place has all that is wanted inside it: members of objects, elements of arrays, at any depth. */
export function contains(at: string, wanted: Json): MongoFilter {
  return allOf(needs(at, wanted).map((need) => ({ [need.at]: need.is })))
}

interface Need {
  readonly at: string
  readonly is: unknown
  /** Whether it means the same of the elements of an array: not so what is missing, since it is so in some other. */
  readonly anywhere: boolean
}

function needs(at: string, wanted: Json): Need[] {
  if (wanted === null) return [{ at, is: { $type: 'null' }, anywhere: true }]
  if (typeof wanted !== 'object') return [{ at, is: { $eq: wanted }, anywhere: true }]
  if (!Array.isArray(wanted)) return ofObject(at, wanted)
  if (wanted.length === 0) return [{ at: elementsOf(at), is: { $exists: true }, anywhere: true }]
  return wanted.map((value) => {
    const [[place = '', is] = []] = Object.entries(hasElement(at, value))
    return { at: place, is, anywhere: true }
  })
}

function ofObject(at: string, wanted: Members): Need[] {
  const members = Object.entries(wanted)
  if (members.length > 0) return members.flatMap(([name, value]) => needs(memberOf(at, name), value))
  // An array is kept as an object too.
  const noArray: Need = { at: elementsOf(at), is: { $exists: false }, anywhere: false }
  return at === '' ? [noArray] : [{ at, is: { $type: 'object' }, anywhere: true }, noArray]
}

/** Every object that has some of these members and no others. */
export function partsOf(members: Members): Literal[] {
  let parts: Members[] = [{}]
  for (const [name, value] of Object.entries(members))
    parts = parts.flatMap((part) => [part, { ...part, [name]: value }])
  return parts.map((part): Literal => [part])
}
