/** Reads the test cases of a flow, runs them in the simulator and lists the differences. */

import type { FlowIR, Json, JsonObject, TaskNode } from '../ir.ts'
import { fieldOf, isObject, pointerTo } from '../json.ts'
import { TaskIndex } from '../machine/task-index.ts'
import { simulate } from '../simulator/simulate.ts'
import { checkKeys, unknownTask } from '../simulator/simulation-names.ts'
import { type Simulated, type Simulation, SimulationInvalid, type TraceEntry } from '../simulator/types.ts'

/** Only the given fields are compared; `status` defaults to `completed`. */
interface Expectation {
  readonly status?: Simulated['status']
  readonly output?: Json
  readonly error?: JsonObject
  /** Fields of the compensation, by `pointer#iteration`: `{undone, failures}`. */
  readonly compensation?: JsonObject
  /** Names of tasks in the order in which they are entered; `-name` for one that is skipped. */
  readonly steps?: readonly string[]
  /** All calls in this order, each with some of task, function and arguments. */
  readonly calls?: readonly JsonObject[]
  /** Some of the calls, in this order. */
  readonly someCalls?: readonly JsonObject[]
}

export interface FlowCase extends Simulation {
  readonly name: string
  readonly expect: Expectation
}

const STATUSES = ['completed', 'faulted', 'cancelled', 'waiting', 'suspended']

type Check = (value: Json) => boolean

const isAny: Check = () => true
const isText: Check = (value) => typeof value === 'string'
const isList = (value: Json | undefined): value is Json[] => Array.isArray(value)
const isObjects: Check = (value) => isList(value) && value.every(isObject)
const isStatus: Check = (value) => STATUSES.includes(String(value))

const CASE: Readonly<Record<string, Check>> = {
  name: isText,
  input: isAny,
  mocks: isObject,
  events: isObjects,
  decisions: isObjects,
  options: isObject,
  expect: isObject,
}
const EXPECT: Readonly<Record<string, Check>> = {
  status: isStatus,
  output: isAny,
  error: isObject,
  compensation: isObject,
  steps: (value) => isList(value) && value.every(isText),
  calls: isObjects,
  someCalls: isObjects,
}

/** The keys of the parts of an expectation: the result has no others. */
const CALL: Readonly<Record<string, Check>> = { task: isText, function: isText, arguments: isObject }
const COMPENSATION: Readonly<Record<string, Check>> = { undone: isList, failures: isList }

function caseIn(value: Json): FlowCase {
  const fields = checked(value, '', CASE)
  if (fields['name'] === undefined) throw new SimulationInvalid('', 'A case needs a name.')
  const expect = checked(fields['expect'] ?? {}, '/expect', EXPECT)
  checked(expect['compensation'] ?? {}, '/expect/compensation', COMPENSATION)
  for (const key of ['calls', 'someCalls'])
    for (const [index, call] of ((expect[key] ?? []) as Json[]).entries())
      checked(call, `/expect/${key}/${index}`, CALL)
  return { ...fields, expect } as unknown as FlowCase
}

function checked(value: Json, at: string, keys: Readonly<Record<string, Check>>): JsonObject {
  if (!isObject(value)) throw new SimulationInvalid(at, 'It must be a mapping.')
  checkKeys(value, at, Object.keys(keys))
  for (const [key, inner] of Object.entries(value))
    if (!fieldOf(keys, key)?.(inner))
      throw new SimulationInvalid(`${at}/${key}`, `\`${key}\` cannot be ${JSON.stringify(inner)}.`)
  return value
}

export interface CheckedCase {
  readonly name: string
  /** Errors of the case itself: names that fit nothing, mocks that were not used. */
  readonly errors: readonly CaseError[]
  /** Empty if everything is as expected. */
  readonly differences: readonly Difference[]
  /** Absent if the case is invalid. */
  readonly simulated?: Simulated
}

/** `at` is a JSON pointer into the case; empty for the whole of it. */
export interface CaseError {
  readonly at: string
  readonly message: string
  readonly hint?: string
}

export const isPassed = ({ errors, differences }: CheckedCase): boolean =>
  errors.length === 0 && differences.length === 0

/**
 * Runs all cases of a flow.
 * @param cases the content of their file
 * @throws SimulationInvalid if it is no list
 */
export function checkCases(ir: FlowIR, cases: Json): readonly CheckedCase[] {
  if (!isList(cases)) throw new SimulationInvalid('', 'Cases are a list.')
  return cases.map((one, index) => checkCase(ir, one, `case ${index + 1}`))
}

