/** Removes old entries of hash chains: of the audit logs of tenants, and of the logs of calls of MCP servers. */

import type { ChainName, ChainSigner, Checkpoint } from '../../access/audit/chain-signer.ts'
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
    isHeadOf: ({ tenant_id }) => sql`tenant_id = ${tenant_id}`,
    period: sql`(select t.retention ->> 'audit' from tenants t where t.id = c.tenant_id)`,
    kept: kept.audit,
  },
  {
    table: 'mcp_calls',
    heads: sql`mcp_call_heads`,
    key: sql`tenant_id, workspace_id, server_id`,
    name: sql`h.tenant_id, h.workspace_id, h.server_id as chain`,
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
}

/** The next entries of a chain, all of them expired. */
interface ExpiredEntries extends ChainName {
  /** The last entry that was removed before; `base` is 0 if there is none. */
  readonly base: number
  readonly base_hash: string | null
  readonly signature: string | null
  /** The last of these entries. */
  readonly seq: number
  readonly hash: string
}

interface CutServices {
  readonly signer: ChainSigner
  readonly log: Log
}

/** Looks at some chains; of each it removes at most `rowsMax` entries. */
async function removeExpiredEntries(
  system: SystemScope,
  chains: ChainedLog,
  services: CutServices,
): Promise<void> {
  const due = await system.rows<DueChain>(dueChains(chains))
  if (due.length === 0) return
  const found = await system.rows<ExpiredEntries>(expiredEntries(chains, due))
  for (const entries of found)
    await cut(system, chains, entries, services.signer).catch((err: unknown) => {
      const { tenant_id, workspace_id, chain } = entries
      services.log.error({ err, tenant_id, workspace_id, chain }, 'expired log entries not removed')
    })
}

/**
 * Signs the checkpoint and removes the entries up to it.
 * @throws Error if the chain does not verify: nothing of it is removed, so that the evidence stays
 */
async function cut(
  system: SystemScope,
  chains: ChainedLog,
  entries: ExpiredEntries,
  signer: ChainSigner,
): Promise<void> {
  const { tenant_id, workspace_id, chain, base, base_hash, signature, seq, hash } = entries
  const name = { tenant_id, workspace_id, chain }
  if (signature !== null) {
    const before: Checkpoint = { ...name, seq: base, hash: base_hash ?? '' }
    if (!(await signer.verify(signature, before)))
      throw new Error(
        `the checkpoint ${base} of the chain ${chain} of ${tenant_id} is not signed by this installation`,
      )
  }
  const signed = await signer.sign({ ...name, seq, hash })
  await system.batch(
    sql`select cut_chain(${chains.table}, ${tenant_id}, ${workspace_id}, ${chain}, ${seq}::bigint, ${hash}, ${signed})`,
    // A chain with more to remove waits for the others alone.
    ...(seq - base >= rowsMax ? [lookSoon(chains, name)] : []),
  )
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
  select c.*, ${period} as period from served c`

function expiredEntries({ table, kept }: ChainedLog, due: readonly DueChain[]): Sql {
  const chains = due.map(({ period, ...name }) => ({
    ...name,
    // Whoever writes to the database can shorten the setting, but not below what the platform accepts.
    before: new Date(Date.now() - Math.max(durationMs(period ?? kept), durationMs(keptMin.logs))),
  }))
  return sql`
    select c.tenant_id, c.workspace_id, c.chain, e.*
    from jsonb_to_recordset(${JSON.stringify(chains)}::jsonb)
        as c (tenant_id text, workspace_id text, chain text, before timestamptz)
      cross join lateral expired_entries(${table}, c.tenant_id, c.workspace_id, c.chain, c.before, ${rowsMax}) e`
}

const lookSoon = ({ heads, isHeadOf }: ChainedLog, chain: ChainName): Sql =>
  sql`update ${heads} set retention_due_at = now() where ${isHeadOf(chain)}`
