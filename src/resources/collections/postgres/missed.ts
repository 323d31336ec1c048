/** Asks, after documents were not found, if what is remembered of their collection is out of date. */

import { sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Collection } from '../store.ts'

/** What is remembered of a collection is out of date. */
export class DeclaredMeanwhile extends Error {}

/**
 * Asks if one of them is declared that was taken for undeclared, or closed to anon keys that was taken for open. A table
 * that is gone says so by itself, and so does the trigger of what is written; but what is read where nothing can be would
 * be an empty success.
 * @throws DeclaredMeanwhile
 */
export async function refuseDeclared(
  scope: WorkspaceScope,
  collections: readonly Collection[],
): Promise<void> {
  const names = collections.filter(({ declared }) => declared === undefined).map(({ name }) => name)
  const mayBeClosed =
    scope.actor.role === 'anon' && collections.some(({ declared }) => declared?.anon.read === undefined)
  if (names.length === 0 && !mayBeClosed) return
  const found = await scope.rows(sql`
    select from schemas where collection in (select jsonb_array_elements_text(${JSON.stringify(names)}::jsonb))
    union all select where ${mayBeClosed}::boolean and tenon.anon_workspace() is null limit 1`)
  if (found.length > 0) throw new DeclaredMeanwhile()
}
