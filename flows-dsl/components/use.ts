/** Compiles the section `use` of a definition: components, extensions and secrets (OWS 1.0 "Use"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { compileTimeoutPolicy } from '../compile/data-flow.ts'
import { entryOf, type MapEntry, type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { compileSingleTask, compileTasks } from '../compile/task-list.ts'
import { omitUndefined } from '../json.ts'
import { TASKS } from '../tasks/index.ts'
import { compileError } from '../tasks/raise.ts'
import { compileRetryPolicy } from '../tasks/try.ts'
import { compilePolicy } from './authentication.ts'
import { type KindExtension, SECTIONS } from './components.ts'
import { compileCatalog } from './functions.ts'

/** Secrets are stored under such names, too. */
export const SECRET_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,62}$/

/** OWS "composite": tasks that only run other tasks. */
const COMPOSITES = ['do', 'fork']

/** Declares components before anything refers to them, and compiles secrets and extensions. */
export function compileUse(flow: MapNode, context: CompileContext): void {
  const use = context.optionalMap(flow, 'use', [...SECTIONS, 'extensions', 'secrets'])
  if (use === undefined) return
  for (const section of SECTIONS) {
    const map = context.optionalMap(use, section)
    if (map !== undefined) context.components.declare(section, map)
  }
  context.declaredSecrets = compileSecrets(use, context)
  const list = valueAt(use, 'extensions')
  if (list !== undefined) context.extensions.define(() => compileExtensions(list, context))
}

/** Reports the diagnostics of components that nothing refers to. */
export function compileUnused(context: CompileContext): void {
  const { components } = context
  components.compileUnused('authentications', ({ value }) => compilePolicy(value, context))
  components.compileUnused('catalogs', (entry) => compileCatalog(entry, context))
  components.compileUnused('errors', ({ value }) => compileError(value, context))
  components.compileUnused('functions', (entry) => compileSingleTask(entry, context))
  components.compileUnused('retries', ({ value }) =>
    context.withVariables(['error'], () => compileRetryPolicy(value, context)),
  )
  components.compileUnused('timeouts', ({ value }) => compileTimeoutPolicy(value, SCOPES.task, context))
}

function compileExtensions(list: SourceNode, context: CompileContext): readonly KindExtension[] {
  if (list.kind !== 'list') {
    context.report('wrong_type', list, '`extensions` must be a list of named extensions.')
    return []
  }
  return list.items.flatMap((item) => {
    const entry = context.singleEntry(item, 'An extension must be one name with its keys below.')
    return (entry && compileExtension(entry, context)) ?? []
  })
}

function compileExtension({ key, at, value }: MapEntry, context: CompileContext): KindExtension | undefined {
  const map = context.map(value, `The extension \`${key}\``, ['extend', 'when', 'before', 'after'])
  if (map === undefined) return undefined
  const extend = context.required(map, `The extension \`${key}\``, 'extend')
  const kinds = extend && compileKinds(extend, context)
  const when = context.optionalCondition(map, 'when', SCOPES.taskInput)
  const [before, after] = ['before', 'after'].map((name) => {
    const tasks = valueAt(map, name)
    return tasks && compileTasks(tasks, context)
  })
  if (entryOf(map, 'before') === undefined && entryOf(map, 'after') === undefined) {
    return context.report('missing_key', at, `The extension \`${key}\` needs \`before\` or \`after\`.`)
  }
  return kinds && { name: key, kinds, ...omitUndefined({ when, before, after }) }
}

function compileKinds(extend: SourceNode, context: CompileContext): readonly string[] | undefined {
  const kind = context.text(extend, '`extend`')
  const kinds = TASKS.map((type) => type.kind)
  if (kind === undefined || kind === 'all') return kind && kinds
  if (kind === 'composite') return COMPOSITES
  if (kinds.includes(kind)) return [kind]
  const known = ['all', 'composite', ...kinds]
  return context.reportUnknown('value_invalid', extend, `There is no kind of task \`${kind}\`.`, kind, known)
}

/** The names under `use.secrets` (OWS 1.0 "Secret"). */
function compileSecrets(use: MapNode, context: CompileContext): readonly string[] {
  const list = valueAt(use, 'secrets')
  if (list?.kind !== 'list') {
    if (list !== undefined) context.report('wrong_type', list, '`secrets` must be a list of names.')
    return []
  }
  const names = new Set<string>()
  for (const item of list.items) {
    const name = context.text(item, 'The name of a secret')
    if (name === undefined) continue
    if (!SECRET_NAME.test(name)) {
      context.report('value_invalid', item, `\`${name}\` cannot be the name of a secret.`)
    } else if (names.has(name)) {
      context.report('value_invalid', item, `The secret \`${name}\` is declared twice.`)
    }
    names.add(name)
  }
  return [...names]
}
