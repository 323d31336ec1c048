/** The schedules of a workspace's triggers in Temporal. */

import type { AdminScope } from '../../../access/scope.ts'
import { uuidOf } from '../../../core/ids.ts'
import type { TenantRef, WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { placeIn, syncSchedules, type TriggerPlace } from '../../runs/triggers/trigger-store.ts'
import { TRIGGER_TARGETS } from '../../trigger-targets.ts'
import type { Comparable, Difference } from './resource.ts'

interface Row {
  readonly id: string
  readonly target_kind: string
  readonly target_id: string
  readonly paused: boolean
}

export const SCHEDULES: Comparable = {
  name: 'schedule',
  of: 'workspace',
  plan: async (scope, ref) => (await findDifferent(placeOf(scope, ref))).map(differenceOf),
  apply: async (scope, ref) => {
    const place = placeOf(scope, ref)
    const different = await findDifferent(place)
    for (const { id, row } of different)
      if (row === undefined) await place.workflows.schedules.removeListed(id)
      else await syncSchedules(place, targetOf(row), { target: idOf(row), before: [] })
  },
}

const placeOf = (scope: AdminScope, ref: TenantRef): TriggerPlace => placeIn(scope, ref as WorkspaceRef)

const idOf = ({ target_kind: kind, target_id: id }: Row) => ({ kind, id })

/** @throws Error for a kind that is not in the list of targets */
function targetOf({ target_kind }: Row) {
  const target = TRIGGER_TARGETS.find(({ kind }) => kind === target_kind)
  if (target === undefined) throw new Error(`No target of triggers is a ${target_kind}`)
  return target
}

/** A schedule that is not as its row says; without a row: one that is left over. */
interface Different {
  readonly id: string
  readonly kind: 'missing' | 'altered' | 'left_over'
  readonly row?: Row
}

/**
 * The index is read before the rows: what it shows has a row by then, unless the row is gone. It is some moments behind, so Temporal is asked
 * again for each that seems to differ. Of a schedule that was changed by hand, only a pause is seen.
 */
async function findDifferent({ scope, ref, workflows }: TriggerPlace): Promise<Different[]> {
  const { schedules } = workflows
  const listed = await schedules.list()
  const rows = await scope.rows<Row>(sql`
    select id, target_kind, target_id, paused from triggers
    where tenant_id = ${ref.tenantId} and workspace_id = ${ref.workspaceId} and kind = 'schedule'`)
  const found: Different[] = []
  const known = new Set<string>()
  for (const row of rows) {
    const id = schedules.idOf(row.target_id, uuidOf(row.id))
    known.add(id)
    if (listed.get(id) === row.paused) continue
    const status = await schedules.status(row.target_id, uuidOf(row.id))
    if (status === undefined) found.push({ id, kind: 'missing', row })
    else if (status.paused !== row.paused) found.push({ id, kind: 'altered', row })
  }
  for (const id of listed.keys())
    if (!known.has(id) && (await schedules.exists(id))) found.push({ id, kind: 'left_over' })
  return found
}

const DETAILS = {
  missing: 'Temporal does not have the schedule, so its trigger starts nothing.',
  altered: 'The schedule was paused or resumed in Temporal, otherwise than its trigger.',
  left_over: 'Temporal has a schedule whose trigger is gone.',
} as const

const differenceOf = ({ id, kind, row }: Different): Difference => ({
  ...{ resource: 'schedule', name: row?.id ?? id, kind },
  ...{ detail: DETAILS[kind], isRepaired: true },
})
