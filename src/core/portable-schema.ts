/**
 * JSON Schema in the form that clients and providers of models take (decision 54): an object without alternatives at the top, no
 * references, no lists of types, no `patternProperties`, no schema without a keyword that constrains. What is shown accepts every
 * value of the original, and perhaps more: values are checked against the original.
 */

import { isObject, unescapePointer } from './json.ts'

type Schema = Readonly<Record<string, unknown>>

/** Keywords whose values are schemas by name, lists of schemas, and schemas. */
const MAPS: ReadonlySet<string> = new Set(['properties', 'dependentSchemas'])
const LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const SCHEMAS: ReadonlySet<string> = new Set([
  ...['items', 'contains', 'propertyNames', 'not', 'if', 'then', 'else', 'contentSchema'],
  ...['additionalProperties', 'additionalItems'],
])
/** Their value may be a boolean everywhere. */
const OPEN: ReadonlySet<string> = new Set(['additionalProperties', 'additionalItems'])
/** Keywords with which a wider schema within accepts less, by those that count on them. */
const NEGATIVE: Readonly<Record<string, readonly string[]>> = {
  not: [],
  if: ['then', 'else'],
  contains: ['minContains', 'maxContains'],
}

/** Keywords that constrain values; other ones describe them. */
const CONSTRAINTS: ReadonlySet<string> = new Set([
  ...['type', 'enum', 'const', 'format', 'not', 'if'],
  ...['multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'],
  ...['maxLength', 'minLength', 'pattern', 'contentMediaType', 'contentEncoding', 'contentSchema'],
  ...['items', 'contains', 'maxItems', 'minItems', 'uniqueItems', 'maxContains', 'minContains'],
  ...['properties', 'patternProperties', 'propertyNames', 'maxProperties', 'minProperties'],
  ...['required', 'dependentRequired', 'dependentSchemas', 'dependencies'],
  ...LISTS,
  ...OPEN,
])
/** Left out: they name other schemas, or count what such schemas and patterns of names have accepted. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...['$ref', '$defs', 'definitions', '$schema', '$id', '$anchor', '$comment', '$vocabulary', 'nullable'],
  ...['$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor', 'id', 'dependencies'],
  ...['unevaluatedProperties', 'unevaluatedItems', 'patternProperties'],
])
/** Those of them that restrict nothing. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  ...['$defs', 'definitions', '$schema', '$id', '$anchor', '$comment', '$vocabulary', 'nullable'],
  ...['$dynamicAnchor', '$recursiveAnchor', 'id'],
])

const ANY = ['string', 'number', 'boolean', 'object', 'array', 'null'].map((type) => ({ type }))
/** Of arguments: OpenAI and Gemini refuse a list that does not say what its items are. */
const ANY_ITEM = ['string', 'number', 'boolean', 'object'].map((type) => ({ type }))
const LIST = { type: 'array', items: { anyOf: ANY_ITEM } }
const ANY_ARGUMENT = [...ANY_ITEM, LIST]

/** Patterns that every name matches. */
const EVERY_NAME: ReadonlySet<string> = new Set(['', '^', '.*', '^.*', '^.*$'])

/** Of one schema after its references are replaced; what is deeper or beyond accepts every value. */
const NODES_MAX = 3_000
const DEPTH_MAX = 40

const inputs = new WeakMap<object, Schema>()
const outputs = new WeakMap<object, Schema>()

/** The schema of arguments. Null is left out of the values, since a null where it is not allowed counts as no argument. */
export const portableInput = (schema: Schema): Schema => written(schema, inputs, true)

/** The schema of results. Clients check results against it, so that it accepts each null that the original accepts. */
export const portableOutput = (schema: Schema): Schema => written(schema, outputs, false)

function written(schema: Schema, known: WeakMap<object, Schema>, dropsNull: boolean): Schema {
  const before = known.get(schema)
  if (before !== undefined) return before
  const portable = withoutAlternatives(new Writer(schema, dropsNull).root(), dropsNull)
  known.set(schema, portable)
  return portable
}

interface Place {
  readonly depth: number
  /** The references that are being replaced. */
  readonly refs: readonly string[]
}

class Writer {
  readonly #root: Schema
  readonly #dropsNull: boolean
  readonly #any: readonly Schema[]
  #nodes = 0
  /** How many parts accept more than in the original. */
  #widened = 0

  constructor(root: Schema, dropsNull: boolean) {
    this.#root = root
    this.#dropsNull = dropsNull
    this.#any = dropsNull ? ANY_ARGUMENT : ANY
  }

  root(): Schema {
    return this.#write(this.#root, { depth: 0, refs: [] }) as Schema
  }

