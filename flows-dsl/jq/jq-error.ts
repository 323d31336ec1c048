/** Defines the errors that `error` raises and `try` catches. An exhausted budget is none of them: nothing catches it. */

import type { Budget } from '../budget.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json } from '../json.ts'
import { typeOf, writeShort } from './write-json.ts'

/** The most characters of an error's own text that leave the expression. */
const DETAIL_MAX = 400

/** The most characters of a text that leaves the expression in a message of jq. */
const PRINTED_MAX = 64

/** An error within an expression. Not an `Error`: capturing a stack trace for each caught error is expensive. */
export class JqError {
  readonly #template: string | undefined
  readonly #values: readonly Json[]

  /** @param template jq's message, in which `%v` is a value with its type, `%k` a key, `%j` a value, `%s` a text, `%p` a text that is printed outside, too, `%t` a type; undefined for the value of `error` */
  constructor(template: string | undefined, values: readonly Json[]) {
    this.#template = template
    this.#values = values
  }

  /** The input of `catch`. Writing a message is charged. @throws FlowError (expression) */
  caught(budget: Budget): Json {
    return this.#template === undefined ? (this.#values[0] ?? null) : this.#message(budget)
  }

  /** The error that leaves the expression. It names types instead of data, because errors are logged and stored. */
  toFlowError(): FlowError {
    return new FlowError(
      ERRORS.expression,
      this.#template === undefined ? this.#ownText() : `${this.#message()}.`,
    )
  }

  /** @param budget charged for the data in the message; without it, the message has no data but keys */
  #message(budget?: Budget): string {
    let next = 0
    return (this.#template ?? '').replace(/%([vkjspt])/g, (_, kind: string) => {
      const value = this.#values[next++] ?? null
      if (kind === 'p') return String(value).slice(0, budget === undefined ? PRINTED_MAX : undefined)
      if (kind === 't' || (kind !== 'k' && budget === undefined)) return typeOf(value)
      if (kind === 's') return String(value)
      return kind === 'j' ? writeShort(value, budget) : describe(value, budget)
    })
  }

  #ownText(): string {
    const [value = null] = this.#values
    if (typeof value === 'string') return value.slice(0, DETAIL_MAX)
    return `The expression ended with an error that is no text but ${typeOf(value)}.`
  }
}

/** An error of a builtin or operator, with jq's message. */
export function jqError(template: string, ...values: readonly Json[]): JqError {
  return new JqError(template, values)
}

function describe(value: Json, budget: Budget | undefined): string {
  return `${typeOf(value)} (${writeShort(value, budget)})`
}
