/** More asynchronous runs than a worker has slots: they queue, and callers of another tenant do not wait for them. */

import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

const SLOTS = availableParallelism() * FUNCTION_LIMITS.slotsPerCore
/** More than run and wait in the worker, so that some are rejected and ask again. */
const RUNS = 2 * SLOTS + 14
const SLEEPS = 'export default ({ ms = 0 }) => new Promise((done) => setTimeout(done, ms, ms))'
/** Too long for an attempt within the workflow task: it needs an activity, as asynchronous runs do. */
const LONG = { timeout: '11s' }

test("more runs of a tenant than slots: all complete at their first attempt, and another tenant's call is answered meanwhile", async () => {
  const [loud, quiet] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const [busy, other] = [new FunctionRuns(loud), new FunctionRuns(quiet)]
  const id = await busy.deploy('busy', SLEEPS)
  const theirs = await other.deploy('other', SLEEPS, LONG)
  const started = await Promise.all(Array.from({ length: RUNS }, () => busy.start(id, { ms: 700 })))
  expect(await other.invoke(theirs, { ms: 1 })).toMatchObject({ status: 200, body: 1 })
  const open = await busy.ids(id, 'status=queued')
  expect(open.length).toBeGreaterThan(0)
  const ended = await Promise.all(started.map((run) => busy.ended(id, run, 30_000)))
  expect(ended.map(({ status, attempts }) => [status, attempts])).toEqual(Array(RUNS).fill(['completed', 1]))
})
