/** Lists of executions: filtered and in pages, from our own projection alone, so that no page asks Temporal. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, type PageRequest, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { TRIGGER_KINDS } from '../../core/run.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace, Ref, Time } from '../kinds.ts'
import { FLOWS, findFlow, Ws } from './definitions.ts'
import { CorrelationKey, Execution, linked, OUTLINE, STATUSES } from './executions.ts'

/** As it stands in a list: without `input` and `output`, which may be large, and without its steps. */
const ListedExecution = Type.Omit(Execution, ['input', 'output', 'queue', 'steps'])
type ListedExecution = Static<typeof ListedExecution>

const FILTERS = {
  status: Type.Optional(Type.Union(STATUSES.map((status) => Type.Literal(status)))),
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: 2147483647 })),
  trigger: Type.Optional(Type.Union(TRIGGER_KINDS.map((kind) => Type.Literal(kind)))),
  trigger_id: Type.Optional(Ref('trigger: a schedule, a webhook')),
  correlation_key: Type.Optional(CorrelationKey),
  started_after: Type.Optional({ ...Time, description: 'Those that were asked for then or later.' }),
  started_before: Type.Optional({ ...Time, description: 'Those that were asked for before.' }),
  order: Type.Optional(
    Type.Enum(['asc', 'desc'], { description: 'By `started_at`; newest first where absent.' }),
  ),
}
const FILTERED = { ...PageInput, ws: Ws, ...FILTERS }

interface Filters extends PageRequest {
  readonly status?: (typeof STATUSES)[number]
  readonly version?: number
  readonly trigger?: string
  readonly trigger_id?: string
  readonly correlation_key?: string
  readonly started_after?: string
  readonly started_before?: string
  readonly order?: 'asc' | 'desc'
}

export const listExecutions = inWorkspace({
  name: 'execution.list',
  summary: 'List the executions of a workspace, newest first',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...FILTERED, flow: Type.Optional(Ref('flow, or its name')) }),
  output: PageOf(ListedExecution),
  http: { method: 'GET', path: `${FLOWS}/executions` },
  run: (scope, input) => {
    const { flow } = input
    const ofFlow = sql`and flow_id = (select id from flows where id = ${flow} or name = ${flow} limit 1)`
    return list(scope, input, flow === undefined ? sql`` : ofFlow)
  },
})

export const listFlowExecutions = inWorkspace({
  name: 'flow_execution.list',
  summary: 'List the executions of a flow, newest first',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...FILTERED, flow: Ref('flow, or its name') }),
  output: PageOf(ListedExecution),
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/executions` },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    return list(scope, input, sql`and flow_id = ${id}`)
  },
})

async function list(scope: WorkspaceScope, input: Filters, ofFlow: Sql) {
  const { after, limit } = pageBounds(input)
  const descending = input.order !== 'asc'
  const rows = await scope.rows<ListedExecution>(sql`
    select ${OUTLINE} from executions
    where true ${ofFlow} ${ofStatus(input.status)} ${equal(sql`version`, input.version)}
      ${equal(sql`trigger_kind`, input.trigger)} ${equal(sql`trigger_id`, input.trigger_id)}
      ${equal(sql`correlation_key`, input.correlation_key)} ${since(input.started_after)}
      ${until(input.started_before)} ${behind(after, descending)}
    ${descending ? sql`order by started_at desc, id desc` : sql`order by started_at, id`}
    limit ${limit}`)
  const placeOf = ({ started_at, id }: ListedExecution) => `${Date.parse(started_at)}-${id}`
  return pageFrom(
    input,
    rows.map((row) => linked(scope, row)),
    placeOf,
  )
}

const equal = (column: Sql, value: string | number | undefined): Sql =>
  value === undefined ? sql`` : sql`and ${column} = ${value}`
const since = (time: string | undefined): Sql =>
  time === undefined ? sql`` : sql`and started_at >= ${time}::timestamptz`
const until = (time: string | undefined): Sql =>
  time === undefined ? sql`` : sql`and started_at < ${time}::timestamptz`

/** By the status that is shown: an open run that is held or paused is suspended, whatever it does beneath. */
function ofStatus(status: Filters['status']): Sql {
  if (status === undefined) return sql``
  if (['completed', 'faulted', 'cancelled'].includes(status)) return sql`and outcome = ${status}`
  if (status === 'suspended') return sql`and outcome is null and (held or paused or status = 'suspended')`
  return sql`and outcome is null and status = ${status} and not held and not paused`
}

/** @throws Problem `cursor_invalid` where it is not of a list of executions */
function behind(after: string, descending: boolean): Sql {
  if (after === '') return sql``
  const [, msecs, id] = /^([0-9]{1,15})-(run_[0-9a-z]{26})$/.exec(after) ?? []
  if (msecs === undefined) throw new Problem('cursor_invalid')
  const place = sql`(${new Date(Number(msecs))}::timestamptz, ${id}::text)`
  return descending ? sql`and (started_at, id) < ${place}` : sql`and (started_at, id) > ${place}`
}
