/**
 * Patches of Temporal's SDK. All concern the threads in which the SDK runs workflows: they replace Node's `Worker` class
 * before the SDK creates its threads.
 *
 * | patch | change | benefit |
 * |---|---|---|
 * | `watchdog.ts` | one watchdog per activation, instead of one per call into the sandbox | a tenth of the latency of three calls; the CPU time that `thread-queue.ts` needs |
 * | `disablePromiseStacks` | no stack is recorded for each promise | 30 % of a workflow thread's time |
 * | `thread-queue.ts` | tenants share the thread by the CPU time that they use | isolation: decision 26 |
 *
 * They fit one version of the SDK. With another version, or with `TENON_SDK_PATCHES=off`, the worker runs unpatched: slower,
 * and tenants are served in order of arrival. `npm run test:soak` runs the whole suite that way.
 */

import threads, { type WorkerOptions } from 'node:worker_threads'
import sdk from '@temporalio/worker/package.json' with { type: 'json' }
import type { Config } from '../../infra/config.ts'
import type { Log } from '../../infra/log.ts'
import { type ThreadAnswer, ThreadQueue, type ThreadRequest } from './thread-queue.ts'
import { watchActivations } from './watchdog.ts'

/** The SDK version whose thread messages the patches are written for. */
const PATCHED_VERSION = '1.24.0'

/** Applies the patches. Must be called before the first worker is created. */
export function patchSdk({ TENON_SDK_PATCHES }: Pick<Config, 'TENON_SDK_PATCHES'>, log: Log): void {
  if (TENON_SDK_PATCHES === 'off') return
  if (sdk.version === PATCHED_VERSION) prepareWorkflowThreads()
  else log.warn({ version: sdk.version, patched: PATCHED_VERSION }, 'sdk patches skipped')
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
 * record. The SDK runs without these hooks if Node does not have them.
 *
 * As a side effect these hooks also enable the ones that carry an AsyncLocalStorage over each `await`. If those are enabled only
 * after a workflow context exists, they do not work in it: work that a branch starts after its first `await` belongs to no
 * cancellation scope. So an unused AsyncLocalStorage enables them here.
 */
function disablePromiseStacks(): void {
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  const { promiseHooks } = process.getBuiltinModule('node:v8')
  new AsyncLocalStorage().enterWith({})
  Object.assign(promiseHooks, { createHook: undefined })
}
