/** Records of runs: every invocation has one, from every trigger, with its outcome; lists, rights, orphans, retention. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { Executions, makeRetentionDue } from '../../support/fixtures/executions.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { linesOf } from '../../support/fixtures/functions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { configure, tryConfigure } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let runs: FunctionRuns
let add: string
let fails: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
  add = await runs.deploy('add', 'export default ({ a, b }) => a + b')
  fails = await runs.deploy('fails', 'export default () => {\n  throw new RangeError("no good")\n}')
})

describe('record of an invocation', () => {
  test('completed: has version, trigger, duration, memory and times, and not the result that its caller got', async () => {
    const reply = await runs.invoke(add, { a: 1, b: 2 })
    expect([reply.status, reply.body]).toEqual([200, 3])
    const run = await runs.read(add, reply.headers.get('x-run-id') ?? '')
    expect(run).toMatchObject({
      function_id: add,
      version: 1,
      status: 'completed',
      trigger: { kind: 'api' },
      async: false,
      attempts: 1,
      error: null,
      dead_letter: false,
      input: null,
      result: null,
    })
    expect(run.started_by).toMatch(/^key_/)
    expect(run.duration_ms).toBeGreaterThanOrEqual(0)
    expect(run.memory_mb).toBeGreaterThan(10)
    const times = [run.created_at, run.started_at, run.ended_at].map(Date.parse)
    expect(times).toEqual([...times].sort((a, b) => a - b))
  })

  test('client gone while its call runs: a repetition with the key is not in flight, and gets the result of the same run', async () => {
    const source = 'export default () => new Promise((done) => setTimeout(done, 4_000, Math.random()))'
    const id = await runs.deploy('slow', source)
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'once' }
    const client = new AbortController()
    const gone = fetch(`${inject('tenon').url}/v1/functions/${id}/invoke`, {
      ...{ method: 'POST', body: '{}', signal: client.signal },
      headers: { ...headers, ...(workspace.service as Record<string, string>) },
    })
    const [run = ''] = await eventually(async () => {
      const running = await runs.ids(id, 'status=running')
      return running.length === 1 ? running : undefined
    })
    client.abort()
    await expect(gone).rejects.toThrow()
    const [first, second] = await eventually(async () => {
      const both = await Promise.all([runs.invoke(id, {}, { headers }), runs.invoke(id, {}, { headers })])
      return both.every(({ status }) => status === 409) ? undefined : both
    })
    // One of them has taken the request over; a client that waits keeps it.
    const answered = first?.status === 200 ? first : second
    expect([answered?.status, answered?.headers.get('idempotent-replayed')]).toEqual([200, null])
    expect([first?.status, second?.status].toSorted()).toEqual([200, 409])
    const replayed = await runs.invoke(id, {}, { headers })
    expect([replayed.body, replayed.headers.get('x-run-id')]).toEqual([answered?.body, run])
    expect(await runs.ids(id)).toEqual([run])
  })

  test('failed: has code, detail and the location in the source; is no dead letter, since its caller knows', async () => {
    const reply = await runs.invoke(fails)
    expect(reply.status).toBe(502)
    const run = await runs.read(fails, reply.body.run_id)
    expect(run).toMatchObject({ status: 'failed', dead_letter: false })
    expect(run.error).toMatchObject({ code: 'function_error', detail: 'no good', line: 2 })
  })

  test('called by a flow: names the execution', async () => {
    const flows = new Executions(workspace)
    const flow = await flows.publish(
      '  - sum: { call: function.invoke, with: { id: add, input: { a: 2, b: 2 } } }',
    )
    const execution = await flows.start(flow)
    await flows.ended(execution)
    const [run] = (await runs.list(add, 'trigger=flow')).body.data
    expect(run.trigger).toMatchObject({ kind: 'flow', id: execution })
  })
})

describe('list of runs', () => {
  test('newest first, by pages; filters by status, version, trigger, time', async () => {
    const id = await runs.deploy('listed', 'export default ({ ok }) => { if (!ok) throw new Error("no") }')
    const made: string[] = []
    for (const ok of [true, false, true])
      made.unshift((await runs.invoke(id, { ok })).headers.get('x-run-id') ?? '')
    expect(await runs.ids(id)).toEqual(made)
    const first = (await runs.list(id, 'page[size]=2')).body
    expect(first.data.map((run: { id: string }) => run.id)).toEqual(made.slice(0, 2))
    expect(await runs.ids(id, `page[size]=2&page[after]=${first.page.next}`)).toEqual(made.slice(2))
    expect(await runs.ids(id, 'status=failed')).toEqual([made[1]])
    expect(await runs.ids(id, 'version=2')).toEqual([])
    expect(await runs.ids(id, 'trigger=flow')).toEqual([])
    const { created_at } = await runs.read(id, made[1] ?? '')
    expect(await runs.ids(id, `since=${created_at}`)).toEqual(made.slice(0, 2))
    expect(await runs.ids(id, `until=${created_at}`)).toEqual(made.slice(2))
    expect((await runs.list(id, 'status=gone')).status).toBe(400)
  })

  test('run of another function: not found below this one', async () => {
    const run = (await runs.invoke(add, { a: 1, b: 1 })).headers.get('x-run-id')
    for (const path of ['', '/logs', '/logs/stream'])
      expect((await runs.call('GET', `/v1/functions/${fails}/runs/${run}${path}`)).status).toBe(404)
    expect((await runs.call('DELETE', `/v1/functions/${fails}/runs/${run}`)).status).toBe(404)
  })
})

describe('keys', () => {
  test('scope functions:read: reads runs of the workspace; functions:write alone does not', async () => {
    const keys = keysOf(workspace)
    const reader = { apikey: (await keys.make({ scopes: ['functions:read'] })).key }
    const all = { apikey: (await keys.make({ scopes: ['functions:read', 'payloads:read'] })).key }
    const writer = { apikey: (await keys.make({ scopes: ['functions:write'] })).key }
    const run = (await runs.invoke(add, { a: 1, b: 1 }, { as: writer })).headers.get('x-run-id')
    const read = (path: string, as: Record<string, string>) => call('GET', `/v1/invocations${path}`, { as })
    expect((await read(`/${run}`, reader)).body).toMatchObject({ id: run, status: 'completed' })
    const listed = await read('?function=add&status=completed', reader)
    expect(listed.body.data[0].id).toBe(run)
    expect((await read('?function=gone', reader)).status).toBe(404)
    expect((await read(`/${run}/logs`, reader)).body.code).toBe('payloads_hidden')
    expect((await read(`/${run}/logs`, all)).body.data).toEqual([])
    for (const path of ['', `/${run}`, `/${run}/logs`, `/${run}/logs/stream`])
      expect((await read(path, writer)).body).toMatchObject({
        code: 'insufficient_scope',
        scope: 'functions:read',
      })
    expect((await read('', workspace.anon)).body.code).toBe('forbidden')
  })
})

/** Lets the reconciler look at a run at once, instead of 30 s after it was created. */
const makeDue = (run: string) =>
  asSuperuser('update tenon.function_runs set due_at = now() where id = $1', [run])

