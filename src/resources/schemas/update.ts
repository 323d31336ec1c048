/** Changing a declaration, documents and all. */

import Type from 'typebox'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { AdminScope } from '../../platform/scope.ts'
import { CollectionName } from '../collections/fields.ts'
import { Input, onStructure, Ref, Wait } from '../kinds.ts'
import { Job } from '../operations.ts'
import { outcomeOf, startBuilding } from './building.ts'
import { evolve } from './evolution.ts'
import { Changeable, JsonSchema, Schema, Store } from './shape.ts'

export const updateSchema = onStructure({
  name: 'schema.update',
  summary: 'Change the declaration of a collection; what is not named stays',
  roles: ADMINS,
  input: Input({
    id: Ref('schema'),
    collection: Type.Optional(CollectionName),
    store: Type.Optional(Store),
    workspace_id: Type.Optional(Ref('workspace')),
    schema: Type.Optional(JsonSchema),
    ...Changeable,
    revision: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The revision that is changed; another one is a conflict.' }),
    ),
    wait: Wait,
  }),
  output: Type.Union([Schema, Job]),
  http: {
    method: 'PUT',
    path: '/v1/schemas/{id}',
    body: '*',
    headers: { wait: 'prefer' },
    status: (output) => ('type' in output ? 202 : 200),
    also: [202],
    location: (output) => ('type' in output ? `/v1/operations/${output.id}` : undefined),
  },
  run: async (scope, { id, revision, wait = 0, collection, store, workspace_id, ...change }) => {
    await refuseToMove(scope, id, { collection, store, workspace_id })
    const { schema, building } = await evolve(scope, id, change, revision)
    if (building === undefined) return schema
    await startBuilding(scope, building, wait)
    return outcomeOf(scope, building)
  },
})

type Immutable = { [Name in 'collection' | 'store' | 'workspace_id']?: string | undefined }

/** They may be named, so that a file that declares a collection also changes it. */
async function refuseToMove(scope: AdminScope, id: string, named: Immutable): Promise<void> {
  const row = await scope.row<Required<Immutable>>(
    sql`select collection, store, workspace_id from schemas where id = ${id}`,
  )
  for (const name of ['collection', 'store', 'workspace_id'] as const) {
    if (row === undefined || named[name] === undefined || named[name] === row[name]) continue
    const detail = `is ${row[name]} for good`
    throw new Problem('validation_failed', {
      detail: `${name}: ${detail}`,
      errors: [{ in: 'body', name, pointer: `/${name}`, detail }],
    })
  }
}
