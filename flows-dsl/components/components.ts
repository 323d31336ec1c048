/** Looks up the declarations of `use`: components by name, extensions by task kind, and secrets in expressions. */

import type { Location, MapEntry, MapNode, ScalarNode } from '../compile/source-nodes.ts'
import type { DiagnosticList } from '../diagnostics/diagnostics.ts'
import type { Extension, Template } from '../ir.ts'
import { childrenOf, type Expression } from '../jq/expression.ts'

export const SECTIONS = ['authentications', 'catalogs', 'errors', 'functions', 'retries', 'timeouts'] as const
type Section = (typeof SECTIONS)[number]

/** Functions that call functions; each link of such a chain costs stack. */
const DEPTH_MAX = 32

type Compile<T> = (entry: MapEntry) => T | undefined
type Diagnostics = DiagnosticList & { isolated<T>(compile: () => T): T }

/** The reusable components of a definition, each compiled once. All callers of a section pass the same `compile`. */
export class Components {
  readonly #diagnostics: Diagnostics
  readonly #entries = new Map<Section, ReadonlyMap<string, MapEntry>>()
  readonly #compiled = new Map<string, unknown>()
  readonly #used = new Set<string>()
  /** Those that are being compiled, outermost first. */
  readonly #open = new Set<string>()

  constructor(diagnostics: Diagnostics) {
    this.#diagnostics = diagnostics
  }

  declare(section: Section, map: MapNode): void {
    this.#entries.set(section, new Map(map.entries.map((entry) => [entry.key, entry])))
  }

  has(section: Section, name: string): boolean {
    return this.#entries.get(section)?.has(name) === true
  }

  names(section: Section): readonly string[] {
    return [...(this.#entries.get(section)?.keys() ?? [])]
  }

  /**
   * Compiles the component with a name. Reports a name that is unknown or refers to itself.
   * @param scope other dependencies of the result, such as variables; part of the cache key
   */
  resolve<T>(
    section: Section,
    reference: ScalarNode,
    compile: Compile<T>,
    scope: readonly string[] = [],
  ): T | undefined {
    const name = String(reference.value)
    const entry = this.#entries.get(section)?.get(name)
    if (entry !== undefined) return this.#compileOnce(section, entry, compile, scope, reference)
    const message = `\`${name}\` is not declared in \`use.${section}\`.`
    return this.#diagnostics.reportUnknown('unknown_reference', reference, message, name, this.names(section))
  }

  /** Compiles the components that nothing refers to, for their diagnostics. */
  compileUnused(section: Section, compile: Compile<unknown>): void {
    for (const entry of this.#entries.get(section)?.values() ?? []) {
      if (!this.#used.has(`${section} ${entry.key}`))
        this.#compileOnce(section, entry, compile, [], entry.value)
    }
  }

  #compileOnce<T>(
    section: Section,
    entry: MapEntry,
    compile: Compile<T>,
    scope: readonly string[],
    at: Location,
  ): T | undefined {
    const key = [section, entry.key, ...scope].join(' ')
    // The type is safe: a section has one `compile`.
    if (this.#compiled.has(key)) return this.#compiled.get(key) as T | undefined
    if (this.#open.has(key)) {
      const message = `\`${entry.key}\` of \`use.${section}\` refers to itself.`
      return this.#diagnostics.report('circular_reference', at, message)
    }
    if (this.#open.size >= DEPTH_MAX) {
      return this.#diagnostics.report(
        'nesting_too_deep',
        at,
        `Components are nested more than ${DEPTH_MAX} levels deep.`,
      )
    }
    this.#used.add(`${section} ${entry.key}`)
    this.#open.add(key)
    const value = this.#diagnostics.isolated(() => compile(entry))
    this.#open.delete(key)
    this.#compiled.set(key, value)
    return value
  }
}

/** An extension and the kinds of tasks that it applies to. */
export type KindExtension = Extension & { readonly kinds: readonly string[] }

/** The extensions that apply to tasks being compiled (OWS 1.0 "Extension"). */
export class AppliedExtensions {
  #extensions: readonly KindExtension[] = []
  #isEnabled = true
  /** Tasks of one kind share one list, which keeps the compiled flow small in memory. */
  readonly #byKind = new Map<string, readonly Extension[]>()

  /** True if tasks that are compiled now are extended. */
  get isEnabled(): boolean {
    return this.#isEnabled
  }

  /** Compiles the extensions, whose own tasks are not extended. */
  define(compile: () => readonly KindExtension[]): void {
    this.#isEnabled = false
    this.#extensions = compile()
    this.#isEnabled = true
  }

  /** The extensions of a task kind, in the order of declaration. */
  forKind(kind: string): readonly Extension[] {
    if (!this.#isEnabled || this.#extensions.length === 0) return []
    const known = this.#byKind.get(kind)
    if (known !== undefined) return known
    const found = this.#extensions.filter(({ kinds }) => kinds.includes(kind))
    const extensions = found.map(({ kinds: _kinds, ...extension }) => extension)
    this.#byKind.set(kind, extensions)
    return extensions
  }
}

/** The secrets that an expression reads. `others`: it also uses `$secrets` without a literal name. */
export function secretsIn(expression: Expression): {
  readonly names: readonly string[]
  readonly others: boolean
} {
  const names: string[] = []
  return { others: !collectNames(expression, names), names }
}

/** The secrets that the expressions of a template read. */
export function secretsOf(template: Template): readonly string[] {
  if ('expression' in template) return secretsIn(template.expression).names
  if ('array' in template) return template.array.flatMap(secretsOf)
  return 'object' in template ? template.object.flatMap(([, value]) => secretsOf(value)) : []
}

/** @returns true if all secrets are read by name */
function collectNames(node: Expression, names: string[]): boolean {
  if (isSecrets(node)) return false
  if (
    node.op !== 'index' ||
    !isSecrets(node.of) ||
    node.key.op !== 'literal' ||
    typeof node.key.value !== 'string'
  )
    return childrenOf(node)
      .map((child) => collectNames(child, names))
      .every(Boolean)
  names.push(node.key.value)
  return true
}

function isSecrets(node: Expression): boolean {
  return node.op === 'variable' && node.name === 'secrets'
}
