/** Verifies a hash chain of entries: the audit log of a tenant, the log of calls of an MCP server. */

import Type, { type Static } from 'typebox'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST } from '../../core/components/examples.ts'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { internalsOf } from '../internals.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import type { Scope } from '../scope.ts'
import { CHAIN_START, type ChainEntry, type ChainLink, findEntryFault } from './chain-rule.ts'
import type { ChainName } from './chain-signer.ts'

export const Digest = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'SHA-256 digest in hexadecimal.',
})

/** The input of an operation that verifies a chain, besides its name. */
export const VerifyInput = {
  after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: '`next` of the previous call.',
    }),
  ),
  anchor: Type.Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,17}:[0-9a-f]{64}$',
      description:
        'Head that was recorded elsewhere, as `<seq>:<hash>`; it must still be in the chain. One that retention has removed since is refused with `validation_failed`.',
    }),
  ),
}

export const Verified = component(
  'ChainVerification',
  Type.Object({
    ok: Type.Boolean(),
    checked: Type.Integer({ description: 'Number of entries that this call checked.' }),
    next: Type.Union([Type.Integer(), Type.Null()], {
      description: '`after` of the next call. `null`: the end is reached, or an entry is invalid.',
    }),
    first_bad: Type.Union([
      Type.Object({
        seq: Type.Integer(),
        reason: Type.Enum(['missing', 'link', 'content', 'head', 'anchor', 'checkpoint'], {
          description:
            'Reason why the entry is invalid. `missing`: it does not exist; `link`: it does not follow the one before; `content`: it was changed; `head`: the chain does not end at its recorded head; `anchor`: it differs from the anchor; `checkpoint`: the platform has not signed that retention removed the entries up to this one.',
        }),
      }),
      Type.Null(),
    ]),
    head: Type.Object({ seq: Type.Integer(), hash: Digest }),
    checkpoint: Type.Union(
      [
        Type.Object({
          seq: Type.Integer({ description: 'Number of the last entry that was removed.' }),
          hash: Digest,
          signature: Type.String({
            description: 'Compact JWS of the platform about chain, entry and time, with its public key.',
          }),
        }),
        Type.Null(),
      ],
      {
        description:
          'Point at which retention has cut the chain: the first entry follows it. `null`: no entry was removed.',
      },
    ),
  }),
  {
    ok: true,
    checked: 42,
    next: null,
    first_bad: null,
    head: { seq: 42, hash: EXAMPLE_DIGEST },
    checkpoint: null,
  },
)
type Verified = Static<typeof Verified>

/** Where the entries and the head of a chain are. */
interface Chain extends ChainName {
  /** The table of its entries. */
  readonly table: Sql
  /** A condition of its entries in the table. */
  readonly rows: Sql
  /** Its head, as `<table> where <condition>`. */
  readonly head: Sql
}

/** Some entries of a chain, its head and its checkpoint, all read at one moment. */
interface ChainPart {
  /** The next entries; first the one before them, unless they follow the checkpoint. */
  readonly entries: readonly ChainEntry[]
  readonly head: ChainLink
  /** The last entry that retention has removed, or the start of the chain; then without a signature. */
  readonly base: ChainLink
  readonly signature: string | null
  /** Null without an anchor. */
  readonly anchored: boolean | null
}

interface From {
  readonly after?: number
  readonly anchor?: string
}

/**
 * Verifies the next entries, at most `ACCESS_LIMITS.auditVerifiedMax` of them, in parts, between which other requests go on.
 * @throws Problem `validation_failed` for an anchor that retention has removed
 */
export async function verifyChain(
  scope: Scope,
  chain: Chain,
  { after = 0, anchor }: From,
): Promise<Verified> {
  let [from, checked] = [after, 0]
  for (;;) {
    const part = await readPart(scope, chain, from, anchor)
    const judged = judge(part, from)
    checked += judged.checked
    from = judged.last.seq
    const bad = (await checkpointFault(scope, chain, part)) ?? judged.bad
    if (bad === null && !judged.isEnd && checked < ACCESS_LIMITS.auditVerifiedMax) continue
    return verified(part, {
      bad: bad ?? anchorFault(part, anchor),
      checked,
      next: judged.isEnd ? null : from,
    })
  }
}

