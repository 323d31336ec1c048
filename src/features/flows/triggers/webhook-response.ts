/** Answers a delivery with the result of its execution (`respond`), if that ends while the sender waits. */

import type { WebhookResponse } from '../../../../flows-dsl/ir.ts'
import { isObject } from '../../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { ResponseRequest, WebhookReply } from '../../runs/triggers/trigger.ts'
import { untilEnded } from '../executions/executions.ts'

/** Headers that a flow may set. Others would speak for the platform, such as `set-cookie`. */
const HEADERS = /^(content-type|content-language|location|retry-after|link|x-[a-z0-9-]{1,60})$/
const HEADER_VALUE = /^[\t -~]{0,1000}$/
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Starts the execution, waits for its end, and records on it whether the sender got its result.
 * @returns undefined if the execution has not ended in time, or the sender is gone: it continues
 * @throws Problem `execution_failed`
 */
export async function awaitResponse(
  scope: WorkspaceScope,
  { runId: id, response: { with: kind, withinMs }, start, disconnected }: ResponseRequest,
): Promise<WebhookReply | undefined> {
  await untilEnded(scope, id, start, withinMs, disconnected)
  const row = await scope.row<{ status: string; output: Json; has_ended: boolean }>(sql`
    update executions set response = case when response = 'sent' then response
        when ${disconnected.aborted}::boolean then 'sender_gone' when ended_at is null then 'timed_out' else 'sent' end
    where id = ${id} returning status, output, ended_at is not null as has_ended`)
  if (row === undefined || !row.has_ended || disconnected.aborted) return undefined
  const response = row.status === 'completed' ? responseOf(kind, row.output) : undefined
  if (response !== undefined) return response
  const detail =
    row.status === 'completed'
      ? 'The output of the flow is not a response: it needs `status` (200 to 599), and may have `headers` and `body`.'
      : `The execution ended as ${row.status}.`
  throw new Problem('execution_failed', { detail, members: { execution_id: id } })
}

/** @returns undefined if the output does not describe a response */
function responseOf(kind: WebhookResponse['with'], output: Json): WebhookReply | undefined {
  if (kind === 'output')
    return { status: 200, headers: { 'content-type': JSON_TYPE }, body: JSON.stringify(output) }
  if (!isObject(output)) return undefined
  const { status = 200, headers = {}, body = '' } = output
  if (!Number.isInteger(status) || Number(status) < 200 || Number(status) > 599 || !isObject(headers))
    return undefined
  const isText = typeof body === 'string'
  const type = isText ? 'text/plain; charset=utf-8' : JSON_TYPE
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  if (!own.every(([name, value]) => HEADERS.test(name) && HEADER_VALUE.test(String(value)))) return undefined
  return {
    status: Number(status),
    headers: {
      'content-type': type,
      ...Object.fromEntries(own.map(([name, value]) => [name, String(value)])),
    },
    body: isText ? body : JSON.stringify(body),
  }
}
