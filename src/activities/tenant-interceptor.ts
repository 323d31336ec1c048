/** Authenticates the arguments of activities, and opens scopes of the tenant that the workflow id names, and of no other. */

import { createHash } from 'node:crypto'
import { activityInfo, type Info } from '@temporalio/activity'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { ActivityInboundCallsInterceptor, ActivityInterceptorsFactory } from '@temporalio/worker'
import type { Access } from '../access/access.ts'
import { privilege } from '../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../access/scope.ts'
import { Suspended } from '../access/tenant-states.ts'
import { type IdSource, seededIds } from '../core/ids.ts'
import type { ActorIn, DataRole } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { refOf, type TenantRef, type WorkspaceRef } from '../core/tenant.ts'
import {
  authenticatedArguments,
  type FirstAttempt,
  type SuspendedFailure,
  traceOfArguments,
  UNAUTHENTICATED,
  UNAUTHENTICATED_MESSAGE,
} from '../core/work.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { triggerActor } from '../features/runs/triggers/trigger-starter.ts'
import type { Log } from '../infra/log.ts'
import { isUnavailable } from '../infra/retry.ts'
import { inTrace } from '../infra/trace-context.ts'
import { inSpan, type SpanDescription } from '../infra/tracing.ts'
import { chainDepthOf } from '../workflows/chain-depth-interceptor.ts'
import { failureOf } from './call-failure.ts'
import type { Activities, FunctionCall } from './contract.ts'
import type { WorkLog } from './work-log.ts'

/** The first argument of every activity: the tenant, the workflow, and ids that are the same at each attempt. */
export interface ActivityContext {
  readonly ref: TenantRef
  readonly workflowId: string
  readonly ids: IdSource
  /** The number of executions that started one another by events or tools, up to this one; 0 for the first. */
  readonly chainDepth: number
  /** 1 for the first. */
  readonly attempt: number
}

/** The activities as a worker has them: each gets the context first. */
export type Implementation = {
  [Name in keyof Activities]: (
    call: ActivityContext,
    ...input: Parameters<Activities[Name]>
  ) => ReturnType<Activities[Name]>
}

/** @throws Problem `forbidden` if the work belongs to a tenant as a whole */
export function workspaceOf({ ref }: Pick<ActivityContext, 'ref'>): WorkspaceRef {
  const { tenantId, workspaceId } = ref
  if (workspaceId === '-') throw new Problem('forbidden', { detail: 'This work belongs to no workspace.' })
  return { tenantId, workspaceId }
}

/** Puts the {@link ActivityContext} before the activity's own arguments, and turns Problems into failures. */
export function tenantInterceptor(log: Log, work: WorkLog): ActivityInterceptorsFactory {
  const inbound: ActivityInboundCallsInterceptor = {
    execute: async (input, next) => {
      const info = activityInfo()
      const args = argumentsOf(info, input.args)
      const first = firstAttemptOf(info, args)
      const attempt = async () => {
        const startedMs = performance.now()
        try {
          const call = {
            ...contextOf(info, first),
            chainDepth: chainDepthOf(input.headers) ?? 0,
            attempt: info.attempt,
          }
          const output = await next({ ...input, args: [call, ...args] })
          // Null: it has done nothing, and is called again as another activity.
          if (output !== null) work.activityEnded(info, performance.now() - startedMs)
          return output
        } catch (error) {
          const failure =
            error instanceof Suspended ? suspendedFailure(error, first) : toFailure(error, info, log)
          work.activityEnded(info, performance.now() - startedMs, codeOf(failure))
          throw failure
        }
      }
      return inTrace(traceOfArguments(input.args), () => inSpan(spanOf(info), attempt))
    },
  }
  return () => ({ inbound })
}

/** The first attempt: this activity, or an earlier one of the same call that a suspension refused. */
function firstAttemptOf(
  { activityType, activityId, scheduledTimestampMs }: Info,
  args: unknown[],
): FirstAttempt {
  const first = CALLS.includes(activityType) ? (args[0] as FunctionCall).first_attempt : undefined
  return first ?? { activity_id: activityId, at_ms: scheduledTimestampMs }
}

const CALLS = ['callFunction', 'callHttp', 'callHttpInline', 'planOpenApi', 'startSubflow', 'openCallback']

/** Temporal does not retry this failure: the workflow waits until it is resumed, and calls again. */
function suspendedFailure({ code, message, seq }: Suspended, begun: FirstAttempt): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, 'held', { seq, code, begun } satisfies SuspendedFailure)
}

/** @throws ApplicationFailure if the platform has not created the arguments for this activity of this workflow */
function argumentsOf({ activityType }: Info, args: readonly unknown[]): unknown[] {
  const authentic = authenticatedArguments(`activity:${activityType}`, args)
  if (authentic === undefined) throw unauthenticated()
  return authentic
}

/** @throws ApplicationFailure if the id of the workflow names no tenant */
function contextOf(info: Info, first: FirstAttempt): Omit<ActivityContext, 'chainDepth' | 'attempt'> {
  const workflowId = info.workflowExecution?.workflowId ?? ''
  const ref = refOf(workflowId)
  if (ref === undefined) throw unauthenticated()
  return { ref, workflowId, ids: idsOf(info, workflowId, first) }
}

