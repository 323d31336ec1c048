/** Objects: binary streams in the workspace's bucket; problems have S3's own names. */

import Type from 'typebox'
import { Input, Time, workspaceOperation } from '../../access/operation-builders.ts'
import { type ByteReply, Bytes } from '../../core/bytes.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_TIME } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { checkBucket } from '../../core/object-key.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { DATA_ROLES, WRITERS_AND_USERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { LIST_DIGEST_CHARS, listDigest } from '../operation-helpers.ts'
import type { ListedEntry } from './catalogue.ts'
import { tagOf } from './conditions.ts'
import { IMAGE_FIELDS, imageOf } from './images/image-request.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { splitReplyFields, withinLink, withReplyHeaders } from './links.ts'
import {
  Bucket,
  CHANGE_HEADERS,
  DIGESTS,
  Header,
  IfMatch,
  IfNoneMatch,
  IfUnmodifiedSince,
  KEPT,
  KEPT_HEADERS,
  Key,
  keptHeaders,
  Metadata,
  READ_CONDITIONS,
  READ_HEADERS,
  REPLY_FIELDS,
  Stored,
} from './object-fields.ts'
import { requireObjectRule, requireReadable } from './object-rules.ts'
import { objectsOf } from './workspace-objects.ts'

/** The output of GET and HEAD: a stream of any type. */
const Content = Type.Unsafe<ByteReply>(
  Type.Unknown({ description: 'Content of the object, in its own media type.' }),
)
const PATH = '/v1/objects/{bucket}/{key*}'

export const putObject = workspaceOperation({
  name: 'object.put',
  summary: 'Store an object',
  roles: WRITERS_AND_USERS,
  input: Input({
    bucket: Bucket,
    key: Key,
    content: Bytes(`Content of the object, at most ${OBJECT_LIMITS.requestBytesMax} bytes.`),
    ...KEPT,
    metadata: Type.Optional(Metadata),
    ...DIGESTS,
    if_match: IfMatch,
    if_none_match: IfNoneMatch,
    if_unmodified_since: IfUnmodifiedSince,
  }),
  output: Stored,
  http: {
    method: 'PUT',
    path: PATH,
    linkInQuery: true,
    body: 'content',
    takes: 'bytes',
    headers: {
      ...KEPT_HEADERS,
      metadata: 'x-meta-*',
      content_md5: 'content-md5',
      content_digest: 'content-digest',
      repr_digest: 'repr-digest',
      ...CHANGE_HEADERS,
      if_unmodified_since: 'if-unmodified-since',
    },
    status: ({ created }) => (created === false ? 200 : 201),
    also: [200],
    etag: ({ etag }) => etag,
  },
  run: async (scope, { bucket, key, content, metadata = {}, ...options }) => {
    await requireObjectRule(scope, 'write', key)
    if (/\baws-chunked\b/i.test(options.content_encoding ?? ''))
      throw new Problem('media_type_unsupported', {
        detail:
          'The Content-Encoding aws-chunked belongs to signed requests of S3. Send the bytes without it, or use the S3 API below /s3.',
      })
    const upload = withinLink(scope, { type: options.content_type, source: content })
    const stored = await objectsOf(scope).put({ bucket: checkBucket(bucket), key }, upload.source, {
      headers: keptHeaders({ ...options, ...upload.headers }),
      metadata,
      tags: {},
      conditions: options,
      digests: options,
    })
    return { bucket, key, ...stored }
  },
})

export const headObject = workspaceOperation({
  name: 'object.head',
  summary: 'Read the metadata of an object, without its content',
  roles: DATA_ROLES,
  input: Input({ bucket: Bucket, key: Key, ...READ_CONDITIONS, ...IMAGE_FIELDS, ...REPLY_FIELDS }),
  output: Content,
  http: {
    method: 'HEAD',
    path: PATH,
    linkInQuery: true,
    headers: { ...READ_HEADERS, accept: 'accept' },
    reply: 'bytes',
  },
  run: async (scope, { bucket, key, ...options }) => {
    await requireReadable(scope, key)
    const [wanted, input] = splitReplyFields(options)
    const represent = imageOf(scope, input)
    const read = () => objectsOf(scope).head({ bucket: checkBucket(bucket), key }, input, { represent })
    return withReplyHeaders(scope, wanted, read, { hasOwnType: represent !== undefined })
  },
})

export const getObject = workspaceOperation({
  name: 'object.get',
  summary: 'Read an object, or a range of it',
  roles: DATA_ROLES,
  input: Input({
    bucket: Bucket,
    key: Key,
    range: Header(
      'Range of bytes, such as `bytes=0-99`; a range of another unit is ignored (RFC 9110 §14.2).',
    ),
    if_range: Header(
      'ETag or date of the version that the range belongs to; the whole object is sent if it has another version.',
    ),
    ...READ_CONDITIONS,
    ...IMAGE_FIELDS,
    ...REPLY_FIELDS,
  }),
  output: Content,
  http: {
    method: 'GET',
    path: PATH,
    linkInQuery: true,
    headers: { range: 'range', if_range: 'if-range', ...READ_HEADERS, accept: 'accept' },
    reply: 'bytes',
  },
  run: async (scope, { bucket, key, ...options }) => {
    await requireReadable(scope, key)
    const [wanted, input] = splitReplyFields(options)
    const represent = imageOf(scope, input)
    const read = () => objectsOf(scope).get({ bucket: checkBucket(bucket), key }, input, { represent })
    return withReplyHeaders(scope, wanted, read, { hasOwnType: represent !== undefined })
  },
})

export const deleteObject = workspaceOperation({
  name: 'object.delete',
  summary: 'Delete an object',
  roles: WRITERS_AND_USERS,
  input: Input({ bucket: Bucket, key: Key, if_match: IfMatch, if_unmodified_since: IfUnmodifiedSince }),
  output: component(
    'DeletedObject',
    Type.Object({ bucket: Type.String(), key: Type.String(), deleted: Type.Literal(true) }),
    { bucket: 'bookings-4z3v73kk0e00', key: 'photos/centre-court.jpg', deleted: true },
  ),
  http: {
    method: 'DELETE',
    path: PATH,
    headers: { if_match: 'if-match', if_unmodified_since: 'if-unmodified-since' },
  },
  run: async (scope, { bucket, key, ...conditions }) => {
    await requireObjectRule(scope, 'delete', key)
    await objectsOf(scope).delete({ bucket: checkBucket(bucket), key }, conditions)
    return { bucket, key, deleted: true as const }
  },
})

const Listed = component(
  'ObjectSummary',
  Type.Object({
    key: Type.String(),
    size: Type.Integer({ description: 'Size in bytes.' }),
    etag: Type.String(),
    last_modified: Time,
  }),
  {
    key: 'photos/centre-court.jpg',
    size: 48_213,
    etag: '"5d41402abc4b2a76b9719d911017c592"',
    last_modified: EXAMPLE_TIME.updated,
  },
)
const ObjectPage = PageOf(Listed)

export const listObjects = workspaceOperation({
  name: 'object.list',
  summary: 'List the objects of a bucket, in the byte order of their keys',
  roles: DATA_ROLES,
  input: Input({
    bucket: Bucket,
    ...PageInput,
    // A key may be long, and its cursor is longer.
    page_after: Type.Optional(
      Type.String({ maxLength: 6_000, description: '`page.next` of the previous page.' }),
    ),
    prefix: Type.Optional(
      Type.String({ maxLength: CORE_LIMITS.objectKeyBytesMax, description: 'Prefix of the keys to list.' }),
    ),
    delimiter: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description:
          'Separator, such as `/`: keys that have it behind the prefix are listed once, as their common prefix in `prefixes`.',
      }),
    ),
  }),
  output: component(
    'ObjectPage',
    Type.Object({
      ...ObjectPage.properties,
      prefixes: Type.Optional(
        Type.Array(Type.String(), {
          description: 'Common prefixes, each ending with the delimiter; with `delimiter` only.',
        }),
      ),
    }),
    { data: [exampleOf(Listed)], page: { size: 50, next: null, has_more: false } },
  ),
  http: { method: 'GET', path: '/v1/objects/{bucket}' },
  run: async (scope, { bucket, page_size: size = CORE_LIMITS.pageItemsDefault, page_after, ...input }) => {
    const { prefix = '', delimiter } = input
    await requireReadable(scope, prefix, 'list')
    const digest = listDigest(bucket, prefix, delimiter)
    const after = page_after === undefined ? undefined : readCursor(digest, page_after)
    const request = { prefix, delimiter, after, size }
    const { items, next } = await objectsOf(scope).list(checkBucket(bucket), request)
    return {
      data: items.flatMap((item) => ('key' in item ? [toListed(item)] : [])),
      ...(delimiter !== undefined && {
        prefixes: items.flatMap((item) => ('key' in item ? [] : [item.prefix])),
      }),
      page: { size, next: next === undefined ? null : cursor(digest, next), has_more: next !== undefined },
    }
  },
})

const toListed = (entry: ListedEntry) => ({
  key: entry.key,
  size: entry.size,
  etag: tagOf(entry),
  last_modified: new Date(entry.modifiedMs).toISOString(),
})

/** @param after the last item of the page */
const cursor = (digest: string, after: string) => `c1_${Buffer.from(digest + after).toString('base64url')}`

/** @throws Problem `cursor_invalid` if the text is not a cursor, `cursor_mismatch` if it is of another list */
function readCursor(digest: string, text: string): string {
  const content = Buffer.from(text.replace(/^c1_/, ''), 'base64url').toString()
  const after = content.slice(LIST_DIGEST_CHARS)
  if (after === '' || after.includes('\0') || cursor('', content) !== text)
    throw new Problem('cursor_invalid')
  if (!content.startsWith(digest)) throw new Problem('cursor_mismatch')
  return after
}
