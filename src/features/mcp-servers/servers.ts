/** Hosted MCP servers: created as a draft, renamed, suspended, deleted. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { AnyName, Deleted, Id, Input, Name, Ref, Slug, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { invalidateMcpServer } from '../../access/scope-cache.ts'
import { trustedIssuersOf } from '../../access/scope-services.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type Annotations, ChosenAnnotations, EFFECT_HINTS, OPEN_WORLD } from '../../core/tool-annotations.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import {
  conflictIf,
  contentTag,
  fieldProblem,
  findRow,
  listPage,
  previewOperation,
} from '../operation-helpers.ts'
import { RESULTS_MODES } from './calls/result-form.ts'
import { ArgumentChoices } from './curation/curated-arguments.ts'
import { Groups } from './curation/groups.ts'
import { MCP_LIMITS } from './limits.ts'
import { Prompts, Resources } from './prompts.ts'
import { findHidden, rejectErrors } from './tool.ts'
import { TOOL_NAME_PATTERN } from './tool-name.ts'

export const SERVERS = '/v1/mcp/workspaces/{ws}/servers'
export const Ws = Ref('workspace')
export const Server = Ref('MCP server, or its slug')
export const Description = Type.String({ maxLength: MCP_LIMITS.descriptionCharsMax })

/** The curation of one candidate; by default, each property is that of the source. */
export const Choice = Type.Object(
  {
    enabled: Type.Boolean(),
    pinned: Type.Optional(
      Type.Boolean({ description: 'True if the tool is in `tools/list` even if clients use tool search.' }),
    ),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    title: Type.Optional(Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax })),
    description: Type.Optional(Type.String({ minLength: 1, maxLength: MCP_LIMITS.descriptionCharsMax })),
    scope: Type.Optional(
      Type.String({
        pattern: TOOL_NAME_PATTERN,
        description: 'Last part of the OAuth scope of the tool.',
      }),
    ),
    arguments: Type.Optional(ArgumentChoices),
    examples: Type.Optional(
      Type.Array(Type.Record(Type.String(), Type.Unknown()), {
        maxItems: 5,
        description: 'Arguments of example calls, shown to models.',
      }),
    ),
    limits: Type.Optional(
      Type.Object(
        {
          result_bytes: Type.Optional(Type.Integer({ minimum: 1_000, maximum: MCP_LIMITS.resultBytesMax })),
          timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: MCP_LIMITS.toolSecondsMax })),
          wait_seconds: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: MCP_LIMITS.executionWaitSeconds,
              description: 'Maximum number of seconds that a call of a flow waits for its output.',
            }),
          ),
          calls_per_minute: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: MCP_LIMITS.toolCallsPerMinuteMax,
              description:
                'Maximum number of calls per minute by all callers together; the same number may come in one burst.',
            }),
          ),
        },
        { additionalProperties: false, description: 'Limits on calls of the tool.' },
      ),
    ),
    annotations: Type.Optional(ChosenAnnotations),
  },
  { additionalProperties: false },
)
export const Tools = Type.Record(AnyName, Choice, { maxProperties: 1_000 })
export type Choice = Static<typeof Choice>

/** The draft of a server. */
export const Curation = Type.Object({ tools: Tools, groups: Groups, prompts: Prompts, resources: Resources })
export type Curation = Static<typeof Curation>

