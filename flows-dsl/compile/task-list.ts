/** Compiles lists of tasks: names first, so that every flow directive can be checked against them. */

import { callsComponent, compileComponentCall } from '../components/functions.ts'
import { KEYS } from '../diagnostics/remedies.ts'
import type { TaskNode } from '../ir.ts'
import { type Shape, shapeOfSchema } from '../jq/static-type.ts'
import { fieldOf, omitUndefined } from '../json.ts'
import { TASKS } from '../tasks/index.ts'
import type { TaskCompiler, TaskType } from '../tasks/task.ts'
import { type CompileContext, SCOPES } from './compile-context.ts'
import { compileExport, compileInput, compileOutput, compileTimeout } from './data-flow.ts'
import {
  entryOf,
  type Location,
  type MapEntry,
  type MapNode,
  nodeToJson,
  type SourceNode,
  valueAt,
} from './source-nodes.ts'

/** A task or flow that faults fails, or is suspended until an operator decides. */
export const ON_FAULT = ['fail', 'hold'] as const
const DIRECTIVES = ['continue', 'exit', 'end']
const COMMON_KEYS = [
  'if',
  'input',
  'output',
  'export',
  'timeout',
  'then',
  'metadata',
  'compensate',
  'onFault',
]

/** Every task and step stores its pointer, so deep nesting of long names would cost the product of both. */
const POINTER_CHARS_MAX = 1_000

interface ListOptions {
  /** The tasks do not follow each other, so no directive can refer to another of them. */
  readonly areBranches?: boolean
  /** The type of the input of the first task, as far as it is known. */
  readonly first?: Shape | undefined
}

/** Compiles a list of single-key mappings. Undefined if it is not a list of tasks. */
export function compileTasks(
  list: SourceNode,
  context: CompileContext,
  { areBranches = false, first }: ListOptions = {},
): readonly TaskNode[] | undefined {
  if (list.kind !== 'list' || list.items.length === 0) {
    const hint = list.kind === 'map' ? 'Put `- ` before each name: `- pay:`.' : undefined
    return context.report('wrong_type', list, 'Tasks must be a list of at least one named task.', hint)
  }
  const message = 'A task must be one name with its keys below.'
  const entries = list.items.flatMap((item) => context.singleEntry(item, message, singleHint(item)) ?? [])
  checkNames(entries, context)
  const compiler = taskCompiler(areBranches ? [] : entries.map(({ key }) => key), context)
  const tasks = entries.map((entry, index) => compileTask(entry, compiler, index === 0 ? first : undefined))
  return tasks.filter((task) => task !== undefined)
}

/** A name without a value has its keys too far out; otherwise the second name is a task of its own. */
function singleHint(item: SourceNode): string {
  const [first, second] = item.kind === 'map' ? item.entries : []
  if (first?.value.kind === 'map' && second?.value.kind === 'map')
    return `Put \`- \` before \`${second.key}:\`, too: it is a task of its own.`
  return 'Write `- name:`, and indent the keys of the task by two more spaces.'
}

/** Compiles a task that is not part of a list, such as a function. */
export function compileSingleTask(entry: MapEntry, context: CompileContext): TaskNode | undefined {
  return compileTask(entry, taskCompiler([], context))
}

/** @param names the tasks that a directive may refer to */
function taskCompiler(names: readonly string[], context: CompileContext): TaskCompiler {
  return {
    context,
    tasks: (nested, variables = []) => context.withVariables(variables, () => compileTasks(nested, context)),
    branches: (nested) => compileTasks(nested, context, { areBranches: true }),
    target: (value) => compileTarget(value, names, context),
  }
}

function checkNames(entries: readonly MapEntry[], context: CompileContext): void {
  const seen = new Set<string>()
  for (const { key, at } of entries) {
    if (seen.has(key))
      context.report('task_name_duplicate', at, `Two tasks of this list are named \`${key}\`.`)
    if (DIRECTIVES.includes(key)) context.report('task_name_reserved', at, `No task can be named \`${key}\`.`)
    if (key === '') context.report('value_invalid', at, 'A task needs a name.')
    seen.add(key)
  }
}

