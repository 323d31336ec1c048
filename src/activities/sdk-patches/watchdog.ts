/** Sets one watchdog per activation instead of one per call into the sandbox, and reports the CPU time of the activation. */

import type { Context, RunningScriptOptions, Script } from 'node:vm'

/** A request of the SDK to a thread; the response has the same `requestId` (`lib/workflow/workflow-worker-thread.js`). */
interface Request {
  readonly requestId: bigint
  readonly input: {
    readonly type: string
    readonly runId?: string
    readonly isolateExecutionTimeoutMs?: number
  }
}
/** A response of a thread: of an activation its completion, or of `extract-sink-calls` the calls of the last one. */
interface Response {
  readonly requestId?: bigint
  readonly result?: {
    readonly type: string
    readonly output?: {
      readonly completion?: { readonly failed?: unknown }
      readonly calls?: readonly unknown[]
    }
  }
}
/** The CPU time and the clock at the start of an activation, in ms. */
interface StartTimes {
  readonly cpu: number
  readonly clock: number
}
type Listener = (request: Request) => unknown

/**
 * Node creates a system thread for each `timeout` of a script and waits for it to end. The SDK sets nine or ten of them for a
 * short workflow, which is a tenth of its latency. One around all calls of an activation has the same effect: an activation that
 * runs too long fails its workflow task, and the thread continues with other workflows. Creating and disposing of a workflow
 * run no code of a tenant, so they have no watchdog.
 *
 * The SDK carries out the sink calls of an activation also if it has failed, and Temporal gets no result of it. Those of a failed
 * one are dropped here: the record of an execution must not end while its workflow goes on.
 *
 * This function runs in a thread before the SDK is loaded, and must not refer to anything outside.
 */
export function watchActivations(): void {
  const { Script } = process.getBuiltinModule('node:vm')
  const { parentPort: port } = process.getBuiltinModule('node:worker_threads')
  if (port === null) return
  const { readFileSync } = process.getBuiltinModule('node:fs')
  const FOLLOWED = ['activate-workflow', 'extract-sink-calls']
  let timeout = 0
  let activate = () => {}
  /** Running activations, by request. */
  const running = new Map<bigint, StartTimes>()
  /** The times of activations that have ended without a response yet, in ms. */
  const tookMs = new Map<bigint, number>()

  /** The runs of requests without a response, and those whose last activation has failed. */
  const runs = new Map<bigint, string>()
  const failed = new Set<string>()

  /** The CPU time of this thread in ms. The kernel updates it with a delay of a few milliseconds (proc(5), `schedstat`). */
  const cpuMs = () => {
    try {
      return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1_000_000
    } catch {
      return performance.now()
    }
  }
  const now = (): StartTimes => ({ cpu: cpuMs(), clock: performance.now() })
  const since = ({ cpu, clock }: StartTimes): number => {
    const ms = performance.now() - clock
    // Short times are measured by the clock, since the CPU time lags behind. Other processes can take little of them.
    return ms > 20 ? Math.min(ms, cpuMs() - cpu) : ms
  }
  const measure = (requestId: bigint, run: () => void) => {
    running.set(requestId, now())
    run()
    const start = running.get(requestId)
    if (start !== undefined) tookMs.set(requestId, since(start))
    running.delete(requestId)
  }

  const { runInContext } = Script.prototype
  Script.prototype.runInContext = function (this: Script, context: Context, options?: RunningScriptOptions) {
    return runInContext.call(this, context, { ...options, timeout: undefined })
  }

  Object.defineProperty(globalThis, Symbol.for('tenon.activation'), { value: () => activate() })
  const script = new Script(`globalThis[Symbol.for('tenon.activation')]()`)

  const watch = ({ requestId }: Request, answer: () => unknown) => {
    let isAnswered = false
    activate = () => {
      answer()
      isAnswered = true
    }
    try {
      script.runInThisContext({ timeout })
    } catch (error) {
      const { message, name, stack } = error as Error
      // If the timeout came after the listener had returned, the SDK responds itself.
      if (!isAnswered) port.postMessage({ requestId, result: { type: 'error', message, name, stack } })
    }
  }
  const watched = (listener: Listener) => (request: Request) => {
    const { type, runId, isolateExecutionTimeoutMs } = request.input
    if (runId !== undefined && FOLLOWED.includes(type)) runs.set(request.requestId, runId)
    if (runId !== undefined && type === 'dispose-workflow') failed.delete(runId)
    timeout = isolateExecutionTimeoutMs ?? timeout
    if (type === 'activate-workflow')
      measure(request.requestId, () => watch(request, () => listener(request)))
    else listener(request)
  }
  const withoutFailed = (response: Response): Response => {
    const { requestId = -1n, result } = response
    const runId = runs.get(requestId)
    runs.delete(requestId)
    if (runId === undefined || result === undefined) return response
    const { completion, calls } = result.output ?? {}
    if (calls !== undefined && failed.delete(runId))
      return { ...response, result: { ...result, output: { ...result.output, calls: [] } } }
    if (result.type === 'error' || completion?.failed) failed.add(runId)
    return response
  }
  const { on, postMessage } = port
  Object.assign(port, {
    postMessage: (response: Response) => {
      const answer = withoutFailed(response)
      const { requestId = -1n } = answer
      const start = running.get(requestId)
      const ms = start === undefined ? tookMs.get(requestId) : since(start)
      running.delete(requestId)
      tookMs.delete(requestId)
      postMessage.call(port, ms === undefined ? answer : { ...answer, ms })
    },
    on: (event: string, listener: Listener) =>
      on.call(port, event, event === 'message' ? watched(listener) : listener),
  })
}
