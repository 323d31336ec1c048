/** Compiles filter, order and page cursor (keyset) to a MongoDB query over documents in the form of storage-format.ts. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import type { MongoFilter, MongoQuery } from '../../../infra/mongo/mongo.ts'
import {
  type Comparison,
  type Filter,
  isIndex,
  type Literal,
  type Members,
  mismatch,
  numberOrText,
  type OrderKey,
  type Path,
  type Pattern,
  pathText,
  type ScalarType,
  type Step,
  type Test,
  toType,
} from '../query/filter.ts'
import { keyOf, TYPES } from '../query/sort-keys.ts'
import type { Format } from '../schemas/canonical-text.ts'
import type { Query } from '../store.ts'
import { ARRAY, keyName, storedName, storedValue } from './storage-format.ts'

/** The fields that the platform adds, with the type of each. */
const SYSTEM_FIELDS: Readonly<Record<string, { readonly name: string; readonly type: ScalarType }>> = {
  id: { name: 'id', type: 'uuid' },
  _created_at: { name: 'created_at', type: 'timestamptz' },
  _updated_at: { name: 'updated_at', type: 'timestamptz' },
  _version: { name: 'v', type: 'bigint' },
  _owner: { name: 'owner', type: 'text' },
}

/** The field of the platform at a path. */
export const systemFieldAt = (path: Path) =>
  path.length === 1 && Object.hasOwn(SYSTEM_FIELDS, path[0]) ? SYSTEM_FIELDS[path[0]] : undefined

const noneOf = (of: MongoFilter): MongoFilter => ({ $nor: [of] })

/** @throws Problem `filter_type_mismatch` if a literal does not fit a system field */
export function compileFilter(filter: Filter): MongoFilter {
  switch (filter.kind) {
    case 'all':
      return allOf(filter.of.map(compileFilter))
    case 'any':
      return someOf(filter.of.map(compileFilter))
    case 'null':
      return filter.not ? present(filter.path) : noneOf(present(filter.path))
    case 'unknown':
      return NOTHING
    case 'deferred':
      return allOf([])
    case 'fields':
      throw new TypeError('only conditions of tables compare two fields')
    case 'related':
      throw new TypeError('the documents of references are found before')
    case 'exists': {
      const test = exists(filter.path)
      return filter.not ? noneOf(test) : test
    }
    case 'test': {
      const test = compileTest(filter.path, filter.test, filter.as)
      return filter.not ? allOf([present(filter.path), noneOf(test)]) : test
    }
  }
}

/** Existing and not null. Paths of names have a key only then. */
function present(path: Path): MongoFilter {
  const systemField = systemFieldAt(path)
  if (systemField !== undefined) return {}
  if (!path.some(isIndex)) return { [keyPath(path)]: { $exists: true } }
  return someOf(locationsOf(path).map((at) => ({ [at]: { $exists: true, $ne: null } })))
}

/** Existing, even if null. */
function exists(path: Path): MongoFilter {
  if (systemFieldAt(path) !== undefined) return {}
  return someOf(locationsOf(path).map((at) => ({ [at]: { $exists: true } })))
}

/** A test of a value itself, not of its members. */
type Plain = Exclude<Test, { op: 'at' | 'array' | 'object' }>

function compileTest(path: Path, test: Test, as?: Format): MongoFilter {
  const systemField = systemFieldAt(path)
  if (systemField !== undefined) return testSystemField(systemField, path, test)
  const somewhere = (holds: (at: string) => MongoFilter) => someOf(locationsOf(path).map(holds))
  if (test.op === 'at') return somewhere((at) => equalsAtSteps(at, test.steps, test.value))
  if (test.op === 'array') return somewhere((at) => compareArray(at, test.how, test.values))
  if (test.op === 'object' && test.how === 'cs') return somewhere((at) => contains(at, test.members))
  const plain: Plain = test.op === 'object' ? { op: 'in', values: partsOf(test.members) } : test
  if (as === undefined && path.some(isIndex)) return somewhere((at) => ({ [at]: onValue(plain, path) }))
  return { [keyPath(path, as)]: onKey(plain, path) }
}

/** The locations of a path: each whole number may be a member or an index. */
function locationsOf(path: Path): string[] {
  return path.reduce<string[]>(
    (locations, name) =>
      locations.flatMap((at) => [memberOf(at, name), ...(isIndex(name) ? [elementOf(at, name)] : [])]),
    ['d'],
  )
}

