/** Asynchronous invocations: 202 and an operation, which only the credential that started it reads. */

import { beforeAll, describe, expect, test } from 'vitest'
import { uuidOf } from '../../../src/core/ids.ts'
import { type WorkspaceRef, workflowId } from '../../../src/core/tenant.ts'
import { addUser, createUserApp, userTokens } from '../../support/clients/users.ts'
import { declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { ASYNC, FunctionRuns, workflowInputOf } from '../../support/fixtures/function-runs.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { withReadingClient } from '../../support/stack/temporal.ts'

const WAIT = { prefer: 'wait=20' }

let workspace: TestWorkspace
let runs: FunctionRuns
let double: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
  const open = { anon: true, user: true }
  double = await runs.deploy(
    'double',
    'export default ({ n }) => { if (n > 9) throw new Error(`${n}?`); return n * 2 }',
    open,
  )
})

const operation = (id: string, as: Caller, headers: Caller = WAIT) =>
  call('GET', `/v1/operations/${id}`, { as, headers })

describe('Prefer: respond-async', () => {
  test('202 with the operation and its address, then the result', async () => {
    const started = await runs.invoke(double, { n: 4 }, { headers: ASYNC })
    expect(started.status).toBe(202)
    const { id } = started.body
    expect(started.body).toMatchObject({ type: 'function.invoke', target: double, result: null, error: null })
    expect(started.headers.get('location')).toBe(`/v1/operations/${id}`)
    expect(started.headers.get('x-run-id')).toBe(id)
    const ended = await operation(id, workspace.service)
    expect(ended.body).toMatchObject({ id, state: 'succeeded', result: 8 })
    expect(await runs.read(double, id)).toMatchObject({ async: true, input: { n: 4 }, result: 8 })
  })

  test('failure: the operation has the problem; public callers see no location in the source', async () => {
    const id = await runs.start(double, { n: 10 })
    const { body } = await operation(id, workspace.service)
    expect(body).toMatchObject({ state: 'failed', error: { code: 'function_error', detail: '10?', line: 1 } })
    const theirs = await runs.start(double, { n: 11 }, workspace.anon)
    expect((await operation(theirs, workspace.anon)).body.error).toEqual({
      code: 'function_error',
      detail: '11?',
    })
  })

  test('same Idempotency-Key: one run', async () => {
    const headers = { ...ASYNC, 'idempotency-key': unique('k') }
    const [first, again] = [
      await runs.invoke(double, { n: 1 }, { headers }),
      await runs.invoke(double, { n: 1 }, { headers }),
    ]
    expect([again.status, again.body.id]).toEqual([202, first.body.id])
    expect(again.headers.get('location')).toBe(`/v1/operations/${first.body.id}`)
  })

  test('other preferences, and without one: waits', async () => {
    const headers = { prefer: 'wait=1', 'content-type': 'application/json' }
    expect((await runs.invoke(double, { n: 3 }, { headers })).body).toBe(6)
  })

  test('input above the limit: refused', async () => {
    expect((await runs.invoke(double, 'x'.repeat(1_048_577), { headers: ASYNC })).status).toBe(413)
  })

  test('by a flow: goes on with the operation', async () => {
    const flows = new Executions(workspace)
    const flow = await flows.publish(
      `  - go: { call: function.invoke, with: { id: double, input: { n: 5 }, respond_async: true } }`,
    )
    const execution = await flows.start(flow)
    const { output } = await flows.ended(execution)
    expect(output.type).toBe('function.invoke')
    expect(await runs.ended(double, output.id)).toMatchObject({
      result: 10,
      trigger: { kind: 'flow', id: execution },
    })
  })
})

