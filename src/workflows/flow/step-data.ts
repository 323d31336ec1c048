/** Bounds the values that are recorded with a step, and records a value that several steps share only once. */

import type { Json } from '../../../flows-dsl/ir.ts'
import { isObject, objectOf } from '../../../flows-dsl/json.ts'
import type { StepData, StepUpdate, ValueLocation } from '../../core/execution.ts'
import { HANDLE_CHARS_MAX, MASK, replaceHandles } from '../../core/secret-handle.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'

interface StepValues {
  readonly input?: Json | undefined
  readonly arguments?: Json | undefined
  readonly output?: Json | undefined
}

/** Tasks pass values on by reference: the output of one is the input of the next, and of all iterations of a loop. */
export class StepValueRecorder {
  readonly #locations = new WeakMap<object, ValueLocation>()

  /** Remembers that a value is recorded as the result of a step. */
  addResult(value: Json | undefined, seq: number): void {
    if (typeof value === 'object' && value !== null) this.#locations.set(value, [seq, 'result'])
  }

  /** @returns the data of the step with these values added; existing ones are replaced */
  add({ seq, data }: Pick<StepUpdate, 'seq' | 'data'>, values: StepValues): StepData {
    let added: StepData = data ?? {}
    for (const name of ['input', 'arguments', 'output'] as const) {
      const value = values[name]
      if (value !== undefined) added = this.#addValue(added, seq, name, value)
    }
    return added
  }

  #addValue(data: StepData, seq: number, name: keyof StepValues, value: Json): StepData {
    const { truncated = [], ...rest } = without(data, name)
    const others = truncated.filter((one) => one !== name)
    const known = typeof value === 'object' && value !== null ? this.#locations.get(value) : undefined
    const isOwn = known?.[0] === seq && known[1] === name
    if (isOwn && data[name] !== undefined) return data
    if (known !== undefined && !isOwn)
      return { ...rest, ...(others.length > 0 && { truncated: others }), [`${name}_at`]: known }
    const { value: recorded, isCut } = clipValue(value, FLOW_LIMITS.stepDataCharsMax)
    if (typeof value === 'object' && value !== null && name !== 'arguments')
      this.#locations.set(value, [seq, name])
    const shortened = isCut ? [...others, name] : others
    return { ...rest, ...(shortened.length > 0 && { truncated: shortened }), [name]: recorded }
  }
}

function without(data: StepData, name: keyof StepValues): StepData {
  const kept = Object.entries(data).filter(([key]) => key !== name && key !== `${name}_at`)
  return Object.fromEntries(kept)
}

/**
 * Shortens a value to about `charsMax` characters of JSON: drops the last members of lists and objects, and cuts texts. Takes
 * time in proportion to `charsMax`, however large the value is.
 */
function clipValue(value: Json, charsMax: number): { readonly value: Json; readonly isCut: boolean } {
  const clipper = new Clipper(charsMax)
  if (clipper.fits(value)) return { value, isCut: false }
  return { value: new Clipper(charsMax).clip(value), isCut: true }
}

class Clipper {
  #charsLeft: number

  constructor(charsMax: number) {
    this.#charsLeft = charsMax
  }

  fits(value: Json): boolean {
    this.#charsLeft -= ownChars(value)
    if (this.#charsLeft < 0) return false
    if (Array.isArray(value)) return value.every((item) => this.fits(item))
    if (!isObject(value)) return true
    for (const key in value) {
      this.#charsLeft -= key.length + 4
      if (!this.fits(value[key] ?? null)) return false
    }
    return true
  }

  clip(value: Json): Json {
    if (typeof value === 'string') return this.#clipText(value)
    this.#charsLeft -= ownChars(value)
    if (Array.isArray(value)) return this.#clipList(value)
    return isObject(value) ? this.#clipObject(value) : value
  }

  /** A handle that the cut would split is masked, since the record masks only whole ones. */
  #clipText(text: string): string {
    const kept = Math.max(0, this.#charsLeft)
    this.#charsLeft -= text.length + 2
    if (text.length <= kept) return text
    const masked = replaceHandles(text.slice(0, kept + HANDLE_CHARS_MAX), () => MASK)
    return `${withoutHalfPair(masked.slice(0, kept))}…`
  }

  #clipList(list: readonly Json[]): Json[] {
    const kept: Json[] = []
    for (const item of list) {
      if (this.#charsLeft <= 0) break
      kept.push(this.clip(item))
    }
    return kept
  }

  #clipObject(value: { readonly [key: string]: Json }): Json {
    const kept: [string, Json][] = []
    for (const key in value) {
      this.#charsLeft -= key.length + 4
      if (this.#charsLeft <= 0) break
      kept.push([key, this.clip(value[key] ?? null)])
    }
    return objectOf(kept)
  }
}

/** Approximate characters of a value without its members. */
function ownChars(value: Json): number {
  if (typeof value === 'string') return value.length + 2
  return typeof value === 'number' ? 8 : 4
}

/** PostgreSQL rejects half of a surrogate pair. */
const withoutHalfPair = (text: string) => text.replace(/[\ud800-\udbff]$/, '')
