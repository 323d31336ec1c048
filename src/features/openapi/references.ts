/** Replaces named schemas in an OpenAPI document by references, and lists them. */

import { isDeepStrictEqual } from 'node:util'
import { type Component, componentOf } from '../../core/components/component.ts'

type Json = Record<string, unknown>

/** Keywords that may stand beside a reference: they describe the place and not the schema. */
const ANNOTATIONS: ReadonlySet<string> = new Set(['title', 'description', 'default', 'deprecated'])

/**
 * Collects the named schemas of one document.
 * First {@link refer} copies each part of the document, and notes what it refers to; then {@link schemas} has all of that, with
 * the schemas that these refer to.
 */
export class ComponentSchemas {
  readonly #found = new Map<string, Component>()
  readonly #schemas: Json = {}

  /** The schemas that the values so far refer to, in the order of their names. */
  get schemas(): Json {
    return Object.fromEntries(Object.entries(this.#schemas).sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /**
   * A copy of a part of the document, with references in place of named schemas. A description that differs stays beside its
   * reference; a schema that shares its members with a named one, but allows other values, stays as it is.
   * @throws TypeError if two schemas have the same name
   */
  refer(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.refer(one))
    if (typeof value !== 'object' || value === null) return value
    const component = componentOf(value)
    const beside = component === undefined ? undefined : besideReference(value as Json, component)
    if (component === undefined || beside === undefined) return this.#members(value)
    this.#add(component)
    return { $ref: `#/components/schemas/${component.name}`, ...beside }
  }

  #add(component: Component): void {
    const { name, schema, example } = component
    const known = this.#found.get(name)
    if (known === component) return
    if (known !== undefined) throw new TypeError(`two schemas have the name ${name}`)
    this.#found.set(name, component)
    this.#schemas[name] = { ...this.#members(schema), ...(example !== undefined && { examples: [example] }) }
  }

  #members(value: object): Json {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.refer(member)]))
  }
}

/** The annotations of a schema that differ from those of its component; undefined if it allows other values. */
function besideReference(value: Json, { schema }: Component): Json | undefined {
  if (value === schema) return {}
  const named = schema as Json
  const names = [...new Set([...Object.keys(value), ...Object.keys(named)])]
  const differing = names.filter((name) => !isDeepStrictEqual(value[name], named[name]))
  if (differing.some((name) => !ANNOTATIONS.has(name) || value[name] === undefined)) return undefined
  return Object.fromEntries(differing.map((name) => [name, value[name]]))
}
