/** Scopes of the same caller for work inside its operation. None of them has more rights than the scope that it is made of. */

import type { Claim } from './idempotency.ts'
import { claimedScope, derivedScope } from './openers.ts'
import { WorkspaceScope } from './scope.ts'

/** The same caller, for an operation that runs inside that of the request. */
export const forNestedRun = (scope: WorkspaceScope): WorkspaceScope => derivedScope(scope, scope.actor)

/** The same caller, within other calls of tools. @param chainDepth how many */
export const withChainDepth = (scope: WorkspaceScope, chainDepth: number): WorkspaceScope =>
  derivedScope(scope, { ...scope.actor, chainDepth })

/**
 * The scope of a request that code of a function has sent, or another call of the platform: that much deeper in their chain.
 * @param chainDepth that its headers say; undefined for a request of another sender
 */
export function nestedScope<S>(opened: S, chainDepth: number | undefined): S | WorkspaceScope {
  if (chainDepth === undefined || !(opened instanceof WorkspaceScope)) return opened
  return withChainDepth(opened, chainDepth)
}

/** The same caller in an operation of its own, whose effect ends a claim. */
export const withClaim = (scope: WorkspaceScope, claim: Pick<Claim, 'ids' | 'completion'>): WorkspaceScope =>
  claimedScope(scope, claim)
