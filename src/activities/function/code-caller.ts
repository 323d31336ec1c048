/** `context.caller`: tells the code of a run on whose call it runs. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { type EndUser, userValue } from '../../core/policy.ts'
import type { FunctionRunInput, FunctionTrigger } from '../../core/work.ts'
import { callTrigger } from '../../features/functions/runs/run.ts'
import type { CodeCaller } from '../../features/functions/sandbox/invocation.ts'
import { TRIGGER_SUBJECT } from '../../features/runs/triggers/trigger-starter.ts'

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
