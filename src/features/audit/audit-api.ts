/** Reads the audit log, and verifies its hash chain. */

import Type, { type Static } from 'typebox'
import { PLATFORM_CHAIN } from '../../access/audit/entry.ts'
import { adminOperation, Input, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS, TENANT_ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'

const Text = Type.Union([Type.String(), Type.Null()])
const Digest = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256.' })
const OptionalDigest = Type.Union([Digest, Type.Null()])

const OUTCOMES = ['done', 'denied', 'failed'] as const

const AuditEntry = Type.Object({
  seq: Type.Integer({ minimum: 1, description: 'Its place in the chain of its tenant, without gaps.' }),
  tenant_id: Type.String({ description: '`-`: of no tenant.' }),
  workspace_id: Text,
  at: Time,
  request_id: Text,
  actor: Type.Object({
    kind: Type.String({
      description:
        'api_key, token, gateway, mcp_client, webhook, run, person or client (at the issuer), nobody or platform.',
    }),
    role: Text,
    subject: Text,
  }),
  address: Type.Union([Type.String(), Type.Null()], {
    description: 'Of the client: of refusals, failures and what happens at the issuer.',
  }),
  operation: Type.String(),
  target: Type.String(),
  outcome: Type.Enum([...OUTCOMES]),
  status: Type.Union([Type.Integer(), Type.Null()]),
  code: Text,
  count: Type.Integer({ description: 'How many alike it stands for.' }),
  detail: Type.Optional(
    Type.Record(Type.String(), Text, { description: 'What else identifies the event; no secrets.' }),
  ),
  before: OptionalDigest,
  after: OptionalDigest,
  prev_hash: Digest,
  hash: Digest,
})
type AuditEntry = Static<typeof AuditEntry>

const TenantInput = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    description: 'For operators: whose. Absent: what belongs to no tenant.',
  }),
)

/** The chain of a request; by default that of the caller's tenant. The chain of another tenant reads as empty. */
function chainOf(scope: AdminScope, asked: string | undefined): string {
  return asked ?? scope.tenantId ?? PLATFORM_CHAIN
}

interface Row {
  readonly id: string
  readonly prev_hash: string
  readonly hash: string
  readonly entry: Omit<AuditEntry, 'seq' | 'prev_hash' | 'hash'>
}

const COLUMNS = sql`seq::text as id, entry::json as entry, encode(prev_hash, 'hex') as prev_hash,
  encode(hash, 'hex') as hash`

