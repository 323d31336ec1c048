/** Reads and stores all MCP servers of a workspace for archives, with their versions. What is stored serves nobody until it is published. */

import Type, { type Static } from 'typebox'
import { Name, Slug } from '../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { signManifest, trustedIssuersOf } from '../../access/scope-services.ts'
import { idPattern } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { allRows } from '../operation-helpers.ts'
import { VersionNumber } from '../version-aliases.ts'
import { hashOf, scopesOf } from './manifest.ts'
import { ManifestLine, manifestHere, type PlaceOfTools } from './manifest-transfer.ts'
import { promptFaults } from './prompts.ts'
import { classify } from './review/review.ts'
import { AuthorizationServer, Curation, Description, EndpointSettings } from './servers.ts'
import { findHidden, rejectErrors } from './tool.ts'

const PAGE = 20
const CLOSED = { additionalProperties: false }
const ServerId = Type.String({ pattern: idPattern('mcp') })

/** A server in an archive, with its draft. */
export const ServerLine = Type.Object(
  {
    id: ServerId,
    slug: Slug,
    name: Name,
    description: Description,
    ...EndpointSettings,
    authorization_server: AuthorizationServer,
    suspended: Type.Boolean(),
    curation: Type.Object(Curation.properties, CLOSED),
    active_version: Type.Union([VersionNumber, Type.Null()]),
    /** 0: it has no version. */
    latest_version: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
  },
  CLOSED,
)
export type ServerLine = Static<typeof ServerLine>

/** A version of a server in an archive. Digest and signature are made anew, since its tools run in another workspace. */
export const ServerVersionLine = Type.Object(
  { server_id: ServerId, version: VersionNumber, manifest: ManifestLine },
  CLOSED,
)
export type ServerVersionLine = Static<typeof ServerVersionLine>

