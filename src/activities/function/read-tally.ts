/** Reads of a run for the audit log: one entry for those that are alike, since a run may make many. */

import { type AuditCaller, recordFailure, targetOf } from '../../access/audit/audited-run.ts'
import type { AuditEvent } from '../../access/audit/entry.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { AnyOperation } from '../../core/operation.ts'

type Alike = Omit<AuditEvent, 'count'>

export class ReadTally {
  readonly #alike = new Map<
    string,
    { readonly event: Alike; readonly scope: WorkspaceScope; count: number }
  >()

  /** Counts a read, or records it at once if it was refused or has failed. */
  add(
    operation: AnyOperation,
    scope: WorkspaceScope,
    args: Readonly<Record<string, unknown>>,
    { kind, requestId, redactedArgs = args, detail }: AuditCaller,
    error?: unknown,
  ): void {
    const event = {
      requestId,
      owner: scope.ref,
      actor: { ...scope.actor, kind },
      operation: operation.name,
      // Of a collection or a bucket, without what is in it.
      target: targetOf(operation, { name: redactedArgs['name'], bucket: redactedArgs['bucket'] }),
      before: null,
      ...(detail !== undefined && { detail }),
    }
    if (error !== undefined) {
      recordFailure(scope.audit, event, error)
      return
    }
    const { name } = operation
    const key = `${name} ${event.target}`
    const known = this.#alike.get(key)
    if (known !== undefined) known.count += 1
    else {
      const done = { ...event, outcome: 'done', status: null, code: null, after: null } as const
      this.#alike.set(key, { event: done, scope, count: 1 })
    }
  }

  /** Queues the entries. */
  flush(): void {
    for (const { event, scope, count } of this.#alike.values()) scope.audit.enqueue({ ...event, count })
    this.#alike.clear()
  }
}
