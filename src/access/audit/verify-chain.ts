/** Verifies a hash chain of entries: the audit log of a tenant, the log of calls of an MCP server. */

import Type, { type Static } from 'typebox'
import type { Statements } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { ACCESS_LIMITS } from '../limits.ts'

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
      description: 'Head that was recorded elsewhere, as `<seq>:<hash>`; it must still be in the chain.',
    }),
  ),
}

export const Verified = Type.Object({
  ok: Type.Boolean(),
  checked: Type.Integer({ description: 'Number of entries that this call checked.' }),
  next: Type.Union([Type.Integer(), Type.Null()], {
    description: '`after` of the next call. `null`: the end is reached, or an entry is invalid.',
  }),
  first_bad: Type.Union([
    Type.Object({
      seq: Type.Integer(),
      reason: Type.Enum(['missing', 'link', 'content', 'head', 'anchor'], {
        description:
          'Reason why the entry is invalid. `missing`: it does not exist; `link`: it does not follow the one before; `content`: it was changed; `head`: the chain does not end at its recorded head; `anchor`: it differs from the anchor.',
      }),
    }),
    Type.Null(),
  ]),
  head: Type.Object({ seq: Type.Integer(), hash: Digest }),
})
type Verified = Static<typeof Verified>

/** The tables and conditions that select the entries and the head of a chain. */
interface Chain {
  /** Its entries, as `<table> where <condition>`. */
  readonly entries: Sql
  /** Its head, in the same form. */
  readonly head: Sql
  /** A JSON object of the columns that are copied from members of the entry. */
  readonly copied: Sql
}

interface VerificationRow {
  readonly checked: number
  readonly last: number
  readonly ended: boolean
  readonly bad_seq: number | null
  readonly reason: NonNullable<Verified['first_bad']>['reason']
  readonly anchored: boolean
  readonly head_seq: number
  readonly head_hash: string
}

/** Verifies the next entries, at most `ACCESS_LIMITS.auditVerifiedMax` of them. */
export async function verifyChain(
  scope: Statements,
  chain: Chain,
  { after = 0, anchor }: { readonly after?: number; readonly anchor?: string },
): Promise<Verified> {
  const row = await scope.row<VerificationRow>(verification(chain, after, anchor))
  if (row === undefined) throw new TypeError('an aggregate must return a row')
  const { checked, last, head_seq, head_hash, ended } = row
  const at = row.bad_seq ?? (row.anchored ? null : Number(anchor?.split(':')[0]))
  const reason = row.bad_seq === null ? ('anchor' as const) : row.reason
  const bad = at === null ? null : { seq: at, reason }
  const head = { seq: head_seq, hash: head_hash }
  return { ok: bad === null, checked, next: bad === null && !ended ? last : null, first_bad: bad, head }
}

/** The hash before the first entry of a chain. */
const ZEROS = '0'.repeat(64)

/**
 * One statement, so that it reads chain and head at one moment. The previous call has verified the entry `after`; this one
 * uses it as the predecessor of the next.
 */
const verification = ({ entries, head, copied }: Chain, after: number, anchor: string | undefined): Sql => {
  const [seq = null, hash = null] = anchor?.split(':') ?? []
  const most = ACCESS_LIMITS.auditVerifiedMax + (after > 0 ? 1 : 0)
  const zeros = sql`decode(${ZEROS}, 'hex')`
  return sql`
    with part as (
      select seq, entry, prev_hash, hash, ${copied} as copied from ${entries} and seq >= ${after}::bigint
      order by seq limit ${most}),
    linked as (
      select *, lag(seq, 1, 0::bigint) over w as seq_before, lag(hash, 1, ${zeros}) over w as hash_before
      from part window w as (order by seq)),
    judged as (
      select seq, hash, case when seq = ${after}::bigint then null
        when seq <> seq_before + 1 then 'missing'
        when prev_hash <> hash_before then 'link'
        when hash <> tenon.audit_hash(prev_hash, seq, entry) or not entry::jsonb @> copied then 'content'
        end as reason
      from linked),
    bad as (select seq, reason from judged where reason is not null order by seq limit 1),
    ending as (select seq, hash from judged order by seq desc limit 1),
    stated as (select coalesce(max(seq), 0) as seq, coalesce(max(encode(hash, 'hex')), ${ZEROS}) as hash from ${head}),
    whole as (
      select (select count(*) from judged where seq > ${after}::bigint) as checked,
        (select count(*) from part) < ${most} as ended,
        coalesce((select seq from ending), 0) as last,
        coalesce((select encode(hash, 'hex') from ending), ${ZEROS}) as last_hash)
    select w.checked, w.ended, w.last, s.seq as head_seq, s.hash as head_hash,
      coalesce(b.seq, case when w.ended and (w.last <> s.seq or w.last_hash <> s.hash)
        then least(w.last, s.seq) + 1 end) as bad_seq,
      coalesce(b.reason, 'head') as reason,
      ${hash}::text is null or exists (
        select from ${entries} and seq = ${seq}::bigint and hash = decode(${hash}, 'hex')) as anchored
    from whole w cross join stated s left join bad b on true`
}
