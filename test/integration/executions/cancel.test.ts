// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Cancels executions at each step: completed steps are compensated in reverse order, nothing else runs. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

const STEPS = [1, 2, 3, 4]
const gate = (n: number) => `listen: { to: { one: { with: { type: gate${n} } } } }`

/** Each step waits for its gate event, then writes an entry that its compensation reverts. */
const saga = (ledger: string) =>
  STEPS.map(
    (n) => `  - s${n}:
      do: [{ wait${n}: { ${gate(n)} } }, { note${n}: { ${createEntry(`did${n}`, ledger)} } }]
      compensate: [{ undo${n}: { ${createEntry(`undid${n}`, ledger)} } }]`,
  ).join('\n')

const waitsFor = (name: string) => (run: { steps: { name: string; status: string }[] }) =>
  run.steps.some((step) => step.name === name && step.status === 'running')

describe('cancel of a saga', () => {
  test.each([...STEPS, 5])(
    'cancelled before entry %i: compensates the entries written so far in reverse order',
    async (k) => {
      const ledger = unique('c')
      const flow = await executions.publish(`${saga(ledger)}\n  - wait5: { ${gate(5)} }`)
      const id = await executions.start(flow)
      const done = STEPS.filter((n) => n < k)
      for (const n of done) {
        await executions.until(id, waitsFor(`wait${n}`))
        await executions.send(id, 'signal', { event: { type: `gate${n}` } })
      }
      await executions.until(id, waitsFor(`wait${k}`))
      expect((await executions.send(id, 'cancel')).status).toBe(202)
      const run = await executions.ended(id)
      expect(run).toMatchObject({ status: 'cancelled', output: null })
      expect(await executions.ledger(ledger)).toEqual([
        ...done.map((n) => `did${n}`),
        ...done.toReversed().map((n) => `undid${n}`),
      ])
      expect(run.steps.filter(({ status }: { status: string }) => status === 'running')).toEqual([])
      expect(await executions.send(id, 'cancel')).toMatchObject({
        status: 409,
        body: { code: 'state_conflict' },
      })
    },
  )
})

/** Task types in which an execution waits; a cancel ends it in each of them (T36 among them). */
const WAITING: Readonly<Record<string, string>> = {
  wait: 'wait: P1D',
  listen: `${gate(1)}, timeout: { after: PT1H }`,
  approve: 'approve: { approvers: [somebody], deadline: PT1H }',
  'approve with a timeout': 'approve: { approvers: [somebody] }, timeout: { after: PT1H }',
  fork: 'fork: { branches: [{ a: { wait: P1D } }, { b: { approve: { approvers: [somebody] } } }] }',
  race: 'fork: { compete: true, branches: [{ a: { wait: P1D } }, { b: { wait: P1D } }] }',
  for: "for: { in: '${ [1, 2, 3] }', concurrency: 2 }, do: [{ a: { wait: P1D } }]",
  'retry delay': `try: [{ find: { call: collection.get, with: { name: x, id: 0198c0de-0000-7000-8000-000000000000 } } }],
      catch: { retry: { delay: P1D, limit: { attempt: { count: 3 } } } }`,
}

test.each(Object.keys(WAITING))('cancel while waiting in %s: compensates, ends cancelled', async (kind) => {
  const ledger = unique('c')
  const flow = await executions.publish(
    `  - did: { ${createEntry('did', ledger)}, compensate: [{ undo: { ${createEntry('undid', ledger)} } }] }
  - it: { ${WAITING[kind]} }
  - after: { ${createEntry('after', ledger)} }`,
  )
  const id = await executions.start(flow)
  await executions.until(id, ({ status, steps }) => status === 'waiting' && steps.length > 1)
  await executions.send(id, 'cancel')
  expect(await executions.ended(id)).toMatchObject({ status: 'cancelled', error: null })
  expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
  expect(await executions.send(id, 'approve', { approved: true })).toMatchObject({ status: 409 })
})

test('cancel while a faulted step is held: ends cancelled, refuses to retry the step', async () => {
  const find = 'call: collection.get, with: { name: x, id: 0198c0de-0000-7000-8000-000000000000 }'
  const id = await executions.start(
    await executions.publish(`  - find: { ${find} }`, { more: 'onFault: hold\n' }),
  )
  await executions.shown(id, 'suspended')
  await executions.send(id, 'cancel')
  expect(await executions.ended(id)).toMatchObject({ status: 'cancelled', suspended_because: null })
  expect(await executions.send(id, 'retry-step')).toMatchObject({ status: 409 })
})

test('approve by a caller that is no approver: refused with 409, execution keeps waiting', async () => {
  const flow = await executions.publish('  - ask: { approve: { approvers: [somebody], fourEyes: false } }')
  const id = await executions.start(flow)
  await executions.shown(id, 'waiting')
  expect(await executions.send(id, 'approve', { approved: true })).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining('is not an approver') },
  })
  expect(await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })).toMatchObject({
    body: { status: 'waiting' },
  })
  await executions.send(id, 'cancel')
  await executions.shown(id, 'cancelled')
})