const unauthenticated = () => ApplicationFailure.nonRetryable(UNAUTHENTICATED_MESSAGE, UNAUTHENTICATED)

/** The same ids for each attempt of the same activity of a workflow run. Their time is that of the first scheduling. */
function idsOf(info: Info, workflowId: string, first: FirstAttempt): IdSource {
  const seed = `${workflowId}/${info.workflowExecution?.runId}/${first.activity_id}`
  const random = (n: number) => createHash('sha256').update(`${seed}/${n}`).digest().subarray(0, 16)
  return seededIds(first.at_ms, random, first.order)
}

const spanOf = ({ activityType: name, workflowExecution, attempt }: Info): SpanDescription => ({
  name,
  kind: 'consumer',
  attributes: { 'tenon.workflow': workflowExecution?.workflowId ?? '', 'tenon.attempt': attempt },
})

/** For lines of the log: the type of a failure is the code of its problem. */
const codeOf = (failure: unknown): string =>
  failure instanceof ApplicationFailure ? (failure.type ?? 'unknown') : 'cancelled'

/** Converts an error into a failure that Temporal retries unless the Problem is final. */
function toFailure(error: unknown, info: Info, log: Log): unknown {
  if (error instanceof ApplicationFailure || error instanceof CancelledFailure) return error
  const problem = error instanceof Problem ? error : new Problem('internal', { cause: error })
  const context = {
    activity: info.activityType,
    workflow: info.workflowExecution?.workflowId,
    attempt: info.attempt,
  }
  // Failures of a tenant's own code are final. They are shown to the tenant and not logged.
  if (problem.status >= 500 && !problem.row.final)
    log.warn({ err: problem.cause ?? problem, ...context }, 'activity failed')
  // Starts that have no number of attempts (RETRIES.start) are repeated only while a server is away.
  const isGivenUp = info.attempt >= FLOW_LIMITS.startAttemptsMax && STARTS.includes(info.activityType)
  return ApplicationFailure.create({
    message: problem.message,
    type: problem.code,
    nonRetryable: problem.isFinal || (isGivenUp && !isUnavailable(problem)),
    details: [failureOf(problem), problem.members],
  })
}

const STARTS = ['callFunction', 'startSubflow']

type Role = 'service' | 'workspace_admin'

const openForCall = privilege('activities.calls')
const openForCode = privilege('activities.code')
const openRecords = privilege('activities.records')
const openTenant = privilege('activities.tenants')

/** Opens scopes for the workflow that called an activity. */
export class Scopes {
  readonly #access: Access

  constructor(access: Access) {
    this.#access = access
  }

  /** The scope of the tenant as a whole. */
  admin({ ref, workflowId, ids }: ActivityContext): AdminScope {
    return openTenant(this.#access, ref.tenantId, workflowId, ids)
  }

  /** The scope of the workflow's workspace, for work that a suspension stops. @throws Suspended */
  active(call: ActivityContext, role: Role): Promise<WorkspaceScope> {
    return openForCall(this.#access, workspaceOf(call), actorOf(call, role), call.ids)
  }

  /**
   * As {@link active}, for a call of a tool: executions that it starts are one deeper in the chain than this one, and have the
   * same starter, so that four-eyes approvals in them exclude that principal, too.
   */
  toolCaller(call: ActivityContext, starter: string | undefined): Promise<WorkspaceScope> {
    const { workflowId: subject, chainDepth } = call
    const actor = { subject, role: 'workspace_admin', chainDepth } as const
    const onBehalfOf = starter === undefined ? {} : { onBehalfOf: starter }
    return openForCall(this.#access, workspaceOf(call), { ...actor, ...onBehalfOf }, call.ids)
  }

  /** As {@link active}, for what a trigger starts. @throws Suspended */
  trigger(call: ActivityContext, triggerId: string): Promise<WorkspaceScope> {
    return openForCall(this.#access, workspaceOf(call), triggerActor(triggerId), call.ids)
  }

  /**
   * As {@link active}, for code of a function. Its ids are new at each call: a repeated attempt runs other code paths, and ids
   * carry the time of their creation.
   */
  openActorScope(call: ActivityContext, actor: ActorIn<DataRole>): Promise<WorkspaceScope> {
    return openForCode(this.#access, workspaceOf(call), actor)
  }

  /**
   * The scope of a workspace in any state: for reading, and for recording what was done.
   * @param ref the workflow's own workspace by default, or another of its tenant
   */
  workspace(call: ActivityContext, role: Role, ref: WorkspaceRef = workspaceOf(call)): WorkspaceScope {
    return openRecords(this.#access, ref, { subject: call.workflowId, role }, call.ids)
  }
}

/** The workflow as an actor, in the role that its call needs. */
function actorOf({ workflowId, chainDepth }: ActivityContext, role: Role): ActorIn<Role> {
  return { subject: workflowId, role, ...(chainDepth > 0 && { chainDepth }) }
}
