/**
 * Group commit: merges concurrent small transactions of the same role and workspace, and their statements of one kind into
 * one. With 64 at once, an insert takes 2.6 times the CPU time without it, a read 1.9, an update 2.4 (decision 29); of that,
 * merging statements saves 1.2 to 1.45 times for inserts.
 */

import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { failedStatement } from './errors.ts'
import { type Sql, sql } from './sql.ts'
import type { BatchGroup, Row, SessionContext } from './statement-batch.ts'

/** Bounds of a merged transaction. */
export interface MergedBounds {
  /** How long a statement waits for a lock; as long as it may run by default. */
  readonly lockTimeoutMs: number
  /** Bytes of all its rows; `INFRA_LIMITS.rowsBytesMax` by default. */
  readonly rowsBytesMax: number
}

type Run = (context: SessionContext, statements: readonly Sql[], bounds?: MergedBounds) => Promise<Row[][]>

interface Member {
  readonly trace: string | undefined
  readonly statements: readonly Sql[]
  readonly resolve: (rows: Row[][]) => void
  readonly reject: (error: unknown) => void
}

/** The batches of one context and kind of access. */
interface Group {
  readonly context: SessionContext
  readonly kind: BatchGroup
  inFlight: number
  waiting: Member[]
  /** Sends waiting members, even if the batch before them still runs. */
  timer: NodeJS.Timeout | undefined
}

const { transactionsMax: batchSizeMax, waitMs, lockTimeoutMs, cooldownMs } = INFRA_LIMITS.transactionBatch

export class TransactionBatcher {
  readonly #run: Run
  readonly #groups = new Map<string, Group>()
  /** Groups whose members run separately for a while, after one of them failed: more failures like it may follow. */
  readonly #cooling = new LRUCache<string, true>({
    max: INFRA_LIMITS.transactionBatch.failuresCachedMax,
    ttl: cooldownMs,
  })

  constructor(run: Run) {
    this.#run = run
  }

  /**
   * Runs the statements as one transaction, possibly merged with others. If a merged transaction fails, its members are
   * repeated separately, so that only the faulty one fails. Waits for at most `INFRA_LIMITS.transactionBatch.waitMs`.
   * @throws as running them alone does
   */
  join(of: SessionContext, statements: readonly Sql[], kind: BatchGroup): Promise<Row[][]> {
    const { trace, ...context } = of
    const key = keyOf(context, kind)
    const group = this.#groups.get(key) ?? { context, kind, inFlight: 0, waiting: [], timer: undefined }
    this.#groups.set(key, group)
    const isIdle = group.inFlight === 0 && group.waiting.length === 0
    if (this.#cooling.has(key) || (isIdle && kind === 'writing')) {
      group.inFlight += 1
      return this.#run(of, statements).finally(() => this.#ended(key, group))
    }
    // A first read goes with all that this turn of the event loop brings. A write may wait for a lock, so it begins alone.
    if (isIdle) setImmediate(() => group.waiting.length > 0 && this.#send(key, group))
    return this.#wait(key, group, { statements, trace })
  }

  #wait(key: string, group: Group, of: Pick<Member, 'statements' | 'trace'>): Promise<Row[][]> {
    return new Promise((resolve, reject) => {
      group.waiting.push({ ...of, resolve, reject })
      group.timer ??= setTimeout(() => this.#send(key, group), waitMs)
      if (group.waiting.length >= batchSizeMax) this.#send(key, group)
    })
  }

  #ended(key: string, group: Group): void {
    group.inFlight -= 1
    if (group.waiting.length > 0) this.#send(key, group)
    else if (group.inFlight === 0) this.#groups.delete(key)
  }

  /** Never rejects: its members do. */
  #send(key: string, group: Group): void {
    clearTimeout(group.timer)
    group.timer = undefined
    const members = group.waiting
    group.waiting = []
    group.inFlight += 1
    void this.#runMerged(key, group, members).finally(() => this.#ended(key, group))
  }

  async #runMerged(key: string, { context, kind }: Group, members: readonly Member[]): Promise<void> {
    const [only, ...others] = members
    if (only !== undefined && others.length === 0)
      return this.#run(tracedBy(context, only.trace), only.statements).then(only.resolve, only.reject)
    const bounds = boundsOf(kind, members.length)
    try {
      const merged = coalesce(
        members.flatMap(({ statements }) => statements),
        members.flatMap(({ statements, trace }) => statements.map(() => trace)),
      )
      const rows = merged.split(await this.#run(context, merged.statements, bounds))
      for (const { statements, resolve } of members) resolve(rows.splice(0, statements.length))
    } catch (error) {
      if (!isRepeatable(kind, error)) {
        for (const { reject } of members) reject(error)
        return
      }
      this.#cooling.set(key, true)
      await Promise.all(
        members.map(({ statements, trace, resolve, reject }) =>
          this.#run(tracedBy(context, trace), statements).then(resolve, reject),
        ),
      )
    }
  }
}

