/** Outbox relay: appends document changes and events of the platform to the streams in order, at least once, in one process at a time. */

import type { Redis } from 'ioredis'
import { seededIds, typeId } from '../../core/ids.ts'
import { withSince } from '../../core/policy.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { readTrace } from '../../core/trace.ts'
import type { Log } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../infra/postgres/leader-task.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'
import { Backoff } from '../../infra/retry.ts'
import { unavailable } from '../../infra/unavailable.ts'
import { appendConfirmed, Unconfirmed } from '../../infra/valkey/confirmed-appends.ts'
import { mayFailOver, type ValkeyAddress } from '../../infra/valkey/connect.ts'
import { type Addition, appendEntries, connectToStreams } from '../../infra/valkey/stream-log.ts'
import { StreamTrimmer } from '../../infra/valkey/stream-trimmer.ts'
import { changesOf, type Message, type StreamKey } from '../../infra/valkey/streams.ts'
import { cloudEvent, sourceOf } from './events.ts'
import { EVENT_LIMITS } from './limits.ts'

const TASK = {
  reason: 'relay',
  lock: 7_302_517,
  failureMessage: 'changes of documents wait in the outbox',
} as const

export class Relay {
  readonly #leader: LeaderTask
  readonly #appender: Appender

  constructor(database: Database, valkey: ValkeyAddress | string, log: Log) {
    this.#leader = new LeaderTask(database, TASK, log)
    this.#appender = new Appender(valkey, (error) =>
      log.debug({ err: error }, 'valkey connection of the relay failed'),
    )
  }

  /** Runs until it is closed. A row is deleted only after the stream has stored it. */
  start(): void {
    this.#leader.start((leadership) => this.#relay(new Outbox(leadership.system), leadership))
  }

  /** Waits for the batch under way. */
  async close(): Promise<void> {
    await this.#leader.close()
    this.#appender.close()
  }

  /** Polls with backoff while idle; under load it waits for a batch, since each poll costs a query. */
  async #relay(outbox: Outbox, leadership: Leadership): Promise<void> {
    const backoff = new Backoff(EVENT_LIMITS.relayPollMs)
    let relayed: readonly OutboxMessage[] = []
    while (!leadership.isOver) {
      const messages = await outbox.next(relayed)
      relayed = []
      if (messages.length > 0) {
        await this.#appender.append(messages)
        relayed = messages
        leadership.resetBackoff()
        backoff.reset()
      }
      if (messages.length < EVENT_LIMITS.relayChangesMax / 2) await leadership.wait(backoff.next())
    }
    if (relayed.length > 0) await outbox.delete(relayed)
  }
}

const TIMEOUT_MS = 5_000

export class Appender {
  readonly #at: ValkeyAddress | string
  readonly #onError: (error: Error) => void
  #redis: Redis | undefined
  /** Texts, each with the id of its event, that this connection has appended and no replica has confirmed. */
  readonly #unconfirmed = new Set<string>()
  readonly #trimmer = new StreamTrimmer(EVENT_LIMITS.changesKeptBytesMax)

  constructor(at: ValkeyAddress | string, onError: (error: Error) => void) {
    this.#at = at
    this.#onError = onError
  }

  /**
   * Resolves when the server has stored all messages. If it fails, some streams may have theirs.
   * @throws Problem `dependency_unavailable`
   */
  async append(messages: readonly StreamMessage[]): Promise<void> {
    try {
      this.#redis ??= await this.#connect()
      const redis = this.#redis
      await (mayFailOver(redis) ? this.#appendConfirmed(redis, messages) : appendAll(redis, messages))
      await Promise.all(
        [...Map.groupBy(messages, ({ key }) => key)].map(([key, part]) =>
          this.#trimmer.added(
            redis,
            key,
            part.flatMap(({ message }) => textsOf(message)),
          ),
        ),
      )
    } catch (cause) {
      // A replica may confirm these messages later, but only on this connection.
      if (!(cause instanceof Unconfirmed)) this.close()
      throw unavailable('valkey', cause)
    }
  }

