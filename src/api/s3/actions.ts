/** The operations of the S3 API: which request each one is, the operation of the platform behind it, and the form of its reply. */

import type { FastifyReply } from 'fastify'
import type { AnyOperation } from '../../core/operation.ts'
import type { Exchange } from '../request-pipeline.ts'
import { bucketActions } from './bucket-actions.ts'
import { objectActions } from './object-actions.ts'
import type { S3Request, S3Target } from './s3-request.ts'
import { uploadActions } from './upload-actions.ts'

/** Parts of a request that its reply is made of. */
export interface S3Exchange extends Omit<Exchange, 'request'> {
  readonly request: S3Request
}

/** What an operation returns. */
export type Output<Operation extends { run: (...input: never[]) => Promise<unknown> }> = Awaited<
  ReturnType<Operation['run']>
>

export interface S3Action {
  /** As S3 calls it. */
  readonly name: string
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  readonly on: 'service' | 'bucket' | 'object'
  /** The query parameters that select it, such as `tagging`. */
  readonly selectors?: readonly string[]
  /** The header that selects it. */
  readonly header?: string
  readonly operation: AnyOperation
  /** @returns the input of the operation */
  readonly bind: (
    request: S3Request,
    recheck: () => Promise<void>,
  ) => Record<string, unknown> | Promise<Record<string, unknown>>
  readonly send: (output: never, exchange: S3Exchange) => FastifyReply
}

export const ACTIONS: readonly S3Action[] = [...bucketActions, ...objectActions, ...uploadActions]

/** Parameters that select an operation of S3, of which the platform has some. */
const SELECTORS = new Set([
  ...[
    'accelerate',
    'acl',
    'analytics',
    'attributes',
    'cors',
    'delete',
    'encryption',
    'intelligent-tiering',
    'inventory',
  ],
  ...[
    'legal-hold',
    'lifecycle',
    'list-type',
    'location',
    'logging',
    'metrics',
    'notification',
    'object-lock',
  ],
  ...[
    'ownershipControls',
    'partNumber',
    'policy',
    'policyStatus',
    'publicAccessBlock',
    'replication',
    'requestPayment',
  ],
  ...[
    'restore',
    'retention',
    'select',
    'session',
    'tagging',
    'torrent',
    'uploadId',
    'uploads',
    'versionId',
    'versioning',
  ],
  ...['versions', 'website'],
])

/** The action of a request; undefined if the platform has none for it. */
export function actionOf(
  method: string,
  { bucket, key, query }: S3Target,
  headers: Readonly<Record<string, unknown>>,
): S3Action | undefined {
  const on = bucket === '' ? 'service' : key === '' ? 'bucket' : 'object'
  const selected = new Set(query.names.filter((name) => SELECTORS.has(name)))
  return ACTIONS.find(
    (action) =>
      action.method === method &&
      action.on === on &&
      selected.size === (action.selectors?.length ?? 0) &&
      (action.selectors ?? []).every((name) => selected.has(name)) &&
      (action.header !== undefined) === (headers['x-amz-copy-source'] !== undefined),
  )
}
