/** Opens the scopes of what workers do outside workflows and activities: event triggers, events for executions, background tasks. */

import type { Access } from '../../access/access.ts'
import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import type { TaskContext } from '../../features/background/background-task.ts'
import { deliverEvents } from '../../features/flows/subscriptions/deliver-events.ts'
import type { EventDelivery } from '../../features/flows/subscriptions/subscription-consumers.ts'
import type { EventTriggerServices } from '../../features/runs/triggers/event-consumers.ts'

const openActive = privilege('background.starts')
const openWorkspace = privilege('background.tasks')
const openTenant = privilege('background.tenants')

/** @returns a function that opens the scope of a trigger, whose workspace must be active */
export const createTriggerScopes =
  (access: Access): EventTriggerServices['openScope'] =>
  (ref, actor) =>
    openActive(access, ref, actor)

/** @returns a function that delivers events to the executions of a workspace; a suspended execution keeps them */
export function createDelivery(access: Access): EventDelivery {
  return (ref, entries, gap) => deliverEvents(openWorkspace(access, ref, CONSUMER), entries, gap)
}

const CONSUMER = { subject: 'tenon:events', role: 'workspace_admin' } as const
const ACTOR = { subject: 'tenon:reconciler', role: 'workspace_admin' } as const

/** @returns a function that opens the context of background tasks in a workspace, whatever its state */
export function createTaskContexts(access: Access): (ref: WorkspaceRef) => Promise<TaskContext> {
  return async (ref) => ({
    scope: openWorkspace(access, ref, ACTOR),
    service: openWorkspace(access, ref, { ...ACTOR, role: 'service' }),
    isActive: await openActive(access, ref, ACTOR).then(() => true, rethrowUnlessRefused),
  })
}

function rethrowUnlessRefused(error: unknown): false {
  if (error instanceof Problem && error.status < 500) return false
  throw error
}

/** @returns a function that opens the structure of a tenant, for the start of purges */
export const createTenantScopes =
  (access: Access) =>
  (tenantId: TenantId): AdminScope =>
    openTenant(access, tenantId, ACTOR.subject)
