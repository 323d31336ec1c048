/** The place of a value in an evaluation, as a keyword of JSON Schema is given it to judge the value. */

import type { Budget } from '../expression/budget.ts'
import type { Json, JsonObject } from '../ir.ts'
import { pointerTo } from '../json.ts'

/** Tests a text against a `format` of JSON Schema. */
export type FormatTest = (format: string, text: string) => boolean

/** The parts that all places of one evaluation share. */
export interface Evaluation {
  /** The schema as a whole; `$ref` leads there. */
  readonly root: Json
  readonly budget: Budget
  /** Without it, `format` is an annotation. */
  readonly hasFormat: FormatTest | undefined
  check(schema: Json, place: Place): void
  passes(schema: Json, place: Place): boolean
}

/** Takes what is wrong. `missing` is the name of a required property. */
export type Report = (place: Place, message: string, missing?: string) => void

/** The steps from the whole value to a part of it, the last one first; undefined for the whole. */
type Path = { readonly key: string | number; readonly above: Path } | undefined

/** A value, where it stands, and the ways to judge what stands below it. */
export class Place {
  readonly evaluation: Evaluation
  readonly value: Json
  readonly depth: number
  /** The keyword that is being evaluated. */
  readonly keyword: string
  readonly report: Report
  readonly #path: Path

  constructor(
    { evaluation, report }: Pick<Place, 'evaluation' | 'report'>,
    value: Json,
    { depth, keyword }: Pick<Place, 'depth' | 'keyword'>,
    path: Path = undefined,
  ) {
    this.evaluation = evaluation
    this.report = report
    this.value = value
    this.depth = depth
    this.keyword = keyword
    this.#path = path
  }

  get budget(): Budget {
    return this.evaluation.budget
  }

  check(schema: Json, place: Place): void {
    this.evaluation.check(schema, place)
  }

  passes(schema: Json, place: Place): boolean {
    return this.evaluation.passes(schema, place)
  }

  /** The place of an item or a field of the value. */
  below(key: string | number, value: Json): Place {
    return new Place(this, value, this, { key, above: this.#path })
  }

  /** The same place with another value: a name instead of the object that has it. */
  holding(value: Json): Place {
    return new Place(this, value, this, this.#path)
  }

  /** The same place for a keyword of a schema, one schema deeper. */
  under(keyword: string): Place {
    return new Place(this, this.value, { depth: this.depth + 1, keyword }, this.#path)
  }

  /** The same place, whose faults go elsewhere. */
  reporting(report: Report): Place {
    return new Place({ evaluation: this.evaluation, report }, this.value, this, this.#path)
  }

  /** JSON pointer of the value. Made when it is asked for: most values have no fault. */
  get pointer(): string {
    const keys: (string | number)[] = []
    for (let step = this.#path; step !== undefined; step = step.above) keys.push(step.key)
    return keys.reduceRight<string>(pointerTo, '')
  }
}

/** Judges the value of a place. `schema` is the one in which the keyword stands, for keywords beside it. */
export type Rule = (operand: Json, place: Place, schema: JsonObject) => void

export function fail(place: Place, message: string): void {
  place.report(place, message)
}

/** `1 item`, `2 items` */
export function counted(count: Json, noun: string, plural = `${noun}s`): string {
  return `${String(count)} ${count === 1 ? noun : plural}`
}
