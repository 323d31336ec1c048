/** Actions of the S3 API on uploads in parts. */

import { Problem } from '../../core/problem.ts'
import { OBJECT_LIMITS } from '../../features/objects/limits.ts'
import {
  abortUpload,
  beginUpload,
  completeUpload,
  copyPart,
  listParts,
  listUploads,
  putPart,
} from '../../features/objects/s3-uploads.ts'
import { CHECKSUM_HEADERS } from './checksums.ts'
import { sendEtag } from './object-actions.ts'
import { CHANGE_CONDITIONS, descriptionIn, headerFields, nameOf, sourceIn } from './object-fields.ts'
import type { Output, S3Action } from './s3-action.ts'
import { bodyOf, headerOf, readText, type S3Request } from './s3-request.ts'
import { children, childText, readXml, sendXml } from './xml.ts'

const uploadOf = (request: S3Request) => ({ ...nameOf(request), upload: request.query.get('uploadId') ?? '' })

const etagElement = (etag: string) => ['ETag', `"${etag}"`] as const

/** @throws Problem `InvalidArgument` */
function numberOf(text: string | undefined): number {
  if (/^[1-9]\d{0,4}$/.test(text ?? '') && Number(text) <= OBJECT_LIMITS.partsMax) return Number(text)
  throw new Problem('InvalidArgument', {
    detail: `The number of a part must be from 1 to ${OBJECT_LIMITS.partsMax}.`,
  })
}

/** A number of the query, at most 1,000, which is the default. @throws Problem `InvalidArgument` */
function sizeOf({ query }: S3Request, name: string): number {
  const text = query.get(name) ?? String(OBJECT_LIMITS.keysListedMax)
  if (/^[1-9]\d{0,8}$/.test(text)) return Math.min(Number(text), OBJECT_LIMITS.keysListedMax)
  throw new Problem('InvalidArgument', { detail: `${name} must be a number of 1 or more.` })
}

/** The number of a part, behind which a list begins; 0: at the first one. @throws Problem `InvalidArgument` */
function markerOf({ query }: S3Request): number {
  const text = query.get('part-number-marker') ?? '0'
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new Problem('InvalidArgument', { detail: 'part-number-marker must be a number of 0 or more.' })
}

const create: S3Action = {
  name: 'CreateMultipartUpload',
  method: 'POST',
  on: 'object',
  selectors: ['uploads'],
  operation: beginUpload,
  bind: (request) => ({ ...nameOf(request), ...descriptionIn(request) }),
  send: ({ upload }: Output<typeof beginUpload>, exchange) => {
    const { bucket, key } = exchange.request
    return sendXml(exchange, 'InitiateMultipartUploadResult', [
      ['Bucket', bucket],
      ['Key', key],
      ['UploadId', upload],
    ])
  },
}

const uploadPart: S3Action = {
  name: 'UploadPart',
  method: 'PUT',
  on: 'object',
  selectors: ['partNumber', 'uploadId'],
  operation: putPart,
  bind: (request, recheck) => ({
    ...uploadOf(request),
    number: numberOf(request.query.get('partNumber')),
    content: bodyOf(request, recheck),
  }),
  send: ({ etag }: Output<typeof putPart>, exchange) => sendEtag(etag, exchange),
}

const uploadPartCopy: S3Action = {
  name: 'UploadPartCopy',
  method: 'PUT',
  on: 'object',
  selectors: ['partNumber', 'uploadId'],
  header: 'x-amz-copy-source',
  operation: copyPart,
  bind: (request) => {
    const range = headerOf(request, 'x-amz-copy-source-range')
    return {
      ...uploadOf(request),
      number: numberOf(request.query.get('partNumber')),
      source: { ...sourceIn(request), ...(range !== undefined && { range }) },
    }
  },
  send: ({ etag }: Output<typeof copyPart>, exchange) =>
    sendXml(exchange, 'CopyPartResult', [
      ['ETag', etag],
      ['LastModified', new Date().toISOString()],
    ]),
}

