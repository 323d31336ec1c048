/** `tenon flow simulate|test`: runs a flow with given results and virtual time, in this process unless a record is repeated. */

import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { durationText } from '../../../flows-dsl/compile/duration.ts'
import { nodeAt, type SourceNode } from '../../../flows-dsl/compile/source-nodes.ts'
import { type CheckedCase, checkCases, isPassed } from '../../../flows-dsl/flow-tests/flow-tests.ts'
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
import { sentences } from '../../core/text/sentences.ts'
import { JSON_NOTATION, jsonArgument, yamlIn } from '../json-argument.ts'
import { callerPath, flowsClient, readCallerFile } from '../settings.ts'
import { type Output, paint, type Style } from '../terminal.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { diagnosticsOf } from './check.ts'
import { printDiagnostics } from './diagnostics.ts'
import type { Execution } from './execution.ts'
import { caseErrorLine, junitOf, type TestedFlow } from './junit.ts'

/** Of the result of a step, in its line. */
const VALUE_BYTES_MAX = 120

interface Options extends WorkspaceOption {
  readonly input?: string
  readonly mocks?: string
  readonly events?: string
  readonly decisions?: string
  readonly fromRun?: string
  readonly json?: boolean
}

/** Compiles a flow. @returns undefined if it has diagnostics, which are printed */
async function compile(
  file: string,
  source?: string,
): Promise<{ readonly ir: FlowIR; readonly definition: SourceNode } | undefined> {
  const { compileFlow } = await import('../stack/local-compiler.ts')
  const { ir, definition, diagnostics } = compileFlow(source ?? (await readCallerFile(file)))
  if (ir !== undefined) return { ir, definition }
  printDiagnostics(file, diagnostics)
  return undefined
}

/** Prints the trace on stderr and the output on stdout. @returns the exit code: 1 if the flow does not complete */
async function simulateFile(file: string | undefined, options: Options): Promise<number> {
  const { fromRun } = options
  if (fromRun !== undefined) return simulateRecord(file, fromRun, options)
  if (file === undefined) throw new Error('Name a file, or an execution with --from-run run_….')
  const compiled = await compile(file)
  if (compiled === undefined) return 1
  const simulation = { input: {}, ...(await readParts(options)) }
  const simulated = describeError(() => simulate(compiled.ir, simulation))
  return printSimulated(file, simulated, compiled.definition, options)
}

/**
 * Repeats an execution on the platform, with its input, its results, its id and its start time.
 * @param file another definition; default: the version that ran
 */
async function simulateRecord(file: string | undefined, id: string, options: Options): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { flow_id, version } = await client.get<Execution>(`${base}/executions/${id}`)
  const path = `${base}/definitions/${flow_id}/versions/${version}`
  const source =
    file === undefined ? (await client.get<{ source: string }>(path)).source : await readCallerFile(file)
  const name = file ?? `v${version}`
  const compiled = await compile(name, source)
  if (compiled === undefined) return 1
  const body = { source, mocks_from: id, ...(await readParts(options)) }
  try {
    const simulated = await client.post<Simulated>(`${base}/simulate`, body)
    return printSimulated(name, simulated, compiled.definition, options)
  } catch (error) {
    printDiagnostics(name, diagnosticsOf(error))
    return 1
  }
}

function printSimulated(
  file: string,
  simulated: Simulated,
  definition: SourceNode,
  { json }: Options,
): number {
  if (json) printJson(simulated)
  else {
    for (const entry of simulated.trace) process.stderr.write(lineOf(entry, simulated))
    printCoverage(file, simulated.coverage, definition, process.stderr)
    printEnd(simulated)
  }
  return simulated.status === 'completed' ? 0 : 1
}

/** Reads the values of the options. */
async function readParts(options: Options): Promise<Simulation> {
  const parts = []
  for (const name of ['input', 'mocks', 'events', 'decisions'] as const) {
    const text = options[name]
    if (text !== undefined) parts.push([name, await jsonArgument(text, `--${name}`)])
  }
  return Object.fromEntries(parts)
}

/** Runs the work. @throws Error with one line about the location, if the simulation is invalid */
function describeError<T>(work: () => T, where = ''): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof SimulationInvalid)) throw error
    throw new Error([where, error.pointer, error.message].filter(Boolean).join(': '))
  }
}

const PHASES: Readonly<Record<string, Style>> = {
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
  const result = [took, value === undefined ? undefined : clip(JSON.stringify(value), VALUE_BYTES_MAX)]
  const time = `+${(sinceMs / 1000).toFixed(3)}s`.padStart(12)
  const status = paint(PHASES[phase] ?? 'reset', phase.padEnd(9), process.stderr)
  return `${[time, status, name, ...result].filter(Boolean).join('  ')}\n`
}

function printEnd({ status, output, error, wanted = [], unused = [], held = {}, ...about }: Simulated): void {
  process.stderr.write(
    `${status} after ${durationText(about.duration_ms)} of virtual time, about ${about.history_events} events\n`,
  )
  for (const { step, what, hint } of wanted) process.stderr.write(`  ${step} waits for ${what}. ${hint}\n`)
  for (const { reason, hint } of unused) process.stderr.write(`  ${sentences(reason, hint)}\n`)
  for (const [step, { title, detail }] of Object.entries(held))
    process.stderr.write(`  ${step} is held: ${title}. ${detail}\n`)
  const value = status === 'completed' ? output : error
  if (value !== undefined) printJson(value)
}

