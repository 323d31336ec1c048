/** Schedules of functions on Temporal: kept in step with the configuration, one run for each due time. */

import { ScheduleNotFoundError } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ofTenant } from '../../../src/access/openers.ts'
import { workflowsOf } from '../../../src/access/scope-services.ts'
import type { Platform } from '../../../src/app/platform.ts'
import type { TenantId } from '../../../src/core/tenant.ts'
import { QUEUES } from '../../../src/core/work.ts'
import { writeTriggers } from '../../../src/features/functions/triggers/write-triggers.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import {
  completed,
  configure,
  deployTriggered,
  functionScheduleId,
  runsOf,
  type TriggeredFunction,
  triggersOf,
} from '../../support/fixtures/function-triggers.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import { isInTemporal, withTemporal } from '../../support/fixtures/schedules.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { repeated } from '../../support/stack/soak.ts'

let platform: Platform
let workspace: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  await platform?.close()
})

/** Never due while the test runs. */
const YEARLY = { schedule: { cron: '0 0 1 1 *' } }
/** A schedule of the function as Temporal says that it is due. */
const due = (fn: TriggeredFunction, trigger_id: string, due_at: string) => ({
  ...{ trigger_id, target: { kind: 'function', id: fn.id }, patience_ms: 60_000, due_at },
})

test('schedule: shows its next times in its time zone; a due time starts a run with its input', async () => {
  const schedule = { cron: ' 30 9  13 * fri', timezone: 'asia/kolkata', input: { n: 1 } }
  const fn = await deployTriggered(workspace, { schedule })
  const [{ id: triggerId, next, ...fields }] = await triggersOf(fn)
  expect(fields).toMatchObject({ kind: 'schedule', started: 0, last_run_id: null })
  expect(next.length).toBeGreaterThan(0)
  for (const time of next as string[]) {
    const [date, weekday] = [new Date(Date.parse(time) + 5.5 * 3_600_000), 5]
    expect(date.toISOString()).toContain('T09:30:00')
    expect(date.getUTCDate() === 13 || date.getUTCDay() === weekday, time).toBe(true)
  }
  await withTemporal(async (client) => {
    const handle = client.schedule.getHandle(await functionScheduleId(fn))
    expect((await handle.describe()).policies).toMatchObject({ overlap: 'ALLOW_ALL', catchupWindow: 60_000 })
    await handle.trigger()
  })
  const [run] = await completed(fn, 1)
  expect(run).toMatchObject({
    ...{ input: { n: 1 }, started_by: `trigger:${triggerId}` },
    trigger: { kind: 'schedule', id: triggerId },
  })
  expect((await triggersOf(fn))[0]).toMatchObject({ started: 1, last_run_id: run?.id })
})

test('due time whose start is repeated: one run; the next due time: another', async () => {
  const fn = await deployTriggered(workspace, YEARLY)
  const [{ id: trigger_id }] = await triggersOf(fn)
  const start = (due_at: string) =>
    platform.triggers.startScheduled(scopeOf(platform, workspace), due(fn, trigger_id, due_at))
  const [nine, ten] = ['2031-01-01T09:00:00.000Z', '2031-01-01T10:00:00.000Z'] as const
  const [first, second, third] = [await start(nine), await start(nine), await start(ten)]
  expect(second).toEqual(first)
  expect((await completed(fn, 2)).map(({ id }) => ({ run_id: id }))).toEqual([first, third])
  expect((await triggersOf(fn))[0]).toMatchObject({ started: 2 })
  expect(await start(nine)).toEqual(first)
  expect(await runsOf(fn)).toHaveLength(2)
})

