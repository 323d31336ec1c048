/** Deliveries of webhooks: each chooses its run once, by the id that its sender gave it, and becomes the input of that run. */

import { hash } from 'node:crypto'
import { objectOf } from '../../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { parseJson } from '../../../core/json.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { TRIGGER_LIMITS } from './limits.ts'
import type { Delivery, VerifiedHeaders } from './standard-webhooks.ts'
import type { WebhookSpec } from './trigger.ts'
import { TOKEN_PARAMETER } from './webhook-schemes.ts'

/**
 * Finds or assigns the run of a delivery. Retention forgets it (features/retention).
 * @throws Problem `conflict` if the delivery had another body, `not_found` if the trigger is gone
 */
export async function claimDelivery(
  scope: WorkspaceScope,
  triggerId: string,
  deliveryId: string,
  body: Buffer,
): Promise<{ readonly runId: `run_${string}`; readonly isNew: boolean }> {
  const newId = scope.newId('run')
  const digest = hash('sha256', body, 'hex')
  const [, [row] = []] = await scope.batch(
    sql`insert into webhook_deliveries (trigger_id, delivery_id, body_sha256, run_id)
      select id, ${deliveryId}, ${digest}, ${newId} from triggers
      where workspace_id = ${scope.ref.workspaceId} and id = ${triggerId} on conflict do nothing`,
    sql`select run_id, body_sha256 from webhook_deliveries
      where trigger_id = ${triggerId} and delivery_id = ${deliveryId}`,
  )
  if (row === undefined) throw notFound('webhook')
  if (row['body_sha256'] !== digest) {
    throw new Problem('conflict', { detail: 'This `webhook-id` was used with another body before.' })
  }
  const runId = row['run_id'] as typeof newId
  return { runId, isNew: runId === newId }
}

/** The input of a run that a delivery starts. */
type WebhookInput = {
  /** The id of the delivery, stable across repetitions. */
  readonly id: string
  /** The time of this attempt, RFC 3339. */
  readonly time: string
  readonly headers: { [name: string]: string }
  /** JSON by its media type, else text. */
  readonly body: Json
  /** With `include: [query]`: the values of each parameter. */
  readonly query?: { [name: string]: string | string[] }
  /** With `include: [raw]`: the body as text. */
  readonly raw?: string
}

/** Headers that every run gets. */
const HEADERS = ['content-type', 'user-agent']

/** @throws Problem `body_invalid` */
export function webhookInput(
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
