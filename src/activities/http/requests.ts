/** Sends HTTP requests of executions under the egress rules of their workspace, with the secrets of their flow. */

import type { Json } from '../../core/work.ts'
import { egressAllowed, egressAllowedNow } from '../../features/tenants/workspace-settings.ts'
import type { Egress } from '../../infra/http-client/egress.ts'

import type { FunctionCall, InlineResult } from '../contract.ts'
import { type LentCallSecrets, secretNamesOf, withCallSecrets } from '../flow/secret-redactor.ts'
import { limitOutput } from '../limit-output.ts'
import { type ActivityContext, type Scopes, workspaceOf } from '../tenant-interceptor.ts'
import type { CallClients } from './authentication.ts'
import { CallHttpClient } from './call-http-client.ts'
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
  async clientsFor(call: ActivityContext, timeoutMs?: number): Promise<CallClients> {
    const scope = await this.#scopes.active(call, 'workspace_admin')
    const allowed = await egressAllowed(scope)
    const sender = { allowed, allowedNow: () => egressAllowedNow(scope), owner: ownerOf(call) }
    return {
      http: new CallHttpClient(this.#egress, sender, timeoutMs),
      tokens: this.#tokens,
      workflowId: call.workflowId,
    }
  }

  /** Sends one request with the arguments of `call: http`. @throws Problem, ApplicationFailure as {@link callHttp} does */
  async send(call: ActivityContext, request: FunctionCall, timeoutMs?: number): Promise<Json> {
    const work = async (lent?: LentCallSecrets) =>
      sendHttp(request.arguments, await this.clientsFor(call, timeoutMs), lent?.secrecy)
    const record = this.#scopes.workspace(call, 'workspace_admin')
    return limitOutput(await withCallSecrets(record, secretNamesOf(call, request), work))
  }

  /** Sends the request with the short timeout of inline calls; see {@link InlineCalls.attempt}. */
  sendInline(call: ActivityContext, request: FunctionCall): Promise<InlineResult | null> {
    return this.#inline.attempt(call.ref, request, (timeoutMs) => this.send(call, request, timeoutMs))
  }
}

/** The owner of cached connections and documents: the workspace of the call. */
export function ownerOf(call: ActivityContext): string {
  const { tenantId, workspaceId } = workspaceOf(call)
  return `${tenantId}:${workspaceId}`
}
