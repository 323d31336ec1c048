/** Knows `..`: a value and all that is below it. */

import type { Json } from '../../json.ts'
import {
  ascend,
  descend,
  type Emit,
  type EmitAt,
  type Filter,
  ON,
  type Run,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { type Place, stepInto } from '../place.ts'
import { keysIn } from '../values.ts'

export function recurse(): Filter {
  return {
    one: undefined,
    each: (run, _env, input, emit) => below(run, input, emit),
    at: (run, _env, place, input, emit) => belowAt(run, place, input, emit),
  }
}

function below(run: Run, value: Json, emit: Emit): Signal {
  tick(run)
  if (emit(value) === STOP) return STOP
  if (typeof value !== 'object' || value === null) return ON
  let signal: Signal = ON
  descend(run, 0)
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && signal !== STOP; i++) signal = below(run, value[i] ?? null, emit)
  } else {
    for (const key of keysIn(value, run.budget)) {
      signal = below(run, value[key] ?? null, emit)
      if (signal === STOP) break
    }
  }
  ascend(run, 0)
  return signal
}

function belowAt(run: Run, place: Place, value: Json, emit: EmitAt): Signal {
  tick(run)
  if (emit(place, value) === STOP) return STOP
  if (typeof value !== 'object' || value === null) return ON
  let signal: Signal = ON
  descend(run, 0)
  for (const key of Object.keys(value)) {
    const [step, part] = Array.isArray(value) ? [Number(key), value[Number(key)]] : [key, value[key]]
    signal = belowAt(run, stepInto(place, step, value), part ?? null, emit)
    if (signal === STOP) break
  }
  ascend(run, 0)
  return signal
}
