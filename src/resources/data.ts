/** DATA_OPERATIONS: what keys are for. Which scopes there are follows from this list. */

import type { AnyOperation } from '../core/operation.ts'
import { queryAnalytics } from './analytics.ts'
import { batchAnywhere, batchDocuments } from './collections/batch.ts'
import { listCollections } from './collections/listing.ts'
import { exportDocuments, importDocuments } from './collections/ndjson/operations.ts'
import {
  createDocument,
  deleteDocument,
  getDocument,
  listDocuments,
  patchDocument,
  queryDocuments,
  updateDocument,
} from './collections/operations.ts'
import { publishEvent, subscribeEvents } from './events.ts'
import { invokeFunction } from './functions/functions.ts'
import { deleteObject, getObject, headObject, listObjects, putObject } from './objects.ts'

export const DATA_OPERATIONS: readonly AnyOperation[] = [
  queryAnalytics,
  listCollections,
  createDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  updateDocument,
  patchDocument,
  deleteDocument,
  importDocuments,
  exportDocuments,
  batchDocuments,
  batchAnywhere,
  putObject,
  headObject,
  getObject,
  deleteObject,
  listObjects,
  publishEvent,
  subscribeEvents,
  invokeFunction,
]
