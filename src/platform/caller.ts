/** The handle of operations that reach nothing but their caller: it knows who calls, and can do nothing. */

import type { Principal } from '../core/policy.ts'

export class CallerScope {
  readonly principal: Principal

  private constructor(principal: Principal) {
    this.principal = principal
  }

  static open(principal: Principal): CallerScope {
    return new CallerScope(principal)
  }
}
