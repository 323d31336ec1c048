/** Propagates a suspension or resumption to open executions. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import type { SuspensionState } from '../../core/execution.ts'
import type { TenantRef, WorkspaceId } from '../../core/tenant.ts'
import { TENANT_LIMITS } from '../../features/tenants/limits.ts'
import { readStates, type WorkspaceState } from '../../features/tenants/suspension.ts'
import { sql } from '../../infra/postgres/sql.ts'

/** The scopes that a suspension needs: of the tenant, and of each of its workspaces. */
export interface SuspensionContext {
  readonly admin: AdminScope
  readonly within: (workspaceId: WorkspaceId) => WorkspaceScope
}

/**
 * Records the current suspension state of open executions, and signals it to their workflows.
 * @param which `all` of them, or only those that are recorded as `active` (not suspended)
 */
export function signalExecutions(
  context: SuspensionContext,
  target: TenantRef,
  which: 'all' | 'active',
): Promise<void> {
  return untilStable(context, target, async ({ id, suspended, seq }) => {
    const scope = context.within(id)
    let after = ''
    for (;;) {
      const page = await recordSuspension(scope, after, { which, suspended })
      await signalEach(scope, page, { seq, suspended })
      const last = page.at(-1)
      if (last === undefined || page.length < TENANT_LIMITS.suspensionPageExecutions) return
      after = last.id
    }
  })
}

/** Does the work for each workspace, and repeats it for those whose state changed meanwhile. */
async function untilStable(
  { admin }: SuspensionContext,
  target: TenantRef,
  work: (state: WorkspaceState) => Promise<void>,
): Promise<void> {
  let before: readonly WorkspaceState[] = []
  for (;;) {
    const states = await readStates(admin, target)
    const changed = states.filter(({ id, seq }) => before.find((each) => each.id === id)?.seq !== seq)
    if (changed.length === 0) return
    for (const state of changed) await work(state)
    before = states
  }
}

interface Execution {
  readonly id: string
  readonly workflow_id: string
}

/**
 * Writes the suspension state to a page of open executions, in order of their ids. It is only displayed: every entry point
 * enforces the suspension, whether or not a workflow has got the signal.
 * @returns the executions of the page
 */
function recordSuspension(
  scope: WorkspaceScope,
  after: string,
  { which, suspended }: { which: 'all' | 'active'; suspended: boolean },
): Promise<Execution[]> {
  return scope.rows<Execution>(sql`
    with page as (
      select id from executions
      where ended_at is null and id > ${after} and (${which} = 'all' or not suspended)
      order by id limit ${TENANT_LIMITS.suspensionPageExecutions} for update
    ), updated as (
      update executions e set suspended = ${suspended} from page where e.id = page.id returning e.id, e.workflow_id)
    select id, workflow_id from updated order by id`)
}

/** Signals several executions at a time. A workflow that has ended or does not exist yet is skipped. */
async function signalEach(
  scope: WorkspaceScope,
  executions: readonly Execution[],
  value: SuspensionState,
): Promise<void> {
  const left = [...executions]
  const signalNext = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift())
      await workflowsOf(scope).signal(next.workflow_id, { name: 'suspensionChanged', value })
  }
  await Promise.all(Array.from({ length: TENANT_LIMITS.suspensionSignalsMax }, signalNext))
}
