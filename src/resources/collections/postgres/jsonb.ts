/** The store of undeclared collections in PostgreSQL: one table, the fields in one jsonb column. */

import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../platform/pg/sql.ts'
import type { Path } from '../grammar/filter.ts'
import type { Store, Stored } from '../store.ts'
import { type Column, type Columns, within } from './compile.ts'
import { listRows } from './list.ts'

const COLUMNS = sql`id, data as fields, version, created_at, updated_at`

export const OURS: Readonly<Record<string, Column>> = {
  id: { sql: sql`id`, type: 'uuid' },
  _created_at: { sql: sql`created_at`, type: 'timestamptz' },
  _updated_at: { sql: sql`updated_at`, type: 'timestamptz' },
  _version: { sql: sql`version`, type: 'bigint' },
}

const columns: Columns = (path: Path) => {
  const [name] = path
  const ours = path.length === 1 && Object.hasOwn(OURS, name) ? OURS[name] : undefined
  return ours ?? { sql: within(sql`data`, path), type: 'jsonb' }
}

export const jsonbStore: Store = {
  // The id of a retried activity is the same one: the conflict arm reads back what the first attempt stored.
  create: async (scope, { name }, id, { text }) => {
    const row = await scope.row<Stored>(sql`
      insert into documents (collection, id, data) values (${name}, ${id}, ${text})
      on conflict (tenant_id, workspace_id, collection, id) do update set id = excluded.id
      returning ${COLUMNS}`)
    if (row === undefined) throw new Problem('internal')
    return row
  },

  get: (scope, { name }, id) =>
    scope.row<Stored>(sql`select ${COLUMNS} from documents where collection = ${name} and id = ${id}`),

  list: (scope, { name }, query) =>
    listRows(scope, { name: sql`documents`, row: COLUMNS, columns, only: sql`collection = ${name}` }, query),

  update: async (scope, { name }, id, { text }, ifVersion) => {
    const version = ifVersion ?? null
    const [[row] = [], [current] = []] = await scope.batch(
      sql`update documents set
          data = data || ${text}::jsonb,
          version = case when ${text}::jsonb = '{}' then version else version + 1 end,
          updated_at = case when ${text}::jsonb = '{}' then updated_at else now() end
        where collection = ${name} and id = ${id} and (${version}::bigint is null or version = ${version})
          and octet_length((data || ${text}::jsonb)::text) <= ${LIMITS.documentBytesMax}
        returning ${COLUMNS}`,
      sql`select version, octet_length((data || ${text}::jsonb)::text) as bytes from documents
        where collection = ${name} and id = ${id}`,
    )
    if (row !== undefined) return { stored: row as unknown as Stored }
    if (current === undefined) return undefined
    const bytes = Number(current['bytes'])
    return bytes > LIMITS.documentBytesMax ? { bytes } : { staleAt: Number(current['version']) }
  },

  delete: async (scope, { name }, id) => {
    const row = await scope.row<{ id: string }>(
      sql`delete from documents where collection = ${name} and id = ${id} returning id`,
    )
    return row !== undefined
  },
}