  #write(source: unknown, at: Place): unknown {
    this.#nodes += 1
    if (typeof source === 'boolean') return source ? { anyOf: this.#any } : { not: {} }
    if (!isObject(source)) return source
    if (this.#nodes > NODES_MAX || at.depth > DEPTH_MAX) return this.#cut(source)
    const { schema, refs } = this.#resolved(source, at.refs)
    const inside = { depth: at.depth + 1, refs }
    const node = this.#withoutNull(this.#withoutPatterns(schema))
    const keywords = Object.entries(node).filter(([keyword]) => !LEFT_OUT.has(keyword))
    const unknown = Object.keys(node).some((one) => LEFT_OUT.has(one) && !WITHOUT_EFFECT.has(one))
    if (unknown) this.#widened += 1
    const dropped = new Set<string>()
    const found = keywords.flatMap(([keyword, value]): [string, unknown][] => {
      const before = this.#widened
      const one = this.#keyword(keyword, value, inside)
      const isWider = this.#widened > before
      if (isWider && Object.hasOwn(NEGATIVE, keyword)) {
        for (const name of [keyword, ...(NEGATIVE[keyword] ?? [])]) dropped.add(name)
        return []
      }
      return [[isWider && keyword === 'oneOf' && node['anyOf'] === undefined ? 'anyOf' : keyword, one]]
    })
    const kept = found.filter(([keyword, value]) => !dropped.has(keyword) && value !== undefined)
    return this.#complete(Object.fromEntries(kept))
  }

  /** With a keyword that constrains; of arguments, with items of each list. */
  #complete(node: Schema): Schema {
    if (isOpen(node)) return { ...node, anyOf: this.#any }
    const listed =
      this.#dropsNull && node['type'] === 'array' && !hasItems(node) ? { ...node, ...LIST } : node
    return withoutTypeList(listed, (type) =>
      type === 'array' && this.#dropsNull && !hasItems(node) ? LIST : { type },
    )
  }

  /** Keeps the type and the texts. */
  #cut({ type, title, description }: Schema): Schema {
    this.#widened += 1
    const texts = { ...(title !== undefined && { title }), ...(description !== undefined && { description }) }
    return this.#complete({ ...(typeof type === 'string' && { type }), ...texts })
  }

  #keyword(keyword: string, value: unknown, at: Place): unknown {
    if (keyword === 'not' && isOpen(value)) return {}
    if (MAPS.has(keyword) && isObject(value))
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#write(one, at)]))
    if (LISTS.has(keyword) || (keyword === 'items' && Array.isArray(value)))
      return Array.isArray(value) ? value.map((one) => this.#write(one, at)) : value
    if (OPEN.has(keyword) && (typeof value === 'boolean' || isOpen(value))) return value !== false
    return SCHEMAS.has(keyword) ? this.#write(value, at) : value
  }

  /** The schema with the target of its reference in it. A reference that leads to itself, or nowhere, is dropped. */
  #resolved(source: Schema, above: readonly string[]): { schema: Schema; refs: readonly string[] } {
    let schema = source
    let refs = above
    while (typeof schema['$ref'] === 'string') {
      const { $ref, ...others } = schema
      const target = refs.includes($ref as string) ? undefined : this.#target($ref as string)
      if (target === undefined) this.#widened += 1
      refs = [...refs, $ref as string]
      if (target !== undefined && !isDescription(others)) this.#widened += 1
      schema = target === undefined ? others : merged(target, others)
    }
    return { schema, refs }
  }

  #target(ref: string): Schema | undefined {
    if (!/^#(\/|$)/.test(ref)) return undefined
    let at: unknown = this.#root
    for (const part of ref.split('/').slice(1)) {
      const name = unescapePointer(part)
      if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
      at = (at as Schema)[name]
    }
    return isObject(at) ? at : undefined
  }

  /** An object whose values are all of one schema has it as `additionalProperties`; other patterns of names are dropped. */
  #withoutPatterns(node: Schema): Schema {
    const { patternProperties: patterns, additionalProperties, ...others } = node
    if (!isObject(patterns)) return node
    const [[pattern, schema] = ['?'], ...more] = Object.entries(patterns)
    const isAll = EVERY_NAME.has(pattern) && more.length === 0
    if (isAll && additionalProperties === undefined && others['properties'] === undefined)
      return { ...others, additionalProperties: schema }
    this.#widened += 1
    return others
  }

  #withoutNull(node: Schema): Schema {
    if (!this.#dropsNull) return node
    const { type, enum: values, default: value, anyOf, oneOf, ...others } = node
    const [types, isTyped] = without(type, 'null')
    const [kept, isKept] = without(values, null)
    const schema = {
      ...others,
      ...(type !== undefined && { type: types }),
      ...(values !== undefined && { enum: kept }),
      ...(value !== undefined && value !== null && { default: value }),
    }
    if (isTyped || isKept) this.#widened += 1
    const choice = anyOf === undefined ? 'oneOf' : 'anyOf'
    const alternatives = anyOf ?? oneOf
    if (!Array.isArray(alternatives))
      return { ...schema, ...(anyOf !== undefined && { anyOf }), ...(oneOf !== undefined && { oneOf }) }
    const some = alternatives.filter((one) => !isNull(one))
    const both = anyOf !== undefined && oneOf !== undefined ? { oneOf } : {}
    if (some.length === alternatives.length || some.length === 0)
      return { ...schema, ...both, [choice]: alternatives }
    this.#widened += 1
    const [only] = some
    return some.length === 1 && isObject(only) && isDescription(schema)
      ? { ...merged(only, schema), ...both }
      : { ...schema, ...both, [choice]: some }
  }
}

