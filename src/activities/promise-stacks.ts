/** Switches off what the SDK notes of each promise of a workflow, and keeps what tells whose a promise is. */

import threads, { type WorkerOptions } from 'node:worker_threads'

/**
 * Evaluated in a thread before the SDK is: where Node has no such hooks, the SDK does without. By them it would also be, in
 * passing, who switches on the hooks of Node that carry an AsyncLocalStorage over each `await`. Switched on later, once there is a
 * context of workflows, they were found not to reach into it: what a branch begins after its first `await` belongs to no scope,
 * and is not cancelled with it. So a storage that nobody asks switches them on.
 */
const WITHOUT_STACKS = `data:text/javascript,
import { AsyncLocalStorage } from 'node:async_hooks'
import v8 from 'node:v8'
new AsyncLocalStorage().enterWith({})
v8.promiseHooks.createHook = undefined`

/**
 * Where each promise was made is told by the query `__stack_trace`, and costs three tenths of a workflow thread's time. Of an
 * interpreter it would show the interpreter; where a run stands is in its details, and in its record. To be called before
 * the first worker is made. A change of a module of Node that wants the pinned SDK (`lib/workflow/threaded-vm.js`).
 */
export function forgetPromiseStacks(): void {
  const { Worker } = threads
  threads.Worker = class extends Worker {
    constructor(file: string | URL, options?: WorkerOptions) {
      const imports = encodeURI(WITHOUT_STACKS)
      super(file, { ...options, execArgv: [...process.execArgv, '--import', imports] })
    }
  }
}
