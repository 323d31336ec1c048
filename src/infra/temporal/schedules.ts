/** The Temporal Schedules of a tenant reference. Their ids are built here from the reference and a row, and never read back. */

import {
  type CalendarSpec,
  ScheduleAlreadyRunning,
  type ScheduleClient,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client'
import { Problem } from '../../core/problem.ts'
import { owns, type TenantRef, workflowId } from '../../core/tenant.ts'
import { plaintextSummary, type Start, searchAttributesOf, withPurpose } from './start-values.ts'

/** When a schedule starts its workflow, and what it does while an earlier one runs. */
export interface Timing {
  /** Five fields each, for Temporal. */
  readonly crons?: readonly string[]
  /** Times at `offsetMs` after multiples of `everyMs` since 1970. */
  readonly intervals?: readonly { readonly everyMs: number; readonly offsetMs?: number }[]
  /** Which of these times are left out, by what a clock in the time zone shows. */
  readonly skip?: readonly CalendarSpec[]
  /** IANA name; UTC by default. */
  readonly timezone?: string
  readonly jitterMs?: number
  readonly overlap: keyof typeof OVERLAPS
  /** A start that Temporal missed while it was unavailable is made up for only within this time. */
  readonly catchUpMs: number
}

const OVERLAPS = {
  skip: ScheduleOverlapPolicy.SKIP,
  buffer_one: ScheduleOverlapPolicy.BUFFER_ONE,
  buffer_all: ScheduleOverlapPolicy.BUFFER_ALL,
  cancel_other: ScheduleOverlapPolicy.CANCEL_OTHER,
  allow_all: ScheduleOverlapPolicy.ALLOW_ALL,
} as const

/** The start of each time. Temporal appends the time to the workflow id. */
export interface Scheduled extends Start {
  readonly timing: Timing
  readonly paused: boolean
  readonly note: string
}

export interface ScheduleStatus {
  readonly paused: boolean
  readonly next: readonly Date[]
  readonly taken: number
  /** Not started because another execution was running. */
  readonly skipped: number
  /** Not started because Temporal was unavailable for too long. */
  readonly missed: number
}

const LISTED_MAX = 10_000

/** A call about schedules, with the deadline and the errors of all calls. */
type CallSchedules = <T>(work: (client: ScheduleClient) => Promise<T>) => Promise<T>

/** All methods throw the problems of `toProblem` (errors.ts). */
export class Schedules {
  readonly #ref: TenantRef
  readonly #call: CallSchedules

  constructor(ref: TenantRef, call: CallSchedules) {
    this.#ref = ref
    this.#call = call
  }

  /** Creates or updates a schedule. */
  async put(scheduled: Scheduled): Promise<void> {
    const options = optionsOf(this.#ref, scheduled)
    const { scheduleId: id, ...changed } = options
    await this.#call(async (client) => {
      const update = () => client.getHandle(id).update(() => changed)
      // Another process may create or delete it in between: then one of the two calls fails, and both are repeated.
      for (;;) {
        if (await succeeds(ScheduleNotFoundError, update())) return
        if (await succeeds(ScheduleAlreadyRunning, client.create(options))) return
      }
    })
  }

  /** Does nothing if there is no such schedule. */
  async remove(subject: string, uuid: string): Promise<void> {
    const id = workflowId(this.#ref, subject, uuid)
    await this.#call((client) => succeeds(ScheduleNotFoundError, client.getHandle(id).delete()))
  }

  /**
   * All of them, each true if it is paused, by their ids. Temporal's index, which knows them, is some moments behind.
   * @throws Problem `dependency_unavailable` if there are more than {@link LISTED_MAX}
   */
  async list(): Promise<ReadonlyMap<string, boolean>> {
    const { tenantId, workspaceId } = this.#ref
    const query = `TenantId = '${tenantId}' AND WorkspaceId = '${workspaceId}'`
    return this.#call(async (client) => {
      const found = new Map<string, boolean>()
      for await (const { scheduleId, state } of client.list({ query })) {
        if (owns(this.#ref, scheduleId)) found.set(scheduleId, state.paused)
        if (found.size > LISTED_MAX)
          throw new Problem('dependency_unavailable', {
            detail: `Temporal has more than ${LISTED_MAX} schedules of this workspace.`,
          })
      }
      return found
    })
  }

  /** The id of a schedule in Temporal. */
  idOf(subject: string, uuid: string): string {
    return workflowId(this.#ref, subject, uuid)
  }

  /** True if there is one of this id, which {@link list} has shown. */
  async exists(id: string): Promise<boolean> {
    const found = this.#call((client) => unlessThrown(ScheduleNotFoundError, client.getHandle(id).describe()))
    return (await found) !== undefined
  }

  /** Removes one that {@link list} has shown, and that no row knows. @returns false if there is none any more */
  removeListed(id: string): Promise<boolean> {
    if (!owns(this.#ref, id)) throw new Error(`${id} is not a schedule of this workspace`)
    return this.#call((client) => succeeds(ScheduleNotFoundError, client.getHandle(id).delete()))
  }

  /** @returns undefined if there is no such schedule */
  async status(subject: string, uuid: string): Promise<ScheduleStatus | undefined> {
    const id = workflowId(this.#ref, subject, uuid)
    const found = await this.#call((client) =>
      unlessThrown(ScheduleNotFoundError, client.getHandle(id).describe()),
    )
    return (
      found && {
        paused: found.state.paused,
        next: found.info.nextActionTimes,
        taken: found.info.numActionsTaken,
        skipped: found.info.numActionsSkippedOverlap,
        missed: found.info.numActionsMissedCatchupWindow,
      }
    )
  }
}

type ErrorClass = abstract new (...args: never[]) => Error

/** @returns undefined if the work fails with this class of error */
export async function unlessThrown<T>(expected: ErrorClass, work: Promise<T>): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (error instanceof expected) return undefined
    throw error
  })
}

/** @returns false if the work fails with this class of error */
async function succeeds(expected: ErrorClass, work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    (error: unknown) => {
      if (error instanceof expected) return false
      throw error
    },
  )
}

function optionsOf(ref: TenantRef, scheduled: Scheduled) {
  const { subject, uuid, timing, paused, note } = scheduled
  const id = workflowId(ref, subject, uuid)
  const attributes = searchAttributesOf(ref, scheduled.attributes)
  // A variable of its own: the type of the options lacks `priority`, which the client passes on nevertheless.
  const action = {
    type: 'startWorkflow' as const,
    workflowType: scheduled.type ?? scheduled.definition,
    workflowId: id,
    taskQueue: scheduled.queue,
    args: withPurpose(`start:${scheduled.definition}`, scheduled.input),
    staticSummary: plaintextSummary(scheduled.summary),
    typedSearchAttributes: attributes,
    priority: { fairnessKey: ref.tenantId },
  }
  return {
    scheduleId: id,
    spec: specOf(timing),
    action,
    policies: { overlap: OVERLAPS[timing.overlap], catchupWindow: timing.catchUpMs },
    state: { paused, note },
    typedSearchAttributes: attributes,
  }
}

function specOf({ crons = [], intervals = [], skip = [], timezone, jitterMs }: Timing): ScheduleSpec {
  return {
    cronExpressions: [...crons],
    intervals: intervals.map(({ everyMs, offsetMs = 0 }) => ({ every: everyMs, offset: offsetMs })),
    skip: [...skip],
    ...(timezone !== undefined && { timezone }),
    ...(jitterMs !== undefined && { jitter: jitterMs }),
  }
}
