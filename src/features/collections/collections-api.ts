/** The operation that lists the collections of a workspace. */

import Type, { type Static } from 'typebox'
import { Id, Input, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { DATA_ROLES } from '../../core/policy.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { readPublicAccess } from '../tenants/public-access.ts'
import { CollectionName } from './document.ts'
import { documentsOf } from './mongo/documents.ts'
import { IndexState, Mode, Store } from './schemas/api-types.ts'

const Listed = component(
  'Collection',
  Type.Object({
    name: CollectionName,
    store: Type.Optional(Store),
    declared: Type.Optional(
      Type.Boolean({
        description:
          'True if the collection is declared; otherwise it exists because it has documents. Absent for anon keys and users, who see names only.',
      }),
    ),
    mode: Type.Optional(Mode),
    schema_id: Type.Optional(Id('sch')),
    indexes: Type.Optional(Type.Array(IndexState)),
  }),
  {
    name: 'bookings',
    store: 'relational',
    declared: true,
    mode: 'enforce',
    schema_id: EXAMPLE_ID.schema,
    indexes: [],
  },
)
type Listed = Static<typeof Listed>

export const listCollections = workspaceOperation({
  name: 'collections.list',
  summary: 'List collections by name: those that are declared, and those that have documents',
  roles: DATA_ROLES,
  input: Input(PageInput),
  output: PageOf(Listed),
  http: { method: 'GET', path: '/v1/collections' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const { role } = scope.actor
    const rows = await scope.rows<{ id: string; listed: Listed }>(sql`
      with recursive ${await undeclared(scope, after, limit)}
      select name as id, listed from (
        select collection as name, jsonb_build_object('name', collection, 'store', store, 'declared', true,
          'mode', mode, 'schema_id', id, 'indexes',
          (select coalesce(jsonb_agg(i - 'columns' - 'reason' order by n), '[]')
            from jsonb_array_elements(indexes) with ordinality as e (i, n))) as listed
        from schemas where collection > ${after} and case ${role}
          when 'anon' then coalesce(anon_reads, tenon.anon_workspace() is not null) when 'user' then user_reads else true end
        union all
        select name, jsonb_build_object('name', name, 'store', 'document', 'declared', false)
        from undeclared where not exists (select from schemas where collection = name)) as collections
      order by name limit ${limit}`)
    const { data, page } = pageFrom(input, rows)
    return { data: data.map(({ listed }) => (role === 'service' ? listed : { name: listed.name })), page }
  },
})

/**
 * A table expression `undeclared` of the names after `after`. In PostgreSQL it takes one step of the index for each name,
 * however many documents there are, and contains no declared name.
 */
async function undeclared(scope: WorkspaceScope, after: string, limit: number): Promise<Sql> {
  if (scope.actor.role === 'user') return sql`undeclared as (select null::text as name where false)`
  const documents = documentsOf(scope)
  if (documents !== undefined) {
    // MongoDB has no policies, so closed names are left out here.
    const isClosed = scope.actor.role === 'anon' && (await readPublicAccess(scope)).collections === 'none'
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
