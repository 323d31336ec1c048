/** The triggers that events start, of all tenants: which there are, and how far each has heard. */

import type { TenantId, WorkspaceId } from '../../core/tenant.ts'
import { sql } from '../pg/sql.ts'
import type { SystemScope } from '../system.ts'

/** A trigger that is there, as it stands: where this is another text, it is to be read anew. */
export interface Standing {
  readonly id: string
  readonly standing: string
}

/** A trigger with all that is needed to hear for it. */
export interface WatchRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly version: number
  readonly paused: boolean
  readonly spec: unknown
  readonly events_after: string
  readonly changes_after: string
  readonly gathered: unknown
}

/** Between which points in time a stream has dropped events. */
export interface Gap {
  readonly fromMs: number
  readonly toMs: number
}

/** How far a trigger has heard, and what waits for others. */
export type Progress = Pick<WatchRow, 'events_after' | 'changes_after' | 'gathered'>

export class Watches {
  readonly #system: SystemScope

  constructor(system: SystemScope) {
    this.#system = system
  }

  list(): Promise<Standing[]> {
    return this.#system.rows<Standing>(
      sql`select id, version || ' ' || paused as standing from flow_triggers where kind = 'event' order by id`,
    )
  }

  find(id: string): Promise<WatchRow | undefined> {
    return this.#system.row<WatchRow>(sql`
      select t.tenant_id, t.workspace_id, t.id, t.version, t.paused, t.spec, w.events_after, w.changes_after, w.gathered
      from flow_triggers t join event_watches w
        on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id
      where t.id = ${id} and t.kind = 'event'`)
  }

  /**
   * @param gap what was dropped before it was heard: told of the time since the trigger is there, unless it is paused
   * @returns nothing where it was not kept: the trigger is gone, or of another version by now; that one may have moved the
   *   places while this waited for its lock, and its version is seen too late then
   */
  async keep(
    row: WatchRow,
    { events_after, changes_after, gathered }: Progress,
    gap: Gap | undefined,
  ): Promise<Pick<WatchRow, 'paused'> | undefined> {
    const missed =
      gap === undefined
        ? sql``
        : sql`, gap_from = case when t.paused then w.gap_from
            else greatest(to_timestamp(${gap.fromMs}::double precision / 1000), t.created_at) end,
          gap_to = case when t.paused then w.gap_to else to_timestamp(${gap.toMs}::double precision / 1000) end`
    return this.#system.row(sql`
      update event_watches w set events_after = ${events_after}, changes_after = ${changes_after},
        gathered = ${JSON.stringify(gathered)}::jsonb ${missed}
      from flow_triggers t
      where w.tenant_id = ${row.tenant_id} and w.workspace_id = ${row.workspace_id} and w.trigger_id = ${row.id}
        and t.tenant_id = w.tenant_id and t.workspace_id = w.workspace_id and t.id = w.trigger_id
        and t.version = ${row.version}
        and w.events_after = ${row.events_after} and w.changes_after = ${row.changes_after}
      returning t.paused`)
  }
}
