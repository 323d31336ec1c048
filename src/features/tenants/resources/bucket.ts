/** The bucket of a workspace. */

import type { AdminScope } from '../../../access/scope.ts'
import { bucketsOf } from '../../../access/scope-services.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import type { Difference, Resource } from './resource.ts'

export const BUCKET: Resource = {
  name: 'bucket',
  of: 'workspace',
  /** The row comes before the bucket: from then on, a bucket of that name that nobody's tag names is the workspace's own. */
  apply: async (scope, { tenantId, workspaceId }) => {
    const bucket = await readBucket(scope, workspaceId)
    if (bucket === null) throw new Problem('bucket_required')
    if (!(await hasBucket(scope, workspaceId))) {
      await bucketsOf(scope).requireFree(bucket, workspaceId)
      await scope.batch(sql`
        insert into buckets (tenant_id, workspace_id, name) values (${tenantId}, ${workspaceId}, ${bucket})
        on conflict do nothing`)
    }
    await bucketsOf(scope).make(bucket, workspaceId)
  },
  plan: async (scope, { workspaceId }) => {
    const bucket = await readBucket(scope, workspaceId)
    if (bucket === null) return []
    const state = await bucketsOf(scope).readState(bucket, workspaceId)
    return state === 'own' ? [] : [differenceOf(bucket, state)]
  },
  /**
   * Only of a workspace that is not in use, and only without objects, which a purge removes before (purge/owned.ts): an attempt that hangs
   * may go on after another one has completed the creation.
   */
  remove: async (scope, { workspaceId }) => {
    const gone = sql`id = ${workspaceId} and state in ('provisioning_failed', 'deleting')`
    const row = await scope.row<{ bucket: string | null }>(sql`select bucket from workspaces where ${gone}`)
    if (row === undefined) return
    if (row.bucket !== null && (await hasBucket(scope, workspaceId)))
      await bucketsOf(scope).remove(row.bucket, workspaceId)
    await scope.batch(sql`delete from buckets where workspace_id = (select id from workspaces where ${gone})`)
  },
}

/** A bucket that is made again would be empty, and hide the loss; one that belongs to another is not touched. */
const differenceOf = (name: string, kind: 'missing' | 'foreign'): Difference => ({
  ...{ resource: 'bucket', name, kind, isRepaired: false },
  detail:
    kind === 'missing'
      ? `The object store has no bucket ${name}: requests for its objects fail. Restore the bucket from a backup.`
      : `The tag of the bucket ${name} does not name the workspace, so a purge would leave the bucket. Find out who changed it.`,
})

/** True once the creation has begun to make the bucket. */
async function hasBucket(scope: AdminScope, workspaceId: string): Promise<boolean> {
  return (await scope.row(sql`select from buckets where workspace_id = ${workspaceId}`)) !== undefined
}

async function readBucket(scope: AdminScope, workspaceId: string): Promise<string | null> {
  const statement = sql`select bucket from workspaces where id = ${workspaceId}`
  return (await findRow<{ bucket: string | null }>(scope, 'workspace', statement)).bucket
}
