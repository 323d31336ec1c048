/**
 * Counts values by the master key that they depend on, and encrypts those of other keys under the first one: in pages, beside running
 * processes, and as often as it takes. Whatever ends it early, the next one goes on where values of other keys are left.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { ChainSigner } from '../../access/audit/chain-signer.ts'
import { Secrets } from '../../infra/crypto/secrets.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { StatementExecutor } from '../../infra/postgres/database.ts'
import {
  keyChecksOf,
  readInstallation,
  replaceKeyCheck,
  WRONG_KEY,
} from '../../infra/postgres/installation.ts'
import { commas, Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { type Resealer, type RowFacts, SEALED_COLUMNS, type SealedColumn } from './sealed-columns.ts'

/** Values that depend on one master key. */
export interface KeyUse {
  readonly key_id: string
  /** `first`: encrypts new values; `other`: decrypts; `missing`: is not configured; `none`: the values are not sealed ones. */
  readonly role: 'first' | 'other' | 'missing' | 'none'
  readonly values: number
  /** Further ones that end by themselves, since they cannot be made again, and when the last of them does (RFC 3339). */
  readonly ending: number
  readonly last_ends_at: string | null
  /** The values by column. */
  readonly columns: Readonly<Record<string, number>>
}

/** A value that is left as it is. */
interface Failure {
  /** `<table>.<column>` */
  readonly column: string
  /** The primary key of its row. */
  readonly row: RowFacts
  readonly reason: string
}

export interface Rotation {
  readonly key_id: string
  readonly resealed: number
  readonly failed: readonly Failure[]
  /** True if no value of another key is left. */
  readonly complete: boolean
  readonly keys: readonly KeyUse[]
}

export interface RotationOptions {
  /** Opens what would be encrypted again, and changes nothing. */
  readonly dryRun?: boolean
  /** Called after each page with changes, with all that were changed so far. */
  readonly onProgress?: (column: string, resealed: number) => void
}

/** The database of the owner, and the keys. */
export interface Installed {
  readonly database: StatementExecutor
  /** The first one encrypts. */
  readonly masterKeys: string
}

interface PageRow {
  readonly facts: RowFacts
  readonly keyIds: readonly string[]
  /** Undefined if it depends on the first key alone. */
  readonly value: string | undefined
  readonly endsAt: string | null
}

const nameOf = ({ table, column }: SealedColumn) => `${table}.${column}`
const reach = (database: StatementExecutor) => new SystemScope('key-rotation', database)

/** @throws Error if the database has the values of another installation, `dependency_unavailable` */
export async function countKeys({ database, masterKeys }: Installed): Promise<KeyUse[]> {
  await requireOwnKey(database, masterKeys)
  const { keyIds } = new Secrets(masterKeys)
  const uses = new Map<string, KeyUse>(keyIds.map((id) => [id, unused(id, keyIds)]))
  for (const column of SEALED_COLUMNS)
    for await (const page of pages(reach(database), column, keyIds[0] ?? '', false))
      for (const { keyIds: ids, endsAt } of page)
        for (const id of ids) uses.set(id, counted(uses.get(id) ?? unused(id, keyIds), column, endsAt))
  return [...uses.values()]
}

/**
 * Encrypts all values of other keys under the first one. Concurrent writers and other rotations win: what they have changed meanwhile is
 * looked at again.
 * @throws Error before the first change if the database has the values of another installation; `dependency_unavailable`
 */
export async function rotateMasterKey(
  installed: Installed,
  options: RotationOptions = {},
): Promise<Rotation> {
  const { database, masterKeys } = installed
  await requireOwnKey(database, masterKeys)
  const secrets = new Secrets(masterKeys)
  const run = new Run(reach(database), { secrets, signer: new ChainSigner(secrets) }, options)
  const isComplete = await run.toTheEnd()
  if (isComplete && !options.dryRun) await replaceKeyCheck(reach(database), secrets)
  const { resealed, failed } = run
  return { key_id: secrets.keyId, resealed, failed, complete: isComplete, keys: await countKeys(installed) }
}

