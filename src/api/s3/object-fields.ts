/** Reads headers of S3 requests as fields of operations on objects. */

import { Compile } from 'typebox/compile'
import { Problem } from '../../core/problem.ts'
import { OBJECT_LIMITS } from '../../features/objects/limits.ts'
import { CHANGE_HEADERS, KEPT_HEADERS, Tags } from '../../features/objects/object-fields.ts'
import { API_LIMITS } from '../limits.ts'
import { headerOf, type S3Request } from './s3-request.ts'
import { decode, Query } from './uri.ts'

export const nameOf = ({ bucket, key }: S3Request) => ({ bucket, key })

/** The fields that come from headers of the same name. @param prefix of the names of the headers alone */
export function headerFields(
  request: S3Request,
  names: readonly string[],
  prefix = '',
): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headerOf(request, prefix + name)
      return value === undefined ? [] : [[name.replaceAll('-', '_'), value]]
    }),
  )
}

const { content_encoding: _, ...AS_SENT } = KEPT_HEADERS
const KEPT = Object.values(AS_SENT)
export const CHANGE_CONDITIONS = Object.values(CHANGE_HEADERS)

/** Headers, metadata and tags of an object. @throws Problem `InvalidArgument`, `NotImplemented` for what the platform does not keep */
export function descriptionIn(request: S3Request): Record<string, unknown> {
  return {
    ...headerFields(request, KEPT),
    ...contentEncoding(request),
    metadata: metadataIn(request),
    ...tagsIn(request),
  }
}

/** The codings of the stored bytes: `aws-chunked` is that of the request alone. */
function contentEncoding(request: S3Request): Record<string, string> {
  const codings = (headerOf(request, 'content-encoding') ?? '').split(',').map((coding) => coding.trim())
  const kept = codings.filter((coding) => coding !== '' && coding.toLowerCase() !== 'aws-chunked')
  return kept.length === 0 ? {} : { content_encoding: kept.join(', ') }
}

const METADATA = 'x-amz-meta-'

/** @throws Problem `MetadataTooLarge` for more than S3 keeps: names and values together */
function metadataIn(request: S3Request): Record<string, string> {
  const found = Object.keys(request.http.headers).flatMap((name) =>
    name.startsWith(METADATA) ? [[name.slice(METADATA.length), headerOf(request, name) ?? ''] as const] : [],
  )
  const bytes = found.reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0)
  if (bytes <= API_LIMITS.s3MetadataBytesMax) return Object.fromEntries(found)
  throw new Problem('MetadataTooLarge', {
    detail: `Names and values of ${METADATA}* have ${bytes} bytes; together they may have ${API_LIMITS.s3MetadataBytesMax}.`,
  })
}

/** @throws Problem `InvalidTag` for tags that break S3's rules, or one that comes twice */
export function tagsOf(pairs: readonly (readonly [key: string, value: string])[]): Record<string, string> {
  const tags = Object.fromEntries(pairs)
  if (Object.keys(tags).length < pairs.length)
    throw new Problem('InvalidTag', { detail: 'The request names a tag twice.' })
  if (isTags.Check(tags)) return tags
  throw new Problem('InvalidTag', {
    detail: `An object has at most ${OBJECT_LIMITS.tagsMax} tags. A key has 1 to 128 characters and a value at most 256: letters, digits, spaces and _ . : / = + - @.`,
  })
}
const isTags = Compile(Tags)

/** `x-amz-tagging: a=1&b=2` */
export function tagsIn(request: S3Request): { tags?: Record<string, string> } {
  const text = headerOf(request, 'x-amz-tagging')
  if (text === undefined) return {}
  return { tags: tagsOf(new Query(text).pairs) }
}

/** The object that a copy is of, with its conditions. @throws Problem `InvalidArgument`, `NotImplemented` for a version */
export function sourceIn(request: S3Request): Record<string, unknown> {
  const [path = '', search = ''] = (headerOf(request, 'x-amz-copy-source') ?? '').split('?')
  if (search !== '') throw new Problem('NotImplemented', { detail: 'Objects have no versions to copy.' })
  const [, bucket = '', key = ''] = /^\/?([^/]+)\/(.+)$/s.exec(decode(path)) ?? []
  if (key === '')
    throw new Problem('InvalidArgument', {
      detail: 'x-amz-copy-source must be <bucket>/<key>, escaped as in a URL.',
    })
  const conditions = ['if-match', 'if-none-match', 'if-unmodified-since']
  return { bucket, key, ...headerFields(request, conditions, 'x-amz-copy-source-') }
}
