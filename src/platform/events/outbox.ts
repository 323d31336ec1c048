/** Changes of documents that wait to be passed on: taken in the order in which they were made, gone when that is done. */

import { seededIds, typeId } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql } from '../pg/sql.ts'
import type { SystemScope } from '../system.ts'
import { cloudEvent, sourceOf } from './events.ts'
import { changesOf, type Message, type StreamKey } from './streams.ts'

/** A message for one stream. */
export interface Addressed {
  readonly key: StreamKey
  readonly message: Message
}

export interface Taken extends Addressed {
  readonly seq: number
}

interface Row {
  readonly seq: number
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  readonly collection: string
  readonly verb: 'created' | 'updated' | 'deleted'
  readonly document_id: string
  readonly version: number
  readonly document: unknown
  readonly at: string
  readonly event_id: string
  readonly anon_reads: boolean
}

/** An arbitrary number of ours. Who has it is the one process that passes changes on. */
const LOCK = 7_302_517

export class Outbox {
  readonly #system: SystemScope

  /** @param system of a session, which holds the lock */
  constructor(system: SystemScope) {
    this.#system = system
  }

  /** Whether it is our turn, until the session ends. */
  async isOurs(): Promise<boolean> {
    const row = await this.#system.row<{ ours: boolean }>(sql`select pg_try_advisory_lock(${LOCK}) as ours`)
    return row?.ours === true
  }

  /** The oldest changes, once those before them are passed on. Empty where there is none. */
  async next(passedOn: readonly Taken[]): Promise<Taken[]> {
    const statements = passedOn.length === 0 ? [OLDEST] : [forget(passedOn), OLDEST]
    const rows = (await this.#system.batch(...statements)).at(-1) ?? []
    return (rows as unknown as Row[]).map(toTaken)
  }

  async forget(passedOn: readonly Taken[]): Promise<void> {
    await this.#system.rows(forget(passedOn))
  }
}

/** Exactly these: what was written earlier and committed later may have a lower number. */
const forget = (passedOn: readonly Taken[]): Sql => {
  const numbers = JSON.stringify(passedOn.map(({ seq }) => seq))
  return sql`delete from outbox where seq in (select value::bigint from jsonb_array_elements_text(${numbers}::jsonb))`
}

/** One after the other, so that no more documents are unpacked than fit. */
const OLDEST = sql`
  with recursive oldest as (
    (select o.*, 1 as n, octet_length(coalesce(document::text, ''))::bigint as bytes from outbox o order by seq limit 1)
    union all
    select o.*, n + 1, bytes + octet_length(coalesce(o.document::text, '')) from oldest before cross join lateral (
      select * from outbox where seq > before.seq order by seq limit 1) o
    where n < ${LIMITS.relayChangesMax} and bytes < ${LIMITS.relayBytesMax}
  )
  select seq, tenant_id, workspace_id, collection, verb, document_id, version, document, at, event_id, anon_reads
  from oldest order by seq`

function toTaken(row: Row): Taken {
  const { seq, tenant_id, workspace_id, collection, verb, document_id, version, document, at } = row
  const topic = `collections.${collection}.${verb}`
  const source = sourceOf(workspace_id)
  const data = { id: document_id, version, ...(verb !== 'deleted' && { document }) }
  const text = JSON.stringify(cloudEvent({ id: eventId(row), source, topic, time: at, data }))
  const key = changesOf({ tenantId: tenant_id, workspaceId: workspace_id })
  return { seq, key, message: { topic, source, text, anonReads: row.anon_reads } }
}

/** The row's own id with its time in front, as ids of events have it. */
function eventId({ at, event_id }: Row): string {
  const random = Buffer.from(event_id.replaceAll('-', ''), 'hex')
  return typeId('evt', seededIds(Date.parse(at), () => random).uuid())
}
