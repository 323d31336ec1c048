/** Operators that change a document by the paths of its fields: what callers send, and what becomes of the fields. */

import Type from 'typebox'
import { compareText } from '../../../flows-dsl/json.ts'
import { AnyName } from '../../access/operation-builders.ts'
import { canonical, exceedsDepth, isObject, shortPointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { inputInvalid } from '../../core/operation.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import type { Fields } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import type { Path } from './query/filter.ts'
import { readPath } from './query/syntax.ts'
import { canonicalOf, type Format, isNumberFormat } from './schemas/canonical-text.ts'

const byPath = (description: string) => Type.Optional(Type.Record(AnyName, Type.Unknown(), { description }))
const ordered = (description: string) =>
  Type.Optional(Type.Record(AnyName, Type.Union([Type.Number(), Type.String()]), { description }))
const paths = (description: string) =>
  Type.Optional(Type.Array(Type.String(), { maxItems: COLLECTION_LIMITS.operatorPathsMax, description }))

/** The operators as members of a body. A path is written as in queries: `shop.city`. */
export const OPERATOR_MEMBERS = {
  set: byPath('Values to set, by path, such as `{"shop.city": "Rome"}`. Objects on the way are created.'),
  unset: paths('Paths to remove, such as `["shop.aisle"]`.'),
  inc: ordered(
    'Numbers to add, by path, such as `{"seen": 1}`; texts such as `"0.10"` for fields of the formats `decimal` and `int64`.',
  ),
  push: byPath('Elements to append to arrays, by path: one value, or several as `{"each": [1, 2]}`.'),
  pull: byPath('Elements to remove from arrays, by path: one value, or several as `{"each": [1, 2]}`.'),
  min: ordered('Numbers or texts, by path, that replace greater ones.'),
  max: ordered('Numbers or texts, by path, that replace smaller ones.'),
  now: paths('Paths that get the time of the change, as a text of RFC 3339.'),
}

/** The media type of operators. */
export const OPERATORS_TYPE = 'application/vnd.tenon.ops+json'

export const OperatorsBody = Type.Object(OPERATOR_MEMBERS, {
  additionalProperties: false,
  minProperties: 1,
  description: 'Operators by name. No two of them change the same field, or one inside the other.',
})

type Operator = keyof typeof OPERATOR_MEMBERS

/** One operator on one path, checked. `push` and `pull` have a list as value; `unset` and `now` have none. */
export interface FieldChange {
  readonly operator: Operator
  readonly path: Path
  /** The path as it was sent, for problems. */
  readonly text: string
  readonly value?: unknown
}

/** A part of a body that changes a field: an operator, or the name of a field in `data`. */
interface Entry extends Omit<FieldChange, 'path'> {
  /** The member of the body. */
  readonly member: string
  readonly pointer: string
  /** Undefined: read from the text. */
  readonly path?: Path
}

/**
 * Reads the operators of a body, whose shape {@link OperatorsBody} has checked.
 * @param body `data`: fields to set by their own names, which are no paths
 * @param pointer of the body in the request
 * @throws Problem `validation_failed` with each path that is not valid, and each two that overlap
 * @example
 * const changes = readOperators({ set: { 'shop.city': 'Rome' }, inc: { seen: 1 } })
 * const fields = applyOperators({ shop: {}, seen: 1 }, changes, { now, formats: new Map() })
 * // { shop: { city: 'Rome' }, seen: 2 }
 */
export function readOperators(
  body: { readonly [Name in Operator]?: unknown } & { readonly data?: Fields | undefined },
  pointer = '',
): readonly FieldChange[] {
  const entries = entriesOf(body, pointer)
  const most = COLLECTION_LIMITS.operatorPathsMax
  if (entries.filter(({ member }) => member !== 'data').length > most)
    throw inputInvalid([errorAt({ member: '', pointer }, `has more than ${most} paths`)])
  const read = entries.map((entry) => changeOf(entry))
  const errors = read.flatMap((one) => ('error' in one ? [one.error] : []))
  const found = read.flatMap((one) => ('error' in one ? [] : [one]))
  const faults = [...errors, ...overlaps(found)].slice(0, CORE_LIMITS.diagnosticsReturnedMax)
  if (faults.length > 0) throw inputInvalid(faults)
  return found.map(({ change }) => change)
}

function entriesOf(body: Parameters<typeof readOperators>[0], pointer: string): Entry[] {
  const own = Object.entries(body.data ?? {}).map(
    ([name, value]): Entry => ({
      ...{ operator: 'set', member: 'data', text: name, path: [name], value },
      pointer: `${pointer}/data/${shortPointer(name)}`,
    }),
  )
  const names = Object.keys(OPERATOR_MEMBERS) as Operator[]
  const operators = names.flatMap((operator) => {
    const member = body[operator]
    const isList = Array.isArray(member)
    return Object.entries(member ?? {}).map(
      ([key, value]): Entry => ({
        ...{ operator, member: operator, text: isList ? String(value) : key, value },
        pointer: `${pointer}/${operator}/${shortPointer(key)}`,
      }),
    )
  })
  return [...own, ...operators]
}

const errorAt = ({ member, pointer }: Pick<Entry, 'member' | 'pointer'>, detail: string): InputError => ({
  in: 'body',
  // As other errors of a body: the pointer with dots.
  name: pointer.split('/').slice(1).join('.') || member,
  pointer,
  detail,
})

type Read = { readonly error: InputError } | { readonly entry: Entry; readonly change: FieldChange }

function changeOf(entry: Entry): Read {
  const { operator, text, value } = entry
  const path = entry.path ?? pathOf(text)
  const fault =
    typeof path === 'string' ? path : (pathFault(path, entry.member) ?? valueFault(operator, value))
  if (fault !== undefined || typeof path === 'string') return { error: errorAt(entry, fault ?? '') }
  if (operator === 'unset' || operator === 'now') return { entry, change: { operator, path, text } }
  const isList = operator === 'push' || operator === 'pull'
  return { entry, change: { operator, path, text, value: isList ? listOf(value) : value } }
}

/** @returns the fault of a text that is no path */
function pathOf(text: string): Path | string {
  try {
    return readPath(text, { code: 'validation_failed', in: 'body', name: text })
  } catch (error) {
    if (error instanceof Problem) return `is not a path: ${error.message}`
    throw error
  }
}

function pathFault(path: Path, member: string): string | undefined {
  // A body may have no such members, so no document has them.
  const isPolluting = path.some(
    (name, at) => name === '__proto__' || (name === 'prototype' && path[at - 1] === 'constructor'),
  )
  if (isPolluting) return 'has a name that is not allowed'
  const [first] = path
  // Fields that are no paths are checked with the document.
  if (member === 'data') return undefined
  if (first === 'id') return 'is assigned by the server'
  return /^[_$]/.test(first) ? 'is reserved: no name begins with _ or $' : undefined
}

function valueFault(operator: Operator, value: unknown): string | undefined {
  if (exceedsDepth(value, CORE_LIMITS.documentDepthMax))
    return `is nested deeper than ${CORE_LIMITS.documentDepthMax}`
  if (operator === 'inc' && typeof value === 'string' && canonicalOf('decimal', value) === undefined)
    return 'is not a number'
  const isList = operator === 'push' || operator === 'pull'
  if (isList && listOf(value) === undefined)
    return 'has a member each, which is a list and stands alone; write {"each": [value]} for an element with such a member'
  return undefined
}

/** The elements of `push` and `pull`; undefined for a malformed `each`. */
function listOf(value: unknown): readonly unknown[] | undefined {
  if (!isObject(value) || !Object.hasOwn(value, 'each')) return [value]
  const { each } = value
  return Array.isArray(each) && Object.keys(value).length === 1 ? each : undefined
}

/** The changes below a name of a path, and the one of the path itself. */
interface Node {
  entry?: Entry
  readonly below: Map<string, Node>
}

/** The changes of which another one changes the same field, or one around it: no order of the two is meant. */
function overlaps(found: readonly { readonly entry: Entry; readonly change: FieldChange }[]): InputError[] {
  const root: Node = { below: new Map() }
  const byLength = found.toSorted((a, b) => a.change.path.length - b.change.path.length)
  return byLength.flatMap(({ entry, change: { path } }) => {
    let node = root
    let other: Entry | undefined
    for (const name of path) {
      const next: Node = node.below.get(name) ?? { below: new Map() }
      node.below.set(name, next)
      node = next
      other ??= node.entry
    }
    const isSame = node.entry !== undefined
    node.entry ??= entry
    if (other === undefined) return []
    const named = `${other.member} names ${other.text.slice(0, 100)}`
    const place = isSame ? 'the same field' : 'a field around it'
    return [errorAt(entry, `${entry.text.slice(0, 100)} is changed twice: ${named}, ${place}`)]
  })
}

/**
 * The changes as fields to set and fields to remove, which a store can do without reading the document; undefined if they need
 * its values. @param now the time of the change
 */
export function withoutReading(
  changes: readonly FieldChange[],
  now: string,
): { readonly data: Fields; readonly unset: readonly string[] } | undefined {
  const isPlain = ({ operator, path }: FieldChange) =>
    path.length === 1 && (operator === 'set' || operator === 'unset' || operator === 'now')
  if (!changes.every(isPlain)) return undefined
  const set = changes.filter(({ operator }) => operator !== 'unset')
  return {
    data: Object.fromEntries(
      set.map(({ operator, path: [name], value }) => [name, operator === 'now' ? now : value]),
    ),
    unset: changes.filter(({ operator }) => operator === 'unset').map(({ path: [name] }) => name),
  }
}

interface Circumstances {
  /** The time of the change, RFC 3339. */
  readonly now: string
  /** The formats of declared fields, by which texts are compared and added. */
  readonly formats: ReadonlyMap<string, Format>
}

/**
 * The fields after the changes. Fields that do not change stay the same values.
 * @param changes in any order, since they do not overlap
 * @throws Problem `state_conflict` if a field has a value that the operator does not take; `number_unsafe` for a sum that is not exact
 */
export function applyOperators(
  fields: Fields,
  changes: readonly FieldChange[],
  { now, formats }: Circumstances,
): Fields {
  const own = new Set<object>()
  return changes.reduce((result, change) => {
    const [first] = change.path
    const format = change.path.length === 1 ? formats.get(first) : undefined
    const make = (old: unknown) => valueAfter(change, old, { now, format })
    return changedAt(result, change.path, { change, make, own })
  }, fields)
}

interface Step {
  readonly change: FieldChange
  /** The new value for the present one; undefined for none. */
  readonly make: (old: unknown) => unknown
  /** The objects that are copies already. All others stay as they are. */
  readonly own: Set<object>
}

/** The object with another value at the path. */
function changedAt(object: Fields, [name = '', ...below]: readonly string[], step: Step): Fields {
  const old = Object.hasOwn(object, name) ? object[name] : undefined
  const value = below.length === 0 ? step.make(old) : changedBelow(old, below, step)
  if (value === old) return object
  const copy = step.own.has(object) ? object : { ...object }
  step.own.add(copy)
  // No path has a name that would set a prototype.
  if (value === undefined) Reflect.deleteProperty(copy, name)
  else copy[name] = value
  return copy
}

function changedBelow(old: unknown, below: readonly string[], step: Step): unknown {
  if (isObject(old)) return changedAt(old, below, step)
  const { operator, text } = step.change
  if (old === undefined) {
    const made = changedAt({}, below, step)
    return Object.keys(made).length === 0 ? undefined : made
  }
  // There is nothing to remove.
  if (operator === 'unset' || operator === 'pull') return old
  throw conflict(`${text.slice(0, 100)} leads through a value that is not an object.`)
}

const conflict = (detail: string) => new Problem('state_conflict', { detail })

function valueAfter(
  { operator, text, value }: FieldChange,
  old: unknown,
  { now, format }: { readonly now: string; readonly format: Format | undefined },
): unknown {
  const name = text.slice(0, 100)
  switch (operator) {
    case 'set':
      return value
    case 'unset':
      return undefined
    case 'now':
      return now
    case 'inc':
      return sumOf(old, value as number | string, { name, format })
    case 'push':
      return pushed(old, value as readonly unknown[], name)
    case 'pull':
      return pulled(old, value as readonly unknown[], name)
    case 'min':
    case 'max': {
      if (old === undefined) return value
      const order = orderOf(value, old, { name, format })
      return (operator === 'min' ? order < 0 : order > 0) ? value : old
    }
  }
}

function pushed(old: unknown, elements: readonly unknown[], name: string): unknown {
  if (old !== undefined && !Array.isArray(old)) throw conflict(`The field ${name} is not an array.`)
  return elements.length === 0 ? old : [...(old ?? []), ...elements]
}

function pulled(old: unknown, elements: readonly unknown[], name: string): unknown {
  if (old === undefined) return undefined
  if (!Array.isArray(old)) throw conflict(`The field ${name} is not an array.`)
  const removed = new Set(elements.map(canonical))
  const left = old.filter((element) => !removed.has(canonical(element)))
  return left.length === old.length ? old : left
}

interface Named {
  readonly name: string
  readonly format: Format | undefined
}

/** The order of two values of one type: negative if the first one comes first. Texts of a format are compared by what they mean. */
function orderOf(a: unknown, b: unknown, { name, format }: Named): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a !== 'string' || typeof b !== 'string')
    throw conflict(`The field ${name} and the given value are neither two numbers nor two texts.`)
  if (format === undefined) return compareText(a, b)
  const [left, right] = [canonicalOf(format, a), canonicalOf(format, b)]
  if (left !== undefined && right !== undefined) return compareText(left, right)
  throw conflict(`The field ${name} and the given value are not both of the format ${format}.`)
}

