/** Reads the JSON form of an aggregate, which is the same tree as that of a URL. */

import Type, { type Static } from 'typebox'
import { AnyName } from '../../../access/operation-builders.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readBodyFilter } from '../query/body.ts'
import { readSort, SORT_FORMS } from '../query/order-and-selection.ts'
import { readPath, refusal, type Source } from '../query/syntax.ts'
import { type Aggregate, checkAggregate, type Group, MEASURE_NAMES, type Measure } from './aggregate.ts'
import { isMeasure, meantFunction, readBucket } from './words.ts'

const Field = Type.String({ description: 'Path of a field, such as `status` or `address.city`.' })

/** The members of the JSON form. */
export const AggregateBody = {
  group: Type.Optional(
    Type.Union(
      [
        Type.Array(Field, { maxItems: COLLECTION_LIMITS.groupFieldsMax }),
        Type.Record(
          AnyName,
          Type.Union([
            Field,
            Type.Object(
              { bucket: Field, by: Type.String(), tz: Type.Optional(Type.String()) },
              { additionalProperties: false },
            ),
          ]),
          { maxProperties: COLLECTION_LIMITS.groupFieldsMax },
        ),
      ],
      {
        description:
          'Groups by their names in the answer: `{"city": "address.city", "day": {"bucket": "_created_at", "by": "day", "tz": "Europe/Berlin"}}`, or a list of fields.',
      },
    ),
  ),
  measures: Type.Optional(
    Type.Record(AnyName, Type.Record(AnyName, Type.Union([Field, Type.Literal(true)])), {
      maxProperties: COLLECTION_LIMITS.measuresMax,
      description: `Measures by their names in the answer: \`{"n": {"count": true}, "total": {"sum": "amount"}}\`. There are ${MEASURE_NAMES.join(', ')}.`,
    }),
  ),
  filter: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Filter of the documents, as in a query: `{"status": "paid"}`.',
    }),
  ),
  having: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Filter of the groups by their measures: `{"total": {"gt": 100}}`.',
    }),
  ),
  sort: Type.Optional(
    Type.Union([...SORT_FORMS], {
      description:
        'Sort keys over names of the answer: `{"total": -1}`, or `["total.desc.nullslast", "day"]`.',
    }),
  ),
}

const sourceOf = (code: Source['code'], name: string): Source => ({ code, in: 'body', name })
const GROUP = sourceOf('select_invalid', 'group')
const MEASURES = sourceOf('select_invalid', 'measures')
const SOURCES = {
  select: MEASURES,
  having: sourceOf('filter_invalid', 'having'),
  order: sourceOf('order_invalid', 'sort'),
}

type GroupBody = Static<(typeof AggregateBody)['group']>
type MeasureBody = Readonly<Record<string, string | true>>

interface Body {
  readonly group?: GroupBody | undefined
  readonly measures?: Readonly<Record<string, MeasureBody>> | undefined
  readonly filter?: Readonly<Record<string, unknown>> | undefined
  readonly having?: Readonly<Record<string, unknown>> | undefined
  readonly sort?: Readonly<Record<string, 1 | -1>> | readonly string[] | undefined
}

/** @throws Problem with the spelling that there is, if a part has another one */
export function readBodyAggregate({
  group = {},
  measures = {},
  filter = {},
  having = {},
  sort = {},
}: Body): Aggregate {
  const aggregate: Aggregate = {
    filter: readBodyFilter(filter, { joins: true }),
    groups: Array.isArray(group) ? group.map(listed) : Object.entries(group).map(readGroup),
    measures: Object.entries(measures).map(readMeasure),
    having: readBodyFilter(having),
    order: readSort(sort),
  }
  return checkAggregate(aggregate, SOURCES)
}

/** The name of a column, which is one name of a path. */
function nameOf(text: string, source: Source): string {
  const [name, ...below] = readPath(text, source)
  if (below.length === 0) return name
  throw refusal(source, `${text.slice(0, 100)} is not a name of a column.`, 'Write {"city": "address.city"}.')
}

function listed(text: string): Group {
  const path = readPath(text, GROUP)
  if (path.length === 1) return { name: path[0], path }
  const hint = `Write {"${String(path.at(-1)).slice(0, 50)}": "${text.slice(0, 100)}"}.`
  throw refusal(GROUP, `${text.slice(0, 100)} needs a name in the answer.`, hint)
}

function readGroup([key, value]: readonly [
  string,
  string | { bucket: string; by: string; tz?: string },
]): Group {
  const name = nameOf(key, GROUP)
  if (typeof value === 'string') return { name, path: readPath(value, GROUP) }
  return { name, path: readPath(value.bucket, GROUP), bucket: readBucket(value.by, value.tz, GROUP) }
}

function readMeasure([key, value]: readonly [string, MeasureBody]): Measure {
  const name = nameOf(key, MEASURES)
  const [only, ...more] = Object.entries(value)
  if (only === undefined || more.length > 0)
    throw refusal(MEASURES, `${key.slice(0, 100)} needs one function.`, 'Write {"total": {"sum": "amount"}}.')
  const [word, field] = only
  const fn = word.replace(/^\$/, '')
  if (!isMeasure(fn)) throw unknownMeasure(word, field)
  if (field !== true) return { name, fn, path: readPath(field, MEASURES) }
  if (fn === 'count') return { name, fn }
  throw refusal(MEASURES, `${fn} needs a field.`, `Write {"${fn}": "amount"}.`)
}

function unknownMeasure(word: string, field: string | true): Error {
  const meant = meantFunction(word)
  const detail = `There is no measure ${word.slice(0, 50)}.`
  if (meant === undefined) return refusal(MEASURES, detail, `There are ${MEASURE_NAMES.join(', ')}.`)
  const hint =
    meant === 'bucket'
      ? 'A bucket is a group: {"group": {"day": {"bucket": "_created_at", "by": "day", "tz": "Europe/Berlin"}}}.'
      : `Write {"${meant}": ${JSON.stringify(field).slice(0, 100)}}.`
  return refusal(MEASURES, detail, hint)
}
