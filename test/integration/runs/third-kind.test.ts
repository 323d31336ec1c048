/** The kernel of runs with a kind that nothing in `src` knows: slots and queues, callers that wait, reconciler, watcher, retention. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { inAnyState } from '../../../src/access/openers.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { workspaceRetention } from '../../../src/features/retention/workspace-retention.ts'
import { RUN_KINDS } from '../../../src/features/run-kinds.ts'
import { openRuns } from '../../../src/features/runs/open-runs.ts'
import type { RunEnd, RunKind } from '../../../src/features/runs/run-kind.ts'
import { slotQueues, unstartedSlots } from '../../../src/features/runs/slot-tasks.ts'
import {
  awaitSlot,
  promoteQueued,
  queuePosition,
  queueRun,
  releaseSlot,
  startAdmitted,
} from '../../../src/features/runs/slots.ts'
import { notifyRunChanged, watchRun } from '../../../src/features/runs/watcher.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { SystemScope } from '../../../src/infra/postgres/system-scope.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

/** Deliveries to a partner: their records say what was done to them. */
const DELIVERIES = 'delivery'

const TABLE = `
  create table tenon.deliveries (
    tenant_id text not null default tenon.tenant(),
    workspace_id text not null default tenon.workspace(),
    id text not null,
    partner text not null,
    status text not null default 'pending',
    is_awaited boolean not null default false,
    starts integer not null default 0,
    due_at timestamptz(3) not null default now() + interval '1 day',
    ended_at timestamptz(3),
    primary key (tenant_id, workspace_id, id)
  );
  create index on tenon.deliveries (workspace_id, due_at) where ended_at is null;
  call tenon.allow('tenon_admin', 'tenon.deliveries', 'workspace', 'select, insert, update, delete');
  call tenon.allow('tenon_operator', 'tenon.deliveries', 'all', 'select');
  call tenon.allow('tenon_reconciler', 'tenon.deliveries', 'all', 'select, update (due_at)')`

/** How many deliveries a partner takes at once. */
let slots = 1

const deliveries: RunKind = {
  name: DELIVERIES,
  plural: 'deliveries',
  table: sql`deliveries`,
  owner: sql`r.partner`,
  workflowId: sql`null::text`,
  recordedAt: sql`now()`,
  slotsOf: () => sql`${slots}::integer`,
  isPending: sql`(r.status = 'pending' and r.ended_at is null)`,
  isCancelRequested: sql`false`,
  unstarted: sql`case when r.is_awaited then 'wait' else 'start' end`,
  version: sql`r.starts`,
  isSuspended: sql`false`,
  recheckSeconds: 1,
  start: async (scope, id) => {
    const row = await scope.row<{ partner: string }>(
      sql`select partner from deliveries where id = ${id} and status = 'pending' and not is_awaited`,
    )
    if (row === undefined) return true
    const status = row.partner.startsWith('closed') ? 'refused' : 'running'
    await scope.rows(sql`update deliveries set status = ${status}, starts = starts + 1,
      ended_at = case when ${status === 'refused'}::boolean then now() end where id = ${id}`)
    notifyRunChanged(scope, id, status === 'refused')
    return status !== 'refused'
  },
  end: (scope, id, how) => end(scope, id, how),
  removeExpired: async ({ scope }) => {
    await scope.rows(sql`delete from deliveries where ended_at < now() - interval '1 hour'`)
    return false
  },
}

async function end(scope: WorkspaceScope, id: string, how: RunEnd | 'done'): Promise<void> {
  const [, next = []] = await scope.batch(
    sql`update deliveries set status = ${how}, ended_at = now() where id = ${id} and ended_at is null`,
    releaseSlot(id),
  )
  notifyRunChanged(scope, id, true)
  await startAdmitted(scope, DELIVERIES, next)
}

let workspace: TestWorkspace
let scope: WorkspaceScope
let service: WorkspaceScope
let database: Database
let close: () => Promise<void>

beforeAll(async () => {
  await asSuperuser(TABLE)
  workspace = await createTestWorkspace()
  const { platform, parts } = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
  Object.assign(parts, { runKinds: [...RUN_KINDS, deliveries] })
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {})
  close = async () => {
    await Promise.all([platform.close(), database.close()])
    await asSuperuser('drop table tenon.deliveries')
  }
  const ref = { tenantId: workspace.tenantId as TenantId, workspaceId: workspace.workspaceId as WorkspaceId }
  scope = inAnyState(platform.access, ref, { subject: 'test', role: 'workspace_admin' })
  service = inAnyState(platform.access, ref, { subject: 'test', role: 'service' })
})
afterAll(() => close())

async function deliver(partner: string, { waitMs }: { waitMs?: number } = {}) {
  const runId = typeId('run', randomIds.uuid())
  await scope.rows(
    sql`insert into deliveries (id, partner, is_awaited) values (${runId}, ${partner}, ${waitMs !== undefined})`,
  )
  await queueRun(scope, DELIVERIES, { runId, ownerId: partner, ...(waitMs !== undefined && { waitMs }) })
  return runId
}

