/** The caller as whom durable work acts: its rights when the work was asked for, without those that it has lost since. */

import { isDeepStrictEqual } from 'node:util'
import type { WorkspaceScope } from '../../access/scope.ts'
import { isSubjectActive } from '../../access/scope-services.ts'
import {
  type Actor,
  type ActorIn,
  causesOf,
  type DataRole,
  type EndUser,
  withSince,
} from '../../core/policy.ts'
import { owns, runBehind } from '../../core/tenant.ts'
import type { FunctionTrigger, WorkCaller } from '../../core/work.ts'
import { sql } from '../../infra/postgres/sql.ts'

/** The rights with which work that the actor asks for may call the platform: its own, or of a run those of its caller. */
export function callerOf({ actor }: WorkspaceScope): WorkCaller {
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
export const callerWithoutRights = (subject: string, causes: readonly string[]): WorkCaller => ({
  subject,
  role: 'service',
  scopes: [],
  ...(causes.length > 0 && { causes }),
})

/** As {@link callerWithoutRights}, for the actor of a call. */
export function actorWithoutRights(actor: Actor): WorkCaller {
  const { subject, causes } = subjectAndCauses(actor)
  return callerWithoutRights(subject, causes)
}

/** On whose behalf the actor calls, and the others behind it: a run that calls another one is among them. */
function subjectAndCauses(actor: Actor): Required<Pick<WorkCaller, 'subject' | 'causes'>> {
  const { subject: own, onBehalfOf: subject = own, user, onBehalfOfUser = user } = actor
  const known = new Set([subject, onBehalfOfUser?.id, onBehalfOfUser?.email])
  // A dead letter may be run again much later.
  const causes = withSince(causesOf(actor), Date.now()).filter((one) => !known.has(one))
  return { subject, causes }
}

/** Acts with the rights of the caller. @param work the id of its workflow, and the number of runs that started one another up to it */
export function actorFor(
  { workflowId: subject, chainDepth }: { readonly workflowId: string; readonly chainDepth: number },
  { causes, role, clientId, groups, user, onBehalfOfUser, scopes, subject: onBehalfOf }: WorkCaller,
): ActorIn<DataRole> {
  return {
    // A depth of 0 counts, too: what the work starts is one deeper.
    ...{ subject, chainDepth, onBehalfOf, role },
    ...(causes !== undefined && { causes }),
    ...(clientId !== undefined && { clientId }),
    ...(groups !== undefined && { groups }),
    ...(user !== undefined && { user }),
    ...(user === undefined && onBehalfOfUser !== undefined && { onBehalfOfUser }),
    ...(scopes !== undefined && { scopes: new Set(scopes) }),
  }
}

/**
 * The trigger of work that a call asks for: a run of a function or an execution of a flow of this workspace, whose subject is the id
 * of its workflow, or a request.
 */
export function callTrigger({ actor, ref }: Pick<WorkspaceScope, 'actor' | 'ref'>): FunctionTrigger {
  const run = owns(ref, actor.subject) ? runBehind(actor.subject) : undefined
  return run === undefined ? { kind: 'api' } : { kind: run.kind, id: run.id }
}

/** `lost`: why the caller may do nothing any more. */
export type CurrentCaller =
  | { readonly caller: WorkCaller; readonly lost?: undefined }
  | { readonly caller?: undefined; readonly lost: string }

const lost = (reason: string): CurrentCaller => ({ lost: reason })

/**
 * For a run that starts late or is repeated. Groups stay, since its issuer cannot be asked for them. The scopes of a run that
 * another function has started stay, too: they may be those that the other function declares.
 */
export async function currentCaller(
  scope: WorkspaceScope,
  { caller, trigger }: { readonly caller: WorkCaller; readonly trigger: FunctionTrigger },
): Promise<CurrentCaller> {
  const current = await narrowed(scope, caller)
  return current.caller !== undefined && trigger.kind === 'function' ? { caller } : current
}

/** For a run that is created again, perhaps weeks later: without the groups of the caller. */
export async function narrowedCaller(scope: WorkspaceScope, caller: WorkCaller): Promise<CurrentCaller> {
  const { groups: _groups, ...without } = caller
  return narrowed(scope, without)
}

/**
 * Takes all rights from a user whose record has changed: rules compare documents with any value of a user, so the platform cannot
 * tell which rights the change has taken.
 */
async function narrowed(scope: WorkspaceScope, caller: WorkCaller): Promise<CurrentCaller> {
  const { subject, clientId, user } = caller
  if (subject.startsWith('key_')) return narrowedKey(scope, caller)
  for (const id of new Set([subject, clientId ?? subject]))
    if (!(await isSubjectActive(scope, id))) return lost(`${id} was deleted or disabled`)
  if (user !== undefined && !(await isUnchanged(scope, user)))
    return lost(`the values of ${subject} that rules read have changed`)
  return { caller }
}

/** Of a key that was rotated, its replacement counts. */
async function narrowedKey(scope: WorkspaceScope, caller: WorkCaller): Promise<CurrentCaller> {
  const key = await scope.row<{ scopes: string[] }>(sql`
    with recursive line as (
      select * from api_keys where id = ${caller.subject}
      union all
      select newer.* from api_keys newer join line on newer.id = line.replaced_by
    )
    select scopes from line
    where revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())
    order by created_at desc limit 1`)
  if (key === undefined) return lost(`the key ${caller.subject} is not valid any more`)
  if (key.scopes.length === 0) return { caller }
  const scopes = caller.scopes?.filter((scope) => key.scopes.includes(scope)) ?? key.scopes
  return { caller: { ...caller, scopes } }
}

/** Users of other issuers have no record here. */
async function isUnchanged(scope: WorkspaceScope, user: EndUser): Promise<boolean> {
  const now = await scope.row<{ email: string; verified: boolean; claims: object }>(sql`
    select email, email_verified_at is not null as verified, claims from users where id = ${user.id}`)
  if (now === undefined) return true
  const { email, verified, claims } = now
  return email === user.email && verified === user.emailVerified && isDeepStrictEqual(claims, user.claims)
}
