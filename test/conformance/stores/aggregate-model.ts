/** Aggregates as a naive model computes them: decimals as BigInt, calendars by Intl, and every group by itself. */

import type { Random } from '../../support/random.ts'

type Scalar = string | number | boolean | null
export interface Doc {
  readonly status?: Scalar
  readonly amount?: number | null
  readonly price?: number | null
  readonly at?: string | null
}

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Havana',
  'Africa/Cairo',
  'Australia/Lord_Howe',
  'Asia/Kathmandu',
  'Pacific/Apia',
]
const UNITS = ['minute', 'hour', 'day', 'week', 'month', 'quarter', 'year']
/** Instants at which clocks of one of the zones change, and one at which a zone skipped a day. */
const CHANGES = [
  '2026-03-29T01:00:00Z',
  '2026-10-25T01:00:00Z',
  '2026-03-08T07:00:00Z',
  '2025-11-02T05:00:00Z',
  '2025-03-09T05:00:00Z',
  '2025-04-24T22:00:00Z',
  '2026-04-04T15:00:00Z',
  '2011-12-30T10:00:00Z',
].map((text) => Date.parse(text))

const HOUR = 3_600_000
const AMOUNTS = [
  0, 1, -3, 7, 1_000_000_007, 4_503_599_627_370_497, 9_007_199_254_740_991, -9_007_199_254_740_991,
]
const PRICES = [0.1, 0.2, 0.3, -0.7, 1e15, 12.345678, 1e-6, 99.99]
const pick = <T>(random: Random, of: readonly T[]): T => of[random(of.length)] as T

/** An instant near a change of clocks, written in some offset. */
function someInstant(random: Random): string {
  const at = pick(random, CHANGES) + (random(80) - 40) * (HOUR / 2) + random(1_800) * 1_000
  const offset = pick(random, [0, 60, -300, 345])
  const local = new Date(at + offset * 60_000).toISOString().replace('.000Z', '')
  const minutes = Math.abs(offset)
  const pad = (value: number) => String(value).padStart(2, '0')
  if (offset === 0) return `${local}Z`
  return `${local}${offset < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`
}

export function someDocuments(random: Random, count: number): Doc[] {
  return Array.from({ length: count }, () => ({
    ...(random(9) > 0 && { status: pick(random, ['open', 'paid', 'lost', 'Ünter', null]) }),
    ...(random(6) > 0 && { amount: pick(random, [...AMOUNTS, null]) }),
    ...(random(6) > 0 && { price: pick(random, [...PRICES, null]) }),
    ...(random(6) > 0 && { at: someInstant(random) }),
  }))
}

interface Column {
  readonly name: string
  readonly text: string
}
interface Group extends Column {
  readonly shownOf: (doc: Doc) => Scalar
  /** By which it is ordered; the value itself by default. */
  readonly keyOf: (doc: Doc) => Scalar
}
interface Measure extends Column {
  readonly shownOf: (docs: readonly Doc[]) => Scalar | 'unsafe'
}

export interface Case {
  readonly query: Readonly<Record<string, string>>
  readonly rows: readonly Readonly<Record<string, Scalar>>[]
  readonly grouped: boolean
  /** True if an exact sum is no JSON number. */
  readonly unsafe: boolean
}

/** A random aggregate of the documents, and what it gives. */
export function someCase(random: Random, docs: readonly Doc[]): Case {
  const groups = someGroups(random)
  const measures = Array.from({ length: 1 + random(4) }, (_, at) => someMeasure(random, `m${at}`))
  const filter = someFilter(random)
  const having = groups.length > 0 && random(3) === 0 ? pick(random, [1, 2, 4]) : 0
  const ordered = groups.length > 0 && random(2) === 0 ? pick(random, measures).name : undefined
  const descending = random(2) === 0
  const counted: Measure = { name: 'n', text: 'n:count()', shownOf: (of) => of.length }
  const all = [counted, ...measures]
  const found = docs.filter(filter.holds)
  const built = grouped(found, groups)
    .map((of) => rowOf(of, groups, all))
    .filter(({ row }) => having === 0 || Number(row['n']) > having)
  const order = (a: Built, b: Built) => compareRows(a, b, ordered, descending)
  const sorted = groups.length === 0 ? built : built.toSorted(order)
  return {
    query: {
      select: [...groups, ...all].map(({ text }) => text).join(','),
      ...filter.query,
      ...(having > 0 && { having: `n.gt.${having}` }),
      ...(ordered !== undefined && { order: `${ordered}.${descending ? 'desc' : 'asc'}` }),
    },
    rows: sorted.map(({ row }) => row as Record<string, Scalar>),
    grouped: groups.length > 0,
    unsafe: sorted.some(({ row }) => Object.values(row).includes('unsafe')),
  }
}

