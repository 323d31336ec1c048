/** Triggers and what they start: the declaration, and the target, of which flows and functions are two kinds. */

import type { EventStrategy, Schedule, Webhook, WebhookResponse } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { ScheduledChild, TriggerKind } from '../../../core/execution.ts'
import type { Json } from '../../../core/work.ts'
import type { Sql } from '../../../infra/postgres/sql.ts'
import type { Timing } from '../../../infra/temporal/schedules.ts'
import type { StreamName } from '../../events/events.ts'

/** When a schedule starts its target, and how it treats a start that is due while an earlier one goes on. */
export interface ScheduleSpec {
  /** In capitals, with single spaces. */
  readonly cron?: string
  readonly every_ms?: number
  /** From the end of one run to the start of the next. */
  readonly after_ms?: number
  /** IANA name; UTC by default. */
  readonly timezone?: string
  readonly overlap: Timing['overlap']
  readonly catch_up_ms: number
  readonly jitter_ms?: number
  /** Of each run; `{}` by default. */
  readonly input?: unknown
}

/** Which events start a target. Changes of documents are events, too. */
export interface EventSpec {
  /** The streams whose events can match. */
  readonly streams: readonly StreamName[]
  /** Topics, or patterns of them such as `orders.*`. Absent: all but those of the platform. */
  readonly topics?: readonly string[]
  /** Filters, and events that belong together. Absent: each event starts a run. */
  readonly on?: EventStrategy
  /** How the input lists the events. Absent: the input is the one event. */
  readonly read?: NonNullable<Schedule['read']>
}

/** How deliveries are verified and answered. `headers` are in the input of their runs. */
export type WebhookSpec = Omit<Webhook, 'name' | 'headers'> & Required<Pick<Webhook, 'headers'>>

/** A trigger as its target declares it. */
export type DeclaredTrigger = {
  /** Identifies the trigger within its target, across changes and kinds. */
  readonly key: string
  /** Of one of an archive. Default: a new one. */
  readonly id?: string
  /** True for one of an archive: it starts nothing until somebody resumes it. Default: false. */
  readonly paused?: boolean
} & (
  | { readonly kind: 'schedule'; readonly spec: ScheduleSpec }
  | { readonly kind: 'event'; readonly spec: EventSpec }
  | { readonly kind: 'webhook'; readonly spec: WebhookSpec }
)

/** A kind of target, as far as its triggers are stored. */
export interface TargetKind {
  readonly kind: string
  /** The name of the target of the trigger `t`, for operators of Temporal. */
  readonly name: Sql
}

/** A target of triggers, such as flows. `Facts`: the facts about the target that `start` needs. */
export interface TriggerTarget<Facts extends TargetFacts = TargetFacts> extends TargetKind {
  /**
   * Selects one JSON object about the target of the trigger `t`, in the statement that reads the trigger; no row if the target
   * is gone.
   */
  readonly facts: (runId: string) => Sql
  /**
   * Starts a run for its trigger, on behalf of those who declared the trigger. Idempotent by the id of the run.
   * @param scope of the trigger, in an active workspace
   * @throws Problem if the run cannot be started; a later attempt of one with status 429 or 500 and above may succeed
   */
  start(scope: WorkspaceScope, start: TriggerStart<Facts>): Promise<StartResult>
  /**
   * Starts a run and waits for the response that it has for the sender of a webhook.
   * @returns undefined if there is none in time, or the sender is gone
   */
  readonly respond?: (scope: WorkspaceScope, request: ResponseRequest) => Promise<WebhookReply | undefined>
}

export interface TargetFacts {
  /** True if the run exists, and need not be started again. */
  readonly has_started: boolean
}

/** A start of a target by one of its triggers. */
export interface TriggerStart<Facts extends TargetFacts = TargetFacts> {
  readonly triggerId: string
  readonly kind: TriggerKind
  readonly targetId: string
  /** The version of the target that the trigger names. */
  readonly version: number | null
  readonly facts: Facts
  /** The same for each attempt of the same start. */
  readonly runId: `run_${string}`
  readonly input: Json
  /** The subjects behind the events. */
  readonly causes: readonly string[]
  /** The chain depth of the events; absent if no event fired the trigger. */
  readonly chainDepth?: number
  /** The pause that a schedule has after the end of each run. */
  readonly pauseMs: number
}

/** `full`: the target has enough runs in flight, and the same events come again later. */
export type StartResult =
  | { readonly run: `run_${string}`; readonly child?: ScheduledChild }
  | { readonly skipped: string }
  | 'full'

export interface ResponseRequest {
  readonly runId: string
  readonly response: WebhookResponse
  /** Starts the run; idempotent. */
  readonly start: () => Promise<unknown>
  /** Aborts when the sender has closed the connection. */
  readonly disconnected: AbortSignal
}

/** The response of a target to the sender of a delivery. */
export interface WebhookReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
