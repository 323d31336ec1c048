/**
 * Eager starts through the local worker: the first task arrives with the start, and starts succeed if the worker
 * fails.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type ApiProcess, startApi } from '../../support/stack/api-process.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const WORKER = inject('tenon').env['TENON_EAGER_START_SOCKET'] ?? ''

/** How the relay in front of the worker treats a start. */
type RelayBehaviour = 'passes' | 'is slow' | 'waits for Temporal' | 'loses the response' | 'hangs' | 'refuses'
let behaviour: RelayBehaviour = 'passes'
let relayedStarts = 0
/** Starts in progress at the relay, and the highest number so far. */
let inProgress = 0
let maxInProgress = 0
let dir: string
let relay: Server
let node: ApiProcess
let workspace: TestWorkspace
let executions: Executions
let flow: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-near-'))
  const socket = join(dir, 's')
  relay = createServer((incoming, reply) => void relayStart(incoming, reply)).listen(socket)
  ;[node, workspace] = await Promise.all([
    startApi({ TENON_EAGER_START_SOCKET: socket, TENON_SDK_PATCHES: 'on' }),
    createTestWorkspace(),
  ])
  executions = new Executions(workspace, node.at)
  flow = await executions.publish('- a: { set: { done: true } }')
})
afterAll(async () => {
  await node.stop()
  relay.close()
  await rm(dir, { recursive: true, force: true })
})
beforeEach(() => {
  relayedStarts = 0
})

async function relayStart(incoming: IncomingMessage, reply: ServerResponse): Promise<void> {
  relayedStarts += 1
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer)
  if (behaviour === 'hangs') return
  maxInProgress = Math.max(maxInProgress, ++inProgress)
  if (behaviour === 'waits for Temporal') {
    reply.writeProcessing()
    await new Promise((done) => setTimeout(done, 1.2 * INFRA_LIMITS.eagerStart.waitMs))
  }
  if (behaviour === 'is slow') await new Promise((done) => setTimeout(done, 300))
  inProgress -= 1
  if (behaviour === 'refuses') return void reply.writeHead(503).end()
  const { status, text } = await sendToWorker(Buffer.concat(parts))
  if (behaviour === 'loses the response') incoming.socket.destroy()
  else reply.writeHead(status).end(text)
}

/** Sends a start to the worker itself. */
function sendToWorker(body: Uint8Array): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath: WORKER, method: 'POST' }, (reply) => {
      let text = ''
      reply.on('data', (part) => {
        text += part
      })
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text }))
    })
    sent.on('error', reject).end(body)
  })
}

/** Starts an execution and waits until it completes. @returns its workflow id */
async function run(): Promise<string> {
  const { status, workflow_id } = await executions.ended(await executions.start(flow))
  expect(status).toBe('completed')
  return workflow_id
}

const isEager = (client: Client, id: string) =>
  client.workflow
    .getHandle(id)
    .fetchHistory()
    .then(({ events }) => events?.[0]?.workflowExecutionStartedEventAttributes?.eagerExecutionAccepted)

/** Repeats `work` until the relay receives a request: after a timeout the worker is not asked for a while. */
const untilRelayed = (work: () => Promise<unknown>) =>
  eventually(async () => {
    await work()
    return relayedStarts > 0 ? true : undefined
  })

test('start through the local worker: its first task is delivered with the response', async () => {
  behaviour = 'passes'
  await withRawClient((client) =>
    // A busy worker polls for the task as usual.
    eventually(async () => ((await isEager(client, await run())) ? true : undefined)),
  )
  expect(relayedStarts).toBeGreaterThan(0)
})

test("more concurrent starts of a tenant than its share: the rest start through Temporal's fair queue", async () => {
  behaviour = 'is slow'
  await untilRelayed(async () => {
    const count = 3 * INFRA_LIMITS.eagerStart.perTenantMax
    const ids = await Promise.all(Array.from({ length: count }, () => executions.start(flow)))
    const ended = await Promise.all(ids.map((id) => executions.ended(id)))
    expect(new Set(ended.map(({ status }) => status))).toEqual(new Set(['completed']))
  })
  expect(maxInProgress).toBeLessThanOrEqual(INFRA_LIMITS.eagerStart.perTenantMax)
})

test('worker that waits long for Temporal: makes the start nevertheless, and gets the next one', async () => {
  behaviour = 'waits for Temporal'
  await untilRelayed(run)
  relayedStarts = 0
  let runs = 0
  await withRawClient((client) =>
    eventually(async () => {
      runs += 1
      return (await isEager(client, await run())) ? true : undefined
    }),
  )
  await run()
  expect(relayedStarts).toBe(runs + 1)
})

test.each<RelayBehaviour>(['refuses', 'loses the response', 'hangs'])(
  'worker that %s: the start succeeds anyway',
  async (fault) => {
    behaviour = fault
    await untilRelayed(run)
  },
)

test('worker that hung: gets no starts for a while', async () => {
  behaviour = 'hangs'
  await untilRelayed(run)
  const hungMs = performance.now()
  relayedStarts = 0
  await run()
  if (performance.now() - hungMs < INFRA_LIMITS.eagerStart.pauseMs - INFRA_LIMITS.eagerStart.waitMs)
    expect(relayedStarts).toBe(0)
})

test('malformed start or other namespace: refused with 503, the worker keeps working', async () => {
  // Its namespace, in protobuf encoding, is `other`.
  const foreign = Buffer.from('\n\u0005other')
  const bodies = [
    Buffer.alloc(0),
    Buffer.from([0xff, 0xff]),
    foreign,
    Buffer.alloc(INFRA_LIMITS.eagerStart.bytesMax + 1),
  ]
  const outcomes = await Promise.all(
    bodies.map((body) => sendToWorker(body).then(({ status }) => status, String)),
  )
  expect(outcomes.slice(0, 3)).toEqual([503, 503, 503])
  expect(outcomes[3]).not.toBe(200)
  const ours = new Executions(workspace)
  expect((await ours.ended(await ours.start(flow))).status).toBe('completed')
})
