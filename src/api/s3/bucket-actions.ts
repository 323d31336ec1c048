/** Actions of the S3 API on buckets: lists, and what clients ask of a bucket before they use it. */

import { Problem } from '../../core/problem.ts'
import { tagOf } from '../../features/objects/conditions.ts'
import { OBJECT_LIMITS } from '../../features/objects/limits.ts'
import { deleteObjects, getBucket, listBuckets, listForS3 } from '../../features/objects/s3-buckets.ts'
import { itemError } from './errors.ts'
import type { Output, S3Action, S3Exchange } from './s3-action.ts'
import { readText, type S3Request } from './s3-request.ts'
import { uriEncode } from './uri.ts'
import { children, childText, readXml, sendXml, type XmlContent } from './xml.ts'

const bindBucket = ({ bucket }: S3Request) => ({ bucket })

/** The input of both forms of lists. @param after the parameters that say where to go on, by precedence */
function bindList({ bucket, query }: S3Request, after: readonly string[]): Record<string, unknown> {
  const max = query.get('max-keys') ?? String(OBJECT_LIMITS.keysListedMax)
  if (!/^\d{1,9}$/.test(max))
    throw new Problem('InvalidArgument', { detail: 'max-keys must be a number of 0 or more.' })
  const encoding = query.get('encoding-type')
  if (encoding !== undefined && encoding !== 'url')
    throw new Problem('InvalidArgument', { detail: 'encoding-type must be url.' })
  const delimiter = query.get('delimiter')
  const from = after.map((name) => query.get(name)).find((value) => value !== undefined && value !== '')
  return {
    bucket,
    prefix: query.get('prefix') ?? '',
    size: Math.min(Number(max), OBJECT_LIMITS.keysListedMax),
    ...(delimiter !== undefined && delimiter !== '' && { delimiter }),
    ...(from !== undefined && { after: from }),
  }
}

/** The elements that both forms of lists have. @param after the elements that say where the list goes on, and which page this is */
function listing(
  { items, next }: Output<typeof listForS3>,
  { request, input }: S3Exchange,
  more: XmlContent & object,
): XmlContent {
  const encode = encoderOf(request)
  const delimiter = input['delimiter'] as string | undefined
  return [
    ['Name', request.bucket],
    ['Prefix', encode(String(input['prefix']))],
    ['Delimiter', delimiter && encode(delimiter)],
    ['MaxKeys', Number(input['size'])],
    ['EncodingType', request.query.get('encoding-type')],
    ['IsTruncated', next !== undefined],
    ...more,
    ...items.map((item) =>
      'key' in item
        ? ([
            'Contents',
            [
              ['Key', encode(item.key)],
              ['LastModified', new Date(item.modifiedMs).toISOString()],
              ['ETag', tagOf(item)],
              ['Size', item.size],
              ['StorageClass', 'STANDARD'],
            ],
          ] as const)
        : (['CommonPrefixes', [['Prefix', encode(item.prefix)]]] as const),
    ),
  ]
}

/** Keys may have characters that XML cannot have. */
const encoderOf = ({ query }: S3Request): ((text: string) => string) =>
  query.get('encoding-type') === 'url' ? (text) => uriEncode(text).replaceAll('%2F', '/') : (text) => text

/** The form of a continuation token, which clients do not read. */
const TOKEN = /^c1_([\w-]+)$/
const tokenOf = (after: string) => `c1_${Buffer.from(after).toString('base64url')}`
function readToken(token: string): string {
  const [, text = ''] = TOKEN.exec(token) ?? []
  const after = Buffer.from(text, 'base64url').toString()
  if (after !== '' && tokenOf(after) === token) return after
  throw new Problem('InvalidArgument', { detail: 'continuation-token must be that of the page before.' })
}

const listObjectsV2: S3Action = {
  name: 'ListObjectsV2',
  method: 'GET',
  on: 'bucket',
  selectors: ['list-type'],
  operation: listForS3,
  bind: (request) => {
    const { query } = request
    if (query.get('list-type') !== '2')
      throw new Problem('InvalidArgument', { detail: 'list-type must be 2.' })
    const token = query.get('continuation-token')
    const input = bindList(request, ['start-after'])
    return token === undefined ? input : { ...input, after: readToken(token) }
  },
  send: (output: Output<typeof listForS3>, exchange) => {
    const { query } = exchange.request
    const encode = encoderOf(exchange.request)
    const startAfter = query.get('start-after')
    return sendXml(
      exchange,
      'ListBucketResult',
      listing(output, exchange, [
        ['KeyCount', output.items.length],
        ['StartAfter', startAfter && encode(startAfter)],
        ['ContinuationToken', query.get('continuation-token')],
        ['NextContinuationToken', output.next && tokenOf(output.next)],
      ]),
    )
  },
}

