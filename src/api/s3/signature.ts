/** Verifies signatures of requests: AWS Signature Version 4, in the header `Authorization` or in the query of a presigned URL. */

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { Problem } from '../../core/problem.ts'
import { API_LIMITS } from '../limits.ts'
import { decode, encodePath, Query } from './uri.ts'

/** The parts of a request that a signature covers. */
export interface SignedParts {
  readonly method: string
  /** Path and query as they were sent. */
  readonly target: string
  /** All values of each header, by its name in small letters. */
  readonly headers: NodeJS.Dict<readonly string[]>
}

/** The signature of a request, which is not verified yet. */
export interface RequestSignature {
  /** The id of the storage key. */
  readonly keyId: string
  /** True for a presigned URL. */
  readonly isPresigned: boolean
  /** `x-amz-content-sha256`: a digest in hex, or how the body is sent. */
  readonly payload: string
  /** Verifies it. @returns what the signatures of the body's chunks continue @throws Problem `SignatureDoesNotMatch` */
  readonly verify: (secret: string) => SignatureChain
}

const outdated = () =>
  new Problem('InvalidRequest', {
    detail:
      'The request has a signature of version 2. Configure the client for AWS Signature Version 4 (s3v4).',
  })

const ALGORITHM = 'AWS4-HMAC-SHA256'
export const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD'

/** The fields of a signature, wherever they were sent. */
interface Fields {
  readonly credential: string
  readonly signedHeaders: readonly string[]
  readonly signature: string
  /** `20260131T235959Z` */
  readonly date: string
  /** Seconds; of a presigned URL. */
  readonly expires?: number
  readonly payload: string
}

/**
 * Reads the signature of a request, and checks its time.
 * @throws Problem `credentials_missing`; `forbidden` if a presigned URL has expired, or a header is not signed; `RequestTimeTooSkewed`;
 *   `AuthorizationHeaderMalformed`, `AuthorizationQueryParametersError`, `InvalidRequest`, `InvalidArgument`
 */
export function readSignature(parts: SignedParts, nowMs = Date.now()): RequestSignature {
  const [path = '', search = ''] = parts.target.split(/\?(.*)/s)
  const query = new Query(search)
  const [authorization = ''] = parts.headers['authorization'] ?? []
  if (query.has('AWSAccessKeyId')) throw outdated()
  const isPresigned = query.has('X-Amz-Signature') || query.has('X-Amz-Algorithm')
  if (isPresigned && authorization.startsWith(ALGORITHM))
    throw new Problem('InvalidArgument', {
      detail: 'The request has a signature in its header and one in its URL.',
    })
  const fields = isPresigned ? ofQuery(query, parts.headers) : ofHeader(authorization, parts.headers)
  checkTime(fields, nowMs)
  const [keyId = '', ...scope] = fields.credential.split('/')
  const malformed = isPresigned ? 'AuthorizationQueryParametersError' : 'AuthorizationHeaderMalformed'
  const [date, , service, end] = scope
  if (scope.length !== 4 || service !== 's3' || end !== 'aws4_request' || date !== fields.date.slice(0, 8))
    throw new Problem(malformed, {
      detail: `The credential must be <access key id>/${fields.date.slice(0, 8)}/<region>/s3/aws4_request.`,
    })
  checkSignedHeaders(fields, parts.headers)
  const canonical = canonicalRequest(parts.method, { path, query }, parts.headers, fields)
  const text = [ALGORITHM, fields.date, scope.join('/'), sha256(canonical)].join('\n')
  return {
    keyId,
    isPresigned,
    payload: fields.payload,
    verify: (secret) => {
      const chain = new SignatureChain(signingKey(secret, scope), fields.date, scope.join('/'))
      chain.verify(text, fields.signature)
      return chain
    },
  }
}

/** Each signature of a body's chunks continues the one before, the first one that of the request. */
export class SignatureChain {
  readonly #key: Buffer
  readonly #date: string
  readonly #scope: string
  #previous = ''

