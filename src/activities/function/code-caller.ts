/** On whose behalf and with which rights the code of a run calls the platform, and what it is told of its caller. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { type ActorIn, type DataRole, type EndUser, userValue } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput, FunctionTrigger } from '../../core/work.ts'
import type { CodeCaller } from '../../features/functions/sandbox/invocation.ts'
import { actorFor, callTrigger } from '../../features/runs/caller.ts'
import { TRIGGER_SUBJECT } from '../../features/runs/triggers/trigger-starter.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/**
 * The caller as it was when the run was started; of a dead letter that is run again, the caller of its first run.
 * @param scope of the workspace that the run belongs to
 */
export function callerForCode(
  scope: Pick<WorkspaceScope, 'ref'>,
  { caller, trigger }: Pick<FunctionRunInput, 'caller' | 'trigger'>,
): CodeCaller {
  const { subject, role } = caller
  const { kind, id } = caller.via ?? trigger
  const endUser = caller.user ?? caller.onBehalfOfUser
  const user = endUser === undefined ? {} : { user: userForCode(endUser) }
  const starter = starterOf(scope, subject)
  if (isRequest(kind)) return { kind: role, id: starter, ...user }
  const behalf = starter === id ? {} : { on_behalf_of: starter }
  return { kind, id: id ?? starter, ...user, ...behalf }
}

type RequestKind = 'api' | 'http' | 'redrive'
const isRequest = (kind: FunctionTrigger['kind']): kind is RequestKind =>
  kind === 'api' || kind === 'http' || kind === 'redrive'

/** Subjects of runs and executions are ids of their workflows; those of triggers have a prefix. */
function starterOf({ ref }: Pick<WorkspaceScope, 'ref'>, subject: string): string {
  const { id } = callTrigger({ ref, actor: { subject, role: 'service' } })
  return id ?? (subject.startsWith(TRIGGER_SUBJECT) ? subject.slice(TRIGGER_SUBJECT.length) : subject)
}

/** The values that access rules read: an address that was not verified is none. */
function userForCode(user: EndUser): NonNullable<CodeCaller['user']> {
  const email = userValue(user, ['email']) as string | undefined
  return { id: user.id, ...(email !== undefined && { email }), claims: user.claims }
}

/** Acts with the rights of a key, or of a user. */
export type CodeActor = ActorIn<DataRole>

/**
 * The actor of the code: a service with exactly the scopes that the function declares, else its caller, with the same
 * restrictions. The subject is the run, on behalf of its caller.
 * @param scopes that the function declares
 * @returns undefined if the function declares none and the caller has no rights: then the code may call nothing
 */
export function actorOfCode(
  work: Pick<ActivityContext, 'workflowId' | 'chainDepth'>,
  { caller }: Pick<FunctionRunInput, 'caller'>,
  scopes: readonly string[],
): CodeActor | undefined {
  if (scopes.length === 0) return caller.scopes?.length === 0 ? undefined : actorFor(work, caller)
  const { subject, causes, user: onBehalfOfUser = caller.onBehalfOfUser } = caller
  const restrictions = { ...(causes && { causes }), ...(onBehalfOfUser && { onBehalfOfUser }) }
  return actorFor(work, { subject, role: 'service', scopes, ...restrictions })
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
