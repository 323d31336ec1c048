/** Which collections there are: those that are declared, and those that somebody has written to. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { READERS } from '../../core/policy.ts'
import { documentsOf } from '../../platform/capabilities.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { anonSettings } from '../anon.ts'
import { Id, Input, inWorkspace } from '../kinds.ts'
import { IndexShown } from '../schemas/indexes.ts'
import { Mode, Store } from '../schemas/shape.ts'
import { CollectionName } from './fields.ts'

const Listed = Type.Object({
  name: CollectionName,
  store: Type.Optional(Store),
  declared: Type.Optional(
    Type.Boolean({
      description: 'If not, it is there because it has documents. Anon keys are shown names alone.',
    }),
  ),
  mode: Type.Optional(Mode),
  schema_id: Type.Optional(Id('sch')),
  indexes: Type.Optional(Type.Array(IndexShown)),
})
type Listed = Static<typeof Listed>

export const listCollections = inWorkspace({
  name: 'collections.list',
  summary: 'List collections by name: what is declared, and what has documents',
  roles: READERS,
  input: Input(PageInput),
  output: PageOf(Listed),
  http: { method: 'GET', path: '/v1/collections' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const isAnon = scope.actor.role === 'anon'
    const rows = await scope.rows<{ id: string; listed: Listed }>(sql`
      with recursive ${await undeclared(scope, after, limit)}
      select name as id, listed from (
        select collection as name, jsonb_build_object('name', collection, 'store', store, 'declared', true,
          'mode', mode, 'schema_id', id, 'indexes',
          (select coalesce(jsonb_agg(i - 'columns' - 'reason' order by n), '[]')
            from jsonb_array_elements(indexes) with ordinality as e (i, n))) as listed
        from schemas where collection > ${after} and (not ${isAnon}::boolean or coalesce(anon_reads, tenon.anon_workspace() is not null))
        union all
        select name, jsonb_build_object('name', name, 'store', 'document', 'declared', false)
        from undeclared where not exists (select from schemas where collection = name)) as collections
      order by name limit ${limit}`)
    const { data, page } = pageFrom(input, rows)
    return { data: data.map(({ listed }) => (isAnon ? { name: listed.name } : listed)), page }
  },
})

/**
 * Names after `after` as a table expression `undeclared`. In PostgreSQL one step of the index for each name, however
 * many documents it has; no declared name is among them there.
 */
async function undeclared(scope: WorkspaceScope, after: string, limit: number): Promise<Sql> {
  const documents = documentsOf(scope)
  if (documents !== undefined) {
    // Their names are not in the database, so no policy leaves them out.
    const isClosed = scope.actor.role === 'anon' && (await anonSettings(scope)).collections === 'none'
    const names = JSON.stringify(isClosed ? [] : await documents.names(after))
    return sql`undeclared as (select jsonb_array_elements_text(${names}::jsonb) as name)`
  }
  const next = (behind: Sql) => sql`
    (select collection from documents where collection > ${behind} order by collection limit 1)`
  return sql`names as (
      select ${next(sql`${after}`)} as name
      union all
      select ${next(sql`names.name`)} from names where name is not null),
    undeclared as (select name from names where name is not null limit ${limit})`
}