/** A list without one of its values, unless it has no other; a list of one type is this type. */
function without(list: unknown, value: unknown): readonly [list: unknown, isShorter: boolean] {
  if (!Array.isArray(list) || !list.includes(value)) return [list, false]
  const others = list.filter((one) => one !== value)
  if (others.length === 0) return [list, false]
  return [value === 'null' && others.length === 1 ? others[0] : others, true]
}

const isNull = (schema: unknown): boolean =>
  isObject(schema) &&
  (schema['type'] === 'null' ||
    schema['const'] === null ||
    (Array.isArray(schema['enum']) && schema['enum'].every((one) => one === null)))

const isDescription = (schema: Schema) =>
  !Object.keys(schema).some((key) => CONSTRAINTS.has(key) || key === '$ref')

/** A schema of values that fit both. Of one keyword in both, the second counts: the result accepts more. */
function merged(first: Schema, second: Schema): Schema {
  const union = (keyword: string) => [
    ...new Set([first[keyword], second[keyword]].flat().filter((one) => one !== undefined)),
  ]
  const properties = { ...Object(first['properties']), ...Object(second['properties']) }
  const required = union('required')
  const isClosed = first['properties'] !== undefined && second['properties'] !== undefined
  const schema: Record<string, unknown> = {
    ...first,
    ...second,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  }
  // Each closes the object for the members of the other.
  if (isClosed && first['additionalProperties'] !== second['additionalProperties'])
    delete schema['additionalProperties']
  return schema
}

/** True for a schema that accepts every value. */
const isOpen = (schema: unknown): boolean =>
  isObject(schema) && !Object.keys(schema).some((key) => CONSTRAINTS.has(key) || key === '$ref')

const hasItems = (node: Schema) => 'items' in node || 'prefixItems' in node

function withoutTypeList(node: Schema, typed: (type: unknown) => Schema): Schema {
  const { type, ...others } = node
  if (!Array.isArray(type)) return node
  const anyOf = type.map(typed)
  if (!('anyOf' in others)) return { ...others, anyOf }
  const all = Array.isArray(others['allOf']) ? others['allOf'] : []
  return { ...others, allOf: [...all, { anyOf }] }
}

/** An object whose alternatives are together in its members: those of all parts, required only if each alternative requires them. */
function withoutAlternatives(root: Schema, isInput: boolean): Schema {
  const { allOf = [], anyOf, oneOf, type: _type, ...own } = root
  const parts = (allOf as unknown[]).filter(isObject).map((part) => withoutAlternatives(part, isInput))
  const choices = [anyOf, oneOf].filter(Array.isArray) as unknown[][]
  const whole: Schema = { ...parts.reduce(merged, own), type: 'object' }
  return choices.reduce<Schema>((before, choice) => withChoice(before, choice, isInput), whole)
}

function withChoice(whole: Schema, choice: readonly unknown[], isInput: boolean): Schema {
  const parts = choice
    .filter(isObject)
    .filter(({ type = 'object' }) => type === 'object')
    .map((part) => withoutAlternatives(part, isInput))
  const { additionalProperties: _closed, properties: own, ...others } = whole
  const named = Object.groupBy(
    parts.flatMap(({ properties }) => Object.entries(Object(properties))),
    ([name]) => name,
  )
  // An alternative that does not name a member may take any value of it: models need a schema, results must not be refused.
  const visibleMembers = Object.entries(named).filter(
    ([, some = []]) => isInput || some.length === parts.length,
  )
  const members = visibleMembers.map(([name, some = []]) => [
    name,
    anyOfThese(some.map(([, schema]) => schema)),
  ])
  const requires = (part: Schema) => (part['required'] ?? []) as string[]
  const always = requires(parts[0] ?? {}).filter((name) =>
    parts.every((part) => requires(part).includes(name)),
  )
  const required = [...new Set([...requires(whole), ...always])]
  const properties = { ...Object.fromEntries(members), ...Object(own) }
  return {
    ...others,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  }
}

function anyOfThese(schemas: readonly unknown[]): unknown {
  const different = [...new Map(schemas.map((one) => [JSON.stringify(one), one])).values()]
  return different.length === 1 ? different[0] : { anyOf: different }
}
