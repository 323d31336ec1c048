/** Compiles calls of functions that the flow declares, and resolves names with a catalog (OWS 1.0 "Catalogs"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import {
  entryOf,
  type MapEntry,
  type MapNode,
  type ScalarNode,
  type SourceNode,
  valueAt,
} from '../compile/source-nodes.ts'
import type { TaskNode } from '../ir.ts'

type CompileTask = (entry: MapEntry, context: CompileContext) => TaskNode | undefined

/** Tests if a task calls a function under `use.functions`. */
export function callsComponent(task: MapNode, context: CompileContext): boolean {
  const name = valueAt(task, 'call')
  return name?.kind === 'scalar' && context.components.has('functions', String(name.value))
}

/** Compiles such a call to a `do` of a `set` with the arguments, if there are any, and the task: the machine knows no functions. */
export function compileComponentCall(
  task: MapNode,
  context: CompileContext,
  compileTask: CompileTask,
): { readonly tasks: readonly TaskNode[] } | undefined {
  const name = valueAt(task, 'call')
  if (name?.kind !== 'scalar') return undefined
  const callback = entryOf(task, 'awaitCallback')
  if (callback !== undefined) {
    const message =
      'Put `awaitCallback` on the call within the function, whose arguments contain the callback URL.'
    return context.report('value_invalid', callback.at, message)
  }
  const args = compileArguments(task, context)
  const called = context.extensions.isEnabled
    ? context.components.resolve('functions', name, (entry) => compileTask(entry, context))
    : context.components.resolve('functions', name, (entry) => compileTask(relocateEntry(entry), context), [
        'plain',
      ])
  return args && called && { tasks: [...args, called] }
}

function compileArguments(task: MapNode, context: CompileContext): readonly TaskNode[] | undefined {
  const node = valueAt(task, 'with')
  if (node === undefined) return []
  const map = context.map(node, '`with`')
  const value = map && context.fields(map, SCOPES.task)
  return value && [{ kind: 'set', name: 'with', pointer: node.pointer, body: { value } }]
}

/** The function for calls by extensions: not extended itself, or it would never end. Pointers are unique per task, so it gets others. */
function relocateEntry({ key, at, value }: MapEntry): MapEntry {
  return { key, at, value: relocate(value) }
}

function relocate(value: SourceNode): SourceNode {
  const pointer = value.pointer.replace(/^\/use\/functions/, '/use/extensions/functions')
  if (value.kind === 'list') return { ...value, pointer, items: value.items.map(relocate) }
  if (value.kind !== 'map') return { ...value, pointer }
  return { ...value, pointer, entries: value.entries.map(relocateEntry) }
}

/** The catalog of the platform (OWS 1.0 "Default Catalog"). */
const DEFAULT = 'default'
const CATALOGUED = /^(?<name>[^:@/\s]+)(?::(?<version>[^:@/\s]+))?@(?<catalog>[^:@/\s]+)$/
/** All platform functions have this one version. */
const VERSIONS = ['1', '1.0', '1.0.0']

/** Checks a catalog. Its content is never loaded. */
export function compileCatalog({ key, at, value }: MapEntry, context: CompileContext): true | undefined {
  const map = context.map(value, `The catalog \`${key}\``, ['endpoint'])
  if (map === undefined) return undefined
  const endpoint = context.required(map, `The catalog \`${key}\``, 'endpoint')
  if (endpoint?.kind === 'map') {
    context.keys(endpoint, '`endpoint`', ['uri', 'authentication'])
    context.requiredText(endpoint, '`endpoint`', 'uri')
    context.optionalMap(endpoint, 'authentication')
  } else if (endpoint !== undefined) context.text(endpoint, '`endpoint`')
  if (key !== DEFAULT) return true
  const message = 'No catalog can be named `default`, which is the catalog of the platform.'
  return context.report('value_invalid', at, message)
}

/**
 * The name of a function without its catalog: `collection.get` of `collection.get:1.0.0@default`. Reports functions of
 * catalogs other than the platform's.
 */
export function resolveCatalogName(reference: ScalarNode, context: CompileContext): string | undefined {
  const text = String(reference.value)
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const hint = 'Declare the task under `use.functions`, or call it by `http`.'
    const message = 'Functions at a URL are part of the language, but the platform does not load them.'
    return context.report('unsupported_catalog', reference, message, hint)
  }
  const { name, version, catalog } = CATALOGUED.exec(text)?.groups ?? {}
  if (name === undefined || catalog === undefined) return text
  if (catalog !== DEFAULT) return reportForeignCatalog(catalog, reference, context)
  if (version === undefined || VERSIONS.includes(version)) return name
  const message = `There is no version \`${version}\` of \`${name}\`.`
  return context.report('unknown_function', reference, message, `Write ${name}:1.0.0@default.`)
}

function reportForeignCatalog(catalog: string, reference: ScalarNode, context: CompileContext): undefined {
  if (!context.components.has('catalogs', catalog)) {
    const names = context.components.names('catalogs')
    const message = `There is no catalog \`${catalog}\` in \`use.catalogs\`.`
    return context.reportUnknown('unknown_reference', reference, message, catalog, [...names, DEFAULT])
  }
  const hint =
    'Use functions of the platform, which are in the catalog `default`, or functions declared under `use.functions`.'
  const message = 'Functions of other catalogs are part of the language, but the platform does not load them.'
  return context.report('unsupported_catalog', reference, message, hint)
}
