/** Starts the worker of the handwritten workflows and runs them. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'

const QUEUE = 'bench-hand'
let n = 0

export interface Baseline {
  readonly pid: number | undefined
  run(type: 'steps' | 'calls' | 'callsBeside' | 'fan', input: unknown): Promise<unknown>
  stop(): Promise<void>
}

export async function startBaseline(address: string): Promise<Baseline> {
  const worker = await startWorker(address)
  const connection = await Connection.connect({ address })
  const client = new Client({ connection })
  return {
    pid: worker.pid,
    run: (type, input) => {
      const workflowId = `hand-${process.pid}-${n++}`
      return client.workflow.execute(type, { taskQueue: QUEUE, workflowId, args: [input] })
    },
    stop: async () => {
      const ended = once(worker, 'exit')
      worker.stdin?.end()
      await Promise.all([ended, connection.close()])
    },
  }
}

/** The worker ends when its input closes, so that it never outlives the benchmark. */
async function startWorker(address: string): Promise<ChildProcess> {
  const file = fileURLToPath(new URL('baseline-worker.ts', import.meta.url))
  const worker = spawn(process.execPath, [...process.execArgv, file, address, QUEUE], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(worker.stdout, 'data')
  return worker
}