/** Settings of the endpoint, which take effect at once. */
export const EndpointSettings = {
  list: Type.Union(
    ['auto', 'granted', 'grantable'].map((mode) => Type.Literal(mode)),
    {
      description:
        'Tools that clients see. `granted`: those that their token allows; `grantable`: also those whose scope they may obtain; `auto`: `grantable` if a person uses the client, `granted` otherwise.',
    },
  ),
  challenge: Type.Union(
    ['auto', 'http', 'tool_error'].map((mode) => Type.Literal(mode)),
    {
      description:
        'Response to a call without the scope. `http`: 403 with a challenge; `tool_error`: a tool error; `auto`: a challenge, unless the client cannot use it.',
    },
  ),
  search: Type.Union(
    ['auto', 'on', 'off'].map((mode) => Type.Literal(mode)),
    {
      description: `Tool search: clients see the pinned tools, \`tool_search\` and \`tool_call\` instead of all tools. \`auto\`: on above ${MCP_LIMITS.toolsListedMax} tools.`,
    },
  ),
  results: Type.Enum([...RESULTS_MODES], {
    description:
      'Form in which MCP clients receive results of tools with an output schema: `structured` content, `text`, or `both`, since some hosts show their model only one of them. Default: `both`.',
  }),
}
export const AuthorizationServer = Type.Union(
  [Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax }), Type.Null()],
  {
    description:
      'Issuer of the tokens for the server: an `issuer` of OIDC_ISSUERS that serves the tenant. `null`: the platform. Default: `null`.',
  },
)
const SettingsInput = {
  authorization_server: Type.Optional(AuthorizationServer),
  list: Type.Optional(EndpointSettings.list),
  challenge: Type.Optional(EndpointSettings.challenge),
  search: Type.Optional(EndpointSettings.search),
  results: Type.Optional(EndpointSettings.results),
}

export const McpServer = Type.Object({
  id: Id('mcp'),
  slug: Type.String(),
  name: Type.String(),
  description: Type.String(),
  state: Type.Union(['created', 'curated', 'published', 'suspended'].map((state) => Type.Literal(state))),
  active_version: Type.Union([Type.Integer(), Type.Null()]),
  latest_version: Type.Integer({ description: 'Number of the latest published version. 0: none.' }),
  ...EndpointSettings,
  authorization_server: AuthorizationServer,
  curation: Curation,
  path: Type.String({ description: 'Path of the MCP endpoint, below the base URL.' }),
  created_by: Type.String(),
  created_at: Time,
  updated_at: Time,
})
export type McpServer = Static<typeof McpServer>

const SERVER_COLUMNS = sql`id, slug, name, description, state, active_version, latest_version, list, challenge,
  search, results, authorization_server, curation,
  '/v1/mcp/workspaces/' || workspace_id || '/servers/' || slug || '/mcp' as path,
  created_by, created_at, updated_at`

const Count = (description: string) => Type.Integer({ minimum: 0, description })

/** A server as its admins are shown it. */
export const ShownServer = component(
  'McpServer',
  Type.Object({
    ...McpServer.properties,
    last_call_at: Type.Union([Time, Type.Null()], {
      description: 'Time of the newest entry in the call log, including refused calls.',
    }),
    exposure: Type.Object(
      {
        reads: Count('Number of tools that only read.'),
        adds: Count('Number of tools that add data.'),
        changes: Count('Number of tools that change or delete data.'),
        open_world: Count('Number of these tools that may reach other systems.'),
        clients: Count('Number of OAuth clients that were created for the server.'),
      },
      { description: 'Exposure of the active version; a tool counts by its strongest effect.' },
    ),
  }),
  {
    id: EXAMPLE_ID.mcpServer,
    slug: 'bookings',
    name: 'Bookings',
    description: 'Courts and their bookings.',
    state: 'published',
    active_version: 1,
    latest_version: 1,
    list: 'auto',
    challenge: 'auto',
    search: 'auto',
    results: 'both',
    authorization_server: null,
    curation: {
      tools: { 'collections:bookings:query': { enabled: true } },
      groups: [],
      prompts: {},
      resources: {},
    },
    path: `/v1/mcp/workspaces/${EXAMPLE_ID.workspace}/servers/bookings/mcp`,
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
    last_call_at: EXAMPLE_TIME.updated,
    exposure: { reads: 1, adds: 0, changes: 0, open_world: 0, clients: 1 },
  },
)
export type ShownServer = Static<typeof ShownServer>

