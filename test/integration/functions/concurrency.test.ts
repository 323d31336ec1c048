/**
 * `concurrency`: how many runs of a function there are at once; callers wait or queue, slots survive crashes, and a queue keeps no
 * rights that were revoked.
 */

import { beforeAll, expect, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import { resume, suspend } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { startCountedApi } from '../../support/stack/counted-api.ts'

let workspace: TestWorkspace
let runs: FunctionRuns
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
})

const SLEEPS = 'export default ({ ms = 300 }) => new Promise((done) => setTimeout(done, ms, ms))'

interface Times {
  readonly started_at: string
  readonly ended_at: string
  readonly slot: string
}

/** The highest number of runs that went on at the same time. */
async function mostAtOnce(id: string): Promise<number> {
  const times = await asSuperuser<Times>(
    'select started_at::text, ended_at::text from tenon.function_runs where function_id = $1 order by started_at',
    [id],
  )
  return Math.max(
    ...times.map(
      ({ started_at: at }) => times.filter((one) => one.started_at <= at && one.ended_at > at).length,
    ),
  )
}

test.concurrent('callers that wait: no more at once than the limit, in their order, and all get their result', async () => {
  const id = await runs.deploy('two', SLEEPS, { concurrency: 2 })
  const replies = await Promise.all(Array.from({ length: 6 }, () => runs.invoke(id)))
  expect(replies.map(({ status, body }) => [status, body])).toEqual(Array(6).fill([200, 300]))
  expect(await mostAtOnce(id)).toBe(2)
})

/** As many starts of one tenant may wait for Temporal. */
const STARTS_MAX =
  INFRA_LIMITS.temporalCalls.atOnce.max *
  INFRA_LIMITS.temporalCalls.tenantShare *
  INFRA_LIMITS.temporalCalls.startsPerRequest

test('as many callers wait for a function as its tenant may have starts under way: its other functions are served', async () => {
  const theirs = new FunctionRuns(await createTestWorkspace())
  const id = await theirs.deploy('awaited', SLEEPS, { concurrency: 1, timeout: '60s' })
  const other = await theirs.deploy('other', SLEEPS)
  const held = await theirs.start(id, { ms: 30_000 })
  await theirs.until(id, held, ({ status }) => status === 'running')
  const waiting = Array.from({ length: STARTS_MAX }, () => theirs.invoke(id))
  await eventually(async () => {
    const queued = "select from tenon.run_slots where owner_id = $1 and state = 'queued'"
    return (await asSuperuser(queued, [id])).length === STARTS_MAX || undefined
  })
  const beside = await theirs.invoke(other, { ms: 2 })
  expect([beside.status, beside.body]).toEqual([200, 2])
  // Ends the wait of the others at once.
  expect((await theirs.call('DELETE', `/v1/functions/${id}`)).status).toBe(200)
  for (const { status } of await Promise.all(waiting)) expect(status).toBe(429)
})

