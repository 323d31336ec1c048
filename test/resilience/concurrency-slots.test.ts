/** Worker crashes while executions hand on slots: the limit holds, every execution runs. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { asSuperuser, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Started } from '../support/stack/start.ts'

const RUNS = repeated(9, 18)
/** The worker is killed when that many executions have ended. */
const STRIKES = [2, ...(RUNS > 9 ? [7, 12] : [5])]
const LIMIT = 3

let own: SharedPlatform
let started: Started
let workspace: TestWorkspace
let call: SharedPlatform['call']
beforeAll(async () => {
  own = await sharedPlatform()
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())
beforeEach(() => own.forgetCrashes())

const createTask = (task: string, name: string) =>
  `  - ${task}: { call: collection.create, with: { name: ${name}, document: { n: '\${ .n }', what: ${task} } } }\n`
/** Executions keep or yield their slot while they wait. */
const sourceOf = (
  name: string,
  keeps: boolean,
) => `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }
concurrency: { limit: ${LIMIT}, holdWhileWaiting: ${keeps} }
do:
${createTask('begun', name)}
  - rest: { wait: { milliseconds: ${keeps ? 100 : 600} }, output: { as: '\${ $workflow.input }' } }
${createTask('rested', name)}`

interface Counts {
  readonly ended: number
  readonly admitted: number
}

async function readCounts(flow: string): Promise<Counts> {
  const [row] = await asSuperuser<Counts>(
    `select (select count(*)::int from tenon.executions where flow_id = $1 and ended_at is not null) as ended,
      (select count(*)::int from tenon.run_slots where owner_id = $1 and state = 'admitted') as admitted`,
    [flow],
    started.running,
  )
  return row ?? { ended: 0, admitted: 0 }
}

test.each([
  ['few', true],
  ['fewer', false],
])(
  'worker crashes repeatedly, flow %s, holdWhileWaiting %s: never more than three executions at once, each runs once',
  async (name, keeps) => {
    const as = workspace.operator
    const source = sourceOf(name, keeps)
    const { body: flow } = await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
    expect(flow.diagnostics).toEqual([])
    await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as, body: {} })
    const path = `${workspace.flows}/definitions/${name}/executions`
    const replies = await Promise.all(
      Array.from({ length: RUNS }, (_, n) => call('POST', path, { as, body: { input: { n } } })),
    )
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: RUNS }, () => 201))
    let maxAdmitted = 0
    for (const strike of [...STRIKES, RUNS]) {
      await eventually(async () => {
        const { ended, admitted } = await readCounts(flow.id)
        maxAdmitted = Math.max(maxAdmitted, admitted)
        return ended >= strike ? true : undefined
      }, 120_000)
      if (strike === RUNS) break
      await eventually(async () => started.stack.supervisor.pid('worker'))
      killServer(started, 'worker')
    }
    expect(maxAdmitted).toBeLessThanOrEqual(LIMIT)
    const listed = `${workspace.flows}/executions?flow=${name}&status=completed&page[size]=200`
    expect((await call('GET', listed, { as })).body.data).toHaveLength(RUNS)
    const made = await call('GET', `/v1/collections/${name}/documents?page[size]=200`, {
      as: workspace.service,
    })
    const done = made.body.data.map(({ n, what: task }: { n: number; what: string }) => `${task} ${n}`)
    const all = Array.from({ length: RUNS }, (_, n) => [`begun ${n}`, `rested ${n}`])
    expect(done.toSorted()).toEqual(all.flat().toSorted())
  },
)