test('schedule changed, removed, or its function deleted: Temporal follows', async () => {
  const fn = await deployTriggered(workspace, {})
  await configure(fn, { schedule: { cron: '0 9 * * *' } })
  const [daily] = await triggersOf(fn)
  const first = await functionScheduleId(fn)
  expect(await isInTemporal(first)).toBe(true)
  await configure(fn, { schedule: { cron: '0 17 * * *' } })
  const [later] = await triggersOf(fn)
  expect([later.id, later.next[0].includes('T17:00')]).toEqual([daily.id, true])
  await configure(fn, { schedule: null })
  expect([await triggersOf(fn), await isInTemporal(first)]).toEqual([[], false])
  await configure(fn, YEARLY)
  const second = await functionScheduleId(fn)
  expect(await isInTemporal(second)).toBe(true)
  await call('DELETE', `/v1/functions/${fn.id}`, { as: workspace.operator })
  expect(await isInTemporal(second)).toBe(false)
})

test('next version of a function: keeps its schedule, or brings another', async () => {
  const fn = await deployTriggered(workspace, YEARLY)
  const redeploy = (config: object) =>
    call('POST', '/v1/functions', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, name: fn.name, source: 'export default () => 2', config },
    })
  const [before] = await triggersOf(fn)
  await redeploy({ timeout: '5s' })
  expect((await triggersOf(fn))[0]).toEqual(before)
  await redeploy({ schedule: { cron: '0 17 * * *' } })
  const [after] = await triggersOf(fn)
  expect([after.id, after.next[0].includes('T17:00')]).toEqual([before.id, true])
})

test('crash after the transaction: a workflow waits that brings Temporal to the row', async () => {
  const fn = await deployTriggered(workspace, {})
  const admin = ofTenant(platform.access, workspace.tenantId as TenantId, 'test')
  const write = writeTriggers(admin, { is: sql`f.id = ${fn.id}` }, YEARLY, async (statements) => {
    await admin.batch(...statements)
    throw new Error('killed')
  })
  await expect(write).rejects.toThrow('killed')
  const schedule = await functionScheduleId(fn)
  expect(await isInTemporal(schedule)).toBe(false)
  await withTemporal(async (client) => {
    const query = `FlowId = '${fn.id}' and WorkflowType = 'registration'`
    await eventually(async () => {
      for await (const { status } of client.workflow.list({ query })) return status.name === 'RUNNING'
      return undefined
    })
  })
  // The same without its delay of ten seconds.
  const scope = scopeOf(platform, workspace)
  const input = { target: { kind: 'function', id: fn.id }, before: [] }
  const subject = {
    definition: 'registration',
    queue: QUEUES.provisioning,
    subject: fn.id,
    uuid: scope.uuid(),
  }
  await workflowsOf(scope).start({ ...subject, input, summary: 'test' })
  await eventually(async () => ((await isInTemporal(schedule)) ? true : undefined))
})

test('suspended workspace: starts nothing, and after the resumption nothing that was due before', async () => {
  const sibling = await addTestWorkspace(workspace)
  const fn = await deployTriggered(sibling, YEARLY)
  const [{ id: trigger_id }] = await triggersOf(fn)
  await suspendWorkspace(sibling, sibling.operator)
  const late = due(fn, trigger_id, new Date().toISOString())
  const skipped = await withTemporal(async (client) => {
    const handle = client.schedule.getHandle(await functionScheduleId(fn))
    await handle.trigger()
    const workflowId = await eventually(
      async () => (await handle.describe()).info.recentActions[0]?.action.workflow.workflowId,
    )
    return client.workflow.getHandle(workflowId).result()
  })
  expect(skipped).toEqual({ skipped: expect.stringMatching(/suspended/) })
  await resumeWorkspace(sibling, sibling.operator)
  const resumed = await eventually(async () => {
    const { body } = await call('GET', `/v1/workspaces/${sibling.workspaceId}`, { as: sibling.operator })
    return body.state === 'active'
      ? platform.triggers.startScheduled(scopeOf(platform, sibling), late)
      : undefined
  })
  expect(resumed).toEqual({ skipped: expect.stringMatching(/before the workspace was resumed/) })
  expect(await runsOf(fn)).toEqual([])
})

