/** Lends the secrets of a run to one activity of it, and keeps them out of what it answers and fails with. */

import type { WorkspaceScope } from '../../access/scope.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { handlesIn, holdsHandle } from '../../core/secret-handle.ts'
import type { FunctionRunInput, LentSecrets } from '../../core/work.ts'
import { callFailure } from '../call-failure.ts'
import type { FunctionCall } from '../contract.ts'
import type { Call } from '../tenant-interceptor.ts'
import { Secrecy } from './secret-redactor.ts'

export interface Lent {
  readonly secrets: LentSecrets
  readonly secrecy: Secrecy
}

/** What a call of the run may use; undefined where its flow declares no secrets. */
export function lentTo({ workflowId }: Call, { secrets }: FunctionCall): LentSecrets | undefined {
  return secrets && { run: workflowId, names: secrets }
}

/**
 * Does the work with the values as they are now.
 * @param scope of the run's own workspace, with the rights of an admin
 */
export async function secretly(
  scope: WorkspaceScope,
  secrets: LentSecrets | undefined,
  work: (lent?: Lent) => Promise<unknown>,
): Promise<unknown> {
  if (secrets === undefined) return work()
  const secrecy = await Secrecy.open(scope, secrets)
  try {
    return secrecy.shown(await work({ secrets, secrecy }))
  } catch (error) {
    throw secrecy.failure(error)
  }
}

/** The run of a function with the values in its input. */
export function withValues(run: FunctionRunInput, lent: Lent | undefined): FunctionRunInput {
  return lent === undefined ? run : { ...run, input: lent.secrecy.resolved(run.input) }
}

/** @throws ApplicationFailure (configuration) where a flow would be begun with a secret: in its run it stands for nothing */
export function refuseSecrets(given: FunctionCall['arguments']): void {
  if (!holdsHandle(given)) return
  const detail = 'A secret cannot be given to another flow; that flow declares it in its own `use.secrets`.'
  throw callFailure('configuration', detail)
}

/** @throws ApplicationFailure (configuration) if there is a secret in what the operation would store */
export function refuseStored({ name }: AnyOperation, given: FunctionCall['arguments']): void {
  const [secret] = handlesIn(given)
  if (secret === undefined) return
  const detail = `\`${name}\` would store the secret \`${secret}\`, and others read what it stores. Leave the secret out; a call to another server or a function may be given it.`
  throw callFailure('configuration', detail)
}