/** Follows the steps of json_path_eq. MongoDB tests any element of an array. */
function equalsAtSteps(at: string, steps: readonly Step[], value: Literal): MongoFilter {
  const location = steps.reduce((here, step) => {
    if (step === 'every') return elementsOf(here)
    return 'member' in step ? memberOf(here, step.member) : elementOf(here, step.index)
  }, at)
  return { [location]: { $in: value.map(storedValue) } }
}

/** Tests the stored value. */
function onValue(test: Plain, path: Path): object {
  if (test.op === 'in') return { $in: test.values.flat().map(storedValue) }
  if (test.op === 'like') return { $regex: regexOf(test.pattern, test.fold, '') }
  return { [`$${test.op}`]: numberOrText(test.value, path) }
}

/** Tests a key: a single text, so MongoDB's rules for types and arrays do not apply. */
function onKey(test: Plain, path: Path): object {
  if (test.op === 'in')
    return { $in: test.values.flat().flatMap((form) => (form === null ? [] : [keyOf(form)])) }
  if (test.op === 'like') return { $regex: regexOf(test.pattern, test.fold, TYPES.string) }
  const bound = numberOrText(test.value, path)
  const [first, next] =
    typeof bound === 'number' ? [TYPES.number, TYPES.boolean] : [TYPES.string, TYPES.number]
  const key = keyOf(bound)
  return test.op === 'gt' || test.op === 'gte'
    ? { [`$${test.op}`]: key, $lt: next }
    : { [`$${test.op}`]: key, $gte: first }
}

/** An anchored regular expression; each literal character is escaped. */
function regexOf(pattern: Pattern, fold: boolean, before: string): string {
  const parts = pattern.map((part) => {
    if (part === 'any') return '.*'
    if (part === 'one') return '.'
    return part.text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
  })
  return `\\A${before}(?${fold ? 'i' : ''}s:${parts.join('')})\\z`
}

function testSystemField(
  { name, type }: { name: string; type: ScalarType },
  path: Path,
  test: Test,
): MongoFilter {
  if (test.op === 'array' || test.op === 'object') throw mismatch(path, type, test.how)
  if (test.op === 'like' || test.op === 'at') throw mismatch(path, type, test.op)
  const bound = (literal: Literal) => {
    const value = toType(literal, type, path)
    if (type === 'timestamptz') return new Date(String(value))
    return type === 'uuid' ? String(value).toLowerCase() : value
  }
  if (test.op === 'in') return { [name]: { $in: test.values.map(bound) } }
  return { [name]: { [`$${test.op}`]: bound(test.value) } }
}

/**
 * Compiles a query. MongoDB sorts nulls first when ascending; for the other order, it sorts by a computed field first.
 * @throws Problem `filter_type_mismatch`, or `not_supported` for an order by an element of an array, which has no key
 */
export function compileQuery({ filter, order, after, limit }: Query): MongoQuery {
  const set: Record<string, unknown> = {}
  const sort: Record<string, 1 | -1> = {}
  for (const [index, key] of order.entries()) {
    const at = fieldOf(key)
    if (systemFieldAt(key.path) === undefined && key.nullsFirst === key.descending) {
      // The type of a key is `missing` or `string`, in this order.
      set[`n${index}`] = { $type: `$${at}` }
      sort[`n${index}`] = key.nullsFirst ? 1 : -1
    }
    sort[at] = key.descending ? -1 : 1
  }
  const afterCursor = after === undefined ? {} : compileAfter(order, after)
  return { filter: allOf([compileFilter(filter), afterCursor]), set, sort, limit }
}

/** Where the key of a path is, or of its canonical text. */
export const keyPath = (path: Path, as?: Format): string => `k.${keyName(path, as)}`

function fieldOf({ path, as }: OrderKey): string {
  if (path.some(isIndex)) {
    const detail = `Documents in MongoDB have no order by ${pathText(path)}: elements of arrays, and members that numbers name, cannot be ordered by.`
    throw new Problem('not_supported', { detail })
  }
  return systemFieldAt(path)?.name ?? keyPath(path, as)
}

/** Behind in the first key, or equal in it and behind in the second, and so on. */
function compileAfter(order: readonly OrderKey[], after: readonly Json[]): MongoFilter {
  const [key, ...rest] = order
  const [value = null, ...values] = after
  if (key === undefined) return NOTHING
  const at = fieldOf(key)
  const bound = boundOf(key.path, value)
  const tied = bound === undefined ? { [at]: { $exists: false } } : { [at]: { $eq: bound } }
  const ahead = rangeAfter(at, key, bound)
  return rest.length === 0 ? ahead : someOf([ahead, allOf([tied, compileAfter(rest, values)])])
}

