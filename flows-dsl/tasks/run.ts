/** `run`: runs another flow (OWS 1.0 "Run", "Workflow Process"). */

import type { CompileContext } from '../compile/compile-context.ts'
import { type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import type { Template } from '../ir.ts'
import type { Json } from '../json.ts'
import type { TaskType } from './task.ts'

export interface RunBody {
  readonly namespace: string
  readonly name: string
  /** A semantic version, or `latest`. */
  readonly version: string
  readonly input: Template
  /** If true, the task waits until the flow ends. */
  readonly await: boolean
  /** `none` drops the output of the flow. */
  readonly return: 'output' | 'none'
}

/** OWS process types that are not supported. */
const PROCESSES = ['container', 'script', 'shell']
const WORKFLOW_KEYS = ['namespace', 'name', 'version', 'input']
const RETURNS = ['stdout', 'none', 'stderr', 'code', 'all'] as const
export const FLOW_NAME = '^[\\w.+-]{1,128}$'

export const run: TaskType<RunBody> = {
  kind: 'run',
  keys: ['run'],
  returnsEffectResult: true,
  compile(task, { context }) {
    const map = context.optionalMap(task, 'run')
    if (map === undefined || reportProcess(map, context)) return undefined
    context.keys(map, '`run`', ['workflow', 'await', 'return'])
    const workflow = context.requiredMap(map, '`run`', 'workflow', WORKFLOW_KEYS)
    const flow = workflow && compileWorkflow(workflow, context)
    const awaited = context.boolean(map, 'await', true)
    const returned = compileReturn(map, context)
    if (flow === undefined || awaited === undefined || returned === undefined) return undefined
    return { ...flow, await: awaited, return: returned }
  },
  answeredBy({ namespace, name }) {
    return [`${namespace}/${name}`, 'workflow']
  },
  start(body, task) {
    const { namespace, name, version } = body
    const target = { namespace, name, version, input: task.evaluate(body.input, task.input) }
    const details = { ...target, await: body.await, ...task.digest(target) }
    return { taskState: null, start: [{ key: 'run', await: 'workflow', details }] }
  },
  onChildEnd(body, _own, { output }, task) {
    if (!body.await) return { done: task.input }
    return { done: runOutput(body, output) }
  },
  summary({ namespace, name, version }) {
    return `run ${namespace}/${name} ${version}`
  },
}

/** The output of the task for the output of its flow. */
export const runOutput = (body: RunBody, output: Json): Json => (body.return === 'none' ? null : output)

/** Reports an unsupported process once, without diagnostics for its content. */
function reportProcess(map: MapNode, context: CompileContext): boolean {
  const found = map.entries.find(({ key }) => PROCESSES.includes(key))
  if (found === undefined) return false
  const message = `\`run: ${found.key}\` is part of the language, but this platform does not run it.`
  context.report(
    'unsupported_feature',
    found.at,
    message,
    'Deploy a function and call it: call: function.invoke.',
  )
  return true
}

function compileWorkflow(map: MapNode, context: CompileContext) {
  const [namespace, name] = ['namespace', 'name'].map((key) => {
    const value = context.required(map, '`workflow`', key)
    return value && compileName(value, key, context)
  })
  const node = valueAt(map, 'version')
  const version = node === undefined ? 'latest' : compileName(node, 'version', context)
  const source = valueAt(map, 'input')
  const input = source === undefined ? ({ literal: {} } as const) : context.mapTemplate(source, '`input`')
  if (namespace === undefined || name === undefined || version === undefined || input === undefined)
    return undefined
  return { namespace, name, version, input }
}

/** A name cannot be an expression: the flows that a flow may run are known before it runs. */
function compileName(value: SourceNode, key: string, context: CompileContext): string | undefined {
  const text = context.text(value, `\`${key}\``)
  if (text === undefined || new RegExp(FLOW_NAME).test(text)) return text
  const message = `\`${key}\` must be the \`${key}\` in the document of a flow.`
  return context.report('value_invalid', value, message)
}

/** A flow has neither streams nor an exit code; `stdout`, the default of OWS, is its output. */
function compileReturn(map: MapNode, context: CompileContext): RunBody['return'] | undefined {
  const word = context.choice(map, 'return', RETURNS)
  if (word === undefined || word === 'none') return word
  if (word === 'stdout') return 'output'
  const message = `A flow has no \`${word}\`; it returns its output, or \`none\`.`
  return context.report('value_invalid', valueAt(map, 'return') ?? map, message)
}
