/** Follows an execution: reads it at each change, until it ends or the time is over. */

import { setTimeout as pause } from 'node:timers/promises'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { watchRun } from '../../runs/watcher.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { EXECUTION } from './concurrency.ts'
import { type Execution, readExecution } from './executions.ts'

interface FollowOptions {
  readonly id: string
  readonly waitMs: number
  /** Ends the wait, not the execution. */
  readonly signal?: AbortSignal
  /** Called with the execution as it is, and after changes, at most twice a second. @returns true to stop following */
  readonly onChange: (execution: Execution) => boolean
}

/** @returns the execution as it was read last. @throws Problem `not_found` */
export async function followExecution(
  scope: WorkspaceScope,
  { id, waitMs, signal, onChange }: FollowOptions,
): Promise<Execution> {
  const { watched, stop } = watchRun(scope, EXECUTION, id)
  const ended = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  const unsubscribe = watched.onEnd(ended.resolve)
  const timer = setTimeout(over.resolve, waitMs)
  const until = performance.now() + waitMs
  const stopWaiting = () => over.resolve()
  signal?.addEventListener('abort', stopWaiting, { once: true })
  try {
    for (;;) {
      // Subscribes before it reads, so that no change is missed.
      const change = watched.nextChange()
      const execution = await readExecution(scope, id)
      const isOver = performance.now() >= until || signal?.aborted === true
      if (execution.ended_at !== null || onChange(execution) || isOver) return execution
      await Promise.race([change, ended.promise, over.promise])
      // Changes come in bursts: one read for those of the next half second.
      await Promise.race([
        pause(FLOW_LIMITS.followPollMs, undefined, { ref: false }),
        ended.promise,
        over.promise,
      ])
    }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stopWaiting)
    unsubscribe()
    stop()
  }
}
