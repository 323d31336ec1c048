// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Attacks on approvals: a decision holds for what was shown, not for what replaces it later. */

import { beforeAll, describe, expect, test } from 'vitest'
import { Executions, type Shown } from '../support/fixtures/executions.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
let mallory: Caller
let bob: Caller
let carol: Caller
let asSubject: (sub: string) => Promise<Caller>

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  asSubject = (sub) => tokenOf({ sub, roles: ['workspace_admin'], ...place })
  mallory = await asSubject('mallory')
  bob = await asSubject('bob')
  carol = await asSubject('carol')
})

const paymentTask = (payments: string, sum: string) =>
  `  - pay: { call: collection.create, with: { name: ${payments}, document: { entry: '\${ ${sum} | tostring }' } } }`

/** A step in which an approver decides about a sum that is paid afterwards. */
const approvalTask = (approvers = 'bob, mallory, carol', more = '') =>
  `  - board: { approve: { title: '\${ "Pay \\($workflow.input.sum)?" }', approvers: [${approvers}]${more} } }`

/** Starts the flow as mallory, and has bob approve. @returns the execution, which has ended */
async function startApproved(flow: string, input: object): Promise<string> {
  const id = await executions.start(flow, { input }, mallory)
  await executions.shown(id, 'waiting')
  expect((await executions.send(id, 'approve', { approved: true }, mallory)).status).toBe(409)
  expect((await executions.send(id, 'approve', { approved: true }, bob)).status).toBe(200)
  await executions.shown(id, 'completed')
  return id
}

const names = (steps: readonly { name: string }[]) => steps.map(({ name }) => name)

/** Reruns from `pay`, which requires a new decision. @returns the new execution, which waits */
async function expectAskedAgain(
  id: string,
  body: object,
  as: Caller,
  reason: RegExp,
  step = 'board',
): Promise<Shown> {
  const dry = await executions.send(id, 'rerun', { from: 'pay', dry_run: true, ...body }, as)
  expect(names(dry.body.plan.reused)).not.toContain(step)
  expect(names(dry.body.plan.again)).toContain(step)
  expect(dry.body.plan.approvals_repeated).toMatchObject([
    { name: step, reason: expect.stringMatching(reason) },
  ])
  const made = await executions.send(id, 'rerun', { from: 'pay', ...body }, as)
  expect([made.status, made.body.plan]).toEqual([201, dry.body.plan])
  return executions.shown(made.body.id, 'waiting')
}

describe('rerun of an approved execution', () => {
  test('other input: requires a new decision, pays only what was approved', async () => {
    const payments = unique('c')
    const flow = await executions.publish(
      `${approvalTask()}\n${paymentTask(payments, '$workflow.input.sum')}`,
    )
    const id = await startApproved(flow, { sum: 40 })
    const again = await expectAskedAgain(id, { input: { sum: 1_000_000 } }, mallory, /input/)
    expect(await executions.ledger(payments)).toEqual(['40'])
    expect((await executions.send(again.id, 'approve', { approved: true }, mallory)).status).toBe(409)
    expect((await executions.send(again.id, 'approve', { approved: true }, carol)).status).toBe(200)
    const { steps } = await executions.shown(again.id, 'completed')
    expect(await executions.ledger(payments)).toEqual(['40', '1000000'])
    expect(steps.find(({ name }: { name: string }) => name === 'board')).toMatchObject({ reused: false })
  })

  test('other input not shown in the title: requires a new decision', async () => {
    const payments = unique('c')
    const flow = await executions.publish(
      `  - board: { approve: { title: 'Pay?', approvers: [bob] } }\n${paymentTask(payments, '$workflow.input.sum')}`,
    )
    await expectAskedAgain(await startApproved(flow, { sum: 40 }), { input: { sum: 41 } }, mallory, /input/)
    expect(await executions.ledger(payments)).toEqual(['40'])
  })

  test('newer version: requires a new decision', async () => {
    const payments = unique('c')
    const tasks = `${approvalTask()}\n${paymentTask(payments, '$workflow.input.sum')}`
    const flow = await executions.publish(tasks)
    const id = await startApproved(flow, { sum: 40 })
    await executions.publish(tasks.replace('| tostring', '* 1000 | tostring'), { name: flow })
    await expectAskedAgain(id, { version: 2 }, mallory, /version/)
    expect(await executions.ledger(payments)).toEqual(['40'])
  })

  test('by the approver: requires a decision of another one', async () => {
    const payments = unique('c')
    const flow = await executions.publish(
      `${approvalTask()}\n${paymentTask(payments, '$workflow.input.sum')}`,
    )
    const again = await expectAskedAgain(await startApproved(flow, { sum: 40 }), {}, bob, /bob/)
    expect((await executions.send(again.id, 'approve', { approved: true }, bob)).status).toBe(409)
    expect((await executions.send(again.id, 'approve', { approved: true }, carol)).status).toBe(200)
    await executions.shown(again.id, 'completed')
  })

  test('unchanged, by another person: reuses the decision, also in a rerun of the rerun', async () => {
    const payments = unique('c')
    const flow = await executions.publish(
      `${approvalTask()}\n${paymentTask(payments, '$workflow.input.sum')}`,
    )
    let id = await startApproved(flow, { sum: 40 })
    for (const as of [mallory, carol]) {
      const made = await executions.send(id, 'rerun', { from: 'pay', input: { sum: 40 } }, as)
      expect([names(made.body.plan.reused), made.body.plan.approvals_repeated]).toEqual([['board'], []])
      const run = await executions.shown(made.body.id, 'completed')
      expect(run.steps[0]).toMatchObject({ name: 'board', reused: true })
      id = run.id
    }
    expect(await executions.ledger(payments)).toEqual(['40', '40', '40'])
    await expectAskedAgain(id, { input: { sum: 41 } }, mallory, /input/)
  })

  test('context differs at the step: requires a new decision', async () => {
    const payments = unique('c')
    const flow = await executions.publish(
      `  - when: { set: { at: '\${ now }' }, export: { as: '\${ { at: .at } }' } }
  - board: { input: { from: '\${ {} }' }, approve: { approvers: [bob] } }\n${paymentTask(payments, '$context.at')}`,
    )
    const id = await startApproved(flow, {})
    const made = await executions.send(id, 'rerun', { from: 'pay' }, mallory)
    expect((await executions.shown(made.body.id, 'waiting')).ended_at).toBeNull()
    expect(await executions.ledger(payments)).toHaveLength(1)
  })
})

