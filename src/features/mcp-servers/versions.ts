/** Versions of a hosted MCP server: published from the draft, immutable, activated by moving one pointer. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { Input, OptionalTime, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { invalidateMcpServer } from '../../access/scope-cache.ts'
import { signManifest } from '../../access/scope-services.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS, DEVELOPERS, type Role, VIEWERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { findRow, previewOperation } from '../operation-helpers.ts'
import { Diff, hashOf, scopesOf, Widened } from './manifest.ts'
import { type Draft, Reason, ReviewClass, readDraft } from './review/review.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from './servers.ts'
import type { Tool } from './tool.ts'
import { TOOL_PROVIDERS } from './tool-providers/index.ts'

export const publishServer = previewOperation({
  name: 'mcp_version.create',
  roles: DEVELOPERS,
  summary:
    'Publish the draft of a hosted MCP server as the next version; it is active at once unless it needs approval, as tools on data do that a developer publishes',
  input: Input({
    ws: Ws,
    server: Server,
    accept: Type.Optional(
      Type.Array(Type.Literal('breaking'), {
        maxItems: 1,
        description:
          'Classes that the request approves. `breaking`: changes that may break clients. Wider scopes still need an approval.',
      }),
    ),
  }),
  output: component(
    'McpPublication',
    Type.Object({
      version: Type.Integer(),
      hash: Type.String({ description: 'SHA-256 of the canonical manifest.' }),
      state: Type.Union([Type.Literal('active'), Type.Literal('needs_approval')]),
      class: ReviewClass,
      reasons: Type.Array(Reason, { description: 'Reasons for the class.' }),
      diff: Diff,
      scopes: Type.Array(Type.String()),
    }),
    {
      version: 1,
      hash: EXAMPLE_DIGEST,
      state: 'active',
      class: 'safe',
      reasons: [],
      diff: exampleOf(Diff),
      scopes: ['mcp:bookings:read'],
    },
  ),
  http: { method: 'POST', path: `${SERVERS}/{server}/publish`, body: '*', status: () => 201 },
  run: async (scope, { server, accept = [] }) => {
    const found = await findServer(scope, server)
    if (found.state === 'suspended')
      throw new Problem('state_conflict', { detail: 'The server is suspended.' })
    const draft = await readDraft(scope, found)
    return store(scope, found, draft, accept.includes('breaking'))
  },
})

/**
 * Version and pointer in one batch; a version that needs approval leaves the pointer where it is.
 * @throws Problem `conflict` if another version was published or activated since the draft was compared
 */
async function store(
  scope: WorkspaceScope,
  { id, slug, latest_version, active_version }: McpServer,
  { manifest, diff, class: kind, reasons }: Draft,
  acceptsBreaking: boolean,
) {
  const { widened } = diff
  const [version, hash] = [latest_version + 1, hashOf(manifest)]
  const { scopes, baseline } = scopesOf(slug, manifest)
  const isAccepted = kind === 'breaking' && acceptsBreaking && widened.length === 0
  const isData = opensData(scope, manifest.tools)
  const isActive = (isAccepted || (kind === 'safe' && widened.length === 0)) && !isData
  const state = isActive ? ('active' as const) : ('needs_approval' as const)
  const { subject } = scope.actor
  const published_at = new Date().toISOString()
  const signature = await signManifest(scope, { server_id: id, version, hash, published_at })
  const changed = new Problem('conflict', {
    detail: 'The server was changed by another request at the same time. Publish it again.',
  })
  const isUnchanged = sql`id = ${id} and latest_version = ${latest_version}
    and active_version is not distinct from ${active_version}`
  // The version comes first: the quota of tools says what the active version offers.
  const statements = [
    sql`insert into mcp_server_versions
        (server_id, version, hash, manifest, signature, scopes, baseline, widened, class, reasons, opens_data,
          published_by, published_at, approved_by, approved_at)
      select id, ${version}, ${hash}, ${JSON.stringify(manifest)}::jsonb, ${signature}, ${JSON.stringify(scopes)}::jsonb,
        ${JSON.stringify(baseline)}::jsonb, ${JSON.stringify(widened)}::jsonb, ${kind},
        ${JSON.stringify(reasons)}::jsonb, ${isData}::boolean, ${subject}, ${published_at}::timestamptz, ${isActive && isAccepted ? subject : null}::text,
        case when ${isActive && isAccepted}::boolean then now() end
      from mcp_servers where ${isUnchanged} for update`,
    sql`update mcp_servers set latest_version = ${version}, updated_at = now(),
        active_version = case when ${state === 'active'} then ${version} else active_version end,
        state = case when ${state === 'active'} then 'published' else state end
      where ${isUnchanged} returning id`,
  ]
  const made = await effectOnce(scope, async (inside) => {
    const [, [moved] = []] = await inside.batch(...statements).catch((error: unknown) => {
      throw violated(error) === undefined ? error : changed
    })
    if (moved === undefined) throw changed
    return { version, hash, scopes, state, class: kind, reasons: [...reasons], diff }
  })
  invalidateMcpServer(scope, id)
  return made
}

