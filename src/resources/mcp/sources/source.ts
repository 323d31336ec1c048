/** A source of tools: what it offers in a workspace, which operations its tools run, what they answer. */

import type { AnyOperation } from '../../../core/operation.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Candidate } from '../tool.ts'

export interface Source {
  readonly name: string
  /** All that its tools may run, whatever a manifest says. */
  readonly operations: readonly AnyOperation[]
  /** @param scope of an admin */
  readonly candidates: (scope: WorkspaceScope) => Promise<Candidate[]>
  /** Asked before each call. @throws Problem where the source is switched off */
  readonly admit?: (scope: WorkspaceScope) => Promise<void>
  /** The tool's result from what the operation gave; where absent, the same. */
  readonly answer?: (output: never) => Answer
}

export interface Answer {
  readonly output: unknown
  readonly failed: boolean
}
