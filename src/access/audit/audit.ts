/** Appends audit entries in batches; throttle.ts decides which refusals and failures get one. */

import { AppendQueue } from '../../infra/append-queue.ts'
import type { Log } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { unavailable } from '../../infra/unavailable.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { type AuditEvent, type AuditOwner, type AuditRow, auditRowOf, PLATFORM_CHAIN } from './entry.ts'
import { AuditThrottle, platformEvent } from './throttle.ts'

export class Audit {
  readonly #system: SystemScope
  readonly #log: Log
  readonly #throttle = new AuditThrottle()
  /** In the order of the events. */
  readonly #queue: AppendQueue<AuditRow>
  /** Lost entries by chain, until an entry of the chain says how many. */
  readonly #lost = new Map<string, number>()
  #lostUntilNow = 0
  #summaryTimer: NodeJS.Timeout | undefined

  constructor(database: Database, log: Log) {
    this.#system = new SystemScope('audit', database)
    this.#log = log
    this.#queue = new AppendQueue({
      append: (rows) => this.#insert(rows),
      onFailure: (err, pending) => log.error({ err, pending }, 'audit write deferred'),
      onRejected: (row, err) => {
        log.error({ err }, 'audit entry rejected')
        this.#countLost(row)
      },
      onStored: () => this.#enqueueLosses(),
      rowsMax: ACCESS_LIMITS.auditEntriesPendingMax,
    })
  }

  /** Entries that wait to be stored. */
  get pending(): number {
    return this.#queue.size
  }

  /** Entries that could not be kept, until now. */
  get lost(): number {
    return this.#lostUntilNow
  }

  /** @throws Problem `dependency_unavailable` if too many entries wait to accept another change that must be recorded */
  refuseUnlessReady(): void {
    if (this.#queue.size < ACCESS_LIMITS.auditEntriesPendingMax / 2) return
    const detail =
      'The audit log accepts no entries at the moment, so requests that need an entry make no change.'
    throw unavailable('postgres', undefined, detail)
  }

  /** Queues an entry, which is in the log a moment later. No I/O. */
  enqueue(event: AuditEvent): void {
    const row = auditRowOf(event, Date.now())
    if (!this.#queue.push(row)) this.#countLost(row)
  }

  /** Appends an entry at once: resolves when it is in the log, or when the database rejects it, which is logged. */
  append(event: AuditEvent): Promise<void> {
    this.enqueue(event)
    return this.flush()
  }

  /**
   * For refusals, failures and what anonymous clients can cause: queues the first `ACCESS_LIMITS.auditAlikePerMinuteMax` (20) events of a chain,
   * outcome and network per minute, and counts the rest.
   */
  enqueueThrottled(event: AuditEvent): void {
    this.#scheduleSummaries()
    if (this.#throttle.admit(event)) this.enqueue(event)
  }

  /** For events that are expected in large numbers: only their number is recorded. */
  countOnly(event: AuditEvent): void {
    this.#scheduleSummaries()
    this.#throttle.admit(event, 0)
  }

  #scheduleSummaries(): void {
    this.#summaryTimer ??= setTimeout(() => this.#enqueueSummaries(), ACCESS_LIMITS.auditSummaryMs).unref()
  }

  #enqueueSummaries(): void {
    clearTimeout(this.#summaryTimer)
    this.#summaryTimer = undefined
    for (const event of this.#throttle.takeSummaries()) this.enqueue(event)
  }

  #countLost({ chain }: AuditRow): void {
    this.#lostUntilNow += 1
    if (this.#lost.size === 0) this.#log.error('audit entries lost')
    // Beyond the maximum of chains, losses are counted in the chain of the platform.
    const counted =
      this.#lost.has(chain) || this.#lost.size < ACCESS_LIMITS.auditAddressesMax ? chain : PLATFORM_CHAIN
    this.#lost.set(counted, (this.#lost.get(counted) ?? 0) + 1)
  }

  /** Resolves when all entries queued until now are in the log, or when the database rejects them: then a timer retries. */
  flush(): Promise<void> {
    return this.#queue.flush().catch(() => {})
  }

  async #insert(rows: readonly AuditRow[]): Promise<void> {
    const [chains, workspaces, texts] = (['chain', 'workspace', 'text'] as const).map((column) =>
      textArray(rows.map((row) => row[column])),
    )
    await this.#system.rows(
      sql`select append_audit(${chains}::text[], ${workspaces}::text[], ${texts}::text[])`,
    )
  }

  #enqueueLosses(): void {
    const lost = [...this.#lost]
    this.#lost.clear()
    for (const [chain, count] of lost) {
      const owner = chain === PLATFORM_CHAIN ? {} : { tenantId: chain }
      this.enqueue(platformEvent({ owner, operation: 'audit.lost', outcome: 'failed', count }))
    }
  }

  /** The tenant that owns what an operator did, found by the ids that the request names; empty if there is none. */
  async findOwner({ tenantId, workspaceId }: AuditOwner): Promise<AuditOwner> {
    if (tenantId === undefined && workspaceId === undefined) return {}
    const found = await this.#system
      .row<{ tenant_id: string; workspace_id: string | null }>(sql`
        select id as tenant_id, null as workspace_id from tenants
        where id = ${tenantId ?? null} and ${workspaceId ?? null}::text is null and state <> 'deleted'
        union all select tenant_id, id from workspaces
        where id = ${workspaceId ?? null} and tenant_id = coalesce(${tenantId ?? null}, tenant_id)
          and exists (select from tenants t where t.id = tenant_id and t.state <> 'deleted')`)
      .catch((error: unknown) => {
        this.#log.error({ err: error }, 'audit entry without chain')
        return undefined
      })
    if (found === undefined) return {}
    return { tenantId: found.tenant_id, workspaceId: found.workspace_id ?? undefined }
  }

  /** Appends the rest. */
  async close(): Promise<void> {
    this.#enqueueSummaries()
    const pending = await this.#queue.close()
    if (pending > 0) this.#log.error({ pending }, 'audit entries lost')
  }
}
