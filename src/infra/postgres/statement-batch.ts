/**
 * Several statements in one round trip: extended-protocol messages up to one Sync are one transaction.
 *
 * The pipeline mode of `pg` 8.23 does the same with one Sync for each of begin, settings, statement and commit. It has half
 * the rate (16 connections, read of one row: 3,190 a second instead of 6,547), and takes twice the CPU time of the
 * client and 1.5 times that of the server; so this implementation stays (decision 29).
 */

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type ClientBase, type Connection, type Submittable, types } from 'pg'
import { Problem } from '../../core/problem.ts'
import { INFRA_LIMITS } from '../limits.ts'
import type { Sql } from './sql.ts'

export type DatabaseRole =
  | 'tenon_anon'
  | 'tenon_user'
  | 'tenon_service'
  | 'tenon_tables'
  | 'tenon_admin'
  | 'tenon_operator'
  | 'tenon_relay'
  | 'tenon_reconciler'
  | 'tenon_triggers'
  | 'tenon_issuer'
  | 'tenon_payload_keys'
  | 'tenon_purger'
  | 'tenon_key_rotation'

/**
 * Session settings of a transaction, which row-level security reads. An empty tenant shows no rows, except to roles that see all
 * tenants. An empty workspace shows no rows of data, and all rows of the tenant to policies of the kind 'tenant' (roles.sql).
 */
export interface SessionContext {
  readonly role: DatabaseRole
  readonly tenant: string
  readonly workspace: string
  readonly statementTimeoutMs: number
  /** Chain depth that is written with changes of documents; 0 by default. */
  readonly chainDepth?: number
  /** JSON array of the subjects that are written with changes of documents as those behind them. */
  readonly causedBy?: string | undefined
  /** The trace that is written with executions, runs and changes of documents ({@link traceText} in core/trace.ts). */
  readonly trace?: string
  /** JSON of the end user, for the role `tenon_user`: `tenon.caller()` in roles.sql. */
  readonly user?: string
  /** True if PostgreSQL refuses all statements that change something. */
  readonly readOnly?: true
}

/** Batches that may share a transaction if their contexts are equal: those that read, or those that write. */
export type BatchGroup = 'reading' | 'writing'

export type Row = Record<string, unknown>
type Parser = (text: string) => unknown

interface Column {
  readonly name: string
  readonly parse: Parser
}

/** The prepared statements of a connection. */
interface Prepared {
  /** By statement name, once they are described; the least recently used first. */
  readonly columns: Map<string, readonly Column[]>
  /** Parsed or closed in a failed batch, so their state is unknown. The next batch closes them. */
  readonly uncertain: Set<string>
  /** How many there have been. */
  count: number
}

const PREPARED = new WeakMap<Connection, Prepared>()

/**
 * True if the connection should end. The process of the server keeps a description of each table that it has used, with its columns, indexes and
 * policies, until its connection ends: 18 KiB for each declared collection that one connection has read.
 */
export function hasPreparedMany(client: ClientBase): boolean {
  const { connection } = client as unknown as { readonly connection: Connection }
  return (PREPARED.get(connection)?.count ?? 0) >= INFRA_LIMITS.connectionStatementsMax
}

interface BatchOptions {
  /** Number of leading statements that are not the caller's: errors number the others, from 0. */
  readonly own: number
  /** False if no statement may outlive the batch, since the next one may have another server connection. */
  readonly isPrepared: boolean
  /** Of all rows together. */
  readonly rowsBytesMax?: number | undefined
}

/**
 * Sends all statements and one Sync (PostgreSQL manual, "Extended Query", implicit transaction). An error rolls all of them
 * back, and the server skips the rest. A transaction-local setting of the first statement holds for the rest and ends with
 * them, without another round trip.
 */
