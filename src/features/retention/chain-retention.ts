/** Removes old entries of hash chains: of the audit logs of tenants, and of the logs of calls of MCP servers. */

import {
  CHAIN_START,
  type ChainEntry,
  type ChainLink,
  findEntryFault,
  membersOf,
} from '../../access/audit/chain-rule.ts'
import type { ChainName, ChainSigner } from '../../access/audit/chain-signer.ts'
import { durationMs } from '../../core/units.ts'
import type { Log } from '../../infra/log.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'
import type { BackgroundTask } from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import { RETENTION_LIMITS } from './limits.ts'
import { pauseSecondsOf } from './retention-settings.ts'

const { kept, keptMin, chainsMax, rowsMax } = RETENTION_LIMITS

/** The chains of one table. */
interface ChainedLog {
  readonly table: 'audit' | 'mcp_calls'
  /** The table of the heads of its chains, its key, and the key as the columns of a {@link ChainName}. */
  readonly heads: Sql
  readonly key: Sql
  readonly name: Sql
  readonly isHeadOf: (chain: ChainName) => Sql
  /** The member of an entry that has its time. */
  readonly time: 'at' | 'time'
  /** The period that the settings of the owner of a chain `c` state, as text; null: the default. */
  readonly period: Sql
  readonly kept: string
}

const LOGS: readonly ChainedLog[] = [
  {
    table: 'audit',
    heads: sql`audit_heads`,
    key: sql`tenant_id`,
    name: sql`h.tenant_id, '' as workspace_id, 'audit' as chain`,
    time: 'at',
    isHeadOf: ({ tenant_id }) => sql`tenant_id = ${tenant_id}`,
    period: sql`(select t.retention ->> 'audit' from tenants t where t.id = c.tenant_id)`,
    kept: kept.audit,
  },
  {
    table: 'mcp_calls',
    heads: sql`mcp_call_heads`,
    key: sql`tenant_id, workspace_id, server_id`,
    name: sql`h.tenant_id, h.workspace_id, h.server_id as chain`,
    time: 'time',
    isHeadOf: ({ tenant_id, workspace_id, chain }) =>
      sql`tenant_id = ${tenant_id} and workspace_id = ${workspace_id} and server_id = ${chain}`,
    period: sql`(select s.retention ->> 'mcp_calls' from services s
      where s.tenant_id = c.tenant_id and s.workspace_id = c.workspace_id)`,
    kept: kept.mcpCalls,
  },
]

/** A task for each table of chains. It finds and removes by statements of the platform, since chains have no workspace in common. */
export const chainRetention = (signer: ChainSigner, log: Log): readonly BackgroundTask<never>[] =>
  LOGS.map((chains) => ({
    name: `retention of ${chains.table}`,
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: 1,
    find: async (system) => {
      await removeExpiredEntries(system, chains, { signer, log })
      return []
    },
    run: async () => {},
  }))

interface DueChain extends ChainName {
  readonly period: string | null
  /** The checkpoint: the last entry that was removed. Null if none was. */
  readonly seq: number | null
  readonly hash: string | null
  readonly signature: string | null
}

interface CutServices {
  readonly signer: ChainSigner
  readonly log: Log
}

/** Looks at some chains, each by itself: one whose entries cannot be read or verified does not delay the others. */
async function removeExpiredEntries(
  system: SystemScope,
  chains: ChainedLog,
  { signer, log }: CutServices,
): Promise<void> {
  for (const due of await system.rows<DueChain>(dueChains(chains))) {
    const { tenant_id, workspace_id, chain } = due
    await cut(system, chains, due, signer).catch((err: unknown) => {
      log.error({ err, tenant_id, workspace_id, chain }, 'expired log entries not removed')
    })
  }
}

/**
 * Removes the next entries of a chain that have expired, at most `rowsMax`. It signs only what it has verified since the last signed
 * checkpoint, or the beginning.
 * @throws Error if the chain does not verify: nothing of it is removed, so that the evidence stays
 */
