/** Deletes documents that have expired, some of each collection at a time. */

import { sql } from '../../../infra/postgres/sql.ts'
import { repeatFor } from '../../../infra/retry.ts'
import {
  type BackgroundTask,
  refOf,
  type TaskContext,
  type TurnRow,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { withCollection } from '../resolve-store.ts'

const { collectionsMax, pauseSeconds, documentsMax, servedMs } = COLLECTION_LIMITS.expiry

/** The items are names of collections. In a suspended workspace, documents stay, and are not found. */
export function expiredDocuments(): BackgroundTask<string> {
  return {
    name: 'expired documents',
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: collectionsMax,
    find: async (system, limit) => {
      const rows = await system.rows<TurnRow & { readonly collection: string }>(dueCollections(limit))
      return rows.map((row) => ({ ref: refOf(row), item: row.collection }))
    },
    run: async (context, collection) => {
      if (context.isActive) await removeExpired(context, collection)
    },
  }
}

/** The collections that wait longest. Each is due again after a pause. */
const dueCollections = (limit: number) => sql`
  with due as (
    select id from schemas where expiry_due_at <= now() order by expiry_due_at limit ${limit} for no key update skip locked
  )
  update schemas s set expiry_due_at = now() + make_interval(secs => ${pauseSeconds}::integer)
  from due where s.id = due.id
  returning s.tenant_id, s.workspace_id, s.collection`

/** Goes on for a while if there are many; the rest is deleted in the next round. */
async function removeExpired({ scope, service }: TaskContext, name: string): Promise<void> {
  let kept = 0
  await repeatFor(servedMs, async () => {
    const done = await withCollection(service, name, ['delete'], (collection, inside) =>
      collection.store.removeExpired(inside, collection, documentsMax),
    )
    kept = done.kept
    return done.removed === documentsMax
  })
  await scope.batch(
    sql`update schemas set expired_kept = ${kept} where collection = ${name} and expired_kept <> ${kept}`,
  )
}
