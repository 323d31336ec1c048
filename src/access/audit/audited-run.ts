/** Runs an operation for tools and executions, and writes its audit entry. */

import { runWithJson } from '../../core/bytes.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId } from '../../core/tenant.ts'
import { type Look, revealedIn } from '../payload-access.ts'
import type { AdminScope, WorkspaceScope } from '../scope.ts'
import type { Audit } from './audit.ts'
import { type AuditActor, type AuditEvent, type AuditOwner, digestOf } from './entry.ts'

/** Frequent operations. Of a start, the row of the execution or run also says who requested it, and when; of a tool, the log of calls. */
const FREQUENT =
  /^((collection|batch|event|webhook)\.|(execution\.create|function\.invoke|mcp_source\.call)$)/

/** True if the reply does not wait until the entry is in the log. */
export const auditsAsync = ({ name }: Pick<AnyOperation, 'name'>): boolean => FREQUENT.test(name)

/** The caller of an operation in its audit entry. */
export interface AuditCaller {
  readonly kind: AuditActor['kind']
  readonly requestId: string | null
  /** The arguments for the log, if the original ones hold secrets of the workspace. */
  readonly redactedArgs?: Readonly<Record<string, unknown>>
  /** Further ids, by name. */
  readonly detail?: Readonly<Record<string, string>>
}

/**
 * {@link runWithJson} with an audit entry: also of a failure, for an operation that changes something, and for a read that shows payloads by the
 * right to see them.
 * @throws what the operation throws
 */
export async function runAudited(
  operation: AnyOperation,
  scope: AdminScope | WorkspaceScope,
  args: Readonly<Record<string, unknown>>,
  { kind, requestId, redactedArgs = args, detail }: AuditCaller,
): Promise<unknown> {
  const { audit, actor } = scope
  const isAsync = auditsAsync(operation)
  if (!operation.reads && !isAsync) audit.refuseUnlessReady()
  const common = {
    requestId,
    actor: { ...actor, kind },
    operation: operation.name,
    target: targetOf(operation, redactedArgs),
    before: null,
    ...(detail !== undefined && { detail }),
  }
  let look: Look | undefined
  // The note is on the output itself, of which the caller may get another form.
  const noting: AnyOperation = {
    ...operation,
    run: async (...of) => {
      const result = await operation.run(...of)
      look = revealedIn(result)
      return result
    },
  }
  const output = await runWithJson(noting, scope, args).catch(async (error: unknown) => {
    if (!operation.reads) recordFailure(audit, { ...common, owner: await findOwner(scope, args) }, error)
    throw error
  })
  if (operation.reads && look === undefined) return output
  const owner = look?.ref.tenantId === undefined ? await findOwner(scope, recordOf(output)) : look.ref
  const event: AuditEvent = {
    ...{ ...common, owner, outcome: 'done', status: null, code: null },
    after: operation.reads ? null : digestOf(output),
    ...(operation.auditDetail !== undefined && {
      detail: { ...detail, ...operation.auditDetail(output, args) },
    }),
  }
  if (isAsync) audit.enqueue(event)
  else await audit.append(event)
  return output
}

/** Records a call that was refused or has failed. As for requests, refusals by a rate limit are only counted: they are many. */
export function recordFailure(
  audit: Audit,
  call: Omit<AuditEvent, 'outcome' | 'status' | 'code' | 'after'>,
  error: unknown,
): void {
  const { code, status } = error instanceof Problem ? error : new Problem('internal')
  const outcome = status === 401 || status === 403 || status === 429 ? 'denied' : 'failed'
  const event: AuditEvent = { ...call, outcome, status, code, after: null }
  if (status === 429) audit.countOnly(event)
  else audit.enqueueThrottled(event)
}

/** The record that an output is, or the first of a list. */
function recordOf(output: unknown): unknown {
  const { data } = Object(output) as { readonly data?: unknown }
  return Array.isArray(data) ? data[0] : output
}

/** Tenant and workspace of the scope, or those that a record names, within the bounds of an admin. */
async function findOwner(scope: AdminScope | WorkspaceScope, record: unknown): Promise<AuditOwner> {
  if ('ref' in scope) return scope.ref
  const { tenant_id: tenantId, workspace_id } = Object(record) as Record<string, unknown>
  const workspaceId = scope.workspaceId ?? (isWorkspaceId(workspace_id) ? workspace_id : undefined)
  if (scope.tenantId !== undefined) return { tenantId: scope.tenantId, workspaceId }
  return scope.audit.findOwner({ ...(isTenantId(tenantId) && { tenantId }), workspaceId })
}

/** The path of the same operation on HTTP. */
export function targetOf({ http }: AnyOperation, args: Readonly<Record<string, unknown>>): string {
  return http.path.replaceAll(/\{(\w+)\*?\}/g, (_all, name: string) => String(args[name] ?? '-'))
}
