/** A request of the S3 API: what it names, its signature, and its body as bytes. */

import type { FastifyRequest } from 'fastify'
import type { Signature } from '../../access/authentication/credentials.ts'
import type { ByteSource } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'
import { expectedDigests, verified } from '../../features/objects/digests.ts'
import { sourceOf } from '../body-streams.ts'
import { API_LIMITS } from '../limits.ts'
import { checksumsOf, signedDigest } from './checksums.ts'
import { decodeChunked } from './chunked-body.ts'
import { type RequestSignature, readSignature, type SignatureChain, UNSIGNED_PAYLOAD } from './signature.ts'
import { decode, Query } from './uri.ts'

/** The path of the S3 API, to which hosts of buckets are rewritten. */
export const S3_PATH = '/s3'

/** The routes of the S3 API, in the router's syntax. */
export const S3_URLS: readonly string[] = [S3_PATH, `${S3_PATH}/*`]

/** The bucket, key and query of a URL. */
export interface S3Target {
  /** Empty: the service itself. */
  readonly bucket: string
  /** Empty: the bucket itself. */
  readonly key: string
  readonly query: Query
}

/** @param url `/s3/bucket/key?query` @throws Problem `InvalidURI` */
export function targetOf(url: string): S3Target {
  const [path = '', search = ''] = url.split(/\?(.*)/s)
  const [, bucket = '', key = ''] = /^\/([^/]*)\/?(.*)$/s.exec(path.slice(S3_PATH.length)) ?? []
  return { bucket: decode(bucket), key: decode(key), query: new Query(search) }
}

/** A request whose signature was read. */
export interface S3Request extends S3Target {
  readonly http: FastifyRequest
  readonly signature: RequestSignature
  /** Set when the signature was verified. */
  chain: SignatureChain | undefined
}

const REQUESTS = new WeakMap<FastifyRequest, S3Request>()

/** Reads a request once: it is asked again during long streams, when its time has passed. */
export function s3Request(http: FastifyRequest): S3Request {
  const known = REQUESTS.get(http)
  if (known !== undefined) return known
  const { method, originalUrl: target, raw } = http
  const signature = readSignature({ method, target, headers: raw.headersDistinct })
  const request = { ...targetOf(http.url), http, signature, chain: undefined }
  REQUESTS.set(http, request)
  return request
}

/** The credential of a request. @throws Problem as {@link readSignature} */
export function signatureOf(http: FastifyRequest): Signature {
  const request = s3Request(http)
  const { keyId, verify } = request.signature
  return {
    kind: 'signature',
    keyId,
    verify: (secret) => {
      const chain = verify(secret)
      request.chain ??= chain
    },
  }
}

/** The value of a header; several are joined with commas. */
export const headerOf = ({ http }: S3Request, name: string): string | undefined =>
  http.raw.headersDistinct[name]?.join(',')

/** Headers that the S3 API reads, or that change nothing. */
const KNOWN_HEADERS = new Set(
  [
    ...['acl', 'content-sha256', 'copy-source', 'copy-source-if-match', 'copy-source-if-none-match'],
    ...[
      'copy-source-if-unmodified-since',
      'copy-source-range',
      'date',
      'decoded-content-length',
      'metadata-directive',
    ],
    ...['object-attributes', 'optional-object-attributes', 'request-payer', 'storage-class', 'tagging'],
    ...['tagging-directive', 'trailer', 'user-agent'],
  ].map((name) => `x-amz-${name}`),
)
const KNOWN_PREFIXES = ['x-amz-meta-', 'x-amz-checksum-', 'x-amz-sdk-']

/** Values that say what is so anyway. */
const ONLY_VALUES: Readonly<Record<string, readonly string[]>> = {
  'x-amz-acl': ['private', 'bucket-owner-full-control'],
  'x-amz-storage-class': ['STANDARD'],
}

/** Refuses headers of S3 that would otherwise be ignored, although they say what is to be done. @throws Problem `NotImplemented` */
export function refuseUnknownHeaders({ http: { headers } }: S3Request): void {
  const unknown = Object.entries(headers).find(([name, value]) => {
    if (!name.startsWith('x-amz-') || KNOWN_PREFIXES.some((prefix) => name.startsWith(prefix))) return false
    return !KNOWN_HEADERS.has(name) || ONLY_VALUES[name]?.includes(String(value)) === false
  })
  if (unknown === undefined) return
  throw new Problem('NotImplemented', {
    detail: `The header ${unknown[0]} is not supported with this value.`,
  })
}

