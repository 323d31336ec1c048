// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Queues of concurrency slots: how many executions may queue, and that long or many queues of one tenant do not delay others. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { RUN_KINDS } from '../../../src/features/run-kinds.ts'
import { RUN_LIMITS } from '../../../src/features/runs/limits.ts'
import { openRuns } from '../../../src/features/runs/open-runs.ts'
import { slotQueues, unstartedSlots } from '../../../src/features/runs/slot-tasks.ts'
import { Database, type StatementExecutor } from '../../../src/infra/postgres/database.ts'
import { type Sql, sql } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import { SystemScope } from '../../../src/infra/postgres/system-scope.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const { queuedExecutionsMax } = FLOW_LIMITS
const { queuesSeenMax } = RUN_LIMITS
const WAITS = '  - a: { wait: PT1H }'
const BY_KEY = { more: "concurrency: { limit: 1, key: '${ .k }' }\n" }

let workspace: TestWorkspace
let executions: Executions
let flow: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  flow = await executions.publish(WAITS, BY_KEY)
  const holder = await executions.start(flow, { input: { k: 'long' } })
  await executions.shown(holder, 'waiting')
  await fill(holder, queuedExecutionsMax)
})

/** Queues executions behind the one that holds the slot. */
async function fill(holder: string, count: number): Promise<void> {
  await asSuperuser(
    `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input, started_by, due_at)
    select tenant_id, workspace_id, 'run_' || left(md5(n::text || workspace_id), 26), 'w' || n, flow_id, version, 'pending', '{}', 'me',
      now() + interval '1 day'
    from tenon.executions, generate_series(1, $2::int) n where id = $1`,
    [holder, count],
  )
  await asSuperuser(
    `insert into tenon.run_slots (tenant_id, workspace_id, kind, run_id, owner_id, key, max, state, start)
    select h.tenant_id, h.workspace_id, h.kind, e.id, h.owner_id, h.key, h.max, 'queued', h.start
    from tenon.run_slots h join tenon.executions e on e.flow_id = h.owner_id and e.id <> h.run_id
    where h.run_id = $1`,
    [holder],
  )
  await asSuperuser('analyze tenon.run_slots, tenon.executions')
}

const start = (k: string) =>
  call('POST', `${workspace.flows}/definitions/${flow}/executions`, {
    as: workspace.operator,
    body: { input: { k } },
  })

test('full queue: a further execution is refused with 429 and not recorded; other keys go on', async () => {
  const refused = await start('long')
  expect([refused.status, refused.body]).toMatchObject([
    429,
    { code: 'concurrency_limited', key: 'long', limit: 1, running: 1, queued: queuedExecutionsMax },
  ])
  expect(refused.body.detail).toContain('may queue')
  expect((await start('other')).status).toBe(201)
  expect((await start('other')).body.status).toBe('pending')
})

interface Explained {
  readonly 'QUERY PLAN': [{ readonly Plan: Record<'Shared Hit Blocks' | 'Shared Read Blocks', number> }]
}

/** Measures the pages that each statement reads, with the settings of the leader's session. */
class Measuring implements StatementExecutor {
  pages = 0
  readonly #session: StatementExecutor

  constructor(session: StatementExecutor) {
    this.#session = session
  }

  async batch(context: SessionContext, statements: readonly Sql[]) {
    const explained = statements.map((statement) => sql`explain (analyze, buffers, format json) ${statement}`)
    for (const [row] of (await this.#session.batch(context, explained)) as unknown as [Explained][]) {
      const [{ Plan }] = row['QUERY PLAN']
      this.pages += Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks']
    }
    return statements.map(() => [])
  }
}

let database: Database
beforeAll(() => {
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {})
})
afterAll(() => database.close())

const TASKS = RUN_KINDS.flatMap((kind) => [slotQueues(kind), unstartedSlots(kind), openRuns(kind)])

test.each(TASKS.map((task) => [task.name, task] as const))(
  '%s: a look reads few pages, however long a queue is',
  async (_, task) => {
    const session = await database.session()
    const measuring = new Measuring(session)
    await task.find(new SystemScope('reconciler', measuring), 50)
    session.end()
    expect(measuring.pages).toBeGreaterThan(0)
    // Other tests have due executions, too.
    expect(measuring.pages).toBeLessThan(500)
  },
)

test('queue that lost its slot, behind more queues than one look takes: goes on', async () => {
  const own = await createTestWorkspace()
  const theirs = new Executions(own)
  const name = await theirs.publish(WAITS, BY_KEY)
  const keys = [...Array.from({ length: queuesSeenMax + 2 }, (_, n) => `a${n}`), 'z']
  const startAll = () => Promise.all(keys.map((k) => theirs.start(name, { input: { k } })))
  const [holders, queued] = [await startAll(), await startAll()]
  await Promise.all(holders.map((id) => theirs.shown(id, 'waiting')))
  // As if the process had crashed before it passed the slot on.
  await asSuperuser('delete from tenon.run_slots where run_id = $1', [holders.at(-1)])
  await theirs.shown(queued.at(-1) ?? '', 'waiting')
  const rows = await asSuperuser("select from tenon.run_slots where run_id = any($1) and state = 'queued'", [
    queued,
  ])
  expect(rows).toHaveLength(keys.length - 1)
})

test('thousands of executions of one workspace are due for a check: one of another is checked as soon', async () => {
  const other = await createTestWorkspace()
  const theirs = new Executions(other)
  const id = await theirs.start(await theirs.publish(WAITS))
  await theirs.shown(id, 'waiting')
  await asSuperuser(
    "update tenon.executions set due_at = now() - interval '1 hour' where workspace_id = $1",
    [workspace.workspaceId],
  )
  // As if Temporal had lost its workflow.
  await asSuperuser(
    "update tenon.executions set due_at = now(), workflow_id = workflow_id || 'x' where id = $1",
    [id],
  )
  expect((await theirs.shown(id, 'faulted')).error.detail).toContain('does not exist')
  const due = await asSuperuser('select from tenon.executions where workspace_id = $1 and due_at < now()', [
    workspace.workspaceId,
  ])
  expect(due.length).toBeGreaterThan(queuedExecutionsMax / 2)
  await asSuperuser("update tenon.executions set due_at = now() + interval '1 day' where workspace_id = $1", [
    workspace.workspaceId,
  ])
})
