/** The worker of the workflows written by hand: a process of its own, as the platform's is. Told where by its arguments. */

import { fileURLToPath } from 'node:url'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { HandActivities } from './baseline-workflows.ts'

const [address = '', taskQueue = ''] = process.argv.slice(2)
Runtime.install({ logger: new DefaultLogger('ERROR') })
// As our own worker has it: it helps every worker as much.
const connection = await NativeConnection.connect({ address, grpcCompression: { codec: 'none' } })
const activities: HandActivities = { get: async (url) => (await fetch(url)).json() }
const workflowsPath = fileURLToPath(new URL('hand-workflows.ts', import.meta.url))
const worker = await Worker.create({ connection, taskQueue, workflowsPath, activities })
process.stdin.resume().once('end', () => worker.shutdown())
const served = worker.run()
process.stdout.write('ready\n')
await served
await connection.close()
