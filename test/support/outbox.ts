/** Changes written by hand, as a store writes them, with the rights of a service key; and what was told of changes. */

import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { inject } from 'vitest'
import { type Heard, hear, messages } from './hear.ts'
import type { Running } from './start.ts'
import { eventually, type Room } from './tenants.ts'

export interface Change {
  readonly collection: string
  readonly verb?: 'created' | 'updated' | 'deleted'
  readonly id?: string
  readonly version?: number
  readonly document?: unknown
}

/** A transaction of the room's service key; the caller ends it and the connection. */
export async function transaction(
  room: Room,
  mask = 'tenon_service',
  at: Running = inject('tenon'),
): Promise<Client> {
  const client = new Client({ connectionString: at.env['DATABASE_APP_URL'] ?? '' })
  await client.connect()
  await client.query('begin')
  await client.query(
    "select set_config('role', $1, true), set_config('tenon.tenant', $2, true), set_config('tenon.workspace', $3, true)",
    [mask, room.tenantId, room.workspaceId],
  )
  return client
}

export async function note(client: Client, changes: readonly Change[]): Promise<void> {
  const rows = changes.map(({ collection, verb = 'created', id = randomUUID(), version = 1, document }) => ({
    ...{ collection, verb, id, version },
    document: verb === 'deleted' ? null : document,
  }))
  await client.query(
    `insert into tenon.outbox (collection, verb, document_id, version, document, bytes, anon_reads)
     select collection, verb, id, version, document, coalesce(octet_length(document::text), 0),
       not exists (select from tenon.schemas s where s.collection = r.collection and not s.anon_reads)
     from jsonb_to_recordset($1::jsonb) as r (collection text, verb text, id uuid, version bigint, document json)`,
    [JSON.stringify(rows)],
  )
}

/** All of them at once. */
export async function change(room: Room, changes: readonly Change[], at?: Running): Promise<void> {
  const client = await transaction(room, 'tenon_service', at)
  try {
    await note(client, changes)
    await client.query('commit')
  } finally {
    await client.end()
  }
}

const MARKS = new Set<string>()

/** All that was ever told of a collection: what had been changed when this was called. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape
export async function told(room: Room, collection: string): Promise<any[]> {
  const mark = randomUUID()
  MARKS.add(mark)
  await change(room, [{ collection, id: mark, document: {} }])
  const heard = await hear(room.service, `topic=collections.${collection}.*`, { 'last-event-id': '0-0' })
  const isMark = ({ data }: Heard) => data.data.id === mark
  await eventually(async () => messages(heard).find(isMark))
  const before = messages(heard).slice(0, messages(heard).findIndex(isMark))
  return before.map(({ data }) => data).filter(({ data }) => !MARKS.has(data.id))
}
