/** Reads headers of S3 requests as fields of operations on objects. */

import { Problem } from '../../core/problem.ts'
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

const KEPT = ['content-type', 'content-disposition', 'content-language', 'cache-control']
export const CHANGE_CONDITIONS = ['if-match', 'if-none-match']

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

const metadataIn = (request: S3Request): Record<string, string> =>
  Object.fromEntries(
    Object.keys(request.http.headers).flatMap((name) =>
      name.startsWith(METADATA) ? [[name.slice(METADATA.length), headerOf(request, name) ?? '']] : [],
    ),
  )

/** `x-amz-tagging: a=1&b=2` */
export function tagsIn(request: S3Request): { tags?: Record<string, string> } {
  const text = headerOf(request, 'x-amz-tagging')
  if (text === undefined) return {}
  const query = new Query(text)
  if (new Set(query.names).size < query.names.length)
    throw new Problem('InvalidArgument', { detail: 'x-amz-tagging names a tag twice.' })
  return { tags: Object.fromEntries(query.names.map((name) => [name, query.get(name) ?? ''])) }
}

/** The object that a copy is of, with its conditions. @throws Problem `InvalidArgument`, `NotImplemented` for a version */
export function sourceIn(request: S3Request): Record<string, unknown> {
  const [path = '', search = ''] = (headerOf(request, 'x-amz-copy-source') ?? '').split('?')
  if (search !== '') throw new Problem('NotImplemented', { detail: 'Objects have no versions to copy.' })
  const [, bucket = '', key = ''] = /^\/?([^/]+)\/(.+)$/s.exec(decode(path)) ?? []
  if (key === '')
    throw new Problem('InvalidArgument', {
      detail: 'x-amz-copy-source is <bucket>/<key>, escaped as in a URL.',
    })
  const conditions = ['if-match', 'if-none-match', 'if-unmodified-since']
  return { bucket, key, ...headerFields(request, conditions, 'x-amz-copy-source-') }
}
