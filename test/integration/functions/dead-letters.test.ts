/** Dead letters: failed asynchronous runs, which are run again once, with their input and no more rights, or discarded. */

import { beforeAll, describe, expect, test } from 'vitest'
import { ASYNC, FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  asSuperuser,
  createTestWorkspace,
  type TestWorkspace,
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

/** The stored rights of a run. */
const callerOf = async (run: string) =>
  (await asSuperuser<{ caller: object }>('select caller from tenon.function_runs where id = $1', [run]))[0]
    ?.caller

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
    expect(body).toMatchObject({ refused: [], has_more: false })
    expect(body.redriven.map(({ run }: { run: string }) => run)).toEqual(letters)
    const results = await Promise.all(
      body.redriven.map(async ({ as }: { as: string }) => (await runs.ended(id, as)).result),
    )
    expect(results).toEqual([2, 3])
    expect((await runs.call('POST', `/v1/functions/${id}/redrive`)).body.redriven).toEqual([])
  })
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
    expect(await callerOf(body.id)).toEqual(await callerOf(run))
    expect(await callerOf(body.id)).toMatchObject({
      role: 'user',
      user: { id: 'mia', claims: { team: 'red' } },
    })
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
    const id = await runs.deploy('discarded', BROKEN)
    const run = await deadLetter(id)
    const path = `/v1/functions/${id}/runs/${run}`
    expect((await runs.call('DELETE', path)).body).toMatchObject({ id: run, deleted: true })
    expect((await runs.call('GET', path)).status).toBe(404)
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