/** True if a tool reaches data, which only admins open to clients. */
function opensData({ actor }: WorkspaceScope, tools: readonly Tool[]): boolean {
  if ((ADMINS as readonly Role[]).includes(actor.role)) return false
  return tools.some(({ binding: { source, operation } }) =>
    TOOL_PROVIDERS.find(({ name }) => name === source)?.operations.some(
      ({ name, domain }) => name === operation && domain === 'data_access',
    ),
  )
}

const Version = component(
  'McpVersion',
  Type.Object({
    version: Type.Integer(),
    hash: Type.String({ description: 'SHA-256 of the canonical manifest, in hexadecimal.' }),
    signature: Type.String({
      description:
        'Compact JWS (RFC 7515), signed with a key of `/.well-known/tenon-manifest-keys`; its payload has `server_id`, `version`, `hash`, `published_at`.',
    }),
    active: Type.Boolean(),
    tools: Type.Array(Type.Object({ name: Type.String(), title: Type.String(), scope: Type.String() })),
    published_by: Type.String(),
    published_at: Time,
    state: Type.Union([Type.Literal('published'), Type.Literal('needs_approval')]),
    widened: Type.Array(Widened, {
      description: 'Scopes that reach further, for which the version needs, or needed, approval.',
    }),
    class: ReviewClass,
    reasons: Type.Array(Reason, {
      description: 'Reasons for the class; a class other than `safe` needs approval.',
    }),
    approved_by: Type.Union([Type.String(), Type.Null()]),
    approved_at: OptionalTime,
  }),
  {
    version: 1,
    hash: EXAMPLE_DIGEST,
    signature: 'compact-jws',
    active: true,
    tools: [{ name: 'bookings_query', title: 'Query bookings', scope: 'mcp:bookings:read' }],
    published_by: EXAMPLE_ID.account,
    published_at: EXAMPLE_TIME.created,
    state: 'published',
    widened: [],
    class: 'safe',
    reasons: [],
    approved_by: null,
    approved_at: null,
  },
)
type Version = Static<typeof Version>

/** Of a version `v` that may be, or may have been, the active one. */
const APPROVED = sql`(not v.needs_approval or v.approved_at is not null)`
const COLUMNS = sql`v.version, v.hash, v.signature, v.version is not distinct from s.active_version as active,
  jsonb_path_query_array(v.manifest, '$.tools[*]') as tools, v.published_by, v.published_at,
  case when ${APPROVED} then 'published' else 'needs_approval' end as state, v.widened,
  v.class, v.reasons, v.approved_by, v.approved_at`

/** Without the texts and schemas of its tools, which are in the manifest. */
function toVersion(row: Version): Version {
  return { ...row, tools: row.tools.map(({ name, title, scope }) => ({ name, title, scope })) }
}

export const listServerVersions = previewOperation({
  name: 'mcp_version.list',
  roles: VIEWERS,
  summary: 'List published versions of a hosted MCP server, oldest first',
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
    return pageFrom(input, rows.map(toVersion), ({ version }) => version)
  },
})

