/** Runs a worker on the platform's Temporal for workflows that do almost nothing. */

import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { Running } from '../test/support/stack/start.ts'
import type { BareActivities } from './bare-workflows.ts'

const QUEUE = 'bench-bare'
let installed = false
let n = 0

export interface Bare {
  run(
    type: 'bare' | 'bareCall' | 'bareLocalCall' | 'bareLaterCall' | 'bareSteps',
    input?: unknown,
  ): Promise<unknown>
  stop(): Promise<void>
}

export async function bareWorkflows({ env }: Running): Promise<Bare> {
  if (!installed) Runtime.install({ logger: new DefaultLogger('ERROR') })
  installed = true
  const address = env['TEMPORAL_ADDRESS'] ?? ''
  const native = await NativeConnection.connect({ address })
  const workflowsPath = fileURLToPath(new URL('bare-workflows.ts', import.meta.url))
  const activities: BareActivities = {
    answer: async () => ({ sum: 3 }),
    answerLater: () => delay(10, { sum: 3 }),
  }
  const worker = await Worker.create({ connection: native, taskQueue: QUEUE, workflowsPath, activities })
  const served = worker.run()
  const connection = await Connection.connect({ address })
  const client = new Client({ connection })
  return {
    run: (type, input) => {
      const workflowId = `bare-${process.pid}-${n++}`
      return client.workflow.execute(type, { taskQueue: QUEUE, workflowId, args: [input] })
    },
    stop: async () => {
      worker.shutdown()
      await served
      await Promise.all([native.close(), connection.close()])
    },
  }
}
