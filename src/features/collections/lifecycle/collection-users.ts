/** Finds what uses a collection by its name, and publishes that it was dropped, emptied or renamed. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'

const openStructure = privilege('collections.users')

/** The kinds of users, with the words for one of them. */
const WORDS = {
  reference: 'the references of the collection',
  lookup: 'the lookups of the collection',
  function: 'a trigger of the function',
  flow: 'a trigger of the flow',
  mcp_server: 'tools of the MCP server',
  bulk_change: 'the bulk change under way',
  index_build: 'the index that is being built,',
} as const
type UserKind = keyof typeof WORDS

interface CollectionUser {
  readonly kind: UserKind
  readonly name: string
}

const QUERIES: Readonly<Record<UserKind, (collection: string) => Sql>> = {
  reference: (collection) => sql`select collection from schemas
    where collection <> ${collection} and relations @> ${JSON.stringify([{ collection }])}::jsonb`,
  lookup: (collection) => sql`select collection from schemas where collection <> ${collection}
    and exists (select from jsonb_each(access -> 'lookups') l where l.value ->> 'collection' = ${collection})`,
  function: (collection) => sql`select f.name from functions f where exists (${triggersOn(collection)}
    and t.target_kind = 'function' and t.target_id = f.id)`,
  flow: (collection) => sql`select f.name from flows f where exists (${triggersOn(collection)}
    and t.target_kind = 'flow' and t.target_id = f.id)`,
  mcp_server: (collection) => sql`select s.slug from mcp_servers s
    join mcp_server_versions v on v.server_id = s.id and v.version = s.active_version
    where v.manifest -> 'tools' @> ${JSON.stringify([
      { binding: { source: 'collections', fixed: { name: collection } } },
    ])}::jsonb`,
  bulk_change: (collection) =>
    sql`select id from bulk_changes where collection = ${collection} and ended_at is null`,
  index_build: (collection) => sql`select i ->> 'name' from schemas s, jsonb_array_elements(s.indexes) i
    where s.collection = ${collection} and i ->> 'state' = 'building'`,
}

const triggersOn = (collection: string): Sql => sql`select from triggers t where t.kind = 'event' and exists (
  select from jsonb_array_elements_text(t.spec -> 'topics') topic where starts_with(topic, ${`collections.${collection}.`}))`

/** @throws Problem `state_conflict` that names the users of these kinds, if there are any */
export async function refuseUsed(
  transaction: AdminScope,
  ref: WorkspaceRef,
  collection: string,
  kinds: readonly UserKind[],
): Promise<void> {
  const max = COLLECTION_LIMITS.usersNamedMax
  const statements = kinds.map(
    (kind) => sql`select name from (${QUERIES[kind](collection)}) used (name) order by name limit ${max}`,
  )
  const found = await openStructure(transaction, ref).batch(...statements)
  const users: CollectionUser[] = kinds.flatMap((kind, index) =>
    (found[index] ?? []).map(({ name }) => ({ kind, name: String(name) })),
  )
  if (users.length === 0) return
  const shown = users.slice(0, max)
  const named = shown.map(({ kind, name }) => `${WORDS[kind]} ${name}`)
  throw new Problem('state_conflict', {
    detail: `The collection ${collection} is in use: ${named.join('; ')}${users.length > max ? '; and others' : ''}.`,
    hint: 'Remove what uses the collection first. Bulk changes and builds of indexes end by themselves.',
    members: { used_by: shown },
  })
}

/** The change of a whole collection, and the data of its event. */
export type CollectionEvent =
  | { readonly verb: 'dropped' | 'truncated'; readonly name: string }
  | { readonly verb: 'renamed'; readonly name: string; readonly before: string }

/** Publishes the event with the transaction. */
export async function announce(
  transaction: AdminScope,
  ref: WorkspaceRef,
  { verb, ...collection }: CollectionEvent,
): Promise<void> {
  const data = JSON.stringify({ collection })
  await openStructure(transaction, ref).batch(sql`
    insert into outbox (topic, document, bytes)
    values (${`platform.collection.${verb}`}, ${data}::json, ${Buffer.byteLength(data)})`)
}