test.concurrent('asynchronous runs: queue and run one after the other, between callers that wait', async () => {
  const id = await runs.deploy('one', SLEEPS, { concurrency: 1 })
  const queued = [await runs.start(id), await runs.start(id)]
  const waited = runs.invoke(id)
  const last = await runs.start(id)
  const ended = await Promise.all([...queued, last].map((run) => runs.ended(id, run)))
  expect(ended.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed'])
  expect((await waited).status).toBe(200)
  expect(await mostAtOnce(id)).toBe(1)
  const starts = ended.map(({ started_at }) => started_at)
  expect(starts).toEqual([...starts].sort())
})

test.concurrent('failed run: gives its slot back', async () => {
  const id = await runs.deploy('failing', 'export default () => { throw new Error("no") }', {
    concurrency: 1,
  })
  for (const _n of [1, 2, 3]) expect((await runs.invoke(id)).body.code).toBe('function_error')
})

test.concurrent('caller whose turn does not come in time: 429 function_busy with Retry-After, and nothing was run', async () => {
  const id = await runs.deploy('busy', SLEEPS, { concurrency: 1, timeout: '60s' })
  const held = await runs.start(id, { ms: 4_000 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const waiting = runs.invoke(id)
  const [late = ''] = await eventually(async () => {
    const others = (await runs.ids(id)).filter((run) => run !== held)
    return others.length > 0 ? others : undefined
  })
  // As if the caller had waited 18 of its 20 s.
  await eventually(async () => {
    const [moved] = await asSuperuser(
      "update tenon.run_slots set expires_at = expires_at - interval '18 seconds' where run_id = $1 returning run_id",
      [late],
    )
    return moved
  })
  const refused = await waiting
  expect([refused.status, refused.body.code]).toEqual([429, 'function_busy'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await runs.ids(id)).toEqual([held])
  expect((await runs.ended(id, held)).status).toBe('completed')
  expect((await runs.invoke(id, { ms: 1 })).status).toBe(200)
})

test.concurrent('limit that is raised, removed or deployed anew: queued runs and callers start at once, beside the run that goes on', async () => {
  const id = await runs.deploy('raised', SLEEPS, { concurrency: 1 })
  const held = await runs.start(id, { ms: 9_000 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const configure = (change: object) => runs.call('PUT', `/v1/functions/${id}/config`, { body: change })
  const queued = [await runs.start(id, { ms: 9_001 }), await runs.start(id, { ms: 9_002 })]
  const waiting = runs.invoke(id, { ms: 1 })
  await eventually(async () => ((await runs.ids(id)).length === 4 ? true : undefined))
  expect((await configure({ concurrency: 2 })).status).toBe(200)
  await runs.until(id, queued[0] ?? '', ({ status }) => status === 'running')
  await runs.deploy('raised', SLEEPS, { concurrency: 3 })
  await runs.until(id, queued[1] ?? '', ({ status }) => status === 'running')
  expect((await configure({ concurrency: null })).status).toBe(200)
  expect((await waiting).body).toBe(1)
  expect((await runs.read(id, held)).status).toBe('running')
})

test.concurrent('slot that a crash left behind: freed by the reconciler; the queue goes on', async () => {
  const id = await runs.deploy('crashed', SLEEPS, { concurrency: 1 })
  // As an API leaves it that is killed after its run got the slot, before its workflow is started.
  const lost = (await runs.invoke(id, { ms: 1 })).headers.get('x-run-id')
  await asSuperuser(
    `update tenon.function_runs set ended_at = null, status = 'queued', due_at = now() + interval '1 second',
        created_at = now() - interval '2 minutes' where id = $1`,
    [lost],
  )
  await asSuperuser(
    `insert into tenon.run_slots (tenant_id, workspace_id, kind, run_id, owner_id, max, state)
      select tenant_id, workspace_id, 'function_run', id, function_id, 1, 'admitted' from tenon.function_runs where id = $1`,
    [lost],
  )
  const queued = await runs.start(id, { ms: 2 })
  expect(await runs.ended(id, queued)).toMatchObject({ status: 'completed', result: 2 })
  expect((await runs.read(id, lost ?? '')).error.code).toBe('run_cut_off')
})

/** Inserts queued runs as processes leave them that end before they start one. */
const enqueue = (id: string, count: number, key: string) =>
  asSuperuser(
    `with r as (
      insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async, input,
          caller, due_at)
        select $1, $2, run, $3, 1, '{"kind":"api"}', $4, true, '{"ms":1}',
          json_build_object('subject', $4::text, 'role', 'service'), now() from unnest($5::text[]) run
      returning *
    )
    insert into tenon.run_slots (tenant_id, workspace_id, kind, run_id, owner_id, max)
      select tenant_id, workspace_id, 'function_run', id, function_id, 1 from r order by id`,
    [
      workspace.tenantId,
      workspace.workspaceId,
      id,
      key,
      Array.from({ length: count }, () => typeId('run', randomIds.uuid())),
    ],
  )

test.concurrent('queue of a key that was revoked: its runs fail, more than are started at once; then the next one runs', async () => {
  const keys = keysOf(workspace)
  const key = await keys.make()
  await keys.revoke(key.id)
  const id = await runs.deploy('revoked', SLEEPS, { concurrency: 1 })
  await enqueue(id, 25, key.id)
  const last = await runs.start(id, { ms: 5 })
  expect(await runs.ended(id, last)).toMatchObject({ status: 'completed', result: 5 })
  const ended = await asSuperuser(
    `select distinct status, attempts, is_dead_letter, error ->> 'code' as code from tenon.function_runs
      where function_id = $1 and id <> $2`,
    [id, last],
  )
  expect(ended).toEqual([{ status: 'failed', attempts: 0, is_dead_letter: true, code: 'forbidden' }])
})

test.concurrent('queued run of a key that has lost a scope: acts without it', async () => {
  const keys = keysOf(workspace)
  const key = await keys.make({ scopes: ['functions:write', 'events:write'] })
  const id = await runs.deploy(
    'narrowed',
    `export default async ({ ms }, { tenon }) => {
      if (ms) return new Promise((done) => setTimeout(done, ms))
      return tenon.events.publish('made', { n: 1 }).then(() => 'published', ({ code }) => code)
    }`,
    { concurrency: 1 },
  )
  const held = await runs.start(id, { ms: 1_500 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const queued = await runs.start(id, {}, { apikey: key.key })
  await keys.change(key.id, { scopes: ['functions:write'] })
  expect((await runs.ended(id, queued)).result).toBe('insufficient_scope')
})

test.concurrent('caller whose workflow cannot be started: an error, and the next one gets the slot at once', async () => {
  const id = await runs.deploy('unreachable', SLEEPS, { concurrency: 1 })
  const api = await startCountedApi({
    TEMPORAL_NAMESPACE: 'none',
    TENON_EAGER_START_SOCKET: undefined,
  })
  try {
    const { statusCode } = await api.app.inject({
      method: 'POST',
      url: `/v1/functions/${id}/invoke`,
      headers: { ...workspace.service, 'content-type': 'application/json' },
      payload: '{"ms":1}',
    })
    expect(statusCode).toBeGreaterThanOrEqual(500)
    expect(await runs.ids(id)).toEqual([])
    expect((await runs.invoke(id, { ms: 1 })).status).toBe(200)
  } finally {
    await api.close()
  }
})

const dueIn = (run: string, seconds: number) =>
  asSuperuser(
    'update tenon.function_runs set due_at = now() + make_interval(secs => $2::integer) where id = $1',
    [run, seconds],
  )

test.concurrent('suspended tenant: the run under way is a dead letter, the queue waits, and goes on when the tenant is resumed', async () => {
  const at = await createTestWorkspace()
  const theirs = new FunctionRuns(at)
  const id = await theirs.deploy('stopped', SLEEPS, { concurrency: 1, timeout: '60s' })
  const held = await theirs.start(id, { ms: 50_000 })
  await theirs.until(id, held, ({ status }) => status === 'running')
  const queued = [await theirs.start(id, { ms: 1 }), await theirs.start(id, { ms: 2 })]
  expect((await suspend(at)).status).toBe(200)
  expect(await theirs.ended(id, held)).toMatchObject({
    status: 'failed',
    dead_letter: true,
    error: { code: 'tenant_suspended' },
  })
  // The reconciler looks at the queue, too.
  await dueIn(queued[0] ?? '', 0)
  await eventually(async () => {
    const [due] = await asSuperuser('select from tenon.function_runs where id = $1 and due_at > now()', [
      queued[0],
    ])
    return due
  })
  for (const run of queued)
    expect(await theirs.read(id, run)).toMatchObject({ status: 'queued', attempts: 0 })
  expect((await resume(at)).status).toBe(200)
  await dueIn(queued[0] ?? '', 0)
  const ended = await Promise.all(queued.map((run) => theirs.ended(id, run)))
  expect(ended.map(({ status, result }) => [status, result])).toEqual([
    ['completed', 1],
    ['completed', 2],
  ])
})
