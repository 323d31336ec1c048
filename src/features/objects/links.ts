/** Signed links: makes them, and keeps requests with one to its terms. */

import Type from 'typebox'
import { Input, Time, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { signObjectLink } from '../../access/scope-services.ts'
import type { ByteReply, ByteSource } from '../../core/bytes.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_TIME } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { checkBucket } from '../../core/object-key.ts'
import { type LinkTerms, WRITERS_AND_USERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { bodyProblem } from '../operation-helpers.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { Bucket, Header, Key, REPLY_FIELDS } from './object-fields.ts'
import { requireObjectRule, requireReadable } from './object-rules.ts'
import { objectsOf, privately } from './workspace-objects.ts'

const { linkSecondsDefault, linkSecondsMax, requestBytesMax } = OBJECT_LIMITS

export const presignObject = workspaceOperation({
  name: 'object.presign',
  summary: 'Create a link that carries one request for one object, without another credential',
  roles: WRITERS_AND_USERS,
  scope: 'objects:read',
  conditionalScopes: [{ scope: 'objects:write', when: ({ method = 'GET' }) => method !== 'GET' }],
  input: Input({
    bucket: Bucket,
    key: Key,
    method: Type.Optional(
      Type.Union([Type.Literal('GET'), Type.Literal('PUT'), Type.Literal('POST')], {
        description:
          'Request of the link. `GET`, also `HEAD`: reads the object; `PUT`: stores the body; `POST`: stores the file of a form (`multipart/form-data`). Default: `GET`.',
      }),
    ),
    expires_in: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: linkSecondsMax,
        description: `Seconds for which the link can be used. Default: ${linkSecondsDefault}.`,
      }),
    ),
    content_type: Header(
      'Media type that an upload must have, or that the reply to a download has. Default: every type; that of the object.',
    ),
    max_bytes: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: requestBytesMax,
        description: 'Greatest size of an upload, in bytes.',
      }),
    ),
    disposition: Header(
      'Header `Content-Disposition`, such as `attachment; filename="may.pdf"`: of the reply to a download; kept with the object by an upload.',
    ),
  }),
  output: component(
    'ObjectLink',
    Type.Object({
      url: Type.String({ description: 'The link. Its request needs no other credential.' }),
      method: Type.String(),
      expires_at: Time,
      headers: Type.Optional(
        Type.Record(Type.String(), Type.String(), { description: 'Headers that a `PUT` must have.' }),
      ),
    }),
    {
      url: 'https://api.tennis.example/v1/objects/bookings-4z3v73kk0e00/photos/centre-court.jpg?link=signed',
      method: 'GET',
      expires_at: EXAMPLE_TIME.later,
    },
  ),
  http: { method: 'POST', path: '/v1/buckets/{bucket}/presign', body: '*' },
  run: async (scope, { bucket, key, method = 'GET', expires_in = linkSecondsDefault, ...input }) => {
    const { content_type: contentType, max_bytes: maxBytes, disposition } = input
    if (method === 'GET' && maxBytes !== undefined)
      throw bodyProblem('/max_bytes', 'max_bytes limits uploads; leave it out of a link for GET.')
    if (method === 'GET') await requireReadable(scope, key)
    else await requireObjectRule(scope, 'write', key)
    await objectsOf(scope).requireName({ bucket: checkBucket(bucket), key })
    const terms: LinkTerms = {
      ...(contentType !== undefined && { contentType }),
      ...(maxBytes !== undefined && { maxBytes }),
      ...(disposition !== undefined && { disposition }),
    }
    const path = `/v1/objects/${bucket}/${key.split('/').map(encodeURIComponent).join('/')}`
    const until = { expiresMs: Date.now() + expires_in * 1_000, terms }
    const { url, expiresMs } = signObjectLink(scope, path, { method, bucket, key }, until)
    if (url.length > CORE_LIMITS.urlBytesMax)
      throw bodyProblem(
        '/key',
        `The link would have ${url.length} bytes; a URL has at most ${CORE_LIMITS.urlBytesMax}.`,
      )
    const hasType = method === 'PUT' && contentType !== undefined
    return {
      url,
      method,
      expires_at: new Date(expiresMs).toISOString(),
      ...(hasType && { headers: { 'content-type': contentType } }),
    }
  },
})

