/** Valkey hangs and crashes: data operations continue under local limits, administration gets 503, both recover. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Executions } from '../support/fixtures/executions.ts'
import { type Caller, call, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'
import { configure } from '../support/stack/workspace-settings.ts'
import { stopwatch } from '../support/stopwatch.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
/** An API node with a small limit. */
let node: Node

beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
  node = await startInProcessNode({ TENON_RATE_ANON_ADDRESS: '60/min burst 20' }, started.running)
})
afterAll(async () => {
  await node?.close()
  await own?.end()
})

const DOCUMENTS = '/v1/collections/notes/documents'
const read = (as: Caller = workspace.service, at = started.running) => call('GET', DOCUMENTS, { as, at })
const administer = () => call('GET', '/v1/tenants', { as: workspace.operator, at: started.running })

const LANES = 8
/** No request waits for Valkey longer than this, even on a slow machine. */
const ANSWER_MAX_MS = 10_000

interface Answer {
  readonly lane: number
  readonly askedMs: number
  readonly ms: number
  readonly status: number
}

/** Keeps reading in several lanes while `work` runs. @returns all answers */
async function underLoad(work: (answers: readonly Answer[]) => Promise<void>): Promise<Answer[]> {
  const answers: Answer[] = []
  let going = true
  const reader = async (lane: number) => {
    while (going) {
      const askedMs = performance.now()
      const { status } = await read()
      answers.push({ lane, askedMs, ms: performance.now() - askedMs, status })
    }
  }
  const lanes = Promise.all(Array.from({ length: LANES }, (_, lane) => reader(lane)))
  try {
    await work(answers)
  } finally {
    going = false
    await lanes
  }
  return answers
}

/** Expects every read to have succeeded in time. */
function expectReadsSucceeded(answers: readonly Answer[]): void {
  expect(answers.length).toBeGreaterThan(10)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(ANSWER_MAX_MS)
}

async function expectAdministrationRefused(): Promise<void> {
  const elapsedMs = stopwatch()
  const reply = await administer()
  expect([reply.status, reply.body.code]).toEqual([503, 'dependency_unavailable'])
  expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(elapsedMs()).toBeLessThan(ANSWER_MAX_MS)
}

const untilRecovered = () =>
  eventually(async () => ((await administer()).status === 200 ? true : undefined), 20_000)

test('Valkey hangs under load: reads succeed, administration gets 503, both recover', async () => {
  await untilRecovered()
  const answers = await underLoad(async (answers) => {
    await whileStopped(started, 'valkey', async () => {
      const sinceMs = performance.now()
      await expectAdministrationRefused()
      await expectAdministrationRefused()
      // Every lane is answered meanwhile; none waits for Valkey.
      await eventually(async () => {
        const lanes = new Set(answers.filter(({ askedMs }) => askedMs > sinceMs).map(({ lane }) => lane))
        return lanes.size === LANES ? true : undefined
      })
    })
    await untilRecovered()
  })
  expectReadsSucceeded(answers)
})

test('Valkey hangs: each process applies limits of its own', async () => {
  await configure(workspace, { anon: { collections: 'read' } }, started.running)
  await whileStopped(started, 'valkey', async () => {
    const replies = await Promise.all(Array.from({ length: 60 }, () => read(workspace.anon, node.at)))
    const passed = replies.filter(({ status }) => status === 200).length
    expect(passed).toBeGreaterThanOrEqual(20)
    expect(passed).toBeLessThanOrEqual(25)
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body['violated-policies']).toEqual(['address'])
    expect(refused?.headers.get('ratelimit')).toBe('"address";r=0;t=1')
  })
  await untilRecovered()
})

test('Prefer: wait while Valkey hangs: answered when the execution ends', async () => {
  const executions = new Executions(workspace, started.running)
  const name = await executions.publish('  - breath: { wait: { seconds: 1 } }\n')
  const path = `${workspace.flows}/definitions/${name}/executions`
  const headers = { prefer: 'wait=20' }
  const elapsedMs = stopwatch()
  const waiting = call('POST', path, { as: workspace.operator, at: started.running, headers, body: {} })
  await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions?flow=${name}`, {
      as: workspace.operator,
      at: started.running,
    })
    return body.data[0]?.status === 'waiting' ? true : undefined
  })
  await whileStopped(started, 'valkey', async () => {
    const { status, body } = await waiting
    expect([status, body.status]).toEqual([201, 'completed'])
    expect(elapsedMs()).toBeLessThan(15_000)
  })
  await untilRecovered()
})

test('Valkey crashes under load: reads succeed, administration recovers, limits apply again', async () => {
  const answers = await underLoad(async () => {
    killServer(started, 'valkey')
    const failed = await eventually(async () => {
      const { status } = await administer()
      expect([200, 503]).toContain(status)
      return status === 503 ? true : undefined
    }, 2_000).catch(() => undefined)
    // The supervisor may restart it before a request fails.
    if (failed !== undefined) await untilRecovered()
  })
  expectReadsSucceeded(answers)
  const reply = await read()
  expect(reply.headers.get('ratelimit-policy')).toContain('"key"')
})
