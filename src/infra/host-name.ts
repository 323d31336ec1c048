/** Host names: the form in which they are stored and compared, and the name in the `Host` of a request. */

import { isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'
import { LRUCache } from 'lru-cache'
import { INFRA_LIMITS } from './limits.ts'

/** The label before a host name at which DNS has the proof that the name may be used. */
export const PROOF_LABEL = '_tenon'

/** Characters of a name, so that the name of its proof is one as well (RFC 1035 §2.3.4). */
const CHARS_MAX = 253 - PROOF_LABEL.length - 1
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/** Domain names have none of these; a parser of URLs would end the name there, or decode it. */
const NOT_OF_NAMES = /[\s/\\?#@:%[\]*]/

/**
 * The ASCII form of a domain name, in lower case and without a trailing dot.
 * @returns undefined for a name with a wildcard, an IP address in any notation, a single label, and what is no domain name
 */
export function canonicalHost(text: string): string | undefined {
  if (NOT_OF_NAMES.test(text)) return undefined
  const name = domainToASCII(text).replace(/\.$/, '')
  const labels = name.split('.')
  const isName = name.length <= CHARS_MAX && labels.length > 1 && labels.every((label) => LABEL.test(label))
  // A name whose last label is a number is read as an IPv4 address (WHATWG URL §3.5).
  return isName && !/^[0-9]/.test(labels.at(-1) ?? '') ? name : undefined
}

/** A `Host` as hosts are compared: in lower case and without a final dot; with its port, if it has one. */
export const comparableHost = (host: string): string =>
  host.toLowerCase().replace(/^([^:]*)\.(?=$|:\d*$)/, '$1')

/** The name or address in a `Host`, as they are compared. */
export const nameOfHost = (host: string): string => comparableHost(host).replace(/:\d*$/, '')

/** The `Host` of a request. */
interface RequestedHost {
  /** In the form of {@link canonicalHost}; undefined for what is no domain name. */
  readonly name: string | undefined
  /**
   * False for what no `Host` may be (RFC 9110 §7.2): a name or an address, the latter in brackets if it is one of IPv6, and perhaps a port. It
   * need not be a domain name: machines of one network have names such as `api_1`. A request may have none.
   */
  readonly isValid: boolean
}

const REQUESTED = new LRUCache<string, RequestedHost>({
  max: INFRA_LIMITS.hostsCachedMax,
  memoMethod: (host) => ({
    name: canonicalHost(host.replace(/:\d*$/, '')),
    isValid: host === '' || isHost(host),
  }),
})

/** Reads a `Host`, with a port or without. Those of the last requests are remembered: clients name the same few. */
export const requestedHost = (host: string): RequestedHost => REQUESTED.memo(host)

function isHost(host: string): boolean {
  const name = nameOfHost(host)
  const port = Number(/:(\d*)$/.exec(host)?.[1] ?? 0)
  if (port > 65_535 || name.length > 253) return false
  if (name.startsWith('[')) return name.endsWith(']') && isIPv6(name.slice(1, -1))
  return !NOT_OF_NAMES.test(name) && domainToASCII(name) !== ''
}

/** True for the name itself, and all names below it. */
export const isWithin = (name: string, parent: string): boolean =>
  name === parent || name.endsWith(`.${parent}`)
