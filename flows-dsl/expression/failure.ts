/** Knows what jq's `error` raises and `try` catches. What a budget refuses is none of these: nothing catches it. */

import { ERRORS, FlowError } from '../errors.ts'
import type { Json } from '../json.ts'
import type { Budget } from './budget.ts'
import { typeOf, writeShort } from './write.ts'

/** Characters of an error's own text that leave the expression. */
const DETAIL_MAX = 400

/** An error within an expression. No `Error` of JavaScript: one that is caught would have paid for its stack. */
export class Failure {
  readonly #template: string | undefined
  readonly #values: readonly Json[]

  /** @param template text of jq in which `%v` is a value with its type, `%k` a key, `%j` a value, `%s` a text, `%t` a type */
  constructor(template: string | undefined, values: readonly Json[]) {
    this.#template = template
    this.#values = values
  }

  /** What `catch` gets as its input; to write a message is paid for. @throws FlowError (expression) */
  caught(budget: Budget): Json {
    return this.#template === undefined ? (this.#values[0] ?? null) : this.#filled(budget)
  }

  /** The error that leaves the expression. It tells of data by its type alone: errors travel further. */
  toFlowError(): FlowError {
    return new FlowError(
      ERRORS.expression,
      this.#template === undefined ? this.#told() : `${this.#filled()}.`,
    )
  }

  /** @param budget pays for the data in the message; without it, there is none but keys */
  #filled(budget?: Budget): string {
    let next = 0
    return (this.#template ?? '').replace(/%([vkjst])/g, (_, kind: string) => {
      const value = this.#values[next++] ?? null
      if (kind === 't' || (kind !== 'k' && budget === undefined)) return typeOf(value)
      if (kind === 's') return String(value)
      return kind === 'j' ? writeShort(value, budget) : describe(value, budget)
    })
  }

  #told(): string {
    const [value = null] = this.#values
    if (typeof value === 'string') return value.slice(0, DETAIL_MAX)
    return `The expression ended with an error that is no text but ${typeOf(value)}.`
  }
}

/** An error of a builtin or operator, in jq's words. */
export function failure(template: string, ...values: readonly Json[]): Failure {
  return new Failure(template, values)
}

/** A value in a message: its type, and the beginning of its JSON. */
function describe(value: Json, budget: Budget | undefined): string {
  return `${typeOf(value)} (${writeShort(value, budget)})`
}
