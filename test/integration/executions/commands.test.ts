// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Commands of executions on Temporal: signals, approvals, held steps, cancel with compensation. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { BlockingServer } from '../../support/servers/blocking-server.ts'

let workspace: TestWorkspace
let subject: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const me = await call('GET', '/v1/me', { as: workspace.operator })
  subject = me.body.subject
})

/** Publishes a flow and starts it. @returns the execution's id */
async function startFlow(tasks: string, more = ''): Promise<string> {
  const name = unique('f')
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${more}do:\n${tasks}`
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as: workspace.operator,
    body: { name, source },
  })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as: workspace.operator, body: {} })
  const run = await call('POST', `${workspace.flows}/definitions/${name}/executions`, {
    as: workspace.operator,
    body: {},
  })
  expect(run.status).toBe(201)
  return run.body.id
}

const read = async (id: string) =>
  (await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })).body
const send = (id: string, command: string, body: object = {}) =>
  call('POST', `${workspace.flows}/executions/${id}/${command}`, { as: workspace.operator, body })

const until = (id: string, status: string) =>
  eventually(async () => {
    const run = await read(id)
    return run.status === status ? run : undefined
  })

describe('signal', () => {
  const LISTEN = '  - heard: { listen: { to: { all: [{ with: { type: a } }, { with: { type: b } }] } } }'

  test('listen for all of two events, one sent twice: completes when both types arrived, counts the duplicate once', async () => {
    const id = await startFlow(LISTEN)
    await until(id, 'waiting')
    const a = { type: 'a', source: '/s', id: '1', data: { n: 1 } }
    expect((await send(id, 'signal', { event: a })).status).toBe(202)
    await send(id, 'signal', { event: a })
    expect(await read(id)).toMatchObject({ status: 'waiting' })
    await send(id, 'signal', { event: { type: 'b', data: { n: 2 } } })
    expect(await until(id, 'completed')).toMatchObject({ output: [{ n: 1 }, { n: 2 }] })
  })

  test('events before the execution listens: kept until it listens', async () => {
    const id = await startFlow(`  - rest: { wait: PT1S }\n${LISTEN}`)
    await send(id, 'signal', { event: { type: 'b', data: 'early' } })
    await send(id, 'signal', { event: { type: 'a', data: 'later' } })
    expect((await until(id, 'completed')).output.toSorted()).toEqual(['early', 'later'])
  })

  test('events during a call: kept until the execution listens', async () => {
    const server = await BlockingServer.open()
    const body = { workspace_id: workspace.workspaceId, egress: { allow: [server.host] } }
    await call('POST', '/v1/services/configure', { as: workspace.operator, body })
    server.hold('slow')
    const id = await startFlow(`  - ask: { ${server.taskFor('slow')} }\n${LISTEN}`)
    await server.reached('slow')
    await send(id, 'signal', { event: { type: 'b', data: 'early' } })
    expect((await send(id, 'signal', { event: { type: 'a', data: 'later' } })).status).toBe(202)
    expect(server.waitingFor('slow')).toBe(1)
    server.letGo('slow')
    expect((await until(id, 'completed')).output.toSorted()).toEqual(['early', 'later'])
    await server.close()
  })

  test('events after a listen step completed: leave its result unchanged, kept for the next listen step', async () => {
    const sendEvent = (id: string, n: number) =>
      send(id, 'signal', { event: { type: 'a', id: `${n}`, data: n } })
    const listenTask = (type: string) => `listen: { to: { one: { with: { type: ${type} } } } }`
    const id = await startFlow(`  - first: { ${listenTask('a')}, export: { as: '\${ . }' } }
  - gate: { ${listenTask('gate')} }
  - second: { ${listenTask('a')}, output: { as: '\${ { first: $context, second: . } }' } }`)
    await until(id, 'waiting')
    await sendEvent(id, 1)
    await eventually(async () => ((await read(id)).steps.length === 2 ? true : undefined))
    for (const n of [2, 3]) expect((await sendEvent(id, n)).status).toBe(202)
    expect((await read(id)).steps).toHaveLength(2)
    await send(id, 'signal', { event: { type: 'gate' } })
    // The second step receives the next event in order; the third event is left over.
    expect((await until(id, 'completed')).output).toEqual({ first: [1], second: [2] })
  })

  test('execution ended: every command is refused with 409', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }')
    await until(id, 'completed')
    for (const [command, body] of [
      ['signal', { event: { type: 'a' } }],
      ['approve', { approved: true }],
      ['retry-step', {}],
      ['skip-step', {}],
      ['cancel', {}],
    ] as const) {
      expect(await send(id, command, body)).toMatchObject({ status: 409, body: { code: 'state_conflict' } })
    }
  })
})

describe('approve', () => {
  const sharedApprovalTask = (more: string) =>
    `  - ask: { approve: { approvers: [${subject}, somebody], ${more} } }`

  test('by an approver: completes with the decision and its comment', async () => {
    const id = await startFlow(sharedApprovalTask('fourEyes: false'))
    await until(id, 'waiting')
    const approved = await send(id, 'approve', { approved: true, comment: 'Fine.' })
    expect(approved.status).toBe(200)
    const { output } = await until(id, 'completed')
    expect(output).toMatchObject({
      approved: true,
      decisions: [{ by: subject, approved: true, comment: 'Fine.' }],
    })
  })

  test('by the subject that started the execution, four eyes required: refused with 409, execution keeps waiting', async () => {
    const id = await startFlow(sharedApprovalTask('quorum: 1'))
    await until(id, 'waiting')
    expect(await send(id, 'approve', { approved: true })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('has started the execution') },
    })
    expect(await read(id)).toMatchObject({ status: 'waiting' })
    await send(id, 'cancel')
    await until(id, 'cancelled')
  })

  test('several steps wait: refused without a step name, accepted with a name or path', async () => {
    const approve = `approve: { approvers: [${subject}], fourEyes: false }`
    const id = await startFlow(
      `  - f: { fork: { branches: [{ a: { ${approve} } }, { b: { ${approve} } }] } }`,
    )
    await until(id, 'waiting')
    await eventually(async () => ((await read(id)).steps.length >= 3 ? true : undefined))
    expect(await send(id, 'approve', { approved: true })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('Several steps wait') },
    })
    expect(await send(id, 'approve', { approved: false, step: 'b' })).toMatchObject({ status: 200 })
    const [{ pointer }] = (await read(id)).steps.filter(({ name }: { name: string }) => name === 'a')
    expect(await send(id, 'approve', { approved: true, step: `${pointer}#0` })).toMatchObject({ status: 200 })
    const { output } = await until(id, 'completed')
    expect(output.map(({ approved }: { approved: boolean }) => approved)).toEqual([true, false])
  })

  const approvalTask = (more = '') =>
    `  - ask: { approve: { approvers: [${subject}], fourEyes: false${more} } }`

  test('rejected, onReject is fault: execution faults, runs no later task', async () => {
    const id = await startFlow(`${approvalTask(', onReject: fault')}\n  - after: { set: { went: on } }`)
    await until(id, 'waiting')
    expect((await send(id, 'approve', { approved: false })).status).toBe(200)
    const { error, steps } = await until(id, 'faulted')
    expect(error).toMatchObject({
      type: expect.stringMatching(/rejected$/),
      detail: `The approval was rejected by ${subject}.`,
      instance: '/do/0/ask',
    })
    expect(steps.map(({ name }: { name: string }) => name)).toEqual(['ask'])
  })

  test.each([true, false])('decision approved %s: the flow branches by it', async (approved) => {
    const id = await startFlow(`${approvalTask()}
  - which: { switch: [{ yes: { when: .approved, then: pay } }, { no: { then: refuse } }] }
  - pay: { set: { paid: true }, then: end }
  - refuse: { set: { refused: true } }`)
    await until(id, 'waiting')
    await send(id, 'approve', { approved })
    const { output } = await until(id, 'completed')
    expect(output).toEqual(approved ? { paid: true } : { refused: true })
  })

  test('body without a boolean `approved`: refused with 400, execution keeps waiting', async () => {
    const id = await startFlow(sharedApprovalTask('fourEyes: false'))
    await until(id, 'waiting')
    for (const body of [{}, { approved: null }, { approved: 'yes' }, { comment: 'Fine.' }])
      expect([body, await send(id, 'approve', body)]).toMatchObject([
        body,
        { status: 400, body: { code: 'validation_failed' } },
      ])
    expect(await read(id)).toMatchObject({ status: 'waiting' })
    await send(id, 'cancel')
    await until(id, 'cancelled')
  })
})

