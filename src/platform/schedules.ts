/** A ref's Temporal Schedules. Their ids are built here from the ref and a row, and never read back. */

import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client'
import { type TenantRef, workflowId } from '../core/tenant.ts'
import { attributesOf, openLine, sealedFor } from './payloads/raw-values.ts'
import type { Start, Temporal } from './temporal.ts'

/** When it starts its workflow, and what it does while one goes on. */
export interface Timing {
  /** Five fields each, as Temporal takes them. */
  readonly crons: readonly string[]
  readonly everyMs?: number
  /** IANA; UTC where none is named. */
  readonly timezone?: string
  readonly jitterMs?: number
  readonly overlap: keyof typeof OVERLAPS
  /** What was missed for longer than this, because Temporal was away, is not made up for. */
  readonly catchUpMs: number
}

const OVERLAPS = {
  skip: ScheduleOverlapPolicy.SKIP,
  buffer_one: ScheduleOverlapPolicy.BUFFER_ONE,
  buffer_all: ScheduleOverlapPolicy.BUFFER_ALL,
  cancel_other: ScheduleOverlapPolicy.CANCEL_OTHER,
  allow_all: ScheduleOverlapPolicy.ALLOW_ALL,
} as const

/** What it starts each time: as {@link Start}, but that Temporal appends the time to the id. */
export interface Scheduled extends Start {
  readonly timing: Timing
  readonly paused: boolean
  readonly note: string
}

/** How a schedule stands. */
export interface ScheduleStanding {
  readonly next: readonly Date[]
  readonly taken: number
  /** Not begun since another run went on. */
  readonly skipped: number
  /** Not begun since Temporal was away for too long. */
  readonly missed: number
}

export class Schedules {
  readonly #ref: TenantRef
  readonly #temporal: Temporal

  constructor(ref: TenantRef, temporal: Temporal) {
    this.#ref = ref
    this.#temporal = temporal
  }

  /** Makes a schedule, or brings it to what is said here. @throws Problem `dependency_unavailable` */
  async put(scheduled: Scheduled): Promise<void> {
    const options = optionsOf(this.#ref, scheduled)
    const { scheduleId: id, ...changed } = options
    await this.#temporal.scheduling(async (client) => {
      // Another may make it, or take it away, in between: one of the two is told so, and looks again.
      for (;;) {
        if (
          await unless(
            ScheduleNotFoundError,
            client.getHandle(id).update(() => changed),
          )
        )
          return
        if (await unless(ScheduleAlreadyRunning, client.create(options))) return
      }
    })
  }

  /** One that is not there stays so. @throws Problem `dependency_unavailable` */
  async remove(subject: string, uuid: string): Promise<void> {
    const id = workflowId(this.#ref, subject, uuid)
    await this.#temporal.scheduling((client) => unless(ScheduleNotFoundError, client.getHandle(id).delete()))
  }

  /** Undefined where there is none. @throws Problem `dependency_unavailable` */
  async standing(subject: string, uuid: string): Promise<ScheduleStanding | undefined> {
    const id = workflowId(this.#ref, subject, uuid)
    return this.#temporal.scheduling(async (client) => {
      const told = client.getHandle(id).describe()
      if (!(await unless(ScheduleNotFoundError, told))) return undefined
      const { info } = await told
      return {
        next: info.nextActionTimes,
        taken: info.numActionsTaken,
        skipped: info.numActionsSkippedOverlap,
        missed: info.numActionsMissedCatchupWindow,
      }
    })
  }
}

/** Whether the work was done; not where it failed with this error. */
async function unless(
  refusal: abstract new (...of: never[]) => Error,
  work: Promise<unknown>,
): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (error instanceof refusal) return false
    throw error
  }
}

function optionsOf(ref: TenantRef, scheduled: Scheduled) {
  const { subject, uuid, timing, paused, note } = scheduled
  const id = workflowId(ref, subject, uuid)
  const attributes = attributesOf(ref, scheduled.attributes)
  // Named apart, since the type of the options has forgotten `priority`, which is passed on all the same.
  const action = {
    type: 'startWorkflow' as const,
    workflowType: scheduled.type,
    workflowId: id,
    taskQueue: scheduled.queue,
    args: sealedFor(`start:${scheduled.type}`, scheduled.input),
    staticSummary: openLine(scheduled.summary),
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

function specOf({ crons, everyMs, timezone, jitterMs }: Timing): ScheduleSpec {
  return {
    cronExpressions: [...crons],
    ...(everyMs !== undefined && { intervals: [{ every: everyMs }] }),
    ...(timezone !== undefined && { timezone }),
    ...(jitterMs !== undefined && { jitter: jitterMs }),
  }
}
