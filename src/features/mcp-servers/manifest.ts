/** The manifest of a version: its digest, and the comparison of versions (widened scopes). */

import { LRUCache } from 'lru-cache'
import Type, { type Static } from 'typebox'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { canonical } from '../../core/json.ts'
import { counterpartOf, isCovered, scopeOf } from '../../core/tool-access.ts'
import { type Effect, effectInWords, effectOf } from '../../core/tool-annotations.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import type { Group } from './curation/groups.ts'
import { MCP_LIMITS } from './limits.ts'
import type { Prompts, Resources } from './prompts.ts'
import type { McpServer } from './servers.ts'
import { digest, type Tool } from './tool.ts'

export interface Manifest {
  readonly name: string
  readonly description: string
  readonly tools: readonly Tool[]
  readonly groups?: readonly Group[]
  readonly prompts?: Prompts
  readonly resources?: Resources
}

export const hashOf = (manifest: Manifest) => digest(canonical(manifest))

/** The scopes of a manifest, and as baseline those whose tools only read; all scopes if there are none. */
export function scopesOf(slug: string, { tools }: Manifest): { scopes: string[]; baseline: string[] } {
  const scopes = [...new Set(tools.map((tool) => scopeOf(slug, tool)))]
  const writing = new Set(tools.filter(({ reads }) => !reads).map((tool) => scopeOf(slug, tool)))
  const reading = scopes.filter((scope) => !writing.has(scope))
  return { scopes, baseline: reading.length > 0 ? reading : scopes }
}

export interface PublishedVersion {
  readonly version: number
  /** SHA-256 of the canonical manifest, hex. */
  readonly hash: string
  readonly manifest: Manifest
}

/** Entries are never stale: versions are immutable, and the key names tenant, workspace and server. */
const CACHE = new LRUCache<string, PublishedVersion>({
  max: MCP_LIMITS.manifestsCachedMax,
  maxSize: MCP_LIMITS.manifestsCachedCharsMax,
  sizeCalculation: ({ manifest }) => JSON.stringify(manifest).length,
})

/** @throws Problem `not_found` if the workspace has no such version */
export async function findPublished(
  scope: WorkspaceScope,
  serverId: string,
  version: number,
): Promise<PublishedVersion> {
  const key = `${scope.ref.tenantId}/${scope.ref.workspaceId}/${serverId}@${version}`
  const known = CACHE.get(key)
  if (known !== undefined) return known
  const { hash, manifest } = await findRow<{ hash: string; manifest: Manifest }>(
    scope,
    'MCP server',
    sql`select hash, manifest from mcp_server_versions where server_id = ${serverId} and version = ${version}`,
  )
  const published = { version, hash, manifest }
  CACHE.set(key, published)
  return published
}

const EffectName = Type.Union([Type.Literal('reads'), Type.Literal('adds'), Type.Literal('changes')])

/** A scope that grants more than when it was last offered. */
export const Widened = component(
  'McpWidenedScope',
  Type.Object({
    scope: Type.String(),
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        title: Type.String(),
        effect: EffectName,
        was: Type.Union([EffectName, Type.Null()], {
          description: 'Previous effect of the tool. `null`: the tool is new in the scope.',
        }),
      }),
    ),
  }),
  {
    scope: 'mcp:bookings:write',
    tools: [{ name: 'bookings_create', title: 'Create a booking', effect: 'adds', was: null }],
  },
)
export type Widened = Static<typeof Widened>

export const Diff = component(
  'McpDiff',
  Type.Object({
    added: Type.Array(Type.String()),
    removed: Type.Array(Type.String()),
    changed: Type.Array(Type.Object({ name: Type.String(), fields: Type.Array(Type.String()) })),
    widened: Type.Array(Widened, {
      description: 'Scopes that reach further, which an admin has to approve.',
    }),
    summary: Type.Array(Type.String(), {
      description: 'Sentences about the changes that matter to people who use the server.',
    }),
  }),
  {
    added: ['bookings_create'],
    removed: [],
    changed: [],
    widened: [exampleOf(Widened)],
    summary: ['The tool bookings_create is new.'],
  },
)
export type Diff = Static<typeof Diff>

/**
 * @param before the tools of the active version
 * @param offered the tools behind each scope when it was last offered, see {@link lastPublishedTools}
 */
