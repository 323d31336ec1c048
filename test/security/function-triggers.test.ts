/** Triggers of functions across workspaces and tenants, and what a triggered run may do. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../src/app/platform.ts'
import { placeOf, syncSchedules } from '../../src/features/runs/triggers/trigger-store.ts'
import { sqlAsRole } from '../support/clients/sql-as-role.ts'
import { emitAt } from '../support/fixtures/event-triggers.ts'
import { workflowInputOf } from '../support/fixtures/function-runs.ts'
import {
  completed,
  configure,
  deployTriggered,
  functionScheduleId,
  handled,
  onTopics,
  runsOf,
  triggersOf,
} from '../support/fixtures/function-triggers.ts'
import { isInTemporal } from '../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../support/stack/in-process-platform.ts'

let platform: Platform
let mine: TestWorkspace
let sibling: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  ;[mine, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  sibling = await addTestWorkspace(mine)
})
afterAll(async () => {
  await platform?.close()
})

const YEARLY = { schedule: { cron: '0 0 1 1 *' } }

test('document changes of another workspace or tenant: never heard, also not by a wildcard', async () => {
  const collection = unique('c').replace('-', '_')
  const create = (at: TestWorkspace, n: number) =>
    call('POST', `/v1/collections/${collection}/documents`, { as: at.service, body: { n } })
  const named = await deployTriggered(sibling, onTopics(`collections.${collection}.created`))
  const every = await deployTriggered(sibling, onTopics('collections.*'))
  await create(mine, 1)
  await create(other, 2)
  await create(sibling, 3)
  for (const fn of [named, every]) {
    const runs = await completed(fn, 1)
    expect(runs.map(({ input }) => input.data)).toMatchObject([{ document: { n: 3 } }])
    expect(await handled(fn, 1)).toMatchObject({ seen: 1 })
  }
})

test('published event: heard in all workspaces of its tenant, in no other tenant', async () => {
  const topic = unique('shared')
  const [near, far] = [
    await deployTriggered(sibling, onTopics(topic)),
    await deployTriggered(other, onTopics(topic)),
  ]
  await emitAt(mine, topic, { n: 1 })
  await emitAt(other, topic, { n: 2 })
  const data = async (fn: typeof near) => (await completed(fn, 1)).map(({ input }) => input.data)
  expect([await data(near), await data(far)]).toEqual([[{ n: 1 }], [{ n: 2 }]])
})

test('due schedule that names a function or a trigger of another workspace: starts nothing', async () => {
  const fn = await deployTriggered(mine, YEARLY)
  const own = await deployTriggered(sibling, YEARLY)
  const [[{ id: theirs }], [{ id: ownTrigger }]] = [await triggersOf(fn), await triggersOf(own)]
  const due = { patience_ms: 60_000, due_at: '2031-01-01T09:00:00.000Z' }
  for (const [trigger_id, function_id] of [
    [theirs, fn.id],
    [ownTrigger, fn.id],
    [theirs, own.id],
  ]) {
    const target = { kind: 'function', id: function_id as string }
    const firing = { ...due, trigger_id: trigger_id as string, target }
    const started = await platform.triggers.startScheduled(scopeOf(platform, sibling), firing)
    expect(started).toMatchObject({ skipped: expect.any(String) })
  }
  expect([await runsOf(fn), await runsOf(own)]).toEqual([[], []])
})

test('registration that names a function of another workspace: leaves its schedule', async () => {
  const fn = await deployTriggered(mine, YEARLY)
  const [{ id: before }] = await triggersOf(fn)
  const target = { kind: 'function', id: fn.id }
  for (const at of [sibling, other])
    await syncSchedules(placeOf(scopeOf(platform, at)), platform.triggers.targetOf(target), {
      ...{ target, before: [before] },
    })
  expect(await isInTemporal(await functionScheduleId(fn))).toBe(true)
})

test('admin of another tenant: neither reads nor changes triggers', async () => {
  const fn = await deployTriggered(mine, { ...YEARLY, ...onTopics('a') })
  const own = [other.tenantId, other.workspaceId]
  for (const table of ['triggers', 'trigger_states']) {
    const key = table === 'triggers' ? 'target_id' : 'workspace_id'
    const id = table === 'triggers' ? fn.id : mine.workspaceId
    const at = `from tenon.${table} where ${key} = '${id}'`
    expect(await sqlAsRole('tenon_admin', own, `select * ${at}`)).toEqual([])
    expect(await sqlAsRole('tenon_admin', own, `delete ${at} returning 1`)).toEqual([])
    for (const role of ['tenon_service', 'tenon_anon', 'tenon_user', 'tenon_reconciler'])
      await expect(sqlAsRole(role, own, `select * ${at}`)).rejects.toThrow(/permission denied/)
  }
})

test('triggered run: acts as the trigger with no scopes of a caller', async () => {
  const topic = unique('rights')
  const fn = await deployTriggered(mine, onTopics(topic))
  await emitAt(mine, topic, {})
  const [run] = await completed(fn, 1)
  const [{ id }] = await triggersOf(fn)
  const input = await workflowInputOf(mine, fn.id, run?.id ?? '')
  expect(input.caller).toEqual({
    subject: `trigger:${id}`,
    role: 'service',
    scopes: [],
    causes: [expect.any(String), expect.stringMatching(/^key_/), expect.stringMatching(/^since:/)],
  })
})

test('hundreds of topics and triggers: one consumer, and no more than the configuration takes', async () => {
  const triggers = Array.from({ length: 10 }, (_, n) => ({
    topics: Array.from({ length: 20 }, (_, m) => `many.${n}.${m}`),
  }))
  const fn = await deployTriggered(mine, { triggers })
  expect((await triggersOf(fn))[0].topics).toHaveLength(200)
  const rows = await asSuperuser('select from tenon.triggers where target_id = $1', [fn.id])
  expect(rows).toHaveLength(1)
  expect((await configure(fn, { triggers: [...triggers, { topics: ['a'] }] })).status).toBe(400)
})
