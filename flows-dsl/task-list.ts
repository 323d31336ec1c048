/**
 * Knows how a list of tasks is compiled: names first, so that every directive can be checked against them.
 */

import { type Checker, choiceBelow, SCOPES } from './checker.ts'
import { compileExport, compileInput, compileOutput, compileTimeout } from './data-flow.ts'
import type { Json, TaskNode } from './ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type Place, plainOf } from './located.ts'
import { TASKS } from './tasks/index.ts'
import type { Compiling, TaskType } from './tasks/task.ts'
import { callsDeclared, compileDeclaredCall } from './use/functions.ts'

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

/** Pointers are kept with each task and step, so long ones within each other would cost the product of both. */
const POINTER_CHARS_MAX = 1_000

/**
 * Compiles a list of single-key mappings. Answers undefined where nothing of it can be run.
 * @param apart says that the tasks do not follow each other, so that none can name another
 */
export function compileTasks(
  list: Located,
  checker: Checker,
  apart = false,
): readonly TaskNode[] | undefined {
  if (list.kind !== 'list' || list.items.length === 0) {
    return checker.fault('wrong_type', list, 'Tasks must be a list of named tasks, at least one.')
  }
  const entries = list.items.map((item) => entryIn(item, checker)).filter((entry) => entry !== undefined)
  const names = apart ? [] : entries.map(({ key }) => key)
  refuseNames(entries, checker)
  const compiling = compilingFor(names, checker)
  return entries.map((entry) => compileTask(entry, compiling)).filter((task) => task !== undefined)
}

/** Compiles a task that stands in no list, such as a function. */
export function compileAlone(entry: LocatedEntry, checker: Checker): TaskNode | undefined {
  return compileTask(entry, compilingFor([], checker))
}

/** @param names what a directive of the tasks may name */
function compilingFor(names: readonly string[], checker: Checker): Compiling {
  return {
    checker,
    tasks: (nested, variables = []) => checker.within(variables, () => compileTasks(nested, checker)),
    branches: (nested) => compileTasks(nested, checker, true),
    target: (value) => compileTarget(value, names, checker),
  }
}

function entryIn(item: Located, checker: Checker): LocatedEntry | undefined {
  const [entry, ...more] = item.kind === 'map' ? item.entries : []
  if (entry !== undefined && more.length === 0) return entry
  const hint = 'Write `- name:` and the keys of the task two spaces further in.'
  return checker.fault(
    'task_not_single',
    more[0]?.at ?? item,
    'A task must be one name with its keys below.',
    hint,
  )
}

function refuseNames(entries: readonly LocatedEntry[], checker: Checker): void {
  const seen = new Set<string>()
  for (const { key, at } of entries) {
    if (seen.has(key))
      checker.fault('task_name_duplicate', at, `Two tasks of this list are named \`${key}\`.`)
    if (DIRECTIVES.includes(key)) checker.fault('task_name_reserved', at, `No task can be named \`${key}\`.`)
    if (key === '') checker.fault('value_invalid', at, 'A task needs a name.')
    seen.add(key)
  }
}

function compileTarget(value: Located, names: readonly string[], checker: Checker): string | undefined {
  const name = checker.text(value, '`then`')
  if (name === undefined || DIRECTIVES.includes(name) || names.includes(name)) return name
  const message = `There is no task \`${name}\` in this list.`
  return checker.unknown('unknown_target', value, message, name, [...names, ...DIRECTIVES])
}

function compileTask({ key, at, value }: LocatedEntry, compiling: Compiling): TaskNode | undefined {
  const { checker } = compiling
  if (value.pointer.length > POINTER_CHARS_MAX) {
    const message = `The names on the way to this task have more than ${POINTER_CHARS_MAX} characters together.`
    return checker.fault('nesting_too_deep', at, message)
  }
  const task = checker.map(value, `The task \`${key}\``)
  const type = task && kindOf(task, key, at, checker)
  const common = task && compileCommon(task, compiling)
  if (task === undefined || type === undefined) return undefined
  checker.keys(task, `the task \`${key}\``, [...type.keys, ...COMMON_KEYS])
  const extensions = checker.extended.of(type.kind)
  const shared = {
    name: key,
    pointer: value.pointer,
    ...common,
    ...(extensions.length > 0 && { extensions }),
  }
  if (type.kind === 'call' && callsDeclared(task, checker)) {
    return { kind: 'do', ...shared, body: compileDeclaredCall(task, checker, compileAlone) }
  }
  return { kind: type.kind, ...shared, body: type.compile(task, compiling) }
}

function kindOf(task: LocatedMap, name: string, at: Place, checker: Checker): TaskType | undefined {
  const named = TASKS.filter(({ kind }) => entryOf(task, kind) !== undefined)
  // `do` is a key of `for` too.
  const kinds = named.filter(({ kind }) => !named.some((other) => other.keys.indexOf(kind) > 0))
  const [type, other] = kinds
  if (other !== undefined) {
    const message = `The task \`${name}\` is \`${type?.kind}\` and \`${other.kind}\` at once.`
    return checker.fault('task_kind_ambiguous', entryOf(task, other.kind)?.at ?? at, message)
  }
  return type ?? noKind(task, name, at, checker)
}

/** The key that is not known is the likely typo; without one the task as a whole is at fault. */
function noKind(task: LocatedMap, name: string, at: Place, checker: Checker): undefined {
  const kinds = TASKS.map(({ kind }) => kind)
  const odd = task.entries.find(({ key }) => ![...COMMON_KEYS, 'with'].includes(key))
  const message = `The task \`${name}\` does not say what it does.`
  return checker.unknown('task_kind_missing', odd?.at ?? at, message, odd?.key ?? '', kinds)
}

function compileCommon(task: LocatedMap, compiling: Compiling): Partial<TaskNode> {
  const { checker, target } = compiling
  const condition = entryOf(task, 'if')?.value
  const directive = entryOf(task, 'then')?.value
  const test = condition && checker.condition(condition, '`if`', SCOPES.task)
  const next = directive && target(directive)
  const input = compileInput(task, SCOPES.taskInput, checker)
  const output = compileOutput(task, SCOPES.task, checker)
  const exported = compileExport(task, checker)
  const timeoutMs = compileTimeout(task, SCOPES.task, checker)
  const metadata = compileMetadata(task, checker)
  return {
    ...(test !== undefined && { if: test }),
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(exported !== undefined && { export: exported }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(metadata !== undefined && { metadata }),
    ...(next !== undefined && { next }),
    ...compileUndoing(task, compiling),
  }
}

/** What undoes a task gets the input and the output of the task as its data. */
function compileUndoing(
  task: LocatedMap,
  { checker, tasks }: Compiling,
): Pick<TaskNode, 'compensate' | 'onFault'> {
  const list = entryOf(task, 'compensate')?.value
  const compensate = list && tasks(list)
  return { ...(compensate !== undefined && { compensate }), ...compileOnFault(task, checker) }
}

/** What becomes of a task, or of the flow, where it faults: it waits for somebody to decide, or it fails. */
export function compileOnFault(map: LocatedMap, checker: Checker): { onFault?: 'hold' | 'fail' } {
  if (entryOf(map, 'onFault') === undefined) return {}
  const onFault = choiceBelow(map, 'onFault', ['fail', 'hold'], checker)
  return onFault === undefined ? {} : { onFault }
}

/** Whatever the author likes, as it stands: text in it that looks like an expression is text. */
function compileMetadata(task: LocatedMap, checker: Checker): Json | undefined {
  const given = entryOf(task, 'metadata')?.value
  const map = given && checker.map(given, '`metadata`')
  return map && plainOf(map)
}