const OneVersion = {
  ws: Ws,
  server: Server,
  version: Type.Integer({ minimum: 1, maximum: 2147483647 }),
}

/** The columns of a version of a server. @param more columns */
const selectVersion = (serverId: string, version: number, more = sql``): Sql => sql`
  select ${COLUMNS} ${more} from mcp_server_versions v
    join mcp_servers s on s.tenant_id = v.tenant_id and s.workspace_id = v.workspace_id and s.id = v.server_id
  where v.server_id = ${serverId} and v.version = ${version}`

const WithManifest = component(
  'McpVersionWithManifest',
  Type.Object({
    ...Version.properties,
    manifest: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Manifest that was published; `hash` is the SHA-256 of its canonical JSON.',
    }),
  }),
  { ...exampleOf(Version), manifest: { name: 'Bookings', tools: [] } },
)

export const getServerVersion = previewOperation({
  name: 'mcp_version.get',
  roles: VIEWERS,
  summary: 'Read a published version of a hosted MCP server with its manifest and signature',
  input: Input(OneVersion),
  output: WithManifest,
  http: { method: 'GET', path: `${SERVERS}/{server}/versions/{version}` },
  run: async (scope, { server, version }) => {
    const { id } = await findServer(scope, server)
    const statement = selectVersion(id, version, sql`, v.manifest`)
    const row = await findRow<Static<typeof WithManifest>>(scope, 'version', statement)
    return { ...toVersion(row), manifest: row.manifest }
  },
})

export const activateServerVersion = previewOperation({
  name: 'mcp_version.activate',
  roles: DEVELOPERS,
  summary: 'Activate a published version; use it to roll back',
  input: Input(OneVersion),
  output: Version,
  http: { method: 'POST', path: `${SERVERS}/{server}/versions/{version}/activate`, body: '*' },
  run: async (scope, { server, version }) => {
    const { id } = await findServer(scope, server)
    const statement = sql`
      update mcp_servers s set ${activeVersionIs(version)} from mcp_server_versions v
      where s.id = ${id} and v.server_id = ${id} and v.version = ${version} and ${APPROVED} returning s.id`
    const refusal = `Version ${version} widens what was consented to, may break clients, or opens data: an admin has to approve it first.`
    return moveActiveVersion(scope, { id, version }, statement, refusal)
  },
})

export const approveServerVersion = previewOperation({
  name: 'mcp_version.approve',
  roles: ADMINS,
  summary:
    'Approve a version of a hosted MCP server that needs approval, and activate it; people must consent again to wider scopes',
  input: Input(OneVersion),
  output: Version,
  http: { method: 'POST', path: `${SERVERS}/{server}/versions/{version}/approve`, body: '*' },
  run: async (scope, { server, version }) => {
    const { id } = await findServer(scope, server)
    const statement = sql`
      with approved as (
        update mcp_server_versions v set approved_by = ${scope.actor.subject}, approved_at = now()
        where v.server_id = ${id} and v.version = ${version} and not ${APPROVED} returning v.version
      )
      update mcp_servers s set ${activeVersionIs(version)} from approved where s.id = ${id} returning s.id`
    return moveActiveVersion(scope, { id, version }, statement, `Version ${version} needs no approval.`)
  },
})

const activeVersionIs = (version: number): Sql => sql`active_version = ${version}, updated_at = now(),
  state = case when s.state = 'suspended' then s.state else 'published' end`

/**
 * Moves the pointer of a server by a statement that returns a row if it may.
 * @throws Problem `not_found`; `state_conflict` with the refusal if the statement moved nothing
 */
async function moveActiveVersion(
  scope: WorkspaceScope,
  { id, version }: { readonly id: string; readonly version: number },
  statement: Sql,
  refusal: string,
): Promise<Version> {
  const active = await effectOnce(scope, async (inside) => {
    const [[moved] = [], [row] = []] = await inside.batch(statement, selectVersion(id, version))
    if (row === undefined) throw notFound('version')
    if (moved === undefined) throw new Problem('state_conflict', { detail: refusal })
    return toVersion(row as unknown as Version)
  })
  invalidateMcpServer(scope, id)
  return active
}
