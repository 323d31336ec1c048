/** Problems: the only error thrown on purpose, and the catalogue of status, title and help of each code. */

export interface ProblemRow {
  readonly status: number
  readonly title: string
  /** The next step for the caller: stands in docs/reference/problems.md, and is the hint of a problem without its own. */
  readonly help: string
  /** A registered problem type (RFC 9457 §4). Default: the page of this code. */
  readonly type?: string
  /** Seconds for `Retry-After`; a code that has it may be retried unchanged. */
  readonly retryAfterS?: number
  /** Code of a tenant has run, or may have: the platform never retries by itself. */
  readonly final?: true
}

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

  /** The same problem with further extension members. */
  with(members: Readonly<Record<string, unknown>>): Problem {
    const { detail, hint, errors, headers, cause } = this
    return new Problem(this.code, {
      ...(detail !== undefined && { detail }),
      ...(hint !== undefined && { hint }),
      ...{ errors, headers, cause },
      members: { ...this.members, ...members },
    })
  }

  get row(): ProblemRow {
    return PROBLEMS[this.code]
  }

  get status(): number {
    return this.row.status
  }

  /** Whether the same would be so again: a client's mistake stays one however often it is tried. */
  get isFinal(): boolean {
    return this.row.final ?? (this.status < 500 && this.status !== 429)
  }
}

/** What is not there, or not the caller's to know: one body for both. */
export function notFound(what: string): Problem {
  return new Problem('not_found', { detail: `There is no such ${what}.` })
}

const row = (
  status: number,
  title: string,
  help: string,
  more: Pick<ProblemRow, 'type' | 'retryAfterS' | 'final'> = {},
): ProblemRow => ({ status, title, help, ...more })

