/** Delivers events and document changes to executions that wait for them: one consumer for each workspace with subscriptions. */

import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Entry, StreamGap } from '../../../infra/valkey/streams.ts'
import { STREAMS } from '../../events/events.ts'
import type { ConsumerKind, ConsumerState, Consumption } from '../../runs/triggers/stream-consumer.ts'

/**
 * Delivers entries of one of a workspace's streams.
 * @param gap entries before these that were dropped undelivered
 * @returns for how many milliseconds it kept the thread busy
 */
export type EventDelivery = (
  ref: WorkspaceRef,
  entries: readonly Entry[],
  gap: StreamGap | undefined,
) => Promise<number>

export function subscriptionConsumers(deliver: EventDelivery): ConsumerKind {
  return {
    kind: 'workspace',
    list: (system) =>
      system.rows(sql`
        select o.workspace_id as id, '' as revision from subscription_offsets o
        where exists (select from event_subscriptions s
          where s.tenant_id = o.tenant_id and s.workspace_id = o.workspace_id and s.active)
        order by o.workspace_id`),
    open: (id) => consumptionOf(id, deliver),
  }
}

function consumptionOf(workspaceId: string, deliver: EventDelivery): Consumption<ConsumerState> {
  return {
    load: (system) => findOffsets(system, workspaceId),
    handle: async (state, entries, gap) => ({ state, busyMs: await deliver(state.ref, entries, gap) }),
    store: storeOffsets,
  }
}

async function findOffsets(system: SystemScope, id: string): Promise<ConsumerState | undefined> {
  const row = await system.row<{
    tenant_id: TenantId
    workspace_id: WorkspaceId
    events_offset: string
    changes_offset: string
  }>(sql`
    select tenant_id, workspace_id, events_offset, changes_offset from subscription_offsets where workspace_id = ${id}`)
  if (row === undefined) return undefined
  const { tenant_id: tenantId, workspace_id: workspaceId, ...offsets } = row
  return { ...offsets, ref: { tenantId, workspaceId }, streams: STREAMS }
}

/** @returns false if a new subscription has moved the offsets, since there were no others */
async function storeOffsets(
  system: SystemScope,
  before: ConsumerState,
  after: ConsumerState,
): Promise<boolean> {
  const stored = await system.row(sql`
    update subscription_offsets set events_offset = ${after.events_offset}, changes_offset = ${after.changes_offset}
    where tenant_id = ${before.ref.tenantId} and workspace_id = ${before.ref.workspaceId}
      and events_offset = ${before.events_offset} and changes_offset = ${before.changes_offset}
    returning workspace_id`)
  return stored !== undefined
}
