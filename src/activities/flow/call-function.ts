/**
 * Calls a function of the catalogue for an execution: the same operation as the API, with the same schema. The ids of the scope are
 * seeded (decision 4), so a repeated call creates nothing twice.
 */

import { runAudited } from '../../access/audit/audited-run.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { notFound } from '../../core/problem.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import { findCallable, storesArguments } from '../../features/data-operations.ts'
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
  injected?: InjectedSecrets,
): Promise<unknown> {
  const operation = findCallable(name)
  if (operation === undefined) throw notFound('function')
  const by = { kind: 'run', requestId: currentTrace()?.requestId ?? null } as const
  if (injected === undefined) return runAudited(operation, scope, given, by)
  const called = withSecrets(operation, given, injected)
  return runAudited(called.operation, scope, called.args, { ...by, redactedArgs: withoutHandles(given) })
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
