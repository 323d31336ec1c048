/** Callbacks of calls: opens one-time URLs, verifies requests to them before the tenant is known, and delivers their bodies. */

import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf, workflowsOf } from '../../../access/scope-services.ts'
import type { StepCallback } from '../../../core/execution.ts'
import { typeId } from '../../../core/ids.ts'
import { checkJson } from '../../../core/json.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { MASK } from '../../../core/secret-handle.ts'
import { isWorkspaceId, type TenantId, type WorkspaceRef } from '../../../core/tenant.ts'
import type { Json } from '../../../core/work.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { TRIGGER_LIMITS } from '../../runs/triggers/limits.ts'

const TOKEN_BYTES = 32
/** By it a token is found in texts, whatever encodes the URL around it: all its characters are unreserved (RFC 3986 §2.3). */
const TOKEN_PREFIX = 'tcb_'
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const digest = (token: string): Buffer => hash('sha256', token, 'buffer')

/**
 * Opens a callback for a step of the calling execution; earlier ones of the same step expire. Each attempt makes another
 * token, so that only its hash is stored.
 * @param asked `{step, timeout_ms}`
 * @returns `{id, url}`. The token is in the query, which is never logged
 */
export async function openCallback(
  scope: WorkspaceScope,
  workflowId: string,
  asked: { readonly [name: string]: Json },
): Promise<Json> {
  const id = scope.uuid()
  const token = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url')
  const step = String(asked['step'])
  const execution = typeId('run', workflowId.split(':').at(-1) ?? '')
  const seconds = Number(asked['timeout_ms']) / 1_000
  await scope.batch(
    sql`update callbacks set expires_at = least(expires_at, now())
      where execution_id = ${execution} and step = ${step} and id <> ${id}::uuid`,
    sql`insert into callbacks (id, execution_id, workflow_id, step, token_sha256, expires_at)
      values (${id}::uuid, ${execution}, ${workflowId}, ${step}, ${digest(token)},
        now() + make_interval(secs => ${seconds}::double precision))
      on conflict (tenant_id, workspace_id, id) do update set token_sha256 = excluded.token_sha256`,
  )
  const path = `/v1/flows/workspaces/${scope.ref.workspaceId}/callbacks/${id}`
  return { id, url: addressOf(scope, `${path}?token=${token}`) }
}

const TOKENS = new RegExp(`${TOKEN_PREFIX}[\\w-]{43}`, 'g')

/** Masks the tokens of callback URLs: a call's arguments have one, and its answer may repeat it. */
export const maskCallbackTokens = (text: string): string => text.replaceAll(TOKENS, MASK)

/** Finds the workspace of a callback whose token is right. */
export class CallbackVerifier {
  readonly #system: SystemScope

  constructor(database: Database) {
    this.#system = new SystemScope('triggers', database)
  }

  /** @returns undefined if there is no such callback, or it has another token */
  async verify(ws: string, id: string, token: unknown): Promise<WorkspaceRef | undefined> {
    if (!isWorkspaceId(ws) || !UUID.test(id)) return undefined
    const row = await this.#system.row<{ tenant_id: TenantId; token_sha256: Buffer }>(sql`
      select tenant_id, token_sha256 from callbacks where workspace_id = ${ws} and id = ${id}::uuid`)
    if (row === undefined || !timingSafeEqual(row.token_sha256, digest(String(token)))) return undefined
    return { tenantId: row.tenant_id, workspaceId: ws }
  }
}

interface CallbackRow {
  readonly workflow_id: string
  readonly step: string
  readonly body_sha256: string
  readonly delivered: boolean
  readonly is_open: boolean
}

/**
 * Delivers the body of a verified request to its execution, once. The body is claimed first; if the execution cannot be
 * reached then, the same body may be posted again.
 * @throws Problem `state_conflict` if the callback was used, `callback_expired`, `dependency_unavailable`
 */
export async function receiveCallback(scope: WorkspaceScope, id: string, output: Json): Promise<void> {
  checkJson('body', output, TRIGGER_LIMITS.webhookBodyBytesMax)
  const body = hash('sha256', JSON.stringify(output), 'hex')
  const open = sql`c.expires_at > now() and e.ended_at is null`
  const executions = sql`executions e where e.id = c.execution_id and e.tenant_id = c.tenant_id and e.workspace_id = c.workspace_id`
  const [, [row] = []] = (await scope.batch(
    sql`update callbacks c set body_sha256 = ${body} from ${executions}
      and c.id = ${id}::uuid and c.body_sha256 is null and ${open}`,
    sql`select c.workflow_id, c.step, c.body_sha256, c.delivered, ${open} as is_open
      from callbacks c, ${executions} and c.id = ${id}::uuid`,
  )) as unknown as [unknown, CallbackRow[]?]
  if (row === undefined) throw notFound('callback')
  if (row.delivered || (row.body_sha256 !== null && row.body_sha256 !== body))
    throw new Problem('state_conflict', { detail: 'The callback was used.' })
  if (!row.is_open) throw new Problem('callback_expired')
  const value = { step: row.step, callback: { id, output } } satisfies StepCallback
  await workflowsOf(scope).signal(row.workflow_id, { name: 'callback', value })
  await scope.rows(sql`update callbacks set delivered = true where id = ${id}::uuid`)
}