/** The status follows what the reader will do: 404 if the caller may not know that the thing exists (decisions §3). */
export const PROBLEMS = {
  // Any request
  body_invalid: row(400, 'The body is not valid JSON', 'Send one JSON value, UTF-8.'),
  validation_failed: row(400, 'The input is not valid', 'See `errors`: each names a field.'),
  value_invalid: row(
    400,
    'A value cannot be stored',
    'Check for NUL characters, half surrogates and numbers out of range.',
  ),
  unknown_parameter: row(400, 'Unknown query parameter', 'Remove it or mend its spelling.'),
  body_incomplete: row(400, 'The body ended before it was complete', 'Send it again; nothing was stored.'),
  header_invalid: row(400, 'A header is not valid', 'See `detail`.'),
  request_malformed: row(400, 'The request is not valid HTTP', 'Check the request line.'),
  batch_refused: row(
    400,
    'One JSON-RPC message a request: batches are not taken',
    'Send each message by itself.',
  ),
  not_found: row(404, 'Not found', 'Check the id, and that the credential is of the same tenant.'),
  route_not_found: row(404, 'No such route', 'All routes are listed at /docs.'),
  method_not_allowed: row(405, 'The route has no such method', 'See the `Allow` header.'),
  conflict: row(409, 'It is already there', 'Choose another name, or use the one that exists.'),
  state_conflict: row(409, 'Not possible in this state', 'See `detail` for the state it is in.'),
  idempotency_in_flight: row(
    409,
    'The same request is still running',
    'Ask again with the same key in a moment: its reply will be the answer.',
    { retryAfterS: 1 },
  ),
  idempotency_reply_lost: row(
    409,
    'The request is done, and its reply was not kept',
    'Read what it made. With a new key it would be done again.',
  ),
  precondition_failed: row(412, 'It has changed meanwhile', 'Read it again, then retry.'),
  body_too_large: row(413, 'The body is too large', 'See `detail` for the limit.'),
  uri_too_long: row(414, 'The URL is too long', 'Move the query into a body.'),
  media_type_unsupported: row(415, 'The content type is not taken here', 'See `detail`.'),
  idempotency_key_reused: row(
    422,
    'The idempotency key belongs to another request',
    'Take a new key for each request; send one again only with exactly the same request.',
  ),
  headers_too_large: row(431, 'The headers are too large', 'Send fewer or shorter headers.'),
  internal: row(500, 'Something is wrong on our side', 'Report the request id.'),
  dependency_unavailable: row(
    503,
    'A server behind the platform does not answer',
    'Try again; operators: `npx tenon doctor`.',
    { retryAfterS: 2 },
  ),
  overloaded: row(503, 'Too busy at the moment', 'Try again with backoff.', { retryAfterS: 1 }),

  // Credentials and rights
  credentials_conflict: row(
    400,
    'Credentials that contradict each other in one request',
    'Send one key, in one place, and each header once.',
  ),
  credentials_missing: row(
    401,
    'No credential was sent',
    'Send `apikey: svc_…` on data routes, `Authorization: Bearer <token>` on administrative ones.',
  ),
  api_key_invalid: row(401, 'The API key is not valid', 'Check for a cut or revoked key.'),
  api_key_expired: row(401, 'The API key has expired', 'Create a new one.'),
  api_key_disabled: row(401, 'The API key is disabled', 'An admin can enable it: PATCH /v1/api-keys/{id}.'),
  api_key_revoked: row(401, 'The API key was revoked', 'Create a new one.'),
  token_invalid: row(401, 'The access token is not valid', 'Get a new one: `npx tenon token`.'),
  token_expired: row(401, 'The access token has expired', 'Get a new one: `npx tenon token`.'),
  signature_invalid: row(
    401,
    'The signature is not valid',
    'Sign as Standard Webhooks says, with the secret of this address, and send it within five minutes.',
  ),
  gateway_identity_invalid: row(
    401,
    'The gateway names nobody',
    'A gateway sends x-tenant-id, x-workspace-id, x-auth-subject and x-pg-role (anon or service), each once.',
  ),
  service_key_in_query: row(
    401,
    'A key was sent in the URL',
    'URLs end in logs: revoke that key, and send the next one in the `apikey` header.',
  ),
  privilege_domain_mismatch: row(
    403,
    'This kind of credential does not fit the route',
    'Administrative routes take an operator or tenant-admin token, data routes an API key.',
  ),
  forbidden: row(403, 'The credential may not do this', 'Ask for a credential with a higher role.'),
  host_not_allowed: row(
    403,
    'The server has no such host name',
    'Use its public URL. Other names that a proxy sends on are listed in TENON_MCP_HOSTS.',
  ),
  insufficient_scope: row(
    403,
    'The credential lacks a scope',
    'Use a key or a token with the scopes that `www-authenticate` names.',
  ),
  tenant_suspended: row(403, 'The tenant is suspended', 'An operator can resume it.'),
  workspace_suspended: row(
    403,
    'The workspace is suspended',
    'An admin of the tenant, or an operator, can resume it.',
  ),
  feature_not_enabled: row(
    403,
    'The feature is not switched on',
    'It is experimental: an admin switches it on with POST /v1/services/configure.',
  ),
  rate_limited: row(
    429,
    'Too many requests',
    'Wait for as long as `Retry-After` says. `GET /v1/limits` shows your limits.',
    { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded' },
  ),
  quota_exceeded: row(429, 'A quota is used up', 'Free some of it, or ask for more.'),
  concurrency_limited: row(
    429,
    'As many executions of the flow run as may',
    'Try again when one has ended, or let the flow queue them (`onLimit: queue`).',
  ),

  // Queries, schemas and documents
  cursor_invalid: row(400, 'The page cursor is not one of ours', 'Pass `page.next` unchanged.'),
  cursor_mismatch: row(
    400,
    'The page cursor belongs to another query',
    'Keep collection, filters and order while you turn pages; begin without a cursor.',
  ),
  cursor_too_large: row(400, 'The page cannot be continued', 'Order by shorter fields.'),
  filter_invalid: row(400, 'A filter cannot be read', 'See `errors`.'),
  filter_operator_missing: row(400, 'A filter has no operator', 'Write `field=eq.value`.'),
  filter_operator_unknown: row(
    400,
    'A filter has an unknown operator',
    'Operators: eq, neq, gt, gte, lt, lte, in, like, ilike, is, isdistinct, exists, cs, cd, ov, json_path_eq; `not.` before any.',
  ),
  filter_null_operator: row(
    400,
    'null has an operator of its own',
    'Use `is.null` or `is.not_null`; the word itself is `eq."null"`.',
  ),
  filter_type_mismatch: row(
    400,
    'A filter value has the wrong type',
    'Send a value of the type that `detail` names.',
  ),
  filter_too_large: row(
    400,
    'The query has too many parts',
    'See `detail` for the limit; ask in several queries.',
  ),
  order_invalid: row(400, 'The order cannot be read', 'Write `order=field.desc,other.asc.nullsfirst`.'),
  select_invalid: row(400, 'The selection cannot be read', 'Write `select=a,b.c`.'),
  schema_invalid: row(422, 'The schema is not valid', 'See `errors`: each names a place in it.'),
  schema_violation: row(
    422,
    "The document does not fit the collection's schema",
    'See `errors`: each has pointer and keyword.',
  ),
  schema_incompatible: row(
    409,
    'Documents of the collection do not fit the new schema',
    'See `offending`: mend or delete those documents, or loosen the schema. Nothing was changed.',
  ),
  not_supported: row(
    400,
    'The store of the collection has no such thing',
    'See `detail` for the reason and what has it.',
  ),
  validation_too_costly: row(
    422,
    'The document takes too long to validate',
    'Shorten it, or simplify patterns and alternatives of the schema.',
  ),
  number_unsafe: row(
    400,
    'A number would not read back the same',
    'Integers beyond 2^53 - 1 are kept as strings.',
  ),
  string_nul: row(400, 'A string holds a NUL character', 'Leave U+0000 out.'),
  unique_violation: row(
    409,
    'Another document has the same value in a unique field',
    'See `errors` for the fields; update the other document, or send another value.',
  ),
  upsert_not_unique: row(
    400,
    'An upsert names fields that are not unique',
    'Declare them: `"unique": [["field"]]` in the schema of the collection.',
  ),
  atomic_not_supported: row(
    400,
    'The store cannot make several changes at once',
    'Send `"atomic": false`, or use relational collections.',
  ),
  query_timeout: row(503, 'The query took too long', 'Narrow it, or index the fields it uses.'),

  // Objects, under the names of S3
  InvalidKey: row(
    400,
    'The object key is not valid',
    'No empty key, no `.` or `..` between slashes, no control characters.',
  ),
  KeyTooLongError: row(400, 'The object key is too long', 'See `detail` for the limit.'),
  InvalidBucketName: row(
    400,
    'The bucket name is not valid',
    'Lower-case letters, digits and inner hyphens, 3 to 63.',
  ),
  InvalidRequest: row(400, 'The object store refuses the request', 'See `detail`.'),
  AccessDenied: row(
    403,
    'The bucket is not of this workspace',
    'Use the bucket that the workspace names, with a credential of that workspace.',
  ),
  NoSuchBucket: row(404, 'There is no such bucket', 'Check its name.'),
  NoSuchKey: row(404, 'There is no such object', 'Check the key; keys are case-sensitive.'),
  bucket_required: row(
    409,
    'The workspace has no bucket',
    'Objects need a workspace that was made with one.',
  ),
  PreconditionFailed: row(
    412,
    'The object is not as the condition says',
    'Read it again, then retry with its ETag.',
  ),
  EntityTooLarge: row(413, 'The object is too large', 'See `detail` for the limit.'),
  InvalidRange: row(
    416,
    'The range lies outside the object',
    'See the `Content-Range` header for its length.',
  ),
  content_invalid: row(422, 'The content is not of its type', 'Store it again with the right content type.'),

  // Flows, functions and calls to other servers
  flow_invalid: row(422, 'The flow is not valid', 'See `faults`: each has line and column.'),
  flow_too_costly: row(
    422,
    'The flow takes too much CPU time to compile or to simulate',
    'Split the flow, make its expressions simpler, or simulate it with less input.',
  ),
  input_invalid: row(
    422,
    'The input does not fit the schema of the flow',
    'See `errors`: each has a pointer. Nothing was started.',
  ),
  function_invalid: row(422, 'The function is not valid', 'See `faults`: each has line and column.'),
  output_too_large: row(
    413,
    'The result is too large',
    'Ask for less at once: a smaller page, a narrower filter.',
  ),
  egress_refused: row(
    403,
    'The platform does not send there',
    'Only public addresses are reached; an operator can name exceptions.',
  ),
  upstream_invalid: row(502, 'The answer of the other side is of no use', 'See `detail`.'),
  upstream_unavailable: row(502, 'The other side did not answer', 'Check its address.'),
  function_error: row(502, 'The function failed', 'See `detail`, `error` and `logs`.', { final: true }),
  function_out_of_memory: row(
    502,
    'The function needs more memory than it has',
    'Raise its `memory_mb`, or keep less at once.',
    { final: true },
  ),
  function_output_too_large: row(
    502,
    'The result of the function is too large',
    'Store it as an object, and return its key.',
    { final: true },
  ),
  function_timeout: row(504, 'The function took too long', 'Raise its `timeout`, or do less at once.', {
    final: true,
  }),
  functions_unavailable: row(
    503,
    'Functions cannot be run here',
    'Operators: `npx tenon doctor` says what Deno is wanting.',
  ),
  payload_unreadable: row(
    410,
    'What the run carried cannot be read any more',
    'Its key or its object was destroyed: that is how the data of a tenant ends.',
    { final: true },
  ),
  run_cut_off: row(502, 'The run was cut off', 'It may have had effects: look before you start it again.', {
    final: true,
  }),
}
