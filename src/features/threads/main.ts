/** The worker thread's entry point: runs one task after the other, as the pool sends them. */

import { parentPort } from 'node:worker_threads'
import { TASKS } from './tasks.ts'

parentPort?.on('message', ({ name, input }: { name: keyof typeof TASKS; input: never }) => {
  parentPort?.postMessage(outcomeOf(() => TASKS[name](input)))
})
parentPort?.postMessage({ ready: true })

function outcomeOf(work: () => unknown): { value: unknown } | { error: unknown } {
  try {
    return { value: work() }
  } catch (error) {
    return { error }
  }
}
