/** Appends audit entries in batches, and throttles entries that anonymous clients can cause. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Log } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { networkOf } from '../rate-limit/memory-buckets.ts'
import { type AuditEvent, type AuditOwner, type AuditRow, auditRowOf, PLATFORM_CHAIN } from './entry.ts'

/** A chain is told how many of its entries were lost, once it takes entries again. */
const LOST = 'audit.lost'

export class Audit {
  readonly #system: SystemScope
  readonly #log: Log
  readonly #floods = new AuditThrottle()
  /** In the order in which things happened. */
  #pending: AuditRow[] = []
  readonly #lost = new Map<string, number>()
  #flushTimer: NodeJS.Timeout | undefined
  #minute: NodeJS.Timeout | undefined
  /** How many were ever put into `#pending`, and how many of those are in the log. */
  #kept = 0
  #stored = 0
  #appending: Promise<boolean> | undefined

  constructor(database: Database, log: Log) {
    this.#system = new SystemScope('audit', database)
    this.#log = log
  }

  /** @throws Problem `dependency_unavailable` where so many entries wait that what is to be recorded must not happen */
  refuseUnlessReady(): void {
    if (this.#pending.length < LIMITS.auditPendingMax / 2) return
    const detail = 'The audit log takes no entries at present, so nothing is changed that has to be in it.'
    throw new Problem('dependency_unavailable', { detail })
  }

  /** Puts down what happened; it is in the log a moment later. Costs no I/O. */
  enqueue(deed: AuditEvent): void {
    this.#keep(deed)
    this.#flushTimer ??= setTimeout(() => void this.flush(), LIMITS.auditFlushMs).unref()
  }

  /** The same, at once: resolves when it is in the log, or when the database does not take it, which is logged. */
  append(deed: AuditEvent): Promise<void> {
    this.#keep(deed)
    return this.flush()
  }

  /** A refusal, a failure, or what an anonymous client can cause: the first of a minute are entries, the rest are counted. */
  enqueueThrottled(deed: AuditEvent): void {
    this.#ofThisMinute()
    if (this.#floods.admit(deed)) this.enqueue(deed)
  }

  /** One of many that are expected: only how many there were is put down. */
  countOnly(deed: AuditEvent): void {
    this.#ofThisMinute()
    this.#floods.admit(deed, 0)
  }

  #ofThisMinute(): void {
    this.#minute ??= setTimeout(() => this.settle(), LIMITS.auditMinuteMs).unref()
  }

  /** Puts down how many were only counted. */
  settle(): void {
    clearTimeout(this.#minute)
    this.#minute = undefined
    for (const deed of this.#floods.settle()) this.enqueue(deed)
  }

  #keep(deed: AuditEvent): void {
    const line = auditRowOf(deed, Date.now())
    if (this.#pending.length < LIMITS.auditPendingMax) {
      this.#pending.push(line)
      this.#kept += 1
    } else this.#lose(line)
  }

  #lose({ chain }: AuditRow): void {
    if (this.#lost.size === 0) this.#log.error('audit entries are lost')
    // A tenant that is one too many loses its name here, not its place in the count.
    const named = this.#lost.has(chain) || this.#lost.size < LIMITS.auditFloodsMax ? chain : PLATFORM_CHAIN
    this.#lost.set(named, (this.#lost.get(named) ?? 0) + 1)
  }

  /**
   * Resolves when all that was put down until now is in the log, or when the database does not take it: then it is tried
   * again later. One append at a time, so that entries keep their order; who comes meanwhile goes with the next one.
   */
  async flush(): Promise<void> {
    clearTimeout(this.#flushTimer)
    this.#flushTimer = undefined
    const upTo = this.#kept
    while (this.#stored < upTo) {
      this.#appending ??= this.#appendNext().finally(() => {
        this.#appending = undefined
      })
      if (!(await this.#appending)) return
    }
  }

  /** @returns whether the database took them */
  async #appendNext(): Promise<boolean> {
    // The rest of the turn may bring more.
    await new Promise((soon) => setImmediate(soon))
    const lines = this.#pending.slice(0, LIMITS.auditLinesAtOnce)
    try {
      await this.#append(lines)
    } catch (error) {
      this.#log.error({ err: error, pending: this.#pending.length }, 'audit entries are kept for later')
      this.#flushTimer ??= setTimeout(() => void this.flush(), LIMITS.auditRetryMs).unref()
      return false
    }
    this.#pending = this.#pending.slice(lines.length)
    this.#stored += lines.length
    this.#confessLost()
    return true
  }

  /** What only one line is to blame for costs that line, and not all that come after it. */
  async #append(lines: readonly AuditRow[]): Promise<void> {
    const chains = textArray(lines.map(({ chain }) => chain))
    const workspaces = textArray(lines.map(({ workspace }) => workspace))
    const texts = textArray(lines.map(({ text }) => text))
    try {
      await this.#system.rows(
        sql`select append_audit(${chains}::text[], ${workspaces}::text[], ${texts}::text[])`,
      )
    } catch (error) {
      if (error instanceof Problem && error.code !== 'value_invalid') throw error
      const [first] = lines
      if (lines.length > 1) for (const line of lines) await this.#append([line])
      else if (first !== undefined) {
        this.#log.error({ err: error }, 'an audit entry was not taken')
        this.#lose(first)
      }
    }
  }