/** In the order of their ids. @param structure scope with the rights of an admin */
export const allServers = (structure: WorkspaceScope): AsyncGenerator<ServerLine> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<ServerLine>(sql`
        select id, slug, name, description, list, challenge, search, results, authorization_server,
          state = 'suspended' as suspended, curation, active_version, latest_version
        from mcp_servers where id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )

/** All versions of a server, oldest first. */
export async function* allServerVersions(
  structure: WorkspaceScope,
  serverId: string,
): AsyncGenerator<ServerVersionLine> {
  for (let version = 0; ; ) {
    const found = await structure.row<ServerVersionLine>(sql`
      select server_id, version, manifest from mcp_server_versions
      where server_id = ${serverId} and version > ${version} order by version limit 1`)
    if (found === undefined) return
    yield found
    version = found.version
  }
}

/** The names of clients of servers, each with the slug of its server. */
export const agentClientNames = (
  structure: WorkspaceScope,
): AsyncGenerator<{ readonly id: string; readonly name: string; readonly server: string }> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<{ id: string; name: string; server: string }>(sql`
        select c.id, c.name, s.slug as server from mcp_clients c
          join mcp_servers s on s.tenant_id = c.tenant_id and s.workspace_id = c.workspace_id and s.id = c.server_id
        where c.id > ${after} order by c.id limit ${PAGE}`),
    ({ id }) => id,
  )

/** Where servers of an archive are stored. */
export interface ServersHere {
  /** The structure of the tenant. */
  readonly admin: AdminScope
  /** The new workspace, with the rights of its admin. */
  readonly structure: WorkspaceScope
  /** The id of a function whose own is taken in this installation. */
  readonly newIdOf: (id: string) => string
}

/**
 * Stores a server of an archive with its draft, and no version of it is active. It may be repeated. A new workspace may have fewer servers
 * than the old one, and nobody can raise its quota before it is there: a server above it is left out.
 * @returns what has to be done by hand
 * @throws Problem `validation_failed`, `quota_exceeded`
 */
export async function restoreServer(here: ServersHere, line: ServerLine): Promise<string[]> {
  const { structure } = here
  const { id, slug, name, description, authorization_server: issuer, active_version: active } = line
  rejectErrors([findHidden(name, '/name'), findHidden(description, '/description'), ...faultsOf(line)])
  const { bucket } = await readPlace(here, [])
  const curation = curationHere(line.curation, bucket)
  const isTrusted = issuer === null || trustedIssuersOf(structure).includes(issuer)
  const isEmpty = Object.keys(curation.tools).length === 0
  const state = line.suspended ? 'suspended' : isEmpty ? 'created' : 'curated'
  const insert = sql`
    insert into mcp_servers (id, slug, name, description, list, challenge, search, results, authorization_server, state,
      curation, latest_version, created_by)
    values (${id}, ${slug}, ${name}, ${description}, ${line.list}, ${line.challenge}, ${line.search}, ${line.results},
      ${isTrusted ? issuer : null}::text, ${state}, ${JSON.stringify(curation)}::jsonb, ${line.latest_version},
      ${structure.actor.subject})
    on conflict (tenant_id, workspace_id, id) do nothing`
  try {
    await structure.batch(insert)
  } catch (error) {
    if (!(error instanceof Problem) || error.members['quota'] !== 'mcp_servers') throw error
    return [
      `MCP server ${slug}: it is left out, since the quota mcp_servers of the workspace is ${error.members['limit']}; raise it, and make the server anew`,
    ]
  }
  return [
    ...(isTrusted
      ? []
      : [
          `authorization_server of the MCP server ${slug}: an operator has to trust ${issuer}; it is the platform until you set it`,
        ]),
    ...(active === null
      ? []
      : [
          `MCP server ${slug}: publish it; to serve what it served, approve its version ${active}, and otherwise publish its draft`,
        ]),
  ]
}

const faultsOf = ({ curation: { prompts, resources } }: ServerLine) =>
  promptFaults(prompts, resources).map(([pointer, detail]) => ({
    ...{ in: 'body' as const, name: 'curation' },
    ...{ pointer, detail },
  }))

/** The draft chooses tools over the bucket by its name. */
function curationHere({ tools, groups, ...texts }: ServerLine['curation'], bucket: string | null) {
  const here = (key: string) => (bucket === null ? key : key.replace(/^buckets:[^:]+:/, `buckets:${bucket}:`))
  return {
    ...texts,
    tools: Object.fromEntries(Object.entries(tools).map(([key, choice]) => [here(key), choice])),
    groups: groups.map((group) => ({ ...group, tools: group.tools.map(here) })),
  }
}

/**
 * Stores a version of a server, unless that was left out, as one that an admin has to approve before it serves anybody. It may be repeated.
 * @throws Problem `validation_failed`, `quota_exceeded`
 */
export async function restoreServerVersion(here: ServersHere, line: ServerVersionLine): Promise<void> {
  const { structure } = here
  const { server_id, version } = line
  const found = await structure.row<{ slug: string; is_there: boolean }>(
    sql`select slug, exists (select from mcp_server_versions v where v.server_id = s.id and v.version = ${version}) as is_there
      from mcp_servers s where id = ${server_id}`,
  )
  if (found === undefined || found.is_there) return
  const { slug } = found
  const manifest = manifestHere(
    line.manifest,
    await readPlace(
      here,
      functionsIn(line.manifest).map(({ id }) => id),
    ),
  )
  const { class: kind, reasons } = await classify(structure, slug, manifest)
  const hash = hashOf(manifest)
  const { scopes, baseline } = scopesOf(slug, manifest)
  const published_at = new Date().toISOString()
  const signature = await signManifest(structure, { server_id, version, hash, published_at })
  await structure.batch(sql`
    insert into mcp_server_versions (server_id, version, hash, manifest, signature, scopes, baseline, class, reasons, opens_data,
      published_by, published_at)
    values (${server_id}, ${version}, ${hash}, ${JSON.stringify(manifest)}::jsonb, ${signature}, ${JSON.stringify(scopes)}::jsonb,
      ${JSON.stringify(baseline)}::jsonb, ${kind}, ${JSON.stringify(reasons)}::jsonb, true, ${structure.actor.subject},
      ${published_at}::timestamptz)
    on conflict do nothing`)
}

/** The functions that tools call, each with the version. */
export const functionsIn = ({ tools }: ManifestLine): { readonly id: string; readonly version: number }[] =>
  tools.flatMap(({ binding }) => (binding.source === 'functions' ? [binding.fixed] : []))

/** @param functions ids in the archive */
async function readPlace(
  { admin, structure, newIdOf }: ServersHere,
  functions: readonly string[],
): Promise<PlaceOfTools> {
  const { workspaceId } = structure.ref
  const [{ bucket } = { bucket: null }] = await admin.rows<{ bucket: string | null }>(
    sql`select bucket from workspaces where id = ${workspaceId}`,
  )
  const candidates = new Map([...new Set(functions)].map((id) => [newIdOf(id), id] as const))
  const replaced =
    candidates.size === 0
      ? []
      : await structure.rows<{ id: string }>(
          sql`select id from functions where id = any(${textArray([...candidates.keys()])}::text[])`,
        )
  const newIds = new Map(replaced.map(({ id }) => [candidates.get(id), id] as const))
  return { workspaceId, bucket, functionIdOf: (id) => newIds.get(id) ?? id }
}
