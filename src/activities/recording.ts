/** The last that a run says of itself, on its way to its record: written before Temporal is told that it has ended. */

import type { InjectedSinks } from '@temporalio/worker'
import { randomIds, uuidOf } from '../core/ids.ts'
import { Problem } from '../core/problem.ts'
import { refOf } from '../core/tenant.ts'
import type { RunUpdate } from '../core/work.ts'
import type { Access } from '../platform/access.ts'
import { insist } from '../platform/insist.ts'
import type { Log } from '../platform/log.ts'
import type { WorkspaceScope } from '../platform/scope.ts'
import { recordRun } from '../resources/flows/projection.ts'
import type { Records } from './contract.ts'

/**
 * The worker answers Temporal when this has ended, and not before: a task whose record could not be written is not done, runs
 * out, and is done again by whoever is there. So it is tried for as long as it may yet succeed.
 */
export function recording(access: Access, log: Log): InjectedSinks<Records> {
  return {
    records: {
      write: {
        fn: async ({ workflowId }, update) => {
          try {
            const scope = scopeOf(access, workflowId, update)
            await insist(Number.POSITIVE_INFINITY, () => recordRun(scope, update), mayYetSucceed)
          } catch (error) {
            log.error({ err: error, workflow: workflowId }, 'the record of a run cannot be written')
          }
        },
      },
    },
  }
}

/** @throws Problem `forbidden` where a run speaks of another one than itself */
function scopeOf(access: Access, workflowId: string, { execution_id }: RunUpdate): WorkspaceScope {
  const ref = refOf(workflowId)
  const isItself = workflowId.endsWith(`:${uuidOf(execution_id)}`)
  if (ref === undefined || ref.workspaceId === '-' || !isItself)
    throw new Problem('forbidden', { detail: 'The record is not that of the run that its id names.' })
  const { tenantId, workspaceId } = ref
  const actor = { subject: workflowId, role: 'workspace_admin' } as const
  return access.continueWorkspace({ tenantId, workspaceId }, actor, randomIds)
}

const mayYetSucceed = (error: unknown) => !(error instanceof Problem && error.isFinal)
