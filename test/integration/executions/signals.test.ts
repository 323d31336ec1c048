/**
 * Sends thousands of events to one listening execution: it receives every accepted event, others continue meanwhile.
 * Requests that Temporal refuses are told from those that it does not answer.
 */

import { randomUUID } from 'node:crypto'
import { beforeAll, expect, inject, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { refOf, type TenantId, type WorkspaceId } from '../../../src/core/tenant.ts'
import type { QUEUES } from '../../../src/core/work.ts'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import { openTemporal, withRawClient } from '../../support/stack/temporal.ts'

const EVENTS = repeated(1_200, 10_000)
/** How many of them go through the API, which is slower than Temporal. */
const THROUGH_API = 100
const LANES = 10
const REFUSALS = ['dependency_unavailable', 'overloaded', 'state_conflict']

const GATHER = `document: { dsl: '1.0.3', namespace: test, name: gather, version: '1.0.0' }
do:
  - all:
      listen: { to: { any: [{ with: { type: reading } }], until: { one: { with: { type: closed } } } } }
      output: { as: '\${ { count: length, sum: (map(.n) | add), last: (map(.n) | max) } }' }
`

let runner: FlowRunner
beforeAll(async () => {
  runner = new FlowRunner(await createTestWorkspace(), inject('tenon'))
})

test('one execution receives thousands of signals: counts every accepted one, other executions and readyz respond', async () => {
  await runner.publish('gather', GATHER)
  const { id, workflow_id } = await runner.start('gather', {})
  const ref = refOf(workflow_id)
  if (ref === undefined) throw new Error('an id has four parts')
  const { temporal, close } = openTemporal()
  const path = `${runner.workspace.flows}/executions/${id}`
  const event = (n: number) => ({ type: 'reading', source: '/many', id: `r${n}`, data: { n } })
  /** A busy execution answers 503, one whose history is full 409; the sender then retries. */
  const sendEvent = (n: number) =>
    eventually(async () => {
      if (n < THROUGH_API) {
        const { status } = await runner.call('POST', `${path}/signal`, { event: event(n) })
        expect([202, 409, 503]).toContain(status)
        return status === 202 ? true : undefined
      }
      const value = { ...event(n), specversion: '1.0' }
      const sent = temporal
        .workflowsOf(ref)
        .signal(workflow_id, { name: 'event', value })
        .then(() => true as const)
      return sent.catch((error: unknown) => {
        if (error instanceof Problem && REFUSALS.includes(error.code)) return undefined
        throw error
      })
    }, 120_000)
  const remaining = Array.from({ length: EVENTS }, (_, n) => n)
  const lane = async () => {
    for (let n = remaining.pop(); n !== undefined; n = remaining.pop()) await sendEvent(n)
  }
  try {
    const sending = Promise.all(Array.from({ length: LANES }, lane))
    const other = await runner.start('gather', {})
    await runner.call('POST', `${runner.workspace.flows}/executions/${other.id}/signal`, {
      event: { type: 'closed' },
    })
    expect(await runner.ended(other.id)).toMatchObject({ status: 'completed' })
    expect((await call('GET', '/readyz')).status).toBe(200)
    await sending
  } finally {
    await close()
  }
  await eventually(async () => {
    const { status } = await runner.call('POST', `${path}/signal`, { event: { type: 'closed' } })
    return status === 202 ? true : undefined
  }, 60_000)
  const run = await runner.ended(id, 120_000)
  expect(run.output, JSON.stringify(run.error)).toEqual({
    count: EVENTS,
    sum: (EVENTS * (EVENTS - 1)) / 2,
    last: EVENTS - 1,
  })
})

/** The server's `history.maxInFlightUpdates`. */
const UPDATES_AT_ONCE = 10

test('requests that Temporal refuses: an invalid id is no fault of the caller, a workflow with too many commands is overloaded', async () => {
  const { tenantId, workspaceId } = runner.workspace
  const { temporal, close } = openTemporal()
  const workflows = temporal.workflowsOf({
    tenantId: tenantId as TenantId,
    workspaceId: workspaceId as WorkspaceId,
  })
  // No worker polls this queue, so that updates stay in flight.
  const queue = 'nobody' as (typeof QUEUES)['flows']
  const base = { definition: 'nothing', queue, uuid: unique('u'), input: null, summary: '' }
  try {
    await expect(workflows.start({ ...base, subject: 'x'.repeat(1_000) })).rejects.toMatchObject({
      code: 'dependency_unavailable',
    })
    const id = await workflows.start({ ...base, subject: 'flow_x' })
    const updates = Array.from({ length: UPDATES_AT_ONCE + 1 }, () =>
      workflows.update(id, { id: randomUUID(), name: 'pause', value: null }),
    )
    const outcomes = await Promise.allSettled(updates)
    const codes = outcomes.map((one) => one.status === 'rejected' && (one.reason as Problem).code)
    expect(codes).toContain('overloaded')
    await withRawClient((client) => client.workflow.getHandle(id).terminate())
  } finally {
    await close()
  }
})
