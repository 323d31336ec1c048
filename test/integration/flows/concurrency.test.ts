// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Concurrency limits of flows: slots, queues, cancellation, and recovery after crashes. */

import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import {
  readExecution,
  resumeWorkspace,
  suspendWorkspace,
  waitForStatus,
} from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'

/** Many more than the slots. */
const STARTS = repeated(40, 200)
const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'

let workspace: TestWorkspace
let temporal: Client
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  temporal = new Client({ connection })
})
afterAll(() => temporal.connection.close())

/** Publishes a flow, by default one that waits for a `go` event. @returns its name */
async function publishFlow(concurrency: string, tasks = LISTEN, of = workspace): Promise<string> {
  const name = unique('f')
  const bound = concurrency === '' ? '' : `concurrency: ${concurrency}\n`
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${bound}do:\n${tasks}`
  const made = await call('POST', `${of.flows}/definitions`, { as: of.operator, body: { name, source } })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${of.flows}/definitions/${name}/versions`, { as: of.operator, body: {} })
  return name
}

const start = (flow: string, input: object = {}, headers: Record<string, string> = {}, of = workspace) =>
  call('POST', `${of.flows}/definitions/${flow}/executions`, { as: of.operator, body: { input }, headers })
const send = (id: string, command: string, body: object = {}) =>
  call('POST', `${workspace.flows}/executions/${id}/${command}`, { as: workspace.operator, body })
const sendGo = (id: string) => send(id, 'signal', { event: { type: 'go' } })
const idOf = ({ status, body }: Reply): string => {
  expect([status, body.detail]).toEqual([201, undefined])
  return body.id
}

/** Holds the lock of the slots of a flow without a key, as a start does. */
async function lockSlotsOf(flow: string) {
  const { tenantId, workspaceId } = workspace
  const client = await connectSuperuser(inject('tenon'))
  await client.query(
    `begin; set local tenon.tenant = '${tenantId}'; set local tenon.workspace = '${workspaceId}'`,
  )
  await client.query(
    "select tenon.lock_slots(id, '') from tenon.flows where name = $1 and workspace_id = $2",
    [flow, workspaceId],
  )
  return {
    isAwaitedBy: (count: number) =>
      eventually(async () => {
        const { rows } = await client.query(`
          select from pg_locks mine join pg_locks theirs using (locktype, classid, objid)
          where mine.pid = pg_backend_pid() and locktype = 'advisory' and not theirs.granted`)
        return rows.length === count ? true : undefined
      }),
    release: () => client.end(),
  }
}

/** Starts executions one after the other, so that their order is known. */
async function startInOrder(flow: string, count: number, input: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) ids.push(idOf(await start(flow, input)))
  return ids
}

const countByStatus = (statuses: readonly number[]) =>
  Object.fromEntries([...new Set(statuses)].map((each) => [each, statuses.filter((s) => s === each).length]))

