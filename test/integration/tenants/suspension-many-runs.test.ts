/** Suspends a tenant with many executions: all stop within 5 s, all continue, each effect happens once. */

import { expect, test } from 'vitest'
import { publish, resume, start, suspend } from '../../support/fixtures/suspension.ts'
import { asSuperuser, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import { slowdown } from '../../support/stopwatch.ts'

const SLEEP_SECONDS = repeated(15, 30)
const SLEEPER = `  - sleep: { wait: { seconds: ${SLEEP_SECONDS} } }
  - write: { call: collection.create, with: { name: done, document: {} } }
`
const BUSY = `  - keep:
      for: { each: n, in: .all }
      do:
        - put: { call: collection.create, with: { name: kept, document: { n: '\${ $n }' } } }
        - rest: { wait: { milliseconds: 400 } }
`
const SLEEPERS = repeated(60, 200)
const BUSY_ONES = 20
/** They last longer than it takes to start all and to suspend the tenant. */
const all = Array.from({ length: repeated(20, 30) }, (_, n) => n)

test('suspend with many sleeping and 20 busy executions: stop within 5 s, complete after resume', async () => {
  const workspace = await createTestWorkspace()
  await publish(workspace, 'sleeper', SLEEPER)
  await publish(workspace, 'busy', BUSY)
  /** The value of a query with one row and one column. */
  const queryNumber = async (question: string) => {
    const [row] = await asSuperuser<{ answer: string | null }>(`select ${question} as answer`, [
      workspace.tenantId,
    ])
    return Number(row?.answer)
  }
  const startSome = (flow: string) =>
    Promise.all(Array.from({ length: BUSY_ONES }, () => start(workspace, flow, { all })))
  for (let started = 0; started < SLEEPERS; started += BUSY_ONES) await startSome('sleeper')
  await startSome('busy')
  const startedCount = '(select count(distinct execution_id) from tenon.execution_steps where tenant_id = $1)'
  await eventually(
    async () => ((await queryNumber(startedCount)) === SLEEPERS + BUSY_ONES ? true : undefined),
    60_000,
  )

  const suspendedMs = Date.now()
  await suspend(workspace)
  const open = 'from tenon.executions where tenant_id = $1 and ended_at is null'
  await eventually(
    async () => ((await queryNumber(`(select count(*) ${open} and not suspended)`)) === 0 ? true : undefined),
    5_000,
  )
  const shownMs = Date.now() - suspendedMs
  const until = suspendedMs + 7_000
  await eventually(async () => (Date.now() > until ? true : undefined))
  const last = 'extract(epoch from (select max(created_at) from tenon.documents where tenant_id = $1)) * 1000'
  const lastMs = (await queryNumber(last)) - suspendedMs
  console.log(`shown as held after ${shownMs} ms, last effect after ${Math.round(lastMs)} ms`)
  expect(lastMs).toBeLessThan(5_000 * slowdown())

  await resume(workspace)
  await eventually(
    async () => ((await queryNumber(`(select count(*) ${open})`)) === 0 ? true : undefined),
    240_000,
  )
  const documents = '(select count(*) from tenon.documents where tenant_id = $1)'
  expect(await queryNumber(documents)).toBe(SLEEPERS + BUSY_ONES * all.length)
})
