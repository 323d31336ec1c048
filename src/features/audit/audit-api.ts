/** Reads the audit log, and verifies its hash chain. */

import Type, { type Static } from 'typebox'
import { PLATFORM_CHAIN } from '../../access/audit/entry.ts'
import { Digest, Verified, VerifyInput, verifyChain } from '../../access/audit/verify-chain.ts'
import { adminOperation, Input, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS, TENANT_ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'

const Text = Type.Union([Type.String(), Type.Null()])
const OptionalDigest = Type.Union([Digest, Type.Null()])

const OUTCOMES = ['done', 'denied', 'failed'] as const

const AuditEntry = component(
  'AuditEntry',
  Type.Object({
    seq: Type.Integer({ minimum: 1, description: 'Position in the chain of the tenant, without gaps.' }),
    tenant_id: Type.String({ description: 'Id of the tenant. `-`: no tenant.' }),
    workspace_id: Text,
    at: Time,
    request_id: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the request, also of one that started the run or execution which is the actor.',
    }),
    trace_id: Type.Union([Type.String(), Type.Null()], {
      description: 'Trace of the request (W3C Trace Context).',
    }),
    actor: Type.Object({
      kind: Type.String({
        description:
          'Kind of the actor: `api_key`, `token`, `gateway`, `mcp_client`, `webhook`, `run`, `person` or `client` (in events of the issuer), `anonymous` (in requests without authentication) or `platform`.',
      }),
      role: Text,
      subject: Text,
    }),
    address: Type.Union([Type.String(), Type.Null()], {
      description: 'IP address of the client, for refusals, failures and events at the issuer.',
    }),
    operation: Type.String(),
    target: Type.String(),
    outcome: Type.Enum([...OUTCOMES]),
    status: Type.Union([Type.Integer(), Type.Null()]),
    code: Text,
    count: Type.Integer({ description: 'Number of similar events that the entry stands for.' }),
    detail: Type.Optional(
      Type.Record(Type.String(), Text, {
        description: 'Further values that identify the event; never secrets.',
      }),
    ),
    before: OptionalDigest,
    after: OptionalDigest,
    prev_hash: Digest,
    hash: Digest,
  }),
  {
    seq: 42,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    at: EXAMPLE_TIME.created,
    request_id: EXAMPLE_ID.request,
    trace_id: EXAMPLE_ID.trace,
    actor: { kind: 'token', role: 'tenant_admin', subject: EXAMPLE_ID.account },
    address: null,
    operation: 'api_key.create',
    target: EXAMPLE_ID.key,
    outcome: 'done',
    status: 201,
    code: null,
    count: 1,
    before: null,
    after: EXAMPLE_DIGEST,
    prev_hash: EXAMPLE_DIGEST,
    hash: EXAMPLE_DIGEST,
  },
)
type AuditEntry = Static<typeof AuditEntry>

const TenantInput = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    description:
      'Id of the tenant whose entries are read. Default: your own tenant; for operators, the entries of no tenant.',
  }),
)

/** The chain of a request; by default that of the caller's tenant. The chain of another tenant reads as empty. */
function chainOf(scope: AdminScope, requestedChain: string | undefined): string {
  return requestedChain ?? scope.tenantId ?? PLATFORM_CHAIN
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
    operation: Type.Optional(
      Type.String({ maxLength: 100, description: 'Name of the operation, such as `tenant.create`.' }),
    ),
    outcome: Type.Optional(Type.Enum([...OUTCOMES])),
    request_id: Type.Optional(Type.String({ maxLength: 128, description: 'Id of a request.' })),
    trace_id: Type.Optional(Type.String({ maxLength: 32, description: 'Id of a trace.' })),
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
        ${memberFilter('request_id', '=', input.request_id)} ${memberFilter('trace_id', '=', input.trace_id)}
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

export const verifyAudit = adminOperation({
  name: 'audit.verify',
  summary: 'Verify the chain of the audit log, up to 10,000 entries per call',
  roles: TENANT_ADMINS,
  input: Input({
    tenant_id: TenantInput,
    ...VerifyInput,
  }),
  output: Verified,
  http: { method: 'GET', path: '/v1/audit/verify' },
  run: async (scope, { tenant_id, ...from }) => {
    await requireChain(scope, tenant_id)
    const id = chainOf(scope, tenant_id)
    const name = { tenant_id: id, workspace_id: '', chain: 'audit' }
    const rows = sql`tenant_id = ${id}`
    return verifyChain(
      scope,
      { ...name, table: sql`audit`, rows, head: sql`audit_heads where ${rows}` },
      from,
    )
  },
})

/** @throws Problem `not_found` for the chain of another tenant, or of no tenant */
async function requireChain(scope: AdminScope, requestedChain: string | undefined): Promise<void> {
  if (requestedChain === undefined || requestedChain === scope.tenantId) return
  const isOperator = scope.tenantId === undefined
  if (isOperator && requestedChain === PLATFORM_CHAIN) return
  const found = await scope.row<{ id: string }>(sql`
    select id from tenants where id = ${requestedChain} union select tenant_id from audit_heads where tenant_id = ${requestedChain}`)
  if (found === undefined) throw notFound('tenant')
}