const complete: S3Action = {
  name: 'CompleteMultipartUpload',
  method: 'POST',
  on: 'object',
  selectors: ['uploadId'],
  operation: completeUpload,
  bind: async (request, recheck) => {
    refuseChecksum(request)
    const root = readXml(await readText(request, recheck, []), 'CompleteMultipartUpload')
    const parts = children(root, 'Part').map((part) => ({
      number: numberOf(childText(part, 'PartNumber')),
      etag: (childText(part, 'ETag') ?? '').replaceAll('"', ''),
    }))
    if (parts.length === 0) throw new Problem('MalformedXML', { detail: 'The document names no Part.' })
    return { ...uploadOf(request), ...headerFields(request, CHANGE_CONDITIONS), parts }
  },
  send: ({ etag }: Output<typeof completeUpload>, exchange) => {
    const { bucket, key, http } = exchange.request
    return sendXml(exchange, 'CompleteMultipartUploadResult', [
      ['Location', `${http.protocol}://${http.host}${http.originalUrl.split('?')[0]}`],
      ['Bucket', bucket],
      ['Key', key],
      ['ETag', etag],
    ])
  },
}

/** Here, and only here, a checksum is that of the object and not of the body, and nothing computes it. @throws Problem `NotImplemented` */
function refuseChecksum(request: S3Request): void {
  const header = CHECKSUM_HEADERS.find((name) => headerOf(request, name) !== undefined)
  if (header === undefined) return
  throw new Problem('NotImplemented', {
    detail: `${header} of the whole object is not checked. End the upload without it; checksums of its parts are checked when they are sent.`,
  })
}

const abort: S3Action = {
  name: 'AbortMultipartUpload',
  method: 'DELETE',
  on: 'object',
  selectors: ['uploadId'],
  operation: abortUpload,
  bind: uploadOf,
  send: (_output, { reply }) => reply.code(204).send(),
}

const parts: S3Action = {
  name: 'ListParts',
  method: 'GET',
  on: 'object',
  selectors: ['uploadId'],
  operation: listParts,
  bind: (request) => {
    sizeOf(request, 'max-parts')
    markerOf(request)
    return uploadOf(request)
  },
  send: (found: Output<typeof listParts>, exchange) => {
    const { request } = exchange
    const [marker, size] = [markerOf(request), sizeOf(request, 'max-parts')]
    const behind = found.filter(({ number }) => number > marker)
    const page = behind.slice(0, size)
    return sendXml(exchange, 'ListPartsResult', [
      ['Bucket', request.bucket],
      ['Key', request.key],
      ['UploadId', uploadOf(request).upload],
      ['PartNumberMarker', marker],
      ['NextPartNumberMarker', page.at(-1)?.number],
      ['MaxParts', size],
      ['IsTruncated', behind.length > page.length],
      ...page.map(
        ({ number, size: bytes, etag, storedMs }) =>
          [
            'Part',
            [
              ['PartNumber', number],
              ['LastModified', new Date(storedMs).toISOString()],
              etagElement(etag),
              ['Size', bytes],
            ],
          ] as const,
      ),
    ])
  },
}

const uploads: S3Action = {
  name: 'ListMultipartUploads',
  method: 'GET',
  on: 'bucket',
  selectors: ['uploads'],
  operation: listUploads,
  bind: (request) => {
    const { bucket, query } = request
    if (query.get('delimiter'))
      throw new Problem('NotImplemented', { detail: 'Uploads are not grouped by a delimiter.' })
    const [key, upload] = [query.get('key-marker'), query.get('upload-id-marker')]
    return {
      bucket,
      prefix: query.get('prefix') ?? '',
      size: sizeOf(request, 'max-uploads'),
      ...(key && { after: { key, upload: upload || LAST_UPLOAD } }),
    }
  },
  send: ({ uploads: found, isTruncated }: Output<typeof listUploads>, exchange) => {
    const last = isTruncated ? found.at(-1) : undefined
    return sendXml(exchange, 'ListMultipartUploadsResult', [
      ['Bucket', exchange.request.bucket],
      ['Prefix', String(exchange.input['prefix'])],
      ['NextKeyMarker', last?.key],
      ['NextUploadIdMarker', last?.upload],
      ['MaxUploads', Number(exchange.input['size'])],
      ['IsTruncated', isTruncated],
      ...found.map(
        ({ key, upload, createdMs }) =>
          [
            'Upload',
            [
              ['Key', key],
              ['UploadId', upload],
              ['StorageClass', 'STANDARD'],
              ['Initiated', new Date(createdMs).toISOString()],
            ],
          ] as const,
      ),
    ])
  },
}

/** Behind all uploads of a key. */
const LAST_UPLOAD = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const uploadActions: readonly S3Action[] = [
  ...[create, uploadPart, uploadPartCopy, complete, abort],
  ...[parts, uploads],
]
