/**
 * Tests of executions that continue as new after every few events, on a worker without a cache: same results, each effect
 * once.
 */

import { Client, Connection } from '@temporalio/client'
import { beforeAll, describe, expect, test } from 'vitest'
import { closeSubscriptions, messages, subscribeToStream } from '../support/clients/sse.ts'
import {
  call as callAt,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import type { OwnPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Started } from '../support/stack/start.ts'

/** Temporal suggests to continue as new after so many events. */
export const HINT = 15
/** How many activity calls and how many concurrent items fill several histories. */
const CALLS = repeated(24, 40)
const ITEMS = repeated(30, 60)

let started: Started
let workspace: TestWorkspace

const call = (method: string, path: string, body?: object): Promise<Reply> =>
  callAt(method, path, { at: started.running, as: workspace.operator, ...(body && { body }) })

const head = (name: string) =>
  `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\n`

/** Publishes a flow and starts it. @returns the execution */
async function run(name: string, tasks: string, input: object) {
  await call('POST', `${workspace.flows}/definitions`, { source: head(name) + tasks })
  const published = await call('POST', `${workspace.flows}/definitions/${name}/versions`, {})
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  const { body } = await call('POST', `${workspace.flows}/definitions/${name}/executions`, { input })
  return body
}

const waitForStatus = (id: string, statuses: readonly string[], ms = 60_000) =>
  eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`)
    return statuses.includes(body.status) ? body : undefined
  }, ms)

const ended = (id: string) => waitForStatus(id, ['completed', 'faulted', 'cancelled'])

const documents = async (collection: string) => {
  const path = `/v1/collections/${collection}/documents?page[size]=200`
  return (await callAt('GET', path, { as: workspace.service, at: started.running })).body.data
}

/** How many histories the execution had, and the length of the longest. */
async function histories(workflowId: string): Promise<{ count: number; longest: number }> {
  const connection = await Connection.connect({ address: started.running.env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const client = new Client({ connection })
    let [count, longest] = [0, 0]
    for await (const one of client.workflow.list({ query: `WorkflowId = "${workflowId}"` })) {
      count += 1
      longest = Math.max(longest, one.historyLength)
    }
    return { count, longest }
  } finally {
    await connection.close()
  }
}

/** @param platform the platform whose Temporal has the hint */
export function testManyHistories(platform: () => OwnPlatform): void {
  describe('executions over many histories', () => {
    beforeAll(async () => {
      ;({ started } = platform())
      workspace = await createTestWorkspace(started.running)
    })

    test('loop of activity calls over many histories: every call is made once', async () => {
      const tasks = `do:
  - keep:
      for: { each: n, in: '\${ [range(${CALLS})] }' }
      do:
        - put:
            call: collection.create
            with: { name: kept, document: { n: '\${ $n }' } }
            metadata: { tenon: { local: false } }
            export: { as: '\${ { sum: (($context.sum // 0) + $n) } }' }
  - tell: { set: { sum: '\${ $context.sum }' } }
`
      const { id, workflow_id } = await run('loop', tasks, {})
      expect(await ended(id)).toMatchObject({
        status: 'completed',
        output: { sum: (CALLS * (CALLS - 1)) / 2 },
      })
      const stored = (await documents('kept')).map(({ n }: { n: number }) => n)
      expect(stored.toSorted((a: number, b: number) => a - b)).toEqual(
        Array.from({ length: CALLS }, (_, n) => n),
      )
      const { count, longest } = await eventually(async () => {
        const seen = await histories(workflow_id)
        return seen.count > CALLS / 10 ? seen : undefined
      })
      expect(count).toBeGreaterThan(CALLS / 8)
      expect(longest).toBeLessThan(HINT * 3)
    })

    test('concurrent loop over many histories: results in order, steps and events recorded once', async () => {
      const tasks = `do:
  - all:
      for: { each: n, in: '\${ [range(${ITEMS})] }', concurrency: 7, onError: continue }
      do:
        - rest: { wait: { milliseconds: 3 } }
        - check:
            switch:
              - bad: { when: '\${ $n % 10 == 9 }', then: refuse }
              - good: { then: put }
        - refuse: { raise: { error: { type: 'https://example.com/bad', status: 400, title: Bad } } }
        - put:
            call: collection.create
            with: { name: many, document: { n: '\${ $n }' } }
            metadata: { tenon: { local: false } }
            output: { as: '\${ .n }' }
`
      const { id, workflow_id } = await run('many', tasks, {})
      const { status, output } = await ended(id)
      expect(status).toBe('completed')
      expect(output.map((each: unknown) => (typeof each === 'number' ? each : -1))).toEqual(
        Array.from({ length: ITEMS }, (_, n) => (n % 10 === 9 ? -1 : n)),
      )
      expect(await documents('many')).toHaveLength(0.9 * ITEMS)
      expect((await histories(workflow_id)).count).toBeGreaterThan(ITEMS / 30)
      const { body } = await call('GET', `${workspace.flows}/executions/${id}`)
      const puts = body.steps.filter(({ name }: { name: string }) => name === 'put')
      expect(puts).toHaveLength(0.9 * ITEMS)
      expect(new Set(puts.map(({ seq }: { seq: number }) => seq)).size).toBe(0.9 * ITEMS)
      expect(puts.every(({ status: each }: { status: string }) => each === 'completed')).toBe(true)
      expect(body.steps.filter(({ status: each }: { status: string }) => each === 'running')).toEqual([])
      const frames = await subscribeToStream(
        workspace.operator,
        `${workspace.flows}/executions/${id}/events`,
        {},
        started.running,
      )
      await eventually(async () => frames.find(({ event }) => event === 'end'))
      closeSubscriptions()
      const reported = messages(frames)
      expect(reported.map((one) => Number(one.id))).toEqual(reported.map((_, index) => index + 1))
      const rests = reported.map(({ data }) => data.data).filter((data) => data.name === 'rest')
      for (let n = 0; n < ITEMS; n++) {
        const of = rests.filter(({ iteration }) => iteration === n)
        expect(of.map((data) => data.status)).toEqual(['running', 'waiting', 'completed'])
      }
    })

    test('approval, events and compensation over many histories: take effect as in one', async () => {
      const tasks = `do:
  - before:
      for: { each: n, in: '\${ [range(12)] }' }
      do:
        - put:
            call: collection.create
            with: { name: saga, document: { n: '\${ $n }' } }
            metadata: { tenon: { local: false } }
            compensate:
              - undo:
                  call: collection.create
                  with: { name: undone, document: { n: '\${ .output.n }' } }
  - three:
      listen: { to: { all: [ { with: { type: a } }, { with: { type: b } }, { with: { type: c } } ] } }
  - sure: { approve: { approvers: ['\${ $workflow.input.by }'], fourEyes: false } }
  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }
