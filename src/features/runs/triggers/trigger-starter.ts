/**
 * Starts targets when their triggers fire: by a schedule, by events, by a delivery. The id of a run derives from what fired the
 * trigger, or is chosen once for it, so a repeated firing starts nothing twice.
 */

import { hash } from 'node:crypto'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { ScheduledStart, ScheduledStartInput, TargetRef } from '../../../core/execution.ts'
import { seededIds, typeId } from '../../../core/ids.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { causesOfEvents, eventIdentity, eventTime, inputOfEvents } from './events.ts'
import type { Delivery } from './standard-webhooks.ts'
import type {
  EventSpec,
  ScheduleSpec,
  StartResult,
  TargetFacts,
  TriggerStart,
  TriggerTarget,
  WebhookReply,
} from './trigger.ts'
import { claimDelivery, webhookInput } from './webhook-deliveries.ts'
import type { VerifiedDelivery } from './webhook-verifier.ts'

/** How subjects of triggers begin. */
export const TRIGGER_SUBJECT = 'trigger:'

/** The actor of what a trigger starts. */
export const triggerActor = (triggerId: string) =>
  ({ subject: `${TRIGGER_SUBJECT}${triggerId}`, role: 'workspace_admin' }) as const

/** Events that fire a trigger together. */
export interface EventFiring {
  readonly triggerId: string
  readonly target: TargetRef
  /** The revision of the trigger whose filters they matched. */
  readonly revision: number
  readonly events: readonly JsonObject[]
  readonly chainDepth: number
}

/** A delivery with a verified signature. */
export interface DeliveryFiring {
  readonly received: VerifiedDelivery
  readonly delivery: Delivery
  /** Aborts when the sender has closed the connection. */
  readonly disconnected: AbortSignal
}

export interface DeliveryResult {
  readonly runId: string
  /** True for a repeated delivery. */
  readonly deduplicated: boolean
  /** The response of the target, with `respond`. */
  readonly response?: WebhookReply
}

/** The row of a trigger whose target is there. */
interface DueTrigger {
  readonly spec: unknown
  readonly version: number | null
  readonly revision: number
  readonly paused: boolean
  readonly facts: TargetFacts
}

/** A trigger that fires, and the run that it starts. */
type Firing = Pick<TriggerStart, 'triggerId' | 'kind' | 'targetId' | 'runId'>

export class TriggerStarter {
  readonly targets: readonly TriggerTarget[]

  /** @param targets all that triggers can start */
  constructor(targets: readonly TriggerTarget[]) {
    this.targets = targets
  }

  /** @throws TypeError if there is no target of the kind, which would be a bug */
  targetOf({ kind }: Pick<TargetRef, 'kind'>): TriggerTarget {
    const target = this.targets.find((one) => one.kind === kind)
    if (target === undefined) throw new TypeError(`there is no trigger target ${kind}`)
    return target
  }

  /**
   * Starts the run of a due schedule, or hands out the child that is to be started.
   * @throws Problem as the target does; for a suspended workspace, the scope has thrown before
   */
  async startScheduled(
    scope: WorkspaceScope,
    { trigger_id, target: ref, due_at }: ScheduledStartInput,
  ): Promise<ScheduledStart> {
    const target = this.targetOf(ref)
    const runId =
      due_at === undefined ? scope.newId('run') : derivedRunId(Date.parse(due_at), [trigger_id, due_at])
    const firing: Firing = { triggerId: trigger_id, kind: 'schedule', targetId: ref.id, runId }
    const due = await findDue(scope, target, firing)
    if (due === undefined) return { skipped: `The ${ref.kind} no longer has this schedule.` }
    if (due.paused) return { skipped: 'The schedule is paused.' }
    if (await wasDueBeforeResumption(scope, due_at))
      return { skipped: 'It was due before the workspace was resumed.' }
    const { input = {}, after_ms: pauseMs = 0 } = due.spec as ScheduleSpec
    const result = await startDue(scope, target, due, {
      ...firing,
      input: input as Json,
      causes: [],
      pauseMs,
    })
    if (result === 'full') return { skipped: `The ${ref.kind} has enough runs in flight.` }
    if ('skipped' in result) return result
    await scope.batch(sql`
      update trigger_states set started = started + 1, last_run_id = ${runId}, last_run_at = now()
      where workspace_id = ${scope.ref.workspaceId} and trigger_id = ${trigger_id} and last_run_id is distinct from ${runId}`)
    return { run_id: runId, ...(result.child !== undefined && { child: result.child }) }
  }

