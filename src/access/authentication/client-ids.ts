/**
 * The forms of OAuth client ids: those that the platform gives, and URLs of documents in which clients describe themselves
 * (draft-ietf-oauth-client-id-metadata-document §3).
 */

import { idPattern } from '../../core/ids.ts'
import { ACCESS_LIMITS } from '../limits.ts'

const CLIENT_ID = new RegExp(idPattern('client'))
const LOOPBACKS: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** True for a loopback address as the host of a URL. */
export const isLoopback = (hostname: string): boolean => LOOPBACKS.has(hostname)

/** Browsers accept `a;b.test` as a host, but `;` and `,` are separators in headers. */
export const isPlainHost = (hostname: string): boolean => /^([\w.-]+|\[[\da-f:.]+\])$/.test(hostname)

/**
 * True for the URL of a document: normalised as in browsers, with a path, without user, password and fragment. http is for
 * loopback addresses alone, which client-documents.ts reads only if the operator allows it.
 */
export function isDocumentId(id: string): boolean {
  if (id.length > ACCESS_LIMITS.clientIdUrlCharsMax || !/^https?:/.test(id) || !URL.canParse(id)) return false
  const { href, protocol, hostname, username, password, pathname } = new URL(id)
  if (href !== id || id.includes('#') || pathname === '/') return false
  if (username !== '' || password !== '' || !isPlainHost(hostname)) return false
  return protocol === 'https:' || isLoopback(hostname)
}

/** True for the id of a client that oauth-clients-store.ts may have. */
export const isClientId = (id: string): boolean => CLIENT_ID.test(id) || isDocumentId(id)

/** The host that publishes the document of a client, with its port; undefined for other clients. */
export const documentHostOf = (id: string): string | undefined =>
  isDocumentId(id) ? new URL(id).host : undefined