describe('concurrency limit', () => {
  test('more executions than slots: the rest queue, show their position, and start in order', async () => {
    const flow = await publishFlow('{ limit: 2 }')
    const [a = '', b = '', c = '', d = ''] = await startInOrder(flow, 4)
    await waitForStatus(workspace, a, 'waiting')
    await waitForStatus(workspace, b, 'waiting')
    const waits = await readExecution(workspace, d)
    expect(waits).toMatchObject({ status: 'pending', ended_at: null, steps: [] })
    expect(waits.queue).toEqual({ position: 2, key: '', limit: 2, running: 2 })
    expect((await readExecution(workspace, c)).queue.position).toBe(1)
    expect(await readExecution(workspace, a)).not.toHaveProperty('queue')
    const listed = await call('GET', `${workspace.flows}/executions?status=pending&flow=${flow}`, {
      as: workspace.operator,
    })
    expect(listed.body.data.map(({ id }: { id: string }) => id)).toEqual([d, c])
    await sendGo(b)
    await waitForStatus(workspace, c, 'waiting')
    expect((await readExecution(workspace, d)).queue).toMatchObject({ position: 1, running: 2 })
    for (const id of [a, c]) await sendGo(id)
    await waitForStatus(workspace, d, 'waiting')
    await sendGo(d)
    expect(await waitForStatus(workspace, d, 'completed')).toMatchObject({ output: expect.anything() })
    expect(await asSuperuser('select from tenon.run_slots where run_id = any($1)', [[a, b, c, d]])).toEqual(
      [],
    )
  })

  test('limit with a key: counted per key and per workspace; input without the key is refused', async () => {
    const bound = "{ limit: 1, key: '${ .customer }' }"
    const flow = await publishFlow(bound)
    const [first = '', second = ''] = await startInOrder(flow, 2, { customer: 'c1' })
    const [other = ''] = await startInOrder(flow, 1, { customer: 'c2' })
    await waitForStatus(workspace, first, 'waiting')
    await waitForStatus(workspace, other, 'waiting')
    expect((await readExecution(workspace, second)).queue).toMatchObject({ key: 'c1', position: 1 })
    const sibling = await addTestWorkspace(workspace)
    const theirs = await publishFlow(bound, LISTEN, sibling)
    const id = idOf(await start(theirs, { customer: 'c1' }, {}, sibling))
    await waitForStatus(sibling, id, 'waiting')
    const refused = await start(flow, {})
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.detail).toContain('concurrency')
  })

  test(`${STARTS} concurrent starts with a limit of five: never more than five run, all complete`, async () => {
    const flow = await publishFlow('{ limit: 5 }', '  - rest: { wait: { milliseconds: 20 } }')
    const replies = await Promise.all(Array.from({ length: STARTS }, () => start(flow)))
    const ids = replies.map(idOf)
    let maxAdmitted = 0
    await eventually(async () => {
      const [row] = await asSuperuser<{ open: number; admitted: number }>(
        `select (select count(*)::int from tenon.executions where id = any($1) and ended_at is null) as open,
          (select count(*)::int from tenon.run_slots where run_id = any($1) and state = 'admitted') as admitted`,
        [ids],
      )
      maxAdmitted = Math.max(maxAdmitted, row?.admitted ?? 0)
      return row?.open === 0 ? true : undefined
    }, 90_000)
    expect(maxAdmitted).toBeLessThanOrEqual(5)
    const [row] = await asSuperuser<{ most: number; completed: number }>(
      `with runs as (
        select e.id, e.status, s.started_at as begun, e.ended_at from tenon.executions e
          join tenon.execution_steps s on s.execution_id = e.id and s.seq = 0 where e.id = any($1))
      select max((select count(*)::int from runs b where b.begun <= a.begun and b.ended_at > a.begun)) as most,
        count(*) filter (where status = 'completed')::int as completed from runs a`,
      [ids],
    )
    expect(row?.completed).toBe(STARTS)
    expect(row?.most).toBeLessThanOrEqual(5)
    expect(row?.most).toBeGreaterThan(1)
  })

  test('starts with Prefer: wait: queued executions are awaited to their end', async () => {
    const flow = await publishFlow('{ limit: 1 }', '  - rest: { wait: PT1S }')
    const waits = { prefer: 'wait=20' }
    const replies = await Promise.all([start(flow, {}, waits), start(flow, {}, waits)])
    expect(replies.map(({ body }) => body.status)).toEqual(['completed', 'completed'])
  })

  test('onLimit is refuse: refused with 429, no execution is recorded', async () => {
    const flow = await publishFlow('{ limit: 1, onLimit: refuse }')
    const [first = ''] = await startInOrder(flow, 1)
    const refused = await start(flow)
    expect([refused.status, refused.body]).toMatchObject([
      429,
      { code: 'concurrency_limited', limit: 1, running: 1, key: '' },
    ])
    const listed = await call('GET', `${workspace.flows}/definitions/${flow}/executions`, {
      as: workspace.operator,
    })
    expect(listed.body.data).toHaveLength(1)
    await sendGo(first)
    await waitForStatus(workspace, first, 'completed')
    expect((await start(flow)).status).toBe(201)
  })

  test('onLimit is cancel_running: the oldest execution is cancelled, the new one starts', async () => {
    const flow = await publishFlow('{ limit: 1, onLimit: cancel_running }')
    const [first = '', second = ''] = await startInOrder(flow, 2)
    expect(await waitForStatus(workspace, first, 'cancelled')).toMatchObject({ ended_at: expect.any(String) })
    await waitForStatus(workspace, second, 'waiting')
    const [third = '', last = ''] = await startInOrder(flow, 2)
    await waitForStatus(workspace, second, 'cancelled')
    await waitForStatus(workspace, third, 'cancelled')
    await sendGo(
      idOf({ status: 201, headers: new Headers(), body: await waitForStatus(workspace, last, 'waiting') }),
    )
    await waitForStatus(workspace, last, 'completed')
  })

  test('onLimit is cancel_running: starts that wait for the lock together: all but the last are cancelled', async () => {
    const flow = await publishFlow('{ limit: 1, onLimit: cancel_running }')
    const [first = ''] = await startInOrder(flow, 1)
    await waitForStatus(workspace, first, 'waiting')
    const lock = await lockSlotsOf(flow)
    const starts = [start(flow), start(flow), start(flow)]
    await lock.isAwaitedBy(starts.length)
    await lock.release()
    const ids = [first, ...(await Promise.all(starts)).map(idOf)]
    const settled = await eventually(async () => {
      const statuses = await Promise.all(ids.map(async (id) => (await readExecution(workspace, id)).status))
      return statuses.some((status) => ['pending', 'running'].includes(status)) ? undefined : statuses
    })
    expect(settled.sort()).toEqual(['cancelled', 'cancelled', 'cancelled', 'waiting'])
  })

  test('subflows: count towards the limit, never queue', async () => {
    const child = await publishFlow('{ limit: 1 }')
    const [own = ''] = await startInOrder(child, 1)
    await waitForStatus(workspace, own, 'waiting')
    const parent = await publishFlow('', `  - a: { run: { workflow: { namespace: n, name: ${child} } } }`)
    const [run = ''] = await startInOrder(parent, 1)
    const children = () =>
      call('GET', `${workspace.flows}/executions?flow=${child}&trigger=flow&trigger_id=${run}`, {
        as: workspace.operator,
      })
    const [inner] = await eventually(async () => {
      const { body } = await children()
      return body.data[0]?.status === 'waiting' ? body.data : undefined
    })
    const [queued = ''] = await startInOrder(child, 1)
    expect((await readExecution(workspace, queued)).queue).toMatchObject({ limit: 1, running: 2 })
    await sendGo(inner.id)
    await waitForStatus(workspace, run, 'completed')
    expect((await readExecution(workspace, queued)).queue).toMatchObject({ running: 1 })
    await sendGo(own)
    await waitForStatus(workspace, queued, 'waiting')
  })
})

