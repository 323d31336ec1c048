/** Approvals: lists what people are asked, for all or for the caller alone, and takes their decisions. */

import Type from 'typebox'
import { type Voting, verdictOf } from '../../../../flows-dsl/tasks/approvers.ts'
import { Input, Ref } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow, listPage, previewOperation } from '../../operation-helpers.ts'
import { watchRun } from '../../runs/watcher.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { decideStep } from '../executions/commands.ts'
import { EXECUTION } from '../executions/concurrency.ts'
import { FLOW_LIMITS } from '../limits.ts'
import {
  APPROVAL_COLUMNS,
  APPROVAL_JOIN,
  APPROVAL_STATUSES,
  Approval,
  joinExecutions,
} from './approval-shape.ts'
import { type Decider, mayDecide, namesOf, resolveDecider, showIfAsked, type Verdict } from './deciders.ts'

export const listApprovals = previewOperation({
  name: 'approval.list',
  roles: VIEWERS,
  summary: 'List approvals, by default those that are open',
  input: Input({
    ...PageInput,
    ws: Ws,
    mine: Type.Optional(
      Type.Boolean({
        description:
          'True if only the approvals that the caller may decide now are listed. Default: `false`.',
      }),
    ),
    status: Type.Optional(Type.Union(APPROVAL_STATUSES.map((status) => Type.Literal(status)))),
  }),
  output: PageOf(Approval),
  http: { method: 'GET', path: `${FLOWS}/approvals` },
  run: async (scope, { mine = false, status = 'open', ...page }) => {
    const decider = await resolveDecider(scope)
    const own = mine ? mayDecide(decider) : sql``
    // The order keeps the planner from beginning with the executions: its statistics are those of all tenants.
    const listed = sql`(select * from approvals a where a.status = ${status} ${own} order by a.id)`
    const records = sql`select ${APPROVAL_COLUMNS} from ${joinExecutions(listed)}`
    const found = await listPage<Approval>(scope, page, records)
    const asked = namesOf(decider)
    for (const one of found.data) showIfAsked(one, asked)
    return found
  },
})

export const getApproval = previewOperation({
  name: 'approval.get',
  roles: VIEWERS,
  summary: 'Read an approval',
  input: Input({ ws: Ws, id: Ref('approval') }),
  output: Approval,
  http: { method: 'GET', path: `${FLOWS}/approvals/{id}` },
  run: async (scope, { id }) =>
    showIfAsked(await readApproval(scope, id), namesOf(await resolveDecider(scope))),
})

export const decideApproval = previewOperation({
  name: 'approval.decide',
  roles: DEVELOPERS,
  summary: 'Decide an approval',
  input: Input({
    ws: Ws,
    id: Ref('approval'),
    approved: Type.Boolean(),
    form: Type.Optional(Type.Unknown({ description: 'Fields of the form of the approval.' })),
    comment: Type.Optional(Type.String({ maxLength: 2_000 })),
  }),
  output: Approval,
  http: {
    method: 'POST',
    path: `${FLOWS}/approvals/{id}/decide`,
    body: '*',
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
  },
  run: async (scope, { id, ws: _ws, ...verdict }) => decide(scope, id, await resolveDecider(scope), verdict),
})

/**
 * Decides an approval as a person.
 * @returns the approval as recorded
 * @throws Problem `not_found`; `state_conflict` if it is not open, or the workflow refuses the decision
 */
export async function decide(
  scope: WorkspaceScope,
  id: string,
  decider: Decider,
  verdict: Verdict,
): Promise<Approval> {
  const { pointer, iteration, ...approval } = await findRow<
    Approval & { pointer: string; iteration: number }
  >(
    scope,
    'approval',
    sql`select ${APPROVAL_COLUMNS}, a.pointer, a.iteration from ${APPROVAL_JOIN} where a.id = ${id}`,
  )
  const { status } = approval
  const closed = new Problem('state_conflict', { detail: `The approval is ${status}.` })
  const requireStep = async () => {
    if (status !== 'open') throw closed
    return `${pointer}#${iteration}`
  }
  await decideStep(scope, approval.execution_id, requireStep, decider, verdict).catch((error: unknown) => {
    // It says more than that the execution has ended.
    throw status === 'open' ? error : closed
  })
  return showIfAsked(await whenRecorded(scope, approval, decider.by), namesOf(decider))
}

function readApproval(scope: WorkspaceScope, id: string): Promise<Approval> {
  return findRow<Approval>(
    scope,
    'approval',
    sql`select ${APPROVAL_COLUMNS} from ${APPROVAL_JOIN} where a.id = ${id}`,
  )
}

/** Waits until the decision and what follows from it are on record, for a moment: the workflow has accepted it. */
async function whenRecorded(
  scope: WorkspaceScope,
  { id, execution_id: executionId }: Approval,
  by: string,
): Promise<Approval> {
  const { watched, stop } = watchRun(scope, EXECUTION, executionId)
  const until = Date.now() + FLOW_LIMITS.approvals.recordMs
  try {
    for (;;) {
      const leftMs = until - Date.now()
      const change = watched.nextChange(leftMs)
      const approval = await readApproval(scope, id)
      if (approval.status !== 'open' || leftMs <= 0 || isUndecided(approval, by)) return approval
      await change
    }
  } finally {
    stop()
  }
}

/** True if the decision of this subject is on record, and others have to decide as well. */
function isUndecided({ approvers, quorum, decisions }: Approval, by: string): boolean {
  const recorded = decisions as Voting['decisions']
  return (
    recorded.some((one) => one.by === by) &&
    verdictOf({ approvers, quorum, decisions: recorded }) === undefined
  )
}
