// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Cancels executions while something is in progress: a call, a function, or their compensation. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEntry, Executions, type Shown } from '../../support/fixtures/executions.ts'
import { functionRuns } from '../../support/fixtures/suspension.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { BlockingServer } from '../../support/servers/blocking-server.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let executions: Executions
let server: BlockingServer
beforeEach(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  server = await BlockingServer.open()
  await configure(workspace, { egress: { allow: [server.host] } })
})
afterEach(() => server.close())

const statusOf = ({ steps }: Shown, name: string) =>
  steps.find((step: { name: string }) => step.name === name)?.status

/**
 * Starts a flow of a task that can be compensated, the task `it` that is in progress at the cancel, and one that must
 * not run.
 */
async function startFlow(it: string, ledger: string, isUndone = true): Promise<string> {
  const undo = isUndone ? `, compensate: [{ never: { ${createEntry('never', ledger)} } }]` : ''
  const flow =
    await executions.publish(`  - did: { ${createEntry('did', ledger)}, compensate: [{ undo: { ${createEntry('undid', ledger)} } }] }
  - it: { ${it}${undo} }
  - after: { ${createEntry('after', ledger)} }`)
  return executions.start(flow)
}

/** Cancels an execution and waits until it ends; nothing else ends it. */
async function cancelAndWait(id: string): Promise<Shown> {
  expect((await executions.send(id, 'cancel')).status).toBe(202)
  return executions.ended(id)
}

describe('cancel during a call', () => {
  test('HTTP request that runs as an activity: ends cancelled without waiting for the response, which has no effect', async () => {
    const ledger = unique('c')
    server.hold('slow')
    const id = await startFlow(server.taskFor('slow', { method: 'get' }), ledger)
    await server.reached('slow')
    const run = await cancelAndWait(id)
    expect(server.waitingFor('slow')).toBe(1)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect([statusOf(run, 'it'), statusOf(run, 'after')]).toEqual(['cancelled', undefined])
    server.letGo('slow')
    expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
    expect(server.requests).toEqual(['slow'])
  })

  const endless = async (ledger: string, timeout: string, isUndone: boolean) => {
    const source = 'export default () => new Promise(() => {})'
    const { operator: as, workspaceId: workspace_id } = workspace
    const made = await call('POST', '/v1/functions', { as, body: { workspace_id, name: 'endless', source } })
    const config = { as, body: { timeout } }
    expect((await call('PUT', `/v1/functions/${made.body.id}/config`, config)).status).toBe(200)
    const it = 'call: function.invoke, with: { id: endless, input: {} }'
    const id = await startFlow(it, ledger, isUndone)
    await functionRuns(workspace)
    const run = await cancelAndWait(id)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect(statusOf(run, 'after')).toBeUndefined()
    return run.steps.find(({ name }: { name: string }) => name === 'it')
  }

  test('function that cannot be compensated: ends cancelled, abandons the function, and says that its outcome is unknown', async () => {
    const ledger = unique('c')
    const step = await endless(ledger, '60s', false)
    expect(step).toMatchObject({ status: 'cancelled', error: { code: 'outcome_unknown' } })
    expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
  })

  test('function that can be compensated: its end is awaited; as it fails, nothing of it is compensated', async () => {
    const ledger = unique('c')
    const step = await endless(ledger, '10s', true)
    expect(step).toMatchObject({
      status: 'cancelled',
      error: { detail: expect.stringContaining('10000 ms') },
    })
    expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
  })
})

/**
 * An execution receives no signal during an inline request. The request is aborted soon after; then a `GET` may be
 * sent once more before the execution receives the cancel.
 */
test('cancel during an inline request: ends cancelled without waiting for the response, runs no later task', async () => {
  const ledger = unique('c')
  server.hold('brief')
  const id = await startFlow(server.taskFor('brief', { method: 'get', local: true }), ledger)
  await server.reached('brief')
  const run = await cancelAndWait(id)
  expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
  expect([statusOf(run, 'it'), statusOf(run, 'after')]).toEqual(['cancelled', undefined])
  expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
  expect(['brief', 'brief,brief']).toContain(String(server.requests))
})

/** Tasks that each send the server a request, and another one to compensate it. */
const saga = (of: string, count: number) =>
  Array.from({ length: count }, (_, n) => {
    const undo = `undo${n}: { ${server.taskFor(`${of}/undo${n}`)} }`
    return `  - do${n}: { ${server.taskFor(`${of}/do${n}`)}, compensate: [{ ${undo} }] }`
  }).join('\n')

const requestsOf = (of: string) =>
  server.requests.filter((path) => path.startsWith(`${of}/`)).map((path) => path.slice(of.length + 1))

test('cancel between two calls: compensates completed tasks in reverse order, then makes no further call', async () => {
  const CALLS = 5
  // The order of cancel, response and next request is left to chance.
  const cancels = new Map<string, () => void>()
  server.onAnswer = (path) => cancels.get(path)?.()
  const ends = Array.from({ length: 2 * CALLS }, async (_, n) => {
    const of = `run${n}`
    const last = `do${n % CALLS}`
    const answered = new Promise<void>((done) => cancels.set(`${of}/${last}`, done))
    const id = await executions.start(await executions.publish(`${saga(of, CALLS)}\n  - nap: { wait: P1D }`))
    await answered
    const run = await cancelAndWait(id)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    const completed = run.steps
      .filter(({ name, status }: Shown) => name.startsWith('do') && status === 'completed')
      .map(({ name }: Shown) => name)
    const called = requestsOf(of).filter((path) => path.startsWith('do'))
    const undone = completed.map((name: string) => name.replace('do', 'undo')).toReversed()
    expect(requestsOf(of)).toEqual([...called, ...undone])
    expect(called).toContain(last)
    // At most one call was in progress; it does not count as completed.
    expect(called.slice(0, completed.length)).toEqual(completed)
    expect(called.length - completed.length).toBeLessThanOrEqual(1)
  })
  await Promise.all(ends)
})

describe('cancel during compensation', () => {
  test('execution cancelled again: finishes compensation once and in order, ends cancelled', async () => {
    server.hold('a/undo1')
    const id = await executions.start(await executions.publish(`${saga('a', 3)}\n  - nap: { wait: P1D }`))
    await executions.shown(id, 'waiting')
    await executions.send(id, 'cancel')
    await server.reached('a/undo1')
    for (const _ of [1, 2]) expect((await executions.send(id, 'cancel')).status).toBe(202)
    server.letGo('a/undo1')
    expect(await executions.ended(id)).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect(requestsOf('a')).toEqual(['do0', 'do1', 'do2', 'undo2', 'undo1', 'undo0'])
    expect(await executions.send(id, 'cancel')).toMatchObject({
      status: 409,
      body: { code: 'state_conflict' },
    })
  })

  test('execution faulted before: finishes compensation, ends faulted', async () => {
    server.hold('a/undo1')
    const no = `  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`
    const id = await executions.start(await executions.publish(`${saga('a', 3)}\n${no}`))
    await server.reached('a/undo1')
    expect((await executions.send(id, 'cancel')).status).toBe(202)
    server.letGo('a/undo1')
    expect(await executions.ended(id)).toMatchObject({ status: 'faulted', error: { status: 409 } })
    expect(requestsOf('a')).toEqual(['do0', 'do1', 'do2', 'undo2', 'undo1', 'undo0'])
  })
})
