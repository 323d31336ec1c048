/**
 * Runs the same three calls on Zigflow, a flow language on Temporal in Go, if `ZIGFLOW` names its program.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'

const QUEUE = 'zigflow'
const TYPE = 'calls'
/** By default it listens on all interfaces, on ports that may be taken. */
const LOOPBACK = ['health', 'metrics'].flatMap((what) => [`--${what}-listen-address`, '127.0.0.1:0'])
let n = 0

export interface Zigflow {
  readonly pid: number | undefined
  run(): Promise<unknown>
  stop(): Promise<void>
}

/** @returns undefined if the program is not there */
export async function zigflow(address: string, url: string): Promise<Zigflow | undefined> {
  const program = process.env['ZIGFLOW']
  if (program === undefined) return undefined
  const dir = await mkdtemp(join(tmpdir(), 'tenon-zigflow-'))
  const file = join(dir, 'calls.yaml')
  await writeFile(file, source(url))
  const settings = ['--disable-telemetry', '-l', 'warn', ...LOOPBACK]
  const worker = spawn(program, ['run', '-f', file, '-H', address, ...settings], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const connection = await Connection.connect({ address })
  const client = new Client({ connection })
  const stop = async () => {
    await end(worker)
    await Promise.all([connection.close(), rm(dir, { recursive: true, force: true })])
  }
  const run = () => {
    const workflowId = `zigflow-${process.pid}-${n++}`
    return client.workflow.execute(TYPE, { taskQueue: QUEUE, workflowId, args: [{}] })
  }
  // Its first execution waits until it listens.
  await Promise.race([run(), delay(20_000).then(() => Promise.reject(new Error('Zigflow does not answer')))])
  return { pid: worker.pid, run, stop }
}

function source(url: string): string {
  const get = (name: string) => `  - ${name}: { call: http, with: { method: get, endpoint: '${url}' } }`
  return [
    `document: { dsl: 1.0.0, taskQueue: ${QUEUE}, workflowType: ${TYPE}, version: 0.0.1, title: Calls }`,
    'do:',
    ...['one', 'two', 'three'].map(get),
    '',
  ].join('\n')
}

async function end(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null) return
  const ended = once(worker, 'exit')
  worker.kill()
  await ended
}
