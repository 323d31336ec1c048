/**
 * Calls a function of the catalogue for an execution: the same operation as the API, with the same schema. The ids of the scope are
 * seeded (decision 4), so a repeated call creates nothing twice; calls whose effect depends on what they find share a claim.
 */

import { createHash } from 'node:crypto'
import { runAudited } from '../../access/audit/audited-run.ts'
import { withClaim } from '../../access/derived-scopes.ts'
import type { Claim, Idempotency } from '../../access/idempotency.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { canonical } from '../../core/json.ts'
import { type AnyOperation, replyOf } from '../../core/operation.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import { findCallable, isOnce, storesArguments } from '../../features/data-operations.ts'
import { publishEvent } from '../../features/events/events-api.ts'
import { invokeFunction, invokeWithSecrets } from '../../features/functions/invoke.ts'
import { currentTrace } from '../../infra/trace-context.ts'
import type { FunctionCall } from '../contract.ts'
import { type InjectedSecrets, rejectStoredSecrets } from './call-secrets.ts'

/**
 * Runs the operation and audits it. The scope has the role of a service key, so a flow can do no more than one.
 * @throws Problem as the operation does; `not_found` if the catalogue has no function of that name
 */
export async function callFunction(
  scope: WorkspaceScope,
  { function: name, arguments: given }: FunctionCall,
  {
    idempotency,
    injected,
  }: { readonly idempotency: Idempotency; readonly injected?: InjectedSecrets | undefined },
): Promise<unknown> {
  const operation = findCallable(name)
  if (operation === undefined) throw notFound('function')
  const by = { kind: 'run', requestId: currentTrace()?.requestId ?? null } as const
  const run = (inside: WorkspaceScope) => {
    if (injected === undefined) return runAudited(operation, inside, given, by)
    const called = withSecrets(operation, given, injected)
    return runAudited(called.operation, inside, called.args, { ...by, redactedArgs: withoutHandles(given) })
  }
  if (!isOnce(operation, given)) return run(scope)
  return callOnce(scope, { operation, args: given, run }, idempotency)
}

/** A call of an operation. */
interface Call {
  readonly operation: AnyOperation
  readonly args: Readonly<Record<string, unknown>>
  readonly run: (inside: WorkspaceScope) => Promise<unknown>
}

/**
 * Makes the effect of a call once for all attempts of its activity, as for the repetitions of a request under one idempotency key.
 * @throws Problem as the operation does; `overloaded` while an earlier attempt may still run
 */
export async function callOnce(
  scope: WorkspaceScope,
  { operation, args, run }: Call,
  idempotency: Idempotency,
): Promise<unknown> {
  // The first id of the scope is the same at each attempt of the activity, and in no other one.
  const id = sha256(`call/${operation.name}/${scope.uuid()}`)
  const claimed = await idempotency.claim(scope, { id, request: sha256(canonical(args)) }).catch(retried)
  if ('body' in claimed) return JSON.parse(claimed.body)
  if ('output' in claimed) return replyOf(operation, claimed.output)
  const output = await run(withClaim(scope, claimed)).catch((error: unknown) => abandon(claimed, error))
  await claimed.store({ status: 200, headers: {}, body: JSON.stringify(output ?? null) })
  return output
}

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** A failure of the client would end the call; the lease of an attempt whose process has ended is over in some seconds. */
function retried(error: unknown): never {
  if (!(error instanceof Problem) || error.code !== 'idempotency_in_flight') throw error
  throw new Problem('overloaded', { detail: 'An earlier attempt of the call may still run.', cause: error })
}

/** Lets the next attempt begin at once. @throws the error, also if the database is away */
async function abandon(claim: Claim, error: unknown): Promise<never> {
  const isFinal = error instanceof Problem && error.isFinal
  await (isFinal ? claim.forget() : claim.release()).catch(() => {})
  throw error
}

/**
 * Passes a secret only to operations that do not show it to others: rejects arguments that would be stored, replaces secrets
 * in events by `***`, and lets a function's own invocation resolve its handles.
 * @throws ApplicationFailure (configuration) if a document or an object would contain a secret
 */
function withSecrets(
  operation: AnyOperation,
  given: FunctionCall['arguments'],
  { redactor: secrecy, secrets }: InjectedSecrets,
): { operation: AnyOperation; args: FunctionCall['arguments'] } {
  if (storesArguments(operation)) rejectStoredSecrets(operation, given)
  if (operation === publishEvent) return { operation, args: withoutHandles(given) }
  // The record of an asynchronous run keeps its input.
  if (operation === invokeFunction && given['respond_async'] === true) {
    rejectStoredSecrets(operation, given)
    return { operation, args: given }
  }
  if (operation === invokeFunction)
    return { operation: invokeWithSecrets(secrets), args: secrecy.allowHandles(given) }
  return { operation, args: secrecy.resolveHandles(given) }
}