/** Simulates a case and compares the result. @param fallback the name of a case without one */
export function checkCase(ir: FlowIR, source: Json, fallback = 'case'): CheckedCase {
  try {
    const { name, expect, ...simulation } = caseIn(source)
    const simulated = simulate(ir, simulation)
    const errors = [...unknownNames(expect, new TaskIndex(ir).all()), ...unusedOf(simulated)]
    return { name, errors, differences: compare(expect, simulated), simulated }
  } catch (error) {
    if (!(error instanceof SimulationInvalid)) throw error
    const name = isObject(source) && isText(source['name'] ?? null) ? String(source['name']) : fallback
    return { name, errors: [{ at: error.pointer, message: error.message }], differences: [] }
  }
}

const unusedOf = ({ unused = [] }: Simulated): CaseError[] =>
  unused.map(({ mock, reason, hint }) => ({
    at: pointerTo('/mocks', mock),
    message: reason,
    ...(hint !== undefined && { hint }),
  }))

/** The names in an expectation that no task has. */
function unknownNames(
  { steps = [], calls = [], someCalls = [] }: Expectation,
  nodes: readonly TaskNode[],
): readonly CaseError[] {
  const errorOf = (at: string, task: string): CaseError[] => {
    const message = unknownTask(task, nodes)
    return message === undefined ? [] : [{ at, message }]
  }
  const ofCalls = Object.entries({ calls, someCalls }).flatMap(([key, list]) =>
    list.flatMap(({ task }, index) =>
      typeof task === 'string' ? errorOf(`/expect/${key}/${index}/task`, task) : [],
    ),
  )
  const isTask = (name: string) => nodes.some((node) => node.name === name)
  const ofSteps = steps.flatMap((step, index) =>
    isTask(step) ? [] : errorOf(`/expect/steps/${index}`, step.replace(/^-/, '')),
  )
  return [...ofSteps, ...ofCalls]
}

function compare({ status = 'completed', steps, someCalls, ...expected }: Expectation, simulated: Simulated) {
  const calls = callsOf(simulated.trace)
  const found = { ...simulated, calls }
  const keys = (['output', 'error', 'compensation', 'calls'] as const).filter(
    (key) => expected[key] !== undefined,
  )
  return [
    ...differences('status', status, simulated.status, false),
    ...keys.flatMap((key) => differences(key, expected[key] as Json, found[key], key !== 'output')),
    ...(someCalls === undefined ? [] : missingCalls(someCalls, calls)),
    ...(steps === undefined ? [] : stepsDiffer(steps, simulated.trace)),
  ]
}

/** The first expected call that does not follow the one before it. */
function missingCalls(expected: readonly JsonObject[], calls: readonly JsonObject[]): readonly Difference[] {
  let next = 0
  for (const [index, call] of expected.entries()) {
    const at = calls.findIndex((one, i) => i >= next && differences('', call, one, true).length === 0)
    if (at < 0) return [{ at: `someCalls[${index}]`, expected: call, found: calls.slice(next) }]
    next = at + 1
  }
  return []
}

/** One step more or less shifts all others, so the order is compared as a whole. */
function stepsDiffer(expected: readonly string[], trace: readonly TraceEntry[]): readonly Difference[] {
  const entered = trace.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const found = entered.map(({ phase, name }) => (phase === 'skipped' ? `-${name}` : name))
  if (differences('steps', [...expected], found, false).length === 0) return []
  return [{ at: 'steps', expected: [...expected], found }]
}

function callsOf(trace: readonly TraceEntry[]): JsonObject[] {
  return trace.flatMap(({ asks, name }) =>
    asks?.['function'] === undefined ? [] : [{ task: name, ...asks }],
  )
}

/** A difference. `at` is a path such as `output.lines[2].price`; a missing value is undefined. */
export interface Difference {
  readonly at: string
  readonly expected: Json | undefined
  readonly found: Json | undefined
}

/**
 * All differences of two values, in the order of the expected one.
 * @param partly if objects may have more fields than expected
 */
export function differences(
  at: string,
  expected: Json | undefined,
  found: Json | undefined,
  partly: boolean,
): readonly Difference[] {
  if (isList(expected) && isList(found)) {
    const length = Math.max(expected.length, found.length)
    const indexes = Array.from({ length }, (_, index) => index)
    return indexes.flatMap((index) => differences(`${at}[${index}]`, expected[index], found[index], partly))
  }
  if (expected !== undefined && found !== undefined && isObject(expected) && isObject(found)) {
    const more = partly ? [] : Object.keys(found).filter((key) => !Object.hasOwn(expected, key))
    return [...Object.keys(expected), ...more].flatMap((key) =>
      differences(`${at}${step(key)}`, fieldOf(expected, key), fieldOf(found, key), partly),
    )
  }
  return expected === found ? [] : [{ at, expected, found }]
}

const step = (key: string) => (/^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`)
