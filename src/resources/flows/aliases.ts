/** Aliases of a flow: names that mean a version, or several of them by weight. */

import Type, { type Static } from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import { Input, inWorkspace, Ref, Time } from '../kinds.ts'
import { FLOWS, findFlow, Ws } from './definitions.ts'

export const AliasName = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$',
  description: 'Unique in the flow, such as `production`.',
})
const VersionNumber = Type.Integer({ minimum: 1, maximum: 2147483647 })

const Weighted = Type.Object(
  {
    version: VersionNumber,
    weight: Type.Integer({
      minimum: 1,
      maximum: LIMITS.aliases.weightMax,
      description: 'Of the sum of all.',
    }),
  },
  { additionalProperties: false },
)

const FlowAlias = Type.Object({
  flow_id: Type.String(),
  name: Type.String(),
  versions: Type.Array(Weighted),
  updated_by: Type.String(),
  created_at: Time,
  updated_at: Time,
})
type FlowAlias = Static<typeof FlowAlias>

const COLUMNS = sql`flow_id, name, versions, updated_by, created_at, updated_at`
const Flow = Ref('flow, or its name')
const ALIASES = `${FLOWS}/definitions/{flow}/aliases`

export const listFlowAliases = inWorkspace({
  name: 'flow_alias.list',
  summary: 'List the aliases of a flow',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws, flow: Flow }),
  output: PageOf(FlowAlias),
  http: { method: 'GET', path: ALIASES },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    const { after, limit } = pageBounds(input)
    const rows = await scope.rows<FlowAlias>(sql`
      select ${COLUMNS} from flow_aliases where flow_id = ${id} and name > ${after} order by name limit ${limit}`)
    return pageFrom(input, rows, ({ name }) => name)
  },
})

export const getFlowAlias = inWorkspace({
  name: 'flow_alias.get',
  summary: 'Read an alias of a flow',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, flow: Flow, name: AliasName }),
  output: FlowAlias,
  http: { method: 'GET', path: `${ALIASES}/{name}` },
  run: async (scope, { flow, name }) => {
    const { id } = await findFlow(scope, flow)
    const found = await scope.row<FlowAlias>(
      sql`select ${COLUMNS} from flow_aliases where flow_id = ${id} and name = ${name}`,
    )
    if (found === undefined) throw notFound('flow alias')
    return found
  },
})

export const setFlowAlias = inWorkspace({
  name: 'flow_alias.set',
  summary: 'Let a name mean a version of a flow, or several by weight; executions under way keep theirs',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    flow: Flow,
    name: AliasName,
    version: Type.Optional(VersionNumber),
    versions: Type.Optional(Type.Array(Weighted, { minItems: 1, maxItems: LIMITS.aliases.versionsMax })),
  }),
  output: FlowAlias,
  http: { method: 'PUT', path: `${ALIASES}/{name}`, body: '*' },
  run: async (scope, { flow, name, version, versions }) => {
    const meant = JSON.stringify(weightedOf(version, versions))
    const { id } = await findFlow(scope, flow)
    const set = await scope.row<FlowAlias>(sql`
      insert into flow_aliases as a (flow_id, name, versions, updated_by)
      select ${id}, ${name}, ${meant}::jsonb, ${scope.actor.subject}
      where not exists (select from jsonb_to_recordset(${meant}::jsonb) as m (version integer)
        where not exists (select from flow_versions v where v.flow_id = ${id} and v.version = m.version))
      on conflict (tenant_id, workspace_id, flow_id, name) do update
        set versions = excluded.versions, updated_by = excluded.updated_by, updated_at = now()
      returning ${COLUMNS}`)
    if (set === undefined) throw notFound('flow version')
    return set
  },
})

export const deleteFlowAlias = inWorkspace({
  name: 'flow_alias.delete',
  summary: 'Delete an alias of a flow; what it meant stays',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, flow: Flow, name: AliasName }),
  output: Type.Object({ name: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: `${ALIASES}/{name}` },
  run: async (scope, { flow, name }) => {
    const { id } = await findFlow(scope, flow)
    const gone = await scope.row(
      sql`delete from flow_aliases where flow_id = ${id} and name = ${name} returning name`,
    )
    if (gone === undefined) throw notFound('flow alias')
    return { name, deleted: true as const }
  },
})

/** @throws Problem `validation_failed` where both or neither are given, or one version twice */
function weightedOf(
  version: number | undefined,
  versions: readonly Static<typeof Weighted>[] | undefined,
): readonly Static<typeof Weighted>[] {
  if ((version === undefined) === (versions === undefined))
    throw new Problem('validation_failed', { detail: 'Give either `version` or `versions`.' })
  const weighted = versions ?? [{ version: version as number, weight: 1 }]
  if (new Set(weighted.map((each) => each.version)).size < weighted.length)
    throw new Problem('validation_failed', { detail: 'versions: each may be named once.' })
  return weighted
}
