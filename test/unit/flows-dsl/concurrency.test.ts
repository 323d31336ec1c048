// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Compilation of `concurrency`, and the key by which executions are counted. */

import { describe, expect, test } from 'vitest'
import { concurrencyKey } from '../../../flows-dsl/compile/concurrency.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { faultsOf } from '../../conformance/flows/diagnostic-table.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const flow = (concurrency: string, more = '') =>
  compiled(`${HEAD}${more}concurrency: ${concurrency}\ndo:\n  - a: { set: { b: 1 } }`)
const key = (expression: string, input: Json) =>
  concurrencyKey(
    flow(`{ limit: 1, key: ${expression} }`).concurrency ?? { limit: 1, onLimit: 'queue' },
    input,
    0,
  )

describe('compilation', () => {
  test('limit: compiles with the action for further executions', () => {
    expect(flow('{ limit: 5 }').concurrency).toEqual({ limit: 5, onLimit: 'queue' })
    expect(flow('{ limit: 1, onLimit: refuse, holdWhileWaiting: true }').concurrency).toEqual({
      limit: 1,
      onLimit: 'refuse',
    })
    expect(flow('{ limit: 1, holdWhileWaiting: false }').concurrency?.holdWhileWaiting).toBe(false)
    expect(flow('{ limit: 1, onLimit: cancel_running }').concurrency?.onLimit).toBe('cancel_running')
  })

  test.each([
    ['[]', 'wrong_type 4:14 /concurrency'],
    ["{ key: '${ .x }' }", 'missing_key 4:14 /concurrency'],
    ['{ limit: 0 }', 'value_invalid 4:23 /concurrency/limit'],
    ['{ limit: 10001 }', 'value_invalid 4:23 /concurrency/limit'],
    ["{ limit: '5' }", 'wrong_type 4:23 /concurrency/limit'],
    ['{ limit: 1, limt: 2 }', 'unknown_key 4:26 /concurrency/limt'],
    ['{ limit: 1, onLimit: wait }', 'value_invalid 4:35 /concurrency/onLimit'],
    ['{ limit: 1, holdWhileWaiting: 1 }', 'wrong_type 4:44 /concurrency/holdWhileWaiting'],
    ["{ limit: 1, key: '${ $context.x }' }", 'expression_invalid 4:35 /concurrency/key'],
    ["{ limit: 1, key: '${ $secrets.x }' }", 'expression_invalid 4:35 /concurrency/key'],
    ["{ limit: 1, key: '${ .x + }' }", 'expression_invalid 4:40 /concurrency/key'],
  ])('%s: yields the expected diagnostic', (concurrency, fault) => {
    expect(faultsOf(`  - a: { set: {} }\nconcurrency: ${concurrency}`)).toEqual([fault])
  })
})

describe('concurrency key', () => {
  test.each<[string, Json, string]>([
    ["'${ .customer }'", { customer: 'c1' }, 'c1'],
    ["'${ $input.n }'", { n: 7 }, '7'],
    ["'${ .a and .b }'", { a: true, b: false }, 'false'],
    ['\'${ "\\(.a)/\\(.b)" }\'', { a: 1, b: 2 }, '1/2'],
    [`'\${ "always" }'`, {}, 'always'],
  ])('%s of %j: is computed', (expression, input, expected) => {
    expect(key(expression, input)).toBe(expected)
  })

  test.each<[string, Json]>([
    ["'${ .customer }'", {}],
    ["'${ . }'", {}],
    ["'${ .x[] }'", { x: [1, 2] }],
    ["'${ .x }'", { x: 'x'.repeat(201) }],
    ["'${ .x }'", { x: '\u0000' }],
    ["'${ [range(1e12)] | length }'", {}],
    ['{ a: 1 }', {}],
  ])('%s: is rejected', (expression, input) => {
    expect(() => key(expression, input)).toThrow(/concurrency|expression|value/i)
  })

  test('no key: all executions are counted together', () => {
    expect(concurrencyKey({ limit: 1, onLimit: 'queue' }, { any: 1 }, 0)).toBe('')
  })
})
