/** Webhook triggers: declaration, URL, and secrets for signatures. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf, encryptFor } from '../../../access/scope-services.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import type { Trigger, TriggerKind } from './trigger.ts'
import { makeSecret, webhookPurpose } from './webhook-signatures.ts'

const KEY = 'webhook:'

export const webhookTriggers: TriggerKind = {
  kind: 'webhook',
  declared: ({ schedule }: FlowIR) =>
    (schedule?.webhooks ?? []).map(({ name, headers = [] }) => ({
      key: `${KEY}${name}`,
      spec: { headers: [...headers] },
    })),
}

/** Headers that executions of this webhook get, as declared by the flow. */
export const declaredHeaders = ({ spec }: Pick<Trigger, 'spec'>): readonly string[] =>
  (spec as { headers: string[] }).headers

/** The URL of a webhook. */
export const urlOf = (scope: WorkspaceScope, id: string): string =>
  addressOf(scope, `/v1/flows/workspaces/${scope.ref.workspaceId}/triggers/${id}`)

interface CreatedSecrets {
  /** For the transaction that publishes the version, after its triggers. A webhook with a secret keeps it. */
  readonly statement: Sql
  /** @param rows of the statement. A new secret is shown only once. */
  readonly toResponse: (
    rows: readonly object[],
  ) => { readonly id: string; readonly name: string; readonly url: string; readonly secret?: string }[]
}

/** Creates secrets for the webhooks of a version that have none. */
export function createSecrets(scope: WorkspaceScope, flowId: string, ir: FlowIR): CreatedSecrets {
  const secrets = new Map(webhookTriggers.declared(ir).map(({ key }) => [key, makeSecret()]))
  const made = [...secrets].map(([key, secret]) => ({
    key,
    sealed: encryptSecret(scope, flowId, key, secret).toString('base64'),
  }))
  return {
    statement: sql`with made as (
        insert into webhook_secrets (trigger_id, sealed)
        select t.id, decode(m ->> 'sealed', 'base64')
        from jsonb_array_elements(${JSON.stringify(made)}::jsonb) as m
          join flow_triggers t on t.flow_id = ${flowId} and t.key = m ->> 'key'
        on conflict do nothing returning trigger_id
      )
      select t.id, t.key, exists (select from made where trigger_id = t.id) as is_new
      from flow_triggers t where t.flow_id = ${flowId} and t.kind = 'webhook' order by t.key`,
    toResponse: (rows) =>
      (rows as { id: string; key: string; is_new: boolean }[]).map(({ id, key, is_new }) => {
        const secret = is_new ? secrets.get(key) : undefined
        const url = urlOf(scope, id)
        return { id, name: key.slice(KEY.length), url, ...(secret !== undefined && { secret }) }
      }),
  }
}

function encryptSecret(scope: WorkspaceScope, flowId: string, key: string, secret: string): Buffer {
  return encryptFor(scope, webhookPurpose(flowId, key), Buffer.from(secret))
}

/**
 * Rotates the secret of a webhook. The previous one stays valid for a day; any earlier one ends.
 * @throws Problem `not_found`
 */
export async function rotateSecret(
  scope: WorkspaceScope,
  id: string,
): Promise<{ secret: string; previous_until: string }> {
  const trigger = await findRow<{ flow_id: string; key: string }>(
    scope,
    'webhook',
    sql`select flow_id, key from flow_triggers where id = ${id} and kind = 'webhook'`,
  )
  const secret = makeSecret()
  const made = encryptSecret(scope, trigger.flow_id, trigger.key, secret)
  const grace = sql`${LIMITS.webhookGraceSeconds} * interval '1 second'`
  const { previous_until } = await findRow<{ previous_until: string }>(
    scope,
    'webhook',
    sql`update webhook_secrets set sealed = ${made}, previous = sealed, previous_until = now() + ${grace},
        rotated_at = now()
      where trigger_id = ${id} returning previous_until`,
  )
  return { secret, previous_until }
}

/** The input of an execution that a delivery starts. */
export interface WebhookInput {
  /** The id of the delivery, stable across repetitions. */
  readonly id: string
  /** The time of this attempt, RFC 3339. */
  readonly time: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON by its media type, else text. */
  readonly body: Json
}
