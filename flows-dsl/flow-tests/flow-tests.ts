/** Reads the test cases of a flow, runs them in the simulator and lists the differences. */

import { didYouMean } from '../diagnostics/diagnostics.ts'
import type { FlowIR, Json, JsonObject } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import { simulate } from '../simulator/simulate.ts'
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
  /** Calls of functions in this order, with some of their arguments. */
  readonly calls?: readonly JsonObject[]
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
const isStatus: Check = (value) => STATUSES.includes(String(value))

const CASE: Readonly<Record<string, Check>> = {
  name: isText,
  input: isAny,
  mocks: isObject,
  events: isList,
  decisions: isList,
  options: isObject,
  expect: isObject,
}
const EXPECT: Readonly<Record<string, Check>> = {
  status: isStatus,
  output: isAny,
  error: isObject,
  compensation: isObject,
  steps: (value) => Array.isArray(value) && value.every(isText),
  calls: isList,
}

/** The members of a call that are compared: the trace knows no others. */
const CALL: Readonly<Record<string, Check>> = { function: isText, arguments: isObject }

/**
 * The cases of a file.
 * @param value a list of cases
 * @throws SimulationInvalid if it is invalid, with a pointer to the error
 */
export function casesIn(value: Json): readonly FlowCase[] {
  if (!Array.isArray(value)) throw new SimulationInvalid('', 'Cases are a list.')
  return value.map((one, index) => caseIn(one, `/${index}`))
}

function caseIn(value: Json, at: string): FlowCase {
  const fields = checked(value, at, CASE)
  if (fields['name'] === undefined) throw new SimulationInvalid(at, 'A case needs a name.')
  const expect = checked(fields['expect'] ?? {}, `${at}/expect`, EXPECT)
  const calls = (expect['calls'] ?? []) as Json[]
  for (const [index, call] of calls.entries()) checked(call, `${at}/expect/calls/${index}`, CALL)
  return { ...fields, expect } as unknown as FlowCase
}

function checked(value: Json, at: string, keys: Readonly<Record<string, Check>>): JsonObject {
  if (!isObject(value)) throw new SimulationInvalid(at, 'It must be a mapping.')
  for (const [key, inner] of Object.entries(value)) {
    const check = fieldOf(keys, key)
    const place = `${at}/${key}`
    if (check === undefined) {
      const hint = didYouMean(key, Object.keys(keys)) ?? `Known here: ${Object.keys(keys).join(', ')}.`
      throw new SimulationInvalid(place, `The key \`${key}\` is not known. ${hint}`)
    }
    if (!check(inner)) throw new SimulationInvalid(place, `\`${key}\` cannot be ${JSON.stringify(inner)}.`)
  }
  return value
}

export interface CheckedCase {
  readonly name: string
  /** Empty if everything is as expected. */
  readonly differences: readonly Difference[]
  readonly simulated: Simulated
}

/** Simulates a case and compares the result. @throws SimulationInvalid if the case does not fit the flow */
export function checkCase(ir: FlowIR, { name, expect, ...simulation }: FlowCase): CheckedCase {
  const simulated = simulate(ir, simulation)
  const { status = 'completed', steps, ...expected } = expect
  const found = { ...simulated, calls: callsOf(simulated.trace) }
  const keys = (['output', 'error', 'compensation', 'calls'] as const).filter(
    (key) => expected[key] !== undefined,
  )
  const all = [
    ...differences('status', status, simulated.status, false),
    ...keys.flatMap((key) => differences(key, expected[key] as Json, found[key], key !== 'output')),
    ...(steps === undefined ? [] : stepsDiffer(steps, simulated.trace)),
  ]
  return { name, differences: all, simulated }
}

/** One step more or less shifts all others, so the order is compared as a whole. */
function stepsDiffer(expected: readonly string[], trace: readonly TraceEntry[]): readonly Difference[] {
  const entered = trace.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const found = entered.map(({ phase, name }) => (phase === 'skipped' ? `-${name}` : name))
  if (differences('steps', [...expected], found, false).length === 0) return []
  return [{ at: 'steps', expected: [...expected], found }]
}

function callsOf(trace: readonly TraceEntry[]): JsonObject[] {
  return trace.flatMap(({ asks }) => (asks?.['function'] === undefined ? [] : [asks]))
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
