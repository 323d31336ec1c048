/** All activities: the contract, implemented by operations in a scope of the calling workflow. */

import { invalidateState } from '../access/scope-cache.ts'
import type { Platform } from '../app/platform.ts'
import { LIMITS } from '../core/limits.ts'
import type { WorkspaceId } from '../core/tenant.ts'
import type { Json } from '../core/work.ts'
import {
  buildIndex,
  type IndexBuildContext,
  indexFailed,
} from '../features/collections/schemas/index-build.ts'
import { reacquireSlot, yieldSlot } from '../features/flows/executions/concurrency.ts'
import { recordRun } from '../features/flows/executions/record.ts'
import { startSubflow } from '../features/flows/executions/start-execution.ts'
import { admitSchedule } from '../features/flows/triggers/trigger-starts.ts'
import { syncTriggers } from '../features/flows/triggers/trigger-store.ts'
import { failProvisioning, provisionStep } from '../features/tenants/jobs.ts'
import { changeState } from '../features/tenants/suspension.ts'
import type { Activities } from './contract.ts'
import { callFunction } from './flow/call-function.ts'
import { type Lent, lentTo, refuseSecrets, secretly, withValues } from './flow/secret-redactor.ts'
import { runFunction } from './function/run-function.ts'
import { Documents } from './http/openapi-document.ts'
import { planOpenApi } from './http/openapi-request.ts'
import { hidingTokens, withDocumentSecrets } from './http/request-secrets.ts'
import { ownerOf, type Requests } from './http/requests.ts'
import { beating, bounded } from './limit-output.ts'
import { type Reach, tellRuns, turnStorage } from './tenant/suspension.ts'
import type { Call, Scopes } from './tenant-interceptor.ts'

/** The contract as it is implemented: the door adds the call. */
export type Implementation = {
  [Name in keyof Activities]: (
    call: Call,
    ...input: Parameters<Activities[Name]>
  ) => ReturnType<Activities[Name]>
}

/** Who acts for the runs of a worker. */
export interface Means {
  readonly scopes: Scopes
  readonly requests: Requests
}

export function createActivities(platform: Platform, means: Means): Implementation {
  const { scopes, requests } = means
  const record = (call: Call) => scopes.within(call, 'workspace_admin')
  const hands = (call: Call): IndexBuildContext => ({
    admin: scopes.admin(call),
    workspace: scopes.within(call, 'service'),
    builder: platform.builder,
  })
  const reach = (call: Call): Reach => {
    const { tenantId } = call.ref
    const within = (workspaceId: WorkspaceId) =>
      scopes.within(call, 'workspace_admin', { tenantId, workspaceId })
    return { admin: scopes.admin(call), within }
  }
  const documents = new Documents()
  return {
    changeStanding: async (call, input) => {
      const admin = scopes.admin(call)
      await changeState(admin, input)
      invalidateState(admin, call.ref.tenantId)
    },
    tellRuns: (call, target, whom) => beating(tellRuns(reach(call), target, whom)),
    turnStorage: (call, target) => beating(turnStorage(reach(call), target)),
    provisionStep: (call, input, step) => provisionStep(scopes.admin(call), input, step),
    provisionFailed: (call, input, detail) => failProvisioning(scopes.admin(call), input, detail),
    buildIndex: (call, input, name) => beating(buildIndex(hands(call), input, name)),
    indexFailed: (call, input, name, failure) => indexFailed(hands(call), input, name, failure),
    callFunction: async (call, request) => {
      const work = async (lent?: Lent) => callFunction(await scopes.active(call, 'service'), request, lent)
      return bounded(await secretly(record(call), lentTo(call, request), work))
    },
    beginSubflow: async (call, request) => {
      refuseSecrets(request.arguments)
      return bounded(await startSubflow(await scopes.active(call, 'workspace_admin'), request.arguments))
    },
    admitTrigger: async (call, input) => admitSchedule(await scopes.active(call, 'workspace_admin'), input),
    registerTriggers: (call, input) => syncTriggers(record(call), input),
    callHttp: (call, request) => requests.send(call, request),
    tryHttp: (call, request) => requests.brief(call, request),
    planOpenApi: async (call, request) => {
      const whose = ownerOf(call)
      const read = await requests.way(call, LIMITS.openApi.timeoutMs)
      const work = async (lent?: Lent) => {
        const { arguments: given } = request
        if (lent === undefined) return planOpenApi(given, whose, documents, read)
        const hiding = hidingTokens(read, lent.secrecy)
        return planOpenApi(withDocumentSecrets(given, lent.secrecy), whose, documents, hiding)
      }
      return bounded(await secretly(record(call), lentTo(call, request), work))
    },
    runFunction: (call, input) => {
      const open = () => scopes.active(call, 'service')
      const work = (lent?: Lent) => runFunction(platform.functions, open, withValues(input, lent))
      return beating(secretly(record(call), input.secrets, work)) as Promise<Json>
    },
    leavePlace: (call, place) => yieldSlot(record(call), place),
    wantPlace: (call, place) => reacquireSlot(record(call), place),
    recordRun: (call, update) => recordRun(record(call), update),
  }
}
