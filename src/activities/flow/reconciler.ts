/** Opens a workspace scope for the reconciler and repairs one execution that a crash has left behind. */

import type { Access } from '../../access/access.ts'
import { randomIds } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { promoteQueued, reconcile } from '../../features/flows/executions/reconcile.ts'
import type { Candidate } from '../../features/flows/executions/reconciler.ts'

const ACTOR = { subject: 'tenon:reconciler', role: 'workspace_admin' } as const

/** @returns what looks into one suspect */
export function mender(access: Access): (suspect: Candidate) => Promise<void> {
  return async (suspect) => {
    const { ref } = suspect
    const mayBegin = await access.continueActive(ref, ACTOR, randomIds).then(() => true, unlessRefused)
    const scope = access.continueWorkspace(ref, ACTOR, randomIds)
    if ('execution' in suspect) await reconcile(scope, suspect.execution, mayBegin)
    else if (mayBegin) await promoteQueued(scope, suspect.flow, suspect.key)
  }
}

/** In a workspace that stands still nothing begins; what is over is over there too. */
function unlessRefused(error: unknown): false {
  if (error instanceof Problem && error.status < 500) return false
  throw error
}
