/** The measures of a group, which take its documents one by one. */

import type { Json } from '../../../core/work.ts'
import type { ValueAt } from '../query/evaluate.ts'
import type { Path } from '../query/filter.ts'
import { compareKeys, keyOf } from '../query/sort-keys.ts'
import { canonicalOf, type Format } from '../schemas/canonical-text.ts'
import type { Measure } from './aggregate.ts'
import { ExactSum, sumOf } from './answers.ts'
import { formOf } from './group-columns.ts'

/** A value of a row. */
export interface Cell {
  /** By which rows are compared and ordered. */
  readonly key: Json
  /** The value of the answer. @throws Problem `number_unsafe` */
  readonly shown: () => Json
}

export interface Measurement {
  readonly add: (valueAt: ValueAt) => void
  readonly cell: () => Cell
}

export function measurementOf({ name, fn, path, as }: Measure): Measurement {
  if (path === undefined) return counted()
  switch (fn) {
    case 'count':
      return ofValues(path, counted())
    case 'count_distinct':
      return ofValues(path, distinct(as))
    case 'sum':
      return ofNumbers(path, as, (sum) => (as === undefined ? sumCell(name, sum) : exactCell(sum)))
    case 'avg':
      return ofNumbers(path, as, ({ average }) => plain(average))
    case 'min':
    case 'max':
      return ofValues(path, as === undefined ? extreme(fn) : extremeOfFormat(fn, as))
  }
}

const plain = (value: Json): Cell => ({ key: value, shown: () => value })

/** What takes values that are not null. */
interface OfValues {
  readonly add: (value: Exclude<Json, null>) => void
  readonly cell: () => Cell
}

const ofValues = (path: Path, { add, cell }: OfValues): Measurement => ({
  add: (valueAt) => {
    const value = (valueAt(path) ?? null) as Json
    if (value !== null) add(value)
  },
  cell,
})

function counted() {
  let n = 0
  const add = () => {
    n += 1
  }
  return { add, cell: () => plain(n) }
}

function distinct(as: Format | undefined): OfValues {
  const keys = new Set<string>()
  return {
    add: (value) => {
      const form = formOf(value, as)
      if (form !== null) keys.add(keyOf(form))
    },
    cell: () => plain(keys.size),
  }
}

/** Numbers, by the digits that they print, or texts of a format of numbers. Other values are left out. */
function ofNumbers(path: Path, as: Format | undefined, cellOf: (sum: ExactSum) => Cell): Measurement {
  const sum = new ExactSum()
  const add = (value: Exclude<Json, null>) => {
    if (as === undefined && typeof value === 'number') sum.add(String(value))
    if (as !== undefined && typeof value === 'string' && canonicalOf(as, value) !== undefined) sum.add(value)
  }
  return ofValues(path, { add, cell: () => cellOf(sum) })
}

const sumCell = (name: string, { text }: ExactSum): Cell => ({
  key: text === null ? null : Number(text),
  shown: () => sumOf(name, text),
})

/** The sum of texts is a text itself, and is compared as one. */
const exactCell = ({ text }: ExactSum): Cell => ({
  key: text === null ? null : (canonicalOf('decimal', text) ?? null),
  shown: () => text,
})

/** Texts come before numbers, as in an order; other values are left out. */
function extreme(fn: 'min' | 'max'): OfValues {
  let best: string | number | null = null
  return {
    add: (value) => {
      if (typeof value !== 'string' && typeof value !== 'number') return
      if (best === null || isBeyond(fn, keyOf(value), keyOf(best))) best = value
    },
    cell: () => plain(best),
  }
}

const isBeyond = (fn: 'min' | 'max', one: string, other: string): boolean =>
  compareKeys(one, other) * (fn === 'min' ? -1 : 1) > 0

/** The text whose canonical text comes first or last; of several, the one that does so itself. */
function extremeOfFormat(fn: 'min' | 'max', as: Format): OfValues {
  let best: { readonly key: string; readonly text: string } | undefined
  return {
    add: (text) => {
      const key = typeof text === 'string' ? canonicalOf(as, text) : undefined
      if (key === undefined || typeof text !== 'string') return
      const isBest =
        best === undefined || (key === best.key ? isBeyond(fn, text, best.text) : isBeyond(fn, key, best.key))
      if (isBest) best = { key, text }
    },
    cell: () => ({ key: best?.key ?? null, shown: () => best?.text ?? null }),
  }
}