export function compare(
  slug: string,
  before: readonly Tool[],
  offered: readonly Tool[],
  after: readonly Tool[],
): Diff {
  const old = new Map(before.map((tool) => [tool.name, tool]))
  const names = new Set(after.map(({ name }) => name))
  const reaching = furtherReaching(offered, after)
  return {
    added: after.map(({ name }) => name).filter((name) => !old.has(name)),
    removed: before.map(({ name }) => name).filter((name) => !names.has(name)),
    changed: after.flatMap((tool) => changeOf(old.get(tool.name), tool)),
    widened: widenedScopes(slug, offered, reaching),
    summary: [
      ...reaching.map((tool) => sentenceOf(slug, counterpartOf(tool, offered), tool)),
      ...after.flatMap((tool) => otherVersion(old.get(tool.name), tool)),
    ],
  }
}

/**
 * The tools of each scope when it was last offered: by the active version, or else by the newest approved one. A scope that
 * was never offered has none.
 */
export async function lastPublishedTools(
  scope: WorkspaceScope,
  { id, slug, active_version }: McpServer,
  after: readonly Tool[],
): Promise<readonly Tool[]> {
  const active = active_version === null ? [] : await readTools(scope, id, active_version)
  const offeredNow = new Set(active.map((tool) => tool.scope))
  const away = new Set(after.map((tool) => tool.scope).filter((name) => !offeredNow.has(name)))
  if (away.size === 0 || active_version === null) return active
  const full = [...away].map((name) => scopeOf(slug, { scope: name }))
  const rows = await scope.rows<{ scope: string; version: number }>(sql`
    select distinct on (offered.scope) offered.scope, v.version
    from mcp_server_versions v, jsonb_array_elements_text(v.scopes) as offered (scope)
    where v.server_id = ${id} and (not v.needs_approval or v.approved_at is not null)
      and offered.scope in (select jsonb_array_elements_text(${JSON.stringify(full)}::jsonb))
    order by offered.scope, v.version desc`)
  const earlier = await Promise.all(
    rows.map(async (row) =>
      (await readTools(scope, id, row.version)).filter((tool) => scopeOf(slug, tool) === row.scope),
    ),
  )
  return [...active, ...earlier.flat()]
}

async function readTools(scope: WorkspaceScope, id: string, version: number): Promise<readonly Tool[]> {
  return (await findPublished(scope, id, version)).manifest.tools
}

/** Tools that are new in a scope that was offered before, or do more than before. */
function furtherReaching(offered: readonly Tool[], after: readonly Tool[]): Tool[] {
  const known = new Set(offered.map(({ scope }) => scope))
  return after.filter((tool) => known.has(tool.scope) && !isCovered(tool, offered))
}

function widenedScopes(slug: string, offered: readonly Tool[], reaching: readonly Tool[]): Widened[] {
  const scopes = [...new Set(reaching.map((tool) => scopeOf(slug, tool)))]
  return scopes.map((scope) => ({
    scope,
    tools: reaching
      .filter((tool) => scopeOf(slug, tool) === scope)
      .map((tool) => {
        const was = counterpartOf(tool, offered)
        const effect: Effect | null = was === undefined ? null : effectOf(was.annotations)
        return { name: tool.name, title: tool.title, effect: effectOf(tool.annotations), was: effect }
      }),
  }))
}

function sentenceOf(slug: string, was: Tool | undefined, tool: Tool): string {
  const [scope, words] = [scopeOf(slug, tool), effectInWords(tool.annotations)]
  const named = `“${tool.title}” (${tool.name})`
  return was === undefined
    ? `The scope ${scope} now reaches ${named}, which ${words}.`
    : `Under the scope ${scope}, ${named} now ${words}; before, it ${effectInWords(was.annotations)}.`
}

function changeOf(was: Tool | undefined, tool: Tool): Diff['changed'] {
  if (was === undefined) return []
  const keys = [...new Set([...Object.keys(was), ...Object.keys(tool)])] as (keyof Tool)[]
  const fields = keys.filter((key) => canonical(was[key]) !== canonical(tool[key]))
  return fields.length === 0 ? [] : [{ name: tool.name, fields }]
}

/** Tools of functions and flows run a fixed version, which publishing updates. */
function otherVersion(was: Tool | undefined, tool: Tool): string[] {
  const [before, after] = [was?.binding.fixed['version'], tool.binding.fixed['version']]
  if (was?.candidate !== tool.candidate || before === after) return []
  const [source, thing] = tool.candidate.split(':')
  return [
    `The tool ${tool.name} runs version ${after} of the ${source?.replace(/s$/, '')} ${thing}; before, it ran version ${before}.`,
  ]
}
