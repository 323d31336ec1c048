/** Actions of the S3 API on objects: read, write, delete. */

import type { ByteReply } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'
import { getObject, headObject, putObject } from '../../features/objects/objects.ts'
import { deleteIfThere } from '../../features/objects/s3-operations.ts'
import { sendBytes } from '../body-streams.ts'
import type { S3Action, S3Exchange } from './actions.ts'
import { CHECKSUM_HEADERS } from './checksums.ts'
import { bodyOf, headerOf, type S3Request } from './s3-request.ts'

/** The fields of an input that come from headers of the same name. */
function headerFields(request: S3Request, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headerOf(request, name)
      return value === undefined ? [] : [[name.replaceAll('-', '_'), value]]
    }),
  )
}

const READ = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']
const KEPT = ['content-type', 'content-disposition', 'content-language', 'cache-control']
const CHANGE = ['if-match', 'if-none-match']

const nameOf = ({ bucket, key }: S3Request) => ({ bucket, key })

/** The codings of the stored bytes: `aws-chunked` is that of the request alone. */
function contentEncoding(request: S3Request): Record<string, string> {
  const codings = (headerOf(request, 'content-encoding') ?? '').split(',').map((coding) => coding.trim())
  const kept = codings.filter((coding) => coding !== '' && coding.toLowerCase() !== 'aws-chunked')
  return kept.length === 0 ? {} : { content_encoding: kept.join(', ') }
}

const put: S3Action = {
  name: 'PutObject',
  method: 'PUT',
  on: 'object',
  operation: putObject,
  bind: (request, recheck) => ({
    ...nameOf(request),
    ...headerFields(request, [...KEPT, ...CHANGE]),
    ...contentEncoding(request),
    content: bodyOf(request, recheck),
  }),
  send: ({ etag }: { etag: string }, { request, reply }) => {
    for (const name of CHECKSUM_HEADERS) {
      const sum = headerOf(request, name)
      if (sum !== undefined) reply.header(name, sum)
    }
    return reply.code(200).header('etag', etag).send()
  },
}

/** Headers of the reply that the query of a read may set. */
const OVERRIDES = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-type',
  'expires',
]

/** @throws Problem `InvalidArgument` for a value that would end its header */
function overrides({ query }: S3Request): Record<string, string> {
  return Object.fromEntries(
    OVERRIDES.flatMap((name) => {
      const value = query.get(`response-${name}`)
      if (value === undefined) return []
      if (/^[\x20-\x7e]*$/.test(value)) return [[name, value]]
      throw new Problem('InvalidArgument', {
        detail: `response-${name} has other characters than printable ASCII.`,
      })
    }),
  )
}

function sendObject(object: ByteReply, { request, reply, recheck }: S3Exchange) {
  const named = Object.entries(object.headers).map(([name, value]) => [
    name.replace(/^x-meta-/, 'x-amz-meta-'),
    value,
  ])
  const headers = { ...Object.fromEntries(named), ...(object.status < 300 && overrides(request)) }
  return sendBytes({ ...object, headers }, request.http, reply, recheck)
}

const get: S3Action = {
  name: 'GetObject',
  method: 'GET',
  on: 'object',
  operation: getObject,
  bind: (request) => {
    overrides(request)
    return { ...nameOf(request), ...headerFields(request, [...READ, 'range', 'if-range']) }
  },
  send: sendObject,
}

const head: S3Action = {
  name: 'HeadObject',
  method: 'HEAD',
  on: 'object',
  operation: headObject,
  bind: (request) => {
    overrides(request)
    return { ...nameOf(request), ...headerFields(request, READ) }
  },
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

export const objectActions: readonly S3Action[] = [put, get, head, remove]
