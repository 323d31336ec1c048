/** Finds roles of the platform that can bypass row-level security, and tables that do not force it. */

import type { StatementExecutor } from './database.ts'
import { sql } from './sql.ts'
import { SystemScope } from './system-scope.ts'

/** @returns a sentence for each fault that says what to do @throws Problem `dependency_unavailable` or `overloaded` */
export async function findIsolationFaults(database: StatementExecutor): Promise<string[]> {
  const system = new SystemScope('isolation', database)
  const [roles = [], tables = []] = await system.batch(
    sql`select rolname, rolsuper from pg_roles
      where pg_has_role(session_user, oid, 'member') and (rolsuper or rolbypassrls) order by 1`,
    sql`select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('tenon', 'tenon_data') and c.relkind in ('r', 'p')
        and not (c.relrowsecurity and c.relforcerowsecurity) order by 1`,
  )
  return [
    ...roles.map(({ rolname, rolsuper }) => {
      const attribute = rolsuper ? 'SUPERUSER' : 'BYPASSRLS'
      return `The role ${rolname} has ${attribute}, so tenants could see each other's rows. Run \`alter role ${rolname} no${attribute.toLowerCase()}\`, or use the login that \`tenon migrate\` has made.`
    }),
    ...tables.map(
      ({ name }) =>
        `The table ${name} does not force row-level security, so tenants could see each other's rows. Run \`alter table ${name} enable row level security, force row level security\`.`,
    ),
  ]
}