/** A missing field counts as 0. Texts that are numbers are added to if the caller sends a text, or the format is one of numbers. */
function sumOf(old: unknown, by: number | string, { name, format }: Named): unknown {
  const isText = typeof by === 'string' || (isNumberFormat(format) && typeof old !== 'number')
  const now = old === undefined ? (isText ? '0' : 0) : old
  if (typeof now === 'number' && typeof by === 'number') return exactSum(now, by)
  if (isText && typeof now === 'string' && canonicalOf('decimal', now) !== undefined)
    return exactText(now, by, format)
  const isNumber = typeof now === 'number'
  throw conflict(`The field ${name} is ${isNumber ? 'a number, to which no text is added' : 'not a number'}.`)
}

/** @throws Problem `number_unsafe` if integers have a sum that would lose digits: a counter would stand still */
function exactSum(now: number, by: number): number {
  const sum = now + by
  const isLost = Number.isInteger(now) && Number.isInteger(by) && !Number.isSafeInteger(sum)
  if (!isLost && Number.isFinite(sum)) return sum
  throw new Problem('number_unsafe', { detail: `The sum of ${now} and ${by} is beyond 2^53.` })
}

/** The sum of two texts that are numbers, with as many decimals as the longer one has: `1.50` and `0.25` give `1.75`. */
function exactText(now: string, by: number | string, format: Format | undefined): string {
  const added = String(by)
  if (canonicalOf('decimal', added) === undefined)
    throw new Problem('number_unsafe', {
      detail: `${added} is written with an exponent.`,
      hint: 'Send the number as a text without an exponent.',
    })
  const sum = sumOfDecimals(now, added)
  if (canonicalOf(format === 'int64' ? 'int64' : 'decimal', sum) !== undefined) return sum
  const kind = format === 'int64' ? 'an integer of 64 bits' : 'a decimal of at most 100 characters'
  const detail = `The sum of ${now} and ${added} is not ${kind}.`
  throw new Problem('number_unsafe', { detail, hint: `Send a number that leaves the sum ${kind}.` })
}

function sumOfDecimals(a: string, b: string): string {
  const scale = Math.max(decimalsOf(a).length, decimalsOf(b).length)
  const total = scaled(a, scale) + scaled(b, scale)
  const digits = String(total < 0n ? -total : total).padStart(scale + 1, '0')
  const whole = digits.slice(0, digits.length - scale)
  return `${total < 0n ? '-' : ''}${whole}${scale === 0 ? '' : `.${digits.slice(-scale)}`}`
}

const decimalsOf = (text: string): string => text.split('.')[1] ?? ''

const scaled = (text: string, scale: number): bigint =>
  BigInt(`${text.split('.')[0]}${decimalsOf(text).padEnd(scale, '0')}`)
