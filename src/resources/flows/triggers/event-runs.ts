/** What becomes of events that have come together for a trigger: one run, however often they are heard. */

import { hash } from 'node:crypto'
import { inputOf } from '../../../../flows-dsl/event-gathering.ts'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import { fieldOf } from '../../../../flows-dsl/json.ts'
import { seededIds, typeId, uuidOf } from '../../../core/ids.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { hasBegun, startFlow } from '../start.ts'
import { dueOf } from './admission.ts'
import type { EventSpec } from './events.ts'

const HOPS = 'tenonhops'

/** How many runs began one by the event of another before these were published. */
export const hopsOf = (events: readonly JsonObject[]): number =>
  Math.max(0, ...events.map((event) => Number(fieldOf(event, HOPS) ?? 0)))

/** Events that have come together for a trigger. */
interface Together {
  readonly triggerId: string
  /** The version whose filters have taken them. */
  readonly version: number
  readonly events: readonly JsonObject[]
  readonly hops: number
}

/**
 * Begins the run of events that have come together. Idempotent: the same events are the same run, however often they
 * come.
 * @throws Problem as `startFlow` does
 */
export async function beginByEvents(
  scope: WorkspaceScope,
  { triggerId, version, events, hops }: Together,
): Promise<void> {
  const due = await dueOf(scope, triggerId)
  // Another version has other filters, and is shown the events as well.
  if (due === undefined || due.paused || due.version !== version) return
  const id = executionOf(triggerId, events)
  if (await hasBegun(scope, id)) return
  const input = inputOf(events, (due.spec as unknown as EventSpec).read)
  const trigger = { kind: 'event', id: triggerId, hops } as const
  await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, trigger })
}

/** The id that these events give a run of this trigger. Its time is that of the last one's id, which stays the same. */
function executionOf(triggerId: string, events: readonly JsonObject[]): string {
  const named = events.map((event) => [fieldOf(event, 'source'), fieldOf(event, 'id')])
  const digest = hash('sha256', JSON.stringify([triggerId, named]), 'buffer')
  const last = uuidOf(String(events.at(-1)?.['id'] ?? ''))
  const msecs = Number.parseInt(last.replaceAll('-', '').slice(0, 12), 16)
  return typeId('run', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}
