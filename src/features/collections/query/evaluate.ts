/**
 * Evaluates a filter on one document in this process: for rules, where no store is asked. Stores compile the same filters; the
 * tests in test/conformance/rules compare all three.
 */

import { isObject } from '../../../core/json.ts'
import type { Json } from '../../../core/work.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { canonicalOf, completeTimestamp, type Format } from '../schemas/canonical-text.ts'
import { Effort, EffortExhausted } from './effort.ts'
import type { Comparison, Filter, Literal, Path, Step, Test } from './filter.ts'
import { isIndex } from './filter.ts'
import { isLike } from './like.ts'

/** The value at a path of a document; undefined if there is none. */
export type ValueAt = (path: Path) => unknown

/** True if the document matches; false, also for a negated test, if it takes more than `ruleStepsMax` steps to find out. */
export const evaluate = (filter: Filter, valueAt: ValueAt): boolean =>
  evaluateWithin(COLLECTION_LIMITS.ruleStepsMax, filter, valueAt) ?? false

/** True if the document matches; undefined if it takes more steps to find out. */
export function evaluateWithin(stepsMax: number, filter: Filter, valueAt: ValueAt): boolean | undefined {
  try {
    return matches(filter, valueAt, new Effort(stepsMax))
  } catch (error) {
    if (error instanceof EffortExhausted) return undefined
    throw error
  }
}

function matches(filter: Filter, valueAt: ValueAt, effort: Effort): boolean {
  switch (filter.kind) {
    case 'all':
      return filter.of.every((part) => matches(part, valueAt, effort))
    case 'any':
      return filter.of.some((part) => matches(part, valueAt, effort))
    case 'unknown':
      return false
    case 'deferred':
      return true
    case 'exists':
      return (valueAt(filter.path) !== undefined) !== filter.not
    case 'null':
      return isPresent(valueAt(filter.path)) === filter.not
    case 'fields':
      return comparesFields(filter, valueAt)
    case 'related':
      throw new TypeError('other documents are found by a store alone')
    case 'test': {
      const value = valueAt(filter.path)
      if (!isPresent(value)) return false
      return passes(filter.test, inForm(value, filter.as), { path: filter.path, effort }) !== filter.not
    }
  }
}

function comparesFields(
  { path, other, op, not, as }: Extract<Filter, { kind: 'fields' }>,
  valueAt: ValueAt,
): boolean {
  const [value, bound] = [inForm(valueAt(path), as), inForm(valueAt(other), as)]
  if (!isPresent(value) || !isPresent(bound)) return false
  return (op === 'eq' ? equals(value, bound) : compared(value, op, [bound as Json], path)) !== not
}

/** The value at a path below an object or array; a whole number names a member or an element. */
export function valueBelow(base: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(memberOf, base)
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value) && !isIndex(name)) return undefined
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null

/** The canonical text of a value; undefined if it does not have the format. */
function inForm(value: unknown, as: Format | undefined): unknown {
  if (as === undefined) return value
  return typeof value === 'string' ? canonicalOf(as, value) : undefined
}

function passes(
  test: Test,
  value: unknown,
  { path, effort }: { readonly path: Path; readonly effort: Effort },
): boolean {
  effort.spend(1)
  switch (test.op) {
    case 'in':
      return test.values.some((literal) => equalsLiteral(value, literal, path))
    case 'like':
      return typeof value === 'string' && isLike(value, test.pattern, test.fold, effort)
    case 'at':
      return valuesAt(value, test.steps, effort).some((found) => equalsLiteral(found, test.value, path))
    case 'array':
      return Array.isArray(value) && compareArray(value, test, effort)
    case 'object':
      return isObject(value) && compareObject(value, test, effort)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compared(value, test.op, test.value, path)
  }
}

