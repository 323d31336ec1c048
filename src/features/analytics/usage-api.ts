/** Lists the records of what workspaces used in each hour, for billing. */

import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, Ref, Time } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { VIEWERS } from '../../core/policy.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { listPage } from '../operation-helpers.ts'
import { METRICS, type Metric, type MetricName } from './metrics.ts'

const Amount = Type.Object({
  metric: Type.String(),
  labels: Type.Record(Type.String(), Type.String()),
  unit: Type.String(),
  value: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Sum of the hour; of documents, bytes and users the level at its end. `null`: it is not counted, as `not_counted` says.',
  }),
  not_counted: Type.Optional(Type.String({ description: 'Reason why the value is `null`.' })),
})

const UsageRecord = component(
  'UsageRecord',
  Type.Object({
    id: Type.String({
      description: 'Fixed id: the same hour of a workspace has the same record, however often it is read.',
    }),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    from: Time,
    to: Time,
    amounts: Type.Array(Amount, { description: 'Amounts that are not 0.' }),
  }),
  {
    id: 'use_2026030209',
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    from: '2026-03-02T09:00:00.000Z',
    to: '2026-03-02T10:00:00.000Z',
    amounts: [{ metric: 'requests', labels: {}, unit: 'requests', value: 1_250 }],
  },
)
type UsageRecord = Static<typeof UsageRecord>

interface Row extends Omit<UsageRecord, 'amounts'> {
  readonly amounts: Readonly<Record<string, Readonly<Record<string, number | null>>>>
}

export const listUsage = adminOperation({
  name: 'usage.list',
  summary: 'List what workspaces used by the hour, oldest first, with ids that never change',
  roles: VIEWERS,
  input: Input({
    ...PageInput,
    tenant_id: Type.Optional(Ref('tenant. Default: your own tenant; for operators, all tenants')),
    workspace_id: Type.Optional(Ref('workspace. Default: all workspaces that you may administer')),
    from: Type.Optional(Time),
    to: Type.Optional(Time),
  }),
  output: PageOf(UsageRecord),
  http: { method: 'GET', path: '/v1/usage' },
  run: async (scope, { tenant_id, workspace_id, from, to, ...page }) => {
    const records = sql`
      select id, tenant_id, workspace_id, hour as from, hour + interval '1 hour' as to, amounts from usage_records
      where (${tenant_id ?? null}::text is null or tenant_id = ${tenant_id ?? null})
        and (${workspace_id ?? null}::text is null or workspace_id = ${workspace_id ?? null})
        and id >= ${idFrom(from) ?? ''} ${to === undefined ? sql`` : sql`and id < ${idFrom(to)}`}`
    const { data, ...rest } = await listPage<Row>(scope, page, records)
    return { data: data.map((row) => ({ ...row, amounts: amountsOf(row.amounts) })), ...rest }
  },
})

/** The beginning of the ids of the hour that a time is in; of one within an hour, the next. */
function idFrom(time: string | undefined): string | undefined {
  if (time === undefined) return undefined
  const hour = new Date(Math.ceil(Date.parse(time) / 3_600_000) * 3_600_000).toISOString()
  return `usage_${hour.slice(0, 13).replaceAll('-', '')}`
}

function amountsOf(amounts: Row['amounts']): UsageRecord['amounts'] {
  return (Object.entries(METRICS) as [MetricName, Metric][]).flatMap(
    ([metric, { unit, label, uncounted = '' }]) =>
      Object.entries(amounts[metric] ?? {}).map(([value, amount]) => ({
        metric,
        labels: label === undefined ? {} : { [label.name]: value },
        unit,
        value: amount,
        ...(amount === null && { not_counted: uncounted }),
      })),
  )
}
