/** What becomes of a delivery to a webhook: one run, however often it comes. */

import { hash } from 'node:crypto'
import { parseJson } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Delivery, Signed } from '../../../platform/webhooks/signature.ts'
import { hasBegun, startFlow } from '../start.ts'
import { dueOf } from './admission.ts'
import { headersOf, type WebhookInput } from './webhooks.ts'

export interface Delivered {
  readonly execution_id: string
  /** Whether it was here before. */
  readonly deduplicated: boolean
}

/** What a run is shown of every sender. */
const HEADERS = ['content-type', 'user-agent']

/**
 * Begins the run of a delivery whose signature was verified. One that comes again answers the same, also when the run
 * has ended; what a crash has left half done is done when it comes again.
 * @throws Problem `state_conflict` where the trigger is paused, `conflict` where another body came under the same id,
 *   `body_invalid`, and as `startFlow` does
 */
export async function deliver(
  scope: WorkspaceScope,
  triggerId: string,
  signed: Signed,
  delivery: Delivery,
): Promise<Delivered> {
  const due = await dueOf(scope, triggerId)
  if (due === undefined) throw notFound('webhook')
  if (due.paused) throw new Problem('state_conflict', { detail: 'The webhook is paused.' })
  const input = inputOf(signed, delivery, headersOf(due))
  const { id, isNew } = await claim(scope, triggerId, signed.id, delivery.body)
  if (isNew || !(await hasBegun(scope, id))) {
    const trigger = { kind: 'webhook', id: triggerId } as const
    await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, trigger })
  }
  return { execution_id: id, deduplicated: !isNew }
}

/**
 * The execution of a delivery: whoever comes first chooses its id. A few that are too old to come again are forgotten.
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

function inputOf(
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
