/** Shows the triggers of a function and what they have started. */

import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, OptionalTime, Time } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { tenantWorkflowsOf } from '../../../access/scope-services.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { uuidOf } from '../../../core/ids.ts'
import { VIEWERS } from '../../../core/policy.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { EventSpec } from '../../runs/triggers/trigger.ts'
import { FunctionRef, findFunction } from '../function-ref.ts'
import { FUNCTION } from './function-triggers.ts'

const STARTED = {
  id: Id('trg'),
  started: Type.Integer({ description: 'Number of runs that the trigger has started.' }),
  last_run_id: Type.Union([Id('run'), Type.Null()]),
  last_run_at: OptionalTime,
}

const ScheduleTrigger = Type.Object({
  ...STARTED,
  kind: Type.Literal('schedule'),
  next: Type.Array(Time, { description: 'Next start times of the schedule.' }),
  missed: Type.Integer({ description: 'Number of starts skipped because they were too late.' }),
})

const EventTrigger = Type.Object({
  ...STARTED,
  kind: Type.Literal('event'),
  topics: Type.Array(Type.String(), { description: 'Topics of all triggers of the configuration.' }),
  seen: Type.Integer({ description: 'Number of events of the topics.' }),
  dropped: Type.Integer({
    description:
      'Number of events that started no run: during a suspension, at the end of a chain of events, or because they were refused.',
  }),
  gap: Type.Optional(
    Type.Object(
      { from: Time, to: Time },
      { description: 'Period whose events the trigger missed, because the stream no longer had them.' },
    ),
  ),
})
const TriggerRecord = component('FunctionTrigger', Type.Union([ScheduleTrigger, EventTrigger]), {
  id: EXAMPLE_ID.trigger,
  kind: 'schedule',
  next: [EXAMPLE_TIME.later],
  missed: 0,
  started: 30,
  last_run_id: EXAMPLE_ID.run,
  last_run_at: EXAMPLE_TIME.created,
})
type TriggerRecord = Static<typeof TriggerRecord>

interface TriggerRow {
  readonly id: string
  readonly kind: TriggerRecord['kind']
  readonly spec: object
  readonly seen: number
  readonly dropped: number
  readonly started: number
  readonly last_run_id: string | null
  readonly last_run_at: string | null
  readonly gap_from: string | null
  readonly gap_to: string | null
}

export const listFunctionTriggers = adminOperation({
  name: 'function_trigger.list',
  summary: 'List the schedule and the event trigger of a function, with what they have started',
  roles: VIEWERS,
  input: Input({ id: FunctionRef }),
  output: Type.Object({ data: Type.Array(TriggerRecord) }),
  http: { method: 'GET', path: '/v1/functions/{id}/triggers' },
  run: async (scope, { id }) => {
    const found = await findFunction(scope, id)
    const rows = await scope.rows<TriggerRow>(sql`
      select t.id, t.kind, t.spec, s.seen, s.dropped, s.started, s.last_run_id, s.last_run_at, s.gap_from, s.gap_to
      from triggers t join trigger_states s
        on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
      where t.tenant_id = ${found.tenantId} and t.workspace_id = ${found.workspaceId}
        and t.target_kind = ${FUNCTION.kind} and t.target_id = ${found.id}
      order by t.kind desc`)
    return { data: await Promise.all(rows.map((row) => toRecord(scope, found, row))) }
  },
})

async function toRecord(
  scope: AdminScope,
  { id: functionId, tenantId, workspaceId }: { readonly id: string } & WorkspaceRef,
  { id, kind, spec, started, last_run_id, last_run_at, ...row }: TriggerRow,
): Promise<TriggerRecord> {
  const common = { id, started, last_run_id, last_run_at }
  if (kind === 'event') {
    const { seen, dropped, gap_from: from, gap_to: to } = row
    const gap = from !== null && to !== null && { gap: { from, to } }
    return { ...common, kind, topics: [...((spec as EventSpec).topics ?? [])], seen, dropped, ...gap }
  }
  const { schedules } = tenantWorkflowsOf(scope, { tenantId, workspaceId })
  // Absent directly after it was configured.
  const { next = [], missed = 0 } = (await schedules.status(functionId, uuidOf(id))) ?? {}
  return { ...common, kind, next: next.map((time) => time.toISOString()), missed }
}
