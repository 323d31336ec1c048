/** Webhook triggers: declaration, URL, and secrets for signatures. */

import type { FlowIR, Webhook } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf, encryptFor } from '../../../access/scope-services.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { TRIGGER_LIMITS } from '../../triggers/limits.ts'
import { checkSecret, makeSecret, webhookPurpose } from './standard-webhooks.ts'
import type { Trigger, TriggerKind } from './trigger.ts'
import { TOKEN_PARAMETER } from './webhook-schemes.ts'

const KEY = 'webhook:'

export const webhookTriggers: TriggerKind = {
  kind: 'webhook',
  declared: ({ schedule }: FlowIR) =>
    (schedule?.webhooks ?? []).map(({ name, headers = [], ...spec }) => ({
      key: `${KEY}${name}`,
      spec: { headers: [...headers], ...spec } as unknown as Json,
    })),
}

/** The declaration of a webhook in a flow. `headers` are in the input of its executions. */
export type WebhookSpec = Omit<Webhook, 'name' | 'headers'> & Required<Pick<Webhook, 'headers'>>

export const webhookSpec = ({ spec }: Pick<Trigger, 'spec'>): WebhookSpec => spec as unknown as WebhookSpec

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
      select t.id, t.key, t.spec, exists (select from made where trigger_id = t.id) as is_new
      from flow_triggers t where t.flow_id = ${flowId} and t.kind = 'webhook' order by t.key`,
    toResponse: (rows) =>
      (rows as { id: string; key: string; spec: Json; is_new: boolean }[]).map(
        ({ id, key, spec, is_new }) => {
          const secret = is_new ? secrets.get(key) : undefined
          const url = urlOf(scope, id) + secretQuery({ spec }, secret)
          return { id, name: key.slice(KEY.length), url, ...(secret !== undefined && { secret }) }
        },
      ),
  }
}

/** The query of a secret URL. */
function secretQuery(trigger: Pick<Trigger, 'spec'>, secret: string | undefined): string {
  const isSecretUrl = webhookSpec(trigger).verify?.scheme === 'url'
  return isSecretUrl && secret !== undefined ? `?${TOKEN_PARAMETER}=${encodeURIComponent(secret)}` : ''
}

function encryptSecret(scope: WorkspaceScope, flowId: string, key: string, secret: string): Buffer {
  return encryptFor(scope, webhookPurpose(flowId, key), Buffer.from(secret))
}

/**
 * Rotates the secret of a webhook. The previous one stays valid for a day; any earlier one ends.
 * @param given the secret that the sender has issued; without it, a new one is made
 * @throws Problem `not_found`; `validation_failed` if the scheme cannot use the secret
 */
export async function rotateSecret(
  scope: WorkspaceScope,
  id: string,
  given: string | undefined,
): Promise<{ secret?: string; url?: string; previous_until: string }> {
  const trigger = await findRow<{ flow_id: string; key: string; spec: Json }>(
    scope,
    'webhook',
    sql`select flow_id, key, spec from flow_triggers where id = ${id} and kind = 'webhook'`,
  )
  if (given !== undefined && webhookSpec(trigger).verify === undefined) checkSecret(given)
  const secret = given ?? makeSecret()
  const made = encryptSecret(scope, trigger.flow_id, trigger.key, secret)
  const grace = sql`${TRIGGER_LIMITS.webhookGraceSeconds} * interval '1 second'`
  const { previous_until } = await findRow<{ previous_until: string }>(
    scope,
    'webhook',
    sql`update webhook_secrets set sealed = ${made}, previous = sealed, previous_until = now() + ${grace},
        rotated_at = now()
      where trigger_id = ${id} returning previous_until`,
  )
  if (given !== undefined) return { previous_until }
  const query = secretQuery(trigger, secret)
  return { secret, ...(query !== '' && { url: urlOf(scope, id) + query }), previous_until }
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
  /** With `include: [query]`: the values of each parameter. */
  readonly query?: Readonly<Record<string, string | string[]>>
  /** With `include: [raw]`: the body as text. */
  readonly raw?: string
}
