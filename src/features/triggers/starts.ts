/** Starts by schedules and events: ids that derive from what is due, the chain depth, and what a suspension skips. */

import { hash } from 'node:crypto'
import type { JsonObject } from '../../../flows-dsl/ir.ts'
import { fieldOf } from '../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { seededIds, typeId, uuidOf } from '../../core/ids.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { Entry } from '../../infra/valkey/streams.ts'
import { CHAIN_DEPTH } from '../events/events.ts'

/** The same id for the same seed. @param msecs the time that it carries, milliseconds since the epoch */
export function derivedRunId(msecs: number, seed: unknown): `run_${string}` {
  const digest = hash('sha256', JSON.stringify(seed), 'buffer')
  return typeId('run', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}

/** The attributes that together identify an event (CloudEvents 1.0). */
export const eventIdentity = (event: JsonObject): readonly unknown[] => [
  fieldOf(event, 'source'),
  fieldOf(event, 'id'),
]

/** The attribute of an event that waits for others or starts an execution: the subjects behind it. No subscriber gets it. */
const CAUSES = 'tenoncauses'

/** The subjects behind the event of an entry. @throws SyntaxError */
export const causesOfEntry = ({ causedBy }: Pick<Entry, 'causedBy'>): readonly string[] =>
  causedBy === undefined ? [] : (JSON.parse(causedBy) as string[])

/** The event with the subjects behind it. */
export const withCauses = (event: JsonObject, causes: readonly string[]): JsonObject =>
  causes.length === 0 ? event : { ...event, [CAUSES]: [...causes] }

export const causesIn = (event: JsonObject): readonly string[] =>
  (fieldOf(event, CAUSES) ?? []) as readonly string[]

export function withoutCauses(event: JsonObject): JsonObject {
  const { [CAUSES]: _causes, ...rest } = event
  return rest
}

/** The time of an event's id, milliseconds since the epoch. */
export function eventTime(event: JsonObject | undefined): number {
  const uuid = uuidOf(String(event?.['id'] ?? ''))
  return Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16)
}

/** The highest chain depth of the events. */
export const chainDepth = (events: readonly JsonObject[]): number =>
  Math.max(0, ...events.map((event) => Number(fieldOf(event, CHAIN_DEPTH) ?? 0)))

/** True for a start that was due before the last resumption; these are skipped. @param dueAt RFC 3339 */
export async function wasDueBeforeResumption(
  scope: WorkspaceScope,
  dueAt: string | undefined,
): Promise<boolean> {
  if (dueAt === undefined) return false
  const row = await scope.row(sql`
    select from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = ${scope.ref.workspaceId} and greatest(w.resumed_at, t.resumed_at) > ${dueAt}::timestamptz`)
  return row !== undefined
}
