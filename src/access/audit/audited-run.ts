/** Runs an operation for tools and executions, and writes its audit entry. */

import { runWithJson } from '../../core/bytes.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../scope.ts'
import { type AuditActor, type AuditEvent, digestOf } from './entry.ts'

/** First parts of the names of operations that are asked for by the thousand: their entries follow a moment later. */
const HURRIED = new Set(['collection', 'batch', 'event', 'webhook'])
/** Whole names of others; of a start, the execution's own row says who has asked for it, and when. */
const HURRIED_TOO = new Set(['execution.create'])

/** Whether the reply does not wait until the entry is in the log. */
export function auditsAsync({ name }: Pick<AnyOperation, 'name'>): boolean {
  return HURRIED.has(name.slice(0, name.indexOf('.'))) || HURRIED_TOO.has(name)
}

/** What the log is to say of who runs an operation. */
export interface AuditCaller {
  readonly kind: AuditActor['kind']
  readonly requestId: string
  /** The arguments as the log may show them, where they have secrets of the workspace in them. */
  readonly redactedArgs?: Readonly<Record<string, unknown>>
}

/**
 * {@link runWithJson} with an entry for what changes something, however it ends.
 * @throws what the operation throws
 */
export async function runAudited(
  operation: AnyOperation,
  scope: WorkspaceScope,
  args: Readonly<Record<string, unknown>>,
  { kind, requestId, redactedArgs: shown = args }: AuditCaller,
): Promise<unknown> {
  if (operation.reads) return runWithJson(operation, scope, args)
  const { audit, actor, ref } = scope
  if (!auditsAsync(operation)) audit.refuseUnlessReady()
  const known = {
    owner: ref,
    requestId,
    actor: { ...actor, kind },
    operation: operation.name,
    target: targetOf(operation, shown),
    before: null,
  }
  const output = await runWithJson(operation, scope, args).catch((error: unknown) => {
    audit.enqueueThrottled({ ...known, ...failureOf(error), after: null })
    throw error
  })
  const deed: AuditEvent = { ...known, outcome: 'done', status: null, code: null, after: digestOf(output) }
  if (auditsAsync(operation)) audit.enqueue(deed)
  else await audit.append(deed)
  return output
}

function failureOf(error: unknown): Pick<AuditEvent, 'outcome' | 'status' | 'code'> {
  const { code, status } = error instanceof Problem ? error : new Problem('internal')
  return { outcome: status === 401 || status === 403 ? 'denied' : 'failed', status, code }
}

/** The path at which the same operation lies on HTTP. */
function targetOf({ http }: AnyOperation, args: Readonly<Record<string, unknown>>): string {
  return http.path.replaceAll(/\{(\w+)\*?\}/g, (_all, name: string) => String(args[name] ?? '-'))
}