export function simulateVerbs(flows: Command): void {
  addVerb(
    flows,
    'simulate [file]',
    'Run a flow with mock results and virtual time. Prints only its output on stdout.',
    simulateFile,
    [
      ['--input <json>', `Input of the execution: ${JSON_NOTATION}.`],
      ['--mocks <json>', 'Mock results by task or function: {output} or {error: {type}}.'],
      ['--events <json>', 'Events to send: [{after, event}].'],
      ['--decisions <json>', 'Decisions of approvals: [{task, decision, after}].'],
      ['--from-run <execution>', 'Repeat an execution with its input, results, id and start time.'],
      WORKSPACE,
      ['--json', 'Print the result and the trace as one JSON value.'],
    ],
  )
  addVerb(
    flows,
    'test [files...]',
    'Run the test cases of flows (flow.yaml, flow.cases.yaml). Default: all flows below this folder.',
    test,
    [
      ['--json', 'Print one JSON value: each flow, its cases and their differences.'],
      ['--junit <file>', 'Write the results as JUnit XML, too.'],
    ],
  )
}

function printCoverage(file: string, coverage: Coverage, definition: SourceNode, output: Output): void {
  const { tasks, ways } = coverage
  const branches = ways.total === 0 ? 'no branches' : `${ways.taken} of ${ways.total} branches`
  output.write(`  coverage: ${tasks.entered} of ${tasks.total} tasks, ${branches}\n`)
  for (const missed of [...tasks.missed, ...ways.missed]) {
    const { at, pointer, branch } = locate(missed, definition)
    const where = at === undefined ? file : `${file}:${at.line}:${at.column}`
    const text = [pointer.split('/').at(-1), branch].filter(Boolean).join(': ')
    output.write(`    ${paint('yellow', 'missed', output)} ${where} ${text}\n`)
  }
}

/** Splits a pointer, or `pointer: branch`. Names may contain a colon too, so the definition decides where the pointer ends. */
function locate(missed: string, definition: SourceNode) {
  const ends = [...missed.matchAll(/: |$/g)].map(({ index }) => index).reverse()
  for (const end of ends) {
    const pointer = missed.slice(0, end)
    const at = nodeAt(definition, pointer)?.at
    if (at !== undefined) return { at, pointer, branch: missed.slice(end + 2) }
  }
  return { at: undefined, pointer: missed, branch: '' }
}

const CASES = /\.cases\.ya?ml$/
const UNSEARCHED = new Set(['node_modules', '.git'])

/**
 * The files of flows, named by themselves or by their cases; all with cases below each folder, by default the caller's.
 * @throws Error if a folder has none
 */
async function flowsFor(named: readonly string[]): Promise<readonly string[]> {
  const files: string[] = []
  for (const path of named.length > 0 ? named : ['.']) {
    const isFolder = await stat(callerPath(path)).then(
      (found) => found.isDirectory(),
      () => false,
    )
    const cases = isFolder ? await casesBelow(path) : [path]
    const place = path === '.' ? 'here' : `in ${path}`
    if (cases.length === 0)
      throw new Error(`There are no test cases ${place}. Test cases are files that end in .cases.yaml.`)
    files.push(...cases)
  }
  return [...new Set(files.map((file) => file.replace(CASES, '.yaml')))]
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

/** Prints each flow with its cases. @returns the exit code: 1 if a case fails or a flow does not compile */
async function test(
  files: readonly string[],
  { json, junit }: { json?: boolean; junit?: string },
): Promise<number> {
  const tested: TestedFlow[] = []
  for (const file of await flowsFor(files)) tested.push(await testFlow(file, json === true))
  const failed = tested.reduce((sum, one) => sum + one.failed, 0)
  const total = tested.reduce((sum, one) => sum + Math.max(1, one.cases.length), 0)
  if (junit !== undefined) await writeFile(callerPath(junit), junitOf(tested))
  if (json) printJson(tested)
  else process.stdout.write(`${failed === 0 ? `${total} passed` : `${failed} of ${total} failed`}\n`)
  return failed === 0 ? 0 : 1
}

export async function testFlow(file: string, isSilent: boolean): Promise<TestedFlow> {
  const compiled = await compile(file)
  if (compiled === undefined) return { file, cases: [], failed: 1 }
  const { ir, definition } = compiled
  const caseFile = file.replace(/\.ya?ml$/, '.cases.yaml')
  const text = await readCallerFile(caseFile).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT'
      ? new Error(`The flow ${file} has no test cases: the file ${caseFile} does not exist.`)
      : error
  })
  const cases = describeError(() => checkCases(ir, yamlIn(text, caseFile) as Json), caseFile)
  if (!isSilent) {
    process.stdout.write(`${paint('bold', file, process.stdout)}\n`)
    for (const one of cases) printCase(one)
    const traces = cases.flatMap(({ simulated }) => (simulated === undefined ? [] : [simulated.trace]))
    printCoverage(file, coverageOf(ir, ...traces), definition, process.stdout)
  }
  return { file, cases, failed: cases.filter((one) => !isPassed(one)).length }
}

function printCase(checked: CheckedCase): void {
  const { name, errors, differences, simulated } = checked
  const output = process.stdout
  const mark = isPassed(checked) ? paint('green', '✓', output) : paint('red', '✗', output)
  output.write(`  ${mark} ${name}\n`)
  for (const error of errors) output.write(`      ${caseErrorLine(error)}\n`)
  for (const { at, expected, found } of differences) {
    output.write(`      ${at}\n`)
    output.write(`        ${paint('green', `- ${textOf(expected)}`, output)}\n`)
    output.write(`        ${paint('red', `+ ${textOf(found)}`, output)}\n`)
  }
  if (differences.length === 0) return
  for (const { step, what, hint } of simulated?.wanted ?? [])
    output.write(`      ${step} waits for ${what}. ${hint}\n`)
  const error = simulated?.error
  if (error !== undefined) output.write(`      ${error.instance} ${error.title}: ${error.detail}\n`)
}

const textOf = (value: Json | undefined) => (value === undefined ? 'nothing' : JSON.stringify(value))
