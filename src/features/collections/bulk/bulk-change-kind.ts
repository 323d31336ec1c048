/** Bulk changes as a kind of runs (features/runs/run-kind.ts). They need no slots: a workspace has few at a time. */

import { durationMs } from '../../../core/units.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { RunEnd, RunKind } from '../../runs/run-kind.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { endAsFailed, OWNER, startBulkChange } from './bulk-change.ts'

export const BULK_CHANGES: RunKind = {
  name: 'bulk_change',
  plural: 'bulk changes',
  table: sql`bulk_changes`,
  owner: OWNER,
  workflowId: sql`null::text`,
  recordedAt: sql`r.created_at`,
  isPending: sql`(r.status = 'queued' and r.ended_at is null)`,
  isCancelRequested: sql`false`,
  // The caller was told that it will be made.
  unstarted: sql`'start'`,
  version: sql`r.matched`,
  isSuspended: sql`false`,
  recheckSeconds: COLLECTION_LIMITS.bulkRecheckSeconds,
  start: async (scope, id) => {
    await startBulkChange(scope, id)
    return true
  },
  removeExpired: async ({ scope }) => {
    const before = new Date(Date.now() - durationMs(COLLECTION_LIMITS.bulkChangesKept))
    const removed = await scope.rows(sql`
      delete from bulk_changes where ctid = any(array(
        select ctid from bulk_changes where ended_at < ${before} limit ${COLLECTION_LIMITS.bulkRemovedMax})) returning id`)
    return removed.length === COLLECTION_LIMITS.bulkRemovedMax
  },
  end: async (scope, id, end) => {
    await scope.batch(endAsFailed(id, { code: 'run_cut_off', detail: DETAILS[end] }))
  },
}

const STANDS = 'The documents that it has changed until then stay changed.'
const DETAILS: Readonly<Record<RunEnd, string>> = {
  completed: `Its workflow ended without a record. ${STANDS}`,
  faulted: `Its workflow failed without a record. ${STANDS}`,
  cancelled: `Its workflow was cancelled in Temporal. ${STANDS}`,
  terminated: `Its workflow was terminated in Temporal. ${STANDS}`,
  timed_out: `Its workflow has reached a time limit in Temporal. ${STANDS}`,
  lost: `Its workflow does not exist in Temporal. ${STANDS}`,
  lost_in_restore: `The installation was restored, and the restored Temporal does not know its workflow. ${STANDS}`,
  orphaned: `Its caller has ended. ${STANDS}`,
}