const toolsWith = (hints: Partial<Annotations>): Sql =>
  sql`count(*) filter (where tool -> 'annotations' @> ${hints}::jsonb)`

export const SHOWN_COLUMNS = sql`${SERVER_COLUMNS},
  (select c.time from mcp_calls c where c.server_id = mcp_servers.id order by c.seq desc limit 1) as last_call_at,
  (select jsonb_build_object(
      'reads', ${toolsWith(EFFECT_HINTS.reads)},
      'adds', ${toolsWith(EFFECT_HINTS.adds)},
      'changes', ${toolsWith(EFFECT_HINTS.changes)},
      'open_world', ${toolsWith(OPEN_WORLD)},
      'clients', (select count(*) from mcp_clients c where c.server_id = mcp_servers.id))
    from mcp_server_versions v, jsonb_array_elements(v.manifest -> 'tools') as tool
    where v.server_id = mcp_servers.id and v.version = mcp_servers.active_version) as exposure`

/** Identifies the draft of a server alone, which `PUT …/curation` replaces. */
export const curationTag = ({ curation }: Pick<McpServer, 'curation'>): string => contentTag(curation)

/** `{server}` in paths is an id or a slug. */
export const findServer = (scope: WorkspaceScope, server: string) =>
  findRow<McpServer>(
    scope,
    'MCP server',
    sql`select ${SERVER_COLUMNS} from mcp_servers where id = ${server} or slug = ${server}`,
  )

export const createServer = previewOperation({
  name: 'mcp_server.create',
  roles: DEVELOPERS,
  summary: 'Create a hosted MCP server (a draft)',
  input: Input({
    ws: Ws,
    name: Name,
    slug: Type.Optional(Slug),
    description: Type.Optional(Description),
    ...SettingsInput,
  }),
  output: ShownServer,
  http: {
    method: 'POST',
    path: SERVERS,
    body: '*',
    status: () => 201,
    location: ({ path }) => path?.replace(/\/mcp$/, ''),
  },
  run: async (scope, { name, description = '', ...input }) => {
    const { list = 'auto', challenge = 'auto', search = 'auto', results = 'both' } = input
    rejectErrors([findHidden(name, '/name'), findHidden(description, '/description')])
    const { authorization_server: issuer = null } = input
    rejectUntrusted(scope, issuer)
    const slug = input.slug ?? slugOf(name)
    const insert = sql`insert into mcp_servers
          (id, slug, name, description, list, challenge, search, results, authorization_server, state, created_by)
        values (${scope.newId('mcp')}, ${slug}, ${name}, ${description}, ${list}, ${challenge}, ${search}, ${results}, ${issuer},
          'created',
          ${scope.actor.subject})
        returning ${SHOWN_COLUMNS}`
    return effectOnce(scope, (inside) => findRow<ShownServer>(inside, 'MCP server', insert)).catch(
      SERVER_EXISTS,
    )
  },
})

/** @throws Problem `validation_failed` if the configuration trusts no such issuer for the tenant */
function rejectUntrusted(scope: WorkspaceScope, issuer: string | null): void {
  if (issuer === null) return
  const trusted = trustedIssuersOf(scope)
  if (trusted.includes(issuer)) return
  const detail =
    trusted.length === 0
      ? 'The operator has configured no issuer for this tenant (OIDC_ISSUERS): leave it out.'
      : `The issuer may be ${trusted.join(', ')}, or null for the platform itself.`
  throw fieldProblem('authorization_server', detail)
}

/** @throws Problem `validation_failed` if the name has no letters or digits */
function slugOf(name: string): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replaceAll(/^-|-$/g, '')
  if (slug !== '') return slug
  throw new Problem('validation_failed', {
    detail: 'slug is required, because none can be derived from the name.',
  })
}