  /** Once a replica confirms this append, it has the earlier ones of the connection too: these are not made again. */
  async #appendConfirmed(redis: Redis, messages: readonly StreamMessage[]): Promise<void> {
    const further = messages.filter(({ message }) => !this.#unconfirmed.has(message.text))
    try {
      const outcomes = await appendConfirmed(redis, additionsOf(further))
      for (const outcome of outcomes) if (outcome instanceof Error) throw outcome
      this.#unconfirmed.clear()
    } catch (error) {
      if (error instanceof Unconfirmed && error.isAppended)
        for (const { message } of further) this.#unconfirmed.add(message.text)
      throw error
    }
  }

  close(): void {
    this.#redis?.disconnect()
    this.#redis = undefined
    this.#unconfirmed.clear()
  }

  /**
   * Opens a new connection after each failure, and sends nothing before it has answered: a server that hung would
   * otherwise receive the same megabytes once for every attempt.
   */
  async #connect(): Promise<Redis> {
    const redis = connectToStreams(this.#at, {
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      connectTimeout: TIMEOUT_MS,
      commandTimeout: TIMEOUT_MS,
    })
    redis.on('error', this.#onError)
    try {
      await redis.connect()
      await redis.ping()
      return redis
    } catch (error) {
      redis.disconnect()
      throw error
    }
  }
}

/** The parts of a message that can be large. */
const textsOf = ({ text, deleted = '', earlier }: Message): string[] => [text, deleted, earlier?.state ?? '']

const additionsOf = (messages: readonly StreamMessage[]): Addition[] =>
  [...Map.groupBy(messages, ({ key }) => key)].map(([key, part]) => ({
    key,
    messages: part.map(({ message }) => message),
    lengthMax: EVENT_LIMITS.changesKeptMax,
  }))

const appendAll = (redis: Redis, messages: readonly StreamMessage[]) =>
  Promise.all(additionsOf(messages).map((addition) => appendEntries(redis, addition)))

/** A message for one stream. */
export interface StreamMessage {
  readonly key: StreamKey
  readonly message: Message
}

/** A message with its key in the outbox. */
export interface OutboxMessage extends StreamMessage {
  readonly tenantId: TenantId
  readonly seq: number
}

interface Row {
  readonly seq: number
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  /** Of an event of the platform, whose data is `document`; null for a change, to which the next four belong. */
  readonly topic: string | null
  readonly collection: string
  readonly verb: 'created' | 'updated' | 'deleted'
  readonly document_id: string
  readonly version: number
  /** JSON text, which is relayed as it is; null after a deletion. */
  readonly document: string | null
  readonly at: string
  readonly event_id: string
  /** Of the document; null if no user created it. */
  readonly owner: string | null
  /** Why a document was deleted, if no request was the cause. */
  readonly reason: string | null
  readonly deleted: string | null
  /** JSON text of the document before an update, `{"updated_at", "fields"}` with the `names` of those that it set; null if rules do not decide who may read it. */
  readonly before: string | null
  /** Of the document; null if the change created it, or a build of 0.1.0 wrote the row. */
  readonly created_at: string | null
  readonly anon_reads: boolean
  readonly user_reads: boolean
  readonly more_behind: string | null
  readonly chain_depth: number
  readonly caused_by: string | null
  readonly trace: string | null
}

export class Outbox {
  readonly #system: SystemScope
  /** The last tenant of the batch before, if more tenants have changes than one batch serves. */
  #after = ''

  /** @param system uses the connection that holds the lock */
  constructor(system: SystemScope) {
    this.#system = system
  }

