/** A run of a function: the shapes that its start, its workflow and its record share. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { type Actor, causesOf, withSince } from '../../../core/policy.ts'
import { owns, runBehind } from '../../../core/tenant.ts'
import type { FunctionCaller, FunctionTrigger, Json, SecretNames } from '../../../core/work.ts'

/** A request to start a run. */
export interface RunRequest {
  /** Id or name of the function, or `name@alias`. */
  readonly id: string
  /** By default the active version, or that of the alias. */
  readonly version?: number
  readonly alias?: string
  readonly kind?: 'call' | 'fetch'
  readonly input: Json
  /** Members of the second argument of the code. */
  readonly context?: Json
  readonly trigger: FunctionTrigger
  /** True if the caller does not wait: the record keeps input and result, and a failed run is a dead letter. */
  readonly isAsync: boolean
  /** Secrets of a calling execution, whose handles the input has. */
  readonly secrets?: SecretNames
  /** By default the actor of the scope. */
  readonly caller?: FunctionCaller
  /** The id of the run, if it derives from its trigger: repeated starts are one run. */
  readonly runId?: string
}

/** The rights with which the code of a run may call the platform: those of its caller, or of the caller of the calling run. */
export function callerOf({ actor }: WorkspaceScope): FunctionCaller {
  const { role, clientId, groups, user, onBehalfOfUser, scopes } = actor
  return {
    ...subjectAndCauses(actor),
    role: role === 'user' || role === 'anon' ? role : 'service',
    ...(clientId !== undefined && { clientId }),
    ...(groups !== undefined && { groups }),
    ...(user !== undefined && { user }),
    ...(onBehalfOfUser !== undefined && { onBehalfOfUser }),
    ...(scopes !== undefined && { scopes: [...scopes] }),
  }
}

/**
 * The caller of a run that was started without rights on data: by a schedule, an event, or a client of an MCP server, which
 * may call its tools and nothing else of the workspace. The code has the scopes that its function declares, and no others.
 */
export const callerWithoutRights = (subject: string, causes: readonly string[]): FunctionCaller => ({
  subject,
  role: 'service',
  scopes: [],
  ...(causes.length > 0 && { causes }),
})

/** As {@link callerWithoutRights}, for the actor of a call. */
export function actorWithoutRights(actor: Actor): FunctionCaller {
  const { subject, causes } = subjectAndCauses(actor)
  return callerWithoutRights(subject, causes)
}

/** On whose behalf the actor calls, and the others behind it: a run that calls another one is among them. */
function subjectAndCauses(actor: Actor): Required<Pick<FunctionCaller, 'subject' | 'causes'>> {
  const { subject: own, onBehalfOf: subject = own, user, onBehalfOfUser = user } = actor
  const known = new Set([subject, onBehalfOfUser?.id, onBehalfOfUser?.email])
  // A dead letter may be run again much later.
  const causes = withSince(causesOf(actor), Date.now()).filter((one) => !known.has(one))
  return { subject, causes }
}

/**
 * The trigger of a call of `function.invoke`: a run of a function or an execution of a flow of this workspace, whose subject is the
 * id of its workflow, or a request.
 */
export function callTrigger({ actor, ref }: Pick<WorkspaceScope, 'actor' | 'ref'>): FunctionTrigger {
  const run = owns(ref, actor.subject) ? runBehind(actor.subject) : undefined
  return run === undefined ? { kind: 'api' } : { kind: run.kind, id: run.id }
}
