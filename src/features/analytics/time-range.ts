/** The range and the steps of a query of analytics: reads them from the input, chooses what is absent, refuses what cannot be. */

import Type, { type Static } from 'typebox'
import { Time } from '../../access/operation-builders.ts'
import { Problem } from '../../core/problem.ts'
import { Duration, durationMs, MINUTE_MS } from '../../core/units.ts'
import { ANALYTICS_LIMITS } from './limits.ts'
import { Window, windowMsOf } from './time-series.ts'

export const HOUR_MS = 3_600_000

export const RangeInput = {
  window: Type.Optional(Window),
  from: Type.Optional(Time),
  to: Type.Optional(Time),
  step: Type.Optional(
    Duration(
      `Length of a step in whole minutes, of which the range has at most ${ANALYTICS_LIMITS.pointsMax}. Steps begin at multiples of it since 1970, in UTC. Default: the shortest of 1m, 2m, 5m, 10m, 15m, 30m, 1h, 2h, 3h, 6h, 12h and 1d that makes no more.`,
    ),
  ),
}
const Ranged = Type.Object(RangeInput)
type RangeInput = Static<typeof Ranged>

export interface TimeRange {
  /** The length as a duration, such as `24h`. */
  readonly window: string
  readonly step: string
  readonly stepMs: number
  /** The start of the first step, and the end of the range, in ms since 1970. */
  readonly startMs: number
  readonly endMs: number
  /** The start of each step, RFC 3339. */
  readonly times: readonly string[]
}

/** The steps to choose from. */
const STEPS = ['1m', '2m', '5m', '10m', '15m', '30m', '1h', '2h', '3h', '6h', '12h', '1d']

/** @throws Problem `validation_failed` that names one field and what would be right */
export const wrong = (name: string, detail: string): Problem =>
  new Problem('validation_failed', { detail, errors: [{ in: 'query', name, pointer: `/${name}`, detail }] })

/**
 * @param finest the step by which the metric is known in a range: a function of its start. Steps are multiples of it
 * @throws Problem `validation_failed`
 */
export function rangeOf(input: RangeInput, finest: (startMs: number) => '1m' | '1h'): TimeRange {
  const nowMs = Date.now()
  const { fromMs, toMs, window } = boundsOf(input, nowMs)
  const lengthMs = toMs - fromMs
  const atLeast = finest(fromMs)
  const isKnown = (step: string) => durationMs(step) % durationMs(atLeast) === 0
  const fits = (step: string) => lengthMs / durationMs(step) <= ANALYTICS_LIMITS.pointsMax && isKnown(step)
  const step = input.step ?? STEPS.find(fits) ?? '1d'
  const stepMs = durationMs(step)
  if (stepMs < MINUTE_MS || stepMs % MINUTE_MS !== 0)
    throw wrong('step', `step is a number of whole minutes, such as \`step=${STEPS.find(fits)}\`.`)
  if (input.step !== undefined && stepMs > Math.max(lengthMs, MINUTE_MS))
    throw wrong(
      'step',
      `step=${step} is longer than the range of ${window}. Use \`step=${STEPS.find(fits)}\`.`,
    )
  if (!fits(step))
    throw wrong(
      'step',
      !isKnown(step)
        ? `The metric is known by the hour in this range. Use whole hours: ${STEPS.filter(
            (one) => fits(one) && durationMs(one) <= Math.max(lengthMs, HOUR_MS),
          )
            .map((one) => `\`step=${one}\``)
            .join(', ')}.`
        : `step=${step} makes ${Math.ceil(lengthMs / stepMs)} points, and at most ${ANALYTICS_LIMITS.pointsMax} are returned. Use \`step=${STEPS.find(fits)}\`.`,
    )
  // A window ends with the step that goes on now, and has as many steps as fit into it.
  const firstMs =
    input.window === undefined ? fromMs : toMs - Math.max(0, Math.ceil(lengthMs / stepMs) - 1) * stepMs
  const startMs = Math.floor(firstMs / stepMs) * stepMs
  // The step that begins at this moment belongs to a window, and no longer to a range.
  const lastMs = input.window === undefined ? toMs - 1 : toMs
  const times: string[] = []
  for (let ms = startMs; ms <= lastMs; ms += stepMs) times.push(new Date(ms).toISOString())
  return { window, step, stepMs, startMs, endMs: toMs, times }
}

interface Bounds {
  readonly fromMs: number
  readonly toMs: number
  readonly window: string
}

function boundsOf({ window, from, to }: RangeInput, nowMs: number): Bounds {
  if (window !== undefined) {
    if (from !== undefined || to !== undefined)
      throw wrong('window', 'Send either `window`, or `from` and `to`.')
    return { fromMs: nowMs - windowMsOf(window, 1_000), toMs: nowMs, window }
  }
  if (from === undefined) throw wrong('window', 'Send `window`, such as `window=24h`, or `from` and `to`.')
  const [fromMs, toMs] = [Date.parse(from), to === undefined ? nowMs : Math.min(Date.parse(to), nowMs)]
  if (fromMs >= toMs)
    throw wrong(
      'from',
      `from=${from} is not before ${to === undefined || Date.parse(to) > nowMs ? 'now' : `to=${to}`}.`,
    )
  const days = (toMs - fromMs) / 86_400_000
  if (days > ANALYTICS_LIMITS.windowDaysMax)
    throw wrong(
      'from',
      `The range has at most ${ANALYTICS_LIMITS.windowDaysMax} days, and this one has ${Math.ceil(days)}.`,
    )
  return { fromMs, toMs, window: `${Math.ceil((toMs - fromMs) / 1_000)}s` }
}
