/** Switches of a workspace: experimental features, and addresses its flows may reach although they are not public. */

import Type, { type Static } from 'typebox'
import { ADMINS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { type Sql, sql } from '../platform/pg/sql.ts'
import type { AdminScope, WorkspaceScope } from '../platform/scope.ts'
import { Id, Input, OptionalTime, onStructure, Ref } from './kinds.ts'

/** Everything that is off until it is switched on (decisions §9). */
const Feature = Type.Union([Type.Literal('mcp.flow_tools')])
export type Feature = Static<typeof Feature>

const Experimental = Type.Array(Feature, {
  uniqueItems: true,
  description: 'Experimental features that are on.',
})
const Allow = Type.Array(
  Type.String({
    maxLength: 260,
    pattern: '^[^\\s,:/@]+:[0-9]{1,5}$',
    description: '`host:port`, reached whatever its address.',
  }),
  { maxItems: 100, uniqueItems: true },
)

export const Services = Type.Object({
  workspace_id: Id('ws'),
  experimental: Experimental,
  egress: Type.Object({ allow: Allow }),
  updated_at: OptionalTime,
})
export type Services = Static<typeof Services>

export const configureServices = onStructure({
  name: 'service.configure',
  summary: 'Switch experimental features of a workspace; an operator also opens addresses for its flows',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    experimental: Type.Optional(Experimental),
    egress: Type.Optional(Type.Object({ allow: Allow }, { additionalProperties: false })),
  }),
  output: Services,
  http: { method: 'POST', path: '/v1/services/configure', body: '*' },
  run: async (scope, { workspace_id, experimental, egress }) => {
    if (egress !== undefined && scope.actor.role !== 'operator') {
      throw new Problem('forbidden', { detail: 'egress.allow is for operators.' })
    }
    const writes: Sql[] = []
    if (experimental !== undefined) writes.push(switchFeatures(workspace_id, experimental))
    if (egress !== undefined) writes.push(openAddresses(workspace_id, egress.allow))
    await scope.batch(...writes)
    return readServices(scope, workspace_id)
  },
})

const switchFeatures = (workspaceId: string, features: readonly string[]) => sql`
  insert into services (tenant_id, workspace_id, experimental)
  select tenant_id, id, ${JSON.stringify(features)}::jsonb from workspaces where id = ${workspaceId}
  on conflict (tenant_id, workspace_id) do update set experimental = excluded.experimental, updated_at = now()`

const openAddresses = (workspaceId: string, allow: readonly string[]) => sql`
  insert into services (tenant_id, workspace_id, egress_allow)
  select tenant_id, id, ${JSON.stringify(allow)}::jsonb from workspaces where id = ${workspaceId}
  on conflict (tenant_id, workspace_id) do update set egress_allow = excluded.egress_allow, updated_at = now()`

export const getServices = onStructure({
  name: 'service.get',
  summary: 'Read the switches of a workspace',
  roles: ADMINS,
  input: Input({ workspace_id: Ref('workspace') }),
  output: Services,
  http: { method: 'GET', path: '/v1/services' },
  run: (scope, { workspace_id }) => readServices(scope, workspace_id),
})

async function readServices(scope: AdminScope, workspaceId: string): Promise<Services> {
  const row = await scope.row<{ experimental: Feature[]; allow: string[]; updated_at: string | null }>(sql`
    select coalesce(s.experimental, '[]') as experimental, coalesce(s.egress_allow, '[]') as allow, s.updated_at
    from workspaces w left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id
    where w.id = ${workspaceId}`)
  if (row === undefined) throw notFound('workspace')
  const { experimental, allow, updated_at } = row
  return { workspace_id: workspaceId, experimental, egress: { allow }, updated_at }
}

/** The addresses that a workspace's flows may reach besides the public ones, as of a few seconds ago. The scope is an admin's. */
export function egressAllowed(scope: WorkspaceScope): Promise<readonly string[]> {
  return scope.memo('egress', async () => {
    const value = await egressAllowedNow(scope)
    return { value, bytes: value.join().length }
  })
}

/** The same as of now. */
export async function egressAllowedNow(scope: WorkspaceScope): Promise<readonly string[]> {
  const row = await scope.row<{ allow: string[] }>(sql`select egress_allow as allow from services`)
  return row?.allow ?? []
}

/** Whether the workspace has switched it on. The scope is an admin's. */
export async function hasFeature(scope: WorkspaceScope, feature: Feature): Promise<boolean> {
  const row = await scope.row<{ on: boolean }>(
    sql`select experimental @> ${JSON.stringify([feature])}::jsonb as on from services`,
  )
  return row?.on === true
}

/** @throws Problem `feature_not_enabled`, which says how to switch it on */
export async function requireFeature(scope: WorkspaceScope, feature: Feature): Promise<void> {
  if (await hasFeature(scope, feature)) return
  const body = JSON.stringify({ workspace_id: scope.ref.workspaceId, experimental: [feature] })
  throw new Problem('feature_not_enabled', {
    detail: `${feature} is experimental and not switched on in this workspace.`,
    hint: `POST /v1/services/configure ${body}`,
  })
}
