/** Schedules as admins see them: what starts flows by the clock, when next, and what became of it last. */

import Type, { type Static } from 'typebox'
import { OVERLAPS } from '../../../../flows-dsl/clock.ts'
import { uuidOf } from '../../../core/ids.ts'
import { LIMITS } from '../../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { notFound } from '../../../core/problem.ts'
import { workflowsOf } from '../../../platform/capabilities.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { Id, Input, inWorkspace, OptionalTime, Ref, Time } from '../../kinds.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { Execution, readExecution, STATUS } from '../executions.ts'
import { startFlow } from '../start.ts'
import { changeTriggers } from './registration.ts'
import { TRIGGER_COLUMNS, TRIGGERS } from './rows.ts'

const Ms = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }))

const Spec = Type.Object({
  cron: Type.Optional(Type.String()),
  every_ms: Ms('Again and again, after this time.'),
  after_ms: Ms('Again, so long after the last run has ended.'),
  timezone: Type.Optional(Type.String({ description: 'Of `cron`; UTC where none is named.' })),
  overlap: Type.Union(OVERLAPS.map((one) => Type.Literal(one))),
  catch_up_ms: Type.Integer({ description: 'A start that is late by more is left out.' }),
  jitter_ms: Ms('Each start is late by a random time, at most this.'),
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
  key: Type.String({ description: 'What it is within the flow: it stays itself from version to version.' }),
  spec: Spec,
  version: Type.Integer({ description: 'Of the flow: the one that it starts.' }),
  paused: Type.Boolean(),
  note: Type.Union([Type.String(), Type.Null()], { description: 'Why it was paused, or resumed.' }),
  last_run: Type.Union([LastRun, Type.Null()]),
  created_at: Time,
  updated_at: Time,
}
const Schedule = Type.Object(SCHEDULE)
type Schedule = Static<typeof Schedule>

const StandingSchedule = Type.Object({
  ...SCHEDULE,
  next: Type.Array(Time, { description: 'When it starts runs next; nothing while it is paused.' }),
  taken: Type.Integer({ description: 'How often its time has come and something was begun.' }),
  skipped: Type.Integer({ description: 'How often it was not, since an earlier run went on.' }),
  missed: Type.Integer({ description: 'How often it was not, since it would have been too late.' }),
})

const Note = Type.Optional(Type.String({ maxLength: LIMITS.scheduleNoteCharsMax, description: 'Why.' }))
const one = { ws: Ws, id: Ref('schedule') }

interface Row extends Omit<Schedule, 'last_run'> {
  readonly last_id: string | null
  readonly last_status: string
  readonly last_started_at: string
  readonly last_ended_at: string | null
}

async function schedules(scope: WorkspaceScope, condition: Sql, limit: number): Promise<Schedule[]> {
  const rows = await scope.rows<Row>(sql`
    select ${TRIGGER_COLUMNS}, e.id as last_id, e.status as last_status, e.started_at as last_started_at,
      e.ended_at as last_ended_at
    from ${TRIGGERS} left join lateral (
      select id, ${STATUS} as status, started_at, ended_at from executions
      where trigger_id = t.id order by id desc limit 1) e on true
    where t.kind = 'schedule' and ${condition} order by t.id limit ${limit}`)
  return rows.map(toSchedule)
}

function toSchedule({ last_id, last_status, last_started_at, last_ended_at, ...row }: Row): Schedule {
  const last = { status: last_status, started_at: last_started_at, ended_at: last_ended_at }
  return { ...row, last_run: last_id === null ? null : { id: last_id, ...last } }
}

async function findSchedule(scope: WorkspaceScope, id: string): Promise<Schedule> {
  const [row] = await schedules(scope, sql`t.id = ${id}`, 1)
  if (row === undefined) throw notFound('schedule')
  return row
}

export const listSchedules = inWorkspace({
  name: 'schedule.list',
  summary: 'List what starts flows of a workspace by the clock',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws, flow: Type.Optional(Ref('flow, or its name')) }),
  output: PageOf(Schedule),
  http: { method: 'GET', path: `${FLOWS}/schedules` },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const flow = input.flow ?? null
    const wanted = sql`t.id > ${after} and (${flow}::text is null or f.id = ${flow} or f.name = ${flow})`
    return pageFrom(input, await schedules(scope, wanted, limit))
  },
})

export const getSchedule = inWorkspace({
  name: 'schedule.get',
  summary: 'Read a schedule, and when it starts runs next',
  roles: ADMINS,
  stability: 'preview',
  input: Input(one),
  output: StandingSchedule,
  http: { method: 'GET', path: `${FLOWS}/schedules/{id}` },
  run: async (scope, { id }) => {
    const schedule = await findSchedule(scope, id)
    // None yet where its flow was published a moment ago.
    const standing = await workflowsOf(scope).schedules.status(schedule.flow_id, uuidOf(id))
    const { next = [], taken = 0, skipped = 0, missed = 0 } = standing ?? {}
    const times = schedule.paused ? [] : next.map((time) => time.toISOString())
    return { ...schedule, next: times, taken, skipped, missed }
  },
})

/** What is paused already, or is not, stays so; the note is the newer one. */
async function setPaused(scope: WorkspaceScope, id: string, paused: boolean, note?: string) {
  const { flow_id } = await findSchedule(scope, id)
  await changeTriggers(
    scope,
    flow_id,
    () => true,
    () =>
      scope.batch(sql`update flow_triggers set paused = ${paused}, note = ${note ?? null}, updated_at = now()
        where id = ${id}`),
  )
  return findSchedule(scope, id)
}

export const pauseSchedule = inWorkspace({
  name: 'schedule.pause',
  summary: 'Pause a schedule: it starts no runs, whatever is published, until it is resumed',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...one, note: Note }),
  output: Schedule,
  http: { method: 'POST', path: `${FLOWS}/schedules/{id}/pause`, body: '*' },
  run: (scope, { id, note }) => setPaused(scope, id, true, note),
})

export const resumeSchedule = inWorkspace({
  name: 'schedule.resume',
  summary: 'Resume a schedule; what it would have started meanwhile is not made up for',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...one, note: Note }),
  output: Schedule,
  http: { method: 'POST', path: `${FLOWS}/schedules/{id}/resume`, body: '*' },
  run: (scope, { id, note }) => setPaused(scope, id, false, note),
})

export const triggerSchedule = inWorkspace({
  name: 'schedule.trigger',
  summary: 'Start what the schedule starts, now: also while it is paused, and beside runs that go on',
  roles: ADMINS,
  stability: 'preview',
  input: Input(one),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/schedules/{id}/trigger`, body: '*', status: () => 202 },
  run: async (scope, { id }) => {
    const { flow_id, version } = await findSchedule(scope, id)
    const execution = scope.newId('run')
    const trigger = { kind: 'schedule' as const, id }
    await startFlow(scope, flow_id, version, {
      id: execution,
      input: {},
      by: scope.actor.subject,
      trigger,
    })
    return readExecution(scope, execution)
  },
})