describe('rerun of an execution whose approval is in a subflow', () => {
  test('other input: runs the subflow again, also after an unchanged rerun', async () => {
    const payments = unique('c')
    const child = await executions.publish(`  - ask: { approve: { approvers: [bob, carol] } }`)
    const flow = await executions.publish(
      `  - sub: { run: { workflow: { namespace: n, name: ${child} } } }\n${paymentTask(payments, '$workflow.input.sum')}`,
    )
    const id = await executions.start(flow, { input: { sum: 40 } }, mallory)
    const path = `${workspace.flows}/definitions/${child}/executions`
    await executions.until(id, ({ steps }) => steps.length > 0)
    const childId = await executions
      .until(id, () => true)
      .then(async () => {
        for (;;) {
          const { body } = await call('GET', path, { as: workspace.operator })
          const [open] = body.data
          if (open?.status === 'waiting') return open.id
        }
      })
    expect((await executions.send(childId, 'approve', { approved: true }, bob)).status).toBe(200)
    await executions.shown(id, 'completed')
    const unchanged = await executions.send(id, 'rerun', { from: 'pay' }, mallory)
    expect(names(unchanged.body.plan.reused)).toEqual(['sub'])
    await executions.shown(unchanged.body.id, 'completed')
    for (const from of [id, unchanged.body.id])
      await expectAskedAgain(from, { input: { sum: 1_000_000 } }, mallory, /input/, 'sub')
    await expectAskedAgain(unchanged.body.id, {}, bob, /bob/, 'sub')
    expect(await executions.ledger(payments)).toEqual(['40', '40'])
  })
})

