/** Hosted MCP servers: created as a draft, renamed, suspended, deleted. */

import Type, { type Static } from 'typebox'
import {
  AnyName,
  Id,
  Input,
  Name,
  Ref,
  Slug,
  Time,
  workspaceOperation,
} from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findHidden, rejectErrors } from './tool.ts'

export const SERVERS = '/v1/mcp/workspaces/{ws}/servers'
export const Ws = Ref('workspace')
export const Server = Ref('MCP server, or its slug')
const Description = Type.String({ maxLength: LIMITS.mcpDescriptionCharsMax })

/** What a curator says of one candidate; what is left out stays as the source has it. */
export const Choice = Type.Object(
  {
    enabled: Type.Boolean(),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    title: Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.nameCharsMax })),
    description: Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.mcpDescriptionCharsMax })),
    scope: Type.Optional(
      Type.String({
        pattern: `^[A-Za-z0-9_.-]{1,${LIMITS.mcpToolNameCharsMax}}$`,
        description: 'Last part of the scope.',
      }),
    ),
    annotations: Type.Optional(
      Type.Object(
        {
          readOnlyHint: Type.Optional(Type.Boolean()),
          destructiveHint: Type.Optional(Type.Boolean()),
          idempotentHint: Type.Optional(Type.Boolean()),
          openWorldHint: Type.Optional(Type.Boolean()),
        },
        { additionalProperties: false, description: 'Only stricter than what the source says.' },
      ),
    ),
  },
  { additionalProperties: false },
)
export const Tools = Type.Record(AnyName, Choice, { maxProperties: 1_000 })
export type Choice = Static<typeof Choice>

export const McpServer = Type.Object({
  id: Id('mcp'),
  slug: Type.String(),
  name: Type.String(),
  description: Type.String(),
  state: Type.Union(['created', 'curated', 'published', 'suspended'].map((state) => Type.Literal(state))),
  active_version: Type.Union([Type.Integer(), Type.Null()]),
  latest_version: Type.Integer({ description: '0 where none is published.' }),
  curation: Type.Object({ tools: Tools }),
  path: Type.String({ description: 'Of the MCP endpoint, below the base URL.' }),
  created_by: Type.String(),
  created_at: Time,
  updated_at: Time,
})
export type McpServer = Static<typeof McpServer>

const COLUMNS = sql`id, slug, name, description, state, active_version, latest_version,
  jsonb_build_object('tools', curation) as curation,
  '/v1/mcp/workspaces/' || workspace_id || '/servers/' || slug || '/mcp' as path,
  created_by, created_at, updated_at`
export const SERVER_COLUMNS = COLUMNS

/** `{server}` in paths is an id or a slug. */
export async function findServer(scope: WorkspaceScope, server: string): Promise<McpServer> {
  const row = await scope.row<McpServer>(
    sql`select ${COLUMNS} from mcp_servers where id = ${server} or slug = ${server}`,
  )
  if (row === undefined) throw notFound('MCP server')
  return row
}

export const createServer = workspaceOperation({
  name: 'mcp_server.create',
  summary: 'Create a hosted MCP server (a draft)',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, name: Name, slug: Type.Optional(Slug), description: Type.Optional(Description) }),
  output: McpServer,
  http: {
    method: 'POST',
    path: SERVERS,
    body: '*',
    status: () => 201,
    location: ({ path }) => path?.replace(/\/mcp$/, ''),
  },
  run: async (scope, { name, description = '', ...input }) => {
    rejectErrors([findHidden(name, '/name'), findHidden(description, '/description')])
    const slug = input.slug ?? slugOf(name)
    const made = await scope
      .row<McpServer>(
        sql`insert into mcp_servers (id, slug, name, description, state, created_by)
          values (${scope.newId('mcp')}, ${slug}, ${name}, ${description}, 'created', ${scope.actor.subject})
          returning ${COLUMNS}`,
      )
      .catch((error: unknown) => {
        throw taken(error)
      })
    if (made === undefined) throw new Problem('internal')
    return made
  },
})

/** @throws Problem where nothing of the name is left */
function slugOf(name: string): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replaceAll(/^-|-$/g, '')
  if (slug !== '') return slug
  throw new Problem('validation_failed', { detail: 'slug is needed: the name gives none.' })
}

function taken(error: unknown): unknown {
  const [, what] = /^mcp_servers_tenant_id_workspace_id_(slug|name)_key$/.exec(violated(error) ?? '') ?? []
  if (what === undefined) return error
  return new Problem('conflict', { detail: `There is an MCP server with this ${what} already.` })
}

export const listServers = workspaceOperation({
  name: 'mcp_server.list',
  summary: 'List hosted MCP servers',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(McpServer),
  http: { method: 'GET', path: SERVERS },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const rows = await scope.rows<McpServer>(
      sql`select ${COLUMNS} from mcp_servers where id > ${after} order by id limit ${limit}`,
    )
    return pageFrom(input, rows)
  },
})

export const getServer = workspaceOperation({
  name: 'mcp_server.get',
  summary: 'Read a hosted MCP server with its draft',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, server: Server }),
  output: McpServer,
  http: { method: 'GET', path: `${SERVERS}/{server}` },
  run: (scope, { server }) => findServer(scope, server),
})

export const updateServer = workspaceOperation({
  name: 'mcp_server.update',
  summary: 'Rename, describe, suspend or resume a hosted MCP server; its slug stays',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    server: Server,
    name: Type.Optional(Name),
    description: Type.Optional(Description),
    suspended: Type.Optional(
      Type.Boolean({ description: 'A suspended server does not answer on the wire.' }),
    ),
  }),
  output: McpServer,
  http: { method: 'PATCH', path: `${SERVERS}/{server}`, body: '*' },
  run: async (scope, { server, name, description, suspended }) => {
    rejectErrors([findHidden(name ?? '', '/name'), findHidden(description ?? '', '/description')])
    const row = await scope
      .row<McpServer>(sql`
        update mcp_servers set
          name = coalesce(${name ?? null}::text, name),
          description = coalesce(${description ?? null}::text, description),
          state = case
            when ${suspended ?? null}::boolean then 'suspended'
            when not ${suspended ?? null}::boolean and state = 'suspended' then case
              when active_version is not null then 'published' when curation <> '{}' then 'curated' else 'created' end
            else state end,
          updated_at = now()
        where id = ${server} or slug = ${server} returning ${COLUMNS}`)
      .catch((error: unknown) => {
        throw taken(error)
      })
    if (row === undefined) throw notFound('MCP server')
    return row
  },
})

export const deleteServer = workspaceOperation({
  name: 'mcp_server.delete',
  summary: 'Delete a hosted MCP server with its versions and clients; the record of its calls stays',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, server: Server }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: `${SERVERS}/{server}` },
  run: async (scope, { server }) => {
    const { id } = await findServer(scope, server)
    const [, , [gone] = []] = await scope.batch(
      sql`delete from mcp_clients where server_id = ${id}`,
      sql`delete from mcp_server_versions where server_id = ${id}`,
      sql`delete from mcp_servers where id = ${id} returning id`,
    )
    if (gone === undefined) throw notFound('MCP server')
    return { id, deleted: true as const }
  },
})
