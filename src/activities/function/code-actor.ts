/** On whose behalf, and with which rights, the code of a run calls the platform. */

import type { Actor } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput, FunctionTrigger } from '../../core/work.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/**
 * Triggers without a caller who has rights on data. A client of an MCP server may call its tools, and nothing else of the
 * workspace.
 */
const WITHOUT_CALLER: readonly FunctionTrigger['kind'][] = ['schedule', 'event', 'mcp']

/**
 * The actor of the code: a service with exactly the scopes that the function declares, else its caller, with the same
 * restrictions. The subject is the run, on behalf of its caller.
 * @param scopes that the function declares
 * @returns undefined if there is neither: then the code may call nothing
 */
export function actorOfCode(
  { workflowId, chainDepth }: Pick<ActivityContext, 'workflowId' | 'chainDepth'>,
  { caller, trigger }: Pick<FunctionRunInput, 'caller' | 'trigger'>,
  scopes: readonly string[],
): Actor | undefined {
  // A depth of 0 counts, too: what the code starts is one deeper.
  const run = { subject: workflowId, chainDepth, onBehalfOf: caller.subject }
  if (scopes.length > 0) return { ...run, role: 'service', scopes: new Set(scopes) }
  if (WITHOUT_CALLER.includes(trigger.kind)) return undefined
  const { role, clientId, groups, user, scopes: restrictions } = caller
  return {
    ...run,
    role,
    ...(clientId !== undefined && { clientId }),
    ...(groups !== undefined && { groups }),
    ...(user !== undefined && { user }),
    ...(restrictions !== undefined && { scopes: new Set(restrictions) }),
  }
}

export const noRights = ({ trigger }: Pick<FunctionRunInput, 'trigger'>): Problem =>
  new Problem('forbidden', {
    detail: `A run that ${STARTED[trigger.kind] ?? 'nobody'} has started has no caller with rights of its own. Name the scopes that the function needs in \`scopes\` of its configuration, such as "collections:write".`,
  })

const STARTED: Partial<Record<FunctionTrigger['kind'], string>> = {
  schedule: 'a schedule',
  event: 'an event',
  mcp: 'a tool of an MCP server',
}
