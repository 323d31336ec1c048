/** Changes of documents that wait to be passed on: taken tenant by tenant in the order in which they were made, gone when that is done. */

import { seededIds, typeId } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql } from '../pg/sql.ts'
import type { SystemScope } from '../system.ts'
import { cloudEvent, sourceOf } from './events.ts'
import { changesOf, type Message, type StreamKey } from './streams.ts'

/** A message for one stream. */
export interface Addressed {
  readonly key: StreamKey
  readonly message: Message
}

/** With its place in the outbox. */
export interface Taken extends Addressed {
  readonly tenantId: TenantId
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
  /** As text, which goes on as it is; null where the document is gone. */
  readonly document: string | null
  readonly at: string
  readonly event_id: string
  readonly anon_reads: boolean
  readonly more_behind: string | null
  readonly hops: number
}

export class Outbox {
  readonly #system: SystemScope
  /** Where more tenants have changes than take part at once: the last one that did. */
  #after = ''

  /** @param system of a session, which holds the lock */
  constructor(system: SystemScope) {
    this.#system = system
  }

  /** The next changes, once those before them are passed on. Empty where there is none. */
  async next(passedOn: readonly Taken[]): Promise<Taken[]> {
    const after = this.#after
    const oldest = inTurns(after)
    const statements = passedOn.length === 0 ? [oldest] : [forget(passedOn), oldest]
    const rows = ((await this.#system.batch(...statements)).at(-1) ?? []) as unknown as Row[]
    this.#after = rows[0]?.more_behind ?? ''
    // Behind the last tenant comes the first one.
    return rows.length === 0 && after !== '' ? this.next([]) : rows.map(toTaken)
  }

  async forget(passedOn: readonly Taken[]): Promise<void> {
    await this.#system.rows(forget(passedOn))
  }
}

/** Exactly these: what was written earlier and committed later may have a lower number. */
const forget = (passedOn: readonly Taken[]): Sql => {
  const places = JSON.stringify(passedOn.map(({ tenantId, seq }) => ({ tenant: tenantId, n: seq })))
  return sql`delete from outbox using jsonb_to_recordset(${places}::jsonb) as r (tenant text, n bigint)
    where tenant_id = r.tenant and seq = r.n`
}

/**
 * The oldest changes of each tenant in turn: the first of all, the second of all, and so on, as many as fit. A tenant's
 * own stay in order. Tenants are looked up one after the other in the index, those behind `after`.
 */
const inTurns = (after: string): Sql => sql`
  with recursive tenants as (
    (select tenant_id, 1 as n from outbox where tenant_id > ${after} order by tenant_id limit 1)
    union all
    select next.tenant_id, n + 1 from tenants t cross join lateral (
      select tenant_id from outbox where tenant_id > t.tenant_id order by tenant_id limit 1) next
    where n < ${LIMITS.relayTenantsMax}
  ), ranked as (
    select o.*, row_number() over (partition by o.tenant_id order by o.seq) as turn
    from tenants cross join lateral (select * from outbox o where o.tenant_id = tenants.tenant_id
      order by o.tenant_id, o.seq limit (select ceil(${LIMITS.relayChangesMax}::numeric / count(*)) from tenants)) o
  ), placed as (
    select *, row_number() over (order by turn, seq) as place, sum(bytes) over (order by turn, seq) - bytes as ahead
    from ranked
  )
  select seq, tenant_id, workspace_id, collection, verb, document_id, version, document::text, at, event_id, anon_reads, hops,
    (select max(tenant_id) from tenants having count(*) = ${LIMITS.relayTenantsMax}) as more_behind
  from placed where place <= ${LIMITS.relayChangesMax} and ahead < ${LIMITS.relayBytesMax} order by place`

function toTaken(row: Row): Taken {
  const { seq, tenant_id, workspace_id, collection, verb, document_id, version, document, at, hops } = row
  const topic = `collections.${collection}.${verb}`
  const source = sourceOf(workspace_id)
  const event = cloudEvent({
    id: eventId(row),
    source,
    topic,
    time: at,
    data: { id: document_id, version },
    hops,
  })
  const text = document === null ? JSON.stringify(event) : withDocument(JSON.stringify(event), document)
  const key = changesOf({ tenantId: tenant_id, workspaceId: workspace_id })
  return { tenantId: tenant_id, seq, key, message: { topic, source, text, anonReads: row.anon_reads } }
}

/** Puts a document's text into that of its event, whose last member is `data`: large ones are not parsed to be written again. */
function withDocument(event: string, document: string): string {
  const text = SPELT_OUT.test(document) ? JSON.stringify(JSON.parse(document)) : document
  return `${event.slice(0, -2)},"document":${text}}}`
}

/** PostgreSQL writes 1e300 as 301 digits; JSON.stringify none of more than 21. */
const SPELT_OUT = /[0-9]{22}/

/** The row's own id with its time in front, as ids of events have it. */
function eventId({ at, event_id }: Row): string {
  const random = Buffer.from(event_id.replaceAll('-', ''), 'hex')
  return typeId('evt', seededIds(Date.parse(at), () => random).uuid())
}
