/**
 * The record sink: how long writing an execution's final record may delay its task, and how it is retried
 * afterwards.
 */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Access } from '../../../src/access/access.ts'
import type { PlatformServices } from '../../../src/access/internals.ts'
import { recordSink } from '../../../src/activities/flow/record-sink.ts'
import { WorkLog } from '../../../src/activities/work-log.ts'
import { Problem } from '../../../src/core/problem.ts'
import type { Json } from '../../../src/core/work.ts'
import { EXECUTION } from '../../../src/features/flows/executions/concurrency.ts'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import type { Log } from '../../../src/infra/log.ts'
import type { Sql } from '../../../src/infra/postgres/sql.ts'

const UUID = '01890a5d-ac96-774b-bcce-b302099a8057'
const ID = 'exec_01h455vb4pex5vsknk084sn02q'
const WORKFLOW = `ten_01h455vb4pex5vsknk084sn02q:ws_01h455vb4pex5vsknk084sn02q:flow_1:${UUID}`

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => vi.useRealTimers())

/** A sink whose writes fail with the given errors, one after the other, and then succeed. */
function sinkOf(...failures: readonly unknown[]) {
  const seen = { writes: 0, outputs: [] as unknown[], errors: [] as unknown[] }
  const statements = {
    batch: async (_context: unknown, [{ values }]: readonly [Sql]) => {
      const failure = failures[seen.writes++]
      if (failure !== undefined) throw failure
      const ending = values.find((value) => value?.startsWith('{'))
      seen.outputs.push(JSON.parse(ending ?? '{}').output)
      return [[{ id: ID }]]
    },
  }
  const services = { statements, runWatcher: { notify: () => {} }, runKinds: [{ name: EXECUTION }] }
  const access = new Access(services as unknown as PlatformServices)
  const log = { error: ({ err }: { err: unknown }) => seen.errors.push(err) } as unknown as Log
  const { write } = recordSink(access, { log, work: new WorkLog(log) }, async () => undefined)
  const run = ({ workflowId = WORKFLOW, output = null }: { workflowId?: string; output?: Json } = {}) => {
    const ended = { is: false }
    const update = { execution_id: ID, status: 'completed', steps: [], output } as const
    void Promise.resolve(write.fn({ workflowId, searchAttributes: {} } as never, update)).then(() => {
      ended.is = true
    })
    return ended
  }
  return { seen, run }
}

const away = () => new Problem('dependency_unavailable')

test('record: the database is away: the task waits, and the record is written once when it is back', async () => {
  const { seen, run } = sinkOf(away(), away(), away())
  const ended = run()
  await vi.advanceTimersByTimeAsync(100)
  expect(ended.is).toBe(false)
  await vi.advanceTimersByTimeAsync(2_000)
  expect([ended.is, seen.writes, seen.errors]).toEqual([true, 4, []])
})

test("record: the task's time is over: the task ends, and the record is written in the background", async () => {
  const { seen, run } = sinkOf(...Array.from({ length: 100 }, away))
  const ended = run()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(ended.is).toBe(false)
  await vi.advanceTimersByTimeAsync(FLOW_LIMITS.recordRetry.taskMs)
  expect(ended.is).toBe(true)
  await vi.advanceTimersByTimeAsync(100_000)
  expect([seen.writes, seen.errors]).toEqual([101, []])
})

test('record: an error of the platform: the task does not wait, and the background retries once per execution', async () => {
  const { seen, run } = sinkOf(...Array.from({ length: 10 }, () => new Error('a fault')))
  const ended = [run(), run()]
  await vi.advanceTimersByTimeAsync(10)
  expect(ended.map(({ is }) => is)).toEqual([true, true])
  await vi.advanceTimersByTimeAsync(60_000)
  expect([seen.writes, seen.errors]).toEqual([11, []])
})

test('record: a repeated task ends otherwise while the first record waits: the newest is written last', async () => {
  const { seen, run } = sinkOf(...Array.from({ length: 4 }, () => new Error('a fault')))
  run({ output: 'first' })
  await vi.advanceTimersByTimeAsync(10)
  run({ output: 'second' })
  await vi.advanceTimersByTimeAsync(60_000)
  expect([seen.outputs.at(-1), seen.errors]).toEqual(['second', []])
})

test('record: rejected for good, or belongs to another execution: is only logged', async () => {
  const notFound = new Problem('not_found')
  const first = sinkOf(notFound)
  first.run()
  const second = sinkOf()
  second.run({ workflowId: WORKFLOW.replace(UUID, UUID.replace('8057', '8058')) })
  await vi.advanceTimersByTimeAsync(10)
  expect([{ writes: first.seen.writes, errors: first.seen.errors }, second.seen.writes]).toEqual([
    { writes: 1, errors: [notFound] },
    0,
  ])
  expect(second.seen.errors).toMatchObject([{ code: 'forbidden' }])
})