`
      const { id, workflow_id } = await run('saga', tasks, { by: started.running.clientId })
      await waitForStatus(id, ['waiting'])
      for (const type of ['a', 'b', 'c']) {
        const signalled = await call('POST', `${workspace.flows}/executions/${id}/signal`, {
          event: { type, id: type },
        })
        expect(signalled.status).toBe(202)
      }
      const decided = await eventually(async () => {
        const reply = await call('POST', `${workspace.flows}/executions/${id}/approve`, { approved: true })
        return reply.status === 409 ? undefined : reply
      })
      expect(decided.status, JSON.stringify(decided.body)).toBe(200)
      expect(await ended(id)).toMatchObject({ status: 'faulted', error: { status: 409 } })
      const undone = (await documents('undone')).map(({ n }: { n: number }) => n)
      expect(undone.toSorted((a: number, b: number) => b - a)).toEqual(
        Array.from({ length: 12 }, (_, n) => 11 - n),
      )
      expect((await histories(workflow_id)).count).toBeGreaterThan(1)
    })

    test('slot over many histories: yielded and acquired again', async () => {
      const tasks = `concurrency: { limit: 1, holdWhileWaiting: false }
do:
  - turns:
      for: { each: n, in: '\${ [range(3)] }' }
      do:
        - rest: { wait: { milliseconds: 500 } }
        - put:
            call: collection.create
            with: { name: turns, document: { of: '\${ $workflow.input.of }', n: '\${ $n }' } }
            metadata: { tenon: { local: false } }
`
      const first = await run('turns', tasks, { of: 1 })
      const path = `${workspace.flows}/definitions/turns/executions`
      const second = (await call('POST', path, { input: { of: 2 } })).body
      for (const { id } of [first, second]) expect(await ended(id)).toMatchObject({ status: 'completed' })
      expect(await documents('turns')).toHaveLength(6)
      expect((await histories(first.workflow_id)).count).toBeGreaterThan(2)
    })

    test('cancel after several histories: compensates everything, ends cancelled', async () => {
      const tasks = `do:
  - before:
      for: { each: n, in: '\${ [range(10)] }' }
      do:
        - put:
            call: collection.create
            with: { name: given, document: { n: '\${ $n }' } }
            metadata: { tenon: { local: false } }
            compensate:
              - back: { call: collection.create, with: { name: taken, document: { n: '\${ .output.n }' } } }
  - long: { wait: { hours: 1 } }
`
      const { id } = await run('cancelled', tasks, {})
      await waitForStatus(id, ['waiting'])
      await call('POST', `${workspace.flows}/executions/${id}/cancel`, {})
      expect(await ended(id)).toMatchObject({ status: 'cancelled' })
      expect(await documents('taken')).toHaveLength(10)
    })
  })
}