interface Built {
  readonly keys: readonly Scalar[]
  readonly row: Readonly<Record<string, Scalar | 'unsafe'>>
}

function someGroups(random: Random): Group[] {
  const status: Group = {
    name: 'status',
    text: 'status',
    shownOf: ({ status: value = null }) => value,
    keyOf: ({ status: value = null }) => value,
  }
  const [unit, zone] = [pick(random, UNITS), pick(random, ZONES)]
  const begin = ({ at }: Doc) =>
    at === undefined || at === null ? null : beginOf(Date.parse(at), unit, zone)
  const bucket: Group = {
    name: 'period',
    text: `period:at.bucket(${unit},${zone})`,
    shownOf: (doc) => {
      const at = begin(doc)
      return at === null ? null : textOf(at, zone)
    },
    keyOf: begin,
  }
  return pick(random, [[], [status], [bucket], [status, bucket], [bucket, status]])
}

function grouped(docs: readonly Doc[], groups: readonly Group[]): Doc[][] {
  if (groups.length === 0) return [[...docs]]
  const by = new Map<string, Doc[]>()
  for (const doc of docs) {
    const key = JSON.stringify(groups.map(({ keyOf }) => keyOf(doc)))
    by.set(key, [...(by.get(key) ?? []), doc])
  }
  return [...by.values()]
}

function rowOf(docs: readonly Doc[], groups: readonly Group[], measures: readonly Measure[]): Built {
  const [first = {}] = docs
  return {
    keys: groups.map(({ keyOf }) => keyOf(first)),
    row: Object.fromEntries([
      ...groups.map(({ name, shownOf }) => [name, shownOf(first)] as const),
      ...measures.map(({ name, shownOf }) => [name, shownOf(docs)] as const),
    ]),
  }
}

function compareRows(a: Built, b: Built, ordered: string | undefined, descending: boolean): number {
  const direction = ordered !== undefined && descending ? -1 : 1
  if (ordered !== undefined) {
    const first = compare(a.row[ordered] ?? null, b.row[ordered] ?? null)
    if (first !== 0) return first * direction
  }
  for (const [at, key] of a.keys.entries()) {
    const next = compare(key, b.keys[at] ?? null)
    if (next !== 0) return next * direction
  }
  return 0
}

/** Null counts as the largest; texts stand before numbers, and are compared by code point. */
function compare(a: Scalar, b: Scalar): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1
  if (typeof a !== typeof b) return typeof a === 'string' ? -1 : 1
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
  return Number(a) - Number(b)
}

function someMeasure(random: Random, name: string): Measure {
  const field = pick(random, ['amount', 'price'] as const)
  const fn = pick(random, ['count', 'count_distinct', 'sum', 'avg', 'min', 'max'] as const)
  const numbers = (docs: readonly Doc[]) =>
    docs.flatMap((doc) => {
      const value = doc[field]
      return value === undefined || value === null ? [] : [value]
    })
  const text = `${name}:${field}.${fn}()`
  return { name, text, shownOf: (docs) => FUNCTIONS[fn](numbers(docs)) }
}

/** A millionth is the smallest part of a price. */
const SCALE = 1_000_000n
const scaled = (value: number): bigint => {
  const [whole = '', fraction = ''] = decimal(value).split('.')
  return BigInt(`${whole}${fraction.padEnd(6, '0')}`)
}
const decimal = (value: number): string =>
  Math.abs(value) < 1e-5 && value !== 0 ? value.toFixed(6) : String(value)

