/** Proposes a schema from documents that a collection has. Nothing is declared. */

import Type from 'typebox'
import { adminOperation, Input, Ref } from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { isObject } from '../../../core/json.ts'
import { DEVELOPERS } from '../../../core/policy.ts'
import { notFound } from '../../../core/problem.ts'
import { findActiveWorkspace } from '../../tenants/active.ts'
import { CollectionName } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readFitting } from '../page.ts'
import { ALL, BY_ID } from '../query/filter.ts'
import { withCollection } from '../resolve-store.ts'
import type { Stored } from '../store.ts'
import { JsonSchema } from './api-types.ts'
import { checkSchema, type SchemaObject } from './schema-language.ts'
import { hasFormat } from './text-formats.ts'

const openDocuments = privilege('collections.infer')

export const inferSchema = adminOperation({
  name: 'schema.infer',
  summary: 'Preview a schema for the documents of a collection; nothing is declared',
  roles: DEVELOPERS,
  reads: true,
  input: Input({ workspace_id: Ref('workspace'), collection: CollectionName }),
  output: component(
    'InferredSchema',
    Type.Object({
      collection: CollectionName,
      schema: JsonSchema,
      sampled: Type.Integer({
        description: 'Number of documents that were read: the oldest and the newest.',
      }),
    }),
    {
      collection: 'bookings',
      schema: { type: 'object', properties: { court_id: { type: 'string' } } },
      sampled: 120,
    },
  ),
  http: { method: 'POST', path: '/v1/schemas/infer', body: '*' },
  run: async (scope, { workspace_id, collection }) => {
    const documents = await sample(
      openDocuments(scope, await findActiveWorkspace(scope, workspace_id)),
      collection,
    )
    if (documents.length === 0) throw notFound('collection')
    return { collection, schema: proposeSchema(documents), sampled: documents.length }
  },
})

/** The first and the last documents by their ids, which are those of the oldest and the newest ones unless the caller has chosen them. */
async function sample(service: WorkspaceScope, name: string): Promise<Stored['fields'][]> {
  const found = new Map<string, Stored['fields']>()
  for (const descending of [false, true]) {
    const order = BY_ID.map((key) => ({ ...key, descending }))
    const readFirst = (limit: number) =>
      withCollection(service, name, ['read'], (collection, inside) =>
        collection.store.list(inside, collection, { filter: ALL, order, limit }),
      )
    const { rows } = await readFitting(COLLECTION_LIMITS.inferredDocumentsMax / 2, readFirst, 4)
    for (const { id, fields } of rows) found.set(id, fields)
  }
  return [...found.values()]
}

/** @param documents at least one */
function proposeSchema(documents: readonly Stored['fields'][]): SchemaObject {
  return checkSchema(objectSchema(documents, 0))
}

/** Deeper objects and arrays have a type alone. */
const DEPTH_MAX = 4
/** Elements of an array by which its `items` are proposed. */
const ELEMENTS_MAX = 100

/** A member is required if each object has it. Objects with many different names are maps, whose names are values. */
function objectSchema(objects: readonly Readonly<Record<string, unknown>>[], depth: number): SchemaObject {
  const values = new Map<string, unknown[]>()
  for (const [name, value] of objects.flatMap((object) => Object.entries(object))) {
    const known = values.get(name)
    if (known === undefined) values.set(name, [value])
    else known.push(value)
  }
  const max = depth === 0 ? COLLECTION_LIMITS.tableColumnsMax : COLLECTION_LIMITS.inferredMembersMax
  if (values.size === 0 || (depth > 0 && (depth >= DEPTH_MAX || values.size > max))) return { type: 'object' }
  const frequent = [...values].sort(([, a], [, b]) => b.length - a.length).slice(0, max)
  const required = frequent.filter(([, own]) => own.length === objects.length).map(([name]) => name)
  const properties = Object.fromEntries(frequent.map(([name, own]) => [name, valueSchema(own, depth + 1)]))
  return { type: 'object', properties, ...(required.length > 0 && { required: required.sort() }) }
}

/** A schema that each of the values fits. */
function valueSchema(values: readonly unknown[], depth: number): SchemaObject {
  const types = [...new Set(values.map(typeOf))].sort()
  // A whole number is a number as well.
  const wide = types.includes('number') ? types.filter((type) => type !== 'integer') : types
  const texts = values.filter((value) => typeof value === 'string')
  const objects = values.filter(isObject)
  const arrays = values.filter(Array.isArray)
  const format = PROPOSED.find((one) => texts.length > 0 && texts.every((text) => hasFormat(one, text)))
  const elements = arrays.flatMap((array) => array.slice(0, ELEMENTS_MAX))
  const isWhole = arrays.every((array) => array.length <= ELEMENTS_MAX)
  return {
    type: wide.length === 1 ? wide[0] : wide,
    ...(format !== undefined && { format }),
    ...(objects.length > 0 && withoutType(objectSchema(objects, depth))),
    ...(elements.length > 0 && isWhole && depth < DEPTH_MAX && { items: valueSchema(elements, depth + 1) }),
  }
}

const withoutType = ({ type: _, ...rest }: SchemaObject): SchemaObject => rest

/** Formats that all texts of a field have by intention. Digits may be numbers or not, so no format of numbers is among them. */
const PROPOSED = ['uuid', 'date-time', 'date', 'email'] as const

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'number'
  return typeof value
}