describe('who reads an operation', () => {
  test('anon key and user: their own; not those of others', async () => {
    const [mia, ben] = await Promise.all([userToken(workspace, 'mia'), userToken(workspace, 'ben')])
    const [hers, anons, services] = await Promise.all(
      [mia, workspace.anon, workspace.service].map((as) => runs.start(double, { n: 2 }, as)),
    )
    const read = async (id = '', as: Caller) => {
      const { status, body } = await operation(id, as)
      return body.result ?? status
    }
    expect([await read(hers, mia), await read(anons, workspace.anon)]).toEqual([4, 4])
    expect([await read(hers, ben), await read(anons, mia), await read(services, mia)]).toEqual([
      404, 404, 404,
    ])
    expect([await read(hers, workspace.anon), await read(services, workspace.anon)]).toEqual([404, 404])
    // A service key without restrictions reads all runs of its workspace, and payloads only of its own.
    expect([await read(hers, workspace.service), await read(anons, workspace.service)]).toEqual([200, 200])
    expect(await read(services, workspace.service)).toBe(4)
    const other = await addTestWorkspace(workspace)
    for (const id of [hers, anons, services])
      for (const as of [other.service, other.anon]) expect(await read(id, as)).toBe(404)
  })

  test('key with functions:write: its own; with functions:read besides: all; their results with payloads:read', async () => {
    const keys = keysOf(workspace)
    const key = async (...scopes: string[]) => ({ apikey: (await keys.make({ scopes })).key })
    const [writer, both] = [await key('functions:write'), await key('functions:read', 'functions:write')]
    const own = await runs.start(double, { n: 2 }, writer)
    const foreign = await runs.start(double, { n: 2 })
    expect((await operation(own, writer)).body.result).toBe(4)
    expect((await operation(foreign, writer)).status).toBe(404)
    expect((await operation(foreign, both)).body).toMatchObject({ state: 'succeeded', payloads: 'hidden' })
    const all = await key('functions:read', 'functions:write', 'payloads:read')
    expect((await operation(foreign, all)).body.result).toBe(4)
  })

  test('run whose caller waits: is no operation', async () => {
    const id = (await runs.invoke(double, { n: 1 })).headers.get('x-run-id') ?? ''
    expect((await operation(id, workspace.service)).status).toBe(404)
  })
})

test('timeout of 15 minutes: counts for an asynchronous run; one whose caller waits has a minute', async () => {
  const id = await runs.deploy('patient', 'export default () => 1', { timeout: '15m' })
  const queued = await runs.start(id)
  const waited = (await runs.invoke(id)).headers.get('x-run-id') ?? ''
  await runs.ended(id, queued)
  const timeouts = [queued, waited].map(async (run) => (await workflowInputOf(workspace, id, run)).timeout_ms)
  expect(await Promise.all(timeouts)).toEqual([900_000, 60_000])
  const { status, body } = await runs.call('PUT', `/v1/functions/${id}/config`, { body: { timeout: '901s' } })
  expect([status, body.errors[0].pointer]).toEqual([400, '/timeout'])
})

test('idempotent function with retries: runs again, as often as `retries` says', async () => {
  const source = 'export default () => { throw new Error("again") }'
  const id = await runs.deploy('flaky', source, { idempotent: true, retries: 1 })
  const run = await runs.start(id)
  expect(await runs.ended(id, run)).toMatchObject({ status: 'failed', attempts: 2, dead_letter: true })
  const once = await runs.deploy('once', source)
  expect(await runs.ended(once, await runs.start(once))).toMatchObject({ attempts: 1 })
})

test('run that is cancelled in Temporal between its attempts: ends at once', async () => {
  const source = 'export default () => { throw new Error("again") }'
  const id = await runs.deploy('cancelled', source, { idempotent: true, retries: 9 })
  const run = await runs.start(id)
  // The pause after the second attempt lasts two seconds.
  await runs.until(id, run, ({ attempts }) => attempts === 2)
  await withReadingClient((client) =>
    client.workflow.getHandle(workflowId(workspace as WorkspaceRef, id, uuidOf(run))).cancel(),
  )
  expect(await runs.ended(id, run)).toMatchObject({
    status: 'failed',
    dead_letter: true,
    error: { code: 'run_cut_off', detail: 'The run was cancelled.' },
  })
})

test('asynchronous run of a user of the platform: acts as this user, and not once the claims of the user have changed', async () => {
  const app = await createUserApp(workspace)
  const user = await addUser(app)
  const as = { authorization: `Bearer ${(await userTokens(app, user)).body['access_token']}` }
  const { collection } = await declaredWithRules(workspace, { user: { read: true } })
  const id = await runs.deploy(
    'personal',
    `export default (_input, { tenon }) => tenon.collections.list('${collection}')
      .then(() => 'listed', ({ code }) => code)`,
    { user: true },
  )
  const outcome = async () => (await runs.ended(id, await runs.start(id, {}, as))).result
  expect(await outcome()).toBe('listed')
  await asSuperuser(`update tenon.users set claims = '{"team":"red"}' where id = $1`, [user.id])
  expect(await outcome()).toBe('forbidden')
})

test('key that is revoked during an asynchronous run: its code may call nothing more', async () => {
  const keys = keysOf(workspace)
  const key = await keys.make()
  const id = await runs.deploy(
    'revoked',
    `export default (_input, { tenon }) => new Promise((done) => setTimeout(done, 1_000))
      .then(() => tenon.events.publish('made', { n: 1 })).then(() => 'published', ({ code }) => code)`,
  )
  const run = await runs.start(id, {}, { apikey: key.key })
  await keys.revoke(key.id)
  expect((await runs.ended(id, run)).result).toBe('forbidden')
})
