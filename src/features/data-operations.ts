/** The operations on data, and the catalogue of those that flows may `call:`. */

import type { AnyOperation } from '../core/operation.ts'
import { queryAnalytics } from './analytics/analytics-api.ts'
import { batchAnywhere, batchDocuments } from './collections/batch.ts'
import * as documents from './collections/documents-api.ts'
import { exportDocuments, importDocuments } from './collections/ndjson/ndjson-api.ts'
import { publishEvent, subscribeEvents } from './events/events-api.ts'
import { invokeFunction } from './functions/functions.ts'
import * as objects from './objects/objects.ts'

/** Operations that a flow may call by name, with the same input schema and rights checks. */
const CALLABLE: readonly AnyOperation[] = [
  documents.createDocument,
  documents.getDocument,
  documents.listDocuments,
  documents.queryDocuments,
  documents.updateDocument,
  documents.deleteDocument,
  objects.putObject,
  objects.getObject,
  objects.deleteObject,
  publishEvent,
  invokeFunction,
]

/** Short operations that may run twice: they read, or create under a seeded id (decision 4). */
const LOCAL: readonly AnyOperation[] = [
  documents.createDocument,
  documents.getDocument,
  documents.listDocuments,
  documents.queryDocuments,
  publishEvent,
]

/** Operations that store their arguments where others can read them, so a flow must not pass them secrets. */
const STORING: readonly AnyOperation[] = [
  documents.createDocument,
  documents.updateDocument,
  objects.putObject,
]

export const storesArguments = (operation: AnyOperation): boolean => STORING.includes(operation)

export function findCallable(name: string): AnyOperation | undefined {
  return CALLABLE.find((operation) => operation.name === name)
}

interface CatalogueFunction {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
  readonly local?: true
  readonly stores?: true
}

/** The arguments of each function, so that the compiler reports a wrong one. */
export const CATALOGUE: Readonly<Record<string, CatalogueFunction>> = Object.fromEntries(
  CALLABLE.map((operation) => {
    const { name, summary, input } = operation
    const required: readonly string[] = input.required ?? []
    const optional = Object.keys(input.properties).filter((field) => !required.includes(field))
    const local = LOCAL.includes(operation) ? { local: true as const } : {}
    const stores = storesArguments(operation) ? { stores: true as const } : {}
    return [name, { description: summary, required, optional, ...local, ...stores }]
  }),
)

export const DATA_OPERATIONS: readonly AnyOperation[] = [
  queryAnalytics,
  documents.listCollections,
  documents.createDocument,
  documents.getDocument,
  documents.listDocuments,
  documents.queryDocuments,
  documents.updateDocument,
  documents.patchDocument,
  documents.deleteDocument,
  importDocuments,
  exportDocuments,
  batchDocuments,
  batchAnywhere,
  objects.putObject,
  objects.headObject,
  objects.getObject,
  objects.deleteObject,
  objects.listObjects,
  publishEvent,
  subscribeEvents,
  invokeFunction,
]
