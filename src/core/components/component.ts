/** Names of schemas in OpenAPI documents: each is listed once under `components.schemas`, with an example. */

import type { TSchema } from 'typebox'

export interface Component {
  readonly name: string
  readonly schema: object
  /** Undefined for schemas of a workspace, which has given none. */
  readonly example: unknown
}

/** By the schema, and by its largest part. A schema has no member of it, or tools and flows would show it to callers. */
const COMPONENTS = new WeakMap<object, Component>()

/** The largest part of a schema, which its copies share: `Type.Optional` copies a schema, but not its members. */
function largestPart(schema: object): object {
  const { properties, anyOf, allOf, patternProperties } = schema as Readonly<Record<string, object>>
  return properties ?? anyOf ?? allOf ?? patternProperties ?? schema
}

/**
 * Names a schema in OpenAPI documents. The schema itself stays as it is.
 * @param name in PascalCase, singular, unique among all schemas
 * @param example a value that the schema allows, which test/contract checks
 * @returns the schema
 * @example
 * ```ts
 * const Note = component('Note', Type.Object({ id: Type.String(), title: Type.String() }), {
 *   id: 'note_1',
 *   title: 'Milk',
 * })
 * componentOf(Type.Optional(Note))?.name // 'Note'
 * ```
 */
export function component<T extends TSchema>(name: string, schema: T, example?: unknown): T {
  const made: Component = { name, schema, example }
  COMPONENTS.set(schema, made)
  COMPONENTS.set(largestPart(schema), made)
  return schema
}

/** The component of a schema, or of the schema that it is a copy of; undefined if it has no name. */
export const componentOf = (schema: object): Component | undefined =>
  COMPONENTS.get(schema) ?? COMPONENTS.get(largestPart(schema))

type Members = Readonly<Record<string, unknown>>

/**
 * The example of a named object, for the examples of schemas that contain it.
 * @throws TypeError if the schema has no name
 */
export function exampleOf(schema: TSchema): Members {
  const found = componentOf(schema)
  if (found === undefined) throw new TypeError('the schema has no name, and so no example')
  return found.example as Members
}

/** The example of a named object without some of its members, for a schema that lacks them. */
export const exampleWithout = (schema: TSchema, ...names: readonly string[]): Members =>
  Object.fromEntries(Object.entries(exampleOf(schema)).filter(([name]) => !names.includes(name)))
