/**
 * Generated programs yield the same answers here as in jq, which gets them in batches because it starts
 * slowly.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/json.ts'
import { expression, INPUTS } from './generated-programs.ts'
import { type Answer, answerHere, openOracle } from './jq-oracle.ts'

const SEED = 20_261_121
const PROGRAMS = 1_600
const TOGETHER = 40

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
})
