/** What any request can be answered with. */

import type { Row } from './row.ts'

export const REQUESTS = {
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
  body_incomplete: {
    status: 400,
    title: 'The body ended before it was complete',
    help: 'Send it again; nothing was stored.',
  },
  header_invalid: { status: 400, title: 'A header is not valid', help: 'See `detail`.' },
  request_malformed: { status: 400, title: 'The request is not valid HTTP', help: 'Check the request line.' },
  batch_refused: {
    status: 400,
    title: 'One JSON-RPC message a request: batches are not taken',
    help: 'Send each message by itself.',
  },
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
  idempotency_in_flight: {
    status: 409,
    title: 'The same request is still running',
    help: 'Ask again with the same key in a moment: its reply will be the answer.',
    retryAfterS: 1,
  },
  idempotency_reply_lost: {
    status: 409,
    title: 'The request is done, and its reply was not kept',
    help: 'Read what it made. With a new key it would be done again.',
  },
  precondition_failed: { status: 412, title: 'It has changed meanwhile', help: 'Read it again, then retry.' },
  body_too_large: { status: 413, title: 'The body is too large', help: 'See `detail` for the limit.' },
  uri_too_long: { status: 414, title: 'The URL is too long', help: 'Move the query into a body.' },
  media_type_unsupported: { status: 415, title: 'The content type is not taken here', help: 'See `detail`.' },
  idempotency_key_reused: {
    status: 422,
    title: 'The idempotency key belongs to another request',
    help: 'Take a new key for each request; send one again only with exactly the same request.',
  },
  headers_too_large: {
    status: 431,
    title: 'The headers are too large',
    help: 'Send fewer or shorter headers.',
  },
  internal: { status: 500, title: 'Something is wrong on our side', help: 'Report the request id.' },
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
} as const satisfies Record<string, Row>
