/** Webhook triggers: their URL, and secrets for signatures. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf, encryptFor } from '../../../access/scope-services.ts'
import type { TargetRef } from '../../../core/execution.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { TRIGGER_LIMITS } from './limits.ts'
import { checkSecret, makeSecret, webhookPurpose } from './standard-webhooks.ts'
import type { DeclaredTrigger, WebhookSpec } from './trigger.ts'
import { TOKEN_PARAMETER } from './webhook-schemes.ts'

/** The path of a webhook, of which all but the ids is the same. */
export const webhookPath = (workspaceId: string, triggerId: string): string =>
  `/v1/flows/workspaces/${workspaceId}/triggers/${triggerId}`

/** The URL of a webhook. */
export const urlOf = (scope: WorkspaceScope, triggerId: string): string =>
  addressOf(scope, webhookPath(scope.ref.workspaceId, triggerId))

/** A webhook with its new secret, which is shown only once; without one, if it has kept its secret. */
export interface DeclaredWebhook {
  readonly id: string
  readonly key: string
  readonly url: string
  readonly secret?: string
}

interface CreatedSecrets {
  /** For the transaction that declares the triggers, after them. A webhook with a secret keeps it. */
  readonly statement: Sql
  /** @param rows of the statement */
  readonly toWebhooks: (rows: readonly object[]) => DeclaredWebhook[]
}

/** Creates secrets for the webhooks among the declared triggers that have none. */
export function createSecrets(
  scope: WorkspaceScope,
  target: TargetRef,
  triggers: readonly DeclaredTrigger[],
): CreatedSecrets {
  const webhooks = triggers.filter(({ kind }) => kind === 'webhook')
  const secrets = new Map(webhooks.map(({ key }) => [key, makeSecret()]))
  const made = [...secrets].map(([key, secret]) => ({
    key,
    sealed: encryptSecret(scope, target.id, key, secret).toString('base64'),
  }))
  const ofTarget = sql`t.workspace_id = ${scope.ref.workspaceId} and t.target_kind = ${target.kind} and t.target_id = ${target.id}`
  return {
    statement: sql`with made as (
        insert into webhook_secrets (trigger_id, sealed)
        select t.id, decode(m ->> 'sealed', 'base64')
        from jsonb_array_elements(${JSON.stringify(made)}::jsonb) as m
          join triggers t on ${ofTarget} and t.key = m ->> 'key'
        on conflict do nothing returning trigger_id
      )
      select t.id, t.key, t.spec, exists (select from made where trigger_id = t.id) as is_new
      from triggers t where ${ofTarget} and t.kind = 'webhook' order by t.key`,
    toWebhooks: (rows) =>
      (rows as { id: string; key: string; spec: WebhookSpec; is_new: boolean }[]).map(
        ({ id, key, spec, is_new }) => {
          const secret = is_new ? secrets.get(key) : undefined
          const url = urlOf(scope, id) + secretQuery(spec, secret)
          return { id, key, url, ...(secret !== undefined && { secret }) }
        },
      ),
  }
}

/** The query of a secret URL. */
function secretQuery({ verify }: WebhookSpec, secret: string | undefined): string {
  const isSecretUrl = verify?.scheme === 'url'
  return isSecretUrl && secret !== undefined ? `?${TOKEN_PARAMETER}=${encodeURIComponent(secret)}` : ''
}

function encryptSecret(scope: WorkspaceScope, targetId: string, key: string, secret: string): Buffer {
  return encryptFor(scope, webhookPurpose(targetId, key), Buffer.from(secret))
}

/**
 * Rotates the secret of a webhook. The previous one stays valid for a day; any earlier one ends.
 * @param issued the secret that the sender has issued; without it, a new one is made
 * @throws Problem `not_found`; `validation_failed` if the scheme cannot use the secret
 */
export async function rotateSecret(
  scope: WorkspaceScope,
  id: string,
  issued: string | undefined,
): Promise<{ secret?: string; url?: string; previous_until: string }> {
  const { target_id, key, spec } = await findRow<{ target_id: string; key: string; spec: WebhookSpec }>(
    scope,
    'webhook',
    sql`select target_id, key, spec from triggers
      where workspace_id = ${scope.ref.workspaceId} and id = ${id} and kind = 'webhook'`,
  )
  if (issued !== undefined && spec.verify === undefined) checkSecret(issued)
  const secret = issued ?? makeSecret()
  const made = encryptSecret(scope, target_id, key, secret)
  const grace = sql`${TRIGGER_LIMITS.webhookGraceSeconds} * interval '1 second'`
  const { previous_until } = await findRow<{ previous_until: string }>(
    scope,
    'webhook',
    sql`update webhook_secrets set sealed = ${made}, previous = sealed, previous_until = now() + ${grace},
        rotated_at = now()
      where trigger_id = ${id} returning previous_until`,
  )
  if (issued !== undefined) return { previous_until }
  const query = secretQuery(spec, secret)
  return { secret, ...(query !== '' && { url: urlOf(scope, id) + query }), previous_until }
}
