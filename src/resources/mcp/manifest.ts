/** The manifest of a version: all that clients see of it and all that its tools may run, under one digest. */

import { LRUCache } from 'lru-cache'
import { Compile, type Validator } from 'typebox/compile'
import { canonical } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound } from '../../core/problem.ts'
import { scopeOf } from '../../core/tool-access.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { digest } from './digest.ts'
import type { Tool } from './tool.ts'

export interface Manifest {
  readonly name: string
  readonly description: string
  readonly tools: readonly Tool[]
}

export const hashOf = (manifest: Manifest) => digest(canonical(manifest))

/** Every scope of a manifest, and those under which nothing but reading is done (all, where there are none). */
export function scopesOf(slug: string, { tools }: Manifest): { scopes: string[]; baseline: string[] } {
  const scopes = [...new Set(tools.map((tool) => scopeOf(slug, tool)))]
  const writing = new Set(tools.filter(({ reads }) => !reads).map((tool) => scopeOf(slug, tool)))
  const reading = scopes.filter((scope) => !writing.has(scope))
  return { scopes, baseline: reading.length > 0 ? reading : scopes }
}

/** A published version, ready to be called. */
export interface Published {
  readonly version: number
  readonly manifest: Manifest
  /** Faults of arguments in words, or undefined where there are none. */
  readonly faults: (tool: Tool, args: unknown) => string | undefined
}

/** Versions never change, and ids of servers are of one tenant alone: so what is kept here is never wrong. */
const CACHE = new LRUCache<string, Published>({ max: LIMITS.mcpManifestsCachedMax })

/** @throws Problem `not_found` where the version is not of this workspace */
export async function published(
  scope: WorkspaceScope,
  serverId: string,
  version: number,
): Promise<Published> {
  const key = `${scope.ref.tenantId}/${scope.ref.workspaceId}/${serverId}@${version}`
  const known = CACHE.get(key)
  if (known !== undefined) return known
  const row = await scope.row<{ manifest: Manifest }>(
    sql`select manifest from mcp_server_versions where server_id = ${serverId} and version = ${version}`,
  )
  if (row === undefined) throw notFound('MCP server')
  const made = { version, manifest: row.manifest, faults: validator() }
  CACHE.set(key, made)
  return made
}

/** The schemas are those of own operations: no text of a tenant is compiled. */
function validator(): Published['faults'] {
  const compiled = new Map<string, Validator>()
  return (tool, args) => {
    const schema = compiled.get(tool.name) ?? Compile(tool.input_schema)
    compiled.set(tool.name, schema)
    if (schema.Check(args)) return undefined
    // `boolean` is the shadow of `additionalProperties: false`.
    const fault = schema.Errors(args).find(({ keyword }) => keyword !== 'boolean')
    return `arguments${fault?.instancePath ?? ''} ${fault?.message ?? 'are not valid'}`.slice(0, 500)
  }
}
