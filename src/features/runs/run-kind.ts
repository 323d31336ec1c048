/** The interface of a kind of durable work to the kernel of runs: where its records are, and what starts and ends one. */

import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { Sql } from '../../infra/postgres/sql.ts'
import type { WorkflowStatus } from '../../infra/temporal/temporal.ts'
import type { TaskContext } from '../background/background-task.ts'
import type { WorkspaceRetention } from '../retention/retention-settings.ts'

declare module '../../access/internals.ts' {
  interface PlatformServices {
    /** The kinds of this installation (features/run-kinds.ts). */
    readonly runKinds: readonly RunKind[]
  }
}

/**
 * A kind of durable work, such as executions of flows. Its table has the columns `tenant_id`, `workspace_id`, `id`, `status`,
 * `due_at` (when the reconciler looks next) and `ended_at`, and an index of `(workspace_id, due_at)` of the rows that have not ended;
 * the role tenon_reconciler may read these and update `due_at`. Expressions name the row `r`, and its row of run_slots, if it has
 * one, `s`. All functions are called with the scope of an admin of the workspace, are idempotent, and may be called by several
 * processes at once.
 */
export interface RunKind {
  /** As slots name it: 'execution'. */
  readonly name: string
  /** Of several, as names of tasks and log lines have it: 'executions'. */
  readonly plural: string
  readonly table: Sql
  /** The column with the id of the flow or function. */
  readonly owner: Sql
  /** The id of the workflow; null for the one that follows from owner and run. */
  readonly workflowId: Sql
  /** An integer: the number of slots that an owner has now. Absent if each run keeps the number that it was queued with. */
  readonly slotsOf?: (ownerId: string) => Sql
  /** When the run was recorded. */
  readonly recordedAt: Sql
  /** A condition: the run is open, and its workflow has not begun. */
  readonly isPending: Sql
  /** A condition on record and slot: the run is to be cancelled as soon as its workflow exists. */
  readonly isCancelRequested: Sql
  /** A text, as in {@link Unstarted}: the step that the reconciler takes for a pending run without a workflow. */
  readonly unstarted: Sql
  /** A number that grows with what is recorded of a run, for its watchers. */
  readonly version: Sql
  /** A condition: nothing of the run goes on, since its workspace is suspended or it is paused. */
  readonly isSuspended: Sql
  /** How often the reconciler compares a run that has begun with its workflow. */
  readonly recheckSeconds: number
  /**
   * Starts a pending run that may start; tells one that has begun, or the caller that waits to start it, that it holds its slot.
   * @returns false if it ended instead; its slot is then passed on
   */
  start(scope: WorkspaceScope, id: string): Promise<boolean>
  /**
   * Removes a few runs that ended longer ago than they are kept.
   * @returns true if more may have expired @throws Problem if one cannot be removed, with the reason for admins
   */
  removeExpired(context: TaskContext, retention: WorkspaceRetention): Promise<boolean>
  /** Ends the record of a run with its slot ({@link releaseSlot}), and starts those that get it. */
  end(scope: WorkspaceScope, id: string, end: RunEnd): Promise<void>
}

/** The step that the reconciler takes for a pending run without a workflow. `wait`: another process starts or ends it. */
export type Unstarted = 'start' | 'wait' | 'lost' | 'cancelled' | 'orphaned'

/**
 * How a workflow has ended; `lost`: it does not exist, `lost_in_restore`: neither does it after a restore of the installation,
 * `orphaned`: the run that would have started it has ended.
 */
export type RunEnd = Exclude<WorkflowStatus, 'open'> | 'lost' | 'lost_in_restore' | 'orphaned'

const kindsOf = privilege('runs.kinds')

/** @throws TypeError if the installation has no such kind */
export function requireRunKind(scope: WorkspaceScope, name: string): RunKind {
  const kind = kindsOf(scope).find((one) => one.name === name)
  if (kind === undefined) throw new TypeError(`no kind of runs is named ${name}`)
  return kind
}
