/** The one thing thrown on purpose, and the catalogue of all of them: code → status, title, help. */

interface Row {
  readonly status: number
  readonly title: string
  /** What the reader can do; stands in docs/reference/problems.md and, where nothing better is known, as hint. */
  readonly help: string
  /** Seconds for `Retry-After`; a code that has it may be tried again unchanged. */
  readonly retryAfterS?: number
  /** Somebody's code has run, or may have: no part of the platform asks again by itself. */
  readonly final?: true
}

/** Statuses follow what the reader will do: 404 wherever existence is not the caller's to know (decisions §3). */
export const PROBLEMS = {
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
  cursor_invalid: {
    status: 400,
    title: 'The page cursor is not one of ours',
    help: 'Pass `page.next` unchanged.',
  },
  cursor_mismatch: {
    status: 400,
    title: 'The page cursor belongs to another query',
    help: 'Keep collection, filters and order while you turn pages; begin without a cursor.',
  },
  cursor_too_large: {
    status: 400,
    title: 'The page cannot be continued',
    help: 'Order by shorter fields.',
  },
  filter_invalid: { status: 400, title: 'A filter cannot be read', help: 'See `errors`.' },
  filter_operator_missing: {
    status: 400,
    title: 'A filter has no operator',
    help: 'Write `field=eq.value`.',
  },
  filter_operator_unknown: {
    status: 400,
    title: 'A filter has an unknown operator',
    help: 'Operators: eq, neq, gt, gte, lt, lte, in, like, ilike, json_path_eq, is; `not.` before any.',
  },
  filter_null_operator: {
    status: 400,
    title: 'null has an operator of its own',
    help: 'Use `is.null` or `is.not_null`; the word itself is `eq."null"`.',
  },
  filter_type_mismatch: {
    status: 400,
    title: 'A filter value has the wrong type',
    help: 'Send a value of the type that `detail` names.',
  },
  filter_too_large: {
    status: 400,
    title: 'The query has too many parts',
    help: 'See `detail` for the limit; ask in several queries.',
  },
  order_invalid: {
    status: 400,
    title: 'The order cannot be read',
    help: 'Write `order=field.desc,other.asc.nullsfirst`.',
  },
  select_invalid: { status: 400, title: 'The selection cannot be read', help: 'Write `select=a,b.c`.' },
  body_incomplete: {
    status: 400,
    title: 'The body ended before it was complete',
    help: 'Send it again; nothing was stored.',
  },
  InvalidKey: {
    status: 400,
    title: 'The object key is not valid',
    help: 'No empty key, no `.` or `..` between slashes, no control characters.',
  },
  KeyTooLongError: { status: 400, title: 'The object key is too long', help: 'See `detail` for the limit.' },
  InvalidBucketName: {
    status: 400,
    title: 'The bucket name is not valid',
    help: 'Lower-case letters, digits and inner hyphens, 3 to 63.',
  },
  InvalidRequest: { status: 400, title: 'The object store refuses the request', help: 'See `detail`.' },
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
  AccessDenied: {
    status: 403,
    title: 'The bucket is not of this workspace',
    help: 'Use the bucket that the workspace names, with a credential of that workspace.',
  },
  tenant_suspended: { status: 403, title: 'The tenant is suspended', help: 'An operator can resume it.' },
  feature_not_enabled: {
    status: 403,
    title: 'The feature is not switched on',
    help: 'It is experimental: an admin switches it on with POST /v1/services/configure.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    help: 'Check the id, and that the credential is of the same tenant.',
  },
  NoSuchBucket: { status: 404, title: 'There is no such bucket', help: 'Check its name.' },
  NoSuchKey: {
    status: 404,
    title: 'There is no such object',
    help: 'Check the key; keys are case-sensitive.',
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
  bucket_required: {
    status: 409,
    title: 'The workspace has no bucket',
    help: 'Objects need a workspace that was made with one.',
  },
  PreconditionFailed: {
    status: 412,
    title: 'The object is not as the condition says',
    help: 'Read it again, then retry with its ETag.',
  },
  precondition_failed: { status: 412, title: 'It has changed meanwhile', help: 'Read it again, then retry.' },
  body_too_large: { status: 413, title: 'The body is too large', help: 'See `detail` for the limit.' },
  EntityTooLarge: { status: 413, title: 'The object is too large', help: 'See `detail` for the limit.' },
  output_too_large: {
    status: 413,
    title: 'The result is too large for a flow',
    help: 'Ask for less at once.',
  },
  uri_too_long: { status: 414, title: 'The URL is too long', help: 'Move the query into a body.' },
  media_type_unsupported: { status: 415, title: 'The content type is not taken here', help: 'See `detail`.' },
  InvalidRange: {
    status: 416,
    title: 'The range lies outside the object',
    help: 'See the `Content-Range` header for its length.',
  },
  content_invalid: {
    status: 422,
    title: 'The content is not of its type',
    help: 'Store it again with the right content type.',
  },
  flow_invalid: {
    status: 422,
    title: 'The flow is not valid',
    help: 'See `faults`: each has line and column.',
  },
  schema_invalid: {
    status: 422,
    title: 'The schema is not valid',
    help: 'See `errors`: each names a place in it.',
  },
  schema_violation: {
    status: 422,
    title: "The document does not fit the collection's schema",
    help: 'See `errors`: each has pointer and keyword.',
  },
  validation_too_costly: {
    status: 422,
    title: 'The document takes too long to validate',
    help: 'Shorten it, or simplify patterns and alternatives of the schema.',
  },
  function_invalid: {
    status: 422,
    title: 'The function is not valid',
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
  function_error: {
    status: 502,
    title: 'The function failed',
    help: 'See `detail`, `error` and `logs`.',
    final: true,
  },
  function_out_of_memory: {
    status: 502,
    title: 'The function needs more memory than it has',
    help: 'Raise its `memory_mb`, or keep less at once.',
    final: true,
  },
  function_output_too_large: {
    status: 502,
    title: 'The result of the function is too large',
    help: 'Store it as an object, and return its key.',
    final: true,
  },
  run_cut_off: {
    status: 502,
    title: 'The run was cut off',
    help: 'It may have had effects: look before you start it again.',
    final: true,
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
  functions_unavailable: {
    status: 503,
    title: 'Functions cannot be run here',
    help: 'Operators: `npx tenon doctor` says what Deno is wanting.',
  },
  function_timeout: {
    status: 504,
    title: 'The function took too long',
    help: 'Raise its `timeout_ms`, or do less at once.',
    final: true,
  },
  query_timeout: {
    status: 504,
    title: 'The query took too long',
    help: 'Narrow it, or index the fields it uses.',
  },
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof PROBLEMS

export function isProblemCode(text: unknown): text is ProblemCode {
  return typeof text === 'string' && Object.hasOwn(PROBLEMS, text)
}

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
