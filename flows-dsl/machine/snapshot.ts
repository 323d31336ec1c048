/** Serialises the state of an execution as rows that refer to each other, so that shared values stay shared. */

import { isObject, type Json, type JsonObject, objectOf } from '../json.ts'
import type { RunState } from './state.ts'

/** The first is the state. Within a row, `[n]` is the row with that number. */
export type Snapshot = readonly Json[]

/** Of this moment: what becomes of the state afterwards does not change it. */
export function pack(state: RunState): Snapshot {
  const rows: Json[] = []
  const places = new Map<object, number>()
  const put = (value: Json): Json => {
    if (typeof value !== 'object' || value === null) return value
    const known = places.get(value)
    if (known !== undefined) return [known]
    const place = rows.push(null) - 1
    places.set(value, place)
    rows[place] = within(value, put)
    return [place]
  }
  put(state as unknown as Json)
  return rows
}

/** A state of its own: as it was packed, but for nothing that anybody else holds. */
export function unpack(rows: Snapshot): RunState {
  const values: Json[] = []
  // Rows name later ones, or those they stand in: the last is whole first.
  const get = (value: Json): Json => (Array.isArray(value) ? made(Number(value[0])) : value)
  const made = (place: number): Json => {
    const known = values[place]
    if (known !== undefined) return known
    const value = within(rows[place] ?? null, get)
    values[place] = value
    return value
  }
  return made(0) as unknown as RunState
}

/** The same container with each value put through `change`. */
function within(value: Json, change: (value: Json) => Json): Json {
  if (Array.isArray(value)) return value.map(change)
  if (!isObject(value)) return value
  const entries = Object.entries(value as JsonObject).filter(([, field]) => field !== undefined)
  // Not assigned: `__proto__` is a name like any other.
  return objectOf(entries.map(([key, field]) => [key, change(field)]))
}
