/**
 * Synchronises triggers with Temporal after a crash between the database and Temporal, by a workflow started
 * beforehand.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'
import { declarationOf, declaredTriggers, FLOW } from '../../../src/features/flows/triggers/flow-triggers.ts'
import {
  changeTriggers,
  declareTriggers,
  placeOf,
  syncSchedules,
} from '../../../src/features/runs/triggers/trigger-store.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import {
  isScheduled,
  onlyScheduleOf,
  publishScheduled,
  scheduleId,
  withTemporal,
} from '../../support/fixtures/schedules.ts'
import {
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let platform: Platform
let workspace: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  await platform?.close()
})

function declaring(schedule: string) {
  const head = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }"
  const { ir } = compileFlow(`${head}\nschedule: ${schedule}\ndo: [{ a: { set: {} } }]`)
  if (ir === undefined) throw new Error(schedule)
  return ir
}

test('crash after the transaction: removed schedules are deleted, new ones created', async () => {
  const name = unique('killed')
  await publishScheduled(workspace, name, '{ cron: 0 1 1 1 * }')
  const old = await onlyScheduleOf(workspace, name)
  const scope = scopeOf(platform, workspace)
  const declaration = declarationOf(old.flow_id, declaredTriggers(declaring('{ cron: 0 2 1 1 * }')))
  const change = async () => {
    await scope.batch(...(await declareTriggers(placeOf(scope), declaration)))
    throw new Error('killed')
  }
  await expect(changeTriggers(placeOf(scope), declaration, change)).rejects.toThrow('killed')
  const made = await onlyScheduleOf(workspace, name)
  expect([made.key, made.id === old.id]).toEqual(['cron:0 2 1 1 *', false])
  expect([await isScheduled(workspace, old), await isScheduled(workspace, made)]).toEqual([true, false])
  await eventually(
    async () =>
      (await isScheduled(workspace, made)) && !(await isScheduled(workspace, old)) ? true : undefined,
    40_000,
  )
})

test('concurrent synchronisations: Temporal ends as the rows say', async () => {
  const name = unique('race')
  await publishScheduled(workspace, name, '{ cron: 0 1 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  const scope = scopeOf(platform, workspace)
  const registered = { target: { kind: 'flow', id: schedule.flow_id }, before: [schedule.id] }
  await Promise.all(
    Array.from({ length: 4 }, async (_, n) => {
      await scope.batch(sql`update triggers set note = ${`n${n}`} where id = ${schedule.id}`)
      await syncSchedules(placeOf(scope), FLOW, registered)
    }),
  )
  const { note } = (await onlyScheduleOf(workspace, name)) as unknown as { note: string }
  await withTemporal(async (client) => {
    const { state } = await client.schedule.getHandle(scheduleId(workspace, schedule)).describe()
    expect(state.note).toBe(note)
  })
})

test("synchronisation naming another workspace's schedule: leaves it unchanged", async () => {
  const name = unique('theirs')
  await publishScheduled(workspace, name, '{ cron: 0 1 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  const other = scopeOf(platform, await createTestWorkspace())
  await syncSchedules(placeOf(other), FLOW, {
    ...{ target: { kind: 'flow', id: schedule.flow_id }, before: [schedule.id] },
  })
  expect(await isScheduled(workspace, schedule)).toBe(true)
})
