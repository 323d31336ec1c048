/** Tells, before an expression is evaluated, of which types its value can be, as far as its text and the schema of the input say. */

import { fieldOf, isObject, type Json, type JsonObject } from '../json.ts'
import type { Expression } from './expression.ts'
import { typeOf as typeOfValue } from './write-json.ts'

export type ValueType = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object'

/** The types that a value can have; with a schema that it fits, those of its fields are known, too. */
export interface Shape {
  readonly types: ReadonlySet<ValueType>
  readonly schema?: JsonObject
}

/** The types of `.` and of the variables that an expression sees, as far as they are known. */
export interface KnownShapes {
  readonly dot?: Shape | undefined
  readonly variables: Readonly<Record<string, Shape | undefined>>
}

const shape = (...types: readonly ValueType[]): Shape => ({ types: new Set(types) })

const NULL = shape('null')
const BOOLEAN = shape('boolean')
const NUMBER = shape('number')
const TEXT = shape('string')
const ARRAY = shape('array')
const OBJECT = shape('object')

/** Builtins by the type of their value, whatever their arguments are. */
const RESULTS: readonly (readonly [Shape, string])[] = [
  [NUMBER, 'length tonumber floor ceil round fabs sqrt now mktime fromdate fromdateiso8601 utf8bytelength'],
  [TEXT, 'tostring tojson ascii_downcase ascii_upcase join implode type todate todateiso8601 strftime trim'],
  [BOOLEAN, 'test has in any all contains inside startswith endswith isempty isvalid'],
  [ARRAY, 'keys map sort sort_by group_by unique unique_by split to_entries flatten explode gmtime'],
  [OBJECT, 'from_entries with_entries'],
]
const BUILTINS: Readonly<Record<string, Shape>> = Object.fromEntries(
  RESULTS.flatMap(([result, names]) => names.split(' ').map((name) => [name, result])),
)

/** The type that a JSON Schema allows for a value; undefined if it says nothing of the type. */
export function shapeOfSchema(schema: Json | undefined): Shape | undefined {
  if (schema === undefined || !isObject(schema)) return undefined
  const { type, const: only, enum: some } = schema
  const values = only === undefined ? some : [only]
  if (type === undefined && Array.isArray(values)) return shape(...values.map(typeOfJson))
  const names = Array.isArray(type) ? type : type === undefined ? [] : [type]
  if (names.length === 0) return undefined
  const types = names.map((name) => (name === 'integer' ? 'number' : name) as ValueType)
  return { types: new Set(types), schema }
}

const typeOfJson = (value: Json) => typeOfValue(value) as ValueType

/** The shape of a value with these fields, as a schema would describe it. */
export function shapeOfFields(fields: Readonly<Record<string, Shape | undefined>>): Shape {
  const known = Object.entries(fields).flatMap(([key, field]) =>
    field?.schema === undefined ? [] : [[key, field.schema] as const],
  )
  return {
    ...OBJECT,
    schema: { type: 'object', required: Object.keys(fields), properties: Object.fromEntries(known) },
  }
}

/** The types that the value of an expression can have; undefined if nothing is known of it. */
export function shapeOf(expression: Expression, known: KnownShapes): Shape | undefined {
  const of = (inner: Expression) => shapeOf(inner, known)
  switch (expression.op) {
    case 'literal':
      return shape(typeOfJson(expression.value))
    case 'identity':
      return known.dot
    case 'variable':
      return fieldOf(known.variables, expression.name)
    case 'index':
      return expression.key.op === 'literal' ? fieldShape(of(expression.of), expression.key.value) : undefined
    case 'object':
      return OBJECT
    case 'array':
      return ARRAY
    case 'text':
    case 'format':
      return TEXT
    case 'negate':
      return NUMBER
    case 'not':
    case 'and':
    case 'or':
      return BOOLEAN
    case 'pipe':
      return shapeOf(expression.right, { ...known, dot: of(expression.left) })
    case 'alternative':
      return union(withoutNull(of(expression.left)), of(expression.right))
    case 'binary':
      return binaryShape(expression.operator, of(expression.left), of(expression.right))
    case 'if':
      return [
        ...expression.branches.map(([, then]) => then),
        expression.otherwise ?? ({ op: 'identity' } as const),
      ]
        .map(of)
        .reduce(union)
    case 'as':
      // The variables that it binds hide those of the same names.
      return shapeOf(expression.body, { ...known, variables: {} })
    case 'call':
      return fieldOf(BUILTINS, expression.name)
    case 'assign':
    case 'break':
    case 'comma':
    case 'define':
    case 'foreach':
    case 'iterate':
    case 'label':
    case 'reduce':
    case 'slice':
    case 'try':
      return undefined
  }
}

function fieldShape(of: Shape | undefined, key: Json): Shape | undefined {
  const { properties = {}, required = [] } = of?.schema ?? {}
  if (of === undefined || typeof key !== 'string' || !isObject(properties)) return undefined
  if (of.types.has('array') || !of.types.has('object')) return undefined
  const field = shapeOfSchema(fieldOf(properties, key))
  const isPresent = !of.types.has('null') && Array.isArray(required) && required.includes(key)
  return isPresent ? field : union(field, NULL)
}

function union(a: Shape | undefined, b: Shape | undefined): Shape | undefined {
  if (a === undefined || b === undefined) return undefined
  const schema = b === NULL ? a.schema : undefined
  return { types: new Set([...a.types, ...b.types]), ...(schema !== undefined && { schema }) }
}

const withoutNull = (of: Shape | undefined): Shape | undefined =>
  of && { ...of, types: new Set([...of.types].filter((type) => type !== 'null')) }

const COMPARISONS: readonly string[] = ['==', '!=', '<', '<=', '>', '>=']

/** Arithmetic of two values of one type yields that type, apart from texts that are divided. */
function binaryShape(operator: string, left: Shape | undefined, right: Shape | undefined): Shape | undefined {
  if (COMPARISONS.includes(operator)) return BOOLEAN
  const types = new Set([...(left?.types ?? []), ...(right?.types ?? [])])
  if (left === undefined || right === undefined || types.size !== 1) return undefined
  if (operator === '/' && types.has('string')) return ARRAY
  return { types }
}
