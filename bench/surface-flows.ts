/** Flows: one run from POST to its output, against a bare workflow on the same Temporal. */

import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { Running } from '../test/support/start.ts'
import { interleaved, print } from './measure.ts'
import { aRoom } from './room.ts'

const ROUNDS = 40
const QUEUE = 'bench-bare'

export async function flows(running: Running): Promise<void> {
  const { admin, workspaceId } = await aRoom(running)
  const base = `/v1/flows/workspaces/${workspaceId}`
  const source = `document: { dsl: '1.0.3', namespace: bench, name: one, version: '1.0.0' }\ndo:\n- one: { set: { n: 1 } }`
  await admin.post(`${base}/definitions`, source)
  await admin.post(`${base}/definitions/one/versions`, {})
  const bare = await bareWorkflow(running.env['TEMPORAL_ADDRESS'] ?? '')
  const figures = await interleaved(ROUNDS, {
    'bare workflow': bare.run,
    'flow of one set': () => admin.post(`${base}/definitions/one/executions`, { input: {} }, 30),
  })
  await bare.stop()
  print('\nflow, from start to its output', 'p50 ms', 'p99 ms', '× bare')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    print(name, p50Ms, p99Ms, p50Ms / figures['bare workflow'].p50Ms)
  }
}

async function bareWorkflow(
  address: string,
): Promise<{ run: () => Promise<unknown>; stop(): Promise<void> }> {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  const native = await NativeConnection.connect({ address })
  const workflowsPath = fileURLToPath(new URL('bare-workflow.ts', import.meta.url))
  const worker = await Worker.create({ connection: native, taskQueue: QUEUE, workflowsPath })
  const running = worker.run()
  const connection = await Connection.connect({ address })
  const client = new Client({ connection })
  let n = 0
  return {
    run: () =>
      client.workflow.execute('bare', { taskQueue: QUEUE, workflowId: `bare-${process.pid}-${n++}` }),
    stop: async () => {
      worker.shutdown()
      await running
      await Promise.all([native.close(), connection.close()])
    },
  }
}
