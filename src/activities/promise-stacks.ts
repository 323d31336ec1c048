/** Switches off what the SDK notes of each promise of a workflow. */

import threads, { type WorkerOptions } from 'node:worker_threads'

/** Evaluated in a thread before the SDK is: where Node has no such hooks, the SDK does without. */
const WITHOUT_HOOKS = `data:text/javascript,import v8 from 'node:v8'; v8.promiseHooks.createHook = undefined`

/**
 * Where each promise was made is told by the query `__stack_trace`, and costs three tenths of a workflow thread's time. Of an
 * interpreter it would show the interpreter; where a run stands is in its details, and in its record. To be called before
 * the first worker is made. A change of a module of Node that wants the pinned SDK (`lib/workflow/threaded-vm.js`).
 */
export function forgetPromiseStacks(): void {
  const { Worker } = threads
  threads.Worker = class extends Worker {
    constructor(file: string | URL, options?: WorkerOptions) {
      super(file, { ...options, execArgv: [...process.execArgv, '--import', WITHOUT_HOOKS] })
    }
  }
}
