/** Sources of tools outside the platform: registered with their pinned definitions, read again, deleted. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import { Deleted, Id, Input, Ref, Slug, Time } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { conflictIf, fieldProblem, findRow, listPage, previewOperation } from '../../operation-helpers.ts'
import { requireFeature } from '../../tenants/workspace-settings.ts'
import {
  CommandArgs,
  EnvChoices,
  ImageLimitChoices,
  ImageReference,
  ImageSettings,
  imageSettings,
  imageUrl,
} from '../images/image-settings.ts'
import { MCP_LIMITS } from '../limits.ts'
import { Ws } from '../servers.ts'
import { Drift, type PinnedDefinitions, Skipped } from './definitions.ts'
import { kindOf } from './kinds.ts'
import { checkHeaders, HeaderChoices } from './source-headers.ts'
import type { RemoteSource } from './source-kind.ts'
import { findSource, forgetSource, requireRoom, storeFailure, storeRead } from './source-store.ts'

const SOURCES = '/v1/mcp/workspaces/{ws}/sources'
const Source = Ref('source of tools, or its name')
export const SourceKind = Type.Union([Type.Literal('openapi'), Type.Literal('mcp'), Type.Literal('image')])
export const SourceUrl = Type.String({
  maxLength: 2_000,
  pattern: '^https?://',
  description: 'URL without credentials.',
})
const Document = Type.Union([Type.String(), Type.Record(Type.String(), Type.Unknown())], {
  description:
    'OpenAPI 3.0 or 3.1, as an object, or as text in JSON or YAML. Default: the document at `url`.',
})

const McpSource = component(
  'McpSource',
  Type.Object({
    id: Id('src'),
    name: Type.String(),
    kind: SourceKind,
    url: Type.String(),
    base_url: Type.Union([Type.String(), Type.Null()]),
    headers: HeaderChoices,
    image: Type.Union([ImageSettings, Type.Null()]),
    tools: Type.Integer({ description: 'Number of pinned definitions.' }),
    hash: Type.String({ description: 'SHA-256 of the pinned definitions.' }),
    skipped: Type.Array(Skipped, { description: 'Definitions that are no tools, each with the reason.' }),
    state: Type.Union(
      ['ready', 'drifted', 'failed'].map((state) => Type.Literal(state)),
      {
        description:
          'State of the source. `drifted`: when last read, it differed from the pinned definitions. `failed`: it could not be read.',
      },
    ),
    drift: Type.Union([Drift, Type.Null()]),
    error: Type.Union([Type.String(), Type.Null()]),
    checked_at: Time,
    created_by: Type.String(),
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.source,
    name: 'weather',
    kind: 'openapi',
    url: 'https://weather.example/openapi.json',
    base_url: null,
    headers: {},
    image: null,
    tools: 3,
    hash: EXAMPLE_DIGEST,
    skipped: [],
    state: 'ready',
    drift: null,
    error: null,
    checked_at: EXAMPLE_TIME.updated,
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type McpSource = Static<typeof McpSource>

const COLUMNS = sql`id, name, kind, url, base_url, headers, image, jsonb_array_length(hashes) as tools, hash, skipped,
  state, drift, error, checked_at, created_by, created_at, updated_at`

export const createSource = previewOperation({
  name: 'mcp_source.create',
  roles: DEVELOPERS,
  summary:
    'Register an OpenAPI document, another MCP server or a container image (experimental) as a source of tools, and pin its definitions',
  input: Input({
    ws: Ws,
    name: Slug,
    kind: SourceKind,
    url: Type.Optional(SourceUrl),
    document: Type.Optional(Document),
    base_url: Type.Optional(SourceUrl),
    headers: Type.Optional(HeaderChoices),
    image: Type.Optional(ImageReference),
    command_args: Type.Optional(CommandArgs),
    env: Type.Optional(EnvChoices),
    limits: Type.Optional(ImageLimitChoices),
  }),
  output: McpSource,
  http: {
    method: 'POST',
    path: SOURCES,
    body: '*',
    bodyBytesMax: MCP_LIMITS.sources.bodyBytesMax,
    status: () => 201,
    location: ({ name }, { ws }) => `${SOURCES.replace('{ws}', String(ws))}/${name}`,
  },
  run: async (scope, input) => {
    const { name, kind, document } = input
    for (const [field, kinds] of Object.entries(KINDS_OF_FIELD))
      if (input[field as keyof typeof input] !== undefined && !kinds.includes(kind))
        throw fieldProblem(field, `is for the kind ${kinds.join(' or ')} alone.`)
    if (kind === 'image') await requireFeature(scope, 'mcp.images')
    const place = kind === 'image' ? imagePlace(input) : serverPlace(input)
    const source: RemoteSource = { id: scope.newId('src'), name, kind, ...place }
    return insert(scope, source, await kindOf(source).read(scope, source, document))
  },
})

/** Members of the input that not every kind has. */
const KINDS_OF_FIELD: Readonly<Record<string, readonly string[]>> = {
  ...{ url: ['openapi', 'mcp'], headers: ['openapi', 'mcp'], document: ['openapi'], base_url: ['openapi'] },
  ...{ image: ['image'], command_args: ['image'], env: ['image'], limits: ['image'] },
}

type Place = Pick<RemoteSource, 'url' | 'base_url' | 'headers' | 'image'>

