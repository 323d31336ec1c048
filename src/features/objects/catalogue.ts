/** The catalogue of a workspace's objects (objects.sql): reads entries, and replaces each only as long as it is what was read. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { randomIds } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { readObjectChange, refusal, violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { retryContended } from '../../infra/retry.ts'
import { OBJECT_LIMITS } from './limits.ts'

/** Headers that are kept with an object, and sent with it, by their names. */
export type KeptHeaders = Readonly<Record<string, string>>

/** The content of an object: its blob, and the headers and texts that are kept with it. */
export interface ObjectContent {
  readonly blob: string
  /** In bytes. */
  readonly size: number
  /** Without quotes. */
  readonly etag: string
  readonly headers: KeptHeaders
  readonly metadata: Readonly<Record<string, string>>
  readonly tags: Readonly<Record<string, string>>
}

export interface CatalogueEntry extends ObjectContent {
  readonly key: string
  readonly version: string
  readonly owner: string | null
  /** Milliseconds since 1970. */
  readonly modifiedMs: number
}

const COLUMNS = sql`key, version, blob, size, etag, headers, metadata, tags, owner,
  (extract(epoch from modified_at) * 1000)::bigint as "modifiedMs"`

/** Rolls back the transaction if the object is not as it was read, or the upload is over. */
const refusedUnless = (isDone: Sql, what: 'object' | 'upload') =>
  sql`case when not ${isDone} then tenon.refuse_object_change(${what}) end`

/** A change of an upload that must hit its row, or the transaction fails. */
export const requireChange = (update: Sql): Sql => sql`
  with changed as (${update} returning 1) select ${refusedUnless(sql`exists (select from changed)`, 'upload')}`

/** @returns undefined if there is no such object */
export function findEntry(scope: WorkspaceScope, key: string): Promise<CatalogueEntry | undefined> {
  return scope.row<CatalogueEntry>(entryOf(key))
}

/** Selects the entry of a key, for a batch with other statements. */
export const entryOf = (key: string): Sql => sql`select ${COLUMNS} from objects where key = ${key}`

/** A change of one object, made only if the object is still as it was read. */
export interface Change {
  readonly bucket: string
  readonly key: string
  /** The entry as it was read; undefined: there was none. */
  readonly known: CatalogueEntry | undefined
}

/**
 * The statements that make an uploaded blob the content of an object. They belong into one batch.
 * They fail with an error for which {@link readObjectChange} says why if the object has changed since it was read, or the upload is over.
 */
export const replacement = (change: Change, content: ObjectContent): readonly Sql[] => [
  endOfUpload(content.blob),
  written(change, content),
]

export const endOfUpload = (id: string): Sql => sql`
  with ended as (delete from object_uploads where id = ${id} returning id)
  select ${refusedUnless(sql`exists (select from ended)`, 'upload')}`

function written({ bucket, key, known }: Change, content: ObjectContent): Sql {
  const { blob, size, etag, headers, metadata, tags } = content
  const version = randomIds.uuid()
  const change =
    known === undefined
      ? sql`insert into objects (key, version, blob, size, etag, headers, metadata, tags)
          values (${key}, ${version}, ${blob}, ${size}, ${etag}, ${headers}, ${metadata}, ${tags})
          on conflict do nothing returning null::uuid as replaced, key, size, etag, headers, owner`
      : sql`update objects set version = ${version}, blob = ${blob}, size = ${size}, etag = ${etag}, headers = ${headers},
            metadata = ${metadata}, tags = ${tags}, modified_at = now()
          where key = ${key} and version = ${known.version}
          returning old.blob as replaced, key, size, etag, headers, owner`
  const verb = known === undefined ? 'created' : 'updated'
  return sql`with changed as (${change}), unused as (${unused(sql`replaced`)}), event as (${event(bucket, verb)})
    select ${refusedUnless(sql`exists (select from changed)`, 'object')}`
}

/** Removes an object, in the same way as {@link replacement}. */
export const removal = ({ bucket, key, known }: Change & { readonly known: CatalogueEntry }): Sql => sql`
  with changed as (
    delete from objects where key = ${key} and version = ${known.version}
    returning blob as replaced, key, size, etag, headers, owner
  ), unused as (${unused(sql`replaced`)}), event as (${event(bucket, 'deleted')})
  select ${refusedUnless(sql`exists (select from changed)`, 'object')}`