describe('patch-data', () => {
  const CONTEXT = (payments: string, approvers = 'bob, mallory, carol', more = '') =>
    `  - sum: { set: { sum: 40 }, export: { as: '\${ . }' } }
${approvalTask(approvers, more)}
  - nap: { wait: PT1S }
${paymentTask(payments, '$context.sum')}`

  /** An execution approved by bob, and paused by mallory before it pays. */
  async function startPaused(payments: string, approvers?: string): Promise<string> {
    const id = await executions.start(
      await executions.publish(CONTEXT(payments, approvers)),
      { input: { sum: 40 } },
      mallory,
    )
    await executions.shown(id, 'waiting')
    expect((await executions.send(id, 'approve', { approved: true }, bob)).status).toBe(200)
    expect((await executions.send(id, 'pause', {}, mallory)).status).toBe(200)
    return id
  }

  const resume = async (id: string) => {
    expect((await executions.send(id, 'resume', {}, mallory)).status).toBe(200)
    await new Promise((done) => setTimeout(done, 2_000))
  }

  test('after an approval: requires a new decision before it continues', async () => {
    const payments = unique('c')
    const id = await startPaused(payments)
    expect((await executions.send(id, 'patch-data', { context: { sum: 1_000_000 } }, mallory)).status).toBe(
      200,
    )
    await resume(id)
    expect(await executions.ledger(payments)).toEqual([])
    expect((await executions.send(id, 'approve', { approved: true }, mallory)).status).toBe(409)
    expect((await executions.send(id, 'approve', { approved: true }, carol)).status).toBe(200)
    await executions.shown(id, 'completed')
    expect(await executions.ledger(payments)).toEqual(['1000000'])
    const made = await executions.send(id, 'rerun', { from: 'pay' }, mallory)
    expect((await executions.shown(made.body.id, 'waiting')).ended_at).toBeNull()
    expect(await executions.ledger(payments)).toEqual(['1000000'])
  })

  test('by an approver: another one decides; rejection faults the execution', async () => {
    const payments = unique('c')
    const id = await startPaused(payments)
    expect((await executions.send(id, 'patch-data', { context: { sum: 7 } }, bob)).status).toBe(200)
    await resume(id)
    expect((await executions.send(id, 'approve', { approved: true }, bob)).status).toBe(409)
    for (const as of [carol])
      expect((await executions.send(id, 'approve', { approved: false }, as)).status).toBe(200)
    expect(await executions.ended(id)).toMatchObject({
      status: 'faulted',
      error: { type: expect.stringMatching(/rejected$/) },
    })
    expect(await executions.ledger(payments)).toEqual([])
  })

  test('by the only approver: refused, nothing changes', async () => {
    const payments = unique('c')
    const id = await startPaused(payments, 'bob')
    expect(await executions.send(id, 'patch-data', { context: { sum: 7 } }, bob)).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('board') },
    })
    await resume(id)
    await executions.shown(id, 'completed')
    expect(await executions.ledger(payments)).toEqual(['40'])
  })

  test('without a change: keeps the decision', async () => {
    const payments = unique('c')
    const id = await startPaused(payments)
    expect((await executions.send(id, 'patch-data', { context: { sum: 40 } }, mallory)).status).toBe(200)
    await resume(id)
    await executions.shown(id, 'completed')
    expect(await executions.ledger(payments)).toEqual(['40'])
  })

  test('with one of two decisions made: both must decide on the new data', async () => {
    const payments = unique('c')
    const flow = await executions.publish(CONTEXT(payments, 'bob, carol', ', quorum: 2'))
    const id = await executions.start(flow, { input: { sum: 40 } }, mallory)
    await executions.shown(id, 'waiting')
    await executions.send(id, 'approve', { approved: true }, bob)
    await executions.send(id, 'pause', {}, mallory)
    expect((await executions.send(id, 'patch-data', { context: { sum: 1_000_000 } }, mallory)).status).toBe(
      200,
    )
    expect((await executions.send(id, 'approve', { approved: true }, carol)).status).toBe(200)
    await resume(id)
    expect((await executions.read(id)).status).toBe('waiting')
    expect((await executions.send(id, 'approve', { approved: true }, bob)).status).toBe(200)
    await executions.shown(id, 'completed')
  })

  test('patched input or skipped output of a held step: requires a new decision', async () => {
    for (const [command, body] of [
      ['patch-data', { input: { sum: 1_000_000 } }],
      ['skip-step', { output: { sum: 1_000_000 } }],
    ] as const) {
      const payments = unique('c')
      const flow = await executions.publish(
        `${approvalTask()}
  - quote: { set: { sum: '\${ if .sum then .sum else error("no sum") end }' } }
${paymentTask(payments, '.sum')}`,
        { more: 'onFault: hold\n' },
      )
      const id = await executions.start(flow, { input: { sum: 40 } }, mallory)
      await executions.shown(id, 'waiting')
      await executions.send(id, 'approve', { approved: true }, bob)
      await executions.shown(id, 'suspended')
      expect((await executions.send(id, command, body, mallory)).status).toBe(200)
      if (command === 'patch-data') await executions.send(id, 'retry-step', { step: 'quote' }, mallory)
      await new Promise((done) => setTimeout(done, 1_000))
      expect(await executions.ledger(payments)).toEqual([])
      expect((await executions.send(id, 'approve', { approved: true }, carol)).status).toBe(200)
      await executions.shown(id, 'completed')
      expect(await executions.ledger(payments)).toEqual(['1000000'])
    }
  })
})

test('held approval skipped with a decision as output: refused', async () => {
  const flow = await executions.publish(
    '  - board: { approve: { approvers: [bob], deadline: PT1S } }\n  - after: { set: { x: 1 } }',
    { more: 'onFault: hold\n' },
  )
  const id = await executions.start(flow, {}, mallory)
  await executions.shown(id, 'suspended')
  const output = { approved: true, decisions: [{ by: 'bob', approved: true }] }
  expect(await executions.send(id, 'skip-step', { output }, mallory)).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining('approval') },
  })
  expect((await executions.send(id, 'retry-step', {}, mallory)).status).toBe(200)
  expect((await executions.send(id, 'approve', { approved: true, step: '/do/0/board#0' }, bob)).status).toBe(
    200,
  )
  await executions.shown(id, 'completed')
})
