/** Finds searches that read documents one by one, since the database lacks the operators of the platform (0012-search.sql). */

import type { StatementExecutor } from './database.ts'
import { sql } from './sql.ts'
import { SystemScope } from './system-scope.ts'

/** The statement that a superuser of the database runs once, if the migration ran as another role. */
export const MAKE_OPERATORS = 'call tenon.make_search_operators()'

/**
 * @returns `isMissing`: PostgreSQL lacks operators by which row-level security lets searches use their indexes (0012-search.sql); `collections`:
 *   how many declare an index that is not used for that reason
 * @throws Problem `dependency_unavailable` or `overloaded`
 */
export async function findSlowSearches(
  database: StatementExecutor,
): Promise<{ readonly isMissing: boolean; readonly collections: number }> {
  const system = new SystemScope('search', database)
  const [missing = [], [slow] = []] = await system.batch(
    sql`select name from unnest(array['words_ops', 'json_ops']
        || case when to_regtype('public.gtrgm') is null then '{}' else array['patterns_ops'] end) as wanted (name)
      where not exists (select from pg_opclass c where c.opcname = name and c.opcnamespace = 'tenon'::regnamespace)`,
    sql`select count(*)::integer as n from schemas where jsonb_path_exists(indexes,
      '$[*] ? (@.kind == "text" || @.kind == "array") ? (!exists(@.leakproof))')`,
  )
  return { isMissing: missing.length > 0, collections: Number(slow?.['n']) }
}