/** Changes what is kept with the bytes of an object. */
export const redescription = (
  { bucket, key, known }: Change & { readonly known: CatalogueEntry },
  { headers, metadata, tags }: Pick<ObjectContent, 'headers' | 'metadata' | 'tags'>,
): Sql => sql`
  with changed as (
    update objects set version = ${randomIds.uuid()}, headers = ${headers}, metadata = ${metadata}, tags = ${tags}, modified_at = now()
    where key = ${key} and version = ${known.version} returning key, size, etag, headers, owner
  ), event as (${event(bucket, 'updated')})
  select ${refusedUnless(sql`exists (select from changed)`, 'object')}`

/** Gives an object another key, in place of an object that may have it. The statements belong into one batch. */
export function renaming(
  { bucket, known }: Change & { readonly known: CatalogueEntry },
  { key, known: replaced }: Pick<Change, 'key' | 'known'>,
): readonly Sql[] {
  const room = sql`
    with changed as (delete from objects where key = ${key} and version = ${replaced?.version} returning blob as replaced),
      unused as (${unused(sql`replaced`)})
    select ${refusedUnless(sql`exists (select from changed)`, 'object')}`
  const renamed = sql`
    with changed as (
      update objects set key = ${key}, version = ${randomIds.uuid()}, modified_at = now()
      where key = ${known.key} and version = ${known.version} and not exists (select from objects o where o.key = ${key})
      returning key, size, etag, headers, owner
    ), event as (${event(bucket, replaced === undefined ? 'created' : 'updated')}),
    old as (${event(bucket, 'deleted', sql`${known.key}::text`)})
    select ${refusedUnless(sql`exists (select from changed)`, 'object')}`
  return replaced === undefined ? [renamed] : [room, renamed]
}

/**
 * Removes some of the objects that a condition names, in the order of their keys.
 * @param result of what was removed, which is `changed`
 */
export const removalOf = (
  bucket: string,
  which: Sql,
  result = sql`select count(*)::integer as removed from changed`,
): Sql => sql`
  with changed as (
    delete from objects where key in (select key from objects where ${which} order by key limit ${OBJECT_LIMITS.objectsRemovedMax} for update)
    returning blob as replaced, key, size, etag, headers, owner
  ), unused as (${unused(sql`replaced`)}), event as (${event(bucket, 'deleted')})
  ${result}`

/** The objects whose keys begin with a prefix. */
export function below(prefix: string): Sql {
  const end = successorOf(prefix)
  return sql`key >= ${prefix}${end === undefined ? sql`` : sql` and key < ${end}`}`
}

/** Lets the sweeper remove blobs. */
const unused = (blob: Sql): Sql =>
  sql`insert into unused_blobs (blob) select ${blob} from changed where ${blob} is not null`

const event = (bucket: string, verb: 'created' | 'updated' | 'deleted', key = sql`key`): Sql => sql`
  insert into outbox (topic, document, bytes)
  select ${`objects.${verb}`}, o.data, octet_length(o.data::text) from changed cross join lateral (
    select json_build_object('bucket', ${bucket}::text, 'key', ${key}, 'size', size, 'etag', '"' || etag || '"',
      'content_type', headers ->> 'content-type', 'owner', owner) as data) o`

/**
 * Changes an object: reads it, and repeats that if others change it meanwhile.
 * @param decide checks conditions of the entry that was read, and makes the change, whose batch fails if the entry is another one by then
 * @param known the entry as it was read before
 * @throws Problem `overloaded` if others change it all the time
 */
export async function changeObject<T>(
  scope: WorkspaceScope,
  key: string,
  decide: (known: CatalogueEntry | undefined) => Promise<T>,
  known?: { readonly entry: CatalogueEntry | undefined },
): Promise<T> {
  let entry = known === undefined ? await findEntry(scope, key) : known.entry
  return retryContended('Others change the object all the time.', async () => {
    try {
      return await decide(entry)
    } catch (error) {
      // Another object may have come to the key at the same moment; and a quota is locked before or after an object.
      const isContended =
        readObjectChange(error) === 'object' ||
        violated(error) === 'objects_pkey' ||
        refusal(error) === 'deadlock'
      if (!isContended) throw error
      entry = await findEntry(scope, key)
      return undefined
    }
  })
}