export const listAudit = adminOperation({
  name: 'audit.list',
  summary: 'List entries of the audit log, newest first',
  roles: ADMINS,
  input: Input({
    ...PageInput,
    tenant_id: TenantInput,
    since: Type.Optional(Time),
    until: Type.Optional(Time),
    actor: Type.Optional(Ref('key, user or run')),
    operation: Type.Optional(Type.String({ maxLength: 100, description: 'Name of an operation.' })),
    outcome: Type.Optional(Type.Enum([...OUTCOMES])),
  }),
  output: PageOf(AuditEntry),
  http: { method: 'GET', path: '/v1/audit' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    if (!/^\d{0,18}$/.test(after)) throw new Problem('cursor_invalid')
    const rows = await scope.rows<Row>(sql`
      select ${COLUMNS} from audit
      where tenant_id = ${chainOf(scope, input.tenant_id)} and seq < coalesce(nullif(${after}, '')::bigint, 9e18::bigint)
        ${memberFilter('at', '>=', instant(input.since))} ${memberFilter('at', '<', instant(input.until))}
        ${memberFilter('operation', '=', input.operation)} ${memberFilter('outcome', '=', input.outcome)}
        ${input.actor === undefined ? sql`` : sql`and entry::jsonb #>> '{actor,subject}' = ${input.actor}`}
      order by seq desc limit ${limit}`)
    const { data, page } = pageFrom(input, rows)
    return {
      data: data.map(({ id, entry, prev_hash, hash }) => ({ ...entry, seq: Number(id), prev_hash, hash })),
      page,
    }
  },
})

/** A condition on a member of the entry; none without a value. Texts compare by code point, as times do. */
function memberFilter(member: string, by: '=' | '>=' | '<', value: string | undefined): Sql {
  if (value === undefined) return sql``
  const operator = { '=': sql`=`, '>=': sql`>=`, '<': sql`<` }[by]
  return sql`and (entry::jsonb ->> ${member}) collate "C" ${operator} ${value}`
}

/** The time as entries write it, so that texts compare as times do. */
const instant = (time: string | undefined) => (time === undefined ? undefined : new Date(time).toISOString())

const Verified = Type.Object({
  ok: Type.Boolean(),
  checked: Type.Integer({ description: 'Entries that this call looked at.' }),
  next: Type.Union([Type.Integer(), Type.Null()], {
    description: '`after` of the next call; null where the end was reached, or something is wrong.',
  }),
  first_bad: Type.Union([
    Type.Object({
      seq: Type.Integer(),
      reason: Type.Enum(['missing', 'link', 'content', 'head', 'anchor'], {
        description:
          'Not there; does not follow the one before; was changed; the chain ends elsewhere than it did; is not what was anchored.',
      }),
    }),
    Type.Null(),
  ]),
  head: Type.Object({ seq: Type.Integer(), hash: Digest }),
})
type Verified = Static<typeof Verified>

export const verifyAudit = adminOperation({
  name: 'audit.verify',
  summary: 'Verify the chain of the audit log, up to 10,000 entries a call',
  roles: TENANT_ADMINS,
  input: Input({
    tenant_id: TenantInput,
    after: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: '`next` of the call before.',
      }),
    ),
    anchor: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,17}:[0-9a-f]{64}$',
        description: 'A head that was kept elsewhere, `<seq>:<hash>`: it must still be in the chain.',
      }),
    ),
  }),
  output: Verified,
  http: { method: 'GET', path: '/v1/audit/verify' },
  run: async (scope, { tenant_id, after = 0, anchor }) => {
    await requireChain(scope, tenant_id)
    const row = await scope.row<VerificationRow>(verification(chainOf(scope, tenant_id), after, anchor))
    if (row === undefined) throw new TypeError('an aggregate gives a row')
    const { checked, last, head_seq, head_hash, ended } = row
    const at = row.bad_seq ?? (row.anchored ? null : Number(anchor?.split(':')[0]))
    const reason = row.bad_seq === null ? ('anchor' as const) : row.reason
    const bad = at === null ? null : { seq: at, reason }
    const head = { seq: head_seq, hash: head_hash }
    return { ok: bad === null, checked, next: bad === null && !ended ? last : null, first_bad: bad, head }
  },
})

/** @throws Problem `not_found` for the chain of another tenant, or of no tenant */
async function requireChain(scope: AdminScope, asked: string | undefined): Promise<void> {
  if (asked === undefined || asked === scope.tenantId) return
  const isOperator = scope.tenantId === undefined
  if (isOperator && asked === PLATFORM_CHAIN) return
  const found = await scope.row<{ id: string }>(sql`
    select id from tenants where id = ${asked} union select tenant_id from audit_heads where tenant_id = ${asked}`)
  if (found === undefined) throw notFound('tenant')
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

/** The hash before the first entry of a chain. */
const ZEROS = '0'.repeat(64)

/**
 * One statement, so that it reads chain and head at one moment. The previous call has verified the entry `after`; this one
 * uses it as the predecessor of the next.
 */
const verification = (chain: string, after: number, anchor: string | undefined): Sql => {
  const [seq = null, hash = null] = anchor?.split(':') ?? []
  const most = LIMITS.auditVerifiedMax + (after > 0 ? 1 : 0)
  const zeros = sql`decode(${ZEROS}, 'hex')`
  return sql`
    with part as (
      select seq, entry, prev_hash, hash, tenant_id, workspace_id from audit
      where tenant_id = ${chain} and seq >= ${after}::bigint order by seq limit ${most}),
    linked as (
      select *, lag(seq, 1, 0::bigint) over w as seq_before, lag(hash, 1, ${zeros}) over w as hash_before
      from part window w as (order by seq)),
    judged as (
      select seq, hash, case when seq = ${after}::bigint then null
        when seq <> seq_before + 1 then 'missing'
        when prev_hash <> hash_before then 'link'
        when hash <> tenon.audit_hash(prev_hash, seq, entry) or entry::jsonb ->> 'tenant_id' <> tenant_id
          or entry::jsonb ->> 'workspace_id' is distinct from workspace_id then 'content'
        end as reason
      from linked),
    bad as (select seq, reason from judged where reason is not null order by seq limit 1),
    ending as (select seq, hash from judged order by seq desc limit 1),
    stated as (select coalesce(max(seq), 0) as seq, coalesce(max(encode(hash, 'hex')), ${ZEROS}) as hash
      from audit_heads where tenant_id = ${chain}),
    whole as (
      select (select count(*) from judged where seq > ${after}::bigint) as checked,
        (select count(*) from part) < ${most} as ended,
        coalesce((select seq from ending), 0) as last,
        coalesce((select encode(hash, 'hex') from ending), ${ZEROS}) as last_hash)
    select w.checked, w.ended, w.last, s.seq as head_seq, s.hash as head_hash,
      coalesce(b.seq, case when w.ended and (w.last <> s.seq or w.last_hash <> s.hash)
        then least(w.last, s.seq) + 1 end) as bad_seq,
      coalesce(b.reason, 'head') as reason,
      ${hash}::text is null or exists (select from audit
        where tenant_id = ${chain} and seq = ${seq}::bigint and hash = decode(${hash}, 'hex')) as anchored
    from whole w cross join stated s left join bad b on true`
}