function textOfScaled(value: bigint, scale = SCALE): string {
  const [sign, positive] = value < 0n ? ['-', -value] : ['', value]
  const digits = String(scale).length - 1
  return `${sign}${positive / scale}.${String(positive % scale).padStart(digits, '0')}`
}

const FUNCTIONS = {
  count: (values: readonly number[]) => values.length,
  count_distinct: (values: readonly number[]) => new Set(values).size,
  sum: (values: readonly number[]): number | null | 'unsafe' => {
    if (values.length === 0) return null
    const total = values.reduce((sum, value) => sum + scaled(value), 0n)
    if (total % SCALE !== 0n) return Number(textOfScaled(total))
    const number = Number(total / SCALE)
    return Number.isSafeInteger(number) || String(number) === String(total / SCALE) ? number : 'unsafe'
  },
  avg: (values: readonly number[]) => {
    if (values.length === 0) return null
    const more = 10n ** 30n
    const total = values.reduce((sum, value) => sum + scaled(value), 0n) * more
    return Number(textOfScaled(total / BigInt(values.length), SCALE * more))
  },
  min: (values: readonly number[]) => (values.length === 0 ? null : Math.min(...values)),
  max: (values: readonly number[]) => (values.length === 0 ? null : Math.max(...values)),
} as const

function someFilter(random: Random): { query: Record<string, string>; holds: (doc: Doc) => boolean } {
  switch (random(4)) {
    case 0:
      return {
        query: { status: 'in.(open,paid)' },
        holds: ({ status }) => status === 'open' || status === 'paid',
      }
    case 1:
      return { query: { price: 'gt.0.2' }, holds: ({ price }) => typeof price === 'number' && price > 0.2 }
    case 2:
      return { query: { amount: 'is.null' }, holds: ({ amount }) => amount === undefined || amount === null }
    default:
      return { query: {}, holds: () => true }
  }
}

// Calendars

const FORMATS = new Map<string, Intl.DateTimeFormat>()

/** The wall clock of a zone, as if it were UTC. */
function localOf(at: number, zone: string): number {
  const format =
    FORMATS.get(zone) ??
    new Intl.DateTimeFormat('en-u-hc-h23', {
      timeZone: zone,
      ...{
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      },
    })
  FORMATS.set(zone, format)
  const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]))
  const part = (name: Intl.DateTimeFormatPartTypes) => parts.get(name) ?? 0
  return Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'))
}

/** Hours and minutes begin by the clock that shows them; for longer periods, the first instant whose clock shows them. */
function beginOf(at: number, unit: string, zone: string): number {
  const local = localOf(at, zone)
  if (unit === 'minute') return at - (local % 60_000)
  if (unit === 'hour') return at - (local % HOUR)
  const day = new Date(local)
  const [year, month] = [day.getUTCFullYear(), day.getUTCMonth()]
  const begin = {
    day: Date.UTC(year, month, day.getUTCDate()),
    week: Date.UTC(year, month, day.getUTCDate() - ((day.getUTCDay() + 6) % 7)),
    month: Date.UTC(year, month),
    quarter: Date.UTC(year, month - (month % 3)),
    year: Date.UTC(year, 0),
  }[unit]
  if (begin === undefined) throw new TypeError(`${unit} is no period`)
  // Clocks differ from UTC by less than a day, and change at whole quarters of an hour.
  for (let instant = begin - 24 * HOUR; ; instant += HOUR / 4)
    if (localOf(instant, zone) >= begin) return instant
}

/** RFC 3339 in the offset of the zone. */
function textOf(at: number, zone: string): string {
  const offset = (localOf(at, zone) - at) / 60_000
  const pad = (value: number) => String(value).padStart(2, '0')
  const local = new Date(at + offset * 60_000).toISOString().replace('.000Z', '')
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60]
  return offset === 0 ? `${local}Z` : `${local}${offset < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`
}
