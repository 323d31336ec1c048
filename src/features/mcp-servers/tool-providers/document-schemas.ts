/** JSON Schemas of the arguments and results of tools over the documents of one collection. */

import { isObject } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { BUCKET_UNITS, MEASURE_NAMES } from '../../collections/aggregates/aggregate.ts'
import { COLLECTION_LIMITS } from '../../collections/limits.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { JsonSchema } from '../tool.ts'

type Schemas = Readonly<Record<string, JsonSchema>>

/** The declared fields of a collection. */
export interface DeclaredFields {
  readonly properties: Schemas
  /** Without those that have a default. */
  readonly required: readonly string[]
  /** The value of `additionalProperties` for a document with these fields; undefined leaves it open. */
  readonly additional: unknown
  /** `$defs`, to which references in `properties` lead. */
  readonly definitions: Schemas | undefined
  /** Fields that a condition may compare, by path: scalars and lists of scalars, also inside of objects (`address.city`). */
  readonly comparable: Schemas
  /** Stored documents fit the schema. */
  readonly enforced: boolean
}

/** Keywords at the top of a schema that say which other fields a document may have. */
const OPENING = ['allOf', 'anyOf', 'oneOf', 'if', 'dependentSchemas', 'patternProperties', '$ref']

/** @param schema of a declaration, in the schema language of collections */
export function declaredFields(schema: JsonSchema, mode: string): DeclaredFields {
  const properties = (schema['properties'] ?? {}) as Schemas
  const required = ((schema['required'] ?? []) as string[]).filter(
    (name) => !Object.hasOwn(Object(properties[name]), 'default'),
  )
  const isOpen = OPENING.some((keyword) => Object.hasOwn(schema, keyword))
  return {
    properties,
    required,
    additional: schema['additionalProperties'] ?? (isOpen ? undefined : false),
    definitions: schema['$defs'] as Schemas | undefined,
    comparable: Object.fromEntries(
      comparableFields(properties, '', 0).slice(0, MCP_LIMITS.comparableFieldsMax),
    ),
    enforced: mode === 'enforce',
  }
}

const SCALARS = ['string', 'integer', 'number', 'boolean']
/** Names that need no quotes in a path. */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_-]*$/
const DEPTH_MAX = 3

function comparableFields(properties: Schemas, prefix: string, depth: number): [string, JsonSchema][] {
  return Object.entries(properties).flatMap(([name, schema]): [string, JsonSchema][] => {
    if (!PLAIN_NAME.test(name) || !isObject(schema)) return []
    const path = `${prefix}${name}`
    const type = typeOf(schema)
    if (type === 'object' && depth + 1 < DEPTH_MAX)
      return comparableFields((schema['properties'] ?? {}) as Schemas, `${path}.`, depth + 1)
    const isList = type === 'array' && SCALARS.includes(typeOf(Object(schema['items'])) ?? '')
    return isList || SCALARS.includes(type ?? '') ? [[path, schema]] : []
  })
}

/** The only type besides `null`; that of the values of an `enum` without a type. */
export function typeOf({ type, enum: values }: JsonSchema): string | undefined {
  const declared = type ?? (Array.isArray(values) ? values.map((value) => typeof value) : [])
  const [only, ...more] = new Set([declared].flat().filter((name) => name !== 'null'))
  return typeof only === 'string' && more.length === 0 ? only : undefined
}

const ID: JsonSchema = { type: 'string', description: 'Id of the document.' }
const VERSION: JsonSchema = {
  type: 'integer',
  minimum: 1,
  description: '`_version` that the document must have; otherwise nothing is done.',
}
const DOCUMENT: JsonSchema = {
  type: 'object',
  description: 'Fields of the document.',
  additionalProperties: true,
}
const SYSTEM_FIELDS: Schemas = {
  _created_at: { type: 'string', format: 'date-time' },
  _updated_at: { type: 'string', format: 'date-time' },
}

export const UPDATE_OPTIONS = ['remove_fields', 'if_version'] as const
export const PAGE_OPTIONS = ['order_by', 'descending', 'limit', 'cursor', 'fields'] as const

