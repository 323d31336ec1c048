/** Input fields of operations on objects, which are headers of HTTP. */

import Type from 'typebox'
import { component } from '../../core/components/component.ts'
import type { KeptHeaders } from './catalogue.ts'
import { OBJECT_LIMITS } from './limits.ts'

// `run` checks the names, since the problem has S3's code.
export const Bucket = Type.String({ maxLength: 200, description: 'Name of the bucket.' })
export const Key = Type.String({
  maxLength: 4_096,
  description: 'Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8.',
})
export const Header = (description: string) =>
  Type.Optional(Type.String({ maxLength: 1_000, pattern: '^[\\u0020-\\u007e]*$', description }))
export const IfMatch = Header('ETag that the object must have. `*`: the object must exist.')
export const IfNoneMatch = Header('ETag that the object must not have. `*`: the object must not exist.')
export const IfUnmodifiedSince = Header(
  'Date after which the object must not have changed; ignored with `If-Match`.',
)
const IfModifiedSince = Header(
  'Date since which the object must have changed; otherwise the status is 304. Ignored with `If-None-Match`.',
)
/** Conditions of requests that read. */
export const READ_CONDITIONS = {
  if_match: IfMatch,
  if_none_match: IfNoneMatch,
  if_modified_since: IfModifiedSince,
  if_unmodified_since: IfUnmodifiedSince,
}
export const READ_HEADERS = {
  if_match: 'if-match',
  if_none_match: 'if-none-match',
  if_modified_since: 'if-modified-since',
  if_unmodified_since: 'if-unmodified-since',
} as const
/** Headers of a successful reply that its request sets: parameters `response-content-type`, … (S3). */
export const REPLY_FIELDS = {
  response_cache_control: Header('`Cache-Control` of the reply; always `private`.'),
  response_content_disposition: Header(
    '`Content-Disposition` of the reply, such as `attachment; filename="may.pdf"`.',
  ),
  response_content_encoding: Header('`Content-Encoding` of the reply.'),
  response_content_language: Header('`Content-Language` of the reply.'),
  response_content_type: Header('`Content-Type` of the reply.'),
  response_expires: Header('`Expires` of the reply.'),
}
/** Headers that are kept with an object, and sent with it. */
export const KEPT = {
  content_type: Header('Media type of the object. Default: `application/octet-stream`.'),
  content_encoding: Header('Content coding of the bytes, such as `gzip`; they are stored unchanged.'),
  content_disposition: Header('Presentation in browsers, such as `attachment; filename="report.pdf"`.'),
  content_language: Header('Language of the content, such as `de`.'),
  cache_control: Header(
    'Caching by clients, such as `max-age=60`. Shared caches may not store the object, since each request has a credential.',
  ),
}
/** The headers that fields have. */
export const KEPT_HEADERS = {
  content_type: 'content-type',
  content_encoding: 'content-encoding',
  content_disposition: 'content-disposition',
  content_language: 'content-language',
  cache_control: 'cache-control',
} as const satisfies Record<keyof typeof KEPT, string>
export const CHANGE_HEADERS = { if_match: 'if-match', if_none_match: 'if-none-match' } as const
export const DIGESTS = {
  content_md5: Header('MD5 of the body in base64 (RFC 1864).'),
  content_digest: Header('Digest of the body: `sha-256=:<base64>:` or `sha-512=:<base64>:` (RFC 9530).'),
  repr_digest: Header(
    'Digest of the stored bytes, which are those of the body, in the form of `Content-Digest`.',
  ),
}

/** The output of operations that store an object. */
export const Stored = component(
  'StoredObject',
  Type.Object({
    bucket: Type.String(),
    key: Type.String(),
    size: Type.Integer({ description: 'Size in bytes.' }),
    etag: Type.String(),
    created: Type.Boolean({ description: 'True if the object did not exist before.' }),
  }),
  {
    bucket: 'bookings-4z3v73kk0e00',
    key: 'photos/centre-court.jpg',
    size: 48_213,
    etag: '"5d41402abc4b2a76b9719d911017c592"',
    created: true,
  },
)

/** Texts by name: `{"author": "mia"}`. */
export const Metadata = Type.Record(
  Type.String({ pattern: '^[a-z0-9][a-z0-9_.-]{0,127}$' }),
  Type.String({ maxLength: 2_000, pattern: '^[\\u0020-\\u007e]*$' }),
  {
    maxProperties: 50,
    additionalProperties: false,
    description: 'Texts of your own that are kept with the object: headers `x-meta-<name>`, in lower case.',
  },
)

/** By the rules of S3, whose clients read and write them as well. */
export const Tags = Type.Record(
  Type.String({ pattern: '^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$' }),
  Type.String({ pattern: '^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$' }),
  {
    maxProperties: OBJECT_LIMITS.tagsMax,
    additionalProperties: false,
    description: `Tags of the object, at most ${OBJECT_LIMITS.tagsMax}: keys of 1 to 128 characters, and values of at most 256.`,
  },
)

/** {@link KEPT} by the names of the headers, as the catalogue has them. */
export const KeptByHeader = Type.Object(
  Object.fromEntries(
    (Object.keys(KEPT) as (keyof typeof KEPT)[]).map((name) => [KEPT_HEADERS[name], KEPT[name]]),
  ),
  { additionalProperties: false },
)

const KEPT_NAMES = Object.keys(KEPT_HEADERS) as (keyof typeof KEPT)[]

/** The headers of a request that are kept, by their names. */
export const keptHeaders = (input: Readonly<Partial<Record<keyof typeof KEPT, string>>>): KeptHeaders =>
  Object.fromEntries(
    KEPT_NAMES.flatMap((name) => {
      const value = input[name]
      return value === undefined || value === '' ? [] : [[KEPT_HEADERS[name], value]]
    }),
  )