/** Rows are counted after the commit, so together writes may return as much as they may one by one. */
const boundsOf = (kind: BatchGroup, members: number): MergedBounds => ({
  lockTimeoutMs,
  rowsBytesMax: INFRA_LIMITS.rowsBytesMax * (kind === 'reading' ? 1 : members),
})

/** True if one statement is at fault, not the server or the connection, and no other has had an effect. */
function isRepeatable(kind: BatchGroup, error: unknown): boolean {
  if (!(error instanceof Problem)) return failedStatement(error) !== undefined
  if (error.code === 'dependency_unavailable') return false
  if (error.code === 'output_too_large') return kind === 'reading'
  return failedStatement(error) !== undefined
}

const keyOf = (
  { role, tenant, workspace, statementTimeoutMs, chainDepth, user, causedBy }: SessionContext,
  kind: BatchGroup,
) =>
  `${kind} ${role} ${tenant} ${workspace} ${statementTimeoutMs} ${chainDepth ?? ''} ${user ?? ''} ${causedBy ?? ''}`

interface Coalesced {
  readonly statements: readonly Sql[]
  /** @returns the rows of each original statement */
  readonly split: (rows: readonly Row[][]) => Row[][]
}

const tracedBy = (context: SessionContext, trace: string | undefined): SessionContext =>
  trace === undefined ? context : { ...context, trace }

/**
 * Merges single-row statements of one kind. Two statements about one row are never merged: the second must see the effect
 * of the first. Each of the others runs in its own trace; a statement that can be merged has its trace among its values.
 * @param traces of the statements, in their order
 */
export function coalesce(all: readonly Sql[], traces: readonly (string | undefined)[] = []): Coalesced {
  const bundles: { readonly trace: string; readonly parts: Sql[] }[] = []
  const origins = all.map((statement, index) => {
    const found = bundles.findIndex(({ parts }) => belongs(statement, parts))
    if (found >= 0) bundles[found]?.parts.push(statement)
    const at = found >= 0 ? found : bundles.push({ trace: traces[index] ?? '', parts: [statement] }) - 1
    return { at, key: statement.coalescable?.key }
  })
  const statements: Sql[] = []
  let current = ''
  const places = bundles.map(({ trace, parts }) => {
    if (trace !== current) statements.push(sql`select set_config('tenon.trace', ${trace}, true) is null`)
    current = trace
    return statements.push(merged(parts)) - 1
  })
  return {
    statements,
    split: (rows) =>
      origins.map(({ at, key }) => {
        const found = rows[places[at] ?? -1] ?? []
        return bundles[at]?.parts.length === 1 ? found : found.filter((row) => row['item_id'] === key)
      }),
  }
}

const belongs = ({ coalescable }: Sql, bundle: readonly Sql[]): boolean =>
  coalescable !== undefined &&
  bundle[0]?.coalescable?.kind === coalescable.kind &&
  !bundle.some((other) => other.coalescable?.key === coalescable.key)

function merged(bundle: readonly Sql[]): Sql {
  const [first] = bundle
  if (first === undefined) throw new TypeError('a bundle must have a statement')
  if (bundle.length === 1 || first.coalescable === undefined) return first
  const items = bundle.flatMap(({ coalescable }) => (coalescable === undefined ? [] : [coalescable.item]))
  return first.coalescable.kind.merge(items)
}
