/** Knows how many executions of a flow may run at the same time (ours), and by what they are counted apart. */

import { booleanBelow, type Checker, choiceBelow, integerUpTo } from './checker.ts'
import { ERRORS, FlowError } from './errors.ts'
import { newBudget } from './expression/budget.ts'
import { evaluate } from './expression/evaluate.ts'
import { type Concurrency, fill, type Json } from './ir.ts'
import { entryOf, type LocatedMap } from './located.ts'

const KEYS = ['limit', 'key', 'onLimit', 'holdWhileWaiting']
export const CONCURRENCY_MAX = 10_000
export const ON_LIMIT = ['queue', 'refuse', 'cancel_running'] as const
const KEY_CHARS_MAX = 200

export function compileConcurrency(flow: LocatedMap, checker: Checker): Concurrency | undefined {
  const given = entryOf(flow, 'concurrency')?.value
  const map = given && checker.map(given, '`concurrency`')
  if (map === undefined) return undefined
  checker.keys(map, '`concurrency`', KEYS)
  const at = checker.required(map, '`concurrency`', 'limit')
  const limit = at && integerUpTo(at, '`limit`', CONCURRENCY_MAX, checker)
  const keyed = entryOf(map, 'key')?.value
  // There is no run yet: nothing but the input is known.
  const key = keyed && checker.only(['input'], () => checker.template(keyed, ['input']))
  const onLimit = choiceBelow(map, 'onLimit', ON_LIMIT, checker)
  const holds = booleanBelow(map, 'holdWhileWaiting', true, checker)
  if (limit === undefined || onLimit === undefined || holds === undefined) return undefined
  return { limit, onLimit, ...(key !== undefined && { key }), ...(!holds && { holdWhileWaiting: false }) }
}

/**
 * What an execution with this input is counted by; empty where the flow has no key.
 * @throws FlowError (expression) where the key fails, is no text, number or boolean, or is too long
 */
export function concurrencyKey({ key }: Concurrency, input: Json, nowMs: number): string {
  if (key === undefined) return ''
  const around = { variables: { input }, nowMs }
  const budget = newBudget()
  const value = fill(key, (expression) => evaluate(expression, input, around, budget))
  if (value === null || typeof value === 'object') throw refused('yields no text, number or boolean')
  const text = String(value)
  // A NUL stands in no column of the database.
  if (text.length > KEY_CHARS_MAX || text.includes('\u0000'))
    throw refused(`has more than ${KEY_CHARS_MAX} characters, or NUL`)
  return text
}

const refused = (why: string) =>
  new FlowError(ERRORS.expression, `The key of \`concurrency\` ${why}.`, '/concurrency/key')
