/** Verifies a hash chain of entries: the audit log of a tenant, the log of calls of an MCP server. */

import Type, { type Static } from 'typebox'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { internalsOf } from '../internals.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import type { Scope } from '../scope.ts'
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

export const Verified = Type.Object({
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
})
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

interface VerificationRow {
  readonly checked: number
  readonly last: number
  readonly ended: boolean
  readonly bad_seq: number | null
  readonly reason: NonNullable<Verified['first_bad']>['reason']
  readonly anchored: boolean
  readonly head_seq: number
  readonly head_hash: string
  readonly base_seq: number
  readonly base_hash: string
  readonly signature: string | null
}

/**
 * Verifies the next entries, at most `ACCESS_LIMITS.auditVerifiedMax` of them.
 * @throws Problem `validation_failed` for an anchor that retention has removed
 */
export async function verifyChain(
  scope: Scope,
  chain: Chain,
  { after = 0, anchor }: { readonly after?: number; readonly anchor?: string },
): Promise<Verified> {
  const row = await scope.row<VerificationRow>(verification(chain, after, anchor))
  if (row === undefined) throw new TypeError('an aggregate must return a row')
  const { checked, last, ended } = row
  const bad = (await checkpointFault(scope, chain, row)) ?? entryFault(row, anchor)
  return {
    ok: bad === null,
    checked,
    next: bad === null && !ended ? last : null,
    first_bad: bad,
    head: { seq: row.head_seq, hash: row.head_hash },
    checkpoint:
      row.signature === null ? null : { seq: row.base_seq, hash: row.base_hash, signature: row.signature },
  }
}

/** @returns what is wrong unless the chain begins with its first entry, or after one whose removal the platform has signed */
async function checkpointFault(
  scope: Scope,
  { tenant_id, workspace_id, chain }: Chain,
  { base_seq: seq, base_hash: hash, signature }: VerificationRow,
): Promise<Verified['first_bad']> {
  if (signature === null) return null
  const { chainSigner } = internalsOf(scope).services
  const isSigned = await chainSigner.verify(signature, { tenant_id, workspace_id, chain, seq, hash })
  return isSigned ? null : { seq, reason: 'checkpoint' }
}

/** @throws Problem `validation_failed` for an anchor that retention has removed */
function entryFault(
  { bad_seq: seq, reason, anchored, base_seq: base }: VerificationRow,
  anchor: string | undefined,
): Verified['first_bad'] {
  const anchoredAt = Number(anchor?.split(':')[0])
  if (anchoredAt < base) {
    const detail = `Retention has removed the entries up to ${base}, so the anchor ${anchoredAt} cannot be checked. Use a head that was recorded later.`
    throw new Problem('validation_failed', {
      detail,
      errors: [{ in: 'query', name: 'anchor', pointer: '/anchor', detail }],
    })
  }
  if (seq !== null) return { seq, reason }
  return anchored ? null : { seq: anchoredAt, reason: 'anchor' }
}

/** The hash before the first entry of a chain. */
const ZEROS = '0'.repeat(64)

/**
 * One statement, so that it reads chain, checkpoint and head at one moment. The previous call has verified the entry `after`; this one
 * uses it as the predecessor of the next, unless retention has removed it since: then the checkpoint is.
 */
const verification = (
  { tenant_id, workspace_id, chain, table, rows, head }: Chain,
  after: number,
  anchor: string | undefined,
): Sql => {
  const [seq = null, hash = null] = anchor?.split(':') ?? []
  return sql`
    with base as (
      select coalesce(max(seq), 0) as seq, coalesce(max(encode(hash, 'hex')), ${ZEROS}) as hash, max(signature) as signature,
        greatest(${after}::bigint, coalesce(max(seq), 0) + 1) as first,
        ${ACCESS_LIMITS.auditVerifiedMax}::bigint + case when ${after}::bigint > coalesce(max(seq), 0) then 1 else 0 end as most
      from chain_checkpoints where tenant_id = ${tenant_id} and workspace_id = ${workspace_id} and chain = ${chain}),
    part as (
      select seq, entry, prev_hash, hash, tenon.copied(${table}) as copied from ${table}
      where ${rows} and seq >= (select first from base) order by seq limit (select most from base)),
    linked as (
      select part.*, lag(part.seq, 1, base.seq) over w as seq_before,
        lag(part.hash, 1, decode(base.hash, 'hex')) over w as hash_before
      from part cross join base window w as (order by part.seq)),
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
        (select count(*) from part) < base.most as ended,
        coalesce((select seq from ending), base.seq) as last,
        coalesce((select encode(hash, 'hex') from ending), base.hash) as last_hash
      from base)
    select w.checked, w.ended, w.last, s.seq as head_seq, s.hash as head_hash,
      base.seq as base_seq, base.hash as base_hash, base.signature,
      coalesce(b.seq, case when w.ended and (w.last <> s.seq or w.last_hash <> s.hash)
        then least(w.last, s.seq) + 1 end) as bad_seq,
      coalesce(b.reason, 'head') as reason,
      ${hash}::text is null or base.seq = ${seq}::bigint and base.hash = ${hash} or exists (
        select from ${table} where ${rows} and seq = ${seq}::bigint and hash = decode(${hash}, 'hex')) as anchored
    from whole w cross join base cross join stated s left join bad b on true`
}
