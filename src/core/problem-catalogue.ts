/** The closed catalogue of problems: status, title and help of each code. */

import { OBJECT_PROBLEMS } from './object-problems.ts'
import { row } from './problem-row.ts'

const NEW_TOKEN = { adminHint: 'Operators get a token with `npx tenon token`.' }

/** All problem codes. The status is 404 if the caller may not know that the thing exists. */
export const PROBLEMS = {
  // Any request
  body_invalid: row(400, 'The body is not valid JSON', 'Send one JSON value, encoded as UTF-8.'),
  validation_failed: row(400, 'The input is not valid', 'See `errors` for the fields and reasons.'),
  value_invalid: row(
    400,
    'A value cannot be stored',
    'Check the value for NUL characters, unpaired surrogates and numbers out of range.',
  ),
  unknown_parameter: row(400, 'Unknown query parameter', 'Remove the parameter, or correct its name.'),
  body_incomplete: row(
    400,
    'The body ended before it was complete',
    'Send the body again. Nothing was stored.',
  ),
  digest_mismatch: row(400, 'The body does not match its digest', 'Send the body again. Nothing was stored.'),
  condition_unsupported: row(
    400,
    'The route does not check this condition',
    'Send the request without the header that `detail` names, or use a route that checks it.',
  ),
  header_invalid: row(400, 'A header is not valid', 'See `detail` for the header and the reason.'),
  request_malformed: row(400, 'The request is not valid HTTP', 'Check the request line.'),
  batch_refused: row(400, 'JSON-RPC batches are not accepted', 'Send one message per request.'),
  not_found: row(404, 'Not found', 'Check the id, and that the credential belongs to the same tenant.'),
  route_not_found: row(404, 'No such route', 'See /docs for all routes.'),
  method_not_allowed: row(
    405,
    'The route does not support this method',
    'See the `Allow` header for the supported methods.',
  ),
  conflict: row(409, 'The resource already exists', 'Choose another name, or use the existing resource.'),
  state_conflict: row(
    409,
    'The request is not possible in this state',
    'See `detail` for the state of the resource.',
  ),
  idempotency_in_flight: row(
    409,
    'The same request is still running',
    'Repeat the request with the same key after `Retry-After`. You get the reply of the first request. If the process of the first request has ended, the request runs again.',
    { retryAfterS: 1 },
  ),
  idempotency_reply_lost: row(
    409,
    'The request was completed, but its reply was too large to be stored',
    'Read the resource that the request changed. `answered`, if present, is the HTTP status of the lost reply. With a new key, the request would run again.',
  ),
  idempotency_outcome_unknown: row(
    409,
    'The outcome of the first request is not known',
    'Read the document. Send the request with a new key only if the document lacks the change; otherwise the change would be made twice.',
  ),
  precondition_failed: row(
    412,
    'The resource has changed in the meantime',
    'Read the resource again, then retry.',
  ),
  body_too_large: row(413, 'The body is too large', 'See `detail` for the limit.'),
  uri_too_long: row(414, 'The URL is too long', 'Send the query in a request body.'),
  media_type_unsupported: row(
    415,
    'The route does not accept this content type',
    'See `detail` for the accepted content.',
  ),
  idempotency_key_reused: row(
    422,
    'The idempotency key belongs to another request',
    'Use a new key for each request; repeat a key only with exactly the same request.',
  ),
  headers_too_large: row(431, 'The headers are too large', 'Send fewer or shorter headers.'),
  internal: row(500, 'Internal error', 'Report the request id.'),
  dependency_unavailable: row(
    503,
    'A server behind the platform does not answer',
    'Try again in a few seconds.',
    {
      retryAfterS: 2,
      adminHint: 'Operators run `npx tenon doctor` to find the server.',
    },
  ),
  schema_outdated: row(
    503,
    'The database has the schema of an older build',
    'Try again when the installation is upgraded.',
    {
      retryAfterS: 10,
      adminHint: 'Operators run `npx tenon migrate`.',
    },
  ),
  schema_newer: row(
    503,
    'The database has the schema of a newer build',
    'Try again when the installation is upgraded.',
    { retryAfterS: 10, adminHint: 'Operators start the build that migrated the database, or a newer one.' },
  ),
  master_key_wrong: row(
    503,
    'The server has the wrong master key',
    'Try again when the installation is repaired.',
    {
      retryAfterS: 10,
      adminHint: 'Operators set TENON_MASTER_KEY to the key of the installation.',
    },
  ),
  overloaded: row(503, 'The server is overloaded', 'Try again with backoff.', { retryAfterS: 1 }),

  // Credentials and rights
  credentials_conflict: row(
    400,
    'The request has contradicting credentials',
    'Send one credential in one place, and each header once.',
  ),
  credentials_missing: row(
    401,
    'No credential was sent',
    'Send `apikey: svc_…` on data routes, or `Authorization: Bearer <token>` on administrative routes.',
  ),
  api_key_invalid: row(401, 'The API key is not valid', 'Check that the key is complete and not revoked.'),
  api_key_expired: row(401, 'The API key has expired', 'Create a new key.'),
  api_key_disabled: row(
    401,
    'The API key is disabled',
    'Use another key, or ask the person who gave you this one to enable it.',
    { adminHint: 'An admin enables the key with PATCH /v1/api-keys/{id}.' },
  ),
  api_key_revoked: row(401, 'The API key was revoked', 'Create a new key.'),
  token_invalid: row(401, 'The access token is not valid', 'Refresh the token, or sign in again.', NEW_TOKEN),
  token_expired: row(401, 'The access token has expired', 'Refresh the token, or sign in again.', NEW_TOKEN),
  insufficient_user_authentication: row(401, 'Another sign-in is needed', 'Sign in again, as `detail` says.'),
  signature_invalid: row(
    401,
    'The signature is not valid',
    'Sign the delivery with the scheme and the secret of the webhook, and send it within 5 minutes.',
  ),
  callback_expired: row(
    410,
    'The callback is no longer awaited',
    'Do not send the callback again: it has expired or was used, or its step has ended.',
  ),
  gateway_identity_invalid: row(
    401,
    'The identity headers of the gateway are not valid',
    'Send the headers x-tenant-id, x-workspace-id, x-auth-subject and x-pg-role (anon or service), each exactly once.',
  ),
  anon_key_in_query: row(
    401,
    'The route does not accept a key in its URL',
    'Send the anon key in the `apikey` header. Only event streams and HTTP functions accept it in the URL.',
  ),
  service_key_in_query: row(
    401,
    'A key was sent in the URL',
    'Revoke the key, because URLs are logged, and send a new key in the `apikey` header.',
  ),
  privilege_domain_mismatch: row(
    403,
    'The route does not accept this kind of credential',
    'Send a credential of the kind that the route accepts.',
    { adminHint: 'Administrative routes accept the token of an admin, and data routes accept an API key.' },
  ),
  service_key_in_browser: row(
    403,
    'A web page sent a service key',
    'Revoke the key, because everyone who opens the page can read it. Give the page an anon key, or sign users in.',
  ),
  origin_refused: row(
    403,
    'The workspace does not allow the origin of the page',
    'Ask for the origin of the page to be allowed in the workspace.',
    { adminHint: 'An admin lists the origins of pages in the setting `cors.origins`.' },
  ),
  forbidden: row(
    403,
    'The credential does not allow this request',
    'Ask for a credential with a higher role.',
  ),
  payloads_hidden: row(
    403,
    'The credential may not see payloads of others',
    'Read the executions and runs that you have started yourself, or ask for the right to see payloads.',
    {
      adminHint:
        'First an admin of the tenant grants the right to an account (`sees_payloads`). With it, that account makes API keys with the scope `payloads:read`, and machine clients with `sees_payloads`.',
    },
  ),
  host_not_allowed: row(
    403,
    'The host name of the request is not allowed',
    'Use the public URL of the server. Further host names are configured in TENON_MCP_HOSTS.',
  ),
  insufficient_scope: row(
    403,
    'The credential lacks a scope',
    'Use a key or a token with the scopes that `www-authenticate` names.',
  ),
  tenant_suspended: row(
    403,
    'The tenant is suspended',
    'Send the request again after the tenant is resumed.',
    {
      adminHint: 'An operator can resume the tenant.',
    },
  ),
  workspace_suspended: row(
    403,
    'The workspace is suspended',
    'Send the request again after the workspace is resumed.',
    {
      adminHint: 'An admin of the tenant, or an operator, can resume the workspace.',
    },
  ),
  feature_not_enabled: row(
    403,
    'The feature is not enabled',
    'The feature is experimental. Ask for it to be enabled in the workspace.',
    { adminHint: 'An admin enables the feature with POST /v1/services/configure.' },
  ),
  rate_limited: row(
    429,
    'Too many requests',
    'Wait for the time in `Retry-After`. `GET /v1/limits` shows your limits.',
    { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded' },
  ),
  quota_exceeded: row(429, 'A quota is used up', 'Delete something that counts towards the quota.', {
    adminHint: 'An operator can raise the quota: `npx tenon quota set <name> <limit>`.',
  }),
  concurrency_limited: row(
    429,
    "The flow's concurrency limit is reached",
    'Try again after an execution has ended, or let the flow queue executions (`onLimit: queue`).',
  ),

  // Queries, schemas and documents
  cursor_invalid: row(400, 'The page cursor is not valid', 'Pass `page.next` unchanged.'),
  cursor_mismatch: row(
    400,
    'The page cursor belongs to another query',
    'Send the same collection, filters and order, or bucket and prefix, for each page. Leave the cursor out to start again.',
  ),
  cursor_too_large: row(400, 'The page cannot be continued', 'Order by fields with shorter values.'),
  filter_invalid: row(400, 'A filter is not valid', 'See `errors` for the filters and reasons.'),
  filter_operator_missing: row(400, 'A filter has no operator', 'Write `field=eq.value`.'),
  filter_operator_unknown: row(
    400,
    'A filter has an unknown operator',
    'Use one of the operators: eq, neq, gt, gte, lt, lte, in, like, ilike, is, isdistinct, exists, cs, cd, ov, json_path_eq. Write `not.` before one of them to negate it.',
  ),
  filter_null_operator: row(
    400,
    'A comparison with `null` needs the operator `is`',
    'Use `is.null` or `is.not_null`. Use `eq."null"` to compare with the text "null".',
  ),
  filter_type_mismatch: row(
    400,
    'A filter value has the wrong type',
    'Send a value of the type that `detail` names.',
  ),
  filter_too_large: row(400, 'The query has too many parts', 'See `detail` for the limit. Split the query.'),
  order_invalid: row(400, 'The order is not valid', 'Write `order=field.desc,other.asc.nullsfirst`.'),
  select_invalid: row(400, 'The selection is not valid', 'Write `select=a,b.c`.'),
  schema_invalid: row(
    422,
    'The schema is not valid',
    'See `errors` for pointers into the schema and reasons.',
  ),
  schema_violation: row(
    422,
    "The document does not match the collection's schema",
    'See `errors` for the pointer and the keyword of each violation.',
  ),
  schema_incompatible: row(
    409,
    'Documents of the collection do not match the new schema',
    'See `offending` for documents to correct or delete, or relax the schema. Nothing was changed.',
  ),
  not_supported: row(
    400,
    'The store of the collection does not support this',
    'See `detail` for the reason and the alternative.',
  ),
  validation_too_costly: row(
    422,
    'The document takes too long to validate',
    'Shorten the document, or simplify patterns and alternatives of the schema.',
  ),
  number_unsafe: row(
    400,
    'A number cannot be represented exactly',
    'Send integers beyond 2^53 - 1 as strings, or with an exponent if the nearest double is acceptable.',
  ),
  string_nul: row(400, 'A string contains a NUL character', 'Remove U+0000 from the string.'),
  unique_violation: row(
    409,
    'Another document has the same value in a unique field',
    'See `errors` for the fields. Update the other document, or send another value.',
  ),
  exclusion_violation: row(
    409,
    'The range of another document overlaps',
    'See `errors` for the fields, and `conflicting_id` for the other document if you may read it. Send another range.',
  ),
  reference_not_found: row(
    409,
    'A field refers to a document that does not exist',
    'See `errors` for the field. Create the other document first, or send the id of one that you may read.',
  ),
  referenced_operation_failed: row(
    424,
    'An operation to which this one refers has failed',
    'Correct the operation that failed, and send it again together with those that refer to it.',
  ),
  reference_in_use: row(
    409,
    'Other documents refer to this one',
    'See `referring` for some of them. Change or delete these first.',
  ),
  cascade_too_large: row(
    409,
    'A deletion would take too many documents along',
    'Delete documents that refer to this one first, for example with `delete-many`. Nothing was changed.',
  ),
  expand_invalid: row(
    400,
    'The value of expand is not valid',
    'See `detail`. Example: `expand=customer(name),comments(body;order=_created_at.desc;size=5)`.',
  ),
  upsert_not_unique: row(
    400,
    'An upsert names fields that are not unique',
    'Declare the fields as unique: `"unique": [["field"]]` in the schema of the collection.',
  ),
  too_many_matches: row(
    409,
    'More documents match than the request allows',
    'Restrict the filter, or send a higher `max_documents`. Nothing was changed.',
  ),
  plan_outdated: row(
    409,
    'Declarations have changed since the plan',
    'Plan again, read the changes, and apply them with the new fingerprint. `applied`, if present, has what was done before.',
  ),
  collection_reset: row(
    409,
    'The collection was dropped, truncated or renamed',
    'Read the list again, by the name that the collection has now, and subscribe from its position.',
  ),
  atomic_not_supported: row(
    400,
    'The store does not support atomic batches',
    'Send `"atomic": false`, or use relational collections.',
  ),
  query_too_costly: row(
    422,
    'The query would read too many documents',
    'Restrict the filter to fewer documents, or let a service key run the query.',
  ),
  query_timeout: row(503, 'The query took too long', 'Restrict the query, or index the fields that it uses.'),

  // Objects
  ...OBJECT_PROBLEMS,

  // Flows, functions and calls to other servers
  flow_invalid: row(422, 'The flow is not valid', 'See `diagnostics` for messages with line and column.'),
  flow_too_costly: row(
    422,
    'The flow takes too much CPU time to compile or to simulate',
    'Split the flow, make its expressions simpler, or simulate it with less input.',
  ),
  input_invalid: row(
    422,
    'The input does not match the schema of the flow',
    'See `errors` for pointers into the input and reasons. Nothing was started.',
  ),
  function_invalid: row(
    422,
    'The function is not valid',
    'See `diagnostics` for messages with line and column.',
  ),
  output_too_large: row(
    413,
    'The result is too large',
    'Request less at once, with a smaller page or a stricter filter.',
  ),
  tool_timeout: row(504, 'The tool took too long', 'Request less at once, or try again later.', {
    final: true,
  }),
  egress_refused: row(403, 'The platform does not send requests to this address', 'Use a public address.', {
    adminHint: 'An operator can allow other addresses.',
  }),
  source_drifted: row(
    409,
    'The source has changed since the tool was published',
    'Call the tool again after the change is accepted.',
    { adminHint: 'An admin reviews and accepts the change, then publishes the server again.' },
  ),
  upstream_invalid: row(502, 'The upstream response is not valid', 'See `detail` for the reason.'),
  upstream_unavailable: row(502, 'The upstream server did not respond', 'Check the address of the server.'),
  execution_failed: row(
    502,
    'The execution of the flow failed',
    'Read the execution that `execution_id` names.',
    {
      final: true,
    },
  ),
  upstream_timeout: row(
    504,
    'The upstream server did not respond in time',
    'Raise the `timeout` of the call, or request less at once.',
  ),
  function_error: row(502, 'The function failed', 'See `detail`, `error` and `logs`.', { final: true }),
  function_out_of_memory: row(
    502,
    'The function needs more memory than it has',
    'Raise `memory_mb` of the function, or keep less data in memory.',
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
    'Store the result as an object, and return the key of the object.',
    { final: true },
  ),
  function_busy: row(
    429,
    'The concurrency limit of the function is reached',
    'Nothing was run. Try again later, or send `Prefer: respond-async` to queue the run.',
    { retryAfterS: 5 },
  ),
  function_timeout: row(
    504,
    'The function took too long',
    'Raise `timeout` of the function, or let each run do less.',
    {
      final: true,
    },
  ),
  functions_unavailable: row(
    503,
    'Functions are not available',
    'The installation of the platform does not run functions.',
    { adminHint: 'Operators run `npx tenon doctor` to see what Deno is missing.' },
  ),
  containers_unavailable: row(
    503,
    'Container images cannot be run',
    'The installation of the platform has no container engine.',
    {
      adminHint:
        'An operator installs Docker or Podman, and sets TENON_CONTAINER_ENGINE for the API and the worker.',
    },
  ),
  payload_unreadable: row(
    410,
    'The payload can no longer be decrypted',
    'The key or the object of the payload was destroyed, for example when the tenant was deleted.',
    { final: true },
  ),
  run_cut_off: row(
    502,
    'The invocation was interrupted',
    'The invocation may have had effects. Check them before you invoke the function again.',
    { final: true },
  ),
}

export type ProblemCode = keyof typeof PROBLEMS

export function isProblemCode(text: unknown): text is ProblemCode {
  return typeof text === 'string' && Object.hasOwn(PROBLEMS, text)
}
