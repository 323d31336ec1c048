/** Processes that have code and wait, stopped, for the next invocation of the same version. */

import { FUNCTION_LIMITS } from '../limits.ts'
import type { FunctionProcess } from './process.ts'

const { sandbox: limits } = FUNCTION_LIMITS

/** Only root lowers the niceness of a process. */
const MAY_LOWER = process.getuid?.() === 0

export interface WarmProcess {
  /** Tenant, workspace, function, version and memory. */
  readonly key: string
  readonly process: FunctionProcess
  /** Invocations that it has served. */
  readonly calls: number
  readonly busyMs: number
  readonly startedMs: number
}

interface Idle extends WarmProcess {
  readonly sinceMs: number
  readonly memoryMb: number
}

export class IdleProcesses {
  /** The one that was used last is the last. */
  #idle: Idle[] = []
  readonly #sweeper = setInterval(() => this.#sweep(), limits.sweepMs).unref()

  /**
   * Takes the process with this code that was used last; it stays stopped until its next invocation.
   * @param nicenessMax a process with a higher one is taken only if it can be lowered, which takes root
   */
  take(key: string, nicenessMax: number): WarmProcess | undefined {
    const fits = ({ process }: Idle) => MAY_LOWER || (process.niceness ?? 0) <= nicenessMax
    const found = this.#idle.findLast((each) => each.key === key && each.process.isAlive && fits(each))
    if (found === undefined) return undefined
    this.#idle = this.#idle.filter((each) => each !== found)
    return found
  }

  /** Keeps a stopped process, or kills it if it has served long enough. Those that were not used for longest make room. */
  put(warm: WarmProcess, durationMs: number): void {
    const { process } = warm
    const used = { ...warm, calls: warm.calls + 1, busyMs: warm.busyMs + durationMs }
    const memoryMb = process.residentKb() / 1_024
    if (!process.isAlive || isWornOut(used, memoryMb)) {
      process.kill()
      return
    }
    this.#idle.push({ ...used, sinceMs: performance.now(), memoryMb })
    while (this.#idle.length > limits.idleProcessesMax || this.#memoryMb() > limits.idleMemoryMb)
      this.#idle.shift()?.process.kill()
  }

  /** Forgets all processes; their owner kills them. */
  close(): void {
    clearInterval(this.#sweeper)
    this.#idle = []
  }

  #memoryMb(): number {
    return this.#idle.reduce((sum, { memoryMb }) => sum + memoryMb, 0)
  }

  #sweep(): void {
    const latestMs = performance.now() - limits.idleMs
    for (const { process, sinceMs } of this.#idle) if (sinceMs < latestMs) process.kill()
    this.#idle = this.#idle.filter(({ process }) => process.isAlive)
  }
}

function isWornOut({ process, calls, busyMs, startedMs }: WarmProcess, memoryMb: number): boolean {
  const limitMb = FUNCTION_LIMITS.memoryBaseMb + process.memoryMb * limits.reuseMemoryShare
  const isOld = performance.now() - startedMs > limits.ageMs
  return calls >= limits.callsMax || busyMs > limits.busyMs || isOld || memoryMb > limitMb
}
