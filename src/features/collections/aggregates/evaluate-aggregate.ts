/**
 * Evaluates an aggregate on documents one by one in this process, for a store that cannot do so exactly. It gives what PostgreSQL gives
 * (`postgres/aggregate.ts`); the tests in test/conformance/stores compare both with a model.
 */

import type { Json } from '../../../core/work.ts'
import { evaluate, type ValueAt } from '../query/evaluate.ts'
import { type Filter, type Literal, mismatch, type OrderKey, type Path, toType } from '../query/filter.ts'
import { compareKeys, keyOf } from '../query/sort-keys.ts'
import type { AggregateQuery, GroupRow } from '../store.ts'
import { type GroupValue, groupColumn } from './group-columns.ts'
import { type Cell, type Measurement, measurementOf } from './measurements.ts'

interface GroupState {
  readonly values: readonly GroupValue[]
  readonly measurements: readonly Measurement[]
}

/** A row before it is read: its columns by their names. */
type Row = ReadonlyMap<string, Cell>

/**
 * @example
 * const evaluation = new AggregateEvaluation(query)
 * for (const { fields } of documents) evaluation.add((path) => valueBelow(fields, path))
 * return evaluation.rows()
 */
export class AggregateEvaluation {
  readonly #query: AggregateQuery
  readonly #columns: readonly ReturnType<typeof groupColumn>[]
  readonly #groups = new Map<string, GroupState>()

  constructor(query: AggregateQuery) {
    this.#query = query
    this.#columns = query.aggregate.groups.map(groupColumn)
    // Without groups there is one row, also of no documents.
    if (this.#columns.length === 0) this.#groups.set('[]', this.#open([]))
  }

  /** Adds a document that the filter admits. */
  add(valueAt: ValueAt): void {
    const values = this.#columns.map((column) => column(valueAt))
    const name = JSON.stringify(values.map(({ key }) => (key === null ? null : keyOf(key))))
    const known = this.#groups.get(name)
    const group = known === undefined ? this.#open(values) : withShown(known, values)
    this.#groups.set(name, group)
    for (const measurement of group.measurements) measurement.add(valueAt)
  }

  #open(values: readonly GroupValue[]): GroupState {
    return { values, measurements: this.#query.aggregate.measures.map(measurementOf) }
  }

  /** The page of the groups. @throws Problem `number_unsafe`; `filter_type_mismatch` for a literal of `having` */
  rows(): GroupRow[] {
    const { aggregate, after, limit } = this.#query
    const { order, having } = aggregate
    const holds = conditionOf(having, this.#query)
    const found = [...this.#groups.values()]
      .map((group) => this.#rowOf(group))
      .filter((row) => holds(([name]) => row.get(name)?.key ?? undefined))
      .map((row) => ({ row, keys: order.map(({ path }) => cellAt(row, path).key) }))
      .filter(({ keys }) => after === undefined || comparePlaces(order, keys, after) > 0)
    return found
      .toSorted((a, b) => comparePlaces(order, a.keys, b.keys))
      .slice(0, limit)
      .map(({ row, keys }) => ({
        values: [...row].map(([name, { shown }]) => [name, shown()] as const),
        keys,
      }))
  }

  #rowOf({ values, measurements }: GroupState): Row {
    const { groups, measures } = this.#query.aggregate
    const ofGroups = groups.map(({ name }, at): [string, Cell] => {
      const { key = null, shown = null } = values[at] ?? {}
      return [name, { key, shown: () => shown }]
    })
    const ofMeasures = measures.map(({ name }, at): [string, Cell] => {
      const measurement = measurements[at]
      if (measurement === undefined) throw new TypeError('each measure has been measured')
      return [name, measurement.cell()]
    })
    return new Map([...ofGroups, ...ofMeasures])
  }
}

/** Of texts that mean the same a group shows the first by code point. */
function withShown(group: GroupState, values: readonly GroupValue[]): GroupState {
  const isSame = group.values.every(({ shown }, at) => shown === values[at]?.shown)
  if (isSame) return group
  const first = (one: GroupValue, other: GroupValue = one): GroupValue =>
    typeof one.shown === 'string' &&
    typeof other.shown === 'string' &&
    compareKeys(keyOf(other.shown), keyOf(one.shown)) < 0
      ? other
      : one
  return { ...group, values: group.values.map((one, at) => first(one, values[at])) }
}

function cellAt(row: Row, [name]: Path): Cell {
  const cell = row.get(name)
  if (cell === undefined) throw new TypeError('every name of an order is a column')
  return cell
}

/** Below zero if a row with the first values comes before one with the others. */
function comparePlaces(order: readonly OrderKey[], a: readonly Json[], b: readonly Json[]): number {
  for (const [at, { descending, nullsFirst }] of order.entries()) {
    const [one = null, other = null] = [a[at], b[at]]
    const first =
      one === null || other === null
        ? compareNulls(one, other, nullsFirst)
        : compareKeys(keyOf(one), keyOf(other)) * (descending ? -1 : 1)
    if (first !== 0) return first
  }
  return 0
}

function compareNulls(one: Json, other: Json, nullsFirst: boolean): number {
  if (one === other) return 0
  return (one === null) === nullsFirst ? -1 : 1
}

/** The condition on the values by which groups are compared: of a format, these are canonical texts, as its literals are. */
function conditionOf(having: Filter, { aggregate: { measures } }: AggregateQuery): (at: ValueAt) => boolean {
  const times = new Set(
    measures
      .filter(({ fn, path }) => (fn === 'min' || fn === 'max') && path !== undefined && isTime(path))
      .map(({ name }) => name),
  )
  const prepared = prepare(having, times)
  return (valueAt) => evaluate(prepared, valueAt)
}

const isTime = (path: Path): boolean =>
  path.length === 1 && (path[0] === '_created_at' || path[0] === '_updated_at')

/** @param times the names of measures that are times of the platform, whose literals may be shorter */
function prepare(filter: Filter, times: ReadonlySet<string>): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map((part) => prepare(part, times)) }
  if (filter.kind !== 'test') return filter
  const { as: _, test, ...rest } = filter
  const { path } = filter
  if (!times.has(path[0])) return { ...rest, test }
  const time = (literal: Literal): Literal => [
    new Date(String(toType(literal, 'timestamptz', path))).toISOString(),
  ]
  if (test.op === 'in') return { ...rest, test: { ...test, values: test.values.map(time) } }
  if (test.op === 'gt' || test.op === 'gte' || test.op === 'lt' || test.op === 'lte')
    return { ...rest, test: { ...test, value: time(test.value) } }
  throw mismatch(path, 'timestamptz', test.op)
}
