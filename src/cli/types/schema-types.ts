/** Writes JSON Schemas as TypeScript types. */

type Schema = Readonly<Record<string, unknown>>

/** Deeper parts are `unknown`: nobody reads a type of so many levels. */
const LEVELS_MAX = 12

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const SCALARS: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
}

export interface TypeOptions {
  /** The name of the type that a `$ref` leads to; undefined for one that is not known. */
  readonly nameOf?: (ref: string) => string | undefined
  /** Blanks before the members of an object. */
  readonly indent?: string
}

/**
 * The type of the values that match a schema, as far as TypeScript can say it: patterns, lengths and bounds have no types.
 * @returns a type that can stand after a colon; objects have a member on each line
 * @example
 * typeOf({ type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }) // '{\n  readonly n: number\n}'
 */
export function typeOf(schema: unknown, { nameOf = () => undefined, indent = '' }: TypeOptions = {}): string {
  return write(schema, { nameOf, indent, level: 0 })
}

interface Writing {
  readonly nameOf: (ref: string) => string | undefined
  readonly indent: string
  readonly level: number
}

function write(schema: unknown, on: Writing): string {
  if (!isSchema(schema)) return schema === false ? 'never' : 'unknown'
  if (on.level > LEVELS_MAX) return 'unknown'
  const { $ref, enum: values, anyOf, oneOf, allOf, type } = schema
  if (typeof $ref === 'string') return on.nameOf($ref) ?? 'unknown'
  if ('const' in schema) return literal(schema['const'])
  if (Array.isArray(values)) return union(values.map(literal))
  const either = Array.isArray(anyOf) ? anyOf : oneOf
  if (Array.isArray(either)) return union(either.map((one) => write(one, on)))
  if (Array.isArray(allOf)) return intersection(allOf, schema, on)
  if (Array.isArray(type)) return union(type.map((one) => write({ ...schema, type: one }, on)))
  if (type === 'array') return arrayType(schema, on)
  if (type === 'object' || isSchema(schema['properties'])) return objectType(schema, on)
  return SCALARS[String(type)] ?? 'unknown'
}

/** Without the parts of which nothing is known. */
function intersection(parts: readonly unknown[], { allOf: _, ...own }: Schema, on: Writing): string {
  const written = [...parts, ...('properties' in own ? [own] : [])].map((part) => write(part, on))
  const known = written.filter((part) => part !== 'unknown' && part !== ANY_MEMBERS)
  return known.length === 0 ? (written[0] ?? 'unknown') : known.map(grouped).join(' & ')
}

function arrayType({ items, prefixItems }: Schema, on: Writing): string {
  if (Array.isArray(prefixItems)) {
    const rest = items === false || items === undefined ? [] : [`...${grouped(write(items, on))}[]`]
    return `readonly [${[...prefixItems.map((one) => write(one, on)), ...rest].join(', ')}]`
  }
  return `readonly ${grouped(write(items ?? {}, on))}[]`
}

const ANY_MEMBERS = 'Readonly<Record<string, unknown>>'

function objectType(
  { properties, required, additionalProperties, patternProperties }: Schema,
  on: Writing,
): string {
  const below = { ...on, indent: `${on.indent}  `, level: on.level + 1 }
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  const members = Object.entries(isSchema(properties) ? properties : {}).map(([name, member]) => {
    const mark = names.includes(name) ? '' : '?'
    return `${comment(member, below.indent)}${below.indent}readonly ${memberName(name)}${mark}: ${write(member, below)}\n`
  })
  const [pattern] = Object.values(isSchema(patternProperties) ? patternProperties : {})
  const others = isSchema(additionalProperties) ? additionalProperties : pattern
  if (members.length === 0)
    return others === undefined ? ANY_MEMBERS : `Readonly<Record<string, ${write(others, on)}>>`
  return `{\n${members.join('')}${on.indent}}`
}

/** The description of a member, as a comment before it. */
export function comment(schema: unknown, indent: string): string {
  const text = isSchema(schema) ? schema['description'] : undefined
  return typeof text === 'string' && text !== ''
    ? `${indent}/** ${text.replaceAll('*/', '* /').replace(/\s+/g, ' ')} */\n`
    : ''
}

/** A name as it is written before a colon. */
export const memberName = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name))

/** A text as a literal in single quotes. */
export const quote = (text: string): string =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll("'", "\\'").replaceAll('\\"', '"')}'`

const literal = (value: unknown): string => {
  if (typeof value === 'string') return quote(value)
  return typeof value === 'object' && value !== null ? 'unknown' : String(value)
}

const union = (types: readonly string[]): string => {
  const different = [...new Set(types)]
  return different.includes('unknown') ? 'unknown' : different.join(' | ') || 'never'
}

/** In parentheses where a sign would bind more tightly. */
const grouped = (type: string): string => (/ [|&] (?![^{]*\})|^readonly /.test(type) ? `(${type})` : type)
