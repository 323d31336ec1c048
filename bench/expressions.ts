/**
 * Measures one evaluation of an expression, against jq itself (its WebAssembly build) in the same process,
 * alternating.
 */

import { loadJq } from 'jq-wasm'
import { newBudget } from '../flows-dsl/budget.ts'
import { evaluate } from '../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../flows-dsl/jq/parser/parse.ts'
import type { Json } from '../flows-dsl/json.ts'
import { interleaved, print } from './measure.ts'

const ROUNDS = 60
const AROUND = { variables: {}, nowMs: 0 }

interface Work {
  readonly name: string
  readonly program: string
  readonly input: Json
  /** Number of evaluations here for one of jq. */
  readonly times: number
}

const KEYS = 'abcdefghij'.split('')

const WORKS: readonly Work[] = [
  { name: '.a.b', program: '.a.b', input: { a: { b: 1 } }, times: 1_000 },
  {
    name: 'an object of 10 keys',
    program: `{${KEYS.map((key) => `${key}: .${key}`).join(', ')}}`,
    input: Object.fromEntries(KEYS.map((key, i) => [key, i])),
    times: 1_000,
  },
  {
    name: 'map(select(.n > 500)), 1,000 items',
    program: 'map(select(.n > 500))',
    input: Array.from({ length: 1_000 }, (_, n) => ({ n, name: `item ${n}` })),
    times: 10,
  },
  {
    name: 'group_by, sum, sort, 1,000 items',
    program: 'group_by(.n % 7) | map({k: .[0].n, sum: (map(.n) | add)}) | sort_by(-.sum)',
    input: Array.from({ length: 1_000 }, (_, n) => ({ n })),
    times: 10,
  },
  {
    name: 'gsub over 1,000 letters',
    program: 'gsub("a+(?<x>b)"; "\\(.x)!")',
    input: 'aab c'.repeat(200),
    times: 1,
  },
]

/** Prints the time of one evaluation here and in jq, and their ratio; takes ten seconds. */
export async function expressions(): Promise<void> {
  const jq = await loadJq()
  print('one evaluation', 'µs here', 'µs jq-wasm', '× faster')
  for (const { name, program, input, times } of WORKS) {
    const parsed = parseExpression(program, [])
    if (!('op' in parsed)) throw new Error(parsed.message)
    const figures = await interleaved(ROUNDS, {
      here: async () => {
        for (let i = 0; i < times; i++) evaluate(parsed, input, AROUND, newBudget())
      },
      // jq would parse a text as JSON, so a string value is encoded.
      jq: async () => jq.first(JSON.stringify(input), program),
    })
    const [here, there] = [(figures.here.p50Ms * 1_000) / times, figures.jq.p50Ms * 1_000]
    print(name, here, there, (there / here).toFixed(0))
  }
}
