// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Reruns executions: what is reused from the record, what runs again, what is refused. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createEntry, Executions, type Shown } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

/** Reruns an execution and waits until it ends. */
async function rerunToEnd(id: string, body: object): Promise<Shown> {
  const made = await executions.send(id, 'rerun', body)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  expect(made.body).toMatchObject({ rerun_of: id, trigger: { kind: 'rerun', id } })
  return { ...(await executions.ended(made.body.id)), plan: made.body.plan }
}

const names = (steps: readonly { name: string }[]) => steps.map(({ name }) => name)
const reused = ({ steps }: Shown) => names(steps.filter((step: { reused: boolean }) => step.reused))

/** Creates a document for `collection.get` to find. @returns its id */
async function createDocument(document: object): Promise<string> {
  const { body } = await call('POST', '/v1/collections/things/documents', {
    as: workspace.service,
    body: document,
  })
  return body.id
}

const MISSING_ID = '0198c0de-0000-7000-8000-000000000000'
const FIND = "call: collection.get, with: { name: things, id: '${ $workflow.input.id }' }"

describe('rerun from the start', () => {
  test('no changes given: keeps input and correlation key, runs every task again', async () => {
    const ledger = unique('c')
    const flow = await executions.publish(`  - a: { ${createEntry("'${ .n }'", ledger)} }`)
    const id = await executions.start(flow, { input: { n: 'one' }, correlation_key: 'order 7' })
    const first = await executions.ended(id)
    const second = await rerunToEnd(id, {})
    expect(second).toMatchObject({ input: { n: 'one' }, correlation_key: 'order 7', status: 'completed' })
    expect(second.output.entry).toBe(first.output.entry)
    expect(second.plan).toMatchObject({ from: null, reused: [], again: [{ name: 'a', kind: 'call' }] })
    expect((await rerunToEnd(id, { input: { n: 'two' } })).output.entry).toBe('two')
    expect(await executions.ledger(ledger)).toEqual(['one', 'one', 'two'])
  })

  test('input as large as that of a start: accepted', async () => {
    const id = await executions.start(
      await executions.publish("  - a: { set: { n: '${ .text | length }' } }"),
    )
    await executions.ended(id)
    const again = await rerunToEnd(id, { input: { text: 'x'.repeat(3_000_000) } })
    expect(again.output).toEqual({ n: 3_000_000 })
  })

  test('running execution: 409; unknown execution or version: 404; unknown step: 409', async () => {
    const id = await executions.start(await executions.publish('  - nap: { wait: P1D }'))
    await executions.shown(id, 'waiting')
    expect(await executions.send(id, 'rerun', {})).toMatchObject({
      status: 409,
      body: { code: 'state_conflict' },
    })
    await executions.send(id, 'cancel')
    await executions.ended(id)
    expect(await executions.send(id, 'rerun', { version: 9 })).toMatchObject({ status: 404 })
    expect(await executions.send(id.slice(0, -1), 'rerun', {})).toMatchObject({ status: 404 })
    expect(await executions.send(id, 'rerun', { from: 'nobody' })).toMatchObject({ status: 409 })
    expect(await executions.send(id, 'rerun', { from: 'failed' })).toMatchObject({ status: 409 })
  })
})

