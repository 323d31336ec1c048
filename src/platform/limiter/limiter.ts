/** Who may go on: every request from outside is charged here, once, before its body is read. */

import { domainOf, type Principal, type Role } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { Visitor } from '../identity/auth.ts'
import type { McpPrincipal } from '../identity/holders.ts'
import { networkOf } from './address.ts'
import { type Charge, LocalLedger } from './local-ledger.ts'
import { type Passage, passageOf } from './passage.ts'
import { PlaceKeeper } from './places.ts'
import { Rates } from './rates.ts'
import { SharedLedger } from './shared-ledger.ts'

export class Limiter {
  readonly #rates: Rates
  readonly #shared: SharedLedger
  readonly #places: PlaceKeeper
  /** Stands in for the shared one (decisions §5). */
  readonly #local = new LocalLedger()
  /** Refused credentials: a process defends its own database. */
  readonly #refused = new LocalLedger()

  constructor(config: Config, onError: (error: Error) => void) {
    this.#rates = new Rates(config)
    this.#shared = new SharedLedger(config.REDIS_URL, onError)
    this.#places = new PlaceKeeper(config.REDIS_URL, onError)
  }

  /**
   * One request of somebody who is known by now.
   * @param role that it needs; undefined where it needs none, and the highest is counted
   * @throws Problem `dependency_unavailable` for an admin where Valkey does not answer: data goes on, structure waits
   */
  admit(principal: Principal, role: Role | undefined, address: string): Promise<Passage> {
    const counted = role ?? principal.roles[0] ?? 'anon'
    const charges = this.#rates.ofPrincipal(principal, counted, networkOf(address))
    return this.#charge(charges, role !== undefined && domainOf(role) === 'structural_admin')
  }

  /** One message to a hosted MCP server. */
  admitGuest(guest: McpPrincipal): Promise<Passage> {
    return this.#charge(this.#rates.ofGuest(guest), false)
  }

  /** One request for what needs no credential: sign-in, documentation, readiness. */
  admitStranger(address: string): Promise<Passage> {
    return this.#charge([this.#rates.ofStranger(networkOf(address))], false)
  }

  /** One delivery to a webhook. */
  admitSender(webhook: string, address: string): Promise<Passage> {
    return this.#charge([this.#rates.ofSender(webhook, networkOf(address))], false)
  }

  /**
   * A place for a stream that goes on.
   * @param max of the tenant, where it has a number of its own
   * @returns how to give it back
   * @throws Problem `quota_exceeded` where there is none, `dependency_unavailable`
   */
  takePlace(principal: Principal, role: Role, address: string, max?: number): Promise<() => void> {
    return this.#places.take(this.#rates.placesOf(principal, role, networkOf(address), max))
  }

  /** The streams of a tenant: how many each may have, and how many are open; null where Valkey does not say. */
  async streamsOf(tenantId: TenantId): Promise<{ usual: number; open: number | null }> {
    const { key, max: usual } = this.#rates.placesOfTenant(tenantId)
    return { usual, open: await this.#places.taken(key) }
  }

  /** Whoever shows keys from this address: too many that are nobody's, and the database is not asked any more. */
  visitor(address: string): Visitor {
    const charge = () => this.#rates.ofRefused(networkOf(address))
    return {
      tolerate: () => {
        const asked = [charge()]
        const { refused } = passageOf(asked, this.#refused.look(asked))
        if (refused !== undefined) throw refused
      },
      refuse: () => void this.#refused.charge([charge()]),
    }
  }

  close(): void {
    this.#shared.close()
    this.#places.close()
  }

  async #charge(charges: readonly Charge[], must: boolean): Promise<Passage> {
    const found = await this.#shared.charge(charges, must)
    if (found !== undefined) return passageOf(charges, found.aheadUs)
    if (must) throw new Problem('dependency_unavailable', { detail: 'What counts requests does not answer.' })
    return passageOf(charges, this.#local.charge(charges))
  }
}
