/** Every activity: the contract, implemented by operations of the product in a scope of the calling run. */

import { LIMITS } from '../core/limits.ts'
import type { Actor } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { WorkspaceId } from '../core/tenant.ts'
import type { Json } from '../core/work.ts'
import type { Platform } from '../platform/platform.ts'
import type { WorkspaceScope } from '../platform/scope.ts'
import { recordRun } from '../resources/flows/projection.ts'
import { beginSubflow } from '../resources/flows/subflows.ts'
import { admitTrigger } from '../resources/flows/triggers/admission.ts'
import { register } from '../resources/flows/triggers/registration.ts'
import { failProvisioning, provisionStep } from '../resources/provisioning.ts'
import { buildIndex, type Hands, indexFailed } from '../resources/schemas/building.ts'
import { egressAllowed, egressAllowedNow } from '../resources/services.ts'
import { changeStanding } from '../resources/suspension.ts'
import { goingAhead } from './ahead.ts'
import { BriefCalls } from './brief-calls.ts'
import { callFunction } from './call-function.ts'
import type { Activities, FunctionCall } from './contract.ts'
import { type Call, workspaceOf } from './door.ts'
import { beating } from './heartbeat.ts'
import type { Way } from './http-auth.ts'
import { Tokens } from './http-auth-tokens.ts'
import { hidingTokens, sendHttp, withDocumentSecrets } from './http-secrets.ts'
import { type Lent, lentTo, refuseSecrets, secretly, withValues } from './lending.ts'
import { Line } from './line.ts'
import { Documents } from './openapi-document.ts'
import { planOpenApi } from './openapi-plan.ts'
import { runFunction } from './run-function.ts'
import { type Reach, tellRuns, turnStorage } from './suspension.ts'

/** The contract as it is implemented: the door adds the call. */
export type Implementation = {
  [Name in keyof Activities]: (
    call: Call,
    ...input: Parameters<Activities[Name]>
  ) => ReturnType<Activities[Name]>
}

export function createActivities(platform: Platform): Implementation {
  const { access } = platform
  const admin = (call: Call) => access.continueAdmin(call.ref.tenantId, call.workflowId, call.ids)
  const active = (call: Call, role: 'service' | 'workspace_admin'): Promise<WorkspaceScope> =>
    access.continueActive(workspaceOf(call), actorOf(call, role), call.ids)
  const record = (call: Call): WorkspaceScope =>
    access.continueWorkspace(
      workspaceOf(call),
      { subject: call.workflowId, role: 'workspace_admin' },
      call.ids,
    )
  const hands = (call: Call): Hands => {
    const actor = { subject: call.workflowId, role: 'service' } as const
    const inside = access.continueWorkspace(workspaceOf(call), actor, call.ids)
    return { admin: admin(call), inside, builder: platform.builder }
  }
  const reach = (call: Call): Reach => {
    const actor = { subject: call.workflowId, role: 'workspace_admin' } as const
    const { tenantId } = call.ref
    const within = (workspaceId: WorkspaceId) =>
      access.continueWorkspace({ tenantId, workspaceId }, actor, call.ids)
    return { admin: admin(call), within }
  }
  const tokens = new Tokens()
  const documents = new Documents()
  const way = async (call: Call, timeoutMs?: number): Promise<Way> => {
    const scope = await active(call, 'workspace_admin')
    const allowed = await egressAllowed(scope)
    const sender = { allowed, allowedNow: () => egressAllowedNow(scope), owner: ownerOf(call) }
    return { line: new Line(platform.egress, sender, timeoutMs), tokens, run: call.workflowId }
  }
  const http = async (call: Call, request: FunctionCall, timeoutMs?: number): Promise<Json> => {
    const work = async (lent?: Lent) => sendHttp(request.arguments, await way(call, timeoutMs), lent?.secrecy)
    return bounded(await secretly(record(call), lentTo(call, request), work))
  }
  const brief = new BriefCalls()
  return {
    changeStanding: async (call, input) => {
      await changeStanding(admin(call), input)
      admin(call).forgetStanding(call.ref.tenantId)
    },
    tellRuns: (call, target, whom) => beating(tellRuns(reach(call), target, whom)),
    turnStorage: (call, target) => beating(turnStorage(reach(call), target)),
    provisionStep: (call, input, step) => provisionStep(admin(call), input, step),
    provisionFailed: (call, input, detail) => failProvisioning(admin(call), input, detail),
    buildIndex: (call, input, name) => beating(buildIndex(hands(call), input, name)),
    indexFailed: (call, input, name, failure) => indexFailed(hands(call), input, name, failure),
    callFunction: async (call, request) => {
      const work = async (lent?: Lent) => callFunction(await active(call, 'service'), request, lent)
      return bounded(await secretly(record(call), lentTo(call, request), work))
    },
    beginSubflow: async (call, request) => {
      refuseSecrets(request.arguments)
      return bounded(await beginSubflow(await active(call, 'workspace_admin'), request.arguments))
    },
    admitTrigger: async (call, input) => admitTrigger(await active(call, 'workspace_admin'), input),
    registerTriggers: (call, input) => register(record(call), input),
    callHttp: (call, request) => http(call, request),
    tryHttp: (call, first) =>
      goingAhead(first, (request) => brief.attempt(call.ref, request, (ms) => http(call, request, ms))),
    planOpenApi: async (call, request) => {
      const whose = ownerOf(call)
      const read = await way(call, LIMITS.openApi.timeoutMs)
      const work = async (lent?: Lent) => {
        const { arguments: given } = request
        if (lent === undefined) return planOpenApi(given, whose, documents, read)
        const hiding = hidingTokens(read, lent.secrecy)
        return planOpenApi(withDocumentSecrets(given, lent.secrecy), whose, documents, hiding)
      }
      return bounded(await secretly(record(call), lentTo(call, request), work))
    },
    runFunction: (call, input) => {
      const open = () => active(call, 'service')
      const work = (lent?: Lent) => runFunction(platform.functions, open, withValues(input, lent))
      return beating(secretly(record(call), input.secrets, work)) as Promise<Json>
    },
    recordRun: (call, update) => recordRun(record(call), update),
  }
}

/** What an operation gave, as JSON. @throws Problem where Temporal would not carry it */
function bounded(output: unknown): Json {
  const bytes = Buffer.byteLength(JSON.stringify(output) ?? '')
  if (bytes > LIMITS.stepOutputBytesMax) {
    throw new Problem('output_too_large', {
      detail: `It has ${bytes} bytes; ${LIMITS.stepOutputBytesMax} are carried.`,
    })
  }
  return output as Json
}

/** A run, in the role that its call needs. */
function actorOf({ workflowId, hops }: Call, role: 'service' | 'workspace_admin'): Actor {
  return { subject: workflowId, role, ...(hops > 0 && { hops }) }
}

function ownerOf(call: Call): string {
  const { tenantId, workspaceId } = workspaceOf(call)
  return `${tenantId}:${workspaceId}`
}