describe('rerun from a step', () => {
  test('steps before it: reuses their results, waits for no elapsed time', async () => {
    const ledger = unique('c')
    const flow =
      await executions.publish(`  - a: { ${createEntry('a', ledger)}, export: { as: '\${ { a: .id } }' } }
  - nap: { wait: PT3S }
  - b: { ${createEntry('b', ledger)} }
  - find: { ${FIND} }
  - all: { set: { a: '\${ $context.a }', found: '\${ .colour }' } }`)
    const id = await executions.start(flow, { input: { id: MISSING_ID } })
    expect(await executions.ended(id)).toMatchObject({ status: 'faulted', error: { status: 404 } })
    const dry = await executions.send(id, 'rerun', { from: 'failed', dry_run: true })
    expect(dry).toMatchObject({
      status: 200,
      body: {
        plan: {
          from: { name: 'find', step: '/do/3/find#0', kind: 'call' },
          again: [{ name: 'find' }],
          removed_steps: [],
          refusals: [],
        },
      },
    })
    expect(names(dry.body.plan.reused)).toEqual(['a', 'nap', 'b'])
    const elapsedMs = stopwatch()
    const run = await rerunToEnd(id, {
      from: 'failed',
      input: { id: await createDocument({ colour: 'red' }) },
    })
    expect(elapsedMs()).toBeLessThan(3_000)
    expect(run).toMatchObject({ status: 'completed', output: { a: expect.any(String), found: 'red' } })
    expect(reused(run)).toEqual(['a', 'nap', 'b'])
    expect(await executions.ledger(ledger)).toEqual(['a', 'b'])
    // A rerun can be rerun like any other execution.
    expect(reused(await rerunToEnd(run.id, { from: '/do/2/b#0' }))).toEqual(['a', 'nap'])
    expect(await executions.ledger(ledger)).toEqual(['a', 'b', 'b'])
    const { body } = await call('GET', `${workspace.flows}/definitions/${flow}/executions`, {
      as: workspace.operator,
    })
    expect(body.data).toHaveLength(3)
  })

  test('newer version: finds moved tasks, lists missing ones, refuses if the step itself is gone', async () => {
    const ledger = unique('c')
    const flow = await executions.publish(`  - a: { ${createEntry('a', ledger)} }
  - gone: { ${createEntry('gone', ledger)} }
  - inner: { do: [{ c: { ${createEntry('c', ledger)} } }] }
  - find: { ${FIND} }`)
    const id = await executions.start(flow, { input: { id: MISSING_ID } })
    await executions.shown(id, 'faulted')
    await executions.publish(
      `  - first: { ${createEntry('first', ledger)} }
  - a: { ${createEntry('a', ledger)} }
  - inner: { do: [{ new: { set: { x: 1 } } }, { c: { ${createEntry('c', ledger)} } }] }
  - find: { set: { mended: true } }`,
      { name: flow },
    )
    const run = await rerunToEnd(id, { from: 'find', version: 2 })
    expect(run).toMatchObject({ status: 'completed', version: 2, output: { mended: true } })
    expect(names(run.plan.removed_steps)).toEqual(['gone'])
    expect(reused(run)).toEqual(['a', 'c'])
    expect(await executions.ledger(ledger)).toEqual(['a', 'gone', 'c', 'first'])
    await executions.publish('  - other: { set: { x: 1 } }', { name: flow })
    expect(await executions.send(id, 'rerun', { from: 'find', version: 3 })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('no `find` in the version') },
    })
  })

  test('concurrent loop items that ended out of order: each reuses its own result', async () => {
    const ledger = unique('c')
    const flow = await executions.publish(
      `  - each:
      for: { in: '\${ [3, 2, 1, 0] }', concurrency: 4 }
      do:
        - late: { switch: [{ first: { when: '$index == 0', then: long } }] }
        - short: { wait: PT0.1S, then: note }
        - long: { wait: PT1S }
        - note: { ${createEntry("'${ $index | tostring }'", ledger)}, output: { as: .entry } }
  - find: { ${FIND} }`,
    )
    const id = await executions.start(flow, { input: { id: MISSING_ID } })
    await executions.shown(id, 'faulted')
    const order = await executions.ledger(ledger)
    expect(order.at(-1)).toBe('0')
    await executions.publish(
      `  - each:
      for: { in: '\${ [3, 2, 1, 0] }', concurrency: 4 }
      do:
        - note: { ${createEntry("'${ $index | tostring }'", ledger)}, output: { as: .entry } }
  - find: { set: { each: '\${ . }' } }`,
      { name: flow },
    )
    expect(await rerunToEnd(id, { from: 'find', version: 2 })).toMatchObject({
      status: 'completed',
      output: { each: ['0', '1', '2', '3'] },
    })
    expect(await executions.ledger(ledger)).toEqual(order)
  })

  test('caught errors and retries: reused as recorded, without their delays', async () => {
    const ledger = unique('c')
    const flow = await executions.publish(`  - t:
      try: [{ find: { ${FIND} } }]
      catch:
        retry: { delay: PT1S, limit: { attempt: { count: 2 } } }
        do: [{ caught: { ${createEntry('caught', ledger)} } }]
  - last: { ${createEntry('last', ledger)} }`)
    const id = await executions.start(flow, { input: { id: MISSING_ID } })
    const first = await executions.ended(id)
    expect(first.status).toBe('completed')
    const elapsedMs = stopwatch()
    const run = await rerunToEnd(id, { from: 'last' })
    expect(elapsedMs()).toBeLessThan(2_000)
    expect(names(run.steps)).toEqual(names(first.steps))
    expect(new Set(reused(run))).toEqual(new Set(['find', 'caught']))
    expect(await executions.ledger(ledger)).toEqual(['caught', 'last', 'last'])
  })

  test('events, approvals and subflows: reused, not awaited or run again', async () => {
    const { subject } = (await call('GET', '/v1/me', { as: workspace.operator })).body
    const ledger = unique('c')
    const child = await executions.publish(`  - c: { ${createEntry('child', ledger)} }`)
    const flow = await executions.publish(`  - heard: { listen: { to: { one: { with: { type: go } } } } }
  - ask: { approve: { approvers: [${subject}], fourEyes: false } }
  - sub: { run: { workflow: { namespace: n, name: ${child} } } }
  - say: { emit: { event: { with: { type: said } } } }
  - last: { ${createEntry('last', ledger)} }`)
    const id = await executions.start(flow)
    await executions.send(id, 'signal', { event: { type: 'go', data: 1 } })
    await executions.until(id, ({ steps }) => steps.some(({ name }: { name: string }) => name === 'ask'))
    expect((await executions.send(id, 'approve', { approved: true })).status).toBe(200)
    await executions.shown(id, 'completed')
    const run = await rerunToEnd(id, { from: 'last' })
    expect(run.status).toBe('completed')
    expect(reused(run)).toEqual(['heard', 'ask', 'sub', 'say'])
    expect((await executions.ledger(ledger)).toSorted()).toEqual(['child', 'last', 'last'])
    const { body } = await call('GET', `${workspace.flows}/definitions/${child}/executions`, {
      as: workspace.operator,
    })
    expect(body.data).toHaveLength(1)
  })
})

