/** Applies a suspension or resumption: signals open executions, opens or closes the object store. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { storageOf, workflowsOf } from '../../access/scope-services.ts'
import { LIMITS } from '../../core/limits.ts'
import type { SuspensionState } from '../../core/run.ts'
import type { TenantRef, WorkspaceId } from '../../core/tenant.ts'
import { statesOf, type WorkspaceState } from '../../features/tenants/suspension.ts'
import { sql } from '../../infra/postgres/sql.ts'

/** The scopes that it takes: of the tenant's structure, and of the runs of a workspace. */
export interface SuspensionContext {
  readonly admin: AdminScope
  readonly within: (workspaceId: WorkspaceId) => WorkspaceScope
}

/** Shows open runs as they stand, and tells them: each of them, or those that are not shown as held. */
export function signalExecutions(
  reach: SuspensionContext,
  target: TenantRef,
  whom: 'all' | 'unheld',
): Promise<void> {
  return untilSettled(reach, target, async ({ id, suspended, seq }) => {
    const scope = reach.within(id)
    let after = ''
    for (;;) {
      const page = await recordSuspension(scope, after, { whom, suspended })
      await signalEach(scope, page, { seq, suspended })
      const last = page.at(-1)
      if (last === undefined || page.length < LIMITS.suspension.pageRuns) return
      after = last.id
    }
  })
}

/** Closes the store to the identities of suspended workspaces, and opens it to those of active ones. */
export function syncStorageAccess(reach: SuspensionContext, target: TenantRef): Promise<void> {
  const { tenantId } = target
  return untilSettled(reach, target, async ({ id: workspaceId, bucket, suspended }) => {
    if (bucket !== null) await storageOf(reach.admin).turn({ tenantId, workspaceId }, bucket, !suspended)
  })
}

/** Does it for each workspace; and once more, as long as another change came while it was done. */
async function untilSettled(
  { admin }: SuspensionContext,
  target: TenantRef,
  work: (standing: WorkspaceState) => Promise<void>,
): Promise<void> {
  let before: readonly WorkspaceState[] = []
  for (;;) {
    const standings = await statesOf(admin, target)
    const changed = standings.filter(({ id, seq }) => before.find((each) => each.id === id)?.seq !== seq)
    if (changed.length === 0) return
    for (const standing of changed) await work(standing)
    before = standings
  }
}

interface Run {
  readonly id: string
  readonly workflow_id: string
}

/** Of a page of open runs, by their ids. What is shown is what the doors see to: runs need not have heard of it. */
function recordSuspension(
  scope: WorkspaceScope,
  after: string,
  { whom, suspended }: { whom: 'all' | 'unheld'; suspended: boolean },
): Promise<Run[]> {
  return scope.rows<Run>(sql`
    with page as (
      select id from executions
      where ended_at is null and id > ${after} and (${whom} = 'all' or not suspended)
      order by id limit ${LIMITS.suspension.pageRuns} for update
    ), told as (
      update executions e set suspended = ${suspended} from page where e.id = page.id returning e.id, e.workflow_id)
    select id, workflow_id from told order by id`)
}

/** Several at a time; a run that has ended, or has not begun, is passed over. */
async function signalEach(
  scope: WorkspaceScope,
  runs: readonly Run[],
  value: SuspensionState,
): Promise<void> {
  const left = [...runs]
  const tell = async () => {
    for (let run = left.shift(); run !== undefined; run = left.shift())
      await workflowsOf(scope).signal(run.workflow_id, { name: 'suspensionChanged', value })
  }
  await Promise.all(Array.from({ length: LIMITS.suspension.signalsAtOnce }, tell))
}