describe('queued execution', () => {
  test('cancelled: ends without a workflow, the others move up', async () => {
    const flow = await publishFlow('{ limit: 1 }')
    const [a = '', b = '', c = ''] = await startInOrder(flow, 3)
    const cancelled = await send(b, 'cancel')
    expect([cancelled.status, cancelled.body.status]).toEqual([202, 'cancelled'])
    expect(cancelled.body).not.toHaveProperty('queue')
    expect((await send(b, 'cancel')).status).toBe(409)
    expect((await readExecution(workspace, c)).queue.position).toBe(1)
    const { workflow_id } = await readExecution(workspace, b)
    await expect(temporal.workflow.getHandle(workflow_id).describe()).rejects.toThrow()
    await waitForStatus(workspace, a, 'waiting')
    await send(a, 'cancel')
    await waitForStatus(workspace, c, 'waiting')
  })

  test('signal: 409, since it would be lost; the same signal is received after the start', async () => {
    const flow = await publishFlow('{ limit: 1 }')
    const [a = '', b = ''] = await startInOrder(flow, 2)
    expect(await sendGo(b)).toMatchObject({ status: 409, body: { detail: 'The execution has not started.' } })
    expect((await sendGo(a)).status).toBe(202)
    await waitForStatus(workspace, b, 'waiting')
    expect((await sendGo(b)).status).toBe(202)
    await waitForStatus(workspace, b, 'completed')
  })

  test('workspace suspended: stays queued, starts after the workspace is resumed', async () => {
    const own = await addTestWorkspace(workspace)
    const flow = await publishFlow('{ limit: 1 }', '  - rest: { wait: PT2S }', own)
    const [a, b] = [idOf(await start(flow, {}, {}, own)), idOf(await start(flow, {}, {}, own))]
    await waitForStatus(own, a, 'waiting')
    await suspendWorkspace(own, own.operator)
    // The timer ends while the execution is suspended; terminating the workflow frees its slot.
    const { workflow_id } = await readExecution(own, a)
    await temporal.workflow.getHandle(workflow_id).terminate()
    await waitForStatus(own, a, 'cancelled', 30_000)
    const [row] = await asSuperuser('select state from tenon.run_slots where run_id = $1', [b])
    expect(row).toEqual({ state: 'queued' })
    await resumeWorkspace(own, own.operator)
    await waitForStatus(own, b, 'completed', 30_000)
  })
})

