/** The tree of an aggregate that both grammars are read to: groups, measures, and the conditions on both. */

import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Filter, type OrderKey, type Path, pathsOf, pathText } from '../query/filter.ts'
import { refusal, type Source } from '../query/syntax.ts'
import type { Format } from '../schemas/canonical-text.ts'

export const MEASURE_NAMES = ['count', 'count_distinct', 'sum', 'avg', 'min', 'max'] as const
export type MeasureName = (typeof MEASURE_NAMES)[number]

export const BUCKET_UNITS = ['minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'] as const
export type BucketUnit = (typeof BUCKET_UNITS)[number]

/** A period of the calendar of a time zone. */
export interface Bucket {
  readonly unit: BucketUnit
  /** An IANA name, or `UTC`. */
  readonly zone: string
}

export interface Group {
  /** The member of the answer. */
  readonly name: string
  readonly path: Path
  readonly bucket?: Bucket
  /** Values are equal if their canonical texts in this format are. */
  readonly as?: Format
}

export interface Measure {
  /** The member of the answer. */
  readonly name: string
  readonly fn: MeasureName
  /** Only `count` works without a path: then it counts documents. */
  readonly path?: Path
  readonly as?: Format
}

export interface Aggregate {
  /** Selects the documents. */
  readonly filter: Filter
  readonly groups: readonly Group[]
  readonly measures: readonly Measure[]
  /** Selects groups by their measures, each a path of one name. */
  readonly having: Filter
  /** Over names of groups and measures. */
  readonly order: readonly OrderKey[]
}

/** The places of a request that the parts of an aggregate come from. */
export interface AggregateSources {
  readonly select: Source
  readonly having: Source
  readonly order: Source
}

/** @throws Problem if the parts do not fit together, or are too many */
export function checkAggregate(aggregate: Aggregate, sources: AggregateSources): Aggregate {
  const { groups, measures, having, order } = aggregate
  const [names, { select }] = [[...groups, ...measures].map(({ name }) => name), sources]
  if (names.length === 0)
    throw refusal(select, 'An aggregate needs a group or a measure.', 'Write n:count().')
  if (groups.length > COLLECTION_LIMITS.groupFieldsMax)
    throw refusal(select, `An aggregate has at most ${COLLECTION_LIMITS.groupFieldsMax} groups.`)
  if (measures.length > COLLECTION_LIMITS.measuresMax)
    throw refusal(select, `An aggregate has at most ${COLLECTION_LIMITS.measuresMax} measures.`)
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) {
    const hint = 'Give each one its own name, such as paid:amount.sum().'
    throw refusal(select, `Two columns of the answer are called ${shown(twice)}.`, hint)
  }
  checkNames(
    order.map(({ path }) => path),
    names,
    sources.order,
  )
  checkHaving(pathsOf(having), aggregate, sources.having)
  if (groups.length === 0 && order.length > 0)
    throw refusal(sources.order, 'Without groups the answer is one object, which has no order.')
  return aggregate
}

function checkHaving(paths: readonly Path[], { groups, measures }: Aggregate, source: Source): void {
  const group = groups.find(({ name }) => paths.some((path) => isName(path, name)))
  if (group !== undefined) {
    const hint = `Filter the documents instead: ${pathText(group.path)}=eq.…`
    throw refusal(source, `${shown(group.name)} is a group, and having tests measures.`, hint)
  }
  const names = measures.map(({ name }) => name)
  checkNames(paths, names, source)
  if (groups.length === 0 && paths.length > 0)
    throw refusal(source, 'Without groups there is nothing that having could leave out.')
}

function checkNames(paths: readonly Path[], names: readonly string[], source: Source): void {
  const unknown = paths.find((path) => !names.some((name) => isName(path, name)))
  if (unknown === undefined) return
  const text = pathText(unknown)
  const near = nearest(text, names)
  const known = `There are ${names.slice(0, 20).map(shown).join(', ')}.`
  const hint = near === undefined ? known : `Did you mean ${shown(near)}?`
  throw refusal(source, `${text.slice(0, 100)} is not a column of the answer.`, hint)
}

const isName = (path: Path, name: string) => path.length === 1 && path[0] === name
const shown = (name: string) => pathText([name]).slice(0, 100)
