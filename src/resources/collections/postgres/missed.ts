/** Documents that were not found in what was remembered as undeclared: they may stand in a table of their own by now. */

import { sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Collection } from '../store.ts'

/** What is remembered of a collection is out of date. */
export class DeclaredMeanwhile extends Error {}

/**
 * Asks whether one of them is declared, where it was taken for undeclared. A table that is gone says so by itself, and so
 * does the trigger of what is written; but what is read where nothing can be would be an empty success.
 * @throws DeclaredMeanwhile
 */
export async function refuseDeclared(
  scope: WorkspaceScope,
  collections: readonly Collection[],
): Promise<void> {
  const names = collections.filter(({ declared }) => declared === undefined).map(({ name }) => name)
  if (names.length === 0) return
  const found = await scope.rows(sql`
    select collection from schemas
    where collection in (select jsonb_array_elements_text(${JSON.stringify(names)}::jsonb)) limit 1`)
  if (found.length > 0) throw new DeclaredMeanwhile()
}
