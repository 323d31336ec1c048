/** Expressions: a table, answers recorded from jq 1.6, and seeded properties. */

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { evaluate } from '../../../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import { compareText } from '../../../flows-dsl/json.ts'
import { repeated } from '../../support/stack/soak.ts'
import { threadMs } from '../../support/thread-time.ts'

const AROUND = { variables: { input: { a: 1 }, context: null }, nowMs: 1_700_000_000_123 }

function run(text: string, input: Json = null, budget = newBudget()): Json {
  const parsed = parseExpression(text)
  if (!('op' in parsed)) throw new Error(`${parsed.message} at ${parsed.offset}`)
  // A compiled flow goes through JSON before it runs.
  return evaluate(JSON.parse(JSON.stringify(parsed)), input, AROUND, budget)
}

const ADA = { name: 'Ada', a: { b: [1, 2, { c: 'x' }] }, 'odd key': 3, no: false, nil: null }

const TABLE: readonly (readonly [text: string, output: Json])[] = [
  ['.', ADA],
  [' .name ', 'Ada'],
  ['.a.b[2].c', 'x'],
  ['.a.b[-1].c', 'x'],
  ['.a.b.[0]', 1],
  ['.["odd key"]', 3],
  ['."odd key"', 3],
  ['.a["b"][.a.b[0]]', 2],
  ['.a .b [0]', 1],
  ['.missing.deeper[3]', null],
  ['.constructor', null],
  ['.__proto__', null],
  ['$input.a', 1],
  ['$context.x', null],
  ['"\\u0041\\n\\"\\/\\ud83d\\ude00"', 'A\n"/😀'],
  ['"Hello, \\(.name)! \\(1 + 1) \\({a: [1, "x"]})"', 'Hello, Ada! 2 {"a":[1,"x"]}'],
  ['-1.5e1', -15],
  ['1 -1', 0],
  ['.a.b[0]-1', 0],
  ['- .a.b[1]', -2],
  ['1 - 2 - 3', -4],
  [
    '{name, "odd key", $input, x: 1 + 1, ("k" + "1"): .a.b[0], and: true}',
    {
      name: 'Ada',
      'odd key': 3,
      input: { a: 1 },
      x: 2,
      k1: 1,
      and: true,
    },
  ],
  ['{a: .a | .b[0]}', { a: 1 }],
  ['{a: 1,}', { a: 1 }],
  ['[] + [1] + null', [1]],
  ['{a: 1, b: 2} + {b: 3}', { a: 1, b: 3 }],
  ['.nil // .no // "w"', 'w'],
  ['.no // false', false],
  ['.name // "w" | . + "!"', 'Ada!'],
  ['1 // 2 | . + 10', 11],
  ['false or true and false', false],
  ['true or false and false', true],
  ['false and .name.x', false],
  ['.name | not', false],
  ['null < false and false < true and true < 0 and 0 < "" and "" < [] and [] < {}', true],
  ['{a: 2} < {b: 1}', true],
  ['{a: 2, b: 0} > {a: 1, b: 9}', true],
  ['{a: 1, b: 2} == {b: 2, a: 1}', true],
  ['"😀" > "ｚ"', true],
  ['1 # a comment\n + 1', 2],
  ['(1 | . + 1) + 1', 3],
  ['1e308 + 1e308', Number.MAX_VALUE],
]

test.each(TABLE)('expression %s: yields the recorded value', (text, output) => {
  expect(run(text, ADA)).toEqual(output)
})

