/** What a trigger is: a row of the version that declares it, and of its kind, what it has outside the database. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import type { Json } from '../../../core/work.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'

/** What a definition declares. */
export interface Declared {
  /** What it is within the definition: the same from version to version, and unlike those of other kinds. */
  readonly key: string
  readonly spec: Json
}

/** A row of `flow_triggers`. */
export interface Trigger extends Declared {
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
  readonly declared: (ir: FlowIR) => readonly Declared[]
  /** Nothing where all that there is of it is in the database. */
  readonly outside?: Outside
}

/** What a kind has elsewhere, made after the row says so. Both are done again after a crash: idempotent. */
interface Outside {
  /** Makes it as the row says: new, changed or paused. */
  readonly register: (scope: WorkspaceScope, trigger: Trigger) => Promise<void>
  /** Takes it away, or finds it gone. */
  readonly unregister: (scope: WorkspaceScope, gone: { id: string; flow_id: string }) => Promise<void>
}
