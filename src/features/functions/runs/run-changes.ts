/** Tells all processes that a run of a function has changed: its record or its lines, or that it is next for a slot. */

import { setTimeout as pause } from 'node:timers/promises'
import { internalsOf } from '../../../access/internals.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Notifier } from '../../../infra/valkey/notifier.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly runChanges: RunChanges
  }
}

/** Call after a write to a run of the workspace. Does not wait and never throws. */
export function notifyRunChanged(scope: WorkspaceScope, runId: string): void {
  internalsOf(scope).services.runChanges.notify(keyOf(scope, runId))
}

/** Watches a run of the workspace until it is stopped. */
export function watchRun(scope: WorkspaceScope, runId: string): RunWatch {
  return internalsOf(scope).services.runChanges.watch(keyOf(scope, runId))
}

const keyOf = ({ ref }: WorkspaceScope, runId: string) => `${ref.tenantId}:${ref.workspaceId}:${runId}`

/** The channel of ids of runs, and nothing of their content. */
export const RUNS_CHANNEL = 'tenon:function-runs'

export class RunChanges {
  readonly #notifier: Notifier
  readonly #watches = new Map<string, Set<RunWatch>>()

  constructor(notifier: Notifier) {
    this.#notifier = notifier
  }

  notify(key: string): void {
    this.#notifier.publish(key)
  }

  watch(key: string): RunWatch {
    this.#notifier.subscribe((changed) => {
      for (const one of this.#watches.get(changed) ?? []) one.wake()
    })
    const watches = this.#watches.get(key) ?? new Set()
    this.#watches.set(key, watches)
    const watch = new RunWatch(() => {
      watches.delete(watch)
      if (watches.size === 0 && this.#watches.get(key) === watches) this.#watches.delete(key)
    })
    watches.add(watch)
    return watch
  }

  close(): void {
    this.#notifier.close()
    for (const watch of [...this.#watches.values()].flatMap((each) => [...each])) watch.stop()
  }
}

/** The watch of one run by one reader. */
export class RunWatch {
  readonly #onStop: () => void
  #hasChanged = false
  #stopped = false
  #wake: (() => void) | undefined

  constructor(onStop: () => void) {
    this.#onStop = onStop
  }

  get isStopped(): boolean {
    return this.#stopped
  }

  /**
   * Resolves at the first change since the last call, after `maxMs`, or when the watch stops. Messages may be lost, so the
   * reader reads the run after each call.
   */
  async next(maxMs: number = FUNCTION_LIMITS.watchPollMs): Promise<void> {
    if (!this.#hasChanged && !this.#stopped) {
      const late = new AbortController()
      const changed = new Promise<void>((done) => {
        this.#wake = done
      })
      await Promise.race([changed, pause(maxMs, undefined, { signal: late.signal }).catch(() => {})])
      late.abort()
    }
    this.#hasChanged = false
  }

  wake(): void {
    this.#hasChanged = true
    this.#wake?.()
  }

  stop(): void {
    this.#stopped = true
    this.#wake?.()
    this.#onStop()
  }
}