  constructor(key: Buffer, date: string, scope: string) {
    this.#key = key
    this.#date = date
    this.#scope = scope
  }

  /** @param digest SHA-256 of the chunk, in hex @throws Problem `SignatureDoesNotMatch` */
  verifyChunk(digest: string, signature: string): void {
    this.#verifyNext(`${ALGORITHM}-PAYLOAD`, [sha256(''), digest], signature)
  }

  /** @param text the trailer as `name:value` lines @throws Problem `SignatureDoesNotMatch` */
  verifyTrailer(text: string, signature: string): void {
    this.#verifyNext(`${ALGORITHM}-TRAILER`, [sha256(text)], signature)
  }

  #verifyNext(algorithm: string, digests: readonly string[], signature: string): void {
    this.verify([algorithm, this.#date, this.#scope, this.#previous, ...digests].join('\n'), signature)
  }

  /** @throws Problem `SignatureDoesNotMatch` */
  verify(text: string, signature: string): void {
    const expected = createHmac('sha256', this.#key).update(text).digest()
    const sent = Buffer.from(/^[0-9a-f]{64}$/.test(signature) ? signature : '', 'hex')
    if (sent.length !== expected.length || !timingSafeEqual(sent, expected))
      throw new Problem('SignatureDoesNotMatch')
    this.#previous = signature
  }
}

/** HMACs of date, region, service and end, from the secret on. */
function signingKey(secret: string, scope: readonly string[]): Buffer {
  let key: Buffer = Buffer.from(`AWS4${secret}`)
  for (const part of scope) key = createHmac('sha256', key).update(part).digest()
  return key
}

const sha256 = (text: string) => createHash('sha256').update(Buffer.from(text, 'latin1')).digest('hex')

function ofHeader(authorization: string, headers: SignedParts['headers']): Fields {
  if (authorization.startsWith('AWS ')) throw outdated()
  if (!authorization.startsWith(ALGORITHM))
    throw new Problem('credentials_missing', {
      detail: 'The request is not signed.',
      hint: 'Sign it with a storage key: POST /v1/api-keys with the kind storage.',
    })
  const found = new Map(
    authorization
      .slice(ALGORITHM.length)
      .split(',')
      .map((field) => field.trim().split(/=(.*)/s, 2))
      .map(([name = '', value = '']) => [name, value] as const),
  )
  const [credential, signedHeaders, signature] = ['Credential', 'SignedHeaders', 'Signature'].map((name) =>
    found.get(name),
  )
  if (found.size !== 3 || !credential || !signedHeaders || !signature)
    throw new Problem('AuthorizationHeaderMalformed', {
      detail: `The header Authorization must be ${ALGORITHM} Credential=…, SignedHeaders=…, Signature=….`,
    })
  const payload = headers['x-amz-content-sha256']?.[0]
  if (payload === undefined)
    throw new Problem('InvalidRequest', { detail: 'The header x-amz-content-sha256 is missing.' })
  const date = dateOf(headers)
  return { credential, signedHeaders: signedHeaders.split(';'), signature, date, payload }
}

/** `x-amz-date`, else `Date`, in the form of the former. */
function dateOf(headers: SignedParts['headers']): string {
  const [amz] = headers['x-amz-date'] ?? []
  if (amz !== undefined) return amz
  const ms = Date.parse(headers['date']?.[0] ?? '')
  if (Number.isNaN(ms))
    throw new Problem('forbidden', {
      detail: 'The request lacks the header x-amz-date, or its value is not valid.',
    })
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '')
}

const QUERY_FIELDS = ['Algorithm', 'Credential', 'Date', 'Expires', 'SignedHeaders', 'Signature'] as const

function ofQuery(query: Query, headers: SignedParts['headers']): Fields {
  const read = (name: string): string => {
    const values = query.all(`X-Amz-${name}`)
    if (values.length === 1 && values[0] !== undefined && values[0] !== '') return values[0]
    throw new Problem('AuthorizationQueryParametersError', {
      detail: `A presigned URL must have each of ${QUERY_FIELDS.map((field) => `X-Amz-${field}`).join(', ')} once; X-Amz-${name} is missing or repeated.`,
    })
  }
  const [algorithm, credential, date, expires, signedHeaders, signature] = QUERY_FIELDS.map(read) as [
    ...[string, string, string, string, string, string],
  ]
  if (algorithm !== ALGORITHM)
    throw new Problem('AuthorizationQueryParametersError', {
      detail: `X-Amz-Algorithm must be ${ALGORITHM}.`,
    })
  const seconds = /^\d{1,9}$/.test(expires) ? Number(expires) : -1
  if (seconds < 1 || seconds > API_LIMITS.presignedSecondsMax)
    throw new Problem('AuthorizationQueryParametersError', {
      detail: `X-Amz-Expires must be a number of seconds from 1 to ${API_LIMITS.presignedSecondsMax}.`,
    })
  const names = signedHeaders.split(';')
  const header = names.includes('x-amz-content-sha256') ? headers['x-amz-content-sha256']?.[0] : undefined
  const payload = header ?? query.all('X-Amz-Content-Sha256')[0] ?? UNSIGNED_PAYLOAD
  return { credential, signedHeaders: names, signature, date, expires: seconds, payload }
}

/** @throws Problem `RequestTimeTooSkewed`; `forbidden` for a presigned URL whose time has not come or is over */
function checkTime({ date, expires }: Fields, nowMs: number): void {
  const [, ...digits] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? []
  const [year, month, day, ...time] = digits
  const signedMs = Date.parse(`${year}-${month}-${day}T${time.join(':')}Z`)
  if (Number.isNaN(signedMs))
    throw new Problem('forbidden', {
      detail: 'The date of the signature must have the form 20260131T235959Z.',
    })
  const skewMs = API_LIMITS.signatureSkewMs
  if (expires === undefined) {
    if (Math.abs(nowMs - signedMs) > skewMs) throw new Problem('RequestTimeTooSkewed')
    return
  }
  if (signedMs - nowMs > skewMs) throw new Problem('forbidden', { detail: 'The URL is not valid yet.' })
  if (nowMs > signedMs + expires * 1_000)
    throw new Problem('forbidden', { detail: 'The presigned URL has expired.' })
}

/**
 * A proxy could add headers that change the meaning of a request, so `Host` and all `x-amz-*` must be signed.
 * @throws Problem `forbidden`
 */
function checkSignedHeaders(
  { signedHeaders, payload, expires }: Fields,
  headers: SignedParts['headers'],
): void {
  const signed = new Set(signedHeaders)
  const unsigned = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))].filter(
    (name) => !signed.has(name),
  )
  // It says what a presigned URL means without it.
  const isImplied = expires !== undefined && payload === UNSIGNED_PAYLOAD
  const [first] = unsigned.filter(
    (name) => !(isImplied && name === 'x-amz-content-sha256' && headers[name]?.join() === UNSIGNED_PAYLOAD),
  )
  if (first === undefined) return
  throw new Problem('forbidden', { detail: `The signature does not cover the header ${first}.` })
}

/** In the form that signers hash: RFC 3986 escapes, sorted parameters, headers by name without outer and double spaces. */
function canonicalRequest(
  method: string,
  { path, query }: { path: string; query: Query },
  headers: SignedParts['headers'],
  { signedHeaders, payload }: Fields,
): string {
  const lines = signedHeaders.map((name) => `${name}:${(headers[name] ?? []).map(trimmed).join(',')}\n`)
  return [
    method,
    encodePath(decode(path)),
    query.canonical('X-Amz-Signature'),
    lines.join(''),
    signedHeaders.join(';'),
    payload,
  ].join('\n')
}

const trimmed = (value: string) => value.trim().replaceAll(/ +/g, ' ')
