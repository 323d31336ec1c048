/** Compiles the concurrency limit of a flow (an extension of ours) and computes the key of an execution. */

import { newBudget } from '../budget.ts'
import { ERRORS, FlowError } from '../errors.ts'
import { type Concurrency, fill, type Json, type Template } from '../ir.ts'
import { evaluate } from '../jq/evaluate.ts'
import type { CompileContext } from './compile-context.ts'
import { type MapNode, type SourceNode, valueAt } from './source-nodes.ts'

const KEYS = ['limit', 'key', 'onLimit', 'holdWhileWaiting']
export const CONCURRENCY_MAX = 10_000
/** The first is the default. */
export const ON_LIMIT = ['queue', 'refuse', 'cancel_running'] as const
const KEY_CHARS_MAX = 200

export function compileConcurrency(flow: MapNode, context: CompileContext): Concurrency | undefined {
  const map = context.optionalMap(flow, 'concurrency', KEYS)
  if (map === undefined) return undefined
  const at = context.required(map, '`concurrency`', 'limit')
  const limit = at && context.integer(at, '`limit`', 1, CONCURRENCY_MAX)
  const node = valueAt(map, 'key')
  // The key is computed before the execution exists, from the input alone.
  const key = node && context.onlyVariables(['input'], () => compileKey(node, context))
  const onLimit = context.choice(map, 'onLimit', ON_LIMIT)
  const holds = context.boolean(map, 'holdWhileWaiting', true)
  if (limit === undefined || onLimit === undefined || holds === undefined) return undefined
  return { limit, onLimit, ...(key !== undefined && { key }), ...(!holds && { holdWhileWaiting: false }) }
}

/** A key without an expression would be the same for all executions, as if there were none. */
function compileKey(node: SourceNode, context: CompileContext): Template | undefined {
  const key = context.template(node, ['input'])
  if (key === undefined || 'expression' in key) {
    context.withInput(context.flowInput, () =>
      context.yields(node, '`key`', key, ['string', 'number', 'boolean']),
    )
    return key
  }
  const text = node.kind === 'scalar' && typeof node.value === 'string' ? node.value : '.customer'
  const message = 'The `key` of `concurrency` must be an expression; a literal is the same in all executions.'
  return context.report('value_invalid', node, message, `Write '\${ ${text} }', or remove the key.`)
}

/**
 * The concurrency key of an execution with this input; empty if the flow has no key.
 * @throws FlowError (expression) if the key fails, is no text, number or boolean, or is too long
 */
export function concurrencyKey({ key }: Concurrency, input: Json, nowMs: number): string {
  if (key === undefined) return ''
  const environment = { variables: { input }, nowMs }
  const budget = newBudget()
  const value = fill(key, (expression) => evaluate(expression, input, environment, budget))
  if (value === null || typeof value === 'object') throw invalidKey('yields no text, number or boolean')
  const text = String(value)
  // PostgreSQL text cannot contain NUL.
  if (text.length > KEY_CHARS_MAX || text.includes('\u0000'))
    throw invalidKey(`has more than ${KEY_CHARS_MAX} characters, or NUL`)
  return text
}

const invalidKey = (why: string) =>
  new FlowError(ERRORS.expression, `The key of \`concurrency\` ${why}.`, '/concurrency/key')
