/** Deletes documents that have expired, some of each collection at a time. */

import { LRUCache } from 'lru-cache'
import type { WorkspaceScope } from '../../../access/scope.ts'
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
import { expireCascading } from '../references/cascade.ts'
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
  const removeSome = () =>
    withCollection(service, name, ['delete'], (collection, inside) =>
      collection.store.removeExpired(inside, collection, documentsMax),
    )
  let kept = 0
  await repeatFor(servedMs, async () => {
    const done = await removeSome()
    kept = done.kept
    return done.removed === documentsMax
  })
  if (kept > 0 && (await removeReferred(service, name))) kept = (await removeSome()).kept
  await scope.batch(
    sql`update schemas set expired_kept = ${kept} where collection = ${name} and expired_kept <> ${kept}`,
  )
}

/** By collection, the id behind which this process looks next for expired documents that others refer to: some of them stay. */
const WALKED = new LRUCache<string, string>({ max: COLLECTION_LIMITS.expiry.walksMax })

/** Deletes expired documents together with those that refer to them, if their references say so. @returns true if there were some */
async function removeReferred(service: WorkspaceScope, name: string): Promise<boolean> {
  const { tenantId, workspaceId } = service.ref
  const walk = `${tenantId}/${workspaceId}/${name}`
  let removed = 0
  await repeatFor(servedMs, async () => {
    const done = await withCollection(service, name, ['delete'], (collection, inside) =>
      expireCascading(inside, collection, WALKED.get(walk) ?? FIRST),
    )
    removed += done?.removed ?? 0
    if (done !== undefined) WALKED.set(walk, done.last)
    else WALKED.delete(walk)
    // Those that are protected are not tried again and again: the next round goes on behind them.
    return done !== undefined && done.removed > 0
  })
  return removed > 0
}

const FIRST = '00000000-0000-0000-0000-000000000000'
