/** Knows what a keyword of JSON Schema is given to judge a value with. */

import type { Budget } from '../expression/budget.ts'
import type { Json, JsonObject } from '../ir.ts'
import { pointerTo } from '../json.ts'

/** A value, where it stands, and the ways to judge what stands below it. */
export interface Place {
  /** The schema as a whole; `$ref` leads there. */
  readonly root: Json
  readonly value: Json
  /** JSON pointer of the value. */
  readonly pointer: string
  readonly depth: number
  readonly budget: Budget
  report(error: { readonly pointer: string; readonly message: string }): void
  check(schema: Json, place: Place): void
  passes(schema: Json, place: Place): boolean
}

/** Judges the value of a place. `schema` is the one in which the keyword stands, for keywords beside it. */
export type Rule = (operand: Json, place: Place, schema: JsonObject) => void

/** The place of an item or a field of the value. */
export function below(place: Place, key: string | number, value: Json): Place {
  return { ...place, value, pointer: pointerTo(place.pointer, key) }
}

export function fail({ pointer, report }: Place, message: string): void {
  report({ pointer, message })
}

/** `1 item`, `2 items` */
export function counted(count: Json, noun: string, plural = `${noun}s`): string {
  return `${String(count)} ${count === 1 ? noun : plural}`
}
