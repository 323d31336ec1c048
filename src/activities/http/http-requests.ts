/** Sends HTTP requests of executions under the egress rules of their workspace, with the secrets of their flow. */

import { createHash } from 'node:crypto'
import { ApplicationFailure } from '@temporalio/common'
import { runAudited } from '../../access/audit/audited-run.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { putObject } from '../../features/objects/objects.ts'
import { egressAllowed, egressAllowedNow } from '../../features/tenants/workspace-settings.ts'
import type { Egress } from '../../infra/http-client/egress.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { currentTrace } from '../../infra/trace-context.ts'
import { type Fields, failureOf } from '../call-failure.ts'
import { cancelRequestedSignal, rejectIfCancelled } from '../cancellation.ts'
import type { FunctionCall, InlineResult } from '../contract.ts'
import { type InjectedSecrets, secretNamesOf, withCallSecrets } from '../flow/call-secrets.ts'
import { limitOutput } from '../limit-output.ts'
import { type ActivityContext, type Scopes, workspaceOf } from '../tenant-interceptor.ts'
import type { CallClients } from './authentication.ts'
import { CallHttpClient, type CallHttpOptions } from './call-http-client.ts'
import { InlineCalls } from './inline-calls.ts'
import { Tokens } from './oauth-tokens.ts'
import { sendHttp } from './request-secrets.ts'

export class HttpRequests {
  readonly #scopes: Scopes
  readonly #egress: Egress
  readonly #tokens = new Tokens()
  readonly #inline = new InlineCalls()

  constructor(scopes: Scopes, egress: Egress) {
    this.#scopes = scopes
    this.#egress = egress
  }

  /** The clients for one call, with the workspace's egress rules. @throws Suspended if the workspace is suspended */
  async clientsFor(
    call: ActivityContext,
    request: FunctionCall,
    options: CallHttpOptions = {},
  ): Promise<CallClients> {
    const scope = await this.#scopes.active(call, 'workspace_admin')
    const allowed = await egressAllowed(scope)
    const sender = { allowed, allowedNow: () => egressAllowedNow(scope), owner: ownerOf(call) }
    const { call_path: path } = request
    return {
      http: new CallHttpClient(this.#egress, sender, { ...options, chainDepth: call.chainDepth }),
      tokens: this.#tokens,
      workflowId: call.workflowId,
      ...(path !== undefined && { idempotencyKey: idempotencyKey(call.workflowId, path) }),
    }
  }

  /**
   * Sends one request with the arguments of `call: http`, unless the call was cancelled. If it is cancelled later, the request is
   * ended, except one that finishes in any case.
   * @throws ApplicationFailure (final) without a response, and as {@link callHttp} does
   */
  async send(call: ActivityContext, request: FunctionCall): Promise<Json> {
    const { timeout_ms: timeoutMs = INFRA_LIMITS.httpCallTimeoutMs, finishes } = request
    const signal = cancelRequestedSignal()
    const beforeSend = () => rejectIfCancelled(signal)
    const options = { timeoutMs, beforeSend, ...(finishes !== true && { signal }) }
    // In the role of a service key, as other calls of the flow.
    const store = async (args: Fields) => storeObject(await this.#scopes.active(call, 'service'), args)
    return this.#send(call, request, options, { store }).catch(rejectFinally)
  }

  /** Sends the request with the short timeout of inline calls; see {@link InlineCalls.attempt}. */
  sendInline(call: ActivityContext, request: FunctionCall): Promise<InlineResult | null> {
    return this.#inline.attempt(call.ref, request, (timeoutMs) => this.#send(call, request, { timeoutMs }))
  }

  async #send(
    call: ActivityContext,
    request: FunctionCall,
    options: CallHttpOptions,
    storing: Pick<CallClients, 'store'> = {},
  ): Promise<Json> {
    const work = async (injected?: InjectedSecrets) =>
      sendHttp(
        request.arguments,
        { ...(await this.clientsFor(call, request, options)), ...storing },
        injected?.redactor,
      )
    const record = this.#scopes.workspace(call, 'workspace_admin')
    return limitOutput(await withCallSecrets(record, secretNamesOf(call, request), work))
  }
}

/** Stores an object for an execution, as `call: object.put` does. */
const storeObject = (scope: WorkspaceScope, args: Fields): Promise<unknown> =>
  runAudited(putObject, scope, args, { kind: 'run', requestId: currentTrace()?.requestId ?? null })

const UPSTREAM: ReadonlySet<string> = new Set([
  'upstream_unavailable',
  'upstream_timeout',
  'upstream_invalid',
])

/** Makes a failure of the other server final: only the flow decides if such a call is repeated (`retry`). */
export function rejectFinally(error: unknown): never {
  if (!(error instanceof Problem) || !UPSTREAM.has(error.code)) throw error
  throw ApplicationFailure.nonRetryable(error.message, error.code, failureOf(error))
}

/** A UUID derived from the step (version 8, RFC 9562 §5.8): the same for each attempt of a call within an execution. */
function idempotencyKey(workflowId: string, path: string): string {
  const bytes = createHash('sha256').update(`${workflowId} ${path}`).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** The owner of cached connections and documents: the workspace of the call. */
export function ownerOf(call: ActivityContext): string {
  const { tenantId, workspaceId } = workspaceOf(call)
  return `${tenantId}:${workspaceId}`
}
