/** Secrets of flows: written, listed by name and deleted by admins; their values are never shown again. */

import Type, { type Static } from 'typebox'
import { SECRET_NAME } from '../../../flows-dsl/use/use.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import { Input, inWorkspace, Time } from '../kinds.ts'
import { FLOWS, Ws } from './definitions.ts'
import { sealed } from './secret-values.ts'

const SecretName = Type.String({
  pattern: SECRET_NAME.source,
  description: 'By which flows declare it in `use.secrets`.',
})

const FlowSecret = Type.Object(
  {
    name: Type.String(),
    updated_by: Type.String(),
    created_at: Time,
    updated_at: Time,
  },
  { description: 'A secret without its value.' },
)
type FlowSecret = Static<typeof FlowSecret>

const COLUMNS = sql`name, updated_by, created_at, updated_at`

export const setFlowSecret = inWorkspace({
  name: 'flow_secret.set',
  summary: 'Store a secret for flows, or replace it; calls from now on have the new value',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    name: SecretName,
    value: Type.Unknown({
      description: `A text of at least ${LIMITS.flowSecretCharsMin} characters, or an object or list of texts.`,
    }),
  }),
  output: FlowSecret,
  http: { method: 'PUT', path: `${FLOWS}/secrets/{name}`, body: '*' },
  run: async (scope, { name, value }) => {
    const row = await scope.row<FlowSecret>(sql`
      insert into flow_secrets (name, sealed, updated_by)
      select ${name}, ${sealed(scope, name, value)}::bytea, ${scope.actor.subject}
      where exists (select from flow_secrets where name = ${name})
        or (select count(*) from flow_secrets) < ${LIMITS.flowSecretsMax}
      on conflict (tenant_id, workspace_id, name) do update
        set sealed = excluded.sealed, updated_by = excluded.updated_by, updated_at = now()
      returning ${COLUMNS}`)
    if (row !== undefined) return row
    const detail = `A workspace has at most ${LIMITS.flowSecretsMax} secrets.`
    throw new Problem('state_conflict', { detail })
  },
})

export const listFlowSecrets = inWorkspace({
  name: 'flow_secret.list',
  summary: 'List the secrets of flows by their names, without values',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(FlowSecret),
  http: { method: 'GET', path: `${FLOWS}/secrets` },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const rows = await scope.rows<FlowSecret>(sql`
      select ${COLUMNS} from flow_secrets where name collate "C" > ${after} order by name collate "C" limit ${limit}`)
    const page = pageFrom(
      input,
      rows.map((row) => ({ ...row, id: row.name })),
    )
    return { ...page, data: page.data.map(({ id: _key, ...row }) => row) }
  },
})

export const deleteFlowSecret = inWorkspace({
  name: 'flow_secret.delete',
  summary: 'Delete a secret at once; the answer names the flows whose latest version uses it',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, name: SecretName }),
  output: Type.Object({
    name: Type.String(),
    deleted: Type.Literal(true),
    used_by: Type.Array(Type.String(), {
      description: 'Names of flows; their calls with it fail from now on.',
    }),
  }),
  http: { method: 'DELETE', path: `${FLOWS}/secrets/{name}` },
  run: async (scope, { name }) => {
    const [users = [], [gone] = []] = await scope.batch(
      sql`select f.name from flows f join flow_versions v
          on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id
            and v.version = f.latest_version
        where ${name} = any(v.secrets) order by f.name limit ${LIMITS.pageSizeMax}`,
      sql`delete from flow_secrets where name = ${name} returning name`,
    )
    if (gone === undefined) throw notFound('secret')
    return { name, deleted: true as const, used_by: users.map((row) => String(row['name'])) }
  },
})
