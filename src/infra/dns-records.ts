/** Reads TXT records from DNS. */

import { Resolver } from 'node:dns/promises'
import { Problem } from '../core/problem.ts'

/** Milliseconds of the first query, and queries of one name. The library doubles the time with each. */
const QUERIES = { timeout: 2_000, tries: 2 }

/** A name without records, or no such name. */
const NONE: ReadonlySet<string | undefined> = new Set(['ENODATA', 'ENOTFOUND'])

export class DnsRecords {
  readonly #resolver = new Resolver(QUERIES)

  /** @param servers addresses, with ports if they are not 53; empty: those of the machine */
  constructor(servers: readonly string[]) {
    if (servers.length > 0) this.#resolver.setServers(servers)
  }

  /**
   * The texts of a name; long ones have come in several strings (RFC 7208 §3.3).
   * @throws Problem `dependency_unavailable` if no server answers
   */
  async texts(name: string): Promise<string[]> {
    try {
      return (await this.#resolver.resolveTxt(name)).map((strings) => strings.join(''))
    } catch (error) {
      if (NONE.has((error as NodeJS.ErrnoException).code)) return []
      throw new Problem('dependency_unavailable', { detail: 'No DNS server answers.', cause: error })
    }
  }
}
