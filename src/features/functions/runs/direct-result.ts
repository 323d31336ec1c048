/**
 * Sends the result of a completed run from the worker to the process that waits for it. Temporal has the result, too, but tells
 * it some 9 ms later, a quarter of a call (docs/performance.md); messages may be lost, so the receiver waits for both.
 */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Json } from '../../../core/work.ts'
import { channelsOf } from '../channels.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

const channelOf = ({ ref }: WorkspaceScope, runId: string) =>
  `tenon:{${ref.tenantId}}:result:${ref.workspaceId}:${runId}`

export interface DirectResult {
  /** Never rejects, and perhaps never resolves. */
  readonly received: Promise<Json>
  close(): void
}

/** Receives the result of a run that is about to start. */
export function receiveResult(scope: WorkspaceScope, runId: string): DirectResult {
  const { promise, resolve } = Promise.withResolvers<Json>()
  const opened = channelsOf(scope).open(channelOf(scope, runId), {
    message: (bytes) => resolve((JSON.parse(bytes.toString()) as { result: Json }).result),
    lost: () => {},
  })
  // Without the channel the result comes through Temporal.
  opened.catch(() => {})
  return { received: promise, close: () => void opened.then((close) => close()).catch(() => {}) }
}

/** Call after the end of the run is durable. Does not wait and never throws. */
export function sendResult(scope: WorkspaceScope, runId: string, result: Json): void {
  const bytes = Buffer.from(JSON.stringify({ result }))
  if (bytes.byteLength > FUNCTION_LIMITS.directResultBytesMax) return
  channelsOf(scope)
    .send(channelOf(scope, runId), bytes)
    .catch(() => {})
}