export class Batch implements Submittable {
  /** Rows per statement, in order. Rejects with the server's error, or a Problem if the rows are too large. */
  readonly done: Promise<Row[][]>
  readonly #statements: readonly Sql[]
  readonly #own: number
  readonly #rowsBytesMax: number
  readonly #isPrepared: boolean
  readonly #names: readonly string[]
  readonly #rows: Row[][]
  readonly #parsed: string[] = []
  readonly #dropped: string[] = []
  #prepared: Prepared = { columns: new Map(), uncertain: new Set(), count: 0 }
  #at = 0
  #bytes = 0
  #resolve: (rows: Row[][]) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(statements: readonly Sql[], { own, isPrepared, rowsBytesMax }: BatchOptions) {
    this.#rowsBytesMax = rowsBytesMax ?? INFRA_LIMITS.rowsBytesMax
    this.#isPrepared = isPrepared
    this.#statements = statements
    this.#own = own
    this.#names = statements.map((statement) => NAMES.memo(statement.text))
    this.#rows = statements.map(() => [])
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  submit(connection: Connection): void {
    if (this.#isPrepared) {
      this.#prepared = PREPARED.get(connection) ?? this.#prepared
      PREPARED.set(connection, this.#prepared)
    }
    connection.stream.cork()
    // Closing an unknown statement is no error (manual, "Message Formats", Close); it precedes statements that may fail.
    for (const name of this.#prepared.uncertain) connection.close({ type: 'S', name }, true)
    this.#prepared.uncertain.clear()
    for (const [index, statement] of this.#statements.entries()) this.#send(connection, index, statement)
    connection.sync()
    connection.stream.uncork()
  }

  #send(connection: Connection, index: number, statement: Sql): void {
    // The next statement without a name replaces the one before.
    const name = this.#isPrepared ? (this.#names[index] ?? '') : ''
    const columns = this.#prepared.columns.get(name)
    const known = columns !== undefined
    if (known) {
      this.#prepared.columns.delete(name)
      this.#prepared.columns.set(name, columns)
    }
    if (!known && !this.#parsed.includes(name)) {
      if (this.#isPrepared) this.#closeOldest(connection)
      connection.parse({ name, text: statement.text, types: [] }, true)
      if (this.#isPrepared) this.#notePrepared(name)
    }
    connection.bind({ portal: '', statement: name, values: statement.values }, true)
    if (!known) connection.describe({ type: 'P', name: '' }, true)
    connection.execute({ portal: '', rows: '' }, true)
  }

  #notePrepared(name: string): void {
    this.#parsed.push(name)
    this.#prepared.count += 1
  }

  /**
   * Queries of users have endless shapes, and each prepared statement occupies memory of the server until the connection
   * ends; so the least recently used one is closed.
   */
  #closeOldest(connection: Connection): void {
    const { columns } = this.#prepared
    for (const name of columns.keys()) {
      if (columns.size + this.#parsed.length < INFRA_LIMITS.preparedStatementsMax) return
      if (this.#names.includes(name)) continue
      columns.delete(name)
      connection.close({ type: 'S', name }, true)
      this.#dropped.push(name)
    }
  }

  handleRowDescription(message: { fields: { name: string; dataTypeID: number }[] }): void {
    const columns = message.fields.map((field) => ({ name: field.name, parse: parserOf(field.dataTypeID) }))
    this.#prepared.columns.set(this.#names[this.#at] ?? '', columns)
  }

  /** Rows beyond the limit are read and dropped, since the connection is reused. */
  handleDataRow(message: { fields: (string | null)[] }): void {
    for (const text of message.fields) this.#bytes += text?.length ?? 0
    if (this.#bytes > this.#rowsBytesMax) {
      this.#rows[this.#at] = []
      return
    }
    const columns = this.#prepared.columns.get(this.#names[this.#at] ?? '') ?? []
    const row: Row = {}
    for (const [index, column] of columns.entries()) {
      const text = message.fields[index] ?? null
      row[column.name] = text === null ? null : column.parse(text)
    }
    this.#rows[this.#at]?.push(row)
  }

  handleCommandComplete(): void {
    const name = this.#names[this.#at] ?? ''
    if (!this.#prepared.columns.has(name)) this.#prepared.columns.set(name, [])
    this.#at += 1
  }

  handleEmptyQuery(): void {
    this.#at += 1
  }

  handlePortalSuspended(): void {}

  handleError(error: Error): void {
    for (const name of this.#parsed) {
      this.#prepared.columns.delete(name)
      this.#prepared.uncertain.add(name)
    }
    for (const name of this.#dropped) this.#prepared.uncertain.add(name)
    this.#reject(Object.assign(error, { statement: this.#at - this.#own }))
  }

  handleReadyForQuery(): void {
    if (this.#bytes > this.#rowsBytesMax) this.#reject(tooMuch(this.#rowsBytesMax))
    else this.#resolve(this.#rows)
  }
}

const tooMuch = (bytesMax: number) =>
  new Problem('output_too_large', { detail: `The answer has more than ${bytesMax} bytes.` })

/** A statement's name is a digest of its text, so equal texts are prepared once per connection. */
const NAMES = new LRUCache<string, string>({
  max: INFRA_LIMITS.preparedStatementsMax * 4,
  memoMethod: (text) => createHash('sha256').update(text).digest('base64url').slice(0, 22),
})

/** Fast path for the most common form, `2026-01-01 00:00:00.123+00`. */
const iso: Parser = (text) =>
  text.length === 26 && text[10] === ' ' && text.endsWith('+00')
    ? `${text.slice(0, 10)}T${text.slice(11, 23)}Z`
    : new Date(text).toISOString()
const PARSERS: Readonly<Record<number, Parser>> = {
  [types.builtins.INT8]: Number,
  [types.builtins.TIMESTAMPTZ]: iso,
}

/** Times become RFC 3339 UTC with milliseconds, bigint becomes number: ours stay below 2^53. */
function parserOf(oid: number): Parser {
  return PARSERS[oid] ?? (types.getTypeParser(oid, 'text') as Parser)
}
