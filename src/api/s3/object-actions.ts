/** Actions of the S3 API on objects: read, write, copy, delete, tag. */

import type { ByteReply } from '../../core/bytes.ts'
import { QUERY_NAMES } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import { describeObject } from '../../features/objects/object-changes.ts'
import { READ_HEADERS, REPLY_FIELDS } from '../../features/objects/object-fields.ts'
import { getObject, headObject } from '../../features/objects/objects.ts'
import { copyS3Object, deleteIfThere, putS3Object, tagS3Object } from '../../features/objects/s3-objects.ts'
import { sendBytes } from '../body-streams.ts'
import { CHECKSUM_HEADERS } from './checksums.ts'
import {
  CHANGE_CONDITIONS,
  descriptionIn,
  headerFields,
  nameOf,
  sourceIn,
  tagsIn,
  tagsOf,
} from './object-fields.ts'
import type { Output, S3Action, S3Exchange } from './s3-action.ts'
import { bodyOf, headerOf, readText, type S3Request } from './s3-request.ts'
import { children, childText, readXml, sendXml } from './xml.ts'

const put: S3Action = {
  name: 'PutObject',
  method: 'PUT',
  on: 'object',
  operation: putS3Object,
  bind: (request, recheck) => ({
    ...nameOf(request),
    ...headerFields(request, CHANGE_CONDITIONS),
    ...descriptionIn(request),
    content: bodyOf(request, recheck),
  }),
  send: ({ etag }: Output<typeof putS3Object>, exchange) => sendEtag(etag, exchange),
}

/** The reply of an upload, with the checksums that were verified. */
export function sendEtag(etag: string, { request, reply }: S3Exchange) {
  for (const name of CHECKSUM_HEADERS) {
    const sum = headerOf(request, name)
    if (sum !== undefined) reply.header(name, sum)
  }
  return reply.code(200).header('etag', etag).send()
}

function sendObject(object: ByteReply, { request, reply, recheck }: S3Exchange) {
  const named = Object.entries(object.headers).map(([name, value]) => [
    name.replace(/^x-meta-/, 'x-amz-meta-'),
    value,
  ])
  return sendBytes({ ...object, headers: Object.fromEntries(named) }, request.http, reply, recheck)
}

/** Parameters that set headers of the reply, in the fields of the operation. */
function replyFields({ query }: S3Request): Record<string, string> {
  return Object.fromEntries(
    Object.keys(REPLY_FIELDS).flatMap((field) => {
      const value = query.get(QUERY_NAMES[field] ?? field)
      return value === undefined ? [] : [[field, value]]
    }),
  )
}

const bindRead = (request: S3Request, more: readonly string[] = []) => ({
  ...nameOf(request),
  ...headerFields(request, [...Object.values(READ_HEADERS), ...more]),
  ...replyFields(request),
})

const get: S3Action = {
  name: 'GetObject',
  method: 'GET',
  on: 'object',
  operation: getObject,
  bind: (request) => bindRead(request, ['range', 'if-range']),
  send: sendObject,
}

const head: S3Action = {
  name: 'HeadObject',
  method: 'HEAD',
  on: 'object',
  operation: headObject,
  bind: (request) => bindRead(request),
  send: sendObject,
}

const remove: S3Action = {
  name: 'DeleteObject',
  method: 'DELETE',
  on: 'object',
  operation: deleteIfThere,
  bind: (request) => ({ ...nameOf(request), ...headerFields(request, ['if-match']) }),
  send: (_output, { reply }) => reply.code(204).send(),
}

/** @throws Problem `InvalidArgument` for another value than COPY and REPLACE */
function replaces(request: S3Request, header: string): boolean {
  const directive = headerOf(request, header) ?? 'COPY'
  if (directive === 'COPY' || directive === 'REPLACE') return directive === 'REPLACE'
  throw new Problem('InvalidArgument', { detail: `${header} must be COPY or REPLACE.` })
}

const copy: S3Action = {
  name: 'CopyObject',
  method: 'PUT',
  on: 'object',
  header: 'x-amz-copy-source',
  operation: copyS3Object,
  bind: (request) => ({
    ...nameOf(request),
    ...headerFields(request, CHANGE_CONDITIONS),
    source: sourceIn(request),
    ...(replaces(request, 'x-amz-metadata-directive') && { description: descriptionIn(request) }),
    ...(replaces(request, 'x-amz-tagging-directive') && { tags: tagsIn(request).tags ?? {} }),
  }),
  send: ({ etag, modifiedMs }: Output<typeof copyS3Object>, exchange) =>
    sendXml(exchange, 'CopyObjectResult', [
      ['ETag', etag],
      ['LastModified', new Date(modifiedMs).toISOString()],
    ]),
}

const getTags: S3Action = {
  name: 'GetObjectTagging',
  method: 'GET',
  on: 'object',
  selectors: ['tagging'],
  operation: describeObject,
  bind: nameOf,
  send: ({ tags }: Output<typeof describeObject>, exchange) =>
    sendXml(exchange, 'Tagging', [
      [
        'TagSet',
        Object.entries(tags).map(
          ([key, value]) =>
            [
              'Tag',
              [
                ['Key', key],
                ['Value', value],
              ],
            ] as const,
        ),
      ],
    ]),
}

const putTags: S3Action = {
  name: 'PutObjectTagging',
  method: 'PUT',
  on: 'object',
  selectors: ['tagging'],
  operation: tagS3Object,
  bind: async (request, recheck) => {
    const root = readXml(await readText(request, recheck), 'Tagging')
    const tags = children(root, 'TagSet')
      .flatMap((set) => children(set, 'Tag'))
      .map((tag) => [childText(tag, 'Key') ?? '', childText(tag, 'Value') ?? ''] as const)
    return { ...nameOf(request), tags: tagsOf(tags) }
  },
  send: (_output, { reply }) => reply.code(200).send(),
}

const deleteTags: S3Action = {
  ...putTags,
  name: 'DeleteObjectTagging',
  method: 'DELETE',
  bind: (request) => ({ ...nameOf(request), tags: {} }),
  send: (_output, { reply }) => reply.code(204).send(),
}

const getAttributes: S3Action = {
  name: 'GetObjectAttributes',
  method: 'GET',
  on: 'object',
  selectors: ['attributes'],
  operation: describeObject,
  bind: nameOf,
  send: ({ etag, size, last_modified }: Output<typeof describeObject>, exchange) => {
    const wanted = new Set((headerOf(exchange.request, 'x-amz-object-attributes') ?? '').split(/[ ,]+/))
    const only = <T>(name: string, value: T) => [name, wanted.has(name) ? value : undefined] as const
    exchange.reply.header('last-modified', new Date(last_modified).toUTCString())
    return sendXml(exchange, 'GetObjectAttributesResponse', [
      only('ETag', etag.replaceAll('"', '')),
      only('StorageClass', 'STANDARD'),
      only('ObjectSize', size),
    ])
  },
}

export const objectActions: readonly S3Action[] = [
  ...[put, get, head, remove, copy],
  ...[getTags, putTags, deleteTags, getAttributes],
]
