/** Starts executions for due triggers: schedules, webhook deliveries and events, on behalf of the publisher of the version. */

import { hash } from 'node:crypto'
import { inputOf } from '../../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import { fieldOf } from '../../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { seededIds, typeId, uuidOf } from '../../../core/ids.ts'
import { parseJson } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { FlowTriggerInput, Triggered } from '../../../core/run.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { admitExecution, hasStarted, startFlow } from '../executions/start-execution.ts'
import type { EventSpec } from './events.ts'
import { specOf } from './schedules.ts'
import type { Trigger } from './trigger.ts'
import type { Delivery, Signed } from './webhook-signatures.ts'
import { headersOf, type WebhookInput } from './webhooks.ts'

interface DueTrigger extends Pick<Trigger, 'flow_id' | 'paused' | 'spec' | 'version'> {
  readonly published_by: string
}

/** The version that a trigger starts; undefined if it is gone. */
function dueOf(scope: WorkspaceScope, triggerId: string): Promise<DueTrigger | undefined> {
  return scope.row<DueTrigger>(sql`
    select t.flow_id, t.paused, t.spec, t.version, v.created_by as published_by
    from flow_triggers t join flow_versions v on v.tenant_id = t.tenant_id and v.workspace_id = t.workspace_id
      and v.flow_id = t.flow_id and v.version = t.version
    where t.id = ${triggerId}`)
}

/**
 * Writes the execution of a schedule. Idempotent: its id is the same at each attempt of the same call.
 * @returns what is to run; `skipped` where the trigger is gone, paused by now, or kept from a time of suspension
 * @throws Problem `quota_exceeded`; Suspended has been thrown before
 */
export async function admitSchedule(scope: WorkspaceScope, input: FlowTriggerInput): Promise<Triggered> {
  const due = await dueOf(scope, input.trigger_id)
  if (due === undefined) return { skipped: 'The flow does not declare this trigger any more.' }
  if (due.paused) return { skipped: 'The schedule is paused.' }
  if (await isFromBefore(scope, input)) return { skipped: 'Its time came before the workspace was resumed.' }
  const admitted = await admitExecution(scope, sql`f.id = ${due.flow_id} and v.version = ${due.version}`, {
    id: scope.newId('run'),
    input: {},
    by: due.published_by,
    trigger: { kind: 'schedule', id: input.trigger_id },
  })
  if (admitted === undefined) return { skipped: 'The flow is gone.' }
  if (!admitted.shouldStart)
    return { skipped: 'It waits for a place of its flow, and begins when it has one.' }
  const { after_ms = 0 } = specOf(due)
  return { workflow_id: admitted.workflowId, run: admitted.run, after_ms }
}

/** A start that has waited since before a resumption: nothing is made up for. */
async function isFromBefore(scope: WorkspaceScope, { due_at }: FlowTriggerInput): Promise<boolean> {
  if (due_at === undefined) return false
  const row = await scope.row(sql`
    select from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = ${scope.ref.workspaceId} and greatest(w.resumed_at, t.resumed_at) > ${due_at}::timestamptz`)
  return row !== undefined
}

export interface Delivered {
  readonly execution_id: string
  /** True if it has come before. */
  readonly deduplicated: boolean
}

/** Headers that every execution gets. */
const HEADERS = ['content-type', 'user-agent']

/**
 * Begins the run of a delivery whose signature was verified. One that comes again answers the same, also when the run
 * has ended; what a crash has left half done is done when it comes again.
 * @throws Problem `state_conflict` where the trigger is paused, `conflict` where another body came under the same id,
 *   `body_invalid`, and as `startFlow` does
 */
export async function startByDelivery(
  scope: WorkspaceScope,
  triggerId: string,
  signed: Signed,
  delivery: Delivery,
): Promise<Delivered> {
  const due = await dueOf(scope, triggerId)
  if (due === undefined) throw notFound('webhook')
  if (due.paused) throw new Problem('state_conflict', { detail: 'The webhook is paused.' })
  const input = webhookInput(signed, delivery, headersOf(due))
  const { id, isNew } = await claim(scope, triggerId, signed.id, delivery.body)
  if (isNew || !(await hasStarted(scope, id))) {
    const trigger = { kind: 'webhook', id: triggerId } as const
    await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, trigger })
  }
  return { execution_id: id, deduplicated: !isNew }
}

