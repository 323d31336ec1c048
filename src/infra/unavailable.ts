/** The problem of work that needs a server which is away, and why it is, from the errors of all drivers. */

import { connect } from 'node:tls'
import { Problem } from '../core/problem.ts'
import { type FailureKind, SERVERS, type ServerName } from './health-report.ts'

/**
 * Names the server, in the text and in the member `part`.
 * @param detail in place of "… does not answer."
 */
export function unavailable(part: ServerName, cause: unknown, detail = detailOf(part, cause)): Problem {
  return new Problem('dependency_unavailable', { detail, members: { part }, cause })
}

function detailOf(part: ServerName, cause: unknown): string {
  const kind = failureKindOf(cause)
  if (kind === 'full') return `${SERVERS[part]} is full: it takes no writes.`
  return `${SERVERS[part]} ${kind === 'readonly' ? 'takes no writes at present' : 'does not answer'}.`
}

/** The first pattern that matches decides. Texts are those of Node, OpenSSL, gRPC, PostgreSQL, Valkey, S3 and MongoDB. */
const KINDS: readonly (readonly [RegExp, FailureKind])[] = [
  [/namespace .*not found|NamespaceNotFound/i, 'namespace'],
  [
    /OOM command not allowed|No space left|disk full|\b53100\b|\bENOSPC\b|InsufficientStorage|XMinioStorageFull/i,
    'full',
  ],
  [/\b53300\b|too many clients|connection slots|max number of clients/i, 'busy'],
  [/\bREADONLY\b|NotWritablePrimary|\b25006\b/, 'readonly'],
  [
    /NOAUTH|WRONGPASS|NOPERM|InvalidClientTokenId|request signature we calculated|\b28P01\b|\b28000\b|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch/,
    'denied',
  ],
  [/PERMISSION_DENIED|UNAUTHENTICATED|AuthenticationFailed|authentication failed/i, 'denied'],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/, 'unresolved'],
  [/ECONNREFUSED|EHOSTUNREACH|ENETUNREACH/, 'refused'],
  [/CERT_HAS_EXPIRED|CERT_NOT_YET_VALID|certificate (has expired|is not yet valid)/i, 'expired'],
  [/ALTNAME_INVALID|does not match certificate's altnames|certificate not valid for name/i, 'misnamed'],
  [
    /alert (certificate|bad certificate|unknown ca|unsupported certificate)|CERTIFICATE_REQUIRED/i,
    'certificate',
  ],
  [/SELF_SIGNED|self-signed|UNABLE_TO_(VERIFY|GET)|unable to (verify|get)|UnknownIssuer/i, 'untrusted'],
  [/\bE?SSL\b|\bTLS\b|certificate|CERT_|EPROTO|wrong version number|Protocol error|Parse Error/i, 'tls'],
  [/ECONNRESET|EPIPE|socket hang up/, 'closed'],
  [/ETIMEDOUT|DEADLINE_EXCEEDED|TimeoutError|timed out|timeout/i, 'timeout'],
  [/\bclosed\b|terminated|dropped|max retries|No connection established/i, 'closed'],
]

export function failureKindOf(error: unknown): FailureKind {
  const text = textOf(error)
  return KINDS.find(([pattern]) => pattern.test(text))?.[1] ?? 'failed'
}

/**
 * True if the server expects TLS at an address of which the platform does not. No driver says so: the server answers with what is no
 * answer of its protocol, or closes the connection.
 * @param url of the server, such as `redis://host:6379`
 */
export function expectsTls(url: URL): Promise<boolean> {
  const { protocol, hostname: host, port, searchParams } = url
  const isTls =
    /^(https|rediss|mongodb\+srv):$/.test(protocol) ||
    ['sslmode', 'ssl', 'tls'].some((name) => searchParams.has(name))
  if (isTls) return Promise.resolve(false)
  // Nothing is sent, so it does not matter who the server is.
  const socket = connect({ host, port: Number(port) || PORTS[protocol], rejectUnauthorized: false })
  return new Promise<boolean>((resolve) => {
    socket.setTimeout(TLS_MS, () => resolve(false))
    socket.once('secureConnect', () => resolve(true)).once('close', () => resolve(false))
    socket.on('error', () => resolve(false))
  }).finally(() => socket.destroy())
}

const TLS_MS = 1_000
/** Ports of URLs without one. */
const PORTS: Readonly<Record<string, number>> = {
  'postgres:': 5_432,
  'postgresql:': 5_432,
  'redis:': 6_379,
  'mongodb:': 27_017,
  'http:': 80,
}

/** Names, codes and texts of the error, of its causes and of the errors that it collects. */
function textOf(error: unknown, depth = 0): string {
  if (!(error instanceof Error) || depth > 5) return typeof error === 'string' ? error : ''
  const {
    code,
    details,
    errors = [],
    // Of a transaction of Valkey: those of its commands.
    previousErrors = [],
  } = error as Error & { code?: unknown; details?: unknown; errors?: unknown[]; previousErrors?: unknown[] }
  const own = [error.name, code, details, error.message]
  return [...own, ...[error.cause, ...errors, ...previousErrors].map((one) => textOf(one, depth + 1))].join(
    ' ',
  )
}
