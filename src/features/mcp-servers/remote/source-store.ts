/** Finds a source, and stores what was found when it was read again. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { cached, invalidate } from '../../../access/scope-cache.ts'
import { canonical } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { redactText } from '../../../core/redact.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { MCP_LIMITS } from '../limits.ts'
import { type Definition, type Drift, driftOf, type PinnedDefinitions } from './definitions.ts'
import type { PinnedSource } from './source-kind.ts'

/** @param source its id or name @throws Problem `not_found` */
export const findSource = (scope: WorkspaceScope, source: string) =>
  findRow<PinnedSource>(
    scope,
    'source',
    sql`select id, name, kind, url, base_url, headers, image, hashes, hash, state from mcp_sources
      where id = ${source} or name = ${source}`,
  )

const cacheKey = (id: string) => `mcp-source/${id}`
/** Of the key and the hash of a definition. */
const HASH_BYTES = 200

/** The same for calls, cached for a few seconds. @param id of the source @throws Problem `not_found` */
export const findCachedSource = (scope: WorkspaceScope, id: string): Promise<PinnedSource> =>
  cached(scope, cacheKey(id), async () => {
    const value = await findSource(scope, id)
    return { value, bytes: value.hashes.length * HASH_BYTES }
  })

export const forgetSource = (scope: WorkspaceScope, id: string): void =>
  invalidate(scope, scope.ref, cacheKey(id))

/**
 * @param id of the source that gets the definitions
 * @param bytes of its definitions as JSON
 * @throws Problem `state_conflict` if the workspace has too many sources, or their definitions are too large together
 */
export async function requireRoom(scope: WorkspaceScope, id: string, bytes: number): Promise<void> {
  const { sourcesMax: most, workspaceBytesMax: bytesMax } = MCP_LIMITS.sources
  const others = await scope.row<{ sources: number; bytes: number }>(sql`
    select count(*)::integer as sources, coalesce(sum(bytes), 0)::integer as bytes from mcp_sources where id <> ${id}`)
  const { sources = 0, bytes: used = 0 } = others ?? {}
  if (sources < most && used + bytes <= bytesMax) return
  const detail =
    sources < most
      ? `The definitions of all sources of a workspace have at most ${bytesMax} bytes; these would make it ${used + bytes}.`
      : `A workspace has at most ${most} sources.`
  throw new Problem('state_conflict', { detail, hint: 'Delete a source that no server uses.' })
}

/**
 * Stores what was read of a source: as drift if it differs from what is pinned, or in its place if it was accepted.
 * @param accept hash of the definitions that may replace the pinned ones
 */
export async function storeRead(
  scope: WorkspaceScope,
  { id, hashes, hash }: PinnedSource,
  read: PinnedDefinitions,
  accept?: string,
): Promise<void> {
  const found = driftOf({ hashes, hash }, read)
  forgetSource(scope, id)
  if (found !== undefined && accept !== found.hash) {
    const drift = { ...found, changed_fields: await changedFields(scope, id, found, read) }
    await scope.rows(sql`update mcp_sources set state = 'drifted', drift = ${JSON.stringify(drift)}::jsonb, error = null,
      checked_at = now() where id = ${id} and hash = ${hash}`)
    return
  }
  const bytes = Buffer.byteLength(read.json)
  await requireRoom(scope, id, bytes)
  await scope.rows(sql`update mcp_sources set state = 'ready', drift = null, error = null, checked_at = now(),
      updated_at = case when hash = ${read.hash} then updated_at else now() end, hash = ${read.hash},
      hashes = ${JSON.stringify(read.hashes)}::jsonb, definitions = ${read.json}::jsonb, bytes = ${bytes},
      skipped = ${JSON.stringify(read.skipped)}::jsonb
    where id = ${id} and hash = ${hash}`)
}

/** Pinned definitions stay in use. @throws what is no fault of the source */
export async function storeFailure(
  scope: WorkspaceScope,
  { id }: PinnedSource,
  error: unknown,
): Promise<undefined> {
  if (!(error instanceof Problem) || !isFaultOfSource(error)) throw error
  forgetSource(scope, id)
  await scope.rows(sql`update mcp_sources set state = 'failed', drift = null, error = ${redactText(error.message)},
    checked_at = now() where id = ${id}`)
}

const isFaultOfSource = ({ code }: Problem): boolean =>
  code.startsWith('upstream_') || code === 'egress_refused'

/** The members of each changed definition that differ from the pinned ones of the source. @param id of the source */
async function changedFields(
  scope: WorkspaceScope,
  id: string,
  { changed }: Pick<Drift, 'changed'>,
  { json }: PinnedDefinitions,
): Promise<Drift['changed_fields']> {
  if (changed.length === 0) return {}
  const rows = await scope.rows<{ definition: Definition }>(sql`
    select d as definition from mcp_sources, jsonb_array_elements(definitions) as d
    where id = ${id} and d ->> 'key' = any(${textArray(changed)}::text[])`)
  const before = new Map(rows.map(({ definition }) => [definition.key, definition]))
  const now = (JSON.parse(json) as Definition[]).filter(({ key }) => before.has(key))
  return Object.fromEntries(now.map((one) => [one.key, differing(before.get(one.key), one)]))
}

/** Names of members, those of `call` among them: a kind stores there what it has no member for. */
function differing(before: Definition | undefined, now: Definition): string[] {
  const { call: was, hash: _was, ...old } = before ?? ({} as Partial<Definition>)
  const { call, hash: _hash, ...rest } = now
  return [...new Set([...namesOfChanges(old, rest), ...namesOfChanges(was ?? {}, call)])].sort()
}

function namesOfChanges(before: object, now: object): string[] {
  const [old, rest] = [before as Record<string, unknown>, now as Record<string, unknown>]
  const names = new Set([...Object.keys(old), ...Object.keys(rest)])
  return [...names].filter((name) => canonical(old[name]) !== canonical(rest[name]))
}
