/**
 * Scores the evaluator against test files of jq: `npm run test:jq -- <folder>`, with the folder `tests` of a
 * checkout of jq. Prints the score of each file, and each failure with its class.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import { evaluateAll } from '../../../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import type { Json } from '../../../flows-dsl/json.ts'
import { type Case, readCases, readValue } from './cases.ts'

/** Not part of the language here. */
const EXCLUDED = /^\s*(?:import|include|module)\b|modulemeta|get_search_list|::/

type Outcome = 'passed' | 'excluded' | { readonly failure: string; readonly because: string }

function outcomeOf(one: Case): Outcome {
  if (EXCLUDED.test(one.program)) return 'excluded'
  const parsed = parseExpression(one.program, [])
  if (one.refused) return 'op' in parsed ? { failure: 'accepted', because: 'should not parse' } : 'passed'
  if (!('op' in parsed)) return { failure: 'parse', because: parsed.message }
  const input = readValue(one.input)
  const wanted = JSON.stringify(one.outputs.map(readValue).map(canonical))
  const got = outputsOf(one.program, input, one.outputs.length)
  if (JSON.stringify(got.outputs.map(canonical)) === wanted) return 'passed'
  const failure = /nested deeper|too many steps|larger than|deeper than/.test(got.error ?? '')
    ? 'budget'
    : 'output'
  return { failure, because: got.error ?? JSON.stringify(got.outputs) }
}

/**
 * All outputs; of a program that fails in the end, the ones before the error, up to the number requested.
 */
function outputsOf(program: string, input: Json, count: number): { outputs: Json[]; error?: string } {
  try {
    return { outputs: evaluated(program, input) }
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    try {
      return { outputs: evaluated(`limit(${count}; ${program})`, input), error: error.message }
    } catch {
      return { outputs: [], error: error.message }
    }
  }
}

function evaluated(program: string, input: Json): Json[] {
  const parsed = parseExpression(program, [])
  if (!('op' in parsed)) throw new Error(`${program}: ${parsed.message}`)
  return evaluateAll(parsed, input, { variables: {}, nowMs: 0 }, newBudget())
}

/** Equal values become equal texts: fields sorted, infinity as the largest double, as jq compares them. */
function canonical(value: Json): Json {
  if (typeof value === 'number') {
    return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value)) + 0
  }
  if (Array.isArray(value)) return value.map(canonical)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(fields.map(([key, field]) => [key, canonical(field)]))
}

function scoreFile(file: string): readonly [passed: number, counted: number] {
  const cases = readCases(readFileSync(file, 'utf8'))
  let [passed, counted] = [0, 0]
  for (const one of cases) {
    const outcome = outcomeOf(one)
    if (outcome === 'excluded') continue
    counted++
    if (outcome === 'passed') passed++
    else
      process.stdout.write(
        `  ${outcome.failure.padEnd(8)} ${one.program}\n           ${outcome.because.slice(0, 160)}\n`,
      )
  }
  return [passed, counted]
}

function main(folder: string): void {
  const totals: (readonly [number, number])[] = []
  for (const name of readdirSync(folder)
    .filter((file) => file.endsWith('.test'))
    .sort()) {
    const [passed, counted] = scoreFile(join(folder, name))
    totals.push([passed, counted])
    process.stdout.write(`${name}: ${passed} of ${counted}\n`)
  }
  const passed = totals.reduce((sum, [one]) => sum + one, 0)
  const counted = totals.reduce((sum, [, one]) => sum + one, 0)
  process.stdout.write(`all: ${passed} of ${counted} (${((100 * passed) / counted).toFixed(1)} %)\n`)
}

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write('npm run test:jq -- <folder with test files of jq>\n')
  process.exit(1)
}
main(resolve(process.env['TENON_CALLER_CWD'] ?? '.', folder))
