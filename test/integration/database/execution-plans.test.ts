/** Query plans of lists of executions and approvals under row-level security: filters and orders use indexes. */

import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { ERRORS } from '../../../flows-dsl/errors.ts'
import type { PlatformServices } from '../../../src/access/internals.ts'
import { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { listApprovals } from '../../../src/features/flows/approvals/approvals.ts'
import { listExecutions, listFlowExecutions } from '../../../src/features/flows/executions/executions.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { StatementExecutor } from '../../../src/infra/postgres/database.ts'
import { type Sql, sql } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import { SOURCE } from '../../isolation/sweep-rows-flows.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const EXECUTIONS = 20_000

interface Node {
  readonly 'Relation Name'?: string
  readonly 'Node Type': string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}

let platform: Platform
let parts: PlatformServices
let workspaces: TestWorkspace[]

beforeAll(async () => {
  const opened = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
  platform = opened.platform
  parts = opened.parts
  workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  for (const workspace of workspaces) await fill(workspace)
})
// Other test files fill the table meanwhile.
beforeEach(() => asSuperuser('analyze tenon.executions, tenon.approvals'))
afterAll(() => platform.close())

/** One in a thousand is open, one in 400 has faulted, one in 500 was started by a schedule. */
async function fill({ operator: as, flows, tenantId, workspaceId }: TestWorkspace): Promise<void> {
  for (const name of ['often', 'seldom']) {
    await call('POST', `${flows}/definitions`, { as, body: { name, source: SOURCE(name) } })
    await call('POST', `${flows}/definitions/${name}/versions`, { as, body: {} })
  }
  await asSuperuser(
    `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input,
      started_by, started_at, ended_at, trigger_kind, trigger_id, correlation_key, error)
    select f.tenant_id, f.workspace_id, 'run_' || left(md5(n::text || f.workspace_id), 26), 'w', f.id, 1,
      case when n % 1000 = 0 then 'running' when n % 400 = 1 then 'faulted' else 'completed' end, '{}', 'me',
      timestamptz '2026-01-01Z' + n * interval '1 minute', case when n % 1000 <> 0 then now() end,
      case when n % 500 = 2 then 'schedule' else 'manual' end, case when n % 500 = 2 then 'sched_1' end, 'k' || n % 5000,
      case when n % 400 = 1 then jsonb_build_object('type', $4::text) end
    from generate_series(1, $3::int) n join tenon.flows f on f.tenant_id = $1 and f.workspace_id = $2
      and f.name = case when n % 700 = 3 then 'seldom' else 'often' end`,
    [tenantId, workspaceId, EXECUTIONS, ERRORS.communication.type],
  )
  // One approval of each open execution has expired, the others are approved.
  await asSuperuser(
    `insert into tenon.approvals (tenant_id, workspace_id, id, execution_id, pointer, iteration, name, approvers, quorum, status, asked_at)
    select tenant_id, workspace_id, replace(id, 'run', 'apr'), id, '/do/0', 0, 'board', '{}', 1,
      case when ended_at is null then 'expired' else 'approved' end, now()
    from tenon.executions where tenant_id = $1 and workspace_id = $2`,
    [tenantId, workspaceId],
  )
}

/** Runs batches and records the plan of each statement on executions, under the same session settings. */
class Explaining implements StatementExecutor {
  readonly plans: Node[] = []

  async batch(context: SessionContext, statements: readonly Sql[]) {
    for (const statement of statements.filter(({ text }) => /from (executions|approvals a)/.test(text))) {
      const [[row] = []] = await parts.database.batch(context, [sql`explain (format json) ${statement}`])
      const explained = row?.['QUERY PLAN'] as [{ Plan: Node }]
      const [{ Plan }] = explained
      this.plans.push(Plan)
    }
    return parts.database.batch(context, statements)
  }
}

/** Reads a page as the API does. @returns its plan and the start of the next page */
async function planOf(filters: Record<string, unknown>, listed: 'all' | 'flow' | 'approvals' = 'all') {
  const [workspace] = workspaces
  const ref = { tenantId: workspace?.tenantId, workspaceId: workspace?.workspaceId } as WorkspaceRef
  const statements = new Explaining()
  const actor = { subject: 'test', role: 'workspace_admin' as const }
  const scope = new WorkspaceScope(actor, ref, { ...parts, statements }, randomIds)
  const input = { ws: ref.workspaceId, page_size: 10, ...filters }
  const { data, page } = await {
    all: () => listExecutions.run(scope, listExecutions.parse(input)),
    flow: () => listFlowExecutions.run(scope, listFlowExecutions.parse(input)),
    approvals: () => listApprovals.run(scope, listApprovals.parse(input)),
  }[listed]()
  expect(statements.plans).toHaveLength(1)
  return { nodes: statements.plans.flatMap(nodesOf), found: data.length, next: page.next ?? undefined }
}

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]
const typesOf = (nodes: readonly Node[]) => nodes.map((node) => node['Node Type'])
const conditionsOf = (nodes: readonly Node[]) =>
  nodes.flatMap((node) => node['Index Cond'] ?? []).join(' and ')