  /** Starts the run of events. @throws Problem as the target does */
  async startByEvents(
    scope: WorkspaceScope,
    { triggerId, target: ref, revision, events, chainDepth }: EventFiring,
  ): Promise<StartResult> {
    const target = this.targetOf(ref)
    const runId = derivedRunId(eventTime(events.at(-1)), [triggerId, events.map(eventIdentity)])
    const firing: Firing = { triggerId, kind: 'event', targetId: ref.id, runId }
    const due = await findDue(scope, target, firing)
    // Another revision may have other filters, and gets the events as well.
    if (due === undefined || due.paused || due.revision !== revision)
      return { skipped: 'The trigger was changed.' }
    const input = inputOfEvents(due.spec as EventSpec, events)
    const causes = causesOfEvents(events)
    return startDue(scope, target, due, { ...firing, input, causes, chainDepth, pauseMs: 0 })
  }

  /**
   * Starts the run of a delivery. A repeated delivery gets the same answer, even if the run has ended; it completes a start that
   * a crash interrupted.
   * @throws Problem `state_conflict` if the trigger is paused, `conflict` if the id was used with another body, `body_invalid`,
   *   and those of the target
   */
  async startByDelivery(
    scope: WorkspaceScope,
    { received, delivery, disconnected }: DeliveryFiring,
  ): Promise<DeliveryResult> {
    const { triggerId, signed, spec } = received
    const target = this.targetOf(received.target)
    refuseIfPaused(received)
    const input = webhookInput(signed, delivery, spec)
    const { runId, isNew } = await claimDelivery(scope, triggerId, signed.id, delivery.body)
    const firing: Firing = { triggerId, kind: 'webhook', targetId: received.target.id, runId }
    const start = async () => {
      const due = await findDue(scope, target, firing)
      if (due === undefined) throw notFound('webhook')
      refuseIfPaused(due)
      await startDue(scope, target, due, { ...firing, input, causes: [], pauseMs: 0 })
    }
    const result = { runId, deduplicated: !isNew }
    if (spec.respond === undefined || target.respond === undefined) {
      await start()
      return result
    }
    const response = await target.respond(scope, { runId, response: spec.respond, start, disconnected })
    return response === undefined ? result : { ...result, response }
  }
}

/** @returns undefined if trigger or target is gone */
async function findDue(
  scope: WorkspaceScope,
  target: TriggerTarget,
  { triggerId, kind, targetId, runId }: Firing,
): Promise<DueTrigger | undefined> {
  const row = await scope.row<Omit<DueTrigger, 'facts'> & { readonly facts: TargetFacts | null }>(sql`
    select t.spec, t.version, t.revision, t.paused, (${target.facts(runId)}) as facts from triggers t
    where t.workspace_id = ${scope.ref.workspaceId} and t.id = ${triggerId} and t.kind = ${kind}
      and t.target_kind = ${target.kind} and t.target_id = ${targetId}`)
  return row?.facts ? { ...row, facts: row.facts } : undefined
}

async function startDue(
  scope: WorkspaceScope,
  target: TriggerTarget,
  { facts, version }: DueTrigger,
  start: Omit<TriggerStart, 'facts' | 'version'>,
): Promise<StartResult> {
  if (facts.has_started) return { run: start.runId }
  return target.start(scope, { ...start, facts, version })
}

function refuseIfPaused({ paused }: Pick<DueTrigger, 'paused'>): void {
  if (paused) throw new Problem('state_conflict', { detail: 'The webhook is paused.' })
}

/** The same id for the same seed. @param msecs the time that it carries, milliseconds since the epoch */
function derivedRunId(msecs: number, seed: unknown): `run_${string}` {
  const digest = hash('sha256', JSON.stringify(seed), 'buffer')
  return typeId('run', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}

/** True for a start that was due before the last resumption; these are skipped. @param dueAt RFC 3339 */
async function wasDueBeforeResumption(scope: WorkspaceScope, dueAt: string | undefined): Promise<boolean> {
  if (dueAt === undefined) return false
  const row = await scope.row(sql`
    select from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = ${scope.ref.workspaceId} and greatest(w.resumed_at, t.resumed_at) > ${dueAt}::timestamptz`)
  return row !== undefined
}
