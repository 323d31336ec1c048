/** All actions of the S3 API, and which of them a request is. */

import { bucketActions } from './bucket-actions.ts'
import { objectActions } from './object-actions.ts'
import type { S3Action } from './s3-action.ts'
import type { S3Target } from './s3-request.ts'
import { uploadActions } from './upload-actions.ts'

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

/** The kind of resource that a path names: the service, a bucket or an object. */
function namedBy(bucket: string, key: string): S3Action['on'] | undefined {
  if (bucket === '') return key === '' ? 'service' : undefined
  return key === '' ? 'bucket' : 'object'
}

/** The action of a request; undefined if the platform has none for it. */
export function actionOf(
  method: string,
  { bucket, key, query }: S3Target,
  headers: Readonly<Record<string, unknown>>,
): S3Action | undefined {
  const on = namedBy(bucket, key)
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