test.each([
  [{ status: ['running'] }, 'outcome IS NULL'],
  [{ status: ['suspended'] }, 'outcome IS NULL'],
  [{ status: ['faulted'] }, 'outcome ='],
  [{ status: ['cancelled'] }, 'outcome ='],
  [{ status: ['faulted', 'cancelled'] }, 'outcome ='],
  [{ status: ['running', 'waiting'] }, 'outcome IS NULL'],
  [{ error_type: 'communication' }, 'error_type ='],
  [{ flow: 'seldom' }, 'flow_id ='],
  [{ trigger: 'schedule' }, 'trigger_kind ='],
  [{ trigger_id: 'sched_1' }, 'trigger_id ='],
  [{ correlation_key: 'k77' }, 'correlation_key ='],
  [{ started_after: '2026-01-14T21:00:00Z' }, 'started_at >='],
  [{ started_before: '2026-01-01T00:10:00Z' }, 'started_at <'],
  [{ started_after: '2026-01-02T00:00:00Z', started_before: '2026-01-02T00:05:00Z' }, 'started_at >='],
])('execution list: filter %j: uses an index', async (filters, condition) => {
  for (const order of ['asc', 'desc']) {
    const { nodes } = await planOf({ ...filters, order })
    expect(typesOf(nodes)).not.toContain('Seq Scan')
    expect(conditionsOf(nodes), JSON.stringify(nodes[0])).toContain(condition)
    expect(conditionsOf(nodes)).toContain('tenant_id = ')
  }
})

test.each(['asc', 'desc'])(
  'execution list: order %s, later pages: each starts in the index where the last one ended',
  async (order) => {
    for (const [filters, listed] of [
      [{}, 'all'],
      [{ flow: 'often' }, 'flow'],
    ] as const) {
      let after: string | undefined
      for (let page = 0; page < 3; page++) {
        const { nodes, next, found } = await planOf(
          { ...filters, order, ...(after !== undefined && { page_after: after }) },
          listed,
        )
        expect(found).toBe(10)
        // The last one looks up the names of flows.
        expect(typesOf(nodes)).toEqual(['Limit', expect.stringMatching(/^Index/), 'Index Scan'])
        if (page > 0) expect(conditionsOf(nodes)).toContain('ROW(started_at, id)')
        after = next
      }
    }
  },
)

test('approval list: those with a rare status: found in an index', async () => {
  const { nodes, found } = await planOf({ status: 'expired' }, 'approvals')
  expect(found).toBe(10)
  // How the few that it finds are joined and sorted depends on the statistics of all tenants.
  const approvals = nodes.filter((node) => node['Relation Name'] === 'approvals')
  expect(typesOf(approvals).join()).toMatch(/Index/)
  expect(typesOf(approvals)).not.toContain('Seq Scan')
})
