/** Whose webhook an address is, and whether its secret has signed what came there: asked before any tenant is known. */

import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../core/tenant.ts'
import type { Database } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import { purposeIn, type Secrets } from '../secrets.ts'
import { SystemScope } from '../system.ts'
import { type Delivery, makeSecret, type Signed, verify } from './signature.ts'

/** A delivery that somebody with the secret has signed. Made here and by nobody else. */
export interface Received {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  readonly signed: Signed
}

interface SecretRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly flow_id: string
  readonly key: string
  readonly sealed: Buffer
  readonly previous: Buffer | null
  readonly previous_until: string | null
}

export class Webhooks {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #now: () => number
  /** Of nobody: so that an address that is none takes as long. */
  readonly #none = makeSecret()

  /** @param now milliseconds since the epoch; tests have a clock of their own */
  constructor(database: Database, secrets: Secrets, now: () => number = Date.now) {
    this.#system = new SystemScope('triggers', database)
    this.#secrets = secrets
    this.#now = now
  }

  /** @returns undefined where there is no such webhook in that workspace, or it has not signed this, or not now */
  async receive(ws: string, id: string, delivery: Delivery): Promise<Received | undefined> {
    const row = isWorkspaceId(ws) ? await this.#find(ws, id) : undefined
    const nowMs = this.#now()
    const signed = verify(delivery, row === undefined ? [this.#none] : this.#open(row, nowMs), nowMs)
    if (row === undefined || signed === undefined) return undefined
    return { ref: refOf(row), triggerId: row.id, signed }
  }

  #find(ws: WorkspaceId, id: string): Promise<SecretRow | undefined> {
    return this.#system.row<SecretRow>(sql`
      select t.tenant_id, t.workspace_id, t.id, t.flow_id, t.key, s.sealed, s.previous, s.previous_until
      from flow_triggers t join webhook_secrets s
        on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
      where t.workspace_id = ${ws} and t.id = ${id} and t.kind = 'webhook'`)
  }

  /** The secrets that count at this moment. */
  #open(row: SecretRow, nowMs: number): string[] {
    const { sealed, previous, previous_until: until } = row
    const both = previous !== null && until !== null && nowMs <= Date.parse(until)
    const purpose = purposeIn(refOf(row), webhookPurpose(row.flow_id, row.key))
    return [sealed, ...(both ? [previous] : [])].map((one) => this.#secrets.open(purpose, one).toString())
  }
}

const refOf = ({ tenant_id, workspace_id }: SecretRow): WorkspaceRef => ({
  tenantId: tenant_id,
  workspaceId: workspace_id,
})

/** What the secret of a webhook is sealed for. @param key of the trigger within its flow */
export const webhookPurpose = (flowId: string, key: string): string => `webhook:${flowId}:${key}`
