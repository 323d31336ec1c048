/** Event triggers: their declaration and initial stream offsets. */

import type { EventStrategy, FlowIR, Schedule } from '../../../../flows-dsl/ir.ts'
import { typesOf } from '../../../../flows-dsl/tasks/listen.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { eventsIn, isPlatformTopic, isWorkspaceTopic } from '../../events/events.ts'
import type { TriggerKind } from './trigger.ts'

/** The spec of an event trigger. */
export interface EventSpec {
  readonly on: EventStrategy
  readonly read: NonNullable<Schedule['read']>
  /** The streams whose events can match. */
  readonly streams: readonly ('events' | 'changes')[]
}

const KEY = 'on'

export const eventTriggers: TriggerKind = {
  kind: 'event',
  declared: ({ schedule }: FlowIR) => {
    const { on, read = 'data' } = schedule ?? {}
    if (on === undefined) return []
    const spec: EventSpec = { on, read, streams: streamsOf(on) }
    return [{ key: KEY, spec: spec as unknown as Json }]
  },
}

/**
 * False for a type that no filter names. A trigger that names none must not hear of the executions that it starts.
 * @param types as `typesOf` returns them
 */
export const acceptsType = (types: readonly string[] | undefined, type: string): boolean =>
  types?.includes(type) ?? !isPlatformTopic(type)

/** Only the platform publishes under the topics of the workspace's own stream. */
function streamsOf(on: EventStrategy): EventSpec['streams'] {
  const types = typesOf({ to: on })
  if (types === undefined) return ['events', 'changes']
  const changes = types.filter(isWorkspaceTopic)
  return [
    ...(changes.length < types.length ? (['events'] as const) : []),
    ...(changes.length > 0 ? (['changes'] as const) : []),
  ]
}

/**
 * Statements for the transaction that publishes a version, before and after those of its triggers. A new trigger receives
 * events from now on; an existing one keeps its offsets in the streams that it consumed. A
 * changed definition resets the correlation state.
 * @throws Problem `dependency_unavailable` if the flow has event triggers and the streams are unavailable
 */
export async function offsetStatements(
  scope: WorkspaceScope,
  flowId: string,
  ir: FlowIR,
): Promise<{ before: Sql[]; after: Sql[] }> {
  const [wanted] = eventTriggers.declared(ir)
  if (wanted === undefined) return { before: [], after: [] }
  const places = await eventsIn(scope).lastIds()
  const trigger = sql`flow_triggers t where t.flow_id = ${flowId} and t.key = ${KEY}`
  return {
    before: [
      sql`update trigger_offsets w set correlation_state = '[]',
          events_offset = case when t.spec -> 'streams' ? 'events' then w.events_offset else ${places.events} end,
          changes_offset = case when t.spec -> 'streams' ? 'changes' then w.changes_offset else ${places.changes} end
        from ${trigger} and t.id = w.trigger_id and t.spec <> ${JSON.stringify(wanted.spec)}::jsonb`,
    ],
    after: [
      sql`insert into trigger_offsets (trigger_id, events_offset, changes_offset)
        select t.id, ${places.events}, ${places.changes} from ${trigger} on conflict do nothing`,
    ],
  }
}