describe('held step', () => {
  const LOST =
    "  - find: { call: collection.get, with: { name: nothing, id: 0198c0de-0000-7000-8000-000000000000 } }\n  - after: { set: { got: '${ . }' } }"

  test('skipped with an output: the flow continues with that output', async () => {
    const id = await startFlow(LOST, 'onFault: hold\n')
    expect(await until(id, 'suspended')).toMatchObject({
      steps: [expect.objectContaining({ name: 'find', error: expect.objectContaining({ status: 404 }) })],
    })
    expect(await send(id, 'skip-step', { output: { by: 'hand' } })).toMatchObject({ status: 200 })
    expect(await until(id, 'completed')).toMatchObject({ output: { got: { by: 'hand' } } })
  })

  test('retried and faulting again: held again; cancel ends the execution', async () => {
    const id = await startFlow(LOST, 'onFault: hold\n')
    await until(id, 'suspended')
    expect(await send(id, 'retry-step', { step: 'find' })).toMatchObject({ status: 200 })
    await until(id, 'suspended')
    expect(await send(id, 'approve', { approved: true })).toMatchObject({ status: 409 })
    await send(id, 'cancel')
    expect(await until(id, 'cancelled')).toMatchObject({ output: null })
  })
})

test('cancel: compensates completed tasks, ends cancelled', async () => {
  const id = await startFlow(`  - book:
      call: collection.create
      with: { name: bookings, document: { room: 7 } }
      compensate:
        - free: { call: collection.delete, with: { name: bookings, id: '\${ .output.id }' } }
  - nap: { wait: P1D }`)
  await until(id, 'waiting')
  const booked = () => call('GET', '/v1/collections/bookings/documents', { as: workspace.service })
  expect((await booked()).body.data).toHaveLength(1)
  expect(await send(id, 'cancel')).toMatchObject({ status: 202 })
  expect(await until(id, 'cancelled')).toMatchObject({ output: null })
  expect((await booked()).body.data).toEqual([])
})
