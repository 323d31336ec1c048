/** `tenon flow test`: the cases beside flows, each simulated here and compared with what is expected. */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type CheckedCase, casesIn, checkCase } from '../../../flows-dsl/cases/cases.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { coverageOf } from '../../../flows-dsl/simulator/coverage.ts'
import { callerPath } from '../settings.ts'
import { printJson, verb } from '../verb.ts'
import { printCoverage } from './coverage.ts'
import { paint } from './faults.ts'
import { read } from './place.ts'
import { compiledHere, told, yamlIn } from './simulate.ts'

const CASES = /\.cases\.ya?ml$/
const UNSEARCHED = new Set(['node_modules', '.git'])

/** Names of flows, by their own or by that of their cases; all below the caller's folder where none is given. */
async function flowsFor(files: readonly string[]): Promise<readonly string[]> {
  const given = files.length > 0 ? files : await casesBelow('.')
  if (given.length === 0) throw new Error('There are no cases here: files that end in .cases.yaml.')
  return [...new Set(given.map((file) => file.replace(CASES, '.yaml')))]
}

async function casesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(callerPath(folder), { withFileTypes: true })
  const found: string[] = []
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && !UNSEARCHED.has(entry.name)) found.push(...(await casesBelow(path)))
    else if (CASES.test(entry.name)) found.push(path)
  }
  return found
}

interface Tested {
  readonly file: string
  /** None where the flow does not compile. */
  readonly cases: readonly CheckedCase[]
  readonly failed: number
}

/** Prints each flow with its cases. @returns the exit code: 1 where a case fails, or a flow does not compile */
async function test(files: readonly string[], { json }: { json?: boolean }): Promise<number> {
  const tested: Tested[] = []
  for (const file of await flowsFor(files)) tested.push(await testFlow(file, json === true))
  const failed = tested.reduce((sum, one) => sum + one.failed, 0)
  const total = tested.reduce((sum, one) => sum + Math.max(1, one.cases.length), 0)
  if (json) printJson(tested)
  else process.stdout.write(`${failed === 0 ? `${total} passed` : `${failed} of ${total} failed`}\n`)
  return failed === 0 ? 0 : 1
}

async function testFlow(file: string, isSilent: boolean): Promise<Tested> {
  const compiled = await compiledHere(file)
  if (compiled === undefined) return { file, cases: [], failed: 1 }
  const { ir, definition } = compiled
  const beside = file.replace(/\.ya?ml$/, '.cases.yaml')
  const text = await read(beside).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new Error(`${file} has no cases: ${beside} is not there.`) : error
  })
  const given = told(() => casesIn(yamlIn(text, beside) as Json), beside)
  const cases = given.map((one) => told(() => checkCase(ir, one), `${beside}: ${one.name}`))
  if (!isSilent) {
    process.stdout.write(`${paint('bold', file, process.stdout)}\n`)
    for (const one of cases) printCase(one)
    const traces = cases.map(({ simulated }) => simulated.trace)
    printCoverage(file, coverageOf(ir, ...traces), definition, process.stdout)
  }
  return { file, cases, failed: cases.filter((one) => one.differences.length > 0).length }
}

function printCase({ name, differences, simulated }: CheckedCase): void {
  const output = process.stdout
  const mark = differences.length === 0 ? paint('green', '✓', output) : paint('red', '✗', output)
  output.write(`  ${mark} ${name}\n`)
  for (const { at, expected, found } of differences) {
    output.write(`      ${at}\n`)
    output.write(`        ${paint('green', `- ${shown(expected)}`, output)}\n`)
    output.write(`        ${paint('red', `+ ${shown(found)}`, output)}\n`)
  }
  if (differences.length === 0) return
  for (const { step, what, hint } of simulated.wanted ?? [])
    output.write(`      ${step} waits for ${what}. ${hint}\n`)
  const { error } = simulated
  if (error !== undefined) output.write(`      ${error.instance} ${error.title}: ${error.detail}\n`)
}

const shown = (value: Json | undefined) => (value === undefined ? 'nothing' : JSON.stringify(value))

export function testVerb(flows: Command): void {
  flows
    .command('test [files...]')
    .description(
      'run the cases beside flows (flow.yaml, flow.cases.yaml); all below this folder where none is named',
    )
    .option('--json', 'one JSON value: each flow, its cases, and where they differ')
    .action(verb(test))
}