const STREAMING = /^STREAMING-(AWS4-HMAC-SHA256-PAYLOAD|UNSIGNED-PAYLOAD)(-TRAILER)?$/

/**
 * The bytes of the body: decoded, and checked against the signature and all checksums before the last of them is handed on.
 * @param recheck throws if the caller lost the right meanwhile
 * @param headers those that may have checksums of the body
 */
export function bodyOf(
  request: S3Request,
  recheck: () => Promise<void>,
  headers: readonly (readonly [name: string, value: string])[] = sent(request),
): ByteSource {
  const { payload } = request.signature
  const source = sourceOf(request.http, recheck)
  const announced = names(headerOf(request, 'x-amz-trailer'))
  const [isStreaming, how, hasTrailer] = STREAMING.exec(payload) ?? []
  if (announced.length > 0 && hasTrailer === undefined)
    throw new Problem('InvalidRequest', { detail: 'The request announces a trailer, and its body has none.' })
  const trailer = new Map<string, string>()
  const checks = [
    ...digestsOf(request, payload),
    ...checksumsOf([...headers, ...announced.map(later)], trailer),
  ]
  if (isStreaming === undefined) return { ...source, chunks: verified(source.chunks, checks) }
  if (how === undefined || (how === 'UNSIGNED-PAYLOAD' && hasTrailer === undefined))
    throw unknownPayload(payload)
  const decoded = decodeChunked({
    chunks: source.chunks,
    chain: how === 'UNSIGNED-PAYLOAD' ? undefined : requireChain(request),
    trailer: new Set(announced),
    onTrailer: (values) => values.forEach((value, name) => void trailer.set(name, value)),
  })
  return { chunks: verified(decoded, checks), length: decodedLength(request) }
}

const names = (list = '') =>
  list
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '')
const sent = ({ http }: S3Request) =>
  Object.entries(http.headers).map(([name, value]) => [name, String(value)] as const)
const later = (name: string) => [name, undefined] as const

/** Of `x-amz-content-sha256` and `Content-MD5`. */
function digestsOf(request: S3Request, payload: string) {
  const md5 = expectedDigests({ content_md5: headerOf(request, 'content-md5') })
  if (payload === UNSIGNED_PAYLOAD || STREAMING.test(payload)) return md5
  if (!/^[0-9a-f]{64}$/.test(payload)) throw unknownPayload(payload)
  return [...md5, signedDigest(payload)]
}

function unknownPayload(payload: string): Problem {
  if (payload.startsWith('STREAMING-'))
    return new Problem('NotImplemented', {
      detail: `Bodies of the form ${payload.slice(0, 100)} are not supported.`,
    })
  return new Problem('InvalidArgument', {
    detail: `x-amz-content-sha256 must be the SHA-256 of the body in hex, ${UNSIGNED_PAYLOAD}, or the name of a streaming form.`,
  })
}

function requireChain({ chain }: S3Request): SignatureChain {
  if (chain === undefined) throw new TypeError('the signature of the request was not verified')
  return chain
}

/** @throws Problem `InvalidArgument` if the length of the decoded body is not announced */
function decodedLength(request: S3Request): number {
  const text = headerOf(request, 'x-amz-decoded-content-length') ?? ''
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new Problem('InvalidArgument', {
    detail: 'An aws-chunked body needs its decoded length in bytes as x-amz-decoded-content-length.',
  })
}

/**
 * The whole body, for an XML document.
 * @param headers as of {@link bodyOf}
 * @throws Problem `MalformedXML` if it is too long, or not UTF-8
 */
export async function readText(
  request: S3Request,
  recheck: () => Promise<void>,
  headers?: Parameters<typeof bodyOf>[2],
): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of bodyOf(request, recheck, headers).chunks) {
    bytes += chunk.byteLength
    if (bytes > API_LIMITS.xmlBytesMax)
      throw new Problem('MalformedXML', { detail: 'The document is too long.' })
    parts.push(chunk)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts))
  } catch (cause) {
    throw new Problem('MalformedXML', { cause })
  }
}
