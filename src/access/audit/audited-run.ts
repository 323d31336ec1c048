/** Runs an operation for tools and executions, and writes its audit entry. */

import { runWithJson } from '../../core/bytes.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../scope.ts'
import { type AuditActor, type AuditEvent, digestOf } from './entry.ts'

/** Frequent operations. Of a start, the row of the execution also says who requested it, and when. */
const FREQUENT = /^((collection|batch|event|webhook)\.|execution\.create$)/

/** True if the reply does not wait until the entry is in the log. */
export const auditsAsync = ({ name }: Pick<AnyOperation, 'name'>): boolean => FREQUENT.test(name)

/** The caller of an operation in its audit entry. */
export interface AuditCaller {
  readonly kind: AuditActor['kind']
  readonly requestId: string
  /** The arguments for the log, if the original ones hold secrets of the workspace. */
  readonly redactedArgs?: Readonly<Record<string, unknown>>
}

/**
 * {@link runWithJson} with an audit entry, also of a failure, for an operation that changes something.
 * @throws what the operation throws
 */
export async function runAudited(
  operation: AnyOperation,
  scope: WorkspaceScope,
  args: Readonly<Record<string, unknown>>,
  { kind, requestId, redactedArgs = args }: AuditCaller,
): Promise<unknown> {
  if (operation.reads) return runWithJson(operation, scope, args)
  const { audit, actor, ref } = scope
  const isAsync = auditsAsync(operation)
  if (!isAsync) audit.refuseUnlessReady()
  const common = {
    owner: ref,
    requestId,
    actor: { ...actor, kind },
    operation: operation.name,
    target: targetOf(operation, redactedArgs),
    before: null,
  }
  const output = await runWithJson(operation, scope, args).catch((error: unknown) => {
    const { code, status } = error instanceof Problem ? error : new Problem('internal')
    const outcome = status === 401 || status === 403 || status === 429 ? 'denied' : 'failed'
    const event: AuditEvent = { ...common, outcome, status, code, after: null }
    // As for requests: refusals by a rate limit are expected in large numbers.
    if (status === 429) audit.countOnly(event)
    else audit.enqueueThrottled(event)
    throw error
  })
  const event: AuditEvent = { ...common, outcome: 'done', status: null, code: null, after: digestOf(output) }
  if (isAsync) audit.enqueue(event)
  else await audit.append(event)
  return output
}

/** The path of the same operation on HTTP. */
function targetOf({ http }: AnyOperation, args: Readonly<Record<string, unknown>>): string {
  return http.path.replaceAll(/\{(\w+)\*?\}/g, (_all, name: string) => String(args[name] ?? '-'))
}