/** @throws Problem `validation_failed` */
export function serverPlace({
  url,
  base_url = null,
  headers = {},
}: Partial<Pick<RemoteSource, 'url' | 'base_url' | 'headers'>>): Place {
  if (url === undefined) throw fieldProblem('url', 'is missing.')
  checkUrl('url', url)
  if (base_url !== null) checkUrl('base_url', base_url)
  checkHeaders(headers)
  return { url, base_url, headers, image: null }
}

/** @throws Problem `validation_failed` */
export function imagePlace(input: Parameters<typeof imageSettings>[0]): Place {
  const image = imageSettings(input)
  return { url: imageUrl(image), base_url: null, headers: {}, image }
}

/** URLs are shown and logged, so they hold no credentials. @throws Problem `validation_failed` */
function checkUrl(field: string, text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw fieldProblem(field, 'is not an absolute URL.')
  if (url.username !== '' || url.password !== '')
    throw fieldProblem(field, 'must hold no credentials: use `headers` with a secret of the workspace.')
}

/** @throws Problem `conflict` if the name is taken; `state_conflict` if the workspace has no room for it */
async function insert(
  scope: WorkspaceScope,
  source: RemoteSource,
  read: PinnedDefinitions,
): Promise<McpSource> {
  await requireRoom(scope, source.id, Buffer.byteLength(read.json))
  const statement = sql`${insertSource(scope, source, read)} returning ${COLUMNS}`
  return effectOnce(scope, (inside) => findRow<McpSource>(inside, 'source', statement)).catch(
    conflictIf({
      mcp_sources_tenant_id_workspace_id_name_key: 'There is a source with this name already.',
    }),
  )
}

export const insertSource = (
  scope: WorkspaceScope,
  { id, name, kind, url, base_url, headers, image }: RemoteSource,
  { json, hashes, hash, skipped }: PinnedDefinitions,
): Sql => sql`
  insert into mcp_sources
    (id, name, kind, url, base_url, headers, image, definitions, bytes, hashes, hash, skipped, created_by)
  values (${id}, ${name}, ${kind}, ${url}, ${base_url}::text, ${JSON.stringify(headers)}::jsonb,
    ${image === null ? null : JSON.stringify(image)}::jsonb, ${json}::jsonb, ${Buffer.byteLength(json)},
    ${JSON.stringify(hashes)}::jsonb, ${hash}, ${JSON.stringify(skipped)}::jsonb, ${scope.actor.subject})`

export const listSources = previewOperation({
  name: 'mcp_source.list',
  roles: VIEWERS,
  summary: 'List the sources of tools outside the platform',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(McpSource),
  http: { method: 'GET', path: SOURCES },
  run: (scope, input) => listPage<McpSource>(scope, input, sql`select ${COLUMNS} from mcp_sources`, 'name'),
})

export const getSource = previewOperation({
  name: 'mcp_source.get',
  roles: VIEWERS,
  summary: 'Read a source of tools',
  input: Input({ ws: Ws, source: Source }),
  output: McpSource,
  http: { method: 'GET', path: `${SOURCES}/{source}` },
  run: async (scope, { source }) => readShown(scope, (await findSource(scope, source)).id),
})

const readShown = (scope: WorkspaceScope, id: string) =>
  findRow<McpSource>(scope, 'source', sql`select ${COLUMNS} from mcp_sources where id = ${id}`)

export const refreshSource = previewOperation({
  name: 'mcp_source.refresh',
  roles: DEVELOPERS,
  summary: 'Refresh the definitions of a source; definitions that differ are pinned once they are accepted',
  input: Input({
    ws: Ws,
    source: Source,
    document: Type.Optional(Document),
    accept: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'Reviewed `drift.hash`; the definitions are pinned if they still have it.',
      }),
    ),
  }),
  output: McpSource,
  http: {
    method: 'POST',
    path: `${SOURCES}/{source}/refresh`,
    body: '*',
    bodyBytesMax: MCP_LIMITS.sources.bodyBytesMax,
  },
  run: async (scope, { source, document, accept }) => {
    const found = await findSource(scope, source)
    const read = await kindOf(found)
      .read(scope, found, document)
      .catch((error: unknown) => storeFailure(scope, found, error))
    if (read !== undefined) await storeRead(scope, found, read, accept)
    return readShown(scope, found.id)
  },
})

export const deleteSource = previewOperation({
  name: 'mcp_source.delete',
  roles: ADMINS,
  summary: 'Delete a source that no active version of a server uses',
  input: Input({ ws: Ws, source: Source }),
  output: Deleted,
  http: { method: 'DELETE', path: `${SOURCES}/{source}` },
  run: async (scope, { source }) => {
    const { id, name } = await findSource(scope, source)
    const tool = JSON.stringify({ tools: [{ binding: { fixed: { source: id } } }] })
    const users = sql`select s.slug from mcp_servers s join mcp_server_versions v
      on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id and v.server_id = s.id
        and v.version = s.active_version
      where v.manifest @> ${tool}::jsonb`
    const [used = [], [deletedRow] = []] = await scope.batch(
      sql`${users} order by s.slug limit ${MCP_LIMITS.sources.notesMax}`,
      sql`delete from mcp_sources where id = ${id} and not exists (${users}) returning id`,
    )
    forgetSource(scope, id)
    if (deletedRow !== undefined) return { id, deleted: true as const }
    const servers = used.map(({ slug }) => String(slug)).join(', ')
    throw new Problem('state_conflict', {
      detail: `Tools of the source ${name} are in the active version of: ${servers}.`,
      hint: 'Publish these servers without the tools, or delete them.',
    })
  },
})
