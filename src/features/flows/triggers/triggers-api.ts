/** Operations on schedules and other triggers: list, read, pause, resume, trigger, rotate the secret of a webhook. */

import { setTimeout as delay } from 'node:timers/promises'
import Type, { type Static } from 'typebox'
import { OVERLAPS } from '../../../../flows-dsl/compile/schedule.ts'
import { correlationValues } from '../../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import { effectOnce } from '../../../access/effect-once.ts'
import { Id, Input, OptionalTime, Ref, Time } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { uuidOf } from '../../../core/ids.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { ScheduleStatus } from '../../../infra/temporal/schedules.ts'
import { findRow, listPage, previewOperation } from '../../operation-helpers.ts'
import { acceptsTopic } from '../../runs/triggers/events.ts'
import type { EventSpec } from '../../runs/triggers/trigger.ts'
import { changeTriggers, placeOf, setPaused } from '../../runs/triggers/trigger-store.ts'
import { rotateSecret, urlOf } from '../../runs/triggers/webhooks.ts'
import { FLOWS, FlowRef, Ws } from '../definitions.ts'
import { Execution, readExecution, STATUS } from '../executions/executions.ts'
import { startFlow } from '../executions/start-execution.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { declarationOf, FLOW, TRIGGER_COLUMNS, TRIGGERS, type TriggerRow } from './flow-triggers.ts'

const Ms = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }))

const Spec = Type.Object({
  cron: Type.Optional(Type.String()),
  every_ms: Ms('Interval between starts of the flow, in milliseconds.'),
  after_ms: Ms('Time between the end of an execution and the next start, in milliseconds.'),
  timezone: Type.Optional(Type.String({ description: 'Time zone of `cron`. Default: `UTC`.' })),
  overlap: Type.Union(OVERLAPS.map((one) => Type.Literal(one))),
  catch_up_ms: Type.Integer({
    description: 'Maximum delay of a start, in milliseconds; later starts are skipped.',
  }),
  jitter_ms: Ms('Maximum random delay of each start, in milliseconds.'),
})

const LastRun = Type.Object({
  id: Id('run'),
  status: Type.String(),
  started_at: Time,
  ended_at: OptionalTime,
})

const SCHEDULE = {
  id: Id('trg'),
  flow_id: Id('flow'),
  flow_name: Type.String(),
  key: Type.String({ description: 'Key that identifies the schedule within the flow, across versions.' }),
  spec: Spec,
  version: Type.Integer({ description: 'Version of the flow that the schedule starts.' }),
  paused: Type.Boolean(),
  note: Type.Union([Type.String(), Type.Null()], {
    description: 'Reason why the schedule was paused or resumed.',
  }),
  last_run: Type.Union([LastRun, Type.Null()]),
  created_at: Time,
  updated_at: Time,
}
const Schedule = component('Schedule', Type.Object(SCHEDULE), {
  id: EXAMPLE_ID.trigger,
  flow_id: EXAMPLE_ID.flow,
  flow_name: 'confirm',
  key: 'nightly',
  spec: { cron: '0 3 * * *', timezone: 'Europe/Berlin', overlap: 'skip', catch_up_ms: 60_000 },
  version: 2,
  paused: false,
  note: null,
  last_run: null,
  created_at: EXAMPLE_TIME.created,
  updated_at: EXAMPLE_TIME.updated,
})
type Schedule = Static<typeof Schedule>

const Next = Type.Array(Time, { description: 'Next start times; empty while the schedule is paused.' })
const ListedSchedule = component(
  'ListedSchedule',
  Type.Object({
    ...SCHEDULE,
    next: Type.Union([
      Next,
      Type.Null({ description: 'No start times, because Temporal did not respond in time.' }),
    ]),
  }),
  { ...exampleOf(Schedule), next: [EXAMPLE_TIME.later] },
)

const ScheduleWithStatus = component(
  'ScheduleWithStatus',
  Type.Object({
    ...SCHEDULE,
    next: Next,
    taken: Type.Integer({ description: 'Number of starts.' }),
    skipped: Type.Integer({
      description: 'Number of starts skipped because an earlier execution was still running.',
    }),
    missed: Type.Integer({ description: 'Number of starts skipped because they were too late.' }),
  }),
  { ...exampleOf(Schedule), next: [EXAMPLE_TIME.later], taken: 30, skipped: 0, missed: 0 },
)

