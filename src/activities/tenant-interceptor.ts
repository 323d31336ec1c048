/** Authenticates the arguments of activities, and opens scopes of the tenant that the workflow id names, and of no other. */

import { createHash } from 'node:crypto'
import { activityInfo, type Info } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import type { ActivityInboundCallsInterceptor, ActivityInterceptorsFactory } from '@temporalio/worker'
import type { Access } from '../access/access.ts'
import type { AdminScope, WorkspaceScope } from '../access/scope.ts'
import { Suspended } from '../access/tenant-states.ts'
import { type IdSource, seededIds } from '../core/ids.ts'
import type { Actor } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { refOf, type TenantRef, type WorkspaceRef } from '../core/tenant.ts'
import {
  authenticatedArguments,
  type FirstAttempt,
  type SuspendedFailure,
  UNAUTHENTICATED,
  UNAUTHENTICATED_MESSAGE,
} from '../core/work.ts'
import type { Log } from '../infra/log.ts'
import { chainDepthOf } from '../workflows/chain-depth-interceptor.ts'
import type { FunctionCall } from './contract.ts'

/** First argument of every activity: whose work it is, and ids that are the same at each attempt. */
export interface ActivityContext {
  readonly ref: TenantRef
  readonly workflowId: string
  readonly ids: IdSource
  /** How many runs began one by the event of another before this is done; 0 for none. */
  readonly chainDepth: number
}

/** @throws Problem `forbidden` where the work is that of a tenant */
export function workspaceOf({ ref }: Pick<ActivityContext, 'ref'>): WorkspaceRef {
  const { tenantId, workspaceId } = ref
  if (workspaceId === '-') throw new Problem('forbidden', { detail: 'This work belongs to no workspace.' })
  return { tenantId, workspaceId }
}

/** Puts the {@link ActivityContext} before the activity's own arguments, and turns Problems into failures. */
export function tenantInterceptor(log: Log): ActivityInterceptorsFactory {
  const inbound: ActivityInboundCallsInterceptor = {
    execute: async (input, next) => {
      const info = activityInfo()
      const args = argumentsOf(info, input.args)
      const begun = firstAttemptOf(info, args)
      try {
        const call = { ...contextOf(info, begun), chainDepth: chainDepthOf(input.headers) ?? 0 }
        return await next({ ...input, args: [call, ...args] })
      } catch (error) {
        throw error instanceof Suspended ? suspendedFailure(error, begun) : toFailure(error, info, log)
      }
    },
  }
  return () => ({ inbound })
}

/** Where the work began: with this attempt's activity, or with the one before it that was held. */
function firstAttemptOf(
  { activityType, activityId, scheduledTimestampMs }: Info,
  args: unknown[],
): FirstAttempt {
  const first = CALLS.includes(activityType) ? (args[0] as FunctionCall).first_attempt : undefined
  return first ?? { activity_id: activityId, at_ms: scheduledTimestampMs }
}

const CALLS = ['callFunction', 'callHttp', 'callHttpInline', 'planOpenApi', 'startSubflow']

/** Not to be tried again by itself: the run waits until it is resumed. */
function suspendedFailure({ code, message, seq }: Suspended, begun: FirstAttempt): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, 'held', { seq, code, begun } satisfies SuspendedFailure)
}

/** @throws ApplicationFailure if the platform has not made them for this activity of this workflow */
function argumentsOf({ activityType }: Info, args: readonly unknown[]): unknown[] {
  const meant = authenticatedArguments(`activity:${activityType}`, args)
  if (meant === undefined) throw unauthenticated()
  return meant
}

/** @throws ApplicationFailure if the activity belongs to no workflow of ours */
function contextOf(info: Info, begun: FirstAttempt): Omit<ActivityContext, 'chainDepth'> {
  const workflowId = info.workflowExecution?.workflowId ?? ''
  const ref = refOf(workflowId)
  if (ref === undefined) throw unauthenticated()
  return { ref, workflowId, ids: idsOf(info, workflowId, begun) }
}

const unauthenticated = () => ApplicationFailure.nonRetryable(UNAUTHENTICATED_MESSAGE, UNAUTHENTICATED)

/** Same workflow run, same activity: same ids. The time in them is when the work was first scheduled. */
function idsOf(info: Info, workflowId: string, begun: FirstAttempt): IdSource {
  const seed = `${workflowId}/${info.workflowExecution?.runId}/${begun.activity_id}`
  const random = (n: number) => createHash('sha256').update(`${seed}/${n}`).digest().subarray(0, 16)
  return seededIds(begun.at_ms, random, begun.order)
}

/** What is final is not asked again; the rest is. */
function toFailure(error: unknown, info: Info, log: Log): unknown {
  if (error instanceof ApplicationFailure) return error
  const problem = error instanceof Problem ? error : new Problem('internal', { cause: error })
  const context = {
    activity: info.activityType,
    workflow: info.workflowExecution?.workflowId,
    attempt: info.attempt,
  }
  // What somebody's code does wrong is told to its owner.
  if (problem.status >= 500 && !problem.row.final)
    log.warn({ err: problem.cause ?? problem, ...context }, 'activity')
  return ApplicationFailure.create({
    message: problem.message,
    type: problem.code,
    nonRetryable: problem.isFinal,
    details: [failureOf(problem), problem.members],
  })
}

const SPEC = 'https://serverlessworkflow.io/spec/1.0.0/errors'
const TYPES: Readonly<Record<number, string>> = {
  400: 'validation',
  401: 'authentication',
  403: 'authorization',
  408: 'timeout',
  504: 'timeout',
  503: 'communication',
}

/** What went wrong between us and somebody else's server. */
const OUTSIDE: ReadonlySet<string> = new Set(['upstream_invalid', 'upstream_unavailable'])

/** The error as a flow sees it (OWS, "Standard error types"). */
function failureOf(problem: Problem) {
  const { code, row } = problem
  const { status, title } = row
  const name = OUTSIDE.has(code)
    ? 'communication'
    : (TYPES[status] ?? (status < 500 ? 'validation' : 'runtime'))
  return { type: `${SPEC}/${name}`, status, title, detail: `${code}: ${problem.message}` }
}

type Role = 'service' | 'workspace_admin'

export class Scopes {
  readonly #access: Access

  constructor(access: Access) {
    this.#access = access
  }

  /** The tenant as a whole. */
  admin({ ref, workflowId, ids }: ActivityContext): AdminScope {
    return this.#access.continueAdmin(ref.tenantId, workflowId, ids)
  }

  /** The workspace of the work, for what may go on only while that is not suspended. @throws Suspended */
  active(call: ActivityContext, role: Role): Promise<WorkspaceScope> {
    return this.#access.continueActive(workspaceOf(call), actorOf(call, role), call.ids)
  }

  /** A workspace as it stands, its own if no other of its tenant is named: to read, and to write down what was done. */
  workspace(call: ActivityContext, role: Role, ref: WorkspaceRef = workspaceOf(call)): WorkspaceScope {
    return this.#access.continueWorkspace(ref, { subject: call.workflowId, role }, call.ids)
  }
}

/** A run, in the role that its call needs. */
function actorOf({ workflowId, chainDepth: hops }: ActivityContext, role: Role): Actor {
  return { subject: workflowId, role, ...(hops > 0 && { chainDepth: hops }) }
}
