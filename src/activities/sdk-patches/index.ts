/**
 * Patches of Temporal's SDK. All concern the threads in which the SDK runs workflows: they replace Node's `Worker` class
 * before the SDK creates its threads.
 *
 * | patch | what it changes | what it earns |
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

/** The version whose messages between threads the patches know. */
const PATCHED_VERSION = '1.24.0'

/** To be called before the first worker is made. */
export function patchSdk({ TENON_SDK_PATCHES }: Pick<Config, 'TENON_SDK_PATCHES'>, log: Log): void {
  if (TENON_SDK_PATCHES === 'off') return
  if (sdk.version === PATCHED_VERSION) prepareWorkflowThreads()
  else log.warn({ version: sdk.version, patched: PATCHED_VERSION }, 'Temporal SDK runs without our patches')
}

/** Each is taken there as its text, so it refers to nothing outside of itself. */
const CHANGES = [disablePromiseStacks, watchActivations]

/** To be called before the first worker is made: the SDK makes its threads by Node's own class (`lib/workflow/threaded-vm.js`). */
export function prepareWorkflowThreads(): void {
  // Of the process's own flags a thread refuses some (those of V8), and needs this one.
  const kept = process.execArgv.filter((flag) => flag === '--enable-source-maps')
  const text = CHANGES.map((change) => `(${change})();`).join('\n')
  const execArgv = [...kept, '--import', `data:text/javascript,${encodeURIComponent(text)}`]
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
 * Where each promise was made is told by the query `__stack_trace`, and costs three tenths of a workflow thread's time. Of an
 * interpreter it would show the interpreter; where a run stands is in its details, and in its record. Where Node has no such
 * hooks, the SDK does without.
 *
 * By them it would also be, in passing, who switches on the hooks of Node that carry an AsyncLocalStorage over each `await`.
 * Switched on later, once there is a context of workflows, they were found not to reach into it: what a branch begins after its
 * first `await` belongs to no scope, and is not cancelled with it. So a storage that nobody asks switches them on.
 */
function disablePromiseStacks(): void {
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  const { promiseHooks } = process.getBuiltinModule('node:v8')
  new AsyncLocalStorage().enterWith({})
  Object.assign(promiseHooks, { createHook: undefined })
}