const listObjectsV1: S3Action = {
  name: 'ListObjects',
  method: 'GET',
  on: 'bucket',
  operation: listForS3,
  bind: (request) => bindList(request, ['marker']),
  send: (output: Output<typeof listForS3>, exchange) => {
    const encode = encoderOf(exchange.request)
    return sendXml(
      exchange,
      'ListBucketResult',
      listing(output, exchange, [
        ['Marker', encode(exchange.request.query.get('marker') ?? '')],
        ['NextMarker', output.next && encode(output.next)],
      ]),
    )
  },
}

const headBucket: S3Action = {
  name: 'HeadBucket',
  method: 'HEAD',
  on: 'bucket',
  operation: getBucket,
  bind: bindBucket,
  send: (_output, { reply }) => reply.code(200).header('x-amz-bucket-region', REGION).send(),
}

/** Signatures of any region are accepted; this is the one that clients take by themselves. */
const REGION = 'us-east-1'

const getBucketLocation: S3Action = {
  name: 'GetBucketLocation',
  method: 'GET',
  on: 'bucket',
  selectors: ['location'],
  operation: getBucket,
  bind: bindBucket,
  // Empty for us-east-1.
  send: (_output, exchange) => sendXml(exchange, 'LocationConstraint', []),
}

const getBucketVersioning: S3Action = {
  name: 'GetBucketVersioning',
  method: 'GET',
  on: 'bucket',
  selectors: ['versioning'],
  operation: getBucket,
  bind: bindBucket,
  send: (_output, exchange) => sendXml(exchange, 'VersioningConfiguration', []),
}

const listOwnBuckets: S3Action = {
  name: 'ListBuckets',
  method: 'GET',
  on: 'service',
  operation: listBuckets,
  bind: () => ({}),
  send: (buckets: Output<typeof listBuckets>, exchange) =>
    sendXml(exchange, 'ListAllMyBucketsResult', [
      [
        'Buckets',
        buckets.map(
          ({ name, created_at }) =>
            [
              'Bucket',
              [
                ['Name', name],
                ['CreationDate', created_at],
              ],
            ] as const,
        ),
      ],
    ]),
}

const deleteMany: S3Action = {
  name: 'DeleteObjects',
  method: 'POST',
  on: 'bucket',
  selectors: ['delete'],
  operation: deleteObjects,
  bind: async (request, recheck) => {
    const root = readXml(await readText(request, recheck), 'Delete')
    const objects = children(root, 'Object').map((object) => {
      const [key, etag] = [childText(object, 'Key'), childText(object, 'ETag')]
      if (key === undefined) throw new Problem('MalformedXML', { detail: 'An Object has no Key.' })
      return { key, ...(etag !== undefined && { if_match: etag }) }
    })
    if (objects.length === 0 || objects.length > OBJECT_LIMITS.objectsRemovedMax)
      throw new Problem('MalformedXML', {
        detail: `A request must name 1 to ${OBJECT_LIMITS.objectsRemovedMax} objects.`,
      })
    return { bucket: request.bucket, objects, quiet: childText(root, 'Quiet') === 'true' }
  },
  send: (deletions: Output<typeof deleteObjects>, exchange) =>
    sendXml(
      exchange,
      'DeleteResult',
      deletions.flatMap(({ key, problem }): [string, XmlContent][] => {
        if (problem === undefined)
          return exchange.input['quiet'] === true ? [] : [['Deleted', [['Key', key]]]]
        const { code, message } = itemError(problem)
        return [
          [
            'Error',
            [
              ['Key', key],
              ['Code', code],
              ['Message', message],
            ],
          ],
        ]
      }),
    ),
}

export const bucketActions: readonly S3Action[] = [
  listObjectsV2,
  listObjectsV1,
  headBucket,
  getBucketLocation,
  getBucketVersioning,
  listOwnBuckets,
  deleteMany,
]
