/** Finds the webhook of a URL and verifies the delivery by its scheme, before the tenant is known. */

import type { TargetRef } from '../../../core/execution.ts'
import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { type Delivery, makeSecret, type VerifiedHeaders, webhookPurpose } from './standard-webhooks.ts'
import type { WebhookSpec } from './trigger.ts'
import { verifyDelivery } from './webhook-schemes.ts'

/** A delivery with a verified signature. */
export interface VerifiedDelivery {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  readonly target: TargetRef
  readonly paused: boolean
  readonly signed: VerifiedHeaders
  readonly spec: WebhookSpec
}

interface SecretRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly target_kind: string
  readonly target_id: string
  readonly key: string
  readonly spec: WebhookSpec
  readonly paused: boolean
  readonly sealed: Buffer
  readonly previous: Buffer | null
  readonly previous_until: string | null
}

export class WebhookVerifier {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #now: () => number
  /** A dummy secret, so that rejecting an unknown URL takes as long. */
  readonly #none = makeSecret()

  /** @param now milliseconds since the epoch; tests replace the clock */
  constructor(database: Database, secrets: Secrets, now: () => number = Date.now) {
    this.#system = new SystemScope('triggers', database)
    this.#secrets = secrets
    this.#now = now
  }

  /** @returns undefined if the workspace has no such webhook, or the signature is not valid now */
  async receive(ws: string, id: string, delivery: Delivery): Promise<VerifiedDelivery | undefined> {
    const row = isWorkspaceId(ws) ? await this.#find(ws, id) : undefined
    const nowMs = this.#now()
    const secrets = row === undefined ? [this.#none] : this.#open(row, nowMs)
    const signed = verifyDelivery(row?.spec.verify, delivery, secrets, nowMs)
    if (row === undefined || signed === undefined) return undefined
    const { id: triggerId, target_kind, target_id, paused, spec } = row
    return { ref: refOf(row), triggerId, target: { kind: target_kind, id: target_id }, paused, signed, spec }
  }

  /** @returns the query parameter that the webhook echoes; undefined if there is no such webhook, or it echoes none */
  async findChallenge(ws: string, id: string): Promise<string | undefined> {
    const row = isWorkspaceId(ws) ? await this.#find(ws, id) : undefined
    return row?.spec.challenge
  }

  #find(ws: WorkspaceId, id: string): Promise<SecretRow | undefined> {
    return this.#system.row<SecretRow>(sql`
      select t.tenant_id, t.workspace_id, t.id, t.target_kind, t.target_id, t.key, t.spec, t.paused,
        s.sealed, s.previous, s.previous_until
      from triggers t join webhook_secrets s
        on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
      where t.workspace_id = ${ws} and t.id = ${id} and t.kind = 'webhook'`)
  }

  /** The secrets that are valid now. */
  #open(row: SecretRow, nowMs: number): string[] {
    const { sealed, previous, previous_until: until } = row
    const both = previous !== null && until !== null && nowMs <= Date.parse(until)
    const purpose = purposeIn(refOf(row), webhookPurpose(row.target_id, row.key))
    return [sealed, ...(both ? [previous] : [])].map((one) => this.#secrets.open(purpose, one).toString())
  }
}

const refOf = ({ tenant_id, workspace_id }: SecretRow): WorkspaceRef => ({
  tenantId: tenant_id,
  workspaceId: workspace_id,
})