async function cut(
  system: SystemScope,
  chains: ChainedLog,
  due: DueChain,
  signer: ChainSigner,
): Promise<void> {
  const { tenant_id, workspace_id, chain } = due
  const name = { tenant_id, workspace_id, chain }
  const base = await verifyCheckpoint(due, signer)
  const expired = await readExpired(system, chains, due, base.seq)
  const fault = findEntryFault(base, expired)
  if (fault !== null)
    throw new Error(
      `The chain ${chain} is broken at entry ${fault.seq} (${fault.reason}). Nothing is removed.`,
    )
  const last = expired.at(-1)
  if (last === undefined) return
  const signature = await signer.sign({ ...name, seq: last.seq, hash: last.hash })
  await system.batch(
    sql`select cut_chain(${chains.table}, ${tenant_id}, ${workspace_id}, ${chain}, ${base.seq}::bigint,
      ${last.seq}::bigint, ${last.hash}, ${signature})`,
    // A chain with more to remove waits for the others alone.
    ...(expired.length >= rowsMax ? [lookSoon(chains, name)] : []),
  )
}

/** @returns the last entry that was removed, or the start of the chain @throws Error if this installation has not signed it */
async function verifyCheckpoint(
  { seq, hash, signature, period: _period, ...name }: DueChain,
  signer: ChainSigner,
): Promise<ChainLink> {
  if (seq === null || hash === null || signature === null) return CHAIN_START
  if (await signer.verify(signature, { ...name, seq, hash })) return { seq, hash }
  throw new Error(`The checkpoint ${seq} of the chain ${name.chain} is not signed by this installation.`)
}

/**
 * The next entries that are all older than the period. One that cannot be read is among them, so that its fault is found. Most looks
 * find none, so it reads one at first, and then ten times as many each time.
 */
async function readExpired(
  system: SystemScope,
  { table, time, kept }: ChainedLog,
  { tenant_id, workspace_id, chain, period }: DueChain,
  after: number,
): Promise<ChainEntry[]> {
  // The owner of the database can shorten the setting, but not below what the platform accepts.
  const keptMs = Math.max(durationMs(period ?? kept), durationMs(keptMin.logs))
  const before = new Date(Date.now() - keptMs).toISOString()
  const isExpired = ({ entry }: ChainEntry) => {
    const members = membersOf(entry)
    const at = members?.[time]
    return members === undefined || (typeof at === 'string' && at < before)
  }
  const expired: ChainEntry[] = []
  for (let most = 1; expired.length < rowsMax; most = Math.min(most * 10, rowsMax - expired.length)) {
    const entries = await system.rows<ChainEntry>(sql`
      select * from chain_entries(${table}, ${tenant_id}, ${workspace_id}, ${chain},
        ${expired.at(-1)?.seq ?? after}::bigint, ${most}::integer)`)
    const young = entries.findIndex((entry) => !isExpired(entry))
    expired.push(...entries.slice(0, young === -1 ? most : young))
    if (young !== -1 || entries.length < most) break
  }
  return expired
}

/** The chains that wait longest, each once in `pauseSeconds.max`. */
const dueChains = ({ heads, key, name, period }: ChainedLog) => sql`
  with due as (
    select ${key} from ${heads} where retention_due_at < now()
    order by retention_due_at limit ${chainsMax} for no key update skip locked
  ), served as (
    update ${heads} h set retention_due_at = now() + make_interval(secs => ${pauseSecondsOf([keptMin.logs])}::integer)
    where (${key}) in (select * from due)
    returning ${name}
  )
  select c.*, ${period} as period, k.seq, encode(k.hash, 'hex') as hash, k.signature
  from served c left join chain_checkpoints k using (tenant_id, workspace_id, chain)`

const lookSoon = ({ heads, isHeadOf }: ChainedLog, chain: ChainName): Sql =>
  sql`update ${heads} set retention_due_at = now() where ${isHeadOf(chain)}`
