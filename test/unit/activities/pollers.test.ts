/** The readiness of a worker process: each of its workers runs and polls; one that has no room polls on purpose no more. */

import { expect, test } from 'vitest'
import { checkPollers, type QueueWorker } from '../../../src/activities/workers.ts'
import { QUEUES } from '../../../src/core/work.ts'
import type { IdleQueue } from '../../../src/infra/health-report.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'

interface State {
  readonly runState?: string
  readonly inFlight?: number
  readonly ageMs?: number
}

/** A worker as the SDK describes it. */
function workerOf(
  queue: string,
  { runState = 'RUNNING', inFlight = 0, ageMs = INFRA_LIMITS.workerGoneMs + 1 }: State = {},
): QueueWorker {
  const worker = {
    getState: () => runState,
    getStatus: () => ({ numInFlightNonLocalActivities: inFlight }),
  } as unknown as QueueWorker['worker']
  return { queue, worker, slots: 4, createdMs: performance.now() - ageMs }
}

const idle = (...queues: string[]) => queues.map((queue): IdleQueue => ({ queue, since: null, detail: '' }))

/** The finding; undefined if the process is ready. */
const check = (
  workers: readonly QueueWorker[] | undefined,
  idleQueues: () => Promise<readonly IdleQueue[]>,
): Promise<string | undefined> =>
  checkPollers(workers, idleQueues).then(
    () => undefined,
    (error: Error) => error.message,
  )

const { flows, indexes } = QUEUES

test.each<[string, State, readonly IdleQueue[], RegExp | undefined]>([
  ['polls', {}, [], undefined],
  [
    'does not poll, with room',
    { inFlight: 3 },
    idle(indexes),
    /task queue tenon-indexes any more.*restart it/,
  ],
  ['does not poll, without room', { inFlight: 4 }, idle(indexes), undefined],
  ['has just begun', { ageMs: 0 }, idle(indexes), undefined],
  ['has failed', { runState: 'FAILED' }, [], /tenon-indexes is FAILED/],
])('worker: %s: the process is ready, or says which queue', async (_, state, queues, finding) => {
  const found = await check([workerOf(flows), workerOf(indexes, state)], async () => queues)
  if (finding === undefined) expect(found).toBeUndefined()
  else expect(found).toMatch(finding)
})

test('workers: not created yet: the process is not ready', async () => {
  expect(await check(undefined, async () => [])).toContain('waits for Temporal')
})

test('Temporal: away: that is its own check', async () => {
  const away = () => Promise.reject(new Error('away'))
  expect(await check([workerOf(flows)], away)).toBeUndefined()
})