describe('reconciler', () => {
  test('workflow terminated from outside: slot is released, execution shown as cancelled', async () => {
    const flow = await publishFlow('{ limit: 1 }')
    const [a = '', b = ''] = await startInOrder(flow, 2)
    const { workflow_id } = await waitForStatus(workspace, a, 'waiting')
    await temporal.workflow.getHandle(workflow_id).terminate()
    await waitForStatus(workspace, b, 'waiting', 30_000)
    const ended = await readExecution(workspace, a)
    expect(ended).toMatchObject({
      status: 'cancelled',
      error: { detail: expect.stringContaining('terminated in Temporal') },
    })
    expect(ended.steps.map(({ status }: { status: string }) => status)).toEqual(['cancelled'])
  })

  test('workflow timed out: execution shown as faulted, with whose time limit it was', async () => {
    const flow = await publishFlow('{ limit: 1 }')
    const [a = '', b = ''] = await startInOrder(flow, 2)
    await waitForStatus(workspace, a, 'waiting')
    const { workflow_id: workflowId } = await readExecution(workspace, b)
    // In place of the one that the platform would start: Temporal has a limit for all workflows, if an operator sets one.
    const taskQueue = unique('nobody')
    await temporal.workflow.start('none', { workflowId, taskQueue, workflowExecutionTimeout: 1_000 })
    await sendGo(a)
    await waitForStatus(workspace, b, 'faulted', 30_000)
    const { error } = await readExecution(workspace, b)
    expect(error.detail).toMatch(/time limit of the Temporal server/)
  })

  test('crash before the next execution is promoted or started: both queued executions start', async () => {
    const flow = await publishFlow('{ limit: 2 }')
    const [a = '', b = '', c = '', d = ''] = await startInOrder(flow, 4)
    for (const id of [a, b]) await waitForStatus(workspace, id, 'waiting')
    // As if the process had crashed after recording the end of `a`, before promoting the next execution, …
    await asSuperuser('delete from tenon.run_slots where run_id = $1', [a])
    await waitForStatus(workspace, c, 'waiting', 30_000)
    // … and after recording that of `b` and promoting the next, before starting it.
    await asSuperuser('delete from tenon.run_slots where run_id = $1', [b])
    await asSuperuser(
      "update tenon.run_slots set state = 'admitted', checked_at = now() - interval '1 minute' where run_id = $1",
      [d],
    )
    await waitForStatus(workspace, d, 'waiting', 30_000)
  })

  /** Inserts the row of an execution that was recorded but never started, modelled on another one. */
  async function insertUnstarted(
    like: string,
    more: { kind?: string; by?: string | undefined; dueSeconds?: number } = {},
  ): Promise<string> {
    const uuid = randomIds.uuid()
    const id = typeId('run', uuid)
    await asSuperuser(
      `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input,
        started_by, trigger_kind, trigger_id, due_at)
      select tenant_id, workspace_id, $2, $1 || $3, flow_id, version, 'pending', '{"n": 7}', 'me', $4, $5,
        now() + make_interval(secs => $6)
      from tenon.executions where workflow_id like $1 || '%' limit 1`,
      [like.slice(0, -uuid.length), id, uuid, more.kind ?? 'manual', more.by ?? null, more.dueSeconds ?? 0],
    )
    return id
  }

  test('execution row without a workflow: started; as a subflow of an ended execution: cancelled', async () => {
    const flow = await publishFlow('', "  - a: { set: { n: '${ .n }' } }")
    const done = (await start(flow, { n: 1 }, { prefer: 'wait=20' })).body
    const id = await insertUnstarted(done.workflow_id)
    expect(await waitForStatus(workspace, id, 'completed', 30_000)).toMatchObject({ output: { n: 7 } })
    const waiting = (await start(await publishFlow(''))).body
    const unstarted = await insertUnstarted(done.workflow_id, { kind: 'flow', by: waiting.id })
    const orphan = await insertUnstarted(done.workflow_id, { kind: 'flow', by: done.id })
    expect((await waitForStatus(workspace, orphan, 'cancelled', 30_000)).error.detail).toBe(
      'The execution that runs this flow ended before it was started.',
    )
    expect((await readExecution(workspace, unstarted)).status).toBe('pending')
  })

  test('execution row without a workflow, cancelled: ends without one; that of a schedule with one, which is cancelled', async () => {
    const { body } = await start(await publishFlow(''))
    const cancelledRow = async (kind: string) => {
      const id = await insertUnstarted(body.workflow_id, { kind, dueSeconds: 60 })
      expect((await send(id, 'cancel')).status).toBe(202)
      await asSuperuser(
        "update tenon.executions set due_at = now(), started_at = now() - interval '2 minutes' where id = $1",
        [id],
      )
      return id
    }
    const ids = [await cancelledRow('manual'), await cancelledRow('schedule')]
    const [manual, scheduled] = await Promise.all(
      ids.map((id) => waitForStatus(workspace, id, 'cancelled', 30_000)),
    )
    expect(manual).toMatchObject({ error: null, steps: [] })
    await expect(temporal.workflow.getHandle(manual.workflow_id).describe()).rejects.toThrow()
    const { status } = await temporal.workflow.getHandle(scheduled.workflow_id).describe()
    expect(status.name).toBe('CANCELLED')
  })

  test('running execution that is due for a check: left unchanged', async () => {
    const [id = ''] = await startInOrder(await publishFlow(''), 1)
    await waitForStatus(workspace, id, 'waiting')
    await asSuperuser("update tenon.executions set due_at = now() - interval '1 day' where id = $1", [id])
    await eventually(async () => {
      const [row] = await asSuperuser('select from tenon.executions where id = $1 and due_at > now()', [id])
      return row
    })
    await sendGo(id)
    await waitForStatus(workspace, id, 'completed')
  })
})

