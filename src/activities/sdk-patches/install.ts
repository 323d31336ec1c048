/** Prepares the threads in which the SDK runs workflows: changes what Node offers before the SDK is loaded. */

import threads, { type WorkerOptions } from 'node:worker_threads'
import { forgetPromiseStacks } from './promise-hooks.ts'
import { type ThreadAnswer, ThreadQueue, type ThreadRequest } from './thread-queue.ts'
import { watchActivations } from './watchdog.ts'

/** Each is taken there as its text, so it refers to nothing outside of itself. */
const CHANGES = [forgetPromiseStacks, watchActivations]

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
