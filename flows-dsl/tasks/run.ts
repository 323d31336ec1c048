/** `run`: runs another flow (OWS 1.0 "Run", "Workflow Process"). */

import { booleanBelow, type Checker, choiceBelow, SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import type { TaskType } from './task.ts'

export interface RunBody {
  readonly namespace: string
  readonly name: string
  /** A semantic version, or `latest`. */
  readonly version: string
  readonly input: Template
  /** Whether the task lasts as long as the flow that it runs. */
  readonly await: boolean
  /** `none` drops the output of the flow. */
  readonly return: 'output' | 'none'
}

/** What runs on a machine of its own, which nobody has set up here. */
const PROCESSES = ['container', 'script', 'shell']
const RETURNS = ['stdout', 'none', 'stderr', 'code', 'all'] as const

export const run: TaskType<RunBody> = {
  kind: 'run',
  keys: ['run'],
  isAnswered: true,
  compile(task, { checker }) {
    return compileRun(task, checker)
  },
  start(body, running) {
    const { namespace, name, version } = body
    const input = running.evaluate(body.input, running.input)
    const which = { namespace, name, version, input }
    const details = { ...which, await: body.await, ...running.digest(which) }
    return { own: null, begin: [{ key: 'run', await: 'workflow', details }] }
  },
  next(body, _own, { output }, running) {
    if (!body.await) return { done: running.input }
    return { done: body.return === 'none' ? null : output }
  },
  summary({ namespace, name, version }) {
    return `run ${namespace}/${name} ${version}`
  },
}

/** Compiles the key `run` of a task. */
function compileRun(task: LocatedMap, checker: Checker): RunBody | undefined {
  const given = entryOf(task, 'run')?.value
  const map = given && checker.map(given, '`run`')
  if (map === undefined || refuseProcess(map, checker)) return undefined
  checker.keys(map, '`run`', ['workflow', 'await', 'return'])
  const source = checker.required(map, '`run`', 'workflow')
  const workflow = source && checker.map(source, '`workflow`')
  const flow = workflow && compileWorkflow(workflow, checker)
  const awaited = booleanBelow(map, 'await', true, checker)
  const returned = compileReturn(map, checker)
  if (flow === undefined || awaited === undefined || returned === undefined) return undefined
  return { ...flow, await: awaited, return: returned }
}

/** Says so once: what stands within a process that cannot run matters to nobody. */
function refuseProcess(run: LocatedMap, checker: Checker): boolean {
  const found = run.entries.find(({ key }) => PROCESSES.includes(key))
  if (found === undefined) return false
  const message = `\`run: ${found.key}\` is known to the language, and the operator has not enabled it.`
  checker.fault('unsupported_feature', found.at, message, 'A function of the platform can do it: `call`.')
  return true
}

function compileWorkflow(
  map: LocatedMap,
  checker: Checker,
): Pick<RunBody, 'namespace' | 'name' | 'version' | 'input'> | undefined {
  checker.keys(map, '`workflow`', ['namespace', 'name', 'version', 'input'])
  const [namespace, name] = ['namespace', 'name'].map((key) => {
    const value = checker.required(map, '`workflow`', key)
    return value && compileName(value, key, checker)
  })
  const given = entryOf(map, 'version')?.value
  const version = given === undefined ? 'latest' : compileName(given, 'version', checker)
  const source = entryOf(map, 'input')?.value
  const input = source === undefined ? ({ literal: {} } as const) : compileInput(source, checker)
  if (namespace === undefined || name === undefined || version === undefined || input === undefined)
    return undefined
  return { namespace, name, version, input }
}

/** A name is no expression: which flows a flow may run is known before it runs. */
function compileName(value: Located, key: string, checker: Checker): string | undefined {
  const text = checker.text(value, `\`${key}\``)
  if (text === undefined || /^[\w.+-]{1,128}$/.test(text)) return text
  return checker.fault(
    'value_invalid',
    value,
    `\`${key}\` must be that of a flow, as it stands in its document.`,
  )
}

/** A mapping, or one expression that yields it. */
function compileInput(value: Located, checker: Checker): Template | undefined {
  const isExpression =
    value.kind === 'scalar' && typeof value.value === 'string' && value.value.includes('${')
  const map = isExpression ? value : checker.map(value, '`input`')
  return map && checker.template(map, SCOPES.task)
}

/** A flow has neither streams nor a code; `stdout` is what OWS says where nothing is said. */
function compileReturn(map: LocatedMap, checker: Checker): RunBody['return'] | undefined {
  const word = choiceBelow(map, 'return', RETURNS, checker)
  if (word === 'none') return 'none'
  if (word === undefined || word === 'stdout') return word && 'output'
  const place = entryOf(map, 'return')?.value ?? map
  return checker.fault(
    'value_invalid',
    place,
    `A flow has no \`${word}\`; it returns its output, or \`none\`.`,
  )
}
