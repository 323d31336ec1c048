/** Records of executions: few writes, no missing steps, correct after a write was lost. */

import { expect, test } from 'vitest'
import type { StepUpdate } from '../../../src/core/execution.ts'
import { confirmEnd, recordEnding, recordExecution } from '../../../src/features/flows/executions/record.ts'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import { asSuperuser, createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const MARKER = 25

test('many concurrent branches: their steps are written in batches', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const fakeServer = await FakeServers.open({ '/': () => ({ json: {} }) })
  try {
    await allowLoopback(workspace, fakeServer)
    const name = await executions.publish(
      `  - all: { for: { each: n, in: '\${ [range(40)] }', concurrency: 40 }, do: [ { one: { call: http, with: { method: get, endpoint: '${fakeServer.origin}/' }, metadata: { tenon: { local: false } } } } ] }\n`,
    )
    const run = await executions.ended(await executions.start(name))
    expect(run.error).toBeNull()
    const calls = run.steps.filter(({ name }: { name: string }) => name === 'one')
    expect(calls).toHaveLength(40)
    expect(new Set(calls.map(({ status }: { status: string }) => status))).toEqual(new Set(['completed']))
    const { events } = await withRawClient((client) =>
      client.workflow.getHandle(run.workflow_id).fetchHistory(),
    )
    const writes = events?.filter(({ eventType }) => eventType === MARKER).length ?? 0
    expect(writes).toBeGreaterThan(0)
    // Each write waits for the one before and includes what happened since; the batch size depends on how busy the
    // machine is.
    expect(writes).toBeLessThan(calls.length / 2)
  } finally {
    await fakeServer.close()
  }
})

test('branch completes while another waits: its steps are shown as completed', async () => {
  const executions = new Executions(await createTestWorkspace())
  const id = await executions.start(
    await executions.publish(`  - both:
      fork:
        branches:
          - short: { do: [ { rest: { wait: { milliseconds: 300 } } }, { note: { set: { n: 1 } } } ] }
          - long: { listen: { to: { one: { with: { type: never } } } } }
`),
  )
  const statuses = ({ steps }: Shown) =>
    Object.fromEntries(steps.map(({ name, status }: { name: string; status: string }) => [name, status]))
  const run = await executions.until(id, (record) => statuses(record)['note'] === 'completed')
  expect(statuses(run)).toMatchObject({ rest: 'completed', short: 'completed', long: 'running' })
  expect(run.status).toBe('waiting')
})

test('lost write, repeated in another order: the record shows the repeated write', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const id = await executions.start(
    await executions.publish('  - a: { listen: { to: { one: { with: { type: never } } } } }\n'),
  )
  await executions.shown(id, 'waiting')
  const platform = openInProcessPlatform()
  try {
    const scope = scopeOf(platform, workspace)
    const step = (seq: number, name: string, iteration: number): StepUpdate => ({
      ...{ seq, name, iteration, kind: 'set', pointer: `/do/${name}`, path: `${name}~x${iteration}` },
      ...{ summary: name, status: 'running', started_at: new Date(iteration * 1_000).toISOString() },
    })
    const write = (...steps: StepUpdate[]) =>
      recordExecution(scope, { execution_id: id, status: 'running', steps })
    await write(step(7, 'left', 1), step(8, 'right', 2))
    await write(step(7, 'right', 2))
    await write(step(8, 'left', 3))
    const steps = (await executions.read(id)).steps.slice(1)
    expect(steps).toMatchObject([
      { seq: 7, name: 'right', pointer: '/do/right', iteration: 2, started_at: '1970-01-01T00:00:02.000Z' },
      { seq: 8, name: 'left', pointer: '/do/left', iteration: 3, started_at: '1970-01-01T00:00:03.000Z' },
    ])
  } finally {
    await platform.close()
  }
})

test('end that Temporal refused, written after the progress of the next task: dropped', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const execution_id = await executions.start(
    await executions.publish('  - a: { listen: { to: { one: { with: { type: never } } } } }\n'),
  )
  await executions.shown(execution_id, 'waiting')
  const platform = openInProcessPlatform()
  try {
    const scope = scopeOf(platform, workspace)
    const at = new Date().toISOString()
    const step = { seq: 0, name: 'a', iteration: 0, kind: 'listen', pointer: '/do/a', path: 'a', summary: '' }
    const [later, earlier] = [Date.now() + 60_000, Date.now() + 30_000]
    const open = [{ ...step, status: 'running' as const, started_at: at }]
    await recordExecution(scope, { execution_id, status: 'running', steps: open, order: [later, 4] })
    const closed = [{ ...step, status: 'cancelled' as const, started_at: at, ended_at: at }]
    const end = { execution_id, status: 'completed', steps: closed, ended_at: at } as const
    await recordEnding(scope, { ...end, order: [earlier, 900] })
    expect(await confirmEnd(scope, execution_id, 'completed')).toBe(false)
    const record = await executions.read(execution_id)
    expect([record.status, record.steps[0].status]).toEqual(['running', 'running'])
  } finally {
    await platform.close()
  }
})

/**
 * The ends of three workflow tasks, as their workers write them, and the progress that the third one recorded before: the second
 * task has seen more of the history than the first, and the third belongs to a later run, whose history is shorter.
 */
const LATER_MS = Date.now() + 3_600_000
const ENDS = [
  { order: [LATER_MS, 4_100], status: 'completed', output: { n: 1 } },
  { order: [LATER_MS, 4_117], status: 'faulted', error: { title: 'No', status: 500 } },
  { order: [LATER_MS + 1, 60], status: 'completed', output: { n: 3 } },
] as const

test.each([
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
])(
  'ends that are written in the order %i, %i, %i: the record ends as the latest workflow task says, and stays so',
  async (...places) => {
    const workspace = await createTestWorkspace()
    const executions = new Executions(workspace)
    const wait = '  - a: { listen: { to: { one: { with: { type: never } } } } }\n'
    const execution_id = await executions.start(await executions.publish(wait))
    await executions.shown(execution_id, 'waiting')
    const platform = openInProcessPlatform()
    try {
      const scope = scopeOf(platform, workspace)
      for (const place of places) {
        const { order, ...end } = ENDS[place] as (typeof ENDS)[number]
        const step = { seq: 9, name: `end${place}`, iteration: 0, kind: 'set', pointer: '/do/e', path: 'e' }
        const at = new Date(place * 1_000).toISOString()
        const steps = [{ ...step, summary: '', status: 'completed' as const, started_at: at, ended_at: at }]
        await recordEnding(scope, { execution_id, steps, ended_at: at, order, ...end })
      }
      expect(await confirmEnd(scope, execution_id, 'completed')).toBe(true)
      const record = await executions.read(execution_id)
      expect(record).toMatchObject({ status: 'completed', output: { n: 3 }, error: null })
      expect(record.steps.at(-1)).toMatchObject({ name: 'end2' })
      for (const change of [
        "status = 'faulted'",
        'ended_at = now()',
        'ended_at = null',
        "status = 'running', ended_at = null",
      ])
        await expect(
          asSuperuser(`update tenon.executions set ${change} where id = $1`, [execution_id]),
        ).rejects.toThrow('has ended as completed')
    } finally {
      await platform.close()
    }
  },
)