const FAULTS: readonly (readonly [text: string, offset: number, message: RegExp])[] = [
  ['', 0, /Did not expect the end/],
  ['.a +', 4, /the end/],
  ['.a b', 3, /Did not expect `b`/],
  ['.a ** 2', 4, /Did not expect `\*`/],
  ['.a[1:2:3]', 6, /Expected `\]`/],
  ['.a |= 1 |= 2', 10, /do not chain/],
  ['if . then 1', 11, /Expected `end`/],
  ['try', 3, /the end/],
  ['reduce .[] as x (0; 1)', 14, /A pattern is/],
  ['. as [] | 1', 6, /A pattern is/],
  ['break $out', 10, /no label \$out/],
  ['. as $x | 1 | $y', 14, /no variable \$y/],
  ['def f: 1', 8, /Expected `;`/],
  ['maps(.a)', 0, /no function `maps`/],
  ['.a | length(1)', 5, /`length` takes 0 arguments, not 1/],
  ['test("a(")', 0, /no regular expression: end pattern with unmatched/],
  ['test("(a)\\\\1")', 0, /references back/],
  ['{(1): 2}', 2, /key must be a text/],
  ['@base65', 0, /no format @base65/],
  ['import "a" as a; 1', 0, /Modules are not a part/],
  ['a::b', 0, /Modules are not a part/],
  ['1 < 2 < 3', 7, /do not chain/],
  ['(.a', 3, /Expected `\)`/],
  ['[1, ]', 4, /Did not expect `\]`/],
  ['{1: 2}', 1, /A key is a name/],
  ['"abc', 4, /not closed/],
  ['"a\\qb"', 2, /no escape/],
  ['"\\ud83d"', 1, /surrogate/],
  ['$inptu', 0, /no variable \$inptu/],
  ['.a + $secrets', 5, /no variable/],
  ['(.)a', 3, /Did not expect `a`/],
  ['.a ; .b', 3, /Did not expect `;`/],
]

test.each(FAULTS)('malformed expression %s: is reported at its offset', (text, offset, message) => {
  expect(parseExpression(text)).toMatchObject({ offset, message: expect.stringMatching(message) })
})

test('unknown name: the nearest one is suggested', () => {
  expect(parseExpression('$inptu')).toMatchObject({ hint: 'Did you mean $input?' })
  expect(parseExpression('map(.a) | lenght')).toMatchObject({ hint: 'Did you mean length?' })
  expect(parseExpression('@base65')).toMatchObject({ hint: 'Did you mean @base64?' })
})

const ERRORS = ['1 + "a"', '"a" - 1', '.name.x', '.a[0]', '{} - {}', '- "a"', '[1] | .a', '.[{}]']

test.each(ERRORS)('%s: is an expression error', (text) => {
  expect(() => run(text, ADA)).toThrow(FlowError)
})

interface Recorded {
  readonly expression: string
  readonly input: Json
  readonly output?: Json
  readonly fails?: true
}

test('recorded expressions: answer as jq 1.6 does', () => {
  const file = new URL('jq-recorded.json', import.meta.url)
  const recorded: readonly Recorded[] = JSON.parse(readFileSync(file, 'utf8'))
  const answers = recorded.map(({ expression, input }) => ({
    expression,
    input,
    ...answerTo(expression, input),
  }))
  expect(recorded.length).toBeGreaterThan(400)
  expect(answers).toEqual(recorded)
})

function answerTo(expression: string, input: Json): { output: Json } | { fails: true } {
  try {
    return { output: run(expression, input) }
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    return { fails: true }
  }
}

