/**
 * Patches of Temporal's SDK. Three concern the threads in which the SDK runs workflows: they replace Node's `Worker` class
 * before the SDK creates its threads. The fourth concerns the client of the API.
 *
 * | patch | change | benefit |
 * |---|---|---|
 * | `watchdog.ts` | one watchdog per activation, instead of one per call into the sandbox | a tenth of the latency of three calls; the CPU time that `thread-queue.ts` needs |
 * | `disablePromiseStacks` | no stack is recorded for each promise | 30 % of a workflow thread's time |
 * | `thread-queue.ts` | tenants share the thread by the CPU time that they use | isolation: decision 26 |
 * | `eager-starts.ts`, `eager-start-server.ts` | a start goes through a worker of the machine, which gets its first task at once | 0.79 of the latency of a short flow |
 *
 * They fit one version of the SDK. With another version, or with `TENON_SDK_PATCHES=off`, the worker runs unpatched: slower,
 * and tenants are served in order of arrival. `npm run test:soak` runs the whole suite that way.
 */

import threads, { type WorkerOptions } from 'node:worker_threads'
import type { Config } from '../../infra/config.ts'
import type { Log } from '../../infra/log.ts'
import { isPatched } from './sdk-version.ts'
import { type ThreadAnswer, ThreadQueue, type ThreadRequest } from './thread-queue.ts'
import { watchActivations } from './watchdog.ts'

/** Applies the patches. Must be called before the first worker is created. */
export function patchSdk(config: Pick<Config, 'TENON_SDK_PATCHES'>, log: Log): void {
  if (isPatched(config, log)) prepareWorkflowThreads()
}

/** Functions that run in each thread before the SDK. They are passed as source text, so they must not refer to anything outside. */
const PRELOADS = [disablePromiseStacks, watchActivations]

/**
 * Replaces Node's `Worker` class, by which the SDK creates its threads (`lib/workflow/threaded-vm.js`). Must be called before
 * the first worker is created.
 */
export function prepareWorkflowThreads(): void {
  // Threads reject V8 flags of the process, and need this flag.
  const flags = process.execArgv.filter((flag) => flag === '--enable-source-maps')
  const text = PRELOADS.map((preload) => `(${preload})();`).join('\n')
  const execArgv = [...flags, '--import', `data:text/javascript,${encodeURIComponent(text)}`]
  const { Worker } = threads
  threads.Worker = class extends Worker {
    readonly #queue = new ThreadQueue((request) => super.postMessage(request))

    constructor(file: string | URL, options?: WorkerOptions) {
      super(file, { ...options, execArgv })
      this.on('message', (answer: ThreadAnswer) => this.#queue.answered(answer))
    }

    override postMessage(request: ThreadRequest): void {
      this.#queue.push(request)
    }
  }
}

/**
 * Disables the promise hooks by which the SDK records a stack for each promise, for the query `__stack_trace`. They cost 30 % of
 * a workflow thread's time and would only show the interpreter; the current step of an execution is in its details and its
 * record. The SDK gets hooks that are never called: without any it writes a line to the console of each thread.
 *
 * As a side effect these hooks also enable the ones that carry an AsyncLocalStorage over each `await`. If those are enabled only
 * after a workflow context exists, they do not work in it: work that a branch starts after its first `await` belongs to no
 * cancellation scope. So an unused AsyncLocalStorage enables them here.
 */
function disablePromiseStacks(): void {
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  const { promiseHooks } = process.getBuiltinModule('node:v8')
  new AsyncLocalStorage().enterWith({})
  Object.assign(promiseHooks, { createHook: () => () => {} })
}
