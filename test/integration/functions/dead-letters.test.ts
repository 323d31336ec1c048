/** Dead letters: failed asynchronous runs, which are run again once, with their input and no more rights, or discarded. */

import { beforeAll, describe, expect, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import { ASYNC, FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { onTopics } from '../../support/fixtures/function-triggers.ts'
import { linesOf } from '../../support/fixtures/functions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

const BROKEN = 'export default () => { throw new Error("broken") }'
const FIXED = 'export default ({ n = 0 }) => n + 1'

let workspace: TestWorkspace
let runs: FunctionRuns
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
})

async function deadLetter(id: string, input: object = {}, as = workspace.service): Promise<string> {
  const run = await runs.start(id, input, as)
  expect(await runs.ended(id, run)).toMatchObject({ status: 'failed', dead_letter: true })
  return run
}

const redrive = (id: string, run: string) => runs.call('POST', `/v1/functions/${id}/runs/${run}/redrive`)

/** The stored rights of a run, without the subjects behind it, who give it none. */
async function callerOf(run: string): Promise<object> {
  const query = 'select caller from tenon.function_runs where id = $1'
  const [
    {
      caller: { causes: _causes, ...rights },
    } = { caller: {} },
  ] = await asSuperuser<{
    caller: { causes?: string[] }
  }>(query, [run])
  return rights
}

describe('redrive', () => {
  test('a failed run: listed; run again by the new version with its input; then listed no more', async () => {
    const id = await runs.deploy('repaired', BROKEN)
    const run = await deadLetter(id, { n: 41 })
    expect(await runs.ids(id, 'dead_letter=true')).toEqual([run])
    await runs.deploy('repaired', FIXED)
    const { status, body } = await redrive(id, run)
    expect([status, body.trigger]).toEqual([201, { kind: 'redrive', id: run }])
    expect(await runs.ended(id, body.id)).toMatchObject({ status: 'completed', version: 2, result: 42 })
    expect(await runs.ids(id, 'dead_letter=true')).toEqual([])
    expect(await runs.read(id, run)).toMatchObject({
      status: 'failed',
      dead_letter: false,
      redriven_as: body.id,
    })
    const again = await redrive(id, run)
    expect([again.status, again.body.code]).toEqual([409, 'state_conflict'])
    expect(again.body.detail).toContain(body.id)
  })

  test('ten at once: one run', async () => {
    const id = await runs.deploy('once', BROKEN)
    const run = await deadLetter(id)
    const replies = await Promise.all(Array.from({ length: 10 }, () => redrive(id, run)))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(409)])
    expect(await runs.ids(id, 'trigger=redrive')).toHaveLength(1)
  })

  test('run that completed, or whose caller waited: no dead letter', async () => {
    const id = await runs.deploy('fine', 'export default ({ bad }) => { if (bad) throw new Error("bad") }')
    const completed = await runs.start(id)
    await runs.ended(id, completed)
    const waited = (await runs.invoke(id, { bad: true })).body.run_id
    for (const run of [completed, waited]) expect((await redrive(id, run)).status).toBe(409)
  })

  test('all of a function: the oldest first, each once', async () => {
    const id = await runs.deploy('all', BROKEN)
    const letters = [await deadLetter(id, { n: 1 }), await deadLetter(id, { n: 2 })]
    await runs.deploy('all', FIXED)
    const { body } = await runs.call('POST', `/v1/functions/${id}/redrive`)
    expect(body).toMatchObject({ refused: [], has_more: false, next: null })
    expect(body.redriven.map(({ run }: { run: string }) => run)).toEqual(letters)
    const results = await Promise.all(
      body.redriven.map(async ({ as }: { as: string }) => (await runs.ended(id, as)).result),
    )
    expect(results).toEqual([2, 3])
    expect((await runs.call('POST', `/v1/functions/${id}/redrive`)).body.redriven).toEqual([])
  })
})

test('run of an event that fails: a dead letter, which is run again with its event, as the trigger', async () => {
  const topic = unique('orders')
  const id = await runs.deploy('heard', BROKEN, onTopics(topic))
  const event = await emitAt(workspace, topic, { n: 7 })
  const [letter = ''] = await eventually(async () => {
    const ids = await runs.ids(id, 'dead_letter=true')
    return ids.length > 0 ? ids : undefined
  })
  await runs.deploy('heard', 'export default (event, { caller }) => ({ event, caller })')
  const { status, body } = await redrive(id, letter)
  expect(status, JSON.stringify(body)).toBe(201)
  const { result, trigger } = await runs.ended(id, body.id)
  expect(trigger).toMatchObject({ kind: 'redrive', id: letter })
  expect(result.event).toMatchObject({ specversion: '1.0', id: event, type: topic, data: { n: 7 } })
  expect(result.caller).toMatchObject({ kind: 'event' })
  expect(await runs.ids(id, 'dead_letter=true')).toEqual([])
})

/** Inserts dead letters of a key that does not exist, which are older than all others. */
const addRefused = (id: string, count: number) =>
  asSuperuser(
    `insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async, status, input,
        caller, is_dead_letter, ended_at)
      select $1, $2, 'run_' || lpad(n::text, 26, '0'), $3, 1, '{"kind":"api"}', 'key_x', true, 'failed', '{}',
        '{"subject":"key_x","role":"service"}', true, now() from generate_series(1, $4::integer) n`,
    [workspace.tenantId, workspace.workspaceId, id, count],
  )