/** The name of an argument that is no field: with `_` in front of it if the collection has a field of that name. */
const nameOf = (name: string, fields: DeclaredFields | undefined) =>
  Object.hasOwn(fields?.properties ?? {}, name) ? `_${name}` : name

/** The arguments that are no fields, and whose names the collection has as fields. */
export const renamedOptions = (fields: DeclaredFields): string[] =>
  [...UPDATE_OPTIONS, ...PAGE_OPTIONS].filter((name) => Object.hasOwn(fields.properties, name))

interface ArgumentList {
  readonly properties: Schemas
  readonly required?: readonly string[]
  readonly additional?: unknown
}

function argumentsSchema(
  { properties, required = [], additional = false }: ArgumentList,
  definitions?: Schemas,
): JsonSchema {
  return JSON.parse(
    JSON.stringify({
      type: 'object',
      properties,
      required,
      ...(definitions && { $defs: definitions }),
      additionalProperties: additional,
    }),
  ) as JsonSchema
}

export function createArguments(fields: DeclaredFields | undefined): JsonSchema {
  if (fields === undefined)
    return argumentsSchema({ properties: { document: DOCUMENT }, required: ['document'] })
  const { properties, required, additional = true, definitions } = fields
  return argumentsSchema({ properties, required, additional }, definitions)
}

export function updateArguments(fields: DeclaredFields | undefined): JsonSchema {
  const removable = Object.keys(fields?.properties ?? {}).filter((name) => !fields?.required.includes(name))
  const items = fields === undefined ? { type: 'string' } : { type: 'string', enum: removable }
  const options = {
    ...((fields === undefined || removable.length > 0) && {
      [nameOf('remove_fields', fields)]: { type: 'array', items, description: 'Fields to remove.' },
    }),
    [nameOf('if_version', fields)]: VERSION,
  }
  if (fields === undefined)
    return argumentsSchema({ properties: { id: ID, document: DOCUMENT, ...options }, required: ['id'] })
  const { properties, additional = true, definitions } = fields
  const settable = mapValues(properties, ({ default: _default, ...schema }) => schema)
  return argumentsSchema(
    { properties: { id: ID, ...settable, ...options }, required: ['id'], additional },
    definitions,
  )
}

export const deleteArguments = (): JsonSchema =>
  argumentsSchema({ properties: { id: ID, if_version: VERSION }, required: ['id'] })

export function getArguments(fields: DeclaredFields | undefined): JsonSchema {
  return argumentsSchema({ properties: { id: ID, fields: selectionOf(fields) }, required: ['id'] })
}

/** Equality with declared scalar fields, flat, and the page. */
export function listArguments(fields: DeclaredFields | undefined): JsonSchema {
  const scalars = Object.entries(fields?.properties ?? {}).filter(([name]) => {
    const comparable = fields?.comparable[name]
    return comparable !== undefined && typeOf(comparable) !== 'array'
  })
  const equal = mapValues(Object.fromEntries(scalars), withoutDefault)
  return argumentsSchema({ properties: { ...equal, ...pageArguments(fields, true) } }, fields?.definitions)
}

const OPERATORS = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'contains', 'is_null', 'is_not_null']

