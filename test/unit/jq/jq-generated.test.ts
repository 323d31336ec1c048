/**
 * Generated programs yield the same answers here as in jq, which gets them in batches because it starts
 * slowly.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/json.ts'
import { type Answer, answerHere, openOracle } from './jq-oracle.ts'

const SEED = 20_261_121
const PROGRAMS = 1_600
const TOGETHER = 40

const INPUTS: readonly Json[] = [
  null,
  { a: 1, b: [1, 2, 3], c: { d: 'x', e: null } },
  [3, 1, 2],
  [{ a: 1 }, { a: 2, b: 'y' }, { a: 1, b: 'x' }],
  'añ😀b',
  { b: [[1, 2], [3]], a: 'hello world', c: true },
]

const LITERALS = [
  '0',
  '1',
  '2',
  '-1',
  '2.5',
  '"a"',
  '"b"',
  '"añ😀"',
  'null',
  'true',
  'false',
  '[]',
  '{}',
  '[1, 2]',
  '{"a": 3}',
]
const PATHS = [
  '.',
  '.a',
  '.b',
  '.c.d',
  '.[0]',
  '.[-1]',
  '.[1:]',
  '.[:2]',
  '.[]',
  '.a?',
  '.[]?',
  '..',
  '.b[1:]',
  '.["a"]',
  '.b[]?',
  '.c?',
]
const UNARY = [
  'length',
  'keys',
  'type',
  'tostring',
  'tojson',
  'add',
  'any',
  'all',
  'sort',
  'unique',
  'reverse',
  'first',
  'last',
  'flatten',
  'min',
  'max',
  'to_entries',
  'explode',
  'ascii_upcase',
  'floor',
  'not',
  'paths',
  'tostream',
  'transpose',
  'values',
  'numbers',
  'strings',
  'arrays',
  'objects',
  'scalars',
  'iterables',
  '@json',
  '@text',
  '@csv',
  '@html',
  '@uri',
  '@sh',
  '@base64',
  'isempty(.[]?)',
  'utf8bytelength',
  'abs',
  'trim',
  'tonumber',
  'fromjson',
  'implode',
  'from_entries',
  'empty',
  'error',
  'recurse',
  'keys_unsorted',
  'map_values(.)',
  'leaf',
].filter((name) => name !== 'leaf')
const OPERATORS = ['+', '-', '*', '/', '%', '==', '!=', '<', '<=', '>', '>=', 'and', 'or', '//', ',', '|']
const WITH_FILTER = [
  'map',
  'select',
  'sort_by',
  'group_by',
  'unique_by',
  'min_by',
  'max_by',
  'with_entries',
  'map_values',
  'any',
  'all',
  'path',
  'del',
  'paths',
  'first',
  'last',
  'add',
  'isempty',
  'walk',
  'to_entries | map',
  'has',
  'contains',
  'inside',
  'startswith',
  'ltrimstr',
  'split',
  'join',
  'index',
  'indices',
  'range',
  'flatten',
  'IN',
  'INDEX',
  'pick',
  'getpath',
  'error',
  'test',
  'splits',
  'in',
  'nth',
  'limit(2; .[]?), first',
  'combinations',
]

const expression = fc.letrec<{ any: string; small: string }>((tie) => ({
  small: fc.oneof(fc.constantFrom(...LITERALS), fc.constantFrom(...PATHS), fc.constantFrom(...UNARY)),
  any: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    tie('small'),
    fc
      .tuple(tie('any'), fc.constantFrom(...OPERATORS), tie('any'))
      .map(([a, op, b]) => `(${a}) ${op} (${b})`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `${a} | ${b}`),
    fc.tuple(fc.constantFrom(...WITH_FILTER), tie('any')).map(([name, a]) => `${name}(${a})`),
    tie('any').map((a) => `[${a}]`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `{a: (${a}), "b": (${b})}`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `{(${a} | tostring): (${b})}`),
    fc.tuple(tie('any'), tie('any'), tie('any')).map(([a, b, c]) => `if ${a} then ${b} else ${c} end`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `try (${a}) catch (${b})`),
    tie('any').map((a) => `(${a})?`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `(${a}) as $x | ${b}, $x`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `(${a}) as [$x, {a: $y}] | [$x, $y, (${b})]`),
    fc.tuple(tie('any'), tie('any'), tie('any')).map(([a, b, c]) => `reduce (${a}) as $x (${b}; ${c})`),
    fc
      .tuple(tie('any'), tie('any'), tie('any'))
      .map(([a, b, c]) => `foreach (${a}) as $x (${b}; ${c}; [., $x])`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `def f(g): ${a} | g; f(${b})`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `def f($x): [$x, (${a})]; f(${b})`),
    fc
      .tuple(tie('any'), tie('any'))
      .map(([a, b]) => `label $out | (${a}) | if (${b}) then ., break $out else . end`),
    fc
      .tuple(
        fc.constantFrom(
          '.a',
          '.b',
          '.[]?',
          '.[0]',
          '.c.d',
          '..',
          '.[1:]',
          '(.a, .b)',
          'first(.[]?)',
          '.b[]?',
        ),
        fc.constantFrom('=', '|=', '+=', '-=', '*=', '//='),
        tie('any'),
      )
      .map(([path, op, a]) => `${path} ${op} (${a})`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `"<\\(${a})-\\(${b})>"`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `limit(2; ${a}), first(${b})`),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `(${a})[${b}]`),
    fc.tuple(tie('any')).map(([a]) => `(${a})[1:2]`),
  ),
}))

/** Replaces answers and error messages that are known to differ. */
const UNLIKE = /\$__loc__|tojson.*e[+-]|1\.797/

/** One program of many: each yields its outputs, or that it failed. */
function wrapped(program: string, input: Json): string {
  return `(${JSON.stringify(input)} | try [limit(50; ${program})] catch "fails")`
}

/** The answer of each program; if the batch fails, each is evaluated alone. */
function answersTo(
  programs: readonly (readonly [string, Json])[],
  ask: (program: string, input: Json) => Answer,
): Json[] {
  const together = ask(programs.map(([program, input]) => wrapped(program, input)).join(', '), null)
  if (together !== 'fails' && together.length === programs.length) return together
  return programs.map(([program, input]) => {
    const alone = ask(wrapped(program, input), null)
    return alone === 'fails' ? 'fails' : (alone[0] ?? null)
  })
}

function sortedFields(_key: string, value: unknown): unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort())
    : value
}

test('generated programs: yield the answers of jq', async () => {
  const ask = await openOracle()
  const programs = fc
    .sample(expression.any, { seed: SEED, numRuns: PROGRAMS })
    .map((program, i) => [program, INPUTS[i % INPUTS.length] ?? null] as const)
    .filter(([program]) => program.length < 300 && !UNLIKE.test(program))
  const wrong: string[] = []
  for (let i = 0; i < programs.length; i += TOGETHER) {
    const some = programs.slice(i, i + TOGETHER)
    const theirs = answersTo(some, ask)
    some.forEach(([program, input], at) => {
      const [mine] = answersTo([[program, input]], answerHere)
      const [here, there] = [mine, theirs[at]].map((answer) => JSON.stringify(answer, sortedFields))
      if (here !== there) wrong.push(`${program} ⇐ ${JSON.stringify(input)}\n  here ${here}\n  jq   ${there}`)
    })
  }
  expect(programs.length).toBeGreaterThan(1_500)
  expect(wrong).toEqual([])
}, 120_000)