const statusOf = async (...ids: string[]) => {
  const rows = await scope.rows<{ id: string; status: string }>(sql`select id, status from deliveries`)
  return ids.map((id) => rows.find((row) => row.id === id)?.status)
}

/** One look of a task of the reconciler at everything, and what it does about it in this workspace. */
async function look(task: ReturnType<typeof openRuns> | ReturnType<typeof slotQueues>): Promise<void> {
  const session = await database.session()
  const found = await task.find(new SystemScope('reconciler', session), 50)
  session.end()
  for (const { ref, item } of found)
    if (ref.workspaceId === workspace.workspaceId)
      await task.run({ scope, service: scope, isActive: true }, item as never)
}

test('runs beyond the slots of their owner: queue, and start in their order as others end; other owners go on', async () => {
  const [one, two, three] = [await deliver('a'), await deliver('a'), await deliver('a')]
  const other = await deliver('b')
  expect(await statusOf(one, two, three, other)).toEqual(['running', 'pending', 'pending', 'running'])
  const [position] = await scope.rows(queuePosition(three))
  expect(position).toEqual({ key: '', limit: 1, position: 2, running: 1 })
  await end(scope, one, 'done')
  expect(await statusOf(one, two, three)).toEqual(['done', 'running', 'pending'])
  slots = 2
  await promoteQueued(scope, DELIVERIES, { ownerId: 'a' })
  slots = 1
  expect(await statusOf(two, three)).toEqual(['running', 'running'])
})

test('run that ends instead of starting: passes its slot on at once', async () => {
  const refused = [await deliver('closed'), await deliver('closed')]
  expect(await statusOf(...refused)).toEqual(['refused', 'refused'])
  expect(await scope.rows(sql`select from run_slots where owner_id = 'closed'`)).toEqual([])
})

test('caller that waits: holds the slot when its turn comes; one whose time is over has left the queue', async () => {
  const first = await deliver('c')
  const [waiting, late] = [await deliver('c', { waitMs: 30_000 }), await deliver('c', { waitMs: 1 })]
  expect(await awaitSlot(scope, DELIVERIES, late)).toBe(false)
  const turn = awaitSlot(scope, DELIVERIES, waiting)
  await end(scope, first, 'done')
  expect(await turn).toBe(true)
  expect(await scope.rows(sql`select run_id, state from run_slots where owner_id = 'c'`)).toEqual([
    { run_id: waiting, state: 'admitted' },
  ])
})

test('run of a process that died before it started it, or before its workflow existed: started, or ended as lost', async () => {
  const [unstarted, lost] = [await deliver('d'), await deliver('e')]
  await scope.rows(
    sql`update deliveries set status = 'pending', due_at = now() - interval '1 s' where id = ${unstarted}`,
  )
  await scope.rows(sql`update deliveries set due_at = now() - interval '1 s' where id = ${lost}`)
  await look(openRuns(deliveries))
  expect(await statusOf(unstarted, lost)).toEqual(['running', 'lost'])
  const slot = sql`select state from run_slots where run_id = ${lost}`
  expect(await scope.row(slot)).toBeUndefined()
})

test('slot whose run has not started, and queue without a holder: go on', async () => {
  const [holder, next, awaited] = [await deliver('f'), await deliver('f'), await deliver('g')]
  await scope.rows(sql`update deliveries set status = 'pending' where id = ${awaited}`)
  await scope.rows(
    sql`update run_slots set checked_at = now() - interval '1 minute' where run_id = ${awaited}`,
  )
  await look(unstartedSlots(deliveries))
  expect(await statusOf(awaited)).toEqual(['running'])
  await scope.rows(sql`delete from run_slots where run_id = ${holder}`)
  await look(slotQueues(deliveries))
  expect(await statusOf(next)).toEqual(['running'])
})

test('watcher: is woken by changes of another process, and learns of the end', async () => {
  const id = await deliver('h')
  const { watched, stop } = watchRun(scope, DELIVERIES, id)
  try {
    await eventually(async () => (watched.snapshot.version === 1 ? true : undefined))
    const ended = new Promise<void>((done) => watched.onEnd(done))
    await asSuperuser("update tenon.deliveries set ended_at = now(), status = 'done' where id = $1", [id])
    await ended
    expect(watched.snapshot).toMatchObject({ ended: true, gone: false })
  } finally {
    stop()
  }
})

test('retention: the kind removes what has expired', async () => {
  const id = await deliver(unique('i'))
  await end(scope, id, 'done')
  await scope.rows(sql`update deliveries set ended_at = now() - interval '2 hours' where id = ${id}`)
  const context = { scope, service, isActive: true }
  await workspaceRetention([deliveries]).run(context, {
    retention: { workspace: {}, tenant: {} },
  })
  expect(await statusOf(id)).toEqual([undefined])
})
