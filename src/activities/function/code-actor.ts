/** Decides on whose behalf, and with which rights, the code of a run calls the platform. */

import type { ActorIn, DataRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput, FunctionTrigger } from '../../core/work.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/** Acts with the rights of a key, or of a user. */
export type CodeActor = ActorIn<DataRole>

/**
 * The actor of the code: a service with exactly the scopes that the function declares, else its caller, with the same
 * restrictions. The subject is the run, on behalf of its caller.
 * @param scopes that the function declares
 * @returns undefined if the function declares none and the caller has no rights: then the code may call nothing
 */
export function actorOfCode(
  { workflowId, chainDepth }: Pick<ActivityContext, 'workflowId' | 'chainDepth'>,
  { caller }: Pick<FunctionRunInput, 'caller'>,
  scopes: readonly string[],
): CodeActor | undefined {
  // A depth of 0 counts, too: what the code starts is one deeper.
  const { causes } = caller
  const run = { subject: workflowId, chainDepth, onBehalfOf: caller.subject, ...(causes && { causes }) }
  const onBehalfOfUser = caller.user ?? caller.onBehalfOfUser
  const behalf = onBehalfOfUser === undefined ? {} : { onBehalfOfUser }
  if (scopes.length > 0) return { ...run, ...behalf, role: 'service', scopes: new Set(scopes) }
  if (caller.scopes?.length === 0) return undefined
  const { role, clientId, groups, user, scopes: restrictions } = caller
  return {
    ...run,
    role,
    ...(clientId !== undefined && { clientId }),
    ...(groups !== undefined && { groups }),
    ...(user === undefined ? behalf : { user }),
    ...(restrictions !== undefined && { scopes: new Set(restrictions) }),
  }
}

export function noRights({ trigger }: Pick<FunctionRunInput, 'trigger'>): Problem {
  const starter = STARTERS[trigger.kind]
  const why = starter === undefined ? '' : `: ${starter} has started it`
  return new Problem('forbidden', {
    detail: `The run has no caller with rights of its own${why}. Name the scopes that the function needs in \`scopes\` of its configuration, such as "collections:write".`,
  })
}

const STARTERS: Partial<Record<FunctionTrigger['kind'], string>> = {
  schedule: 'a schedule',
  event: 'an event',
  mcp: 'a tool of an MCP server',
}