const VALUE: JsonSchema = {
  description: 'Value to compare with: a list for `in`, none for `is_null` and `is_not_null`.',
  anyOf: [
    { type: 'string' },
    { type: 'number' },
    { type: 'boolean' },
    { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
  ],
}

/** Conditions on fields, and the page. */
export const queryArguments = (fields: DeclaredFields | undefined): JsonSchema =>
  argumentsSchema({ properties: { ...conditionArguments(fields), ...pageArguments(fields, false) } })

function conditionArguments(fields: DeclaredFields | undefined): Schemas {
  const condition = {
    type: 'object',
    properties: {
      field: fieldOf(fields),
      operator: {
        type: 'string',
        enum: OPERATORS,
        description: '`contains`: text within a text, ignoring case, or an item of a list.',
      },
      value: VALUE,
    },
    required: ['field', 'operator'],
    additionalProperties: false,
  }
  const where = {
    type: 'array',
    items: condition,
    maxItems: MCP_LIMITS.conditionsMax,
    description: `Conditions.${fields === undefined ? '' : ` Fields: ${inWords(fields.comparable)}.`}`,
    examples: [[exampleOf(fields)]],
  }
  const match = {
    type: 'string',
    enum: ['all', 'any'],
    description: 'Conditions that must hold: `all`, or `any` of them. Default: `all`.',
  }
  return { where, match }
}

/** A field that can be compared. */
const fieldOf = (fields: DeclaredFields | undefined): JsonSchema =>
  fields === undefined
    ? { type: 'string' }
    : { type: 'string', enum: [...Object.keys(fields.comparable), ...Object.keys(SYSTEM_FIELDS)] }

/** Conditions on documents, groups of them, and what is counted and added up. */
export function aggregateArguments(fields: DeclaredFields | undefined): JsonSchema {
  const group = {
    type: 'object',
    properties: {
      field: fieldOf(fields),
      period: {
        type: 'string',
        enum: BUCKET_UNITS,
        description: 'Groups points in time by this period of the calendar. The column is called `period`.',
      },
      time_zone: {
        type: 'string',
        description: 'Time zone of the period, such as `Europe/Berlin`. Default: `UTC`.',
      },
    },
    required: ['field'],
    additionalProperties: false,
  }
  const measure = {
    type: 'object',
    properties: {
      function: { type: 'string', enum: MEASURE_NAMES },
      field: { ...fieldOf(fields), description: 'Field to aggregate. `count` without it counts documents.' },
      name: { type: 'string', description: 'Name of the column. Default: the function.' },
    },
    required: ['function'],
    additionalProperties: false,
  }
  const { limit = {}, cursor = {} } = pageArguments(fields, false)
  return argumentsSchema({
    properties: {
      measures: {
        type: 'array',
        items: measure,
        maxItems: COLLECTION_LIMITS.measuresMax,
        description: 'What to count and add up.',
        examples: [[{ function: 'count', name: 'n' }]],
      },
      group_by: {
        type: 'array',
        items: group,
        maxItems: COLLECTION_LIMITS.groupFieldsMax,
        description: 'Fields to group by. Default: none, which aggregates all documents.',
      },
      ...conditionArguments(fields),
      order_by: { type: 'string', description: 'Column of the result to sort by. Default: the groups.' },
      descending: { type: 'boolean', description: 'True if `order_by` sorts in descending order.' },
      ...{ limit: { ...limit, description: 'Maximum number of groups. Default: 50.' }, cursor },
    },
    required: ['measures'],
  })
}

/** A page of groups; without groups, the measures themselves. */
export const groupsResult = (): JsonSchema => ({
  type: 'object',
  properties: pageOfItems({ type: 'object' })['properties'],
})

function pageArguments(fields: DeclaredFields | undefined, flat: boolean): Schemas {
  const name = (argument: string) => (flat ? nameOf(argument, fields) : argument)
  const ordered = Object.entries(fields?.comparable ?? {}).filter(([, schema]) => typeOf(schema) !== 'array')
  const names = [...ordered.map(([path]) => path), ...Object.keys(SYSTEM_FIELDS)]
  return {
    [name('order_by')]: {
      type: 'string',
      ...(fields !== undefined && { enum: names }),
      description: 'Field to sort by. Default: the time of creation, oldest first.',
    },
    [name('descending')]: {
      type: 'boolean',
      description: 'True if `order_by` sorts in descending order. Default: `false`.',
    },
    [name('limit')]: {
      type: 'integer',
      minimum: 1,
      maximum: CORE_LIMITS.pageItemsMax,
      description: 'Maximum number of documents. Default: 50.',
    },
    [name('cursor')]: {
      type: 'string',
      description: '`page.next` of the previous page, with the same arguments.',
    },
    [name('fields')]: selectionOf(fields),
  }
}

function selectionOf(fields: DeclaredFields | undefined): JsonSchema {
  const names = [...Object.keys(fields?.properties ?? {}), '_created_at', '_updated_at', '_version']
  const items = { type: 'string', ...(fields !== undefined && { enum: names }) }
  return { type: 'array', items, minItems: 1, description: 'Fields to return. Default: all fields.' }
}

/** The schema of a field in a filter: without the title, and without the default, which applies to new documents only. */
function withoutDefault({ default: _default, title: _title, ...schema }: JsonSchema): JsonSchema {
  return schema
}

/** `status (open, closed), due_at (date-time), total (integer)` */
function inWords(fields: Schemas): string {
  const words = Object.entries(fields).map(([path, schema]) => {
    const values = Array.isArray(schema['enum']) ? schema['enum'].join(', ') : undefined
    const list = typeOf(schema) === 'array' ? `list of ${typeOf(Object(schema['items']))}` : undefined
    return `${path} (${values ?? schema['format'] ?? list ?? typeOf(schema)})`
  })
  return [...words, '_created_at (date-time)', '_updated_at (date-time)'].join(', ').slice(0, 1_500)
}

/** A condition with a field and a value of the collection. */
function exampleOf(fields: DeclaredFields | undefined): unknown {
  const all = Object.entries(fields?.comparable ?? {})
  const [path, schema] = all.find(([, one]) => Array.isArray(one['enum'])) ?? all[0] ?? []
  const [value] = [schema?.['enum'], schema?.['examples']].flat().filter((one) => one !== undefined)
  if (path === undefined || value === undefined)
    return { field: '_created_at', operator: 'gte', value: '2026-01-01T00:00:00Z' }
  return { field: path, operator: 'eq', value }
}

const mapValues = (schemas: Schemas, change: (schema: JsonSchema) => JsonSchema): Schemas =>
  Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, isObject(schema) ? change(schema) : schema]),
  )