  #confessLost(): void {
    const lost = [...this.#lost]
    this.#lost.clear()
    const actor = { subject: null, role: null, kind: 'platform' } as const
    const rest = { status: null, code: null, before: null, after: null, requestId: null, target: '' }
    for (const [chain, count] of lost) {
      const place = chain === PLATFORM_CHAIN ? {} : { tenantId: chain }
      this.enqueue({ ...rest, owner: place, actor, operation: LOST, outcome: 'failed', count })
    }
  }

  /** The tenant that an operator's deed belongs to, of the ids that it names; no place where there is none. */
  async ownerOf({ tenantId, workspaceId }: AuditOwner): Promise<AuditOwner> {
    if (tenantId === undefined && workspaceId === undefined) return {}
    const found = await this.#system
      .row<{ tenant_id: string; workspace_id: string | null }>(sql`
        select id as tenant_id, null as workspace_id from tenants
        where id = ${tenantId ?? null} and ${workspaceId ?? null}::text is null
        union all select tenant_id, id from workspaces
        where id = ${workspaceId ?? null} and tenant_id = coalesce(${tenantId ?? null}, tenant_id)`)
      .catch((error: unknown) => {
        this.#log.error({ err: error }, "an operator's audit entry is in no tenant's chain")
        return undefined
      })
    if (found === undefined) return {}
    return { tenantId: found.tenant_id, workspaceId: found.workspace_id ?? undefined }
  }

  /** Appends what is left. */
  async close(): Promise<void> {
    this.settle()
    await this.flush()
    clearTimeout(this.#flushTimer)
    if (this.#pending.length > 0) this.#log.error({ pending: this.#pending.length }, 'audit entries are lost')
  }
}

interface Flood {
  seen: number
  /** How many were only counted. */
  counted: number
  /** The last of them: the one entry says of it what they have in common. */
  last: AuditEvent | undefined
}

export class AuditThrottle {
  readonly #floods = new Map<string, Flood>()

  /** Whether this one is an entry of its own. Where not, it is counted. */
  admit(deed: AuditEvent, entriesMax: number = LIMITS.auditAlikePerMinute): boolean {
    const flood = this.#floodOf(deed)
    flood.seen += 1
    if (flood.seen <= entriesMax) return true
    flood.counted += 1
    flood.last = deed
    return false
  }

  /** Of a chain and a network (one IPv6 client has a whole /64); beyond a number of networks, of the chain alone. */
  #floodOf({ owner: place, address = '', outcome }: AuditEvent): Flood {
    const chain = `${place.tenantId ?? ''} ${outcome}`
    const name = `${chain} ${address === '' ? '' : networkOf(address)}`
    const known = this.#floods.get(name)
    if (known !== undefined) return known
    const key = this.#floods.size < LIMITS.auditFloodsMax ? name : chain
    const flood = this.#floods.get(key) ?? { seen: 0, counted: 0, last: undefined }
    this.#floods.set(key, flood)
    return flood
  }

  /** The minute is over: one deed for each that were only counted. */
  settle(): AuditEvent[] {
    const floods = [...this.#floods.values()]
    this.#floods.clear()
    return floods.flatMap(({ counted, last }) => (last === undefined ? [] : [summary(last, counted)]))
  }
}

/** They may have been of different operations and by different callers: what is left is where from, and how many. */
function summary({ owner: place, address, outcome }: AuditEvent, count: number): AuditEvent {
  return {
    owner: { tenantId: place.tenantId },
    requestId: null,
    actor: { subject: null, role: null, kind: 'platform' },
    ...(address !== undefined && { address }),
    operation: 'audit.summary',
    target: '',
    outcome,
    status: null,
    code: null,
    before: null,
    after: null,
    count,
  }
}
