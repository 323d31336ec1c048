/** Decides if an IP address is one of the public Internet, and not one of this host's own. */

import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

/** For how many milliseconds the host's interfaces are taken to be as they were read. */
const INTERFACES_CACHE_MS = 5_000

/** All that IANA gives out as global unicast IPv6 (RFC 4291 §2.4); the rest of the space is special or unassigned. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

type Interfaces = () => NodeJS.Dict<NetworkInterfaceInfo[]>

export class PublicAddresses {
  readonly #interfaces: Interfaces
  readonly #now: () => number
  #own: ReadonlySet<string> = new Set()
  #readAtMs = Number.NEGATIVE_INFINITY

  /**
   * @param interfaces of the host
   * @param now a clock in milliseconds that never goes back
   */
  constructor(interfaces: Interfaces = networkInterfaces, now: () => number = () => performance.now()) {
    this.#interfaces = interfaces
    this.#now = now
  }

  /**
   * True for a unicast address of the public Internet (IANA's special-purpose registries, RFC 6890) that no interface
   * of this host has. An IPv4-mapped address counts as the IPv4 address in it; every other translated form (NAT64,
   * 6to4, Teredo, RFC 6145) is refused, whatever it leads to.
   * @param text an address in any spelling; false for what is none
   */
  isPublic(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.process(text)
    if (address.range() !== 'unicast') return false
    if (address.kind() === 'ipv6' && !address.match(GLOBAL_UNICAST)) return false
    return !this.#ownAddresses().has(address.toNormalizedString())
  }

  #ownAddresses(): ReadonlySet<string> {
    if (this.#now() - this.#readAtMs < INTERFACES_CACHE_MS) return this.#own
    const all = Object.values(this.#interfaces()).flatMap((each) => each ?? [])
    this.#own = new Set(all.map(({ address }) => ipaddr.process(address).toNormalizedString()))
    this.#readAtMs = this.#now()
    return this.#own
  }
}
