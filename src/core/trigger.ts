/** What begins runs by itself, as it travels: triggers that are to be made known outside, and one whose time has come. */

import type { Subflow } from './run.ts'

/** A trigger of a flow whose time has come. */
export interface FlowTriggerInput {
  readonly trigger_id: string
  /** For how long it is tried to begin a run. */
  readonly patience_ms: number
  /** RFC 3339: when it came, which its workflow is told by Temporal; it may have waited for the end of an earlier run. */
  readonly due_at?: string
}

/** What a trigger begins: a run, and how long to wait when that has ended; or nothing, and why. */
export type Triggered = (Subflow & { readonly after_ms: number }) | { readonly skipped: string }

/** Triggers of a flow whose outside is to follow their rows, and those that it had before. */
export interface RegistrationInput {
  readonly flow_id: string
  readonly before: readonly { readonly id: string; readonly kind: 'schedule' | 'webhook' | 'event' }[]
}
