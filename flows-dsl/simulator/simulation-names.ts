/** Checks the names that a simulation uses: keys that are not known, and mocks that fit nothing or were not used. */

import { didYouMean } from '../diagnostics/diagnostics.ts'
import type { TaskNode } from '../ir.ts'
import { pointerTo } from '../json.ts'
import { type TaskIndex, typeOf } from '../machine/task-index.ts'
import { callbackName, hasCallback } from '../tasks/call.ts'
import { type Mocks, type Simulation, SimulationInvalid, type UnusedMock } from './types.ts'

/** Each costs a comparison with all names, and a few tell enough. */
const UNUSED_MAX = 20
const NAMES_SHOWN_MAX = 10

/** @throws SimulationInvalid for the first key that is not known, with the key that was meant */
export function checkKeys(value: object, at: string, known: readonly string[]): void {
  const key = Object.keys(value).find((one) => !known.includes(one))
  if (key === undefined) return
  const hint = didYouMean(key, known) ?? `Known here: ${known.join(', ')}.`
  throw new SimulationInvalid(pointerTo(at, key), `The key \`${key}\` is not known. ${hint}`)
}

const EVENT_KEYS = ['event', 'after']
const DECISION_KEYS = ['task', 'decision', 'after']
const OPTION_KEYS = ['start', 'random', 'id', 'started_by', 'lifecycle']

/** Checks the keys of what is planned; mocks check their own. @throws SimulationInvalid */
export function checkPlanned({ events = [], decisions = [], options = {} }: Simulation): void {
  for (const [index, event] of events.entries()) checkKeys(event, `/events/${index}`, EVENT_KEYS)
  for (const [index, decision] of decisions.entries())
    checkKeys(decision, `/decisions/${index}`, DECISION_KEYS)
  checkKeys(options, '/options', OPTION_KEYS)
}

/** The hint of a name of a task that the flow does not have; undefined if it has it, by name or pointer. */
export function unknownTask(name: string, nodes: readonly TaskNode[]): string | undefined {
  if (nodes.some((node) => node.name === name || node.pointer === name)) return undefined
  const known = [...new Set(nodes.map((node) => node.name))]
  const hint =
    didYouMean(name, known) ?? (known.length <= NAMES_SHOWN_MAX ? `There are ${known.join(', ')}.` : '')
  return `There is no task \`${name}\`. ${hint}`.trim()
}

/**
 * The mocks of a simulation that has ended of which an answer was not used, at most 20.
 * @param used how many answers of each mock were given
 */
export function unusedMocks(tasks: TaskIndex, mocks: Mocks, used: ReadonlyMap<string, number>): UnusedMock[] {
  const unused = Object.entries(mocks).filter(([mock, answers]) => (used.get(mock) ?? 0) < countOf(answers))
  if (unused.length === 0) return []
  const nodes = tasks.all()
  const names = answeredNames(nodes)
  return unused.slice(0, UNUSED_MAX).map(([mock, answers]) => {
    if (!names.has(mock)) return { mock, ...misfit(mock, nodes, [...names]) }
    const count = used.get(mock) ?? 0
    const reason =
      count === 0 ? `\`${mock}\` was not used: no step has asked for it.` : surplus(mock, answers, count)
    return { mock, reason }
  })
}

const countOf = (answers: Mocks[string]): number => (Array.isArray(answers) ? answers.length : 1)

const surplus = (mock: string, answers: Mocks[string], count: number): string =>
  `\`${mock}\` has ${countOf(answers)} answers, of which ${count === 1 ? '1 was' : `${count} were`} used.`

/** All names that a mock can have: of tasks that ask for something, their pointers, and what they ask. */
function answeredNames(nodes: readonly TaskNode[]): ReadonlySet<string> {
  return new Set(
    nodes.flatMap((node) => {
      const { name, pointer, kind, body } = node
      const names = typeOf(node).answeredBy?.(body)
      if (names === undefined) return []
      const callback = kind === 'call' && hasCallback(body) ? [callbackName(name)] : []
      return [name, ...callback, ...names, pointer]
    }),
  )
}

/** The reason why nothing uses a mock, and what was meant. */
function misfit(
  mock: string,
  nodes: readonly TaskNode[],
  known: readonly string[],
): Omit<UnusedMock, 'mock'> {
  const task = nodes.find(({ name, pointer }) => name === mock || pointer === mock)
  if (task !== undefined)
    return {
      reason: `The task \`${task.name}\` is a \`${task.kind}\`, which asks for no answer; mock the calls within it.`,
    }
  const names = known.filter((name) => !name.startsWith('/'))
  const few =
    names.length > 0 && names.length <= NAMES_SHOWN_MAX ? `A mock can be ${names.join(', ')}.` : undefined
  const hint = didYouMean(mock, mock.startsWith('/') ? known : names) ?? few
  const reason = `No task, function or flow that this flow calls is named \`${mock}\`.`
  return { reason, ...(hint !== undefined && { hint }) }
}
