/** Triggers of a workspace as they are seen and managed: what starts its flows, and the secrets of webhooks. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { notFound } from '../../../core/problem.ts'
import { sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { Id, Input, inWorkspace, Ref, Time } from '../../kinds.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { TRIGGER_COLUMNS, TRIGGERS } from './rows.ts'
import type { Trigger } from './trigger.ts'
import { rotateSecret, urlOf } from './webhooks.ts'

const TriggerRecord = Type.Object({
  id: Id('trg'),
  kind: Type.Union([Type.Literal('schedule'), Type.Literal('webhook'), Type.Literal('event')]),
  key: Type.String({ description: 'What it is in the definition: the same from version to version.' }),
  flow_id: Type.String(),
  flow_name: Type.String(),
  version: Type.Integer({ description: 'The version that it starts.' }),
  paused: Type.Boolean(),
  url: Type.Optional(Type.String({ description: 'Of a webhook: where deliveries go.' })),
  gap: Type.Optional(
    Type.Object(
      { from: Time, to: Time },
      {
        description:
          'Of an event trigger: it has not heard events of this time, which its stream did not keep.',
      },
    ),
  ),
  created_at: Time,
  updated_at: Time,
})
type TriggerRecord = Static<typeof TriggerRecord>

/** A trigger, and what it has missed the last time that it has missed something. */
interface Row extends Trigger {
  readonly gap_from: string | null
  readonly gap_to: string | null
}

const COLUMNS = sql`${TRIGGER_COLUMNS}, w.gap_from, w.gap_to`
const ROWS = sql`${TRIGGERS} left join event_watches w
  on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id`

function shown(scope: WorkspaceScope, row: Row): TriggerRecord {
  const { id, kind, key, flow_id, flow_name, version, paused, gap_from, gap_to, created_at, updated_at } = row
  const url = kind === 'webhook' ? { url: urlOf(scope, id) } : {}
  const gap = gap_from !== null && gap_to !== null ? { gap: { from: gap_from, to: gap_to } } : {}
  return { id, kind, key, flow_id, flow_name, version, paused, ...url, ...gap, created_at, updated_at }
}

export const listTriggers = inWorkspace({
  name: 'trigger.list',
  summary: 'List what starts flows of the workspace: schedules, webhooks, events',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(TriggerRecord),
  http: { method: 'GET', path: `${FLOWS}/triggers` },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const rows = await scope.rows<Row>(
      sql`select ${COLUMNS} from ${ROWS} where t.id > ${after} order by t.id limit ${limit}`,
    )
    return pageFrom(
      input,
      rows.map((row) => shown(scope, row)),
    )
  },
})

const Target = { ws: Ws, id: Ref('trigger') }

export const rotateTriggerSecret = inWorkspace({
  name: 'trigger.rotate_secret',
  summary: 'Give a webhook another secret; the one before counts for a day more',
  roles: ADMINS,
  stability: 'preview',
  input: Input(Target),
  output: Type.Object({
    id: Type.String(),
    secret: Type.String({ description: 'Shown this once.' }),
    previous_until: Time,
  }),
  http: { method: 'POST', path: `${FLOWS}/triggers/{id}/rotate-secret`, body: '*' },
  run: async (scope, { id }) => ({ id, ...(await rotateSecret(scope, id)) }),
})

const pausing = (paused: boolean) =>
  inWorkspace({
    name: paused ? 'trigger.pause' : 'trigger.resume',
    summary: paused
      ? 'Pause a webhook or an event trigger: deliveries are refused, events pass by'
      : 'Resume a webhook or an event trigger',
    roles: ADMINS,
    stability: 'preview',
    input: Input(Target),
    output: TriggerRecord,
    http: { method: 'POST', path: `${FLOWS}/triggers/{id}/${paused ? 'pause' : 'resume'}`, body: '*' },
    run: async (scope, { id }) => {
      // Schedules are paused where they are: in Temporal.
      await scope.batch(sql`update flow_triggers set paused = ${paused}, updated_at = now()
        where id = ${id} and kind <> 'schedule' and paused <> ${paused}`)
      const row = await scope.row<Row>(
        sql`select ${COLUMNS} from ${ROWS} where t.id = ${id} and t.kind <> 'schedule'`,
      )
      if (row === undefined) throw notFound('webhook or event trigger')
      return shown(scope, row)
    },
  })

export const pauseTrigger = pausing(true)
export const resumeTrigger = pausing(false)
