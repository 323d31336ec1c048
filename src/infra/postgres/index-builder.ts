/** Builds and drops indexes of tables in use, which only the owner may do, and outside of transactions. */

import { Client, DatabaseError, type QueryConfig } from 'pg'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable as serverUnavailable } from '../unavailable.ts'
import { TOO_LONG, tooLongForIndex } from './errors.ts'
import type { Sql } from './sql.ts'

/** A declared index: the schema, and its name there. */
export interface DeclaredIndex {
  readonly schemaId: string
  /** `i1`, `i2`, … */
  readonly name: string
}

export class Builder {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  /**
   * Builds an index concurrently, after it has dropped what a crash may have left of it.
   * @param statement `create index concurrently …`
   * @returns `false` if two documents have equal values in the fields of a unique index
   * @throws Problem `value_invalid` if a text is too long for an index, `dependency_unavailable` otherwise: try again
   */
  async build(ref: WorkspaceRef, place: DeclaredIndex, statement: Sql): Promise<boolean> {
    return this.#session(ref, place, async (client) => {
      await clear(client, place)
      try {
        await client.query(statement.text)
        return true
      } catch (error) {
        await clear(client, place)
        const code = error instanceof DatabaseError ? error.code : undefined
        if (code === UNIQUE_VIOLATION) return false
        throw code === TOO_LONG ? tooLongForIndex(error) : error
      }
    })
  }

  /** Drops an index that could not be built; a valid one stays. */
  async clear(ref: WorkspaceRef, place: DeclaredIndex): Promise<void> {
    await this.#session(ref, place, (client) => clear(client, place))
  }

  /** One session at a time for each schema. */
  async #session<T>(
    ref: WorkspaceRef,
    { schemaId }: DeclaredIndex,
    work: (client: Client) => Promise<T>,
  ): Promise<T> {
    const client = new Client({
      connectionString: this.#url,
      application_name: 'tenon-builder',
      connectionTimeoutMillis: INFRA_LIMITS.poolWaitMs,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      // Before any other statement: they are the isolation of the session.
      await client.query(settingsOf(ref))
      await client.query('select pg_advisory_lock(hashtextextended($1, 16))', [schemaId])
      return await work(client)
    } catch (cause) {
      if (cause instanceof Problem) throw cause
      throw serverUnavailable('postgres', cause, 'The index could not be built now.')
    } finally {
      await client.end().catch(() => {})
    }
  }
}

const UNIQUE_VIOLATION = '23505'

/**
 * Settings of the session, all or none of them. PgBouncer refuses them as options of the connection. The server cancels statements of a
 * disconnected client.
 */
function settingsOf({ tenantId, workspaceId }: WorkspaceRef): QueryConfig {
  const settings = {
    role: 'tenon_tables',
    'tenon.tenant': tenantId,
    'tenon.workspace': workspaceId,
    lock_timeout: INFRA_LIMITS.builderLockWaitMs,
    client_connection_check_interval: INFRA_LIMITS.builderCheckMs,
  }
  return {
    text: 'select set_config(name, value, false) from unnest($1::text[], $2::text[]) as settings (name, value)',
    values: [Object.keys(settings), Object.values(settings).map(String)],
  }
}

/** An unfinished index is never used, but slows writes, or even refuses them. */
async function clear(client: Client, { schemaId, name }: DeclaredIndex): Promise<void> {
  const index = `${schemaId}_${name}`
  const { rows } = await client.query(
    `select from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'tenon_data'::regnamespace and c.relname = $1 and not i.indisvalid`,
    [index],
  )
  if (rows.length > 0)
    await client.query(`drop index concurrently tenon_data.${client.escapeIdentifier(index)}`)
}
