/** Types of triggers: what a flow declares, the row, and the kinds. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Json } from '../../../core/work.ts'

/** A trigger as a definition declares it. */
export interface DeclaredTrigger {
  /** Identifies the trigger within the flow, across versions and kinds. */
  readonly key: string
  readonly spec: Json
}

/** A row of `flow_triggers`. */
export interface Trigger extends DeclaredTrigger {
  readonly id: string
  readonly flow_id: string
  readonly flow_name: string
  readonly kind: TriggerKind['kind']
  readonly version: number
  readonly paused: boolean
  readonly note: string | null
  readonly created_at: string
  readonly updated_at: string
}

/** One kind of trigger. */
export interface TriggerKind {
  readonly kind: 'schedule' | 'webhook' | 'event'
  readonly declared: (ir: FlowIR) => readonly DeclaredTrigger[]
  /** State outside the database, if the kind has any. Both functions are idempotent and run after the row is written. */
  readonly external?: {
    /** Creates or updates it from the row. */
    readonly register: (scope: WorkspaceScope, trigger: Trigger) => Promise<void>
    /** Removes it, if it exists. */
    readonly unregister: (scope: WorkspaceScope, gone: { id: string; flow_id: string }) => Promise<void>
  }
}
