/** Removals of all objects below a prefix that do not end within one request: operations that a worker carries on, page by page. */

import Type, { type Static } from 'typebox'
import { Id, Input, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { WRITERS_AND_USERS } from '../../core/policy.ts'
import { refusal } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { repeatFor } from '../../infra/retry.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  workspacePage,
  workspaceWith,
} from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import { findRow } from '../operation-helpers.ts'
import { Job } from '../tenants/jobs.ts'
import { below, removalOf } from './catalogue.ts'
import { OBJECT_LIMITS } from './limits.ts'

const { pollMs, itemsMax, workspacesSeenMax } = BACKGROUND_LIMITS

export const Removal = component(
  'ObjectRemoval',
  Type.Object({
    ...Job.properties,
    id: Id('del'),
    target: Type.String({ description: 'Bucket and prefix.' }),
    removed: Type.Integer({ description: 'Number of objects that were deleted so far.' }),
  }),
  {
    ...exampleOf(Job),
    id: EXAMPLE_ID.removal,
    type: 'object.remove_all',
    target: 'bookings-4z3v73kk0e00/old/',
    steps: [],
    removed: 2_400,
  },
)
export type Removal = Static<typeof Removal>

const COLUMNS = sql`id, tenant_id, 'object.remove_all' as type, bucket || '/' || prefix as target,
  case when finished_at is null then 'running' else 'succeeded' end as state, '[]'::json as steps, null as error, null as result,
  removed, created_at, finished_at`

export const getRemoval = workspaceOperation({
  name: 'object.get_removal',
  summary: 'Read how far the deletion of all objects below a prefix is',
  roles: WRITERS_AND_USERS,
  // A credential that may delete may read the outcome.
  scope: 'objects:write',
  input: Input({
    id: Type.String({ minLength: 1, maxLength: 200, description: 'Id of the operation, without `del_`.' }),
  }),
  output: Removal,
  http: { method: 'GET', path: '/v1/operations/del_{id}' },
  run: (scope, { id }) =>
    findRow<Removal>(
      scope,
      'operation',
      sql`select ${COLUMNS} from object_removals where id = ${`del_${id.replace(/^del_/, '')}`}`,
    ),
})

/** The objects that a removal is of: those that nobody has written since it was requested. */
const removable = (prefix: string, requestedAt: Sql): Sql =>
  sql`${below(prefix)} and modified_at <= ${requestedAt}`

/**
 * The statements that remove the objects below a prefix if they are few, and otherwise begin a removal. They belong into one batch.
 * @returns rows of the removal, if it begins; and of how many objects were removed
 */
export function removeBelow(scope: WorkspaceScope, bucket: string, prefix: string): readonly [Sql, Sql] {
  const id = scope.newId('del')
  const which = removable(prefix, sql`now()`)
  const begin = sql`insert into object_removals (id, bucket, prefix) select ${id}, ${bucket}, ${prefix}
    where exists (select from objects where ${which} limit 1 offset ${OBJECT_LIMITS.objectsRemovedMax}) returning ${COLUMNS}`
  const few = sql`${which} and not exists (select from object_removals where id = ${id})`
  return [begin, removalOf(bucket, few)]
}

/** The items are ids of removals. In a suspended workspace, they go on later. */
export function objectRemovals(): BackgroundTask<string> {
  return {
    name: 'removals of objects',
    pollMs,
    atOnce: itemsMax,
    find: findRoundRobin(openRemovals, (row) => row.id),
    run: async ({ service, isActive }, id) => {
      if (isActive) await carryOn(service, id)
    },
  }
}

/** The oldest open removals of the next workspaces, one of each. */
const openRemovals = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`object_removals where finished_at is null`), after, workspacesSeenMax)}, due as (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, id from object_removals
      where finished_at is null and workspace_id = seen.workspace_id order by id limit 1) r
    limit ${limit}
  )
  select due.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join due on true`

interface OpenRemoval {
  readonly bucket: string
  readonly prefix: string
}

/** Removes page after page, for a while: other removals and a change of the leader wait no longer. @param scope with the rights of a service key */
async function carryOn(scope: WorkspaceScope, id: string): Promise<void> {
  const open = await scope.row<OpenRemoval>(
    sql`select bucket, prefix from object_removals where id = ${id} and finished_at is null`,
  )
  if (open === undefined) return
  await repeatFor(OBJECT_LIMITS.removalMs, async () => !(await removePage(scope, id, open)))
}

/** One transaction: what a killed worker has removed is counted, and has its events. @returns true if nothing is left */
async function removePage(
  scope: WorkspaceScope,
  id: string,
  { bucket, prefix }: OpenRemoval,
): Promise<boolean> {
  const which = removable(prefix, sql`(select created_at from object_removals where id = ${id})`)
  const [, [row] = []] = await scope
    .batch(
      removalOf(
        bucket,
        which,
        sql`update object_removals set removed = removed + (select count(*) from changed) where id = ${id}`,
      ),
      sql`update object_removals set finished_at = now()
        where id = ${id} and not exists (select from objects where ${which}) returning id`,
    )
    .catch((error: unknown) => {
      // A writer has locked objects, or the quota, in another order.
      if (refusal(error) !== 'deadlock') throw error
      return []
    })
  return row !== undefined
}
