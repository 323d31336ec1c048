/** Sets one watchdog per activation instead of one per call into the sandbox, and reports the CPU time it took. */

import type { Context, RunningScriptOptions, Script } from 'node:vm'

/** What the SDK asks of a thread, and is answered by its `requestId` (`lib/workflow/workflow-worker-thread.js`). */
interface Request {
  readonly requestId: bigint
  readonly input: { readonly type: string; readonly isolateExecutionTimeoutMs?: number }
}
interface Beginning {
  readonly cpu: number
  readonly clock: number
}
type Listener = (request: Request) => unknown

/**
 * A watchdog is a thread of the system that is made, and waited for, whenever one is set: of nine or ten for a short run, a tenth
 * of its latency. Set once around all calls of an activation, it ends what runs for too long as it did: the task fails, and the thread
 * goes on with the runs of others. Where the SDK begins and ends a run nothing of a tenant is there, and nothing is watched.
 *
 * Evaluated in a thread before the SDK is.
 */
export function watchActivations(): void {
  const { Script } = process.getBuiltinModule('node:vm')
  const { parentPort: port } = process.getBuiltinModule('node:worker_threads')
  if (port === null) return
  const { readFileSync } = process.getBuiltinModule('node:fs')
  let timeout = 0
  let work = () => {}
  /** The activation that runs, by its request; and what those took that are not answered yet, in ms. */
  const underWay = new Map<bigint, Beginning>()
  const took = new Map<bigint, number>()

  /** Of the processor, in ms; it is told with a delay of some milliseconds (proc(5), `schedstat`). */
  const cpuMs = () => {
    try {
      return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1_000_000
    } catch {
      return performance.now()
    }
  }
  const begin = (): Beginning => ({ cpu: cpuMs(), clock: performance.now() })
  const since = ({ cpu, clock }: Beginning): number => {
    const ms = performance.now() - clock
    // What is short is told by the clock, which the processor's time is behind; others of the machine had little of it.
    return ms > 20 ? Math.min(ms, cpuMs() - cpu) : ms
  }
  const measured = (requestId: bigint, run: () => void) => {
    underWay.set(requestId, begin())
    run()
    const beginning = underWay.get(requestId)
    if (beginning !== undefined) took.set(requestId, since(beginning))
    underWay.delete(requestId)
  }

  const { runInContext } = Script.prototype
  Script.prototype.runInContext = function (this: Script, context: Context, options?: RunningScriptOptions) {
    return runInContext.call(this, context, { ...options, timeout: undefined })
  }

  Object.defineProperty(globalThis, Symbol.for('tenon.activation'), { value: () => work() })
  const script = new Script(`globalThis[Symbol.for('tenon.activation')]()`)

  const watch = ({ requestId }: Request, answer: () => unknown) => {
    let isAnswered = false
    work = () => {
      answer()
      isAnswered = true
    }
    try {
      script.runInThisContext({ timeout })
    } catch (error) {
      const { message, name, stack } = error as Error
      // Where it has come in the last moment the SDK answers by itself.
      if (!isAnswered) port.postMessage({ requestId, result: { type: 'error', message, name, stack } })
    }
  }
  const watched = (listener: Listener) => (request: Request) => {
    const { type, isolateExecutionTimeoutMs } = request.input
    timeout = isolateExecutionTimeoutMs ?? timeout
    if (type === 'activate-workflow')
      measured(request.requestId, () => watch(request, () => listener(request)))
    else listener(request)
  }
  const { on, postMessage } = port
  Object.assign(port, {
    postMessage: (answer: { readonly requestId?: bigint }) => {
      const { requestId = -1n } = answer
      const beginning = underWay.get(requestId)
      const ms = beginning === undefined ? took.get(requestId) : since(beginning)
      underWay.delete(requestId)
      took.delete(requestId)
      postMessage.call(port, ms === undefined ? answer : { ...answer, ms })
    },
    on: (event: string, listener: Listener) =>
      on.call(port, event, event === 'message' ? watched(listener) : listener),
  })
}