function boundOf(path: Path, value: Json): unknown {
  const systemField = systemFieldAt(path)
  if (value === null) return undefined
  if (systemField === undefined) return keyOf(value)
  return systemField.type === 'timestamptz' ? new Date(String(value)) : value
}

function rangeAfter(at: string, { descending, nullsFirst }: OrderKey, bound: unknown): MongoFilter {
  if (bound === undefined) return nullsFirst ? { [at]: { $exists: true } } : NOTHING
  const beyond: MongoFilter = { [at]: { [(descending ? '$lt' : '$gt') satisfies `$${Comparison}`]: bound } }
  return nullsFirst ? beyond : someOf([beyond, { [at]: { $exists: false } }])
}

const NOTHING: MongoFilter = { $nor: [{}] }
const allOf = (of: readonly MongoFilter[]): MongoFilter => (of.length === 0 ? {} : { $and: of })
const someOf = (of: readonly MongoFilter[]): MongoFilter => (of.length === 0 ? NOTHING : { $or: of })

/** Locations start at the document, or inside of an element at the element, which is ''. */
const locationOf = (at: string, name: string) => (at === '' ? name : `${at}.${name}`)
const memberOf = (at: string, name: string) => locationOf(at, storedName(name))
const elementsOf = (at: string) => locationOf(at, ARRAY)
const elementOf = (at: string, index: string | number) => `${elementsOf(at)}.${index}`

/** The array at a location has each of the values, one of them, or no others. */
function compareArray(at: string, how: 'cs' | 'cd' | 'ov', values: readonly Literal[]): MongoFilter {
  const isArray = { [elementsOf(at)]: { $exists: true } }
  if (how === 'cd') {
    const others = { [elementsOf(at)]: { $elemMatch: { $nin: values.flat() } } }
    return allOf([isArray, { $nor: [others] }])
  }
  const each = values.map((forms) => someOf(forms.map((form) => containsElement(at, form))))
  return how === 'ov' ? someOf(each) : allOf([isArray, ...each])
}

/** A single condition on an element needs no `$elemMatch`. */
function containsElement(at: string, operand: Json): MongoFilter {
  const location = elementsOf(at)
  const [only, ...more] = conditionsOf('', operand)
  if (only !== undefined && more.length === 0 && only.anywhere)
    return { [only.at === '' ? location : `${location}.${only.at}`]: only.is }
  return { [location]: { $elemMatch: contains('', operand) } }
}

/** Matches if the value at a location contains the operand: members of objects, elements of arrays, at any depth. */
function contains(at: string, operand: Json): MongoFilter {
  return allOf(conditionsOf(at, operand).map((one) => ({ [one.at]: one.is })))
}

interface Condition {
  readonly at: string
  readonly is: unknown
  /** True if the condition means the same when applied to the elements of an array; false for conditions on absence. */
  readonly anywhere: boolean
}

function conditionsOf(at: string, operand: Json): Condition[] {
  if (operand === null) return [{ at, is: { $type: 'null' }, anywhere: true }]
  if (typeof operand !== 'object') return [{ at, is: { $eq: operand }, anywhere: true }]
  if (!Array.isArray(operand)) return objectConditions(at, operand)
  if (operand.length === 0) return [{ at: elementsOf(at), is: { $exists: true }, anywhere: true }]
  return operand.map((value) => {
    const [[location = '', is] = []] = Object.entries(containsElement(at, value))
    return { at: location, is, anywhere: true }
  })
}

function objectConditions(at: string, operand: Members): Condition[] {
  const members = Object.entries(operand)
  if (members.length > 0) return members.flatMap(([name, value]) => conditionsOf(memberOf(at, name), value))
  // An array is kept as an object too.
  const noArray: Condition = { at: elementsOf(at), is: { $exists: false }, anywhere: false }
  return at === '' ? [noArray] : [{ at, is: { $type: 'object' }, anywhere: true }, noArray]
}

/** Every object that has some of these members and no others. */
function partsOf(members: Members): Literal[] {
  let parts: Members[] = [{}]
  for (const [name, value] of Object.entries(members))
    parts = parts.flatMap((part) => [part, { ...part, [name]: value }])
  return parts.map((part): Literal => [part])
}