/** Inserts a record as an API leaves it that is killed before it starts the workflow. */
async function abandon(
  functionId: string,
  isAsync: boolean,
  { key = 'key_x', status = 'queued', trigger = { kind: 'api' } as object } = {},
) {
  const id = typeId('run', randomIds.uuid())
  await asSuperuser(
    `insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async, input,
        status, caller, due_at)
      values ($1, $2, $3, $4, 1, $8, 'key_x', $5, '{}', $6, $7, now())`,
    [
      ...[workspace.tenantId, workspace.workspaceId, id, functionId, isAsync, status],
      ...[{ subject: key, role: 'service' }, trigger].map((one) => JSON.stringify(one)),
    ],
  )
  return id
}

describe('orphans', () => {
  test('record whose workflow never started: started if it is asynchronous, and its caller has rights; else ended', async () => {
    const id = await runs.deploy('abandoned', 'export default () => 1')
    const key = (await keysOf(workspace).make()).id
    const orphans = await Promise.all([
      abandon(id, false, { key }),
      abandon(id, true, { key }),
      abandon(id, true),
      // Its code may have run.
      abandon(id, true, { key, status: 'running' }),
    ])
    const ended = await Promise.all(orphans.map((run) => runs.ended(id, run)))
    expect(ended.map(({ status, error, dead_letter }) => [status, error?.code, dead_letter])).toEqual([
      ['failed', 'run_cut_off', false],
      ['completed', undefined, false],
      ['failed', 'forbidden', true],
      ['failed', 'run_cut_off', true],
    ])
  })

  test('record whose workflow is not there yet, called by an execution: left to it while it is open, ended afterwards', async () => {
    const executions = new Executions(workspace)
    const flow = await executions.publish('  - heard: { listen: { to: { one: { with: { type: x } } } } }')
    const caller = await executions.start(flow)
    await executions.shown(caller, 'waiting')
    const id = await runs.deploy('called', 'export default () => 1')
    const run = await abandon(id, false, { trigger: { kind: 'flow', id: caller } })
    for (let check = 0; check < 2; check++) {
      await makeDue(run)
      await eventually(async () => {
        const [row] = await asSuperuser(
          'select id from tenon.function_runs where id = $1 and due_at > now()',
          [run],
        )
        return row
      })
    }
    expect(await runs.read(id, run)).toMatchObject({ status: 'queued', ended_at: null })
    await executions.send(caller, 'cancel')
    await executions.ended(caller)
    await makeDue(run)
    expect((await runs.ended(id, run)).error.code).toBe('run_cut_off')
  })

  test('thousands of runs of one workspace that are due, and its queues: do not delay the repair of another', async () => {
    const other = await createTestWorkspace()
    const busy = await new FunctionRuns(other).deploy('busy', 'export default () => 1', { concurrency: 1 })
    await asSuperuser(
      `with r as (
        insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async, input,
            caller, due_at)
          select $1, $2, 'run_' || lpad(n::text, 26, '0'), $3, 1, '{"kind":"api"}', 'key_x', n % 2 = 0, '{}',
            '{"subject":"key_x","role":"service"}', now() - interval '1 hour' from generate_series(1, 6000) n
        returning *
      )
      insert into tenon.run_slots (tenant_id, workspace_id, kind, run_id, owner_id, max, state)
        select tenant_id, workspace_id, 'function_run', id, function_id, 1, case when is_async then 'queued' else 'admitted' end
        from r where is_async or id = 'run_' || lpad('1', 26, '0') order by id`,
      [other.tenantId, other.workspaceId, busy],
    )
    const id = await runs.deploy('behind', 'export default () => 1')
    expect((await runs.ended(id, await abandon(id, false), 10_000)).error.code).toBe('run_cut_off')
    await asSuperuser('delete from tenon.function_runs where function_id = $1', [busy])
  })

  test('run that goes on: left alone by the reconciler', async () => {
    const id = await runs.deploy(
      'slow',
      'export default () => new Promise((done) => setTimeout(done, 3_000, 7))',
    )
    const run = await runs.start(id)
    await runs.until(id, run, ({ status }) => status === 'running')
    await makeDue(run)
    expect(await runs.ended(id, run)).toMatchObject({ status: 'completed', result: 7 })
  })
})

