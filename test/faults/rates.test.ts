/** Valkey hangs and dies: data goes on under limits of each process, administration says so, and both come back. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiProcess, startApi } from '../support/api-process.ts'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import { Runs } from '../support/runs.ts'
import type { Started } from '../support/start.ts'
import { type Caller, call, eventually, type Reply, type Room } from '../support/tenants.ts'

let own: OwnPlatform
let started: Started
let room: Room
/** With a small limit. */
let node: ApiProcess

beforeAll(async () => {
  own = await ownPlatform()
  started = own.started
  room = own.room
  node = await startApi({ TENON_RATE_ANON_ADDRESS: '60/min burst 20' }, started.running)
}, 120_000)
afterAll(async () => {
  await node?.stop()
  await own?.end()
})

const DOCUMENTS = '/v1/collections/notes/documents'
const read = (as: Caller = room.service, at = started.running) => call('GET', DOCUMENTS, { as, at })
const administer = () => call('GET', '/v1/tenants', { as: room.operator, at: started.running })

function pidOf(name: string): number {
  const pid = started.stack.supervisor.pid(name)
  if (pid === undefined) throw new Error(`${name} does not run`)
  return pid
}

interface Timed {
  readonly reply: Reply
  readonly ms: number
}

async function timed(work: () => Promise<Reply>): Promise<Timed> {
  const startedMs = performance.now()
  return { reply: await work(), ms: performance.now() - startedMs }
}

/** Lanes of readers while `work` is done. @returns all their answers */
async function underLoad(work: () => Promise<void>): Promise<Timed[]> {
  const answers: Timed[] = []
  let going = true
  const lane = async () => {
    while (going) answers.push(await timed(() => read()))
  }
  const lanes = Promise.all(Array.from({ length: 8 }, lane))
  try {
    await work()
  } finally {
    going = false
    await lanes
  }
  return answers
}

/** Whatever happens to Valkey: reads go on, and none waits for it to come back. */
function expectUnharmed(answers: readonly Timed[]): void {
  expect(answers.length).toBeGreaterThan(10)
  expect(new Set(answers.map(({ reply }) => reply.status))).toEqual(new Set([200]))
  expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(2_000)
}

async function expectRefused(): Promise<void> {
  const { reply, ms } = await timed(administer)
  expect([reply.status, reply.body.code]).toEqual([503, 'dependency_unavailable'])
  expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(ms).toBeLessThan(3_000)
}

const expectBack = () =>
  eventually(async () => ((await administer()).status === 200 ? true : undefined), 20_000)

test('Valkey hangs under load: data 200, administration 503, and both are well when it goes on', async () => {
  await expectBack()
  const pid = pidOf('valkey')
  const answers = await underLoad(async () => {
    process.kill(pid, 'SIGSTOP')
    try {
      await expectRefused()
      await expectRefused()
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await expectBack()
  })
  expectUnharmed(answers)
}, 60_000)

test('while it hangs, each process has limits of its own', async () => {
  const pid = pidOf('valkey')
  process.kill(pid, 'SIGSTOP')
  try {
    const replies = await Promise.all(Array.from({ length: 60 }, () => read(room.anon, node.at)))
    const passed = replies.filter(({ status }) => status === 200).length
    expect(passed).toBeGreaterThanOrEqual(20)
    expect(passed).toBeLessThanOrEqual(25)
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body['violated-policies']).toEqual(['address'])
    expect(refused?.headers.get('ratelimit')).toBe('"address";r=0;t=1')
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await expectBack()
}, 60_000)

test('who waits for a run is answered although nobody can tell of its end', async () => {
  const runs = new Runs(room, started.running)
  const name = await runs.publish('  - breath: { wait: { seconds: 1 } }\n')
  const path = `${room.flows}/definitions/${name}/executions`
  const headers = { prefer: 'wait=20' }
  const waiting = timed(() =>
    call('POST', path, { as: room.operator, at: started.running, headers, body: {} }),
  )
  await eventually(async () => {
    const { body } = await call('GET', `${room.flows}/executions?flow=${name}`, {
      as: room.operator,
      at: started.running,
    })
    return body.data[0]?.status === 'waiting' ? true : undefined
  })
  const pid = pidOf('valkey')
  process.kill(pid, 'SIGSTOP')
  try {
    const { reply, ms } = await waiting
    expect([reply.status, reply.body.status]).toEqual([201, 'completed'])
    expect(ms).toBeLessThan(15_000)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await expectBack()
}, 60_000)

test('Valkey dies under load: the same, and the script is known to the one that comes after it', async () => {
  const answers = await underLoad(async () => {
    process.kill(pidOf('valkey'), 'SIGKILL')
    const seen = await eventually(async () => {
      const { status } = await administer()
      expect([200, 503]).toContain(status)
      return status === 503 ? true : undefined
    }, 2_000).catch(() => undefined)
    // The supervisor may be faster than we are: then nobody noticed.
    if (seen !== undefined) await expectBack()
  })
  expectUnharmed(answers)
  const reply = await read()
  expect(reply.headers.get('ratelimit-policy')).toContain('"key"')
}, 60_000)
