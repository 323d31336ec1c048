/** A client's address as limits count it: an IPv4 address, or the half of an IPv6 address that names a network. */

import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Of 16 bits: so many name a network. */
const GROUPS = 4

/**
 * @param address as the socket or a trusted proxy names it
 * @returns IPv4 in dots, also where it comes in IPv6 clothes; IPv6 as its /64, since a client has all of that
 */
export function networkOf(address: string): string {
  // As most are.
  if (/^[0-9.]+$/.test(address)) return address
  // Some proxies write the port as well, and each connection has another one.
  const [, host = address] = /^([0-9.]+|\[.*\]):\d+$/.exec(address) ?? []
  const bare = host.replace(/^\[|\]$/g, '').split('%')[0] ?? ''
  if (isIP(bare) === 0) return bare
  const parsed = ipaddr.process(bare)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const groups = parsed.parts.slice(0, GROUPS).map((group) => group.toString(16))
  return `${groups.join(':')}::/${GROUPS * 16}`
}