describe('retention', () => {
  test('ended runs: removed after function_runs, dead letters after 30 days; with their lines; open and younger ones stay', async () => {
    const source = 'export default ({ ok }) => { console.log("said"); if (!ok) throw new Error("no") }'
    const id = await runs.deploy('kept', source)
    const [old, young] = [await runs.start(id, { ok: true }), await runs.start(id, { ok: true })]
    const [letter, oldLetter] = [await runs.start(id), await runs.start(id)]
    await Promise.all([old, young, letter, oldLetter].map((run) => runs.ended(id, run)))
    const age = (run: string, days: number) =>
      asSuperuser(
        'update tenon.function_runs set ended_at = ended_at - make_interval(days => $2) where id = $1',
        [run, days],
      )
    await Promise.all([age(old, 3), age(young, 1), age(letter, 29), age(oldLetter, 31)])
    expect((await configure(workspace, { retention: { function_runs: '2d' } })).retention).toEqual({
      function_runs: '2d',
    })
    await makeRetentionDue(workspace)
    const left = await eventually(async () => {
      const ids = await runs.ids(id)
      return ids.length <= 2 ? ids : undefined
    })
    expect(left.sort()).toEqual([young, letter].sort())
    const lines = await Promise.all([old, oldLetter, young, letter].map(linesOf))
    expect(lines).toEqual([[], [], ['said'], ['said']])
  })

  test('period out of bounds: refused, naming the field', async () => {
    const { status, body } = await tryConfigure(workspace, { retention: { function_runs: '59m' } })
    expect([status, body.errors[0].pointer]).toEqual([400, '/retention/function_runs'])
  })
})
