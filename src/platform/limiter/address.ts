/** A client's address as limits count it: an IPv4 address, or the half of an IPv6 address that names a network. */

import { isIPv6 } from 'node:net'

const HALF = 4

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
  const mapped = /^::ffff:([0-9.]+)$/i.exec(bare)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(bare)) return bare
  return `${groupsOf(bare).slice(0, HALF).join(':')}::/64`
}

/** The eight groups, without leading zeros. The URL parser writes an address in one way (RFC 5952) and without dots. */
function groupsOf(address: string): string[] {
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail] = canonical.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const missing = HALF * 2 - before.length - after.length
  return [...before, ...Array<string>(missing).fill('0'), ...after]
}
