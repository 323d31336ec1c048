/** Reads the OpenAPI document of a workspace. */

import { hash } from 'node:crypto'
import Type from 'typebox'
import { Input, Ref } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow, previewOperation } from '../operation-helpers.ts'
import { OPENAPI_LIMITS } from './limits.ts'
import { type Described, workspaceDocument } from './workspace-document.ts'

export const getWorkspaceDocument = previewOperation({
  name: 'openapi.get',
  summary:
    'Read the OpenAPI document of a workspace: its declared collections, and its functions and published flows with schemas',
  roles: VIEWERS,
  input: Input({ ws: Ref('workspace') }),
  output: Type.Object({
    document: Type.Record(Type.String(), Type.Unknown(), { description: 'OpenAPI 3.1 document.' }),
    digest: Type.String(),
  }),
  http: {
    method: 'GET',
    path: '/v1/workspaces/{ws}/openapi.json',
    replyBody: 'document',
    etag: ({ digest }) => `"${digest}"`,
  },
  run: async (scope) => {
    await checkSize(scope)
    const { name } = await findRow<{ name: string }>(scope, 'workspace', sql`select name from workspaces`)
    const document = await workspaceDocument(name, await readDescribed(scope))
    return { document, digest: hash('sha256', JSON.stringify(document), 'base64url') }
  },
})

const FUNCTIONS = sql`functions f
  join function_versions v on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id
    and v.function_id = f.id and v.version = f.active_version
  where v.input_schema is not null or v.output_schema is not null`

const INPUT = sql`v.ir::jsonb #> '{input,schema}'`
const FLOWS = sql`flows f
  join flow_versions v on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id
    and v.flow_id = f.id and v.version = f.latest_version
  where f.deleted_at is null and jsonb_typeof(${INPUT}) = 'object'`

/** @throws Problem `output_too_large` before the schemas are read */
async function checkSize(scope: WorkspaceScope): Promise<void> {
  const { thingsMax, schemaBytesMax } = OPENAPI_LIMITS
  const size = await scope.row<{ things: number; bytes: number }>(sql`
    select count(*)::integer as things, coalesce(sum(bytes), 0)::float8 as bytes from (
      select octet_length(schema::text) as bytes from schemas
      union all
      select octet_length(concat(v.input_schema::text, v.output_schema::text)) from ${FUNCTIONS}
      union all
      select octet_length((${INPUT})::text) from ${FLOWS}) as described`)
  const { things = 0, bytes = 0 } = size ?? {}
  if (things <= thingsMax && bytes <= schemaBytesMax) return
  throw new Problem('output_too_large', {
    detail: `The document describes at most ${thingsMax} collections, functions and flows, with schemas of ${schemaBytesMax} bytes together; the workspace has ${things}, with ${bytes} bytes.`,
    hint: 'Read the declarations of collections page by page: `GET /v1/schemas`.',
  })
}

async function readDescribed(scope: WorkspaceScope): Promise<Described> {
  const [collections = [], functions = [], flows = []] = await scope.batch(
    sql`select collection as name, schema, mode from schemas order by collection`,
    sql`select f.name, v.input_schema, v.output_schema from ${FUNCTIONS} order by f.name`,
    sql`select f.name, ${INPUT} as input_schema from ${FLOWS} order by f.name`,
  )
  return { collections, functions, flows } as unknown as Described
}
