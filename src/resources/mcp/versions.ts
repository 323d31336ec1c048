/** Versions of a hosted MCP server: published from the draft, immutable, activated by moving one pointer. */

import Type, { type Static } from 'typebox'
import { canonical } from '../../core/canonical.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { violated } from '../../platform/pg/errors.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace, Time } from '../kinds.ts'
import { drafted } from './curation.ts'
import { hashOf, type Manifest, published, scopesOf } from './manifest.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from './servers.ts'
import { candidatesOf } from './sources/index.ts'

const Diff = Type.Object({
  added: Type.Array(Type.String()),
  removed: Type.Array(Type.String()),
  changed: Type.Array(Type.Object({ name: Type.String(), fields: Type.Array(Type.String()) })),
})

export const publishServer = inWorkspace({
  name: 'mcp_version.create',
  summary: 'Publish the draft as the next version, and make it the active one',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, server: Server }),
  output: Type.Object({
    version: Type.Integer(),
    hash: Type.String({ description: 'SHA-256 of the canonical manifest.' }),
    state: Type.Union([Type.Literal('active'), Type.Literal('needs_approval')]),
    diff: Diff,
    scopes: Type.Array(Type.String()),
  }),
  http: { method: 'POST', path: `${SERVERS}/{server}/publish`, body: '*', status: () => 201 },
  run: async (scope, { server }) => {
    const draft = await findServer(scope, server)
    if (draft.state === 'suspended')
      throw new Problem('state_conflict', { detail: 'The server is suspended.' })
    const { name, description, curation } = draft
    const tools = drafted(curation.tools, await candidatesOf(scope))
    if (tools.length === 0)
      throw new Problem('state_conflict', { detail: 'No tool is enabled in the draft.' })
    const manifest = JSON.parse(canonical({ name, description, tools })) as Manifest
    const before = draft.active_version === null ? [] : await toolsOf(scope, draft.id, draft.active_version)
    const made = await store(scope, draft, manifest)
    return { ...made, state: 'active' as const, diff: diffOf(before, manifest.tools) }
  },
})

async function toolsOf(scope: WorkspaceScope, id: string, version: number): Promise<Manifest['tools']> {
  return (await published(scope, id, version)).manifest.tools
}

/** Version and pointer in one batch. Two at once: the key lets one through, the other answers 409. */
async function store(scope: WorkspaceScope, { id, slug, latest_version }: McpServer, manifest: Manifest) {
  const [version, hash] = [latest_version + 1, hashOf(manifest)]
  const { scopes, baseline } = scopesOf(slug, manifest)
  await scope
    .batch(
      sql`insert into mcp_server_versions (server_id, version, hash, manifest, scopes, baseline, published_by)
        values (${id}, ${version}, ${hash}, ${JSON.stringify(manifest)}::jsonb, ${JSON.stringify(scopes)}::jsonb,
          ${JSON.stringify(baseline)}::jsonb, ${scope.actor.subject})`,
      sql`update mcp_servers set latest_version = ${version}, active_version = ${version}, state = 'published',
          updated_at = now() where id = ${id}`,
    )
    .catch((error: unknown) => {
      if (violated(error) === undefined) throw error
      throw new Problem('conflict', { detail: 'The server was changed by another request at the same time.' })
    })
  return { version, hash, scopes }
}

function diffOf(before: Manifest['tools'], after: Manifest['tools']): Static<typeof Diff> {
  const old = new Map(before.map((tool) => [tool.name, tool]))
  const names = new Set(after.map(({ name }) => name))
  const changed = after.flatMap((tool) => {
    const was = old.get(tool.name)
    if (was === undefined) return []
    const keys = [...new Set([...Object.keys(was), ...Object.keys(tool)])] as (keyof typeof tool)[]
    const fields = keys.filter((key) => canonical(was[key]) !== canonical(tool[key]))
    return fields.length === 0 ? [] : [{ name: tool.name, fields }]
  })
  return {
    added: after.map(({ name }) => name).filter((name) => !old.has(name)),
    removed: before.map(({ name }) => name).filter((name) => !names.has(name)),
    changed,
  }
}

const Version = Type.Object({
  version: Type.Integer(),
  hash: Type.String(),
  active: Type.Boolean(),
  tools: Type.Array(Type.Object({ name: Type.String(), title: Type.String(), scope: Type.String() })),
  published_by: Type.String(),
  published_at: Time,
})
type Version = Static<typeof Version>

const COLUMNS = sql`v.version, v.hash, v.version = s.active_version as active,
  jsonb_path_query_array(v.manifest, '$.tools[*]') as tools, v.published_by, v.published_at`

/** Of the tools, the list shows the names; the manifest in full is what clients get. */
function shown(row: Version): Version {
  return { ...row, tools: row.tools.map(({ name, title, scope }) => ({ name, title, scope })) }
}

export const listServerVersions = inWorkspace({
  name: 'mcp_version.list',
  summary: 'List published versions of a hosted MCP server, oldest first',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws, server: Server }),
  output: PageOf(Version),
  http: { method: 'GET', path: `${SERVERS}/{server}/versions` },
  run: async (scope, input) => {
    const { id } = await findServer(scope, input.server)
    const { after, limit } = pageBounds(input)
    if (!/^[0-9]{0,9}$/.test(after)) throw new Problem('cursor_invalid')
    const rows = await scope.rows<Version>(sql`
      select ${COLUMNS} from mcp_server_versions v
        join mcp_servers s on s.tenant_id = v.tenant_id and s.workspace_id = v.workspace_id and s.id = v.server_id
      where v.server_id = ${id} and v.version > ${Number(after || 0)} order by v.version limit ${limit}`)
    const page = pageFrom(
      input,
      rows.map((row) => ({ ...row, id: row.version })),
    )
    return { ...page, data: page.data.map(({ id: _key, ...row }) => shown(row)) }
  },
})

export const activateServerVersion = inWorkspace({
  name: 'mcp_version.activate',
  summary: 'Make a published version the active one: also the way back',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, server: Server, version: Type.Integer({ minimum: 1, maximum: 2147483647 }) }),
  output: Version,
  http: { method: 'POST', path: `${SERVERS}/{server}/versions/{version}/activate`, body: '*' },
  run: async (scope, { server, version }) => {
    const { id } = await findServer(scope, server)
    const [, [row] = []] = await scope.batch(
      sql`update mcp_servers set active_version = ${version}, updated_at = now(),
          state = case when state = 'suspended' then state else 'published' end
        where id = ${id} and exists (
          select from mcp_server_versions where server_id = ${id} and version = ${version})`,
      sql`select ${COLUMNS} from mcp_server_versions v
          join mcp_servers s on s.tenant_id = v.tenant_id and s.workspace_id = v.workspace_id and s.id = v.server_id
        where v.server_id = ${id} and v.version = ${version}`,
    )
    if (row === undefined) throw notFound('version')
    return shown(row as unknown as Version)
  },
})
