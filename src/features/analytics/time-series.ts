/** The response of operations that report a metric over a window, and the window itself. */

import Type from 'typebox'
import { Time } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_TIME } from '../../core/components/examples.ts'
import { boundedMs, Duration } from '../../core/units.ts'
import { ANALYTICS_LIMITS } from './limits.ts'

/** `[time, value]`, expressed with keywords that every dialect of JSON Schema has. */
const Point = Type.Unsafe<[string, number | null]>(
  Type.Array(Type.Union([Time, Type.Number(), Type.Null()]), { minItems: 2, maxItems: 2 }),
)

export const TimeSeries = component(
  'TimeSeries',
  Type.Object({
    metric: Type.String(),
    unit: Type.String(),
    window: Type.String(),
    step: Type.String(),
    from: Type.Optional(Time),
    to: Type.Optional(Time),
    series: Type.Array(
      Type.Object({ labels: Type.Record(Type.String(), Type.String()), points: Type.Array(Point) }),
    ),
    not_counted: Type.Optional(
      Type.String({
        description: 'Reason why values of the level are `null`: what it measures is not counted.',
      }),
    ),
  }),
  {
    metric: 'requests',
    unit: 'requests',
    window: '1h',
    step: '30m',
    series: [
      {
        labels: {},
        points: [
          [EXAMPLE_TIME.created, 12],
          [EXAMPLE_TIME.updated, 7],
        ],
      },
    ],
  },
)

export const Window = Duration(
  `Length of the window up to now, at most ${ANALYTICS_LIMITS.windowDaysMax} days.`,
)

const FIELD = { in: 'query', name: 'window', pointer: '/window' } as const

/** @returns the length of a {@link Window} @throws Problem `validation_failed` if it is too short or too long */
export function windowMsOf(window: string, minMs: number): number {
  return boundedMs(FIELD, window, { minMs, maxMs: ANALYTICS_LIMITS.windowDaysMax * 86_400_000 })
}

/** One line of a series: the value of each row. */
export function seriesOf<Row extends { readonly time: string }>(
  rows: readonly Row[],
  labels: Readonly<Record<string, string>>,
  value: (row: Row) => number | null,
) {
  return { labels, points: rows.map((row): [string, number | null] => [row.time, value(row)]) }
}