interface Outcome {
  readonly bad: Verified['first_bad']
  readonly checked: number
  readonly next: number | null
}

const verified = ({ head, base, signature }: ChainPart, { bad, checked, next }: Outcome): Verified => ({
  ok: bad === null,
  checked,
  next: bad === null ? next : null,
  first_bad: bad,
  head,
  checkpoint: signature === null ? null : { ...base, signature },
})

interface Judgement {
  readonly bad: Verified['first_bad']
  readonly checked: number
  readonly last: ChainLink
  readonly isEnd: boolean
}

/** @param after the entry that the previous part has verified: its hash is what the next one follows, unless it was removed since */
function judge({ entries, head, base }: ChainPart, after: number): Judgement {
  const [first] = entries
  const isPredecessor = first !== undefined && after > base.seq && first.seq === after
  const next = isPredecessor ? entries.slice(1) : entries
  const bad = findEntryFault(isPredecessor ? first : base, next)
  const last = entries.at(-1) ?? base
  const isEnd = next.length < ACCESS_LIMITS.auditReadMax
  const isHead = last.seq === head.seq && last.hash === head.hash
  const headFault =
    isEnd && !isHead ? { seq: Math.min(last.seq, head.seq) + 1, reason: 'head' as const } : null
  return { bad: bad ?? headFault, checked: next.length, last, isEnd }
}

/** @returns what is wrong unless the chain begins with its first entry, or after one whose removal the platform has signed */
async function checkpointFault(
  scope: Scope,
  { tenant_id, workspace_id, chain }: Chain,
  { base, signature }: ChainPart,
): Promise<Verified['first_bad']> {
  if (signature === null) return null
  const { chainSigner } = internalsOf(scope).services
  const isSigned = await chainSigner.verify(signature, { tenant_id, workspace_id, chain, ...base })
  return isSigned ? null : { seq: base.seq, reason: 'checkpoint' }
}

/** @throws Problem `validation_failed` for an anchor that retention has removed */
function anchorFault({ base, anchored }: ChainPart, anchor: string | undefined): Verified['first_bad'] {
  const seq = Number(anchor?.split(':')[0])
  if (seq < base.seq) {
    const detail = `Retention has removed the entries up to ${base.seq}, so the anchor ${seq} cannot be checked. Use a head that was recorded later.`
    throw new Problem('validation_failed', {
      detail,
      errors: [{ in: 'query', name: 'anchor', pointer: '/anchor', detail }],
    })
  }
  return anchored === false ? { seq, reason: 'anchor' } : null
}

const LINK = sql`json_build_object('seq', coalesce(max(seq), 0), 'hash', coalesce(max(encode(hash, 'hex')), ${CHAIN_START.hash}))`

/**
 * One statement, so that it reads entries, checkpoint and head at one moment.
 * @param after the last entry that was verified; it is read again, unless retention has removed it
 */
async function readPart(
  scope: Scope,
  { tenant_id, workspace_id, chain, table, rows, head }: Chain,
  after: number,
  anchor: string | undefined,
): Promise<ChainPart> {
  const [seq = null, hash = null] = anchor?.split(':') ?? []
  const row = await scope.row<ChainPart>(sql`
    with cut as (
      select ${LINK} as base, max(signature) as signature, coalesce(max(seq), 0) as seq
      from chain_checkpoints where tenant_id = ${tenant_id} and workspace_id = ${workspace_id} and chain = ${chain}),
    part as (
      select seq, entry, encode(prev_hash, 'hex') as prev_hash, encode(hash, 'hex') as hash, tenon.copied(${table}) as copied
      from ${table} where ${rows} and seq >= greatest(${after}::bigint, (select seq + 1 from cut))
      order by seq limit ${ACCESS_LIMITS.auditReadMax}::bigint + (select (${after}::bigint > seq)::integer from cut))
    select cut.base, cut.signature, (select ${LINK} from ${head}) as head,
      coalesce((select json_agg(part order by seq) from part), '[]') as entries,
      case when ${hash}::text is not null then ${seq}::bigint = cut.seq and cut.base ->> 'hash' = ${hash} or exists (
        select from ${table} where ${rows} and seq = ${seq}::bigint and hash = decode(${hash}, 'hex')) end as anchored
    from cut`)
  if (row === undefined) throw new TypeError('an aggregate must return a row')
  return row
}
