/** Background tasks on one leader: one that fails or takes long delays no other, and the leader keeps its lock meanwhile. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import type { Platform } from '../../../src/app/platform.ts'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { type BackgroundTask, backgroundTask } from '../../../src/features/background/background-task.ts'
import { TaskRunner } from '../../../src/features/background/task-runner.ts'
import { openLog } from '../../../src/infra/log.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../../src/infra/postgres/leader-task.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { asSuperuser, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'

/** Unlike those of the product. */
const LOCK = 7_309_000

let platform: Platform
let database: Database
let ref: WorkspaceRef
let lines: string[]
beforeAll(async () => {
  platform = openInProcessPlatform()
  const { tenantId, workspaceId } = await createTestWorkspace()
  ref = { tenantId, workspaceId } as WorkspaceRef
})
beforeEach(() => {
  lines = []
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {})
})
afterEach(() => database.close())
afterAll(() => platform.close())

const logged = () => lines.map((line) => JSON.parse(line))

/** Runs tasks until the work has ended. */
async function running(tasks: readonly BackgroundTask[], work: () => Promise<void>): Promise<void> {
  const log = openLog('warn', 'test', { write: (line: string) => void lines.push(line) })
  const runner = new TaskRunner(database, log, { lock: LOCK, firstMs: 0 })
  runner.start(tasks, createTaskContexts(platform.access))
  await work()
  await runner.close()
}

/** The session that holds the lock. */
const holder = () =>
  eventually(async () => {
    const [row] = await asSuperuser<{ pid: number; query: string; since: string }>(
      `select a.pid, a.query, a.query_start::text as since from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'advisory' and l.objid = $1 and l.granted`,
      [LOCK],
    )
    return row
  })

test('task whose statement fails, task whose work never ends: another one goes on', async () => {
  let finish = () => {}
  const endless = new Promise<void>((done) => {
    finish = done
  })
  const served = { endless: 0, quick: 0 }
  const tasks = [
    backgroundTask({
      name: 'failing',
      pollMs: 1,
      atOnce: 1,
      find: async (system) => (await system.rows(sql`select 1 / 0`)) as [],
      run: async () => {},
    }),
    backgroundTask<number>({
      name: 'endless',
      pollMs: 1,
      atOnce: 2,
      // Found again and again while it is under way.
      find: async (_, limit) => [1, 2, 3].slice(0, limit).map((item) => ({ ref, item })),
      run: async () => {
        served.endless += 1
        await endless
      },
    }),
    backgroundTask<string>({
      name: 'quick',
      pollMs: 1,
      atOnce: 1,
      find: async () => [{ ref, item: 'one' }],
      run: async ({ scope, isActive }) => {
        expect([scope.ref, isActive]).toEqual([ref, true])
        served.quick += 1
        if (served.quick === 3) throw new Error('not this time')
      },
    }),
  ]
  await running(tasks, async () => {
    await eventually(async () => (served.quick > 10 ? true : undefined))
    finish()
  })
  expect(served.endless).toBeGreaterThanOrEqual(2)
  expect(logged()).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ task: 'failing', msg: 'background task found nothing' }),
      expect.objectContaining({ task: 'quick', item: 'one', msg: 'background task failed' }),
    ]),
  )
})

test('items under way: at most as many as the task says', async () => {
  const ends: (() => void)[] = []
  let found = 0
  let looks = 0
  const task = backgroundTask<number>({
    name: 'wide',
    pollMs: 1,
    atOnce: 3,
    find: async (_, limit) => {
      looks += 1
      return Array.from({ length: limit }, () => ({ ref, item: ++found }))
    },
    run: () => new Promise<void>((done) => ends.push(done)),
  })
  await running([task], async () => {
    await eventually(async () => (ends.length === 3 ? true : undefined))
    ends.shift()?.()
    await eventually(async () => (found === 4 ? true : undefined))
    expect(looks).toBe(2)
    const close = setInterval(() => ends.shift()?.(), 1)
    await eventually(async () => (found > 10 ? true : undefined))
    setTimeout(() => clearInterval(close), 1_000)
  })
})

/** Leads until `end` is called. */
function lead(): { leadership: Promise<Leadership>; task: LeaderTask } {
  const task = new LeaderTask(
    database,
    { reason: 'reconciler', lock: LOCK, failureMessage: 'test' },
    openLog('silent', 'test'),
  )
  const leadership = new Promise<Leadership>((elected) => {
    task.start(async (context) => {
      elected(context)
      await context.wait(60_000)
    })
  })
  return { leadership, task }
}

test('leader that works without a statement: its session is used nevertheless, and keeps the lock', async () => {
  const { leadership, task } = lead()
  await leadership
  const before = await holder()
  const after = await eventually(async () => {
    const now = await holder()
    return now.since === before.since ? undefined : now
  })
  expect(after.pid).toBe(before.pid)
  await task.close()
})

test('session of the leader ends: the leadership is over at once, and another begins', async () => {
  const { leadership, task } = lead()
  const first = await leadership
  const { pid } = await holder()
  await asSuperuser('select pg_terminate_backend($1)', [pid])
  await expect(first.system.rows(sql`select 1`)).rejects.toMatchObject({ code: 'dependency_unavailable' })
  expect(first.isOver).toBe(true)
  await eventually(async () => ((await holder()).pid === pid ? undefined : true))
  await task.close()
})
