/** The closed catalogue of problems: status, title and help of each code. */

export interface ProblemRow {
  readonly status: number
  readonly title: string
  /** The next step for callers of every role; the hint of problems without their own. */
  readonly help: string
  /** One more sentence, which users and visitors of an application do not get: what an admin or an operator does. */
  readonly adminHint?: string
  /** A registered problem type (RFC 9457 §4). Default: the page of this code. */
  readonly type?: string
  /** Seconds for `Retry-After`; requests with such a code may be retried unchanged. */
  readonly retryAfterS?: number
  /** Code of a tenant has run, or may have, so the platform never retries. */
  readonly final?: true
}

const row = (
  status: number,
  title: string,
  help: string,
  more: Omit<ProblemRow, 'status' | 'title' | 'help'> = {},
): ProblemRow => ({ status, title, help, ...more })

/** All problem codes. The status is 404 if the caller may not know that the thing exists. */
export const PROBLEMS = {
  // Any request
  body_invalid: row(400, 'The body is not valid JSON', 'Send one JSON value, UTF-8.'),
  validation_failed: row(400, 'The input is not valid', 'See `errors`: each names a field.'),
  value_invalid: row(
    400,
    'A value cannot be stored',
    'Check for NUL characters, half surrogates and numbers out of range.',
  ),
  unknown_parameter: row(400, 'Unknown query parameter', 'Remove it or correct its spelling.'),
  body_incomplete: row(400, 'The body ended before it was complete', 'Send it again; nothing was stored.'),
  digest_mismatch: row(
    400,
    'The body does not have the announced digest',
    'Send the body again; nothing was stored.',
  ),
  condition_unsupported: row(
    400,
    'The route does not check this condition',
    'Send the request without the header that `detail` names, or use a route that checks it.',
  ),
  header_invalid: row(400, 'A header is not valid', 'See `detail`.'),
  request_malformed: row(400, 'The request is not valid HTTP', 'Check the request line.'),
  batch_refused: row(400, 'JSON-RPC batches are not accepted', 'Send one message per request.'),
  not_found: row(404, 'Not found', 'Check the id, and that the credential belongs to the same tenant.'),
  route_not_found: row(404, 'No such route', 'All routes are listed at /docs.'),
  method_not_allowed: row(405, 'The route has no such method', 'See the `Allow` header.'),
  conflict: row(409, 'It already exists', 'Choose another name, or use the existing one.'),
  state_conflict: row(409, 'Not possible in this state', 'See `detail` for the state it is in.'),
  idempotency_in_flight: row(
    409,
    'The same request is still running',
    'Repeat it with the same key after `Retry-After`. You get the reply of the first request, or it runs again if its process is gone.',
    { retryAfterS: 1 },
  ),
  idempotency_reply_lost: row(
    409,
    'The request was completed, but its reply was too large to be stored',
    'Read what it made; `answered`, if it is there, is the status of its reply. A new key would run the request again.',
  ),
  idempotency_outcome_unknown: row(
    409,
    'It is not known whether the first request made its change',
    'Read the document. If it lacks the change, send the request with a new key, which would make it again otherwise.',
  ),
  precondition_failed: row(412, 'It has changed in the meantime', 'Read it again, then retry.'),
  body_too_large: row(413, 'The body is too large', 'See `detail` for the limit.'),
  uri_too_long: row(414, 'The URL is too long', 'Move the query into a body.'),
  media_type_unsupported: row(415, 'The content type is not accepted here', 'See `detail`.'),
  idempotency_key_reused: row(
    422,
    'The idempotency key belongs to another request',
    'Use a new key for each request; repeat a key only with exactly the same request.',
  ),
  headers_too_large: row(431, 'The headers are too large', 'Send fewer or shorter headers.'),
  internal: row(500, 'Internal error', 'Report the request id.'),
  dependency_unavailable: row(503, 'A server behind the platform does not answer', 'Try again.', {
    retryAfterS: 2,
    adminHint: 'Operators: `npx tenon doctor`.',
  }),
  overloaded: row(503, 'The server is overloaded', 'Try again with backoff.', { retryAfterS: 1 }),

  // Credentials and rights
  credentials_conflict: row(
    400,
    'The request has contradicting credentials',
    'Send one key, in one place, and each header once.',
  ),
  credentials_missing: row(
    401,
    'No credential was sent',
    'Send `apikey: svc_…` on data routes, `Authorization: Bearer <token>` on administrative ones.',
  ),
  api_key_invalid: row(401, 'The API key is not valid', 'Check whether the key is complete and not revoked.'),
  api_key_expired: row(401, 'The API key has expired', 'Create a new one.'),
  api_key_disabled: row(
    401,
    'The API key is disabled',
    'Use another key, or ask the person who gave you this one to enable it.',
    { adminHint: 'An admin enables it with PATCH /v1/api-keys/{id}.' },
  ),
  api_key_revoked: row(401, 'The API key was revoked', 'Create a new one.'),
  token_invalid: row(401, 'The access token is not valid', 'Refresh it, or sign in again.', {
    adminHint: 'Operators: `npx tenon token`.',
  }),
  token_expired: row(401, 'The access token has expired', 'Refresh it, or sign in again.', {
    adminHint: 'Operators: `npx tenon token`.',
  }),
  signature_invalid: row(
    401,
    'The signature is not valid',
    'Sign the delivery by the scheme of this webhook and with its secret, and send it within five minutes.',
  ),
  callback_expired: row(410, 'The callback is not awaited any more', 'It expired, or its step has ended.'),
  gateway_identity_invalid: row(
    401,
    'The gateway sent no identity',
    'A gateway sends x-tenant-id, x-workspace-id, x-auth-subject and x-pg-role (anon or service), each once.',
  ),
  anon_key_in_query: row(
    401,
    'This route takes no key in its URL',
    'Send the anon key in the `apikey` header; event streams and HTTP functions alone take it in the URL.',
  ),
  service_key_in_query: row(
    401,
    'A key was sent in the URL',
    'URLs are logged: revoke that key, and send its replacement in the `apikey` header.',
  ),
  privilege_domain_mismatch: row(
    403,
    'This kind of credential does not fit the route',
    'Send the kind of credential that the route takes.',
    { adminHint: 'Administrative routes take the token of an admin, data routes an API key.' },
  ),
  service_key_in_browser: row(
    403,
    'A web page sent a service key',
    'Whoever opens the page can read the key: revoke it, and give pages an anon key or sign users in.',
  ),
  origin_refused: row(
    403,
    'The page may not use this workspace',
    'Ask for the origin of the page to be allowed in the workspace.',
    { adminHint: 'An admin lists the origins of pages in the setting `cors.origins`.' },
  ),
  forbidden: row(403, 'The credential may not do this', 'Ask for a credential with a higher role.'),
  host_not_allowed: row(
    403,
    'The server has no such host name',
    'Use its public URL. Further host names are configured in TENON_MCP_HOSTS.',
  ),
  insufficient_scope: row(
    403,
    'The credential lacks a scope',
    'Use a key or a token with the scopes that `www-authenticate` names.',
  ),
  tenant_suspended: row(403, 'The tenant is suspended', 'Send the request again when it is resumed.', {
    adminHint: 'An operator can resume it.',
  }),
  workspace_suspended: row(403, 'The workspace is suspended', 'Send the request again when it is resumed.', {
    adminHint: 'An admin of the tenant, or an operator, can resume it.',
  }),
  feature_not_enabled: row(
    403,
    'The feature is not enabled',
    'It is experimental, and off until it is enabled for the workspace.',
    { adminHint: 'An admin enables it with POST /v1/services/configure.' },
  ),
  rate_limited: row(
    429,
    'Too many requests',
    'Wait for the time in `Retry-After`. `GET /v1/limits` shows your limits.',
    { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded' },
  ),
  quota_exceeded: row(429, 'A quota is used up', 'Free some of it.', {
    adminHint: 'An operator can raise it: `npx tenon quota set <name> <limit>`.',
  }),
  concurrency_limited: row(
    429,
    "The flow's concurrency limit is reached",
    'Try again when one has ended, or let the flow queue them (`onLimit: queue`).',
  ),

  // Queries, schemas and documents
  cursor_invalid: row(400, 'The page cursor is not valid', 'Pass `page.next` unchanged.'),
  cursor_mismatch: row(
    400,
    'The page cursor belongs to another query',
    'Keep collection, filters and order, or bucket and prefix, across pages; start without a cursor.',
  ),
  cursor_too_large: row(400, 'The page cannot be continued', 'Order by shorter fields.'),
  filter_invalid: row(400, 'A filter is not valid', 'See `errors`.'),
  filter_operator_missing: row(400, 'A filter has no operator', 'Write `field=eq.value`.'),
  filter_operator_unknown: row(
    400,
    'A filter has an unknown operator',
    'Operators: eq, neq, gt, gte, lt, lte, in, like, ilike, is, isdistinct, exists, cs, cd, ov, json_path_eq; `not.` before any.',
  ),
  filter_null_operator: row(
    400,
    'A null needs its own operator',
    'Use `is.null` or `is.not_null`; the word itself is `eq."null"`.',
  ),
  filter_type_mismatch: row(
    400,
    'A filter value has the wrong type',
    'Send a value of the type that `detail` names.',
  ),
  filter_too_large: row(400, 'The query has too many parts', 'See `detail` for the limit; split the query.'),
  order_invalid: row(400, 'The order is not valid', 'Write `order=field.desc,other.asc.nullsfirst`.'),
  select_invalid: row(400, 'The selection is not valid', 'Write `select=a,b.c`.'),
  schema_invalid: row(422, 'The schema is not valid', 'See `errors`: each has a pointer into the schema.'),
  schema_violation: row(
    422,
    "The document does not match the collection's schema",
    'See `errors`: each has pointer and keyword.',
  ),
  schema_incompatible: row(
    409,
    'Documents of the collection do not match the new schema',
    'See `offending`: correct or delete those documents, or relax the schema. Nothing was changed.',
  ),
  not_supported: row(
    400,
    'The store of the collection does not support this',
    'See `detail` for the reason and the alternative.',
  ),
  validation_too_costly: row(
    422,
    'The document takes too long to validate',
    'Shorten it, or simplify patterns and alternatives of the schema.',
  ),
  number_unsafe: row(
    400,
    'A number cannot be represented exactly',
    'Send integers beyond 2^53 - 1 as strings, or with an exponent if the nearest double will do.',
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
    'The store does not support atomic batches',
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
  InvalidRequest: row(400, 'The object store rejects the request', 'See `detail`.'),
  AccessDenied: row(
    403,
    'The bucket does not belong to this workspace',
    'Use the bucket of the workspace, with a credential of that workspace.',
  ),
  NoSuchBucket: row(404, 'There is no such bucket', 'Check its name.'),
  NoSuchKey: row(404, 'There is no such object', 'Check the key; keys are case-sensitive.'),
  bucket_required: row(
    409,
    'The workspace has no bucket',
    'Objects need a workspace that was created with a bucket.',
  ),
  PreconditionFailed: row(
    412,
    'The object does not meet the condition',
    'Read it again, then retry with its ETag.',
  ),
  EntityTooLarge: row(413, 'The object is too large', 'See `detail` for the limit.'),
  InvalidRange: row(416, 'The range is outside the object', 'See the `Content-Range` header for its length.'),
  content_invalid: row(
    422,
    'The content does not match its type',
    'Store it again with the right content type.',
  ),

  // Flows, functions and calls to other servers
  flow_invalid: row(422, 'The flow is not valid', 'See `diagnostics`: each has line and column.'),
  flow_too_costly: row(
    422,
    'The flow takes too much CPU time to compile or to simulate',
    'Split the flow, make its expressions simpler, or simulate it with less input.',
  ),
  input_invalid: row(
    422,
    'The input does not match the schema of the flow',
    'See `errors`: each has a pointer. Nothing was started.',
  ),
  function_invalid: row(422, 'The function is not valid', 'See `diagnostics`: each has line and column.'),
  output_too_large: row(
    413,
    'The result is too large',
    'Request less at once: a smaller page, a narrower filter.',
  ),
  tool_timeout: row(504, 'The tool took too long', 'Ask for less at once, or try again later.', {
    final: true,
  }),
  egress_refused: row(
    403,
    'The platform does not send requests to this address',
    'Only public addresses are allowed.',
    { adminHint: 'An operator can add exceptions.' },
  ),
  source_drifted: row(
    409,
    'The source has changed since the tool was published',
    'Do without the tool until its change is accepted.',
    { adminHint: 'An admin reviews and accepts the change, then publishes the server again.' },
  ),
  upstream_invalid: row(502, 'The upstream response is not valid', 'See `detail`.'),
  upstream_unavailable: row(502, 'The upstream server did not respond', 'Check its address.'),
  execution_failed: row(502, 'The execution of the flow failed', 'Read the execution `execution_id`.', {
    final: true,
  }),
  upstream_timeout: row(
    504,
    'The upstream server did not respond in time',
    'Raise the `timeout` of the call, or ask for less at once.',
  ),
  function_error: row(502, 'The function failed', 'See `detail`, `error` and `logs`.', { final: true }),
  function_out_of_memory: row(
    502,
    'The function needs more memory than it has',
    'Raise its `memory_mb`, or hold less in memory.',
    { final: true },
  ),
  function_output_invalid: row(
    502,
    'The result of the function is not valid',
    'Correct the function, or the schema that it exports as `output`.',
    { final: true },
  ),
  function_output_too_large: row(
    502,
    'The result of the function is too large',
    'Store it as an object, and return its key.',
    { final: true },
  ),
  function_busy: row(
    429,
    'The function has as many runs as its `concurrency` allows',
    'Nothing was run. Try again later, or send `Prefer: respond-async`, which queues.',
    { retryAfterS: 5 },
  ),
  function_timeout: row(504, 'The function took too long', 'Raise its `timeout`, or do less at once.', {
    final: true,
  }),
  functions_unavailable: row(
    503,
    'Functions are not available',
    'This installation of the platform does not provide them.',
    { adminHint: 'Operators: `npx tenon doctor` shows what Deno is missing.' },
  ),
  containers_unavailable: row(
    503,
    'Container images cannot be run',
    'This installation of the platform has no container engine.',
    {
      adminHint:
        'Operators: install Docker or Podman, and set TENON_CONTAINER_ENGINE for the API and the worker.',
    },
  ),
  payload_unreadable: row(
    410,
    'The payload cannot be decrypted any more',
    'Its key or its object was destroyed, for example when the tenant was deleted.',
    { final: true },
  ),
  run_cut_off: row(
    502,
    'The invocation was interrupted',
    'It may have had effects: check before you start it again.',
    { final: true },
  ),
}

export type ProblemCode = keyof typeof PROBLEMS

export function isProblemCode(text: unknown): text is ProblemCode {
  return typeof text === 'string' && Object.hasOwn(PROBLEMS, text)
}