test('redrive of all: passes over those that are refused; `next` goes on behind them', async () => {
  const id = await runs.deploy('passed', BROKEN)
  const letter = await deadLetter(id)
  await addRefused(id, 500)
  const all = (query = '') => runs.call('POST', `/v1/functions/${id}/redrive${query}`)
  const first = (await all()).body
  expect([first.redriven, first.refused.length, first.has_more]).toEqual([[], 500, true])
  const second = (await all(`?after=${first.next}`)).body
  expect([second.redriven.map(({ run }: { run: string }) => run), second.has_more]).toEqual([[letter], false])
  await asSuperuser(
    "delete from tenon.function_runs where function_id = $1 and id < 'run_0000000000000000000000040'",
    [id],
  )
  const again = await deadLetter(id)
  expect((await all()).body.redriven.map(({ run }: { run: string }) => run)).toContain(again)
})

describe('rights of a redriven run', () => {
  test('run of a restricted key: has the scopes that the key had and still has, not those of the admin', async () => {
    const id = await runs.deploy('scoped', BROKEN)
    const keys = keysOf(workspace)
    const key = await keys.make({ scopes: ['functions:write', 'collections:write', 'events:write'] })
    const run = await deadLetter(id, {}, { apikey: key.key })
    await keys.change(key.id, { scopes: ['functions:write', 'events:write', 'objects:write'] })
    const { body } = await redrive(id, run)
    expect(await callerOf(body.id)).toEqual({
      subject: key.id,
      role: 'service',
      scopes: ['events:write', 'functions:write'],
      via: { kind: 'api' },
    })
  })

  test('key that was revoked: refused, also by the call for all, and stays a dead letter', async () => {
    const id = await runs.deploy('revoked', BROKEN)
    const keys = keysOf(workspace)
    const key = await keys.make()
    const run = await deadLetter(id, {}, { apikey: key.key })
    await keys.revoke(key.id)
    const { status, body } = await redrive(id, run)
    expect([status, body.code]).toEqual([409, 'state_conflict'])
    expect(body.detail).toContain(key.id)
    const all = (await runs.call('POST', `/v1/functions/${id}/redrive`)).body
    expect(all.refused).toEqual([{ run, detail: body.detail }])
    expect(await runs.ids(id, 'dead_letter=true')).toEqual([run])
  })

  test('key that was rotated: its replacement counts', async () => {
    const id = await runs.deploy('rotated', BROKEN)
    const keys = keysOf(workspace)
    const key = await keys.make()
    const run = await deadLetter(id, {}, { apikey: key.key })
    await keys.rotate(key.id)
    await keys.revoke(key.id)
    expect((await redrive(id, run)).status).toBe(201)
  })

  test('run of a user: stays one of that user, with the same values for rules', async () => {
    const id = await runs.deploy('personal', BROKEN, { user: true })
    const run = await deadLetter(id, {}, await userToken(workspace, 'mia', { team: 'red' }))
    const { body } = await redrive(id, run)
    expect(await callerOf(body.id)).toEqual({ ...(await callerOf(run)), via: { kind: 'api' } })
    expect(await callerOf(body.id)).toMatchObject({
      role: 'user',
      user: { id: 'mia', claims: { team: 'red' } },
    })
  })

  test('groups of the caller: not given again; client that was deleted: refused', async () => {
    const id = await runs.deploy('grouped', BROKEN)
    const withMore = async (more: object) => {
      const run = await deadLetter(id)
      const caller = { subject: 'someone', role: 'service', ...more }
      await asSuperuser('update tenon.function_runs set caller = $2 where id = $1', [
        run,
        JSON.stringify(caller),
      ])
      return run
    }
    const { body } = await redrive(id, await withMore({ groups: ['finance'] }))
    expect(await callerOf(body.id)).toEqual({ subject: 'someone', role: 'service', via: { kind: 'api' } })
    const refused = await redrive(id, await withMore({ clientId: typeId('client', randomIds.uuid()) }))
    expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  })

  test('suspended workspace: refused', async () => {
    const other = await createTestWorkspace()
    const theirs = new FunctionRuns(other)
    const id = await theirs.deploy('held', BROKEN)
    const { body } = await theirs.invoke(id, {}, { headers: ASYNC })
    await theirs.ended(id, body.id)
    await theirs.call('POST', `/v1/workspaces/${other.workspaceId}/suspend`, { body: {} })
    const redriven = await theirs.call('POST', `/v1/functions/${id}/runs/${body.id}/redrive`)
    expect(redriven.status).toBeGreaterThanOrEqual(400)
    expect(await theirs.ids(id, 'dead_letter=true')).toEqual([body.id])
  })
})

describe('discard', () => {
  test('ended run: gone with its lines; open run: refused', async () => {
    const id = await runs.deploy('discarded', `console.log('said')\n${BROKEN}`)
    const run = await deadLetter(id)
    expect(await linesOf(run)).toEqual(['said'])
    const path = `/v1/functions/${id}/runs/${run}`
    expect((await runs.call('DELETE', path)).body).toMatchObject({ id: run, deleted: true })
    expect((await runs.call('GET', path)).status).toBe(404)
    expect(await linesOf(run)).toEqual([])
    expect((await redrive(id, run)).status).toBe(404)
    const slow = await runs.deploy(
      'open',
      'export default () => new Promise((done) => setTimeout(done, 2_000))',
    )
    const open = await runs.start(slow)
    const refused = await runs.call('DELETE', `/v1/functions/${slow}/runs/${open}`)
    expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  })
})
