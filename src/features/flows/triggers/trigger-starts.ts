/**
 * Starts executions for schedules, webhook deliveries and events, on behalf of the publisher of the version. Deduplicates
 * deliveries by their id and events by their source and id.
 */

import { hash } from 'node:crypto'
import { inputOf } from '../../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import { objectOf } from '../../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { FlowTriggerInput, Triggered } from '../../../core/execution.ts'
import { parseJson } from '../../../core/json.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { decodeUtf8 } from '../../../core/utf8.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { TRIGGER_LIMITS } from '../../triggers/limits.ts'
import {
  causesIn,
  derivedRunId,
  eventIdentity,
  eventTime,
  wasDueBeforeResumption,
  withoutCauses,
} from '../../triggers/starts.ts'
import { admitExecution, hasStarted, startFlow } from '../executions/start-execution.ts'
import type { EventSpec } from './events.ts'
import { scheduleSpec } from './schedules.ts'
import type { Delivery, VerifiedHeaders } from './standard-webhooks.ts'
import type { Trigger } from './trigger.ts'
import { awaitResponse, type FlowResponse } from './webhook-response.ts'
import { TOKEN_PARAMETER } from './webhook-schemes.ts'
import { type WebhookInput, type WebhookSpec, webhookSpec } from './webhooks.ts'

interface TriggerTarget extends Pick<Trigger, 'flow_id' | 'paused' | 'spec' | 'version'> {
  readonly published_by: string
  /** The people behind that subject when it published the version. */
  readonly publishers: readonly string[]
}

/** The trigger with the version that it starts; undefined if it is deleted. */
function findTarget(scope: WorkspaceScope, triggerId: string): Promise<TriggerTarget | undefined> {
  return scope.row<TriggerTarget>(sql`
    select t.flow_id, t.paused, t.spec, t.version, v.created_by as published_by,
      to_json(tenon.people_behind(array[v.created_by], v.created_at)) as publishers
    from flow_triggers t join flow_versions v on v.tenant_id = t.tenant_id and v.workspace_id = t.workspace_id
      and v.flow_id = t.flow_id and v.version = t.version
    where t.id = ${triggerId}`)
}

/**
 * Writes the execution of a schedule. Idempotent: each attempt of the same call has the same id.
 * @returns the execution to start; `skipped` if the trigger is deleted, paused, or was due during a suspension
 * @throws Problem `quota_exceeded`; for a suspended workspace, the scope has thrown before
 */
export async function admitSchedule(scope: WorkspaceScope, input: FlowTriggerInput): Promise<Triggered> {
  const due = await findTarget(scope, input.trigger_id)
  if (due === undefined) return { skipped: 'The flow no longer declares this trigger.' }
  if (due.paused) return { skipped: 'The schedule is paused.' }
  if (await wasDueBeforeResumption(scope, input.due_at))
    return { skipped: 'It was due before the workspace was resumed.' }
  const admitted = await admitExecution(scope, sql`f.id = ${due.flow_id} and v.version = ${due.version}`, {
    id: scope.newId('run'),
    input: {},
    by: due.published_by,
    causes: due.publishers,
    trigger: { kind: 'schedule', id: input.trigger_id },
  })
  if (admitted === undefined) return { skipped: 'The flow was deleted.' }
  if (!admitted.shouldStart)
    return { skipped: 'It waits for a concurrency slot of its flow, and starts when it gets one.' }
  const { after_ms = 0 } = scheduleSpec(due)
  return { workflow_id: admitted.workflowId, input: admitted.execution, after_ms }
}

export interface DeliveryResult {
  readonly execution_id: string
  /** True for a repeated delivery. */
  readonly deduplicated: boolean
  /** The response of the flow, with `respond`. */
  readonly response?: FlowResponse
}

/** Headers that every execution gets. */
const HEADERS = ['content-type', 'user-agent']

/**
 * Starts the execution of a delivery with a verified signature. A repeated delivery gets the same answer, even if the
 * execution has ended; it completes a start that a crash interrupted.
 * @param gone aborts when the sender has closed the connection
 * @throws Problem `state_conflict` if the trigger is paused, `conflict` if the id was used with another body, `body_invalid`,
 *   and those of `startFlow`
 */
export async function startByDelivery(
  scope: WorkspaceScope,
  triggerId: string,
  signed: VerifiedHeaders,
  delivery: Delivery,
  gone: AbortSignal,
): Promise<DeliveryResult> {
  const due = await findTarget(scope, triggerId)
  if (due === undefined) throw notFound('webhook')
  if (due.paused) throw new Problem('state_conflict', { detail: 'The webhook is paused.' })
  const spec = webhookSpec(due)
  const input = webhookInput(signed, delivery, spec)
  const { id, isNew } = await claimDelivery(scope, triggerId, signed.id, delivery.body)
  const start = async () => {
    if (!isNew && (await hasStarted(scope, id))) return
    const trigger = { kind: 'webhook', id: triggerId } as const
    const { published_by: by, publishers: causes } = due
    await startFlow(scope, due.flow_id, due.version, { id, input, by, causes, trigger })
  }
  const result = { execution_id: id, deduplicated: !isNew }
  if (spec.respond === undefined) {
    await start()
    return result
  }
  const response = await awaitResponse(scope, id, spec.respond, start, gone)
  return response === undefined ? result : { ...result, response }
}

