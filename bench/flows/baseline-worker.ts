/**
 * Runs the worker of the handwritten workflows as a process of its own, as the platform's is. Gets its
 * addresses as arguments.
 */

import { fileURLToPath } from 'node:url'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { BaselineActivities } from './baseline-workflows.ts'

const [address = '', taskQueue = ''] = process.argv.slice(2)
Runtime.install({ logger: new DefaultLogger('ERROR') })
// The same setting as of our own worker: it helps every worker equally.
const connection = await NativeConnection.connect({ address, grpcCompression: { codec: 'none' } })
const activities: BaselineActivities = { get: async (url) => (await fetch(url)).json() }
const workflowsPath = fileURLToPath(new URL('baseline-workflows.ts', import.meta.url))
const worker = await Worker.create({ connection, taskQueue, workflowsPath, activities })
process.stdin.resume().once('end', () => worker.shutdown())
const served = worker.run()
process.stdout.write('ready\n')
await served
await connection.close()
