/** Steps that an expression is charged are proportional to its CPU time, whatever it spends them on. */

import { describe, expect, test } from 'vitest'
import { newBudget, STEPS_MAX } from '../../../flows-dsl/budget.ts'
import { evaluate } from '../../../flows-dsl/jq/evaluate.ts'
import type { Expression } from '../../../flows-dsl/jq/expression.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import { repeated } from '../../support/stack/soak.ts'
import { threadMs } from '../../support/thread-time.ts'

/** How many steps of the million of an execution are measured; the time is scaled. */
const STEPS = STEPS_MAX / repeated(4, 1)
/** Spends all steps on additions alone. */
const PLAIN = 'reduce range(1e9) as $i (0; . + $i)'
/** At most this multiple of the time that additions take for the same steps (measured: up to 5). */
const FACTOR = 12
const ATTEMPTS = 4

const OBJECT = '(reduce range(8000) as $i ({}; .["k\\($i)"] = $i))'
const ITEMS = '[range(8000) | {a: .}]'
const again = (value: string, step: string) =>
  `${value} as $v | reduce range(1e9) as $i (0; $v | ${step} | 0)`

const ALL = [
  'reduce range(100000) as $i ({}; .["k\\($i)"] = 1)',
  'reduce range(100000) as $i ({}; . + {"k\\($i)": 1})',
  'reduce range(100000) as $i ({}; . * {"k\\($i)": {a: 1}})',
  'reduce range(100000) as $i ({}; setpath(["k\\($i)"]; 1))',
  'reduce range(100000) as $i ({}; .a["k\\($i)"] |= 1)',
  'reduce range(100000) as $i ([range(3000)]; .[1:2] = [1])',
  'reduce range(100000) as $i ([range(3000)]; del(.[0]) + [1])',
  ...[
    'to_entries',
    'keys',
    'keys_unsorted',
    'has("k7")',
    'walk(.)',
    '[tostream]',
    'with_entries(.)',
    'map_values(. + 1)',
    'del(.k5)',
    '.a = 1',
    '. + {a: 1}',
    'add',
    'length',
    '[paths]',
    'tojson',
    'tojson | fromjson',
    'flatten',
    '. == $v',
    'first(.[])',
    'unique_by(.)?',
    'min_by(.)?',
    'try ltrimstr(1) catch .',
    'try splits("a") catch .',
    '[splits("a")]?',
  ].map((step) => again(OBJECT, step)),
  ...[
    'map(. + {b: 1})',
    'map(del(.a))',
    'map(try error catch .)',
    'map(with_entries(.))',
    'group_by(.a)',
  ].map((step) => again(ITEMS, step)),
  again('("a" * 200000)', '. < $v'),
  again('("\\u0001" * 100000)', 'tojson'),
  again('("<" * 100000)', '@html'),
  again('1425599621', 'strftime("%c" * 1000)'),
  again('1425599621', 'todate'),
  again('5', 'label $out | 1, break $out'),
  again('5', 'error?'),
  again('5', 'path(.a)?'),
  again('5', 'builtins | length'),
]
const BOMBS = ALL.filter((_, n) => n % repeated(3, 1) === 0)

/** The least CPU time of several evaluations for all the steps of an execution, in ms. */
function msOfSteps(text: string, isEnough: (ms: number) => boolean): number {
  const expression = parseExpression(text) as Expression
  expect(expression).not.toHaveProperty('message')
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && !isEnough(least); attempt++) {
    const budget = { ...newBudget(), steps: STEPS }
    const since = threadMs()
    try {
      evaluate(expression, null, { variables: {}, nowMs: 0 }, budget)
    } catch {
      // The steps are used up.
    }
    least = Math.min(least, ((threadMs() - since) * STEPS_MAX) / (STEPS - budget.steps))
  }
  return least
}

describe('a million steps', () => {
  test.each(BOMBS)('%s: takes at most a small multiple of the time of a million additions', (text) => {
    // Measured beside each, so that both run on the same machine load.
    const plainMs = msOfSteps(PLAIN, () => false)
    const ms = msOfSteps(text, (least) => least < FACTOR * plainMs)
    expect(ms, `additions: ${plainMs} ms`).toBeLessThan(FACTOR * plainMs)
  })
})

test.each([
  ['a field set by an update', 'reduce range(30000) as $i ({}; .["k\\($i)"] = $i) | length', 30_000],
  ['a field added to the state', 'reduce range(30000) as $i ({}; . + {"k\\($i)": $i}) | length', 30_000],
  ['a counter', 'reduce range(30000) as $i ({}; .["k\\($i % 7)"] += 1) | .k0', 4_286],
  ['an item added to the state', 'reduce range(30000) as $i ([]; . + [$i]) | length', 30_000],
  ['the sum of objects', '[range(20000) | {"k\\(.)": .}] | add | length', 20_000],
])('reduce: %s: costs the same for a state of any size', (_what, text, result) => {
  expect(evaluate(parseExpression(text) as Expression, null, { variables: {}, nowMs: 0 }, newBudget())).toBe(
    result,
  )
})

test.each([
  [
    'what the state held before stays as it was',
    'reduce range(3) as $i ({}; .last = . | .n = $i)',
    '{"last":{"last":{"last":{},"n":0},"n":1},"n":2}',
  ],
  [
    'a name for the state',
    'reduce range(2) as $i ({}; . as $s | .n = $i | .s = $s)',
    '{"n":1,"s":{"n":0,"s":{}}}',
  ],
  [
    'a name for a part',
    'reduce range(2) as $i ({a: []}; .a as $a | .a += [$i] | .b = $a)',
    '{"a":[0,1],"b":[0]}',
  ],
  ['the state in the state', 'reduce range(3) as $i ([0]; . + [.])', '[0,[0],[0,[0]],[0,[0],[0,[0]]]]'],
  [
    'one value at two places',
    'reduce range(2) as $i ({}; (.a, .b) = {x: []} | .a.x += [$i])',
    '{"a":{"x":[1]},"b":{"x":[]}}',
  ],
  [
    'an item of the source',
    '[[1]] as $v | reduce $v[] as $x ({}; .a = $x | .a += [2] | .v = $v)',
    '{"a":[1,2],"v":[[1]]}',
  ],
  [
    'the first state',
    '{a: [1]} as $v | [reduce range(2) as $i ($v; .a += [$i]), $v]',
    '[{"a":[1,0,1]},{"a":[1]}]',
  ],
  [
    'a part that is updated by itself',
    'reduce range(2) as $i ({a: {n: 0}}; .old = .a | .a |= (. + {n: $i}))',
    '{"a":{"n":1},"old":{"n":0}}',
  ],
  [
    'an update by cases',
    'reduce range(3) as $i ({}; if $i == 1 then .kept = . else .n = $i end)',
    '{"n":2,"kept":{"n":0}}',
  ],
])('reduce: changes its state in place: %s: the result shows no sharing', (_what, text, json) => {
  const value = evaluate(parseExpression(text) as Expression, null, { variables: {}, nowMs: 0 }, newBudget())
  expect(value).toEqual(JSON.parse(json))
})