describe('properties', () => {
  const SEED = { seed: 20_260_102, numRuns: 500 }
  const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>
  const name = fc.stringMatching(/^[a-z_][a-z0-9_]{0,5}$/)

  test('JSON literal: evaluates to itself', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(run(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
      SEED,
    )
  })

  test('data: is passed through unchanged, whatever text it contains', () => {
    const hostile = fc.constantFrom('${ .a }', '\\(.a)', '__proto__', 'constructor', '.a | not')
    const data = fc.oneof(json, fc.dictionary(hostile, fc.oneof(json, hostile) as fc.Arbitrary<Json>))
    fc.assert(
      fc.property(data, name, (value, key) => {
        expect(run('.', value)).toBe(value)
        expect(run(`{${key}: .} | .${key}`, value)).toBe(value)
        expect(run('[., .] | .[1]', value)).toBe(value)
      }),
      SEED,
    )
  })

  test('order: is total and transitive: exactly one of <, ==, > holds', () => {
    fc.assert(
      fc.property(json, json, json, (a, b, c) => {
        const order = run('[.[0] < .[1], .[0] == .[1], .[0] > .[1]]', [a, b])
        expect((order as Json[]).filter(Boolean)).toHaveLength(1)
        expect(run('((.[0] <= .[1]) and (.[1] <= .[2]) | not) or .[0] <= .[2]', [a, b, c])).toBe(true)
      }),
      SEED,
    )
  })

  test('strings: sort by code point, as their UTF-8 bytes do', () => {
    const text = fc.string({ unit: 'binary' })
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(Math.sign(compareText(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)))
      }),
      SEED,
    )
  })

  test('parser: any text: does not throw, and faults lie within the text', () => {
    const piece = fc.constantFrom(
      '.',
      '.a',
      '[',
      ']',
      '{',
      '}',
      '(',
      ')',
      '|',
      '//',
      '+',
      '-',
      '==',
      '"',
      '\\',
      '\\(',
      '$input',
      '1',
      'and',
      'not',
      ' ',
      ':',
      ',',
      '#',
      '?',
      '😀',
      '\ud800',
      'if',
      '=',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(piece).map((pieces) => pieces.join('')),
        ),
        (text) => {
          const parsed = parseExpression(text)
          if ('op' in parsed) return
          expect(parsed.offset).toBeGreaterThanOrEqual(0)
          expect(parsed.offset).toBeLessThanOrEqual(text.length)
        },
      ),
      { ...SEED, numRuns: repeated(1_500, 5_000) },
    )
  })

  test('`__proto__`: is a key like any other', () => {
    const value = run('{"__proto__": {polluted: 1}} + {a: 2}') as Record<string, unknown>
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":1},"a":2}')
    expect(run('{"__proto__": 5} | .__proto__')).toBe(5)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

test('results: none is null, several are an error', () => {
  expect(run('empty')).toBe(null)
  expect(run('.[] | select(. > 1)', [1, 2])).toBe(2)
  expect(() => run('1, 2')).toThrow('collect them with [ … ]')
  expect(() => run('repeat(1)')).toThrow('collect them with [ … ]')
})

test('now: is the time of the execution', () => {
  expect(run('[now, (now | todate)]')).toEqual([1_700_000_000.123, '2023-11-14T22:13:20Z'])
})

test('fields: keep their order with integers first; keys are sorted by code point', () => {
  const value = JSON.parse('{"b": 1, "10": 2, "ｚ": 3, "😀": 4, "a": 5}')
  expect(run('[keys_unsorted, keys, [.[]], tojson]', value)).toEqual([
    ['10', 'b', 'ｚ', '😀', 'a'],
    ['10', 'a', 'b', 'ｚ', '😀'],
    [2, 1, 3, 4, 5],
    '{"10":2,"b":1,"ｚ":3,"😀":4,"a":5}',
  ])
})

const PROTO = '{"__proto__":{"polluted":1}}'

test.each([
  '{"__proto__": {polluted: 1}}',
  '. as {a: $x} | {($x): {polluted: 1}}',
  '.a as $k | null | .[$k].polluted = 1',
  'setpath(["__proto__", "polluted"]; 1) | del(.a)',
  '[{key: "__proto__", value: {polluted: 1}}] | from_entries',
  '{("__proto__"): {}} * {"__proto__": {polluted: 1}}',
  '{"__proto__": {polluted: 0}} | map_values(.polluted += 1)',
  '{"__proto__": {polluted: 0}} | walk(if . == 0 then 1 else . end)',
  '{"__proto__": {polluted: 0}} | with_entries(.value.polluted = 1)',
  'INDEX({polluted: 1}; "__proto__")',
  '{x: {polluted: 1}, b: 2} | {"__proto__": .x}',
])('%s: creates a field, not a prototype', (text) => {
  const made = run(`${text} | tojson`, { a: '__proto__' })
  expect(made).toBe(PROTO)
  expect(run(`${text} | [has("__proto__"), .__proto__.polluted]`, { a: '__proto__' })).toEqual([true, 1])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

test('error messages: contain types instead of data, but `catch` gets all of it', () => {
  const secret = { card: '4111 1111' }
  expect(() => run('.card + 1', secret)).toThrow('string and number cannot be added')
  expect(() => run('.card + 1', secret)).not.toThrow(/4111/)
  expect(() => run('.card | fromjson | error', secret)).not.toThrow(/4111/)
  expect(run('try (.card + 1) catch .', secret)).toBe('string ("4111 1111") and number (1) cannot be added')
  expect(() => run('error("no card")')).toThrow('no card')
})

test('assignment: does not change values that are shared', () => {
  const input = { a: [{ b: 1 }], c: 2 }
  const before = JSON.stringify(input)
  run('.a[0].b = 9 | del(.c) | .a[] += {x: 1} | (.. | numbers) |= . + 1', input)
  expect(JSON.stringify(input)).toBe(before)
  const shared =
    '{a: [[[1]]]} | (.a[0][0][0], .a[0], .a[0][0][0]) |= if type == "array" then [., .] else . + 1 end'
  expect(run(shared)).toEqual({ a: [[[[[2], [2]]], [[2]]]] })
})

describe('costly expressions: end with a fault or an error', () => {
  const texts = {
    brackets: '['.repeat(100_000),
    parentheses: '('.repeat(100_000),
    braces: '{a:'.repeat(50_000),
    minuses: `${'-'.repeat(100_000)}1`,
    interpolations: '"\\('.repeat(50_000),
    alternatives: `1${'//1'.repeat(50_000)}`,
    pipes: `1${'|.'.repeat(50_000)}`,
    sums: `1${'+1'.repeat(50_000)}`,
    path: '.a'.repeat(50_000),
  }

  test.each(Object.entries(texts))('%s: ends', (_name, text) => {
    const start = threadMs()
    expect(parseExpression(text)).toHaveProperty('message')
    expect(threadMs() - start).toBeLessThan(1_000)
  })

  const doubled = (step: string): string => `. | ${Array.from({ length: 50 }, () => step).join(' | ')}`
  const growing = [doubled('. + .'), doubled('[., .]'), doubled('{a: ., b: .}'), doubled('"\\(.)\\(.)"')]

  test.each(growing)('growth by %s: ends', (text) => {
    const start = threadMs()
    expect(() => run(text, 'xxxxxxxx')).toThrow(FlowError)
    expect(threadMs() - start).toBeLessThan(1_000)
  })

  test('comparison: of a value that is shared a million times: ends', () => {
    const shared = Array.from({ length: 40 }).reduce<Json>((value) => [value, value], 'x')
    const start = threadMs()
    expect(() => run('. == $input', shared, newBudget())).not.toThrow()
    expect(() => run('.[0] == .[1]', [shared, [...(shared as Json[])]])).toThrow(/steps|larger/)
    expect(threadMs() - start).toBeLessThan(2_000)
  })

  test('steps, depth and size: each is bounded', () => {
    expect(() => run('1 + 1', null, { ...newBudget(), steps: 2 })).toThrow(/too many steps/)
    expect(() => run('[[[1]]]', null, { ...newBudget(), depthMax: 3 })).toThrow(/deeper than 3/)
    expect(() => run('. + .', 'abcdef', { ...newBudget(), sizeMax: 11 })).toThrow(/larger than 11/)
  })

  test('budget: is shared by all evaluations that get it', () => {
    const budget = newBudget()
    const before = budget.steps
    run('. + 1', 1, budget)
    expect(budget.steps).toBeLessThan(before)
  })
})
