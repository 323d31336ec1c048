/** Operators as a naive model applies them: to a copy of the document, one path after the other, and numbers as BigInt. */

import { isDeepStrictEqual } from 'node:util'
import type { Random } from '../../support/random.ts'

type Value = string | number | boolean | null | Value[] | { [name: string]: Value }
export type Doc = { [name: string]: Value }
export type Operators = Readonly<Record<string, Readonly<Record<string, Value>> | readonly string[]>>

/** Outcome of a change: the document, or the code with which it is refused. */
export type Outcome = Doc | 'state_conflict' | 'number_unsafe'

const pick = <T>(random: Random, of: readonly T[]): T => of[random(of.length)] as T

/** Names with what separates paths, and a number, which is no index here. */
const NAMES = ['a', 'b', 'x.y', '0'] as const
const SCALARS: readonly Value[] = [
  ...[0, 1, -2.5, 9_007_199_254_740_991, 'a', 'B', '😀', '', '10', '-0.50', true, false, null],
]

function someValue(random: Random, depth = 0): Value {
  if (depth < 2 && random(3) === 0) return someArray(random, depth)
  if (depth < 2 && random(2) === 0) return someObject(random, depth)
  return pick(random, SCALARS)
}
const someArray = (random: Random, depth: number): Value[] =>
  Array.from({ length: random(4) }, () => someValue(random, depth + 1))
const someObject = (random: Random, depth: number): Doc =>
  Object.fromEntries(NAMES.filter(() => random(2) === 0).map((name) => [name, someValue(random, depth + 1)]))

export const someDocument = (random: Random): Doc => someObject(random, 0)

type Path = readonly string[]
const written = (path: Path): string =>
  path.map((name) => (name.includes('.') ? JSON.stringify(name) : name)).join('.')

/** Paths of which none is in another one. */
function somePaths(random: Random): Path[] {
  const paths: Path[] = []
  for (let n = 1 + random(4); n > 0; n--) {
    const path = Array.from({ length: 1 + random(3) }, () => pick(random, NAMES))
    const around = (a: Path, b: Path) => a.every((name, at) => name === b[at])
    if (!paths.some((other) => around(other, path) || around(path, other))) paths.push(path)
  }
  return paths
}

interface Step {
  readonly operator: string
  readonly path: Path
  readonly value: Value
}

const OPERATORS = ['set', 'unset', 'inc', 'push', 'pull', 'min', 'max'] as const

function someStep(random: Random, path: Path): Step {
  const operator = pick(random, OPERATORS)
  if (operator === 'inc') return { operator, path, value: pick(random, [1, -3, 0.5, '0.25', '-10', '7']) }
  if (operator === 'min' || operator === 'max')
    return { operator, path, value: pick(random, [0, 5, -7, 'b', '', '😀']) }
  const isList = operator === 'push' || operator === 'pull'
  if (isList && random(2) === 0)
    return { operator, path, value: { each: Array.from({ length: random(3) }, () => someValue(random, 1)) } }
  return { operator, path, value: someValue(random, 1) }
}

/** Random operators, and what becomes of the document. */
export function someChange(random: Random, document: Doc): { operators: Operators; outcome: Outcome } {
  const steps = somePaths(random).map((path) => someStep(random, path))
  const operators: Record<string, Record<string, Value> | string[]> = {}
  for (const { operator, path, value } of steps) {
    if (operator === 'unset')
      operators[operator] = [...Object.values(operators[operator] ?? []), written(path)] as string[]
    else operators[operator] = { ...(operators[operator] as Record<string, Value>), [written(path)]: value }
  }
  const after = structuredClone(document)
  // The refusal that is reported first depends on the order, which is that of the table of operators.
  const outcomes = steps.map((step) => apply(after, step))
  const refused = outcomes.filter((outcome) => outcome !== undefined)
  return { operators, outcome: refused[0] ?? after }
}

/** @returns the code of a refusal */
function apply(
  document: Doc,
  { operator, path, value }: Step,
): 'state_conflict' | 'number_unsafe' | undefined {
  const removes = operator === 'unset' || operator === 'pull'
  const last = path.at(-1) ?? ''
  let place: Doc = document
  for (const name of path.slice(0, -1)) {
    const next = place[name]
    if (next === undefined) {
      if (removes) return undefined
      if (isEmptyPush(operator, value)) return undefined
      place[name] = {}
    } else if (typeof next !== 'object' || next === null || Array.isArray(next))
      return removes ? undefined : 'state_conflict'
    place = place[name] as Doc
  }
  const old = place[last]
  switch (operator) {
    case 'set':
      place[last] = value
      return undefined
    case 'unset':
      delete place[last]
      return undefined
    case 'push': {
      if (old !== undefined && !Array.isArray(old)) return 'state_conflict'
      if (elements(value).length > 0) place[last] = [...(old ?? []), ...elements(value)]
      return undefined
    }
    case 'pull': {
      if (old === undefined) return undefined
      if (!Array.isArray(old)) return 'state_conflict'
      place[last] = old.filter((one) => !elements(value).some((other) => isDeepStrictEqual(one, other)))
      return undefined
    }
    case 'inc':
      return add(place, last, value)
    default:
      return choose(place, last, { value, wantsLess: operator === 'min' })
  }
}

const elements = (value: Value): Value[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Array.isArray(value['each'])
    ? value['each']
    : [value]
const isEmptyPush = (operator: string, value: Value) => operator === 'push' && elements(value).length === 0

const NUMERIC = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?$/

function add(place: Doc, name: string, by: Value): 'state_conflict' | 'number_unsafe' | undefined {
  const old = place[name] ?? (place[name] === null ? null : typeof by === 'string' ? '0' : 0)
  if (typeof old === 'number' && typeof by === 'number') {
    const sum = old + by
    if (Number.isSafeInteger(old) && Number.isSafeInteger(by) && !Number.isSafeInteger(sum))
      return 'number_unsafe'
    place[name] = sum
    return undefined
  }
  if (typeof old !== 'string' || typeof by !== 'string' || !NUMERIC.test(old)) return 'state_conflict'
  const scale = Math.max(...[old, by].map((text) => text.split('.')[1]?.length ?? 0))
  const total = [old, by].reduce((sum, text) => {
    const [whole = '', fraction = ''] = text.split('.')
    return sum + BigInt(whole + fraction.padEnd(scale, '0'))
  }, 0n)
  const digits = String(total)
    .replace('-', '')
    .padStart(scale + 1, '0')
  const point = digits.length - scale
  const text = scale === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`
  place[name] = total < 0n ? `-${text}` : text
  return undefined
}

function choose(
  place: Doc,
  name: string,
  { value, wantsLess }: { readonly value: Value; readonly wantsLess: boolean },
): 'state_conflict' | undefined {
  const old = place[name]
  if (old === undefined) {
    place[name] = value
    return undefined
  }
  if (typeof old !== typeof value || (typeof old !== 'number' && typeof old !== 'string'))
    return 'state_conflict'
  const order =
    typeof old === 'number'
      ? Number(value) - old
      : Buffer.compare(Buffer.from(String(value)), Buffer.from(old))
  if (wantsLess ? order < 0 : order > 0) place[name] = value
  return undefined
}