test('many schedules due at once, of which one is removed, one is of a suspended workspace and one fails: each other starts one run', async () => {
  const [busy, sleeping] = [await createTestWorkspace(), await addTestWorkspace(workspace)]
  await limit(busy, { schedules: -1, functions: -1 })
  const fails = 'export default () => { throw new Error("no") }'
  const [removed, failing, ...others] = await Promise.all([
    deployTriggered(busy, YEARLY),
    deployTriggered(busy, YEARLY, fails),
    ...Array.from({ length: repeated(12, 97) }, () => deployTriggered(busy, YEARLY)),
  ])
  const suspended = await deployTriggered(sleeping, YEARLY)
  await suspendWorkspace(sleeping, sleeping.operator)
  const [removedId = '', ...otherIds] = await Promise.all(
    [removed, failing, suspended, ...others].map(functionScheduleId),
  )
  await withTemporal(async (client) => {
    const fire = (id: string) => client.schedule.getHandle(id).trigger()
    await Promise.all([
      configure(removed, { schedule: null }),
      ...otherIds.map(fire),
      fire(removedId).catch((error) => expect(error).toBeInstanceOf(ScheduleNotFoundError)),
    ])
  })
  const statusesOf = async (fn: TriggeredFunction) => (await runsOf(fn)).map(({ status }) => status)
  await Promise.all(others.map((fn) => completed(fn, 1)))
  await eventually(async () => ((await statusesOf(failing)).includes('failed') ? true : undefined))
  expect(await Promise.all(others.map(statusesOf))).toEqual(others.map(() => ['completed']))
  expect([await statusesOf(failing), await statusesOf(suspended)]).toEqual([['failed'], []])
  // It was due before or after its end.
  expect((await runsOf(removed)).length).toBeLessThanOrEqual(1)
})

test('quota of schedules: counts those of functions, and refuses the next with nothing changed', async () => {
  const mine = await addTestWorkspace(workspace)
  await limit(mine, { schedules: 1 })
  const [one, two] = [await deployTriggered(mine, YEARLY), await deployTriggered(mine, {})]
  const refused = await configure(two, { ...YEARLY, timeout: '3s' })
  expect(refused.body).toMatchObject({ code: 'quota_exceeded', quota: 'schedules', limit: 1, used: 1 })
  const { body } = await call('GET', `/v1/functions/${two.id}`, { as: mine.operator })
  expect([body.config.schedule, body.config.timeout, await triggersOf(two)]).toEqual([null, '10s', []])
  expect((await configure(one, YEARLY)).status).toBe(200)
  await call('DELETE', `/v1/functions/${one.id}`, { as: mine.operator })
  expect(await quota(mine, 'schedules')).toMatchObject({ used: 0 })
  expect((await configure(two, YEARLY)).status).toBe(200)
})

test.each([
  [{ cron: '61 * * * *' }, 'cron', /not a valid minute/],
  [{ cron: '0 0 * *' }, 'cron', /5 fields, not 4/],
  [{ cron: '0 0 31 2 *' }, 'cron', /No month/],
  [{ cron: '@daily' }, 'cron', /5 fields/],
  [{ cron: '0 0 * * *', timezone: '+02:00' }, 'timezone', /not a time zone/],
  [{ cron: '0 0 * * *', timezone: 'Mars/Olympus' }, 'timezone', /not a time zone/],
])('schedule %j: refused with its place', async (schedule, member, message) => {
  const fn = { id: unique('fn'), name: '', at: workspace }
  const refused = await configure(fn, { schedule })
  expect([refused.status, refused.body.errors?.[0].pointer]).toEqual([400, `/schedule/${member}`])
  expect(refused.body.detail).toMatch(message)
})

test('input of a schedule: one that is too large or that the database cannot store is refused', async () => {
  const fn = await deployTriggered(workspace, {})
  const set = (input: unknown) => configure(fn, { schedule: { cron: '0 0 1 1 *', input } })
  expect((await set('x'.repeat(20_000))).body.code).toBe('body_too_large')
  expect((await set('a\u0000b')).status).toBe(400)
  expect(await triggersOf(fn)).toEqual([])
})