/**
 * Finds or assigns the execution of a delivery. Also deletes a few expired deliveries.
 * @throws Problem `conflict` if the delivery had another body
 */
async function claimDelivery(
  scope: WorkspaceScope,
  triggerId: string,
  deliveryId: string,
  body: Buffer,
): Promise<{ id: string; isNew: boolean }> {
  const newId = scope.newId('run')
  const digest = hash('sha256', body, 'hex')
  const expiredBefore = sql`now() - ${TRIGGER_LIMITS.webhookDeliveriesKeptDays} * interval '1 day'`
  const [, , [row] = []] = await scope.batch(
    sql`delete from webhook_deliveries where trigger_id = ${triggerId} and delivery_id in (
      select delivery_id from webhook_deliveries where trigger_id = ${triggerId} and received_at < ${expiredBefore}
      order by received_at limit ${TRIGGER_LIMITS.webhookDeliveriesDeletedMax})`,
    sql`insert into webhook_deliveries (trigger_id, delivery_id, body_sha256, execution_id)
      values (${triggerId}, ${deliveryId}, ${digest}, ${newId}) on conflict do nothing`,
    sql`select execution_id, body_sha256 from webhook_deliveries
      where trigger_id = ${triggerId} and delivery_id = ${deliveryId}`,
  )
  if (row === undefined) throw notFound('webhook')
  if (row['body_sha256'] !== digest) {
    throw new Problem('conflict', { detail: 'This `webhook-id` was used with another body before.' })
  }
  const id = String(row['execution_id'])
  return { id, isNew: id === newId }
}

function webhookInput(
  { id, sentMs }: VerifiedHeaders,
  { headers, body, url }: Delivery,
  { headers: declared, include = [] }: WebhookSpec,
): WebhookInput {
  const copied = [...HEADERS, ...declared].flatMap((name) => {
    const text = headers[name]
    return typeof text === 'string' ? [[name, text.slice(0, TRIGGER_LIMITS.webhookHeaderCharsMax)]] : []
  })
  return {
    id,
    time: new Date(sentMs).toISOString(),
    headers: Object.fromEntries(copied),
    body: parseBody(headers['content-type'], body),
    ...(include.includes('query') && { query: queryOf(url) }),
    ...(include.includes('raw') && { raw: decodeUtf8(body) }),
  }
}

/** The query parameters but the secret of the URL; of one that is repeated, all values. */
function queryOf(address: string): NonNullable<WebhookInput['query']> {
  const { searchParams } = new URL(address)
  const names = [...new Set(searchParams.keys())].filter((name) => name !== TOKEN_PARAMETER)
  return objectOf(
    names.map((name) => {
      const [first = '', ...more] = searchParams.getAll(name)
      return [name, more.length === 0 ? first : [first, ...more]]
    }),
  ) as NonNullable<WebhookInput['query']>
}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i

function parseBody(type: unknown, body: Buffer): Json {
  const text = decodeUtf8(body)
  return typeof type === 'string' && JSON_TYPE.test(type) && text !== '' ? (parseJson(text) as Json) : text
}

/** Correlated events that start an execution. */
interface CorrelatedEvents {
  readonly triggerId: string
  /** The version whose filters they matched. */
  readonly version: number
  readonly events: readonly JsonObject[]
  readonly chainDepth: number
}

/**
 * Starts the execution of correlated events. Idempotent: its id derives from the events.
 * @throws Problem as `startFlow` does
 */
export async function startByEvents(
  scope: WorkspaceScope,
  { triggerId, version, events, chainDepth: depth }: CorrelatedEvents,
): Promise<void> {
  const due = await findTarget(scope, triggerId)
  // Another version may have other filters, and gets the events as well.
  if (due === undefined || due.paused || due.version !== version) return
  const id = deriveExecutionId(triggerId, events)
  if (await hasStarted(scope, id)) return
  const input = inputOf(events.map(withoutCauses), (due.spec as unknown as EventSpec).read)
  const trigger = { kind: 'event', id: triggerId, chain_depth: depth } as const
  const causes = [...new Set([...due.publishers, ...events.flatMap(causesIn)])]
  await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, causes, trigger })
}

/** Derives the id of the execution from the trigger and the events. Its time is that of the last event's id. */
const deriveExecutionId = (triggerId: string, events: readonly JsonObject[]): string =>
  derivedRunId(eventTime(events.at(-1)), [triggerId, events.map(eventIdentity)])
