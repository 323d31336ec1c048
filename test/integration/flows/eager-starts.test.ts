/** Starts go by the worker of the machine, which has their first tasks at once; whatever is wrong there, they go on as before. */

import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { LIMITS } from '../../../src/core/limits.ts'
import { Runs } from '../../support/fixtures/executions.ts'
import { aRoom, eventually, type Room } from '../../support/fixtures/tenants.ts'
import { type ApiProcess, startApi } from '../../support/stack/api-process.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const WORKER = inject('tenon').env['TENON_EAGER_START_SOCKET'] ?? ''

/** What becomes of a start at the relay before the worker. */
type Manner = 'passes' | 'is slow' | 'loses the answer' | 'hangs' | 'refuses'
let manner: Manner = 'passes'
let asked = 0
/** How many are there, and how many were at most. */
let there = 0
let most = 0
let dir: string
let relay: Server
let node: ApiProcess
let room: Room
let runs: Runs
let flow: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-near-'))
  const socket = join(dir, 's')
  relay = createServer((incoming, reply) => void relayed(incoming, reply)).listen(socket)
  ;[node, room] = await Promise.all([startApi({ TENON_EAGER_START_SOCKET: socket }), aRoom()])
  runs = new Runs(room, node.at)
  flow = await runs.publish('- a: { set: { done: true } }')
})
afterAll(async () => {
  await node.stop()
  relay.close()
  await rm(dir, { recursive: true, force: true })
})
beforeEach(() => {
  asked = 0
})

async function relayed(incoming: IncomingMessage, reply: ServerResponse): Promise<void> {
  asked += 1
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer)
  if (manner === 'hangs') return
  most = Math.max(most, ++there)
  if (manner === 'is slow') await new Promise((done) => setTimeout(done, 300))
  there -= 1
  if (manner === 'refuses') return void reply.writeHead(503).end()
  const { status, text } = await post(Buffer.concat(parts))
  if (manner === 'loses the answer') incoming.socket.destroy()
  else reply.writeHead(status).end(text)
}

/** To the worker itself. */
function post(body: Uint8Array): Promise<{ status: number; text: string }> {
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

/** Starts one and waits for its end. @returns its workflow's id */
async function run(): Promise<string> {
  const { status, workflow_id } = await runs.ended(await runs.start(flow))
  expect(status).toBe('completed')
  return workflow_id
}

const isEager = (client: Client, id: string) =>
  client.workflow
    .getHandle(id)
    .fetchHistory()
    .then(({ events }) => events?.[0]?.workflowExecutionStartedEventAttributes?.eagerExecutionAccepted)

/** Again until the relay was asked: a worker that is late is left alone for a while. */
const untilAsked = (work: () => Promise<unknown>) =>
  eventually(async () => {
    await work()
    return asked > 0 ? true : undefined
  })

test('the worker that makes a start has its first task with the answer', async () => {
  manner = 'passes'
  await withRawClient((client) =>
    // Where a worker has its hands full, a task is polled for as ever.
    eventually(async () => ((await isEager(client, await run())) ? true : undefined)),
  )
  expect(asked).toBeGreaterThan(0)
})

test('of many starts of a tenant at once, most go the way on which tenants take turns', async () => {
  manner = 'is slow'
  await untilAsked(async () => {
    const count = 3 * LIMITS.eagerStart.perTenant
    const ids = await Promise.all(Array.from({ length: count }, () => runs.start(flow)))
    const ended = await Promise.all(ids.map((id) => runs.ended(id)))
    expect(new Set(ended.map(({ status }) => status))).toEqual(new Set(['completed']))
  })
  expect(most).toBeLessThanOrEqual(LIMITS.eagerStart.perTenant)
})

test.each<Manner>(['refuses', 'loses the answer', 'hangs'])(
  'a worker that %s holds up no start',
  async (how) => {
    manner = how
    await untilAsked(run)
  },
)

test('one that hung is left in peace for a while', async () => {
  manner = 'hangs'
  await untilAsked(run)
  const hungMs = performance.now()
  asked = 0
  await run()
  if (performance.now() - hungMs < LIMITS.eagerStart.restMs - LIMITS.eagerStart.waitMs) expect(asked).toBe(0)
})

test('what is no start of this namespace is refused, and the worker goes on', async () => {
  // Its namespace, as protobuf writes it, is `other`.
  const foreign = Buffer.from('\n\u0005other')
  const bodies = [
    Buffer.alloc(0),
    Buffer.from([0xff, 0xff]),
    foreign,
    Buffer.alloc(LIMITS.eagerStart.bytesMax + 1),
  ]
  const outcomes = await Promise.all(bodies.map((body) => post(body).then(({ status }) => status, String)))
  expect(outcomes.slice(0, 3)).toEqual([503, 503, 503])
  expect(outcomes[3]).not.toBe(200)
  const ours = new Runs(room)
  expect((await ours.ended(await ours.start(flow))).status).toBe('completed')
})
