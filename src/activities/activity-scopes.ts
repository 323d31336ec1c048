/** Opens scopes for activities: of the tenant that the workflow id names, and of no other. */

import type { Access } from '../access/access.ts'
import type { AdminScope, WorkspaceScope } from '../access/scope.ts'
import type { Actor } from '../core/policy.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { type Call, workspaceOf } from './tenant-interceptor.ts'

type Role = 'service' | 'workspace_admin'

export class Scopes {
  readonly #access: Access

  constructor(access: Access) {
    this.#access = access
  }

  /** The tenant as a whole. */
  admin({ ref, workflowId, ids }: Call): AdminScope {
    return this.#access.continueAdmin(ref.tenantId, workflowId, ids)
  }

  /** The workspace of the work, for what may go on only while that is not suspended. @throws Suspended */
  active(call: Call, role: Role): Promise<WorkspaceScope> {
    return this.#access.continueActive(workspaceOf(call), actorOf(call, role), call.ids)
  }

  /** A workspace as it stands, its own if no other of its tenant is named: to read, and to write down what was done. */
  within(call: Call, role: Role, ref: WorkspaceRef = workspaceOf(call)): WorkspaceScope {
    return this.#access.continueWorkspace(ref, { subject: call.workflowId, role }, call.ids)
  }
}

/** A run, in the role that its call needs. */
function actorOf({ workflowId, hops }: Call, role: Role): Actor {
  return { subject: workflowId, role, ...(hops > 0 && { chainDepth: hops }) }
}
