/** `concurrency`: how many runs of a function there are at once; callers wait or queue, and slots survive crashes. */

import { beforeAll, expect, test } from 'vitest'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { asSuperuser, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let runs: FunctionRuns
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
})

const SLEEPS = 'export default ({ ms = 300 }) => new Promise((done) => setTimeout(done, ms, ms))'

interface Times {
  readonly started_at: string
  readonly ended_at: string
  readonly slot: string
}

/** The highest number of runs that went on at the same time. */
async function mostAtOnce(id: string): Promise<number> {
  const times = await asSuperuser<Times>(
    'select started_at::text, ended_at::text from tenon.function_runs where function_id = $1 order by started_at',
    [id],
  )
  return Math.max(
    ...times.map(
      ({ started_at: at }) => times.filter((one) => one.started_at <= at && one.ended_at > at).length,
    ),
  )
}

test.concurrent('callers that wait: no more at once than the limit, in their order, and all get their result', async () => {
  const id = await runs.deploy('two', SLEEPS, { concurrency: 2 })
  const replies = await Promise.all(Array.from({ length: 6 }, () => runs.invoke(id)))
  expect(replies.map(({ status, body }) => [status, body])).toEqual(Array(6).fill([200, 300]))
  expect(await mostAtOnce(id)).toBe(2)
})

test.concurrent('asynchronous runs: queue and run one after the other, between callers that wait', async () => {
  const id = await runs.deploy('one', SLEEPS, { concurrency: 1 })
  const queued = [await runs.start(id), await runs.start(id)]
  const waited = runs.invoke(id)
  const last = await runs.start(id)
  const ended = await Promise.all([...queued, last].map((run) => runs.ended(id, run)))
  expect(ended.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed'])
  expect((await waited).status).toBe(200)
  expect(await mostAtOnce(id)).toBe(1)
  const starts = ended.map(({ started_at }) => started_at)
  expect(starts).toEqual([...starts].sort())
})

test.concurrent('failed run: gives its slot back', async () => {
  const id = await runs.deploy('failing', 'export default () => { throw new Error("no") }', {
    concurrency: 1,
  })
  for (const _n of [1, 2, 3]) expect((await runs.invoke(id)).body.code).toBe('function_error')
})

test.concurrent('caller whose turn does not come in time: 429 function_busy with Retry-After, and nothing was run', async () => {
  const id = await runs.deploy('busy', SLEEPS, { concurrency: 1, timeout: '60s' })
  const held = await runs.start(id, { ms: 22_000 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const refused = await runs.invoke(id)
  expect([refused.status, refused.body.code]).toEqual([429, 'function_busy'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await runs.ids(id)).toEqual([held])
  await runs.ended(id, held)
  expect((await runs.invoke(id, { ms: 1 })).status).toBe(200)
}, 40_000)

test.concurrent('slot that a crash left behind: freed by the reconciler; the queue goes on', async () => {
  const id = await runs.deploy('crashed', SLEEPS, { concurrency: 1 })
  // As an API leaves it that is killed after its run got the slot, before its workflow is started.
  const lost = (await runs.invoke(id, { ms: 1 })).headers.get('x-run-id')
  await asSuperuser(
    `update tenon.function_runs set ended_at = null, status = 'queued', slot = 'held', due_at = now() + interval '1 second'
      where id = $1`,
    [lost],
  )
  const queued = await runs.start(id, { ms: 2 })
  expect(await runs.ended(id, queued)).toMatchObject({ status: 'completed', result: 2 })
  expect((await runs.read(id, lost ?? '')).error.code).toBe('run_cut_off')
})