/**
 * The execution of a delivery: the first attempt chooses its id. Deletes a few that are too old to come again.
 * @throws Problem `conflict` where it had another body
 */
async function claim(
  scope: WorkspaceScope,
  triggerId: string,
  deliveryId: string,
  body: Buffer,
): Promise<{ id: string; isNew: boolean }> {
  const made = scope.newId('run')
  const digest = hash('sha256', body, 'hex')
  const kept = sql`now() - ${LIMITS.webhookDeliveriesKeptDays} * interval '1 day'`
  const [, , [row] = []] = await scope.batch(
    sql`delete from webhook_deliveries where trigger_id = ${triggerId} and delivery_id in (
      select delivery_id from webhook_deliveries where trigger_id = ${triggerId} and received_at < ${kept}
      order by received_at limit ${LIMITS.webhookDeliveriesForgottenAtOnce})`,
    sql`insert into webhook_deliveries (trigger_id, delivery_id, body_sha256, execution_id)
      values (${triggerId}, ${deliveryId}, ${digest}, ${made}) on conflict do nothing`,
    sql`select execution_id, body_sha256 from webhook_deliveries
      where trigger_id = ${triggerId} and delivery_id = ${deliveryId}`,
  )
  if (row === undefined) throw notFound('webhook')
  if (row['body_sha256'] !== digest) {
    throw new Problem('conflict', { detail: 'Another body came under this `webhook-id` before.' })
  }
  const id = String(row['execution_id'])
  return { id, isNew: id === made }
}

function webhookInput(
  { id, sentMs }: Signed,
  { headers, body }: Delivery,
  shown: readonly string[],
): WebhookInput {
  const all = [...HEADERS, ...shown].map((name) => [name, headers[name]] as const)
  const given = all.filter((pair): pair is readonly [string, string] => typeof pair[1] === 'string')
  return {
    id,
    time: new Date(sentMs).toISOString(),
    headers: Object.fromEntries(
      given.map(([name, text]) => [name, text.slice(0, LIMITS.webhookHeaderCharsMax)]),
    ),
    body: bodyOf(headers['content-type'], body),
  }
}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i

function bodyOf(type: unknown, body: Buffer): Json {
  const text = textOf(body)
  return typeof type === 'string' && JSON_TYPE.test(type) && text !== '' ? (parseJson(text) as Json) : text
}

function textOf(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (cause) {
    throw new Problem('body_invalid', { detail: 'It is not valid UTF-8.', cause })
  }
}

const HOPS = 'tenonhops'

/** How many runs began one by the event of another before these were published. */
export const chainDepth = (events: readonly JsonObject[]): number =>
  Math.max(0, ...events.map((event) => Number(fieldOf(event, HOPS) ?? 0)))

/** Events that have come together for a trigger. */
interface Together {
  readonly triggerId: string
  /** The version whose filters have taken them. */
  readonly version: number
  readonly events: readonly JsonObject[]
  readonly hops: number
}

/**
 * Begins the run of events that have come together. Idempotent: the same events are the same run, however often they
 * come.
 * @throws Problem as `startFlow` does
 */
export async function startByEvents(
  scope: WorkspaceScope,
  { triggerId, version, events, hops }: Together,
): Promise<void> {
  const due = await dueOf(scope, triggerId)
  // Another version has other filters, and is shown the events as well.
  if (due === undefined || due.paused || due.version !== version) return
  const id = executionOf(triggerId, events)
  if (await hasStarted(scope, id)) return
  const input = inputOf(events, (due.spec as unknown as EventSpec).read)
  const trigger = { kind: 'event', id: triggerId, hops } as const
  await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, trigger })
}

/** The id that these events give a run of this trigger. Its time is that of the last one's id, which stays the same. */
function executionOf(triggerId: string, events: readonly JsonObject[]): string {
  const named = events.map((event) => [fieldOf(event, 'source'), fieldOf(event, 'id')])
  const digest = hash('sha256', JSON.stringify([triggerId, named]), 'buffer')
  const last = uuidOf(String(events.at(-1)?.['id'] ?? ''))
  const msecs = Number.parseInt(last.replaceAll('-', '').slice(0, 12), 16)
  return typeId('run', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}