/** Timestamps of the platform are compared as such, ids without their case. */
const SYSTEM_FORMS: Readonly<Record<string, (text: string) => unknown>> = {
  id: (text) => text.toLowerCase(),
  _created_at: (text) => Date.parse(completeTimestamp(text) ?? text),
  _updated_at: (text) => Date.parse(completeTimestamp(text) ?? text),
}

function formsOf(value: unknown, path: Path): unknown {
  const form = path.length === 1 && Object.hasOwn(SYSTEM_FORMS, path[0]) ? SYSTEM_FORMS[path[0]] : undefined
  return form !== undefined && typeof value === 'string' ? form(value) : value
}

const equalsLiteral = (value: unknown, literal: Literal, path: Path): boolean =>
  literal.some((form) => equals(formsOf(value, path), formsOf(form, path)))

/** Equality of JSON values: members of objects in any order. */
function equals(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, i) => equals(v, b[i]))
  const names = Object.keys(a)
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => equals(memberOf(a, name), memberOf(b, name)))
  )
}

const SIGNS: Readonly<Record<Comparison, (order: number) => boolean>> = {
  gt: (order) => order > 0,
  gte: (order) => order >= 0,
  lt: (order) => order < 0,
  lte: (order) => order <= 0,
}

/** Never across types. */
function compared(value: unknown, op: Comparison, literal: Literal, path: Path): boolean {
  const own = formsOf(value, path)
  const forms = literal.map((form) => formsOf(form, path))
  const bound =
    forms.find((form) => typeof form === 'number') ?? forms.find((form) => typeof form === 'string')
  if (typeof own === 'number' && typeof bound === 'number') return SIGNS[op](own - bound)
  if (typeof own === 'string' && typeof bound === 'string') return SIGNS[op](byCodePoint(own, bound))
  return false
}

/** UTF-8 has the order of code points; JavaScript compares code units. */
const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** The values to which the steps lead. */
function valuesAt(value: unknown, steps: readonly Step[], effort: Effort): unknown[] {
  return steps.reduce<unknown[]>(
    (found, step) => {
      effort.spend(found.length)
      return found.flatMap((one) => stepInto(one, step)).filter((one) => one !== undefined)
    },
    [value],
  )
}

function stepInto(value: unknown, step: Step): unknown[] {
  if (step === 'every') return Array.isArray(value) ? value : []
  if ('member' in step) return isObject(value) ? [memberOf(value, step.member)] : []
  return Array.isArray(value) ? [value[step.index]] : []
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

function compareArray(
  value: readonly unknown[],
  { how, values }: Extract<Test, { op: 'array' }>,
  effort: Effort,
): boolean {
  effort.spend(value.length + values.length)
  if (how === 'cd') {
    const forms = new Set<unknown>(values.flat())
    return value.every((element) => forms.has(element))
  }
  const elements = new Set(value)
  const has = (literal: Literal) =>
    literal.some((form) =>
      isScalar(form) ? elements.has(form) : value.some((element) => contains(element, form, effort)),
    )
  return how === 'cs' ? values.every(has) : values.some(has)
}

function compareObject(
  value: Readonly<Record<string, unknown>>,
  { how, members }: Extract<Test, { op: 'object' }>,
  effort: Effort,
): boolean {
  if (how === 'cs') return contains(value, members, effort)
  return Object.entries(value).every(
    ([name, member]) => Object.hasOwn(members, name) && equals(member, members[name]),
  )
}

/** As `@>` of jsonb below the top level: members of objects, elements of arrays, at any depth. */
function contains(value: unknown, operand: Json | undefined, effort: Effort): boolean {
  effort.spend(1)
  if (Array.isArray(operand))
    return (
      Array.isArray(value) && operand.every((one) => value.some((element) => contains(element, one, effort)))
    )
  if (typeof operand === 'object' && operand !== null)
    return (
      isObject(value) &&
      Object.entries(operand).every(
        ([name, member]) => Object.hasOwn(value, name) && contains(memberOf(value, name), member, effort),
      )
    )
  return equals(value, operand)
}
