/** The operations on data, and the catalogue of those that flows may `call:`. */

import type { AnyOperation } from '../core/operation.ts'
import { queryAnalytics } from './analytics/analytics-api.ts'
import { aggregateDocuments, listGroups } from './collections/aggregates/aggregates-api.ts'
import { batchAnywhere, batchDocuments } from './collections/batch.ts'
import {
  cancelBulkChange,
  deleteMany,
  getBulkChange,
  listBulkChanges,
  updateMany,
} from './collections/bulk/bulk-api.ts'
import { listCollections } from './collections/collections-api.ts'
import * as documents from './collections/documents-api.ts'
import { exportDocuments, importDocuments } from './collections/ndjson/ndjson-api.ts'
import { publishEvent, subscribeEvents } from './events/events-api.ts'
import { subscribeToQuery } from './events/live-queries.ts'
import { fetchFunction } from './functions/http/serve-http.ts'
import { invokeFunction } from './functions/invoke.ts'
import { uploadForm } from './objects/form-uploads.ts'
import { presignObject } from './objects/links.ts'
import * as objectChanges from './objects/object-changes.ts'
import * as objects from './objects/objects.ts'
import { getRemoval } from './objects/removals.ts'
import * as uploads from './objects/uploads-api.ts'

interface CallableTraits {
  /** Short, and may run twice: it reads, or creates under a seeded id (decision 4). */
  readonly local?: true
  /** Stores its arguments where others can read them, so a flow must not pass it secrets. */
  readonly stores?: true
}

/** Operations that a flow may call by name, with the same input schema and rights checks. */
const CALLABLE: ReadonlyMap<AnyOperation, CallableTraits> = new Map<AnyOperation, CallableTraits>([
  [documents.createDocument, { local: true, stores: true }],
  [documents.getDocument, { local: true }],
  [documents.listDocuments, { local: true }],
  [documents.queryDocuments, { local: true }],
  [listGroups, { local: true }],
  [aggregateDocuments, { local: true }],
  [documents.updateDocument, { stores: true }],
  [documents.patchDocument, { stores: true }],
  [documents.deleteDocument, {}],
  [updateMany, { stores: true }],
  [deleteMany, { stores: true }],
  [batchAnywhere, { stores: true }],
  [objects.putObject, { stores: true }],
  [objects.getObject, {}],
  [objects.deleteObject, {}],
  [objectChanges.copyObject, {}],
  [objectChanges.moveObject, {}],
  [publishEvent, { local: true }],
  [invokeFunction, {}],
])

type IsOnce = (args: Readonly<Record<string, unknown>>) => boolean

const isConditional: IsOnce = ({ if_match, if_none_match }) =>
  if_match !== undefined || if_none_match !== undefined

/** Those that a second attempt would do again, or refuse since the first one has done it; by their arguments. */
const ONCE: ReadonlyMap<AnyOperation, IsOnce> = new Map<AnyOperation, IsOnce>([
  [documents.updateDocument, isConditional],
  [documents.patchDocument, (args) => args['operators'] !== undefined || isConditional(args)],
  [documents.deleteDocument, () => true],
  [batchAnywhere, () => true],
])

/** True if the attempts of a flow's call share a claim. */
export const isOnce = (operation: AnyOperation, args: Readonly<Record<string, unknown>>): boolean =>
  ONCE.get(operation)?.(args) === true

export const storesArguments = (operation: AnyOperation): boolean => CALLABLE.get(operation)?.stores === true

export const findCallable = (name: string): AnyOperation | undefined =>
  [...CALLABLE.keys()].find((operation) => operation.name === name)

interface CatalogueFunction extends CallableTraits {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
}

/** The arguments of each function, so that the compiler reports a wrong one. */
export const CATALOGUE: Readonly<Record<string, CatalogueFunction>> = Object.fromEntries(
  [...CALLABLE].map(([{ name, summary, input }, traits]) => {
    const required: readonly string[] = input.required ?? []
    const optional = Object.keys(input.properties).filter((field) => !required.includes(field))
    return [name, { description: summary, required, optional, ...traits }]
  }),
)

export const DATA_OPERATIONS: readonly AnyOperation[] = [
  queryAnalytics,
  listCollections,
  documents.createDocument,
  documents.getDocument,
  documents.listDocuments,
  documents.queryDocuments,
  listGroups,
  aggregateDocuments,
  documents.updateDocument,
  documents.patchDocument,
  documents.deleteDocument,
  importDocuments,
  exportDocuments,
  subscribeToQuery,
  batchDocuments,
  batchAnywhere,
  updateMany,
  deleteMany,
  getBulkChange,
  listBulkChanges,
  cancelBulkChange,
  objects.putObject,
  objects.headObject,
  objects.getObject,
  objects.deleteObject,
  uploadForm,
  objects.listObjects,
  presignObject,
  objectChanges.describeObject,
  objectChanges.updateObject,
  objectChanges.copyObject,
  objectChanges.moveObject,
  objectChanges.removeObjects,
  getRemoval,
  uploads.createUpload,
  uploads.headUpload,
  uploads.appendToUpload,
  uploads.deleteUpload,
  publishEvent,
  subscribeEvents,
  invokeFunction,
  fetchFunction,
]
