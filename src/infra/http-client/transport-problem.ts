/** Describes why a request got no response: an unknown name, a refused or lost connection, or a timeout. */

import { Problem } from '../../core/problem.ts'

/** The request took longer than its limit. */
export class TimedOut extends Error {}

/** Failures before a connection exists, so that the server has not got the request; by the codes of Node and OpenSSL. */
const UNSENT: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the name is not known',
  EAI_AGAIN: 'the name could not be resolved',
  ECONNREFUSED: 'the connection was refused',
  EHOSTUNREACH: 'the host is not reachable',
  ENETUNREACH: 'the network is not reachable',
  ETIMEDOUT: 'the connection could not be established in time',
}

/** Failures of a TLS handshake, such as `CERT_HAS_EXPIRED` or `DEPTH_ZERO_SELF_SIGNED_CERT`. */
const TLS = /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$)/

/**
 * @param server `host:port`
 * @param timeoutMs the limit of the request
 * @returns `upstream_timeout`, or `upstream_unavailable`; with the member `may_have_arrived` if a connection existed, so that
 *   the server may have acted on the request
 */
export function transportProblem(server: string, cause: unknown, timeoutMs: number): Problem {
  if (cause instanceof TimedOut) {
    const seconds = Math.max(0.1, Math.round(timeoutMs / 100) / 10)
    const detail = `${server} has not answered within ${seconds} s.`
    return new Problem('upstream_timeout', { detail, cause, members: { may_have_arrived: true } })
  }
  const code = codeOf(cause)
  const unsent =
    UNSENT[code] ?? (TLS.test(code) ? `its TLS certificate or protocol is not accepted (${code})` : undefined)
  if (unsent !== undefined)
    return new Problem('upstream_unavailable', { detail: `${server}: ${unsent}.`, cause })
  const detail = `${server} closed the connection without a complete answer.`
  return new Problem('upstream_unavailable', { detail, cause, members: { may_have_arrived: true } })
}

/** The code of an error; of one that groups several attempts to connect, that of the first. */
function codeOf(cause: unknown): string {
  const { code, errors } = cause as { code?: unknown; errors?: readonly unknown[] }
  if (typeof code === 'string') return code
  return errors?.[0] === undefined ? '' : codeOf(errors[0])
}
