/** Expressions that would never end or would fill the memory: each ends soon with an expression error. */

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import { evaluateAll } from '../../../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import type { Json } from '../../../flows-dsl/json.ts'
import { threadMs } from '../../support/thread-time.ts'

const AROUND = { variables: {}, nowMs: 0 }
/** The requirement is 100 ms. This is CPU time, of code that runs for the first time; beside a busy process it has been nine times as much. */
const MS_MAX = 1_500

function run(text: string, input: Json = null): Json[] {
  const parsed = parseExpression(text, [])
  if (!('op' in parsed)) throw new Error(`${text}: ${parsed.message}`)
  return evaluateAll(parsed, input, AROUND, newBudget())
}

const BOMBS: readonly (readonly [program: string, message: RegExp])[] = [
  ['[range(1e12)]', /too many steps/],
  ['range(1e12)|select(false)', /too many steps/],
  ['[range(0;1;1e-300)]', /too many steps|never ends/],
  ['[range(1e300;infinite)]', /never ends/],
  ['"x" * 1e9', /larger than/],
  ['"x" * 1e15', /too long/],
  ['[limit(1e9; repeat(1))]', /too many steps/],
  ['reduce range(1e9) as $i (0; . + $i)', /too many steps/],
  ['[foreach range(1e9) as $i (0; . + $i)]', /too many steps/],
  ['reduce range(1e6) as $i ([]; . + [$i])', /too many steps/],
  ['reduce range(1e6) as $i ({}; .["\\($i)"] = 1)', /too many steps/],
  ['reduce range(100) as $i ("x"; . + .)', /larger than/],
  ['reduce range(100) as $i ([1]; . + .)', /larger than|too many/],
  ['reduce range(100) as $i (1; [., .])', /larger than|too many/],
  ['reduce range(100) as $i (1; [., .]) | tojson', /larger than|too many/],
  ['reduce range(1000) as $i (1; [.])', /nested deeper/],
  ['reduce range(1000) as $i (1; {a: .}) | tojson', /nested deeper/],
  ['reduce range(1000) as $i ({}; {a: .}) | . * .', /nested deeper/],
  ['reduce range(1000) as $i (1; [.]) | flatten', /nested deeper/],
  ['reduce range(1000) as $i (1; [.]) | ..', /deeper/],
  ['reduce range(1000) as $i (1; [.]) | walk(.)', /nested deeper/],
  ['[1000 | . as $n | [range($n)] | combinations(3)]', /too many steps/],
  ['setpath([1e9]; 1)', /too large|larger/],
  ['.[1e8] = 1', /larger than/],
  ['.[1e6] = 1 | tojson', /larger than|too many/],
  ['def f: f; f', /too many steps/],
  ['def f: def g: f; g; f', /too many steps/],
  ['def f: 1 + f; f', /deeper than/],
  ['def f: [f]; f', /deeper than/],
  ['def f: f | 1; f', /deeper than/],
  ['def f: f, f; f', /deeper than|too many/],
  ['def f: (., .) | f; f', /deeper than|too many/],
  ['def f(g): f(1 + g); f(1)', /too many steps/],
  ['def f(a; b; c): f(a + b; b + c; c + a); f(1; 2; 3)', /too many steps/],
  ['def f(g): g | f(g, g) | .; f(.)', /deeper than|too many/],
  ['[recurse(.)]', /too many steps/],
  ['[recurse(., .)]', /too many|deeper/],
  ['until(false; .)', /too many steps/],
  ['[while(true; .)]', /too many steps/],
  ['first(repeat(empty))', /too many steps/],
  ['try repeat(1) catch .', /too many steps/],
  ['[.[]?, range(1e9)] | length', /too many steps/],
  ['label $out | repeat(1) | if false then break $out else empty end', /too many steps/],
  ['"x" * 1000000 | [., ., .] | join("")', /larger than/],
  ['"x" * 1000000 | @base64', /larger than/],
  ['"x" * 1000000 | @uri, @uri, @json', /larger|too many/],
  ['"\\u0000" * 1000000 | tojson', /larger than/],
  ['"x" * 1000000 | [match(""; "g")]', /too many steps/],
  ['"x" * 1000000 | explode | implode | explode | tojson', /larger|too many/],
  ['"x" * 1000000 | gsub("x"; "xxxxxxxxxx")', /too many|larger/],
  ['"x" * 1000000 | split("")', /too many|larger/],
  ['"[" * 100000 | fromjson', /numeric literal/],
  ['"[" * 100000 + "]" * 100000 | fromjson', /nested deeper/],
  ['"[" * 100000 + "nan" | fromjson', /numeric literal/],
  ['[range(100000)] | [.[] as $x | .[] as $y | 1]', /too many steps/],
  ['[range(100000)] | . - .', /too many steps/],
  ['[range(300000)] | sort_by(-.) | sort', /too many steps/],
  ['[range(1000)] | [combinations(5)]', /too many steps/],
  ['[[range(3000)] | .[] as $i | [range(3000)]] | transpose', /too many|larger/],
  ['[limit(100000; repeat("x"))] | join(", " * 1000)', /larger|too many/],
  ['[limit(100; repeat("x" * 100000))] | add', /larger than/],
  ['[range(1000)] | map([range(1000)]) | add', /too many|larger/],
  ['[range(100000)] | [paths] | tojson', /larger|too many/],
  ['[range(300000)] | tojson', /larger|too many/],
  ['[range(200000)] | @csv', /larger|too many/],
  ['[range(100000)] | del(.[])  | [range(1e9)]', /too many steps/],
  ['now | strftime("%c" * 100000)', /larger|too many/],
  ['[range(1e9)] | map(strptime("%Y"))', /too many steps/],
  ['last(range(1e9))', /too many steps/],
  ['[limit(1e9; range(1e9))]', /too many steps/],
  ['isempty(range(1e9) | select(. < 0))', /too many steps/],
  ['any(range(1e9); . < 0)', /too many steps/],
  ['INDEX(range(1e9); .)', /too many steps/],
  ['[splits("a"; "g")]', /./],
  ['ltrimstr("x" * 1e9)', /larger than/],
]