/** A document, or with `partial` a part of one. */
export function documentResult(fields: DeclaredFields | undefined, partial: boolean): JsonSchema {
  const own = Object.entries(fields?.properties ?? {}).map(([name, schema]) => [
    name,
    resultOf(schema, fields?.enforced === true),
  ])
  return {
    type: 'object',
    properties: {
      id: { type: 'string' },
      ...Object.fromEntries(own),
      ...SYSTEM_FIELDS,
      _version: {
        type: 'integer',
        description: 'Version of the document, incremented by one with each change.',
      },
    },
    required: partial ? ['id'] : ['id', '_created_at', '_updated_at', '_version'],
  }
}

export const pageResult = (fields: DeclaredFields | undefined): JsonSchema =>
  pageOfItems(documentResult(fields, true))

/** The schema of a page of a list. */
export function pageOfItems(items: JsonSchema): JsonSchema {
  return {
    type: 'object',
    properties: {
      data: { type: 'array', items },
      page: {
        type: 'object',
        properties: {
          size: { type: 'integer' },
          next: { type: ['string', 'null'], description: '`cursor` of the next page.' },
          has_more: { type: 'boolean' },
        },
        required: ['has_more', 'next'],
      },
    },
    required: ['data', 'page'],
  }
}

export const DELETED: JsonSchema = {
  type: 'object',
  properties: { id: { type: 'string' }, deleted: { type: 'boolean' } },
  required: ['id', 'deleted'],
}

/**
 * Types and descriptions of a field as it is read. Bounds and values are left out: they may become wider after the
 * version is published, which adds no type. References are left out, too.
 */
function resultOf(schema: unknown, typed: boolean): JsonSchema {
  if (!isObject(schema)) return {}
  const { type, description, properties, items } = schema
  return {
    ...(typed && type !== undefined && { type }),
    ...(description !== undefined && { description }),
    ...(isObject(properties) && {
      properties: mapValues(properties as Schemas, (one) => resultOf(one, typed)),
    }),
    ...(isObject(items) && { items: resultOf(items, typed) }),
  }
}