  /** Deletes the changes that were relayed, and reads the next ones. */
  async next(relayed: readonly OutboxMessage[]): Promise<OutboxMessage[]> {
    const after = this.#after
    const oldest = roundRobin(after)
    const statements = relayed.length === 0 ? [oldest] : [deleteStatement(relayed), oldest]
    const rows = ((await this.#system.batch(...statements)).at(-1) ?? []) as unknown as Row[]
    this.#after = rows[0]?.more_behind ?? ''
    // After the last tenant comes the first one.
    return rows.length === 0 && after !== '' ? this.next([]) : rows.map(toMessage)
  }

  async delete(relayed: readonly OutboxMessage[]): Promise<void> {
    await this.#system.rows(deleteStatement(relayed))
  }
}

/** Names each row: a transaction that commits later may have written a lower number. */
const deleteStatement = (relayed: readonly OutboxMessage[]): Sql => {
  const keys = JSON.stringify(relayed.map(({ tenantId, seq }) => ({ tenant: tenantId, n: seq })))
  return sql`delete from outbox using jsonb_to_recordset(${keys}::jsonb) as r (tenant text, n bigint)
    where tenant_id = r.tenant and seq = r.n`
}

/**
 * Selects the oldest changes round robin: the first of each tenant, the second of each, and so on, as many as fit. Those
 * of one tenant stay in order. The recursion finds the tenants after `after` one by one in the index.
 */
const roundRobin = (after: string): Sql => sql`
  with recursive tenants as (
    (select tenant_id, 1 as n from outbox where tenant_id > ${after} order by tenant_id limit 1)
    union all
    select next.tenant_id, n + 1 from tenants t cross join lateral (
      select tenant_id from outbox where tenant_id > t.tenant_id order by tenant_id limit 1) next
    where n < ${EVENT_LIMITS.relayTenantsMax}
  ), ranked as (
    select o.*, row_number() over (partition by o.tenant_id order by o.seq) as turn
    from tenants cross join lateral (select * from outbox o where o.tenant_id = tenants.tenant_id
      order by o.tenant_id, o.seq limit (select ceil(${EVENT_LIMITS.relayChangesMax}::numeric / count(*)) from tenants)) o
  ), placed as (
    select *, row_number() over (order by turn, seq) as place, sum(bytes) over (order by turn, seq) - bytes as ahead
    from ranked
  )
  select seq, tenant_id, workspace_id, topic, collection, verb, document_id, version, document::text, deleted::text, before::text, created_at, owner, reason, at, event_id, anon_reads,
    user_reads, chain_depth, caused_by, trace,
    (select max(tenant_id) from tenants having count(*) = ${EVENT_LIMITS.relayTenantsMax}) as more_behind
  from placed where place <= ${EVENT_LIMITS.relayChangesMax} and ahead < ${EVENT_LIMITS.relayBytesMax} order by place`

function toMessage(row: Row): OutboxMessage {
  const { seq, tenant_id, workspace_id, collection, verb, document, at, chain_depth, caused_by } = row
  const topic = row.topic ?? `collections.${collection}.${verb}`
  const source = sourceOf(workspace_id)
  const event = cloudEvent({
    id: eventId(row),
    source,
    topic,
    time: at,
    data: row.topic === null ? changeData(row) : JSON.parse(document ?? 'null'),
    chainDepth: chain_depth,
    trace: readTrace(row.trace),
  })
  const isWhole = document === null || row.topic !== null
  const text = isWhole ? JSON.stringify(event) : withDocument(JSON.stringify(event), document)
  const key = changesOf({ tenantId: tenant_id, workspaceId: workspace_id })
  const readers = { anon: row.anon_reads, user: row.user_reads }
  const message = {
    ...{ topic, source, text, readers },
    ...(row.deleted !== null && { deleted: row.deleted }),
    ...(row.created_at !== null && { earlier: earlierOf(row.created_at, row.before) }),
    ...(caused_by !== null && { causedBy: JSON.stringify(withSince(JSON.parse(caused_by), Date.parse(at))) }),
  }
  return { tenantId: tenant_id, seq, key, message }
}

const earlierOf = (createdAt: string, before: string | null) => ({
  createdAt,
  ...(before !== null && { state: before }),
})

const changeData = ({ document_id: id, version, owner, reason }: Row) => ({
  ...{ id, version },
  ...(owner !== null && { owner }),
  ...(reason !== null && { reason }),
})

/** Inserts a document's text into that of its event, whose last member is `data`, so that large documents are not parsed. */
function withDocument(event: string, document: string): string {
  const text = LONG_NUMBER.test(document) ? JSON.stringify(JSON.parse(document)) : document
  return `${event.slice(0, -2)},"document":${text}}}`
}

/** PostgreSQL writes 1e300 as 301 digits; JSON.stringify writes at most 21. */
const LONG_NUMBER = /[0-9]{22}/

/** An event id: the time of the row, then its random id. */
function eventId({ at, event_id }: Row): string {
  const random = Buffer.from(event_id.replaceAll('-', ''), 'hex')
  return typeId('evt', seededIds(Date.parse(at), () => random).uuid())
}
