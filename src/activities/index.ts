/** Implements all activities of the contract by operations in a scope of the calling workflow. */

import { cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { MCP } from '../../flows-dsl/tasks/call-mcp.ts'
import { invalidateState } from '../access/scope-cache.ts'
import type { Platform } from '../app/platform.ts'
import type { WorkspaceId } from '../core/tenant.ts'
import type { Json } from '../core/work.ts'
import { endAsFailed } from '../features/collections/bulk/bulk-change.ts'
import {
  type BulkScopes,
  changeDocuments,
  QueryTooSlow,
} from '../features/collections/bulk/change-documents.ts'
import {
  buildIndex,
  type IndexBuildContext,
  indexFailed,
} from '../features/collections/schemas/index-build.ts'
import { openCallback } from '../features/flows/executions/callbacks.ts'
import { EXECUTION } from '../features/flows/executions/concurrency.ts'
import { recordExecution } from '../features/flows/executions/record.ts'
import { startSubflow } from '../features/flows/executions/start-execution.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { subscribeEvents } from '../features/flows/subscriptions/subscriptions.ts'
import { failRun, type RunFailure } from '../features/functions/runs/record-run.ts'
import { actorFor } from '../features/runs/caller.ts'
import { reacquireSlot, yieldSlot } from '../features/runs/slots.ts'
import { placeOf, syncSchedules } from '../features/runs/triggers/trigger-store.ts'
import { failProvisioning, provisionStep } from '../features/tenants/provisioning.ts'
import { changeState } from '../features/tenants/suspension.ts'
import { inThread } from '../features/threads/run-in-thread.ts'
import { failureOf } from './call-failure.ts'
import { untilCancelled } from './cancellation.ts'
import { callFunction } from './flow/call-function.ts'
import { callMcpTool } from './flow/call-mcp-tool.ts'
import {
  type InjectedSecrets,
  rejectSecrets,
  secretNamesOf,
  withCallSecrets,
  withSecretValues,
} from './flow/call-secrets.ts'
import { CodeCache } from './function/code-cache.ts'
import { type FunctionRunServices, runFunction, runFunctionInline } from './function/run-function.ts'
import { type HttpRequests, ownerOf, rejectFinally } from './http/http-requests.ts'
import { type DocumentReader, Documents } from './http/openapi-document.ts'
import { planOpenApi } from './http/openapi-request.ts'
import { redactingTokens, withDocumentSecrets } from './http/request-secrets.ts'
import { limitOutput, withHeartbeat } from './limit-output.ts'
import { measureFunctionRuns, recordWait } from './run-metrics.ts'
import { type SuspensionContext, signalExecutions } from './tenant/suspension.ts'
import type { ActivityContext, Implementation, Scopes } from './tenant-interceptor.ts'

/** Services that the activities of a worker share. */
export interface ActivityServices {
  readonly scopes: Scopes
  readonly requests: HttpRequests
}

export function createActivities(platform: Platform, { scopes, requests }: ActivityServices): Implementation {
  const record = (call: ActivityContext) => scopes.workspace(call, 'workspace_admin')
  const indexBuildContext = (call: ActivityContext): IndexBuildContext => ({
    admin: scopes.admin(call),
    workspace: scopes.workspace(call, 'service'),
    builder: platform.builder,
  })
  const suspensionContext = (call: ActivityContext): SuspensionContext => {
    const { tenantId } = call.ref
    const within = (workspaceId: WorkspaceId) =>
      scopes.workspace(call, 'workspace_admin', { tenantId, workspaceId })
    return { admin: scopes.admin(call), within }
  }
  const functionServices = functionRuns(platform, scopes)
  return {
    changeState: async (call, input) => {
      const admin = scopes.admin(call)
      await changeState(admin, input)
      invalidateState(admin, call.ref.tenantId)
    },
    signalExecutions: (call, target, which) =>
      withHeartbeat(signalExecutions(suspensionContext(call), target, which)),
    provisionStep: (call, input, step) => {
      const attempt = { ...call, signal: cancellationSignal() }
      return withHeartbeat(provisionStep(scopes.admin(call), input, step, attempt))
    },
    provisionFailed: (call, input, failures) => failProvisioning(scopes.admin(call), call, input, failures),
    buildIndex: (call, input, name) => withHeartbeat(buildIndex(indexBuildContext(call), input, name)),
    indexFailed: (call, input, name, failure) => indexFailed(indexBuildContext(call), input, name, failure),
    changeDocuments: (call, { bulk_id }) =>
      withHeartbeat(changeDocuments(bulkScopes(call, scopes), bulk_id).catch(endIfTooSlow)),
    failBulkChange: async (call, { bulk_id }, failure) => {
      await record(call).batch(endAsFailed(bulk_id, failure))
    },
    callFunction: async (call, request) => {
      const work = async (injected?: InjectedSecrets) =>
        request.function === MCP
          ? callMcpTool(await scopes.toolCaller(call, request.started_by), request, call.attempt)
          : callFunction(await scopes.active(call, 'service'), request, {
              idempotency: platform.idempotency,
              injected,
            })
      const output = () => withCallSecrets(record(call), secretNamesOf(call, request), work)
      // Only invocations and tools last long enough for heartbeats, and for a cancellation.
      const isLong = request.function === 'function.invoke' || request.function === MCP
      return limitOutput(await (isLong ? withHeartbeat(untilCancelled(request, output)) : output()))
    },
    startSubflow: async (call, request) => {
      rejectSecrets(request.arguments)
      return limitOutput(await startSubflow(await scopes.active(call, 'workspace_admin'), request.arguments))
    },
    openCallback: async (call, { arguments: request }) =>
      openCallback(await scopes.active(call, 'workspace_admin'), call.workflowId, request),
    startScheduled: async (call, input) =>
      platform.triggers.startScheduled(await scopes.trigger(call, input.trigger_id), input),
    registerTriggers: (call, input) =>
      syncSchedules(placeOf(record(call)), platform.triggers.targetOf(input.target), input),
    callHttp: (call, request) => withHeartbeat(requests.send(call, request)),
    callHttpInline: (call, request) => requests.sendInline(call, request),
    planOpenApi: openApiPlanner({ scopes, requests }),
    ...measureFunctionRuns(platform.metrics, {
      runFunction: (call, input) => {
        const work = (injected?: InjectedSecrets) =>
          runFunction(functionServices(call), withSecretValues(input, injected), injected?.redactor)
        return withHeartbeat(withCallSecrets(record(call), input.secrets, work)) as Promise<Json>
      },
      runFunctionInline: (call, input) => {
        const work = (injected?: InjectedSecrets) =>
          runFunctionInline(functionServices(call), withSecretValues(input, injected), injected?.redactor)
        return withCallSecrets(record(call), input.secrets, work) as Promise<{ result: Json } | null>
      },
    }),
    failFunctionRun: async (call, { run_id }, error) => {
      const { usage, ...shown } = error as unknown as RunFailure
      return failRun(record(call), run_id, shown, usage)
    },
    yieldSlot: (call, { execution_id: runId, generation }) =>
      yieldSlot(record(call), EXECUTION, { runId, generation }),
    reacquireSlot: (call, { execution_id: runId, generation, at_once: atOnce }) =>
      reacquireSlot(record(call), EXECUTION, { runId, generation, atOnce }),
    subscribeEvents: (call, input) => subscribeEvents(record(call), call.workflowId, input),
    recordExecution: (call, update) => recordExecution(record(call), update),
  }
}

const bulkScopes = (call: ActivityContext, scopes: Scopes): BulkScopes => ({
  record: scopes.workspace(call, 'workspace_admin'),
  open: (caller, chainDepth) => scopes.openActorScope(call, actorFor({ ...call, chainDepth }, caller)),
})

/** A slow query is tried a few times; another attempt of the activity would only try it again. */
function endIfTooSlow(error: unknown): never {
  if (!(error instanceof QueryTooSlow)) throw error
  throw ApplicationFailure.nonRetryable(error.message, error.code, failureOf(error))
}

/** Plans calls of OpenAPI operations. The calls of a worker share the documents that it has read. */
function openApiPlanner({ scopes, requests }: ActivityServices): Implementation['planOpenApi'] {
  const documents = new Documents()
  return async (call, request) => {
    const admin = scopes.workspace(call, 'workspace_admin')
    const reader: DocumentReader = {
      workspace: ownerOf(call),
      yamlInThread: (yaml, cpuMs) => inThread(admin, 'yamlToJson', yaml, cpuMs),
    }
    const clients = await requests.clientsFor(call, request, { timeoutMs: FLOW_LIMITS.openApi.timeoutMs })
    const work = async (injected?: InjectedSecrets) => {
      const { arguments: given } = request
      if (injected === undefined) return planOpenApi(given, reader, documents, clients)
      const redacting = redactingTokens(clients, injected.redactor)
      return planOpenApi(withDocumentSecrets(given, injected.redactor), reader, documents, redacting)
    }
    const names = secretNamesOf(call, request)
    return limitOutput(await withHeartbeat(withCallSecrets(admin, names, work).catch(rejectFinally)))
  }
}

/** The services of each run of a function; the runs of a worker share the code that they have read. */
function functionRuns(
  { functions, metrics }: Platform,
  scopes: Scopes,
): (call: ActivityContext) => FunctionRunServices {
  const code = new CodeCache()
  return (call) => ({
    call,
    code,
    functions,
    onBegin: (runId) => recordWait(metrics, 'function_run', runId),
    record: scopes.workspace(call, 'workspace_admin'),
    active: () => scopes.active(call, 'service'),
    openActorScope: (actor) => scopes.openActorScope(call, actor),
  })
}