/** One rotation. */
class Run {
  readonly #system: SystemScope
  readonly #by: Resealer
  readonly #options: RotationOptions
  readonly #failures = new Map<string, Failure>()
  resealed = 0

  constructor(system: SystemScope, by: Resealer, options: RotationOptions) {
    this.#system = system
    this.#by = by
    this.#options = options
  }

  get failed(): readonly Failure[] {
    return [...this.#failures.values()]
  }

  /** @returns false if values of other keys are left: those that failed, or those that processes with another first key go on to write */
  async toTheEnd(): Promise<boolean> {
    for (let pass = 0; pass < INFRA_LIMITS.keyRotation.passesMax; pass += 1) {
      this.#failures.clear()
      let found = 0
      for (const column of SEALED_COLUMNS) found += await this.#column(column)
      if (found === this.#failures.size) return found === 0
      if (this.#options.dryRun) return false
    }
    return false
  }

  /** @returns the rows that had values of other keys */
  async #column(column: SealedColumn): Promise<number> {
    const { reseal } = column
    if (reseal === undefined) return 0
    let found = 0
    let startedMs = performance.now()
    for await (const page of pages(this.#system, column, this.#by.secrets.keyId, true)) {
      const left = page.flatMap(({ facts, value }) => (value === undefined ? [] : [{ facts, value }]))
      found += left.length
      const opened = await Promise.all(left.map((row) => this.#opened(column, reseal, row)))
      const changes = opened.flatMap((one) => one ?? [])
      if (changes.length > 0 && !this.#options.dryRun) {
        this.resealed += await this.#replace(column, changes)
        this.#options.onProgress?.(nameOf(column), this.resealed)
      }
      // Half of the time is left to the tenants, also while nothing is found.
      await pause(performance.now() - startedMs)
      startedMs = performance.now()
    }
    return found
  }

  async #opened(
    column: SealedColumn,
    reseal: NonNullable<SealedColumn['reseal']>,
    { facts, value }: { readonly facts: RowFacts; readonly value: string },
  ): Promise<Change | undefined> {
    try {
      return { facts, value, fresh: await reseal(facts, value, this.#by) }
    } catch (error) {
      const row = Object.fromEntries(Object.keys(column.key).map((name) => [name, facts[name] ?? '']))
      const failure = { column: nameOf(column), row, reason: reasonOf(error) }
      this.#failures.set(JSON.stringify([failure.column, row]), failure)
      return undefined
    }
  }

  /** In one transaction. A value that has changed since it was read stays. @returns how many were replaced */
  async #replace({ table, column, key, type }: SealedColumn, changes: readonly Change[]): Promise<number> {
    const names = Object.keys(key)
    const given = [
      ...names.map((name) => changes.map(({ facts }) => facts[name] ?? '')),
      changes.map(({ value }) => value),
      changes.map(({ fresh }) => fresh),
    ].map((texts) => sql`${textArray(texts)}::text[]`)
    const aliases = [...names, 'old_value', 'new_value'].map((name) => Sql.identifier(name))
    const own = Sql.identifier(column)
    const isRow = names.reduce(
      (all, name) =>
        sql`${all} and r.${Sql.identifier(name)} = v.${Sql.identifier(name)}::${typeOf(key[name])}`,
      sql`true`,
    )
    const [rows = []] = await this.#system.batch(sql`
      update tenon.${Sql.identifier(table)} r set ${own} = v.new_value::${typeOf(type)}
      from unnest(${commas(given)}) as v(${commas(aliases)})
      where ${isRow} and r.${own} = v.old_value::${typeOf(type)} returning 1 as replaced`)
    return rows.length
  }
}

interface Change {
  readonly facts: RowFacts
  readonly value: string
  readonly fresh: string
}

/** The rows of a column in pages, each of at most so many rows and bytes. @param withValues of rows that depend on another key than this */
async function* pages(
  system: SystemScope,
  column: SealedColumn,
  keyId: string,
  withValues: boolean,
): AsyncGenerator<readonly PageRow[]> {
  let after: readonly string[] | undefined
  while (true) {
    const rows: readonly Record<string, unknown>[] = await system.rows(
      pageOf(column, keyId, withValues, after),
    )
    const last = rows.at(-1)
    if (last === undefined) return
    yield rows.map((row) => pageRow(row))
    const facts = last['facts'] as RowFacts
    after = Object.keys(column.key).map((name) => facts[name] ?? '')
  }
}

const pageRow = ({ facts, key_ids, value, ends_at }: Record<string, unknown>): PageRow => ({
  facts: facts as RowFacts,
  keyIds: key_ids as string[],
  value: (value as string | null) ?? undefined,
  endsAt: ends_at as string | null,
})

function pageOf(
  { table, column, key, about, keyIds, endsAt }: SealedColumn,
  keyId: string,
  withValues: boolean,
  after: readonly string[] | undefined,
): Sql {
  const names = Object.keys(key)
  const keys = commas(names.map((name) => sql`r.${Sql.identifier(name)}`))
  const texts = {
    ...Object.fromEntries(names.map((name) => [name, sql`r.${Sql.identifier(name)}`])),
    ...about,
  }
  const facts = commas(Object.entries(texts).map(([name, value]) => sql`${name}::text, (${value})::text`))
  const own = Sql.identifier(column)
  const values = commas(
    (after ?? []).map((value, index) => sql`${value}::${typeOf(key[names[index] ?? ''])}`),
  )
  const isLater = after === undefined ? sql`true` : sql`(${keys}) > (${values})`
  const value = withValues
    ? sql`case when not key_ids <@ array[${keyId}::text] then value::text end`
    : sql`null`
  return sql`
    select facts, key_ids, ends_at, ${value} as value from (
      select jsonb_build_object(${facts}) as facts, ${keyIds} as key_ids, ${endsAt ?? sql`null::timestamptz`} as ends_at,
        r.${own} as value, row_number() over (order by ${keys}) as n,
        sum(pg_column_size(r.${own})) over (order by ${keys} rows unbounded preceding) as bytes
      from tenon.${Sql.identifier(table)} r
      where r.${own} is not null and ${isLater} order by ${keys} limit ${INFRA_LIMITS.keyRotation.pageRowsMax}
    ) page
    where n = 1 or bytes <= ${INFRA_LIMITS.keyRotation.pageBytesMax} order by n`
}

const TYPES = {
  text: sql`text`,
  name: sql`name`,
  bytea: sql`bytea`,
  integer: sql`integer`,
  jsonb: sql`jsonb`,
}

function typeOf(type: keyof typeof TYPES | undefined): Sql {
  if (type === undefined) throw new TypeError('a column of a primary key must have a type')
  return TYPES[type]
}

/** @throws Error unless one of the keys is that of the database */
async function requireOwnKey(database: StatementExecutor, masterKeys: string): Promise<void> {
  const { applied, keyCheck } = await readInstallation(database, reach(database))
  if (Object.keys(applied).length === 0)
    throw new Error('The database has no schema that this build can read. Run `tenon migrate` first.')
  if (keyCheck !== undefined && !keyChecksOf(masterKeys).includes(keyCheck)) throw new Error(WRONG_KEY)
}

function unused(id: string, configured: readonly string[]): KeyUse {
  const [first] = configured
  const role = id === first ? 'first' : configured.includes(id) ? 'other' : id === '' ? 'none' : 'missing'
  return { key_id: id, role, values: 0, ending: 0, last_ends_at: null, columns: {} }
}

function counted(use: KeyUse, column: SealedColumn, endsAt: string | null): KeyUse {
  const name = nameOf(column)
  const columns = { ...use.columns, [name]: (use.columns[name] ?? 0) + 1 }
  if (column.reseal !== undefined) return { ...use, columns, values: use.values + 1 }
  const last =
    [use.last_ends_at, endsAt]
      .filter((one) => one !== null)
      .sort()
      .at(-1) ?? null
  return { ...use, columns, ending: use.ending + 1, last_ends_at: last }
}

/** Errors of the decryption do not say what they mean. */
function reasonOf(error: unknown): string {
  const { message } = error as Error
  return /authenticate|Invalid/.test(message)
    ? 'The value was changed after it was encrypted, or belongs to another row.'
    : message
}