const SERVER_EXISTS = conflictIf({
  mcp_servers_tenant_id_workspace_id_slug_key: 'There is an MCP server with this slug already.',
  mcp_servers_tenant_id_workspace_id_name_key: 'There is an MCP server with this name already.',
})

export const listServers = previewOperation({
  name: 'mcp_server.list',
  roles: VIEWERS,
  summary: 'List hosted MCP servers',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(ShownServer),
  http: { method: 'GET', path: SERVERS },
  run: (scope, input) => listPage<ShownServer>(scope, input, sql`select ${SHOWN_COLUMNS} from mcp_servers`),
})

export const getServer = previewOperation({
  name: 'mcp_server.get',
  roles: VIEWERS,
  summary: 'Read a hosted MCP server with its draft',
  input: Input({ ws: Ws, server: Server }),
  output: ShownServer,
  http: { method: 'GET', path: `${SERVERS}/{server}`, etag: curationTag },
  run: (scope, { server }) =>
    findRow<ShownServer>(
      scope,
      'MCP server',
      sql`select ${SHOWN_COLUMNS} from mcp_servers where id = ${server} or slug = ${server}`,
    ),
})

export const updateServer = previewOperation({
  name: 'mcp_server.update',
  roles: DEVELOPERS,
  summary: 'Update a hosted MCP server: name, description, settings or suspension; its slug does not change',
  input: Input({
    ws: Ws,
    server: Server,
    name: Type.Optional(Name),
    description: Type.Optional(Description),
    ...SettingsInput,
    suspended: Type.Optional(
      Type.Boolean({
        description: 'True if the server is suspended, so that its MCP endpoint does not serve clients.',
      }),
    ),
  }),
  output: ShownServer,
  http: { method: 'PATCH', path: `${SERVERS}/{server}`, body: '*' },
  run: async (
    scope,
    { server, name, description, suspended, list, challenge, search, results, authorization_server: issuer },
  ) => {
    rejectErrors([findHidden(name ?? '', '/name'), findHidden(description ?? '', '/description')])
    rejectUntrusted(scope, issuer ?? null)
    const statement = sql`
      update mcp_servers set
          name = coalesce(${name ?? null}::text, name),
          description = coalesce(${description ?? null}::text, description),
          list = coalesce(${list ?? null}::text, list),
          challenge = coalesce(${challenge ?? null}::text, challenge),
          authorization_server = case when ${issuer !== undefined}::boolean then ${issuer ?? null}::text
            else authorization_server end,
          search = coalesce(${search ?? null}::text, search),
          results = coalesce(${results ?? null}::text, results),
          state = case
            when ${suspended ?? null}::boolean then 'suspended'
            when not ${suspended ?? null}::boolean and state = 'suspended' then case
              when active_version is not null then 'published' when curation -> 'tools' <> '{}' then 'curated' else 'created' end
            else state end,
          updated_at = now()
        where id = ${server} or slug = ${server} returning ${SHOWN_COLUMNS}`
    const update = (inside: WorkspaceScope) => findRow<ShownServer>(inside, 'MCP server', statement)
    const updated = await effectOnce(scope, update).catch(SERVER_EXISTS)
    invalidateMcpServer(scope, updated.id)
    return updated
  },
})

export const deleteServer = previewOperation({
  name: 'mcp_server.delete',
  roles: ADMINS,
  summary: 'Delete a hosted MCP server with its versions and clients; the log of its calls is kept',
  input: Input({ ws: Ws, server: Server }),
  output: Deleted,
  http: { method: 'DELETE', path: `${SERVERS}/{server}` },
  run: async (scope, { server }) => {
    const { id } = await findServer(scope, server)
    await scope.batch(
      sql`delete from mcp_clients where server_id = ${id}`,
      sql`delete from mcp_server_versions where server_id = ${id}`,
      sql`delete from mcp_servers where id = ${id}`,
    )
    invalidateMcpServer(scope, id)
    return { id, deleted: true as const }
  },
})
