/** `tenon flow simulate`: runs a flow here, on given answers and virtual time. */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { parse } from 'yaml'
import { durationText } from '../../../flows-dsl/compile/duration.ts'
import { nodeAt, type SourceNode } from '../../../flows-dsl/compile/source-nodes.ts'
import { type CheckedCase, casesIn, checkCase } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { clip } from '../../../flows-dsl/json.ts'
import { coverageOf, simulate } from '../../../flows-dsl/simulator/simulate.ts'
import {
  type Coverage,
  type Simulated,
  type Simulation,
  SimulationInvalid,
  type TraceEntry,
} from '../../../flows-dsl/simulator/types.ts'
import { callerPath, readCallerFile } from '../settings.ts'
import { jsonOf, printJson, verb } from '../verb.ts'
import { type Output, paint, printFaults } from './diagnostics.ts'

/** Of what a step yields, in its line. */
const VALUE_BYTES_MAX = 120

interface Options {
  readonly input: string
  readonly mocks?: string
  readonly events?: string
  readonly decisions?: string
  readonly json?: boolean
}

/** A flow that was compiled here, or nothing, with its faults printed. */
async function compiledHere(
  file: string,
): Promise<{ readonly ir: FlowIR; readonly definition: SourceNode } | undefined> {
  const { compileFlow } = await import('../stack/local-compiler.ts')
  const { ir, definition, faults } = compileFlow(await readCallerFile(file))
  if (ir !== undefined) return { ir, definition }
  printFaults(file, faults)
  return undefined
}

/** Prints what happens as a run would tell it, and the output alone on stdout. @returns 1 where it does not complete */
async function simulateFile(file: string, options: Options): Promise<number> {
  const compiled = await compiledHere(file)
  if (compiled === undefined) return 1
  const simulation = { input: jsonOf(options.input, 'The input') as Json, ...(await partsOf(options)) }
  const simulated = told(() => simulate(compiled.ir, simulation))
  if (options.json) printJson(simulated)
  else {
    for (const entry of simulated.trace) process.stderr.write(lineOf(entry, simulated))
    printCoverage(file, simulated.coverage, compiled.definition, process.stderr)
    printEnd(simulated)
  }
  return simulated.status === 'completed' ? 0 : 1
}

/** Files of YAML, which JSON is too. */
async function partsOf(options: Options): Promise<Simulation> {
  const parts = []
  for (const name of ['mocks', 'events', 'decisions'] as const) {
    const file = options[name]
    if (file !== undefined) parts.push([name, yamlIn(await readCallerFile(file), file)])
  }
  return Object.fromEntries(parts)
}

/** A file's YAML as a value. @throws Error that names the file */
export function yamlIn(text: string, file: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** What is wrong with a simulation is one line for a person. */
function told<T>(work: () => T, where = ''): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof SimulationInvalid)) throw error
    throw new Error([where, error.pointer, error.message].filter(Boolean).join(': '))
  }
}

const PHASES: Readonly<Record<string, Parameters<typeof paint>[0]>> = {
  completed: 'green',
  faulted: 'red',
  retried: 'yellow',
  skipped: 'gray',
}

/** `+1.500s completed ask  {"decision": "yes"}` */
function lineOf(entry: TraceEntry, { trace }: Simulated): string {
  const { at, phase, name, took, output, error, asks } = entry
  const sinceMs = Date.parse(at) - Date.parse(trace[0]?.at ?? at)
  const value = phase === 'started' ? asks : (error ?? output)
  const told = [took, value === undefined ? undefined : clip(JSON.stringify(value), VALUE_BYTES_MAX)]
  const time = `+${(sinceMs / 1000).toFixed(3)}s`.padStart(12)
  const shown = paint(PHASES[phase] ?? 'reset', phase.padEnd(9), process.stderr)
  return `${[time, shown, name, ...told].filter(Boolean).join('  ')}\n`
}

function printEnd({ status, output, error, wanted = [], held = {}, ...about }: Simulated): void {
  process.stderr.write(
    `${status} after ${durationText(about.duration_ms)} of virtual time, about ${about.history_events} events\n`,
  )
  for (const { step, what, hint } of wanted) process.stderr.write(`  ${step} waits for ${what}. ${hint}\n`)
  for (const [step, { title, detail }] of Object.entries(held))
    process.stderr.write(`  ${step} is held: ${title}. ${detail}\n`)
  const value = status === 'completed' ? output : error
  if (value !== undefined) printJson(value)
}

export function simulateVerb(flows: Command): void {
  flows
    .command('simulate <file>')
    .description('run a flow here, on given answers and virtual time; its output alone is on stdout')
    .option('--input <json>', 'input of the run', '{}')
    .option('--mocks <file>', 'answers, by task or function: {output} or {error: {type}}')
    .option('--events <file>', 'events that come: [{after, event}]')
    .option('--decisions <file>', 'what people decide: [{task, decision, after}]')
    .option('--json', 'all of it as one JSON value, the trace too')
    .action(verb(simulateFile))
}

function printCoverage(file: string, coverage: Coverage, definition: SourceNode, output: Output): void {
  const { tasks, ways } = coverage
  output.write(`  coverage: ${tasks.entered} of ${tasks.total} tasks, ${ways.taken} of ${ways.total} ways\n`)
  for (const missed of [...tasks.missed, ...ways.missed]) {
    const { at, pointer, way } = placed(missed, definition)
    const where = at === undefined ? file : `${file}:${at.line}:${at.column}`
    const told = [pointer.split('/').at(-1), way].filter(Boolean).join(': ')
    output.write(`    ${paint('yellow', 'missed', output)} ${where} ${told}\n`)
  }
}

/** A pointer, or `pointer: way`; names may have a colon too, so the definition says where the pointer ends. */
function placed(missed: string, definition: SourceNode) {
  const ends = [...missed.matchAll(/: |$/g)].map(({ index }) => index).reverse()
  for (const end of ends) {
    const pointer = missed.slice(0, end)
    const at = nodeAt(definition, pointer)?.at
    if (at !== undefined) return { at, pointer, way: missed.slice(end + 2) }
  }
  return { at: undefined, pointer: missed, way: '' }
}

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
  const text = await readCallerFile(beside).catch((error: NodeJS.ErrnoException) => {
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
