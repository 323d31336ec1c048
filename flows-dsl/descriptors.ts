/** Knows what `$workflow` and `$task` say (OWS 1.0 "Runtime expression arguments"). */

import type { FlowIR, Json, JsonObject } from './ir.ts'

/** What `$workflow` says of the run. `started_at` is an ISO 8601 time. */
export interface RunInfo {
  readonly id: string
  readonly started_at: string
  readonly flow?: { readonly id: string; readonly name: string; readonly version: number }
  /** Who has started it: a subject. */
  readonly started_by?: string
  /** What `$secrets` shows: handles that stand for the values, which never come here. */
  readonly secrets?: JsonObject
  /** Tasks entered before the run is taken for an endless loop. */
  readonly stepsMax?: number
}

/** The workflow descriptor; `definition` has the document only, since a run carries the compiled form. */
export function describeFlow({ document }: FlowIR, input: Json, { id, started_at }: RunInfo): JsonObject {
  return { id, definition: { document: { ...document } }, input, startedAt: timeOf(Date.parse(started_at)) }
}

/** A date and time descriptor (OWS 1.0 "Runtime expression arguments"). */
export function timeOf(ms: number): JsonObject {
  const epoch = { seconds: Math.floor(ms / 1000), milliseconds: ms }
  return { iso8601: new Date(ms).toISOString(), epoch }
}
