/** The request queue of a workflow thread: order between tenants, on a clock that the test sets. */

import { expect, test } from 'vitest'
import { ThreadQueue, type ThreadRequest } from '../../../src/activities/sdk-patches/thread-queue.ts'

const tenantId = (name: string) => `ten_${name.repeat(26)}`

/** A queue before a thread that answers when the test tells it to. */
function createThread() {
  let now = 0
  let ids = 0n
  const sent: ThreadRequest[] = []
  const log: string[] = []
  const queue = new ThreadQueue(
    (request) => {
      sent.push(request)
      log.push(
        `${request.input.type.split('-')[0]} ${request.input.runId ?? request.input.options?.info.runId}`,
      )
    },
    () => now,
  )
  const push = (input: ThreadRequest['input']) => queue.push({ requestId: ids++, input })
  return {
    log,
    create: (tenant: string, runId: string) =>
      push({
        type: 'create-workflow',
        options: {
          info: { runId, workflowId: `${tenantId(tenant)}:ws_${'0'.repeat(26)}:flow_x:${runId}` },
        },
      }),
    activate: (runId: string) => push({ type: 'activate-workflow', runId }),
    extract: (runId: string) => push({ type: 'extract-sink-calls', runId }),
    /** Answers the oldest request after the thread was busy with it for this long. */
    answer: (ms: number) => {
      now += ms
      const request = sent.shift()
      if (request !== undefined) queue.answered({ requestId: request.requestId, ms })
    },
    pass: (ms: number) => {
      now += ms
    },
  }
}

/** Executions of one tenant that are known to take long. */
function busy(thread: ReturnType<typeof createThread>, runs: readonly string[], tenant = 'a'): void {
  for (const run of runs) {
    thread.create(tenant, run)
    thread.answer(1)
    thread.activate(run)
    thread.answer(100)
    thread.extract(run)
    thread.answer(1)
    thread.pass(5_000)
  }
  thread.log.length = 0
}

test('short requests: are sent in advance, so that the thread never waits', () => {
  const thread = createThread()
  for (const run of ['r1', 'r2', 'r3']) thread.create('a', run)
  expect(thread.log).toEqual(['create r1', 'create r2', 'create r3'])
})

test('long activations: are sent one at a time, with short requests of others in between', () => {
  const thread = createThread()
  busy(thread, ['h1', 'h2', 'h3'])
  for (const run of ['h1', 'h2', 'h3']) thread.activate(run)
  thread.create('b', 'q')
  expect(thread.log).toEqual(['activate h1'])
  thread.answer(100)
  expect(thread.log).toEqual(['activate h1', 'create q'])
})

test('execution of another tenant: runs to its end before the next long activation', () => {
  const thread = createThread()
  busy(thread, ['h1'])
  busy(thread, ['g1'], 'c')
  for (const run of ['h1', 'g1']) thread.activate(run)
  thread.create('b', 'q')
  thread.answer(100)
  thread.answer(1)
  thread.activate('q')
  thread.answer(2)
  thread.extract('q')
  expect(thread.log).toEqual(['activate h1', 'create q', 'activate q', 'extract q'])
  thread.answer(1)
  expect(thread.log.at(-1)).toBe('activate g1')
})

test('after a long activation: its tenant pauses for as long, except for short requests', () => {
  const thread = createThread()
  busy(thread, ['h1', 'h2'])
  for (const run of ['h1', 'h2']) thread.activate(run)
  thread.answer(100)
  expect(thread.log).toEqual(['activate h1'])
  thread.extract('h1')
  expect(thread.log).toEqual(['activate h1', 'extract h1'])
  thread.answer(1)
  thread.pass(90)
  thread.create('a', 'r1')
  expect(thread.log).toEqual(['activate h1', 'extract h1', 'create r1'])
  thread.answer(0)
  thread.pass(20)
  thread.extract('h1')
  thread.answer(0)
  expect(thread.log.slice(3)).toEqual(['extract h1', 'activate h2'])
})

test('two tenants with long activations: alternate', () => {
  const thread = createThread()
  busy(thread, ['h1', 'h2', 'h3'])
  busy(thread, ['g1', 'g2'], 'b')
  for (const run of ['h1', 'h2', 'h3', 'g1', 'g2']) thread.activate(run)
  for (let turn = 0; turn < 4; turn++) {
    thread.answer(100)
    // Longer than their pauses and anything that could follow.
    thread.pass(5_000)
    thread.create('c', `t${turn}`)
    thread.answer(0)
    thread.activate(`t${turn}`)
    thread.answer(0)
    thread.extract(`t${turn}`)
    thread.answer(0)
  }
  const turns = thread.log.filter((line) => /activate [gh]/.test(line)).map((line) => line.at(-2))
  expect(turns).toHaveLength(5)
  expect(turns.join('')).not.toMatch(/hhh/)
})

test('unexpected answer: changes nothing', () => {
  const thread = createThread()
  thread.create('a', 'r1')
  thread.answer(1)
  thread.answer(1)
  thread.activate('r1')
  expect(thread.log).toEqual(['create r1', 'activate r1'])
})
