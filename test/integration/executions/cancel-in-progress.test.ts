// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Runs that are cancelled while something of them is under way: a call, a function, what undoes them. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { noting, Runs, type Shown } from '../../support/fixtures/executions.ts'
import { aRoom, call, eventually, type Room, unique } from '../../support/fixtures/tenants.ts'
import { Holding } from '../../support/servers/blocking-server.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

let room: Room
let runs: Runs
let server: Holding
beforeEach(async () => {
  room = await aRoom()
  runs = new Runs(room)
  server = await Holding.open()
  const body = { workspace_id: room.workspaceId, egress: { allow: [server.place] } }
  expect((await call('POST', '/v1/services/configure', { as: room.operator, body })).status).toBe(200)
})
afterEach(() => server.close())

const statusOf = ({ steps }: Shown, name: string) =>
  steps.find((step: { name: string }) => step.name === name)?.status

/** Something that can be undone, what is under way when the run is cancelled, and what must not be done then. */
async function begun(it: string, ledger: string): Promise<string> {
  const flow =
    await runs.publish(`  - did: { ${noting('did', ledger)}, compensate: [{ undo: { ${noting('undid', ledger)} } }] }
  - it: { ${it}, compensate: [{ never: { ${noting('never', ledger)} } }] }
  - after: { ${noting('after', ledger)} }`)
  return runs.start(flow)
}

/** Cancels it, and waits for its end, which nothing else brings about. */
async function cancelled(id: string): Promise<Shown> {
  expect((await runs.send(id, 'cancel')).status).toBe(202)
  return runs.ended(id)
}

describe('while a call is under way', () => {
  test('a request that is a task: the run does not wait for its answer, which changes nothing', async () => {
    const ledger = unique('c')
    server.hold('slow')
    const id = await begun(server.asking('slow', { method: 'get' }), ledger)
    await server.reached('slow')
    const run = await cancelled(id)
    expect(server.waitingFor('slow')).toBe(1)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect([statusOf(run, 'it'), statusOf(run, 'after')]).toEqual(['cancelled', undefined])
    server.letGo('slow')
    expect(await runs.ledger(ledger)).toEqual(['did', 'undid'])
    expect(server.asked).toEqual(['slow'])
  })

  test('a function: it is given up in its midst', async () => {
    const ledger = unique('c')
    const source = 'export default () => new Promise(() => {})'
    const body = { workspace_id: room.workspaceId, name: 'endless', source }
    expect((await call('POST', '/v1/functions', { as: room.operator, body })).status).toBe(201)
    const id = await begun('call: function.invoke, with: { id: endless, input: {} }', ledger)
    await withRawClient(async ({ workflow }) => {
      await eventually(async () => {
        const query = "WorkflowType = 'functionRun' and ExecutionStatus = 'Running'"
        for await (const { workflowId } of workflow.list({ query })) {
          if (!workflowId.includes(room.workspaceId)) continue
          const { raw } = await workflow.getHandle(workflowId).describe()
          // Its code is at work: it has a place, and not only a row.
          if (raw.pendingActivities?.some(({ lastStartedTime }) => lastStartedTime)) return true
        }
        return undefined
      })
    })
    const run = await cancelled(id)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect([statusOf(run, 'it'), statusOf(run, 'after')]).toEqual(['cancelled', undefined])
    expect(await runs.ledger(ledger)).toEqual(['did', 'undid'])
  })
})

/**
 * A run hears nothing while it is asked for something beside it, which is given up in a moment: then, as a `GET` may be,
 * it can be asked for again before the run hears that it is cancelled.
 */
test('while a request is made beside the run: nobody waits for its answer, and nothing follows from it', async () => {
  const ledger = unique('c')
  server.hold('brief')
  const id = await begun(server.asking('brief', { method: 'get', local: true }), ledger)
  await server.reached('brief')
  const run = await cancelled(id)
  expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
  expect([statusOf(run, 'it'), statusOf(run, 'after')]).toEqual(['cancelled', undefined])
  expect(await runs.ledger(ledger)).toEqual(['did', 'undid'])
  expect(['brief', 'brief,brief']).toContain(String(server.asked))
})

/** Each asks the server for what it does, and for what undoes that. */
const saga = (of: string, count: number) =>
  Array.from({ length: count }, (_, n) => {
    const undo = `undo${n}: { ${server.asking(`${of}/undo${n}`)} }`
    return `  - do${n}: { ${server.asking(`${of}/do${n}`)}, compensate: [{ ${undo} }] }`
  }).join('\n')

const told = (of: string) =>
  server.asked.filter((path) => path.startsWith(`${of}/`)).map((path) => path.slice(of.length + 1))

test('between two calls: what has completed is undone, the last first, and nothing is done after that', async () => {
  const CALLS = 5
  // Whether the run hears first that it is cancelled, or what was answered, or has asked for the next, is left to chance.
  const cancels = new Map<string, () => void>()
  server.onAnswer = (path) => cancels.get(path)?.()
  const ends = Array.from({ length: 2 * CALLS }, async (_, n) => {
    const of = `run${n}`
    const last = `do${n % CALLS}`
    const answered = new Promise<void>((done) => cancels.set(`${of}/${last}`, done))
    const id = await runs.start(await runs.publish(`${saga(of, CALLS)}\n  - nap: { wait: P1D }`))
    await answered
    const run = await cancelled(id)
    expect(run).toMatchObject({ status: 'cancelled', output: null, error: null })
    const completed = run.steps
      .filter(({ name, status }: Shown) => name.startsWith('do') && status === 'completed')
      .map(({ name }: Shown) => name)
    const made = told(of).filter((path) => path.startsWith('do'))
    const undone = completed.map((name: string) => name.replace('do', 'undo')).toReversed()
    expect(told(of)).toEqual([...made, ...undone])
    expect(made).toContain(last)
    // At most one was under way, and that is none that completed.
    expect(made.slice(0, completed.length)).toEqual(completed)
    expect(made.length - completed.length).toBeLessThanOrEqual(1)
  })
  await Promise.all(ends)
})

describe('while it undoes what it has done', () => {
  test('who is cancelled again goes on undoing: once, and in order', async () => {
    server.hold('a/undo1')
    const id = await runs.start(await runs.publish(`${saga('a', 3)}\n  - nap: { wait: P1D }`))
    await runs.shown(id, 'waiting')
    await runs.send(id, 'cancel')
    await server.reached('a/undo1')
    for (const _ of [1, 2]) expect((await runs.send(id, 'cancel')).status).toBe(202)
    server.letGo('a/undo1')
    expect(await runs.ended(id)).toMatchObject({ status: 'cancelled', output: null, error: null })
    expect(told('a')).toEqual(['do0', 'do1', 'do2', 'undo2', 'undo1', 'undo0'])
    expect(await runs.send(id, 'cancel')).toMatchObject({ status: 409, body: { code: 'state_conflict' } })
  })

  test('who has faulted and is cancelled then goes on undoing, and ends faulted', async () => {
    server.hold('a/undo1')
    const no = `  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`
    const id = await runs.start(await runs.publish(`${saga('a', 3)}\n${no}`))
    await server.reached('a/undo1')
    expect((await runs.send(id, 'cancel')).status).toBe(202)
    server.letGo('a/undo1')
    expect(await runs.ended(id)).toMatchObject({ status: 'faulted', error: { status: 409 } })
    expect(told('a')).toEqual(['do0', 'do1', 'do2', 'undo2', 'undo1', 'undo0'])
  })
})
