/** Knows the cases of a flow: what goes in, what the world answers, and what is expected to come of it. */

import { didYouMean } from '../faults.ts'
import type { Json, JsonObject } from '../ir.ts'
import { isObject } from '../json.ts'
import { type Simulated, type Simulation, SimulationInvalid } from '../simulator/simulation.ts'

/** What is not given is not looked at, but for `status`, which is `completed` then. */
interface Expectation {
  readonly status?: Simulated['status']
  /** The whole output. */
  readonly output?: Json
  /** Fields that the error must have. */
  readonly error?: JsonObject
  /** Fields of what was undone, by `pointer#iteration`, and of what could not be: `{undone, failures}`. */
  readonly compensation?: JsonObject
  /** Names of tasks in the order in which they are entered; `-name` for one that is skipped. */
  readonly steps?: readonly string[]
  /** What is asked of functions, in this order; of arguments, those that are given. */
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
const isList: Check = Array.isArray
const isStatus: Check = (value) => STATUSES.includes(String(value))

/** Each key, and what its value must be. */
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
  calls: (value) => Array.isArray(value) && value.every(isObject),
}

/**
 * The cases of a file.
 * @param value a list of cases
 * @throws SimulationInvalid where it is none: its pointer says what is wrong
 */
export function casesIn(value: Json): readonly FlowCase[] {
  if (!Array.isArray(value)) throw new SimulationInvalid('', 'Cases are a list.')
  return value.map((one, index) => caseIn(one, `/${index}`))
}

function caseIn(value: Json, at: string): FlowCase {
  const fields = checked(value, at, CASE)
  if (fields['name'] === undefined) throw new SimulationInvalid(at, 'A case needs a name.')
  const expect = checked(fields['expect'] ?? {}, `${at}/expect`, EXPECT)
  return { ...fields, expect } as unknown as FlowCase
}

function checked(value: Json, at: string, keys: Readonly<Record<string, Check>>): JsonObject {
  if (!isObject(value)) throw new SimulationInvalid(at, 'It must be a mapping.')
  for (const [key, inner] of Object.entries(value)) {
    const check = Object.hasOwn(keys, key) ? keys[key] : undefined
    const place = `${at}/${key}`
    if (check === undefined) {
      const hint = didYouMean(key, Object.keys(keys)) ?? `Known here: ${Object.keys(keys).join(', ')}.`
      throw new SimulationInvalid(place, `The key \`${key}\` is not known. ${hint}`)
    }
    if (!check(inner)) throw new SimulationInvalid(place, `\`${key}\` cannot be ${JSON.stringify(inner)}.`)
  }
  return value
}
