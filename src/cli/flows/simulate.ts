/** `tenon flow simulate`: runs a flow here, on given answers and virtual time. */

import type { Command } from 'commander'
import { parse } from 'yaml'
import { durationText } from '../../../flows-dsl/duration.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { clip } from '../../../flows-dsl/json.ts'
import type { SourceNode } from '../../../flows-dsl/located.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import {
  type Simulated,
  type Simulation,
  SimulationInvalid,
  type TraceEntry,
} from '../../../flows-dsl/simulator/simulation.ts'
import { jsonOf, printJson, verb } from '../verb.ts'
import { printCoverage } from './coverage.ts'
import { paint, printFaults } from './faults.ts'
import { read } from './place.ts'

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
export async function compiledHere(
  file: string,
): Promise<{ readonly ir: FlowIR; readonly definition: SourceNode } | undefined> {
  const { compileFlow } = await import('../host/compiler.ts')
  const { ir, definition, faults } = compileFlow(await read(file))
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
    if (file !== undefined) parts.push([name, yamlIn(await read(file), file)])
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
export function told<T>(work: () => T, where = ''): T {
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
