/** Finds what differs in the definitions of a source that have changed. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { canonical } from '../../../core/json.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import type { Definition, Drift, PinnedDefinitions } from './definitions.ts'

/** The members of each changed definition that differ from the pinned ones of the source. @param id of the source */
export async function changedFields(
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
