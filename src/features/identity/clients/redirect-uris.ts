/**
 * The redirect URIs of public clients: https, http of a loopback address, and private-use schemes that an application on the
 * person's device opens (RFC 8252 §7).
 */

import { isLoopback, isPlainHost } from '../../../access/authentication/client-ids.ts'

/** The forms that a redirect URI may have, for error messages. */
export const REDIRECT_URI_RULE =
  'an https URL, http of a loopback address, or a scheme of an application such as cursor://host/path'

/** Schemes that browsers or operating systems handle themselves: no application receives the code, and some run code. */
const FORBIDDEN_SCHEMES: ReadonlySet<string> = new Set(
  `about blob chrome chrome-extension data edge facetime feed file filesystem ftp ftps gopher intent jar javascript
  ldap livescript mailto mhtml moz-extension ms-cxh ms-msdt ms-officecmd ms-search news resource search search-ms sftp
  shell sms ssh tel telnet urn vbscript view-source ws wss`.split(/\s+/),
)

const isWeb = ({ protocol }: URL) => protocol === 'https:' || protocol === 'http:'

/** True for a valid redirect URI: normalised as in browsers, without user, password, fragment or asterisk. */
function isRedirectUri(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  const { href, protocol, hostname, username, password } = url
  // `https://app.test` and `https://app.test/` are equal URLs but different strings.
  if (text !== href && `${text}/` !== href) return false
  if (username !== '' || password !== '' || /[#*]/.test(text)) return false
  if (!isWeb(url))
    return !FORBIDDEN_SCHEMES.has(protocol.slice(0, -1)) && (hostname === '' || isPlainHost(hostname))
  return isPlainHost(hostname) && (protocol === 'https:' || isLoopback(hostname))
}

/**
 * The URIs of a list that a client may use. Beside one that makes the client a native application, https of a loopback
 * address is none: OpenID Connect Registration 1.0 §2 excludes it.
 */
export function usableRedirectUris(uris: readonly string[]): string[] {
  const valid = [...new Set(uris)].filter(isRedirectUri)
  return isNative(valid) ? valid.filter((uri) => !isLoopbackOverTls(new URL(uri))) : valid
}

const isLoopbackOverTls = ({ protocol, hostname }: URL) => protocol === 'https:' && isLoopback(hostname)

/** True for the URIs of an application on the person's device, not of a website alone. */
export const isNative = (uris: readonly string[]): boolean => uris.some((uri) => !uri.startsWith('https:'))

/** True if the URI leads to the person's own device, where any program may take it (RFC 8252 §8.6). */
export function staysOnDevice(uri: string): boolean {
  const url = new URL(uri)
  return !isWeb(url) || isLoopback(url.hostname)
}

/** The origin of a website's URI; undefined for an application: its origin is opaque, which browsers write as `null`. */
export function webOriginOf(uri: string): string | undefined {
  const url = new URL(uri)
  return isWeb(url) ? url.origin : undefined
}

/** The destination of the URI, for people: its host with the port, or the scheme of an application, such as `cursor:`. */
export function destinationOf(uri: string): string {
  const url = new URL(uri)
  return isWeb(url) ? url.host : url.protocol
}
