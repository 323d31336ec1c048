/** Looks up what `use` declares: components by name, extensions by task kind, and the secrets that expressions read. */

import type { Expression } from '../expression/expression.ts'
import type { FaultList } from '../faults.ts'
import type { Extension, Template } from '../ir.ts'
import type { Located, LocatedEntry, LocatedMap, LocatedScalar } from '../located.ts'

export const SECTIONS = ['authentications', 'catalogs', 'errors', 'functions', 'retries', 'timeouts'] as const
type Section = (typeof SECTIONS)[number]

/** Functions that call functions; a chain costs stack at each link. */
const DEPTH_MAX = 32

type Compile<T> = (entry: LocatedEntry) => T | undefined

/** Whoever refers to a name brings what compiles it: the same for all of a section. */
export class Declarations {
  readonly #faults: FaultList & { apart<T>(read: () => T): T }
  readonly #entries = new Map<Section, ReadonlyMap<string, LocatedEntry>>()
  readonly #compiled = new Map<string, unknown>()
  readonly #asked = new Set<string>()
  /** Those that are being compiled at the moment, outermost first. */
  readonly #open = new Set<string>()

  constructor(faults: FaultList & { apart<T>(read: () => T): T }) {
    this.#faults = faults
  }

  declare(section: Section, map: LocatedMap): void {
    this.#entries.set(section, new Map(map.entries.map((entry) => [entry.key, entry])))
  }

  has(section: Section, name: string): boolean {
    return this.#entries.get(section)?.has(name) === true
  }

  names(section: Section): readonly string[] {
    return [...(this.#entries.get(section)?.keys() ?? [])]
  }

  /**
   * What a name stands for; one that is not there, or leads back to itself, is a fault of the place.
   * @param scope what else makes a difference, such as variables: a part of what "once" means
   */
  find<T>(
    section: Section,
    reference: LocatedScalar,
    compile: Compile<T>,
    scope: readonly string[] = [],
  ): T | undefined {
    const name = String(reference.value)
    const entry = this.#entries.get(section)?.get(name)
    if (entry !== undefined) return this.#once(section, entry, compile, scope, reference)
    const message = `There is nothing named \`${name}\` in \`use.${section}\`.`
    return this.#faults.unknown('unknown_reference', reference, message, name, this.names(section))
  }

  /** Compiles what nobody has asked for, so that its faults are seen too. */
  checkRest(section: Section, compile: Compile<unknown>): void {
    for (const entry of this.#entries.get(section)?.values() ?? []) {
      if (!this.#asked.has(`${section} ${entry.key}`)) this.#once(section, entry, compile, [], entry.value)
    }
  }

  #once<T>(
    section: Section,
    entry: LocatedEntry,
    compile: Compile<T>,
    scope: readonly string[],
    at: Located,
  ): T | undefined {
    const key = [section, entry.key, ...scope].join(' ')
    // A section has one kind of compiled form, which is that of `compile`.
    if (this.#compiled.has(key)) return this.#compiled.get(key) as T | undefined
    if (this.#open.has(key)) {
      const message = `\`${entry.key}\` of \`use.${section}\` leads back to itself.`
      return this.#faults.fault('circular_reference', at, message)
    }
    if (this.#open.size >= DEPTH_MAX) {
      return this.#faults.fault('nesting_too_deep', at, `Nested deeper than ${DEPTH_MAX}.`)
    }
    this.#asked.add(`${section} ${entry.key}`)
    this.#open.add(key)
    const value = this.#faults.apart(() => compile(entry))
    this.#open.delete(key)
    this.#compiled.set(key, value)
    return value
  }
}

/** An extension, and the kinds of tasks that it extends. */
export type ForKinds = Extension & { readonly kinds: readonly string[] }

export class Extended {
  #extensions: readonly ForKinds[] = []
  #isOn = true
  /** The same list at each task of a kind: written out they could be many. */
  readonly #found = new Map<string, readonly Extension[]>()

  /** Whether tasks that are compiled now are extended. */
  get isOn(): boolean {
    return this.#isOn
  }

  /** Extensions are compiled while nothing is extended, and extend all that is compiled after. */
  by(compile: () => readonly ForKinds[]): void {
    this.#isOn = false
    this.#extensions = compile()
    this.#isOn = true
  }

  /** What comes before and after tasks of a kind that are compiled now, in the order of declaration. */
  of(kind: string): readonly Extension[] {
    if (!this.#isOn || this.#extensions.length === 0) return []
    const known = this.#found.get(kind)
    if (known !== undefined) return known
    const found = this.#extensions.filter(({ kinds }) => kinds.includes(kind))
    const extensions = found.map(({ kinds: _kinds, ...extension }) => extension)
    this.#found.set(kind, extensions)
    return extensions
  }
}

/** `others` says that `$secrets` stands somewhere without a name behind it. */
interface SecretNames {
  readonly names: readonly string[]
  readonly others: boolean
}

export function secretsIn(expression: Expression): SecretNames {
  const names: string[] = []
  return { others: !collect(expression, names), names }
}

/** Names of the secrets that the expressions in a template read. */
export function secretsOf(template: Template): readonly string[] {
  if ('expression' in template) return secretsIn(template.expression).names
  if ('array' in template) return template.array.flatMap(secretsOf)
  return 'object' in template ? template.object.flatMap(([, value]) => secretsOf(value)) : []
}

/** A tree is plain JSON, so forms of expressions that come later are walked too. Answers whether all are named. */
function collect(tree: unknown, names: string[]): boolean {
  if (Array.isArray(tree)) return tree.map((one) => collect(one, names)).every(Boolean)
  if (typeof tree !== 'object' || tree === null) return true
  const node = tree as { readonly op?: string; readonly of?: unknown; readonly key?: unknown }
  if (node.op === 'literal') return true
  if (isSecrets(node)) return false
  const name = node.op === 'index' && isSecrets(node.of) ? literalOf(node.key) : undefined
  if (name === undefined) return collect(Object.values(node), names)
  names.push(name)
  return true
}

function isSecrets(node: unknown): boolean {
  const { op, name } = (node ?? {}) as { readonly op?: string; readonly name?: string }
  return op === 'variable' && name === 'secrets'
}

function literalOf(key: unknown): string | undefined {
  const { op, value } = (key ?? {}) as { readonly op?: string; readonly value?: unknown }
  return op === 'literal' && typeof value === 'string' ? value : undefined
}
