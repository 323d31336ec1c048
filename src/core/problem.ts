/** The one thing thrown on purpose, and the catalogue of all of them: code → status, title, help. */

import { COLLECTION_PROBLEMS, type Row } from './problem-collections.ts'

/** Statuses follow what the reader will do: 404 wherever existence is not the caller's to know (decisions §3). */
export const PROBLEMS = {
  ...COLLECTION_PROBLEMS,
  body_invalid: { status: 400, title: 'The body is not valid JSON', help: 'Send one JSON value, UTF-8.' },
  validation_failed: {
    status: 400,
    title: 'The input is not valid',
    help: 'See `errors`: each names a field.',
  },
  value_invalid: {
    status: 400,
    title: 'A value cannot be stored',
    help: 'Check for NUL characters, half surrogates and numbers out of range.',
  },
  unknown_parameter: {
    status: 400,
    title: 'Unknown query parameter',
    help: 'Remove it or mend its spelling.',
  },
  header_invalid: { status: 400, title: 'A header is not valid', help: 'See `detail`.' },
  request_malformed: { status: 400, title: 'The request is not valid HTTP', help: 'Check the request line.' },
  credentials_conflict: {
    status: 400,
    title: 'Two different API keys in one request',
    help: 'Send one key, in one place.',
  },
  credentials_missing: {
    status: 401,
    title: 'No credential was sent',
    help: 'Send `apikey: svc_…` on data routes, `Authorization: Bearer <token>` on administrative ones.',
  },
  api_key_invalid: {
    status: 401,
    title: 'The API key is not valid',
    help: 'Check for a cut or revoked key.',
  },
  api_key_expired: { status: 401, title: 'The API key has expired', help: 'Create a new one.' },
  api_key_revoked: { status: 401, title: 'The API key was revoked', help: 'Create a new one.' },
  token_invalid: {
    status: 401,
    title: 'The access token is not valid',
    help: 'Get a new one: `npx tenon token`.',
  },
  token_expired: {
    status: 401,
    title: 'The access token has expired',
    help: 'Get a new one: `npx tenon token`.',
  },
  service_key_in_query: {
    status: 401,
    title: 'A key was sent in the URL',
    help: 'URLs end in logs: revoke that key, and send the next one in the `apikey` header.',
  },
  privilege_domain_mismatch: {
    status: 403,
    title: 'This kind of credential does not fit the route',
    help: 'Administrative routes take an operator or tenant-admin token, data routes an API key.',
  },
  forbidden: {
    status: 403,
    title: 'The credential may not do this',
    help: 'Ask for a credential with a higher role.',
  },
  tenant_suspended: { status: 403, title: 'The tenant is suspended', help: 'An operator can resume it.' },
  not_found: {
    status: 404,
    title: 'Not found',
    help: 'Check the id, and that the credential is of the same tenant.',
  },
  route_not_found: { status: 404, title: 'No such route', help: 'All routes are listed at /docs.' },
  method_not_allowed: { status: 405, title: 'The route has no such method', help: 'See the `Allow` header.' },
  conflict: {
    status: 409,
    title: 'It is already there',
    help: 'Choose another name, or use the one that exists.',
  },
  state_conflict: {
    status: 409,
    title: 'Not possible in this state',
    help: 'See `detail` for the state it is in.',
  },
  precondition_failed: { status: 412, title: 'It has changed meanwhile', help: 'Read it again, then retry.' },
  body_too_large: { status: 413, title: 'The body is too large', help: 'See `detail` for the limit.' },
  output_too_large: {
    status: 413,
    title: 'The result is too large for a flow',
    help: 'Ask for less at once.',
  },
  uri_too_long: { status: 414, title: 'The URL is too long', help: 'Move the query into a body.' },
  media_type_unsupported: { status: 415, title: 'The content type is not taken here', help: 'See `detail`.' },
  flow_invalid: {
    status: 422,
    title: 'The flow is not valid',
    help: 'See `faults`: each has line and column.',
  },
  headers_too_large: {
    status: 431,
    title: 'The headers are too large',
    help: 'Send fewer or shorter headers.',
  },
  quota_exceeded: { status: 429, title: 'A quota is used up', help: 'Free some of it, or ask for more.' },
  internal: { status: 500, title: 'Something is wrong on our side', help: 'Report the request id.' },
  egress_refused: {
    status: 403,
    title: 'The platform does not send there',
    help: 'Only public addresses are reached; an operator can name exceptions.',
  },
  upstream_invalid: {
    status: 502,
    title: 'The answer of the other side is of no use',
    help: 'See `detail`.',
  },
  upstream_unavailable: { status: 502, title: 'The other side did not answer', help: 'Check its address.' },
  dependency_unavailable: {
    status: 503,
    title: 'A server behind the platform does not answer',
    help: 'Try again; operators: `npx tenon doctor`.',
    retryAfterS: 2,
  },
  overloaded: {
    status: 503,
    title: 'Too busy at the moment',
    help: 'Try again with backoff.',
    retryAfterS: 1,
  },
  query_timeout: {
    status: 504,
    title: 'The query took too long',
    help: 'Narrow it, or index the fields it uses.',
  },
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof PROBLEMS

/** One fault of an input; `pointer` is an RFC 6901 pointer into it. */
export interface InputError {
  readonly in: 'body' | 'path' | 'query' | 'header'
  readonly name: string
  readonly pointer: string
  readonly detail: string
  /** The keyword of the collection's schema that says so. */
  readonly keyword?: string
}

interface ProblemOptions {
  /** One sentence about this case. Goes to the client: no SQL, no stack, nothing of another tenant. */
  readonly detail?: string
  readonly hint?: string
  readonly errors?: readonly InputError[]
  /** Extension members (RFC 9457 §3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  /** Goes to the log, never to the wire. */
  readonly cause?: unknown
}

export class Problem extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly errors: readonly InputError[]
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    super(options.detail ?? PROBLEMS[code].title, { cause: options.cause })
    this.name = 'Problem'
    this.code = code
    this.detail = options.detail
    this.hint = options.hint
    this.errors = options.errors ?? []
    this.members = options.members ?? {}
    this.headers = options.headers ?? {}
  }

  get row(): Row {
    return PROBLEMS[this.code]
  }

  get status(): number {
    return this.row.status
  }
}

/** What is not there, or not the caller's to know: one body for both. */
export function notFound(what: string): Problem {
  return new Problem('not_found', { detail: `There is no such ${what}.` })
}