function compileTarget(
  value: SourceNode,
  names: readonly string[],
  context: CompileContext,
): string | undefined {
  const name = context.text(value, '`then`')
  if (name === undefined || DIRECTIVES.includes(name) || names.includes(name)) return name
  const message = `There is no task \`${name}\` in this list.`
  return context.reportUnknown('unknown_target', value, message, name, [...names, ...DIRECTIVES])
}

/** @param given what is known of its raw input */
function compileTask(
  { key, at, value }: MapEntry,
  compiler: TaskCompiler,
  inherited?: Shape,
): TaskNode | undefined {
  const { context } = compiler
  if (value.pointer.length > POINTER_CHARS_MAX) {
    const message = `The pointer of this task has more than ${POINTER_CHARS_MAX} characters. Use shorter task names.`
    return context.report('nesting_too_deep', at, message)
  }
  const task = context.map(value, `The task \`${key}\``)
  const type = task && typeOf(task, key, at, context)
  const common = task && context.withInput(undefined, () => compileCommon(task, compiler))
  if (task === undefined || type === undefined) return undefined
  context.keys(task, `the task \`${key}\``, [...type.keys, ...COMMON_KEYS])
  const extensions = context.extensions.forKind(type.kind)
  const shared = {
    name: key,
    pointer: value.pointer,
    ...common,
    ...(extensions.length > 0 && { extensions }),
  }
  if (type.kind === 'call' && callsComponent(task, context)) {
    return { kind: 'do', ...shared, body: compileComponentCall(task, context, compileSingleTask) }
  }
  const { schema, from } = common?.input ?? {}
  const input = from === undefined ? (shapeOfSchema(schema) ?? inherited) : undefined
  return { kind: type.kind, ...shared, body: context.withInput(input, () => type.compile(task, compiler)) }
}

function typeOf(task: MapNode, name: string, at: Location, context: CompileContext): TaskType | undefined {
  const named = TASKS.filter(({ kind }) => entryOf(task, kind) !== undefined)
  // `do` is a key of `for` too.
  const types = named.filter(({ kind }) => !named.some((other) => other.keys.indexOf(kind) > 0))
  const [type, other] = types
  if (other !== undefined) {
    const message = `The task \`${name}\` has two types: \`${type?.kind}\` and \`${other.kind}\`.`
    return context.report('task_kind_ambiguous', entryOf(task, other.kind)?.at ?? at, message)
  }
  return type ?? reportMissingKind(task, name, at, context)
}

/** Points at the first unknown key, the likely typo, or else at the task. */
function reportMissingKind(task: MapNode, name: string, at: Location, context: CompileContext): undefined {
  const kinds = TASKS.map(({ kind }) => kind)
  const unknown = task.entries.find(({ key }) => ![...COMMON_KEYS, 'with'].includes(key))
  const message = `The task \`${name}\` has no type.`
  const key = unknown?.key ?? ''
  return context.reportUnknown(
    'task_kind_missing',
    unknown?.at ?? at,
    message,
    key,
    kinds,
    fieldOf(KEYS, key),
  )
}

function compileCommon(task: MapNode, { context, target, tasks }: TaskCompiler): Partial<TaskNode> {
  const directive = valueAt(task, 'then')
  const compensate = valueAt(task, 'compensate')
  const metadata = context.optionalMap(task, 'metadata')
  return omitUndefined({
    if: context.optionalCondition(task, 'if', SCOPES.task),
    next: directive && target(directive),
    input: compileInput(task, SCOPES.taskInput, context),
    output: compileOutput(task, SCOPES.task, context),
    export: compileExport(task, context),
    timeoutMs: compileTimeout(task, SCOPES.task, context),
    // Metadata is arbitrary data: text in it that looks like an expression is text.
    metadata: metadata && nodeToJson(metadata),
    compensate: compensate && tasks(compensate),
    onFault: context.optionalChoice(task, 'onFault', ON_FAULT),
  })
}
