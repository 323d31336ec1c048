/** Runs jq itself (its WebAssembly build) and our evaluator on the same program, for tests. */

import { loadJq } from 'jq-wasm'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import { evaluateAll } from '../../../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import type { Json } from '../../../flows-dsl/json.ts'

/** All outputs, or that the program failed or does not parse. */
export type Answer = Json[] | 'fails'

const AROUND = { variables: {}, nowMs: 1_700_000_000_000 }

export function answerHere(program: string, input: Json): Answer {
  const parsed = parseExpression(program, [])
  if (!('op' in parsed)) return 'fails'
  try {
    return JSON.parse(JSON.stringify(evaluateAll(parsed, input, AROUND, newBudget())))
  } catch (error) {
    if (error instanceof FlowError) return 'fails'
    throw error
  }
}

/** Returns a function that runs jq. */
export async function openOracle(): Promise<(program: string, input: Json) => Answer> {
  const jq = await loadJq()
  return (program, input) => {
    const { stdout, exitCode } = jq.raw(JSON.stringify(input), program, ['-c'])
    if (exitCode !== 0) return 'fails'
    const lines = stdout.split('\n').filter((line) => line !== '')
    return lines.map((line) => JSON.parse(line) as Json)
  }
}