describe('concurrent starts', () => {
  test('100 starts with one idempotency key: one execution; another body under the key is refused with 422', async () => {
    const flow = await publishFlow('{ limit: 1 }')
    const headers = { 'idempotency-key': unique('k') }
    const replies = await Promise.all(Array.from({ length: 100 }, () => start(flow, { n: 1 }, headers)))
    const made = replies.filter(({ status }) => status === 201)
    // Requests that arrive while the first is in progress get 409 and may be repeated.
    expect(replies.filter(({ status }) => status !== 201 && status !== 409)).toEqual([])
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1)
    const listed = await call('GET', `${workspace.flows}/executions?flow=${flow}`, { as: workspace.operator })
    expect(listed.body.data).toHaveLength(1)
    const other = await start(flow, { n: 2 }, headers)
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused'])
  })

  // When running executions were counted through Temporal visibility, its lag let too many start.
  test('100 starts under a quota of 7 concurrent executions: exactly 7 start', async () => {
    const own = await addTestWorkspace(workspace)
    const flow = await publishFlow('', LISTEN, own)
    const body = { workspace_id: own.workspaceId, limits: { concurrent_executions: 7 } }
    await call('PUT', '/v1/quotas', { as: own.operator, body })
    const replies = await Promise.all(Array.from({ length: 100 }, () => start(flow, {}, {}, own)))
    expect(countByStatus(replies.map(({ status }) => status))).toEqual({ 201: 7, 429: 93 })
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body).toMatchObject({ code: 'quota_exceeded', quota: 'concurrent_executions', limit: 7 })
  })
})
