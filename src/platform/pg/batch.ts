/** Several statements in one round trip: extended-protocol messages up to one Sync are one transaction. */

import { createHash } from 'node:crypto'
import { type Connection, type Submittable, types } from 'pg'
import { LIMITS } from '../../core/limits.ts'
import type { Sql } from './sql.ts'

export type Row = Record<string, unknown>
type Parser = (text: string) => unknown

interface Column {
  readonly name: string
  readonly parse: Parser
}

/** What a connection has prepared: statement name → its columns, once they have been described. */
interface Prepared {
  readonly columns: Map<string, readonly Column[]>
  /** Parsed in a batch that failed: perhaps there, perhaps not. Closed before they are parsed again. */
  readonly uncertain: Set<string>
}

const PREPARED = new WeakMap<Connection, Prepared>()

/**
 * Sends all statements and one Sync (PostgreSQL manual, "Extended Query", implicit transaction). An error rolls
 * all of them back and the server skips what follows it; so a transaction-local setting made by the first
 * statement holds for the rest and dies with them, at the price of no extra round trip.
 */
export class Batch implements Submittable {
  /** Rows per statement, in order. Rejects with the server's error. */
  readonly done: Promise<Row[][]>
  readonly #statements: readonly Sql[]
  readonly #names: readonly string[]
  readonly #rows: Row[][]
  readonly #parsed: string[] = []
  #prepared: Prepared = { columns: new Map(), uncertain: new Set() }
  #at = 0
  #resolve: (rows: Row[][]) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(statements: readonly Sql[]) {
    this.#statements = statements
    this.#names = statements.map((statement) => nameOf(statement.text))
    this.#rows = statements.map(() => [])
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  submit(connection: Connection): void {
    this.#prepared = PREPARED.get(connection) ?? this.#prepared
    PREPARED.set(connection, this.#prepared)
    connection.stream.cork()
    this.#forgetOldest(connection)
    for (const [index, statement] of this.#statements.entries()) this.#send(connection, index, statement)
    connection.sync()
    connection.stream.uncork()
  }

  /** Queries of callers have as many texts as shapes: the longest unused are closed, on both sides. */
  #forgetOldest(connection: Connection): void {
    const { columns } = this.#prepared
    for (const name of this.#names) {
      const known = columns.get(name)
      if (known === undefined) continue
      columns.delete(name)
      columns.set(name, known)
    }
    for (const name of columns.keys()) {
      if (columns.size <= LIMITS.preparedPerConnectionMax || this.#names.includes(name)) return
      connection.close({ type: 'S', name }, true)
      columns.delete(name)
    }
  }

  #send(connection: Connection, index: number, statement: Sql): void {
    const name = this.#names[index] ?? ''
    const known = this.#prepared.columns.has(name)
    if (!known && !this.#parsed.includes(name)) {
      if (this.#prepared.uncertain.delete(name)) connection.close({ type: 'S', name }, true)
      connection.parse({ name, text: statement.text, types: [] }, true)
      this.#parsed.push(name)
    }
    connection.bind({ portal: '', statement: name, values: statement.values }, true)
    if (!known) connection.describe({ type: 'P', name: '' }, true)
    connection.execute({ portal: '', rows: '' }, true)
  }

  handleRowDescription(message: { fields: { name: string; dataTypeID: number }[] }): void {
    const columns = message.fields.map((field) => ({ name: field.name, parse: parserOf(field.dataTypeID) }))
    this.#prepared.columns.set(this.#names[this.#at] ?? '', columns)
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
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
    this.#reject(error)
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#rows)
  }
}

const NAMES = new Map<string, string>()

/** A statement's name is a digest of its text: the same text is prepared once per connection. */
function nameOf(text: string): string {
  const known = NAMES.get(text)
  if (known !== undefined) return known
  const name = createHash('sha256').update(text).digest('base64url').slice(0, 22)
  if (NAMES.size >= LIMITS.statementNamesMax) NAMES.clear()
  NAMES.set(text, name)
  return name
}

const iso: Parser = (text) => new Date(text).toISOString()
const PARSERS: Readonly<Record<number, Parser>> = {
  [types.builtins.INT8]: Number,
  [types.builtins.TIMESTAMPTZ]: iso,
}

/** Times come as RFC 3339 UTC with milliseconds, bigint as number: ours stay below 2^53. */
function parserOf(oid: number): Parser {
  return PARSERS[oid] ?? (types.getTypeParser(oid, 'text') as Parser)
}
