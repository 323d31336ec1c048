/** What the API says of a declaration: the shapes of its members and of the whole. */

import Type, { type Static } from 'typebox'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../platform/pg/sql.ts'
import { CollectionName } from '../collections/fields.ts'
import { Id, Time } from '../kinds.ts'
import { IndexesAsked, IndexShown, UniqueAsked } from './indexes.ts'

export const Store = Type.Union([Type.Literal('relational'), Type.Literal('document')])
export const Mode = Type.Union([Type.Literal('off'), Type.Literal('warn'), Type.Literal('enforce')], {
  description:
    'What becomes of a document that does not fit: refused (enforce), stored and told of (warn), nothing.',
})
const Access = Type.Object(
  {
    anon: Type.Optional(
      Type.Object(
        {
          read: Type.Optional(Type.Boolean()),
          create: Type.Optional(Type.Boolean()),
          update: Type.Optional(Type.Boolean()),
          delete: Type.Optional(Type.Boolean()),
        },
        { additionalProperties: false },
      ),
    ),
  },
  {
    additionalProperties: false,
    description:
      'What anon keys may do. By default they change nothing, and read if the setting `anon.collections` of the workspace says so.',
  },
)
export const JsonSchema = Type.Record(Type.String(), Type.Unknown(), {
  description: 'JSON Schema 2020-12 of the fields of a document; references only to its own `#/$defs/…`.',
})

/** Members that may be left out when a collection is declared, and all that may change later. */
export const Changeable = {
  mode: Type.Optional(Mode),
  access: Type.Optional(Access),
  indexes: Type.Optional(IndexesAsked),
  unique: Type.Optional(UniqueAsked),
}

export const Schema = Type.Object({
  id: Id('sch'),
  tenant_id: Id('ten'),
  workspace_id: Id('ws'),
  collection: CollectionName,
  store: Store,
  schema: JsonSchema,
  mode: Mode,
  access: Access,
  indexes: Type.Array(IndexShown),
  revision: Type.Integer({ description: 'Grows by one with every change.' }),
  created_at: Time,
  updated_at: Time,
})
export type Schema = Static<typeof Schema>

/** Of an index, columns are our own affair. */
export const COLUMNS = sql`id, tenant_id, workspace_id, collection, store, schema, mode, access,
  (select coalesce(jsonb_agg(i - 'columns' order by n), '[]')
    from jsonb_array_elements(indexes) with ordinality as e (i, n)) as indexes,
  revision, created_at, updated_at`

export const refOf = ({ tenant_id, workspace_id }: Pick<Schema, 'tenant_id' | 'workspace_id'>) =>
  ({ tenantId: tenant_id, workspaceId: workspace_id }) as WorkspaceRef