function failureOf(text: string): string {
  try {
    run(text)
    return 'none'
  } catch (error) {
    if (error instanceof FlowError) return error.message
    throw error
  }
}

test.each(BOMBS)('%s: ends soon with an error', (text, message) => {
  const times: number[] = []
  for (let attempt = 0; attempt < 3 && Math.min(...times, Number.POSITIVE_INFINITY) > MS_MAX; attempt++) {
    const beforeMs = threadMs()
    expect(failureOf(text)).toMatch(message)
    times.push(threadMs() - beforeMs)
  }
  expect(Math.min(...times)).toBeLessThan(MS_MAX)
})

describe('regular expressions', () => {
  const text = 'a'.repeat(5_000)

  test.each([
    '(a+)+$',
    '(a|aa)+$',
    '(a|a?)+b',
    '(.*)*x',
    '(a*)*b',
    '([a-zA-Z]+)*c',
    '(x+x+)+y',
    'a?'.repeat(30) + 'a'.repeat(30),
  ])('%s: takes time proportional to the text', (regex) => {
    const budget = newBudget()
    const parsed = parseExpression(`test(${JSON.stringify(`^${regex}!`)})`, [])
    if (!('op' in parsed)) throw new Error(parsed.message)
    expect(evaluateAll(parsed, text, AROUND, budget)).toEqual([false])
    expect(1_000_000 - budget.steps).toBeLessThan(text.length * (regex.length + 10) * 3)
  })

  test.each(['(a{100}){100}', '((a{50}){50}){50}', 'a{1,1000000}', '((((a*)*)*)*)*{1000}{1000}'])(
    '%s: is rejected',
    (regex) => {
      expect(parseExpression(`test(${JSON.stringify(regex)})`, [])).toMatchObject({
        message: expect.stringMatching(/no regular/),
      })
    },
  )

  test('lookaround: is charged', () => {
    expect(() => run('test("(?:(?<=(a*)*b)|a)*c")', 'a'.repeat(5_000))).toThrow(/too many steps/)
  })
})

test("recursion of every kind: ends before the stack overflows, with two thirds of a main thread's stack", () => {
  const file = fileURLToPath(new URL('jq-recursion.ts', import.meta.url))
  const { stdout, stderr } = spawnSync(process.execPath, ['--stack-size=650', file])
  expect(`${stdout}${stderr}`).toBe('[]')
})