export interface ListedEntry {
  readonly key: string
  readonly size: number
  readonly etag: string
  readonly modifiedMs: number
}

/** Keys that begin alike up to the delimiter, as one item of a list. */
export interface CommonPrefix {
  readonly prefix: string
}

export interface ListRequest {
  readonly prefix: string
  /** Items up to and including this key or common prefix are skipped. */
  readonly after: string | undefined
  /** Keys that have it behind the prefix are listed as their common prefix. */
  readonly delimiter: string | undefined
  readonly size: number
}

/** Entries and common prefixes in the byte order of their keys. @throws Problem `value_invalid` for a delimiter of U+10FFFF alone, which no text is behind */
export async function listEntries(
  scope: WorkspaceScope,
  { prefix, after, delimiter, size }: ListRequest,
): Promise<(ListedEntry | CommonPrefix)[]> {
  const until = sql` and ${below(prefix)}`
  const start = sql`greatest(${prefix}, ${startAfter({ prefix, delimiter }, after)}) collate "C"`
  if (delimiter === undefined)
    return scope.rows<ListedEntry>(
      sql`select ${LISTED} from objects where key >= ${start}${until} order by key limit ${size}`,
    )
  if (successorOf(delimiter) === undefined) throw new Problem('value_invalid')
  const rows = await scope.rows<ListedEntry & { readonly common: string | null }>(
    grouped({ prefix, delimiter, size }, start, until),
  )
  return rows.map(({ common, ...entry }) => (common === null ? entry : { prefix: common }))
}

const LISTED = sql`key, size, etag, (extract(epoch from modified_at) * 1000)::bigint as "modifiedMs"`

/** The first text behind a key, and behind the keys of the common prefix that it belongs to. */
function startAfter({ prefix, delimiter }: Pick<ListRequest, 'prefix' | 'delimiter'>, after = ''): string {
  if (after === '') return ''
  const at =
    delimiter === undefined || !after.startsWith(prefix) ? -1 : after.indexOf(delimiter, prefix.length)
  if (at < 0) return `${after}${FIRST}`
  const common = after.slice(0, at + (delimiter?.length ?? 0))
  return successorOf(common) ?? common
}

/** No key has a character before it. */
const FIRST = '\u0001'

/** Looks for each item from the end of the one before, so that the keys below a common prefix cost nothing. */
const grouped = (
  { prefix, delimiter, size }: { prefix: string; delimiter: string; size: number },
  start: Sql,
  until: Sql,
): Sql => sql`
  with recursive item as (
    (${itemFrom(start, { prefix, delimiter, until })})
    union all
    select next.* from item cross join lateral (${itemFrom(sql`item.behind`, { prefix, delimiter, until })}) next
  )
  select common, ${LISTED} from item limit ${size}`

/** The first key from a text on, with its common prefix if it has one, and the first text behind both. */
const itemFrom = (
  from: Sql,
  { prefix, delimiter, until }: { prefix: string; delimiter: string; until: Sql },
): Sql => sql`
  select o.*, g.common, case when g.common is null then o.key || ${FIRST}
      else left(g.common, -${[...delimiter].length}::integer) || ${successorOf(delimiter) ?? delimiter} end collate "C" as behind
  from (select key, size, etag, modified_at from objects where key >= ${from}${until} order by key limit 1) o
    cross join lateral (select strpos(substr(o.key, ${[...prefix].length + 1}::integer), ${delimiter}) as at) d
    cross join lateral (select case when d.at > 0
      then left(o.key, ${[...prefix].length + [...delimiter].length - 1}::integer + d.at) end as common) g`

const LAST = 0x10_ff_ff
const [SURROGATES_FROM, SURROGATES_TO] = [0xd8_00, 0xdf_ff]

/** The first text, in byte order of UTF-8, after all that begin with `prefix`; undefined if there is none. */
export function successorOf(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0) ?? 0)
  while (points.at(-1) === LAST) points.pop()
  const last = points.pop()
  if (last === undefined) return undefined
  const isBeforeSurrogates = last + 1 === SURROGATES_FROM
  return String.fromCodePoint(...points, isBeforeSurrogates ? SURROGATES_TO + 1 : last + 1)
}