const Note = Type.Optional(
  Type.String({ maxLength: FLOW_LIMITS.scheduleNoteCharsMax, description: 'Reason for the change.' }),
)
const one = { ws: Ws, id: Ref('schedule') }

/** A schedule with its last execution. */
interface ScheduleRow extends Omit<Schedule, 'last_run'> {
  readonly last_id: string | null
  readonly last_status: string
  readonly last_started_at: string
  readonly last_ended_at: string | null
}

const SCHEDULES = sql`
  select ${TRIGGER_COLUMNS}, e.id as last_id, e.status as last_status, e.started_at as last_started_at,
    e.ended_at as last_ended_at
  from ${TRIGGERS} left join lateral (
    select id, ${STATUS} as status, started_at, ended_at from executions
    where trigger_id = t.id order by id desc limit 1) e on true
  where t.kind = 'schedule'`

function toSchedule({ last_id, last_status, last_started_at, last_ended_at, ...row }: ScheduleRow): Schedule {
  const last = { status: last_status, started_at: last_started_at, ended_at: last_ended_at }
  return { ...row, last_run: last_id === null ? null : { id: last_id, ...last } }
}

const findSchedule = async (scope: WorkspaceScope, id: string): Promise<Schedule> =>
  toSchedule(await findRow<ScheduleRow>(scope, 'schedule', sql`${SCHEDULES} and t.id = ${id}`))

export const listSchedules = previewOperation({
  name: 'schedule.list',
  roles: VIEWERS,
  summary: 'List the schedules of a workspace, with their next start times',
  input: Input({ ...PageInput, ws: Ws, flow: Type.Optional(FlowRef) }),
  output: PageOf(ListedSchedule),
  http: { method: 'GET', path: `${FLOWS}/schedules` },
  run: async (scope, { flow = null, ...input }) => {
    const schedules = sql`${SCHEDULES} and (${flow}::text is null or f.id = ${flow} or f.name = ${flow})`
    const { data, page } = await listPage<ScheduleRow>(scope, input, schedules)
    return { data: await withNext(scope, data.map(toSchedule)), page }
  },
})

/** Reads a few schedules at once, so that a page of them is no burst; null stands for those that Temporal did not return in time. */
async function withNext(
  scope: WorkspaceScope,
  schedules: readonly Schedule[],
): Promise<Static<typeof ListedSchedule>[]> {
  const { scheduleReadsMax: atOnce, scheduleReadMs: ms } = FLOW_LIMITS
  const untilMs = Date.now() + ms
  const late = delay(ms, null, { ref: false })
  const listed: Static<typeof ListedSchedule>[] = []
  const left = schedules.entries()
  const read = async () => {
    for (const [index, schedule] of left) {
      const times =
        Date.now() >= untilMs
          ? null
          : await Promise.race([nextTimes(scope, schedule).catch(nullIfAway), late])
      listed[index] = { ...schedule, next: times }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, read))
  return listed
}

const nextTimes = async (scope: WorkspaceScope, schedule: Schedule): Promise<string[]> =>
  schedule.paused ? [] : timesOf(schedule, await statusOf(scope, schedule))

const statusOf = (scope: WorkspaceScope, { flow_id, id }: Schedule) =>
  workflowsOf(scope).schedules.status(flow_id, uuidOf(id))

/** Without a status directly after the flow was published: then it is not in Temporal yet. */
const timesOf = ({ paused }: Schedule, status: ScheduleStatus | undefined): string[] =>
  paused ? [] : (status?.next ?? []).map((time) => time.toISOString())

/** @throws every error that is not a Problem */
function nullIfAway(error: unknown): null {
  if (error instanceof Problem) return null
  throw error
}

export const getSchedule = previewOperation({
  name: 'schedule.get',
  roles: VIEWERS,
  summary: 'Read a schedule with its next start times',
  input: Input(one),
  output: ScheduleWithStatus,
  http: { method: 'GET', path: `${FLOWS}/schedules/{id}` },
  run: async (scope, { id }) => {
    const schedule = await findSchedule(scope, id)
    const status = await statusOf(scope, schedule)
    const { taken = 0, skipped = 0, missed = 0 } = status ?? {}
    return { ...schedule, next: timesOf(schedule, status), taken, skipped, missed }
  },
})