describe('rerun with compensation', () => {
  const SAGA = (ledger: string) => `  - book:
      ${createEntry('book', ledger).replace(', with', '\n      with')}
      compensate: [{ free: { ${createEntry('\'${ "free " + .output.entry }\'', ledger)} } }]
  - find: { ${FIND} }`

  test('the rerun faults: compensates reused steps', async () => {
    const ledger = unique('c')
    const id = await executions.start(await executions.publish(SAGA(ledger)), {
      input: { id: await createDocument({}) },
    })
    await executions.shown(id, 'completed')
    expect(await rerunToEnd(id, { from: 'find', input: { id: MISSING_ID } })).toMatchObject({
      status: 'faulted',
    })
    expect(await executions.ledger(ledger)).toEqual(['book', 'free book'])
  })

  test("the first execution already compensated a step: refused with 409 and the step's name, nothing starts", async () => {
    const ledger = unique('c')
    const id = await executions.start(await executions.publish(SAGA(ledger)), { input: { id: MISSING_ID } })
    await executions.shown(id, 'faulted')
    const refused = { from: 'failed', input: { id: await createDocument({}) } }
    expect(await executions.send(id, 'rerun', refused)).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('`book` was undone') },
    })
    expect(
      (await executions.send(id, 'rerun', { ...refused, dry_run: true })).body.plan.refusals,
    ).toHaveLength(1)
    expect(await rerunToEnd(id, { ...refused, from: 'book' })).toMatchObject({ status: 'completed' })
    expect(await executions.ledger(ledger)).toEqual(['book', 'free book', 'book'])
  })
})

test('rerun over a result too large to be recorded: refused with 409', async () => {
  const big = await createDocument({ text: 'x'.repeat(70_000) })
  const flow = await executions.publish(`  - huge: { ${FIND} }\n  - last: { set: { x: 1 } }`)
  const id = await executions.start(flow, { input: { id: big } })
  await executions.shown(id, 'completed')
  expect(await executions.send(id, 'rerun', { from: 'last' })).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining('`huge` was too large') },
  })
})
