/**
 * Cost of expressions: work on large values is charged, so that an expression ends soon with a catchable
 * error.
 */

import { describe, expect, it } from 'vitest'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import { evaluate } from '../../../flows-dsl/jq/evaluate.ts'
import type { Expression } from '../../../flows-dsl/jq/expression.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import { threadMs } from '../../support/thread-time.ts'

/** Each took minutes or hours before it was charged; a slow machine takes a fraction of this. */
const SOON_MS = 5_000

/** The value, or the text of the error that faults the flow. */
function outcomeOf(text: string): unknown {
  const expression = parseExpression(text) as Expression
  expect(expression).not.toHaveProperty('message')
  try {
    return evaluate(expression, null, { variables: {}, nowMs: 0 }, newBudget())
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    return error.message
  }
}

const again = (value: string, step: string) =>
  `${value} as $v | reduce range(1e9) as $i (0; $v | ${step} | 0)`
const OBJECT = '([range(20000)] | INDEX(.))'

describe('cost of an expression', () => {
  it.each([
    ['a number that is none', '"1" * 400000 + "x" | try tonumber catch 0'],
    ['signs that fill up base64', '"=" * 400000 + "x" | try @base64d catch 0'],
    ['a group in a loop', '"a" * 150000 | test("(a)*")'],
    ['a loop in a loop', '"a" * 150000 | test("(?:(a)*x?)*")'],
    ['a name of a number', '"nan" + "-" * 400000 | try fromjson catch 0'],
  ])('%s: ends soon', (_what, text) => {
    const began = threadMs()
    outcomeOf(text)
    expect(threadMs() - began).toBeLessThan(SOON_MS)
  })

  it.each([
    ['items of another kind', again('[range(100000)]', 'contains(["x"])')],
    ['the length of a text', again('("a" * 300000 + "😀")', 'length')],
    ['the bytes of a text', again('("a" * 300000)', 'utf8bytelength')],
    ['a part of a text', again('("a" * 300000 + "😀")', '.[0:1]')],
    ['the start of a text', again('["a" * 500000, "a" * 500000]', '. as [$a, $b] | $a | startswith($b)')],
    ['a text that is no number', again('("1" * 300000 + "x")', 'try tonumber catch 0')],
    ['signs of a URI', again('("%41" * 60000)', 'try @urid catch 0')],
    ['the first of a large object', again(OBJECT, 'first(.[])')],
    ['the first path of a large object', again(OBJECT, 'first(path(.[]))')],
    ['the length of a large object', again(OBJECT, 'length')],
    ['a large object that cannot be joined', again(`(${OBJECT} | .["0"] = [])`, 'try join(",") catch 0')],
    ['a large object that cannot be added', again(`(${OBJECT} | .["1"] = "x")`, 'try add catch 0')],
    ['what cannot be transposed', again('([range(30000) | []] + [1])', 'try transpose catch 0')],
    [
      'what cannot be deleted',
      again('([range(30000) | []] + [1])', '. as $p | try (1 | delpaths($p)) catch 0'),
    ],
    ['what is no time', again('([range(30000)] + ["x"])', 'try mktime catch 0')],
    ['groups that take nothing', '"x" * 5000 | [match("()" * 900; "g")] | length'],
  ])('%s: is charged', (_what, text) => {
    const began = threadMs()
    expect(outcomeOf(text)).toMatch(/too many steps/)
    expect(threadMs() - began).toBeLessThan(SOON_MS)
  })

  it('nested repeats in a regular expression: too deep: are rejected', () => {
    expect(outcomeOf('"a" | test("a" + "{1}" * 20000)')).toMatch(/too deep nest level/)
    expect(outcomeOf('"a" | test("a" + "*" * 60000)')).toMatch(/too deep nest level/)
  })

  it('charges: do not change the results', () => {
    expect(outcomeOf('["1.", ".5", "1.5e3", "-2"] | map(tonumber)')).toEqual([1, 0.5, 1500, -2])
    expect(outcomeOf('["YQ==", "YQ", "===="] | map(@base64d)')).toEqual(['a', 'a', ''])
    expect(outcomeOf('"a😀b😀c" | [.[1:2], .[2:], .[-2:], length]')).toEqual(['😀', 'b😀c', '😀c', 5])
    expect(outcomeOf('"aab" | [match("(?:(a)*b?)*").string]')).toEqual(['aab'])
    expect(outcomeOf('"xaab" | [match("(a)+"; "gl") | .offset, .length]')).toEqual([1, 2])
    expect(outcomeOf('"[nan, \\"nan-\\"]" | fromjson | .[1]')).toBe('nan-')
  })
})