/** An operation that pauses or resumes a schedule. A repetition changes only the note. */
const setSchedulePaused = (paused: boolean, summary: string) =>
  previewOperation({
    name: paused ? 'schedule.pause' : 'schedule.resume',
    roles: DEVELOPERS,
    summary,
    input: Input({ ...one, note: Note }),
    output: Schedule,
    http: { method: 'POST', path: `${FLOWS}/schedules/{id}/${paused ? 'pause' : 'resume'}`, body: '*' },
    run: async (scope, { id, note = null }) => {
      const { flow_id } = await findSchedule(scope, id)
      const write = () => scope.batch(setPaused(scope, sql`id = ${id}`, paused, note))
      await changeTriggers(placeOf(scope), declarationOf(flow_id), write)
      return findSchedule(scope, id)
    },
  })

export const pauseSchedule = setSchedulePaused(
  true,
  'Pause a schedule: it starts no executions until it is resumed, even if new versions are published',
)
export const resumeSchedule = setSchedulePaused(
  false,
  'Resume a schedule; starts that were due while it was paused are skipped',
)

export const triggerSchedule = previewOperation({
  name: 'schedule.trigger',
  roles: DEVELOPERS,
  summary: 'Start an execution of the schedule now, even if it is paused or others are running',
  input: Input(one),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/schedules/{id}/trigger`, body: '*', status: () => 202 },
  run: async (scope, { id }) => {
    const { flow_id, version } = await findSchedule(scope, id)
    const execution = scope.newId('run')
    const trigger = { kind: 'schedule' as const, id }
    await startFlow(scope, flow_id, version, { id: execution, input: {}, by: scope.actor.subject, trigger })
    return readExecution(scope, execution)
  },
})

const TriggerRecord = component(
  'Trigger',
  Type.Object({
    id: Id('trg'),
    kind: Type.Union([Type.Literal('schedule'), Type.Literal('webhook'), Type.Literal('event')]),
    key: Type.String({ description: 'Key that identifies the trigger in the definition, across versions.' }),
    flow_id: Type.String(),
    flow_name: Type.String(),
    version: Type.Integer({ description: 'Version of the flow that the trigger starts.' }),
    paused: Type.Boolean(),
    url: Type.Optional(Type.String({ description: 'URL for deliveries to a webhook.' })),
    events: Type.Optional(
      Type.Object(
        {
          seen: Type.Integer({ description: 'Number of events of the types that the filters name.' }),
          matched: Type.Integer({ description: 'Number of these events that a filter accepted.' }),
        },
        { description: 'Event counts of an event trigger, since it was created.' },
      ),
    ),
    gap: Type.Optional(
      Type.Object(
        { from: Time, to: Time },
        {
          description: 'Period whose events an event trigger missed, because the stream no longer had them.',
        },
      ),
    ),
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.trigger,
    kind: 'webhook',
    key: 'payment',
    flow_id: EXAMPLE_ID.flow,
    flow_name: 'confirm',
    version: 2,
    paused: false,
    url: 'https://api.tennis.example/webhooks/payment',
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type TriggerRecord = Static<typeof TriggerRecord>

/** A trigger with the counts of its events and their last gap. */
interface CountedTrigger extends TriggerRow {
  readonly seen: number
  readonly matched: number
  readonly gap_from: string | null
  readonly gap_to: string | null
}

const RECORDS = sql`select ${TRIGGER_COLUMNS}, w.seen, w.matched, w.gap_from, w.gap_to from ${TRIGGERS} left join trigger_states w
  on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id`

function toTriggerRecord(scope: WorkspaceScope, row: CountedTrigger): TriggerRecord {
  const { id, kind, key, flow_id, flow_name, version, paused, created_at, updated_at } = row
  const { seen, matched, gap_from, gap_to } = row
  const url = kind === 'webhook' ? { url: urlOf(scope, id) } : {}
  const events = kind === 'event' ? { events: { seen, matched } } : {}
  const gap = gap_from !== null && gap_to !== null ? { gap: { from: gap_from, to: gap_to } } : {}
  return {
    id,
    kind,
    key,
    flow_id,
    flow_name,
    version,
    paused,
    ...url,
    ...events,
    ...gap,
    created_at,
    updated_at,
  }
}

export const listTriggers = previewOperation({
  name: 'trigger.list',
  roles: VIEWERS,
  summary: 'List the triggers of a workspace: schedules, webhooks, events',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(TriggerRecord),
  http: { method: 'GET', path: `${FLOWS}/triggers` },
  run: async (scope, input) => {
    const { data, page } = await listPage<CountedTrigger>(scope, input, RECORDS)
    return { data: data.map((row) => toTriggerRecord(scope, row)), page }
  },
})

const TARGET = { ws: Ws, id: Ref('trigger') }

export const rotateTriggerSecret = previewOperation({
  name: 'trigger.rotate_secret',
  roles: ADMINS,
  summary: 'Rotate the secret of a webhook; the previous one stays valid for a day',
  input: Input({
    ...TARGET,
    secret: Type.Optional(
      Type.String({
        minLength: 8,
        maxLength: 500,
        description: 'Secret that the sender has issued. Default: a newly generated secret.',
      }),
    ),
  }),
  output: component(
    'RotatedTriggerSecret',
    Type.Object({
      id: Type.String(),
      secret: Type.Optional(Type.String({ description: 'Newly generated secret, shown only once.' })),
      url: Type.Optional(Type.String({ description: 'URL with the new secret, for `verify: url`.' })),
      previous_until: Time,
    }),
    { id: EXAMPLE_ID.trigger, secret: 'shown once', previous_until: EXAMPLE_TIME.later },
  ),
  http: { method: 'POST', path: `${FLOWS}/triggers/{id}/rotate-secret`, body: '*' },
  run: (scope, { id, secret }) =>
    effectOnce(scope, async (inside) => ({ id, ...(await rotateSecret(inside, id, secret)) })),
})

const setTriggerPaused = (paused: boolean) =>
  previewOperation({
    name: paused ? 'trigger.pause' : 'trigger.resume',
    roles: DEVELOPERS,
    summary: paused
      ? 'Pause a webhook or an event trigger: deliveries are refused, and events are skipped'
      : 'Resume a webhook or an event trigger',
    input: Input(TARGET),
    output: TriggerRecord,
    http: { method: 'POST', path: `${FLOWS}/triggers/{id}/${paused ? 'pause' : 'resume'}`, body: '*' },
    run: async (scope, { id }) => {
      // Schedules are paused in Temporal.
      const changed = sql`id = ${id} and target_kind = ${FLOW.kind} and kind <> 'schedule' and paused <> ${paused}`
      const record = sql`${RECORDS} where t.id = ${id} and t.kind <> 'schedule'`
      return effectOnce(scope, async (inside) => {
        await inside.batch(setPaused(inside, changed, paused, null))
        return toTriggerRecord(
          inside,
          await findRow<CountedTrigger>(inside, 'webhook or event trigger', record),
        )
      })
    },
  })

export const pauseTrigger = setTriggerPaused(true)
export const resumeTrigger = setTriggerPaused(false)

export const testTrigger = previewOperation({
  name: 'trigger.test',
  roles: DEVELOPERS,
  summary: 'Test which filters of an event trigger accept an event, without starting an execution',
  reads: true,
  input: Input({
    ...TARGET,
    event: Type.Object(
      { type: Type.String({ minLength: 1, maxLength: 200 }) },
      { description: 'CloudEvent with `type`, and the `data` and attributes that the filters read.' },
    ),
  }),
  output: component(
    'TriggerTest',
    Type.Object({
      matches: Type.Boolean({ description: 'True if the trigger accepts the event.' }),
      filters: Type.Array(Type.Boolean(), {
        description:
          'Result of each filter, in the order of the definition; empty if the trigger takes every event.',
      }),
    }),
    { matches: true, filters: [true] },
  ),
  http: { method: 'POST', path: `${FLOWS}/triggers/{id}/test`, body: '*' },
  run: async (scope, { id, event }) => {
    const statement = sql`select spec from ${TRIGGERS} where t.id = ${id} and t.kind = 'event'`
    const { spec } = await findRow<{ spec: EventSpec }>(scope, 'event trigger', statement)
    return matchesOf(spec, event as JsonObject)
  },
})

/** Correlations are not tested: they depend on other events. */
function matchesOf(spec: EventSpec, event: JsonObject): { matches: boolean; filters: boolean[] } {
  const isMeant = acceptsTopic(spec, String(event['type']))
  const filters = (spec.on?.filters ?? []).map(
    (filter) => isMeant && correlationValues(filter, event, Date.now()) !== undefined,
  )
  return { matches: isMeant && (filters.length === 0 || filters.includes(true)), filters }
}
