/** Compiles calls of functions that the flow declares, and resolves names with a catalog (OWS 1.0 "Catalogs"). */

import { type Checker, SCOPES } from '../checker.ts'
import type { TaskNode } from '../ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type LocatedScalar } from '../located.ts'

type CompileTask = (entry: LocatedEntry, checker: Checker) => TaskNode | undefined

/** Whether a task calls a function that the definition declares itself. */
export function callsDeclared(task: LocatedMap, checker: Checker): boolean {
  const name = entryOf(task, 'call')?.value
  return name?.kind === 'scalar' && checker.declared.has('functions', String(name.value))
}

/** The body of a `do`: first the arguments, where there are any, then the task. */
export function compileDeclaredCall(
  task: LocatedMap,
  checker: Checker,
  compileTask: CompileTask,
): { readonly tasks: readonly TaskNode[] } | undefined {
  const name = entryOf(task, 'call')?.value
  if (name?.kind !== 'scalar') return undefined
  const args = compileArguments(task, checker)
  const called = checker.extended.isOn
    ? checker.declared.find('functions', name, (entry) => compileTask(entry, checker))
    : checker.declared.find('functions', name, (entry) => compileTask(elsewhere(entry), checker), ['plain'])
  return args && called && { tasks: [...args, called] }
}

function compileArguments(task: LocatedMap, checker: Checker): readonly TaskNode[] | undefined {
  const given = entryOf(task, 'with')?.value
  if (given === undefined) return []
  const map = checker.map(given, '`with`')
  const value = map && checker.fields(map, SCOPES.task)
  return value && [{ kind: 'set', name: 'with', pointer: given.pointer, body: { value } }]
}

/**
 * The same function as extensions call it: not extended itself, or it would never end. A pointer names one task only,
 * so these have their own.
 */
function elsewhere({ key, at, value }: LocatedEntry): LocatedEntry {
  return { key, at, value: moved(value) }
}

function moved(value: Located): Located {
  const pointer = value.pointer.replace(/^\/use\/functions/, '/use/extensions/functions')
  if (value.kind === 'list') return { ...value, pointer, items: value.items.map(moved) }
  if (value.kind !== 'map') return { ...value, pointer }
  return { ...value, pointer, entries: value.entries.map(elsewhere) }
}

/** The name of the platform's own catalogue (OWS 1.0 "Default Catalog"). */
const DEFAULT = 'default'
const CATALOGUED = /^(?<name>[^:@/\s]+)(?::(?<version>[^:@/\s]+))?@(?<catalog>[^:@/\s]+)$/
/** All functions of the platform have the one version there is. */
const VERSIONS = ['1', '1.0', '1.0.0']

/** A catalogue is declared by where it is; nothing is ever loaded from there. */
export function compileCatalog({ key, at, value }: LocatedEntry, checker: Checker): true | undefined {
  const map = checker.map(value, `The catalog \`${key}\``)
  if (map === undefined) return undefined
  checker.keys(map, `the catalog \`${key}\``, ['endpoint'])
  const endpoint = checker.required(map, `The catalog \`${key}\``, 'endpoint')
  if (endpoint?.kind === 'map') {
    checker.keys(endpoint, '`endpoint`', ['uri', 'authentication'])
    const uri = checker.required(endpoint, '`endpoint`', 'uri')
    if (uri !== undefined) checker.text(uri, '`uri`')
    const authentication = entryOf(endpoint, 'authentication')?.value
    if (authentication !== undefined) checker.map(authentication, '`authentication`')
  } else if (endpoint !== undefined) checker.text(endpoint, '`endpoint`')
  if (key !== DEFAULT) return true
  const message = "No catalog can be named `default`; that one is the platform's own."
  return checker.fault('value_invalid', at, message)
}

/**
 * The name of a function without its catalogue: `collection.get` of `collection.get:1.0.0@default`. Undefined where
 * it is of a catalogue that is not the platform's, which is a fault.
 */
export function cataloguedName(reference: LocatedScalar, checker: Checker): string | undefined {
  const text = String(reference.value)
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const hint = 'Declare the task under `use.functions`, or call it by `http`.'
    const message = 'Functions at a URL are known to the language and not loaded from there.'
    return checker.fault('unsupported_catalog', reference, message, hint)
  }
  const { name, version, catalog } = CATALOGUED.exec(text)?.groups ?? {}
  if (name === undefined || catalog === undefined) return text
  if (catalog !== DEFAULT) return foreign(catalog, reference, checker)
  if (version === undefined || VERSIONS.includes(version)) return name
  const message = `There is no version \`${version}\` of \`${name}\`.`
  return checker.fault('unknown_function', reference, message, `Write ${name}:1.0.0@default.`)
}

function foreign(catalog: string, reference: LocatedScalar, checker: Checker): undefined {
  if (!checker.declared.has('catalogs', catalog)) {
    const names = checker.declared.names('catalogs')
    const message = `There is no catalog \`${catalog}\` in \`use.catalogs\`.`
    return checker.unknown('unknown_reference', reference, message, catalog, [...names, DEFAULT])
  }
  const hint = "Functions of the platform are in the catalog `default`; the flow's own under `use.functions`."
  const message = 'Functions of other catalogs are known to the language and not loaded.'
  return checker.fault('unsupported_catalog', reference, message, hint)
}
