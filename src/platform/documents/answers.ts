/** What the driver of MongoDB answers, within bounds and in words of the platform. */

import type { AggregationCursor } from 'mongodb'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

export const DUPLICATE = 11_000
const TIMED_OUT = 50

/** How many were inserted where nothing was wrong but ids that were there already. */
export async function insertedBeside(error: unknown): Promise<number> {
  const { MongoBulkWriteError } = await import('mongodb')
  if (!(error instanceof MongoBulkWriteError)) throw error
  const faults = [error.writeErrors].flat()
  if (faults.length === 0 || faults.some(({ code }) => code !== DUPLICATE)) throw error
  return error.insertedCount
}

/** As with rows of PostgreSQL: a page of the largest documents would be hundreds of megabytes. */
export async function bounded<T extends object>(found: AggregationCursor<T>): Promise<T[]> {
  const { BSON } = await import('mongodb')
  const documents: T[] = []
  let bytes = 0
  // Leaving the loop closes the cursor.
  for await (const document of found) {
    bytes += BSON.calculateObjectSize(document)
    if (bytes > LIMITS.rowsBytesMax) {
      const detail = `The answer has more than ${LIMITS.rowsBytesMax} bytes.`
      throw new Problem('output_too_large', { detail })
    }
    documents.push(document)
  }
  return documents
}

/** What a server refused is a fault of ours; anything else of the driver's means that it could not be asked. */
export async function translate(error: unknown): Promise<unknown> {
  const { MongoError, MongoServerError } = await import('mongodb')
  if (error instanceof MongoServerError)
    return error.code === TIMED_OUT ? new Problem('query_timeout', { cause: error }) : error
  if (!(error instanceof MongoError)) return error
  return new Problem('dependency_unavailable', {
    detail: 'The document store does not answer.',
    cause: error,
  })
}