const termsOf = (scope: WorkspaceScope): LinkTerms | undefined => scope.actor.credential?.link

/** True for a request that was sent with a link. */
export const isLinked = (scope: WorkspaceScope): boolean => termsOf(scope) !== undefined

/** An upload as the caller sends it. */
interface SentUpload {
  readonly type: string | undefined
  readonly source: ByteSource
}

/**
 * Keeps an upload to the terms of the link that it was sent with, if it was. Its size is checked while it is read.
 * @returns the source to store, and headers to keep
 * @throws Problem `link_exceeded`
 */
export function withinLink(
  scope: WorkspaceScope,
  { type, source }: SentUpload,
): { readonly source: ByteSource; readonly headers: { readonly content_disposition?: string } } {
  const { contentType, maxBytes, disposition } = termsOf(scope) ?? {}
  if (contentType !== undefined && contentType.toLowerCase() !== type?.toLowerCase())
    throw new Problem('link_exceeded', { detail: `The upload must have the Content-Type ${contentType}.` })
  if (maxBytes !== undefined && (source.length ?? 0) > maxBytes) throw linkTooSmall(maxBytes)
  return {
    source: maxBytes === undefined ? source : { ...source, chunks: atMost(source.chunks, maxBytes) },
    headers: disposition === undefined ? {} : { content_disposition: disposition },
  }
}

async function* atMost(chunks: AsyncIterable<Uint8Array>, max: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.byteLength
    if (bytes > max) throw linkTooSmall(max)
    yield chunk
  }
}

const linkTooSmall = (max: number) =>
  new Problem('link_exceeded', { detail: `The upload may have at most ${max} bytes.` })

type ReplyFields = Readonly<Partial<Record<keyof typeof REPLY_FIELDS, string>>>

/** Parts the input of a read: what sets headers of the reply, and the conditions. */
export function splitReplyFields<T extends ReplyFields>(
  input: T,
): readonly [wanted: ReplyFields, conditions: Omit<T, keyof ReplyFields>] {
  const isWanted = ([field]: [string, unknown]) => Object.hasOwn(REPLY_FIELDS, field)
  const [wanted, others] = [
    Object.entries(input).filter(isWanted),
    Object.entries(input).filter((one) => !isWanted(one)),
  ]
  return [Object.fromEntries(wanted), Object.fromEntries(others) as Omit<T, keyof ReplyFields>]
}

/**
 * Sets headers of a reply as its request wants them, or the link that it was sent with: parameters of its own could turn what the
 * link shows into something else.
 * @param read begins to read the object, once the parameters were checked
 * @param options `hasOwnType` the bytes are not those of the object, so that no other type is theirs
 * @throws Problem `link_exceeded` for a parameter beside a link
 */
export async function withReplyHeaders(
  scope: WorkspaceScope,
  wanted: ReplyFields,
  read: () => Promise<ByteReply>,
  { hasOwnType }: { readonly hasOwnType: boolean },
): Promise<ByteReply> {
  const link = termsOf(scope)
  const named = Object.entries(wanted).map(([field, value]) => [headerOfField(field), value] as const)
  const [first] = named
  if (link !== undefined && first !== undefined)
    throw new Problem('link_exceeded', {
      detail: `The link sets the headers of its reply; response-${first[0]} is not part of it. Create a link with content_type or disposition.`,
    })
  const { contentType, disposition } = link ?? {}
  const reply = await read()
  if (reply.status === 304) return reply
  const headers = {
    ...reply.headers,
    ...Object.fromEntries(named),
    ...(wanted.response_cache_control && { 'cache-control': privately(wanted.response_cache_control) }),
    ...(contentType !== undefined && { 'content-type': contentType }),
    ...(hasOwnType && { 'content-type': reply.headers['content-type'] ?? '' }),
    ...(disposition !== undefined && { 'content-disposition': disposition }),
  }
  return { ...reply, headers }
}

/** `content-type` for `response_content_type`. */
const headerOfField = (field: string): string => field.replace(/^response_/, '').replaceAll('_', '-')
