/** Describes JSON Schemas of the OpenAPI document as lists of fields, and makes examples of them. */

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly example?: unknown
  readonly examples?: readonly unknown[]
}
export type Schemas = Readonly<Record<string, Schema>>

/** Fields below fields are listed to this depth; the document has them all. */
const DEPTH_MAX = 4
/** Values of an enumeration that are listed. */
const VALUES_MAX = 12

/** Replaces a reference by its schema, and parts that all apply by one. */
export function resolve(schema: Schema, schemas: Schemas): Schema {
  if (schema.$ref !== undefined) {
    const { $ref, ...more } = schema
    const named = schemas[$ref.replace('#/components/schemas/', '')]
    return { ...(named && resolve(named, schemas)), ...more }
  }
  const { allOf, ...own } = schema
  if (allOf === undefined) return schema
  const parts = allOf.map((part) => resolve(part, schemas))
  return {
    ...Object.assign({}, ...parts),
    ...own,
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  }
}

/** The alternatives of a schema without `null`, and whether it may be `null`. */
function alternatives(
  schema: Schema,
  schemas: Schemas,
): { readonly some: Schema[]; readonly nullable: boolean } {
  const all = (schema.anyOf ?? schema.oneOf ?? [schema]).map((one) => resolve(one, schemas))
  const some = all.filter(({ type }) => type !== 'null')
  return { some, nullable: some.length < all.length }
}

function typeOf(given: Schema, schemas: Schemas): string {
  const schema = resolve(given, schemas)
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``
  if (schema.enum !== undefined) {
    const values = schema.enum.slice(0, VALUES_MAX).map((value) => `\`${String(value)}\``)
    return `${values.join(', ')}${schema.enum.length > VALUES_MAX ? ' …' : ''}`
  }
  const { some, nullable } = alternatives(schema, schemas)
  if (some.length !== 1 || nullable)
    return [...new Set([...some.map((one) => typeOf(one, schemas)), ...(nullable ? ['null'] : [])])].join(
      ' or ',
    )
  if (schema.items !== undefined) return `array of ${typeOf(schema.items, schemas)}`
  const named = Array.isArray(schema.type) ? schema.type.join(' or ') : (schema.type as string | undefined)
  return schema.format === undefined ? (named ?? 'any value') : `${named} (${schema.format})`
}

/** One line of a list, without its indentation. */
export function fieldLine(name: string, schema: Schema, required: boolean, schemas: Schemas): string {
  const { description, default: preset } = resolve(schema, schemas)
  const facts = [typeOf(schema, schemas), ...(required ? ['required'] : [])].join(', ')
  const defaults = preset === undefined ? '' : ` Default: \`${JSON.stringify(preset)}\`.`
  return `- \`${name}\`: ${facts}.${description === undefined ? '' : ` ${description.replaceAll(/\s+/g, ' ')}`}${defaults}`
}

/** The fields of an object as a list, those of its objects indented below them. */
export function fieldList(given: Schema, schemas: Schemas, depth = 0): string[] {
  if (depth === DEPTH_MAX) return []
  const schema = resolve(given, schemas)
  const inside = schema.items === undefined ? alternatives(schema, schemas).some : [schema.items]
  if (inside.length === 1 && inside[0] !== schema) return fieldList(inside[0] ?? {}, schemas, depth)
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    `${'  '.repeat(depth)}${fieldLine(name, field, schema.required?.includes(name) ?? false, schemas)}`,
    ...fieldList(field, schemas, depth + 1),
  ])
}

const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-11-30T12:00:00.000Z',
  date: '2026-11-30',
  uuid: '01937d6e-8a00-7c3f-9b1e-2f6c1d5e4a3b',
  uri: 'https://example.com/',
  email: 'mia@example.com',
}
/** Ids are a prefix and 26 letters and digits. */
const ID_PATTERN = /^\^\(?(\w+?_)\[0-9a-/

const WORKSPACE = 'ws_01jdz8q2w4e6r8t0y2a4s6d8f0'
/** Texts whose schema says nothing else, by the name of their field. */
const NAMES: Readonly<Record<string, string>> = {
  ws: WORKSPACE,
  workspace_id: WORKSPACE,
  collection: 'todos',
  name: 'todos',
  bucket: 'acme-files',
  key: 'notes/today.txt',
  flow: 'order',
  topic: 'orders',
  email: 'mia@example.com',
}

/** An example of a value: one that the schema gives, else one made of its types, with required fields alone. */
export function exampleOf(given: Schema, schemas: Schemas, name = '', depth = 0): unknown {
  const schema = resolve(given, schemas)
  const own = schema.example ?? schema.examples?.[0] ?? schema.const ?? schema.default ?? schema.enum?.[0]
  if (own !== undefined) return own
  const { some } = alternatives(schema, schemas)
  if (some.length === 0) return null
  if (some[0] !== schema) return exampleOf(some[0] ?? {}, schemas, name, depth)
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'array')
    return depth > DEPTH_MAX ? [] : [exampleOf(schema.items ?? {}, schemas, name, depth + 1)]
  if (name === 'document' && schema.properties === undefined) return { title: 'Buy milk', done: false }
  if (type === 'object' || schema.properties !== undefined) return exampleObject(schema, schemas, depth)
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1
  if (type === 'boolean') return true
  if (type === undefined) return {}
  const prefix = ID_PATTERN.exec(schema.pattern ?? '')?.[1]
  return prefix === undefined
    ? (FORMATS[schema.format ?? ''] ?? NAMES[name] ?? 'text')
    : `${prefix}01jdz8q2w4e6r8t0y2a4s6d8f0`
}

function exampleObject({ properties = {}, required = [] }: Schema, schemas: Schemas, depth: number): unknown {
  if (depth > DEPTH_MAX) return {}
  const fields = Object.entries(properties).filter(([name]) => required.includes(name))
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(field, schemas, name, depth + 1)]))
}
