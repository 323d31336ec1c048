/** Sends HTTP requests of executions: within the egress rules of their workspace, with the secrets of the execution. */

import type { Json } from '../../core/work.ts'
import { egressAllowed, egressAllowedNow } from '../../features/tenants/workspace-settings.ts'
import type { Egress } from '../../infra/http-client/egress.ts'

import type { FunctionCall, Tried } from '../contract.ts'
import { type Lent, lentTo, secretly } from '../flow/secret-redactor.ts'
import { bounded } from '../limit-output.ts'
import { type Call, type Scopes, workspaceOf } from '../tenant-interceptor.ts'
import type { Way } from './authentication.ts'
import { Line } from './call-http-client.ts'
import { BriefCalls } from './inline-calls.ts'
import { Tokens } from './oauth-tokens.ts'
import { sendHttp } from './request-secrets.ts'

export class Requests {
  readonly #scopes: Scopes
  readonly #egress: Egress
  readonly #tokens = new Tokens()
  readonly #brief = new BriefCalls()

  constructor(scopes: Scopes, egress: Egress) {
    this.#scopes = scopes
    this.#egress = egress
  }

  /** @throws Suspended where the workspace of the run stands still */
  async way(call: Call, timeoutMs?: number): Promise<Way> {
    const scope = await this.#scopes.active(call, 'workspace_admin')
    const allowed = await egressAllowed(scope)
    const sender = { allowed, allowedNow: () => egressAllowedNow(scope), owner: ownerOf(call) }
    return { line: new Line(this.#egress, sender, timeoutMs), tokens: this.#tokens, run: call.workflowId }
  }

  /** The arguments of `call: http`, as one request. @throws Problem, ApplicationFailure where it has no answer that counts */
  async send(call: Call, request: FunctionCall, timeoutMs?: number): Promise<Json> {
    const work = async (lent?: Lent) =>
      sendHttp(request.arguments, await this.way(call, timeoutMs), lent?.secrecy)
    const record = this.#scopes.within(call, 'workspace_admin')
    return bounded(await secretly(record, lentTo(call, request), work))
  }

  /** The same where it is over in a moment; see {@link BriefCalls.attempt}. */
  brief(call: Call, request: FunctionCall): Promise<Tried | null> {
    return this.#brief.attempt(call.ref, request, (timeoutMs) => this.send(call, request, timeoutMs))
  }
}

/** Whose connections those are that a request goes over. */
export function ownerOf(call: Call): string {
  const { tenantId, workspaceId } = workspaceOf(call)
  return `${tenantId}:${workspaceId}`
}
