/** Names of headers: those that are valid, and those that requests to a source set themselves. */

import { isToken } from '../../../infra/http-client/header-fields.ts'

/** A token of at most 100 characters (RFC 9110 §5.6.2). */
export const isHeaderName = (name: string): boolean => name.length <= 100 && isToken(name)

/** Headers that control the connection or the framing of a message (RFC 9110 §7.6.1, RFC 9112), in lower case. */
const CONNECTION_HEADERS = [
  ...['host', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'upgrade', 'te', 'trailer'],
  ...['expect', 'proxy-authorization', 'proxy-authenticate', 'proxy-connection', 'http2-settings'],
]
export const controlsConnection = (name: string): boolean => CONNECTION_HEADERS.includes(name.toLowerCase())

/** The value of `User-Agent` in requests to sources. */
export const USER_AGENT = 'tenon-mcp/1'

/** Headers that requests have of their own, and those by which callers identify themselves. */
const OWN_HEADERS = [
  'accept',
  'accept-encoding',
  'content-type',
  'authorization',
  'cookie',
  'user-agent',
  'forwarded',
]

/**
 * True for a header that no argument of a tool sets.
 * @param name in any case
 * @param headers names of those that the source sets
 */
export function isReservedHeader(name: string, headers: readonly string[]): boolean {
  const lower = name.toLowerCase()
  if (controlsConnection(lower) || OWN_HEADERS.includes(lower)) return true
  if (/^(x-forwarded-|x-real-ip$|sec-|proxy-|mcp-)/.test(lower)) return true
  return headers.some((own) => own.toLowerCase() === lower)
}
