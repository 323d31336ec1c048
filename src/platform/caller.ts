/** The handle of operations that reach nothing but their caller: it knows who calls, and can do nothing. */

import type { Principal } from '../core/policy.ts'
import type { Standing } from './limiter/passage.ts'

export class CallerScope {
  readonly principal: Principal
  /** How this very request stands with the limits it is under. */
  readonly standings: readonly Standing[]

  private constructor(principal: Principal, standings: readonly Standing[]) {
    this.principal = principal
    this.standings = standings
  }

  static open(principal: Principal, standings: readonly Standing[]): CallerScope {
    return new CallerScope(principal, standings)
  }
}
