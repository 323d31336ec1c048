/** Builds and drops indexes of tables that are in use, which no transaction can do and only the owner may. */

import { Client, DatabaseError } from 'pg'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { TOO_LONG, tooLongForIndex } from './errors.ts'

/** Where an index is declared: the schema and the index's name there. */
export interface IndexPlace {
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
   * Builds an index while others read and write. What a crash has left of it is cleared away before. Its statement is
   * made by the database of the declaration as it stands now, and of nothing that travelled.
   * @returns whether it is there; `false` where two documents have the same of a unique one's fields
   * @throws Problem `not_found` where nobody declares it any more, `value_invalid` where a text is too long for an
   *   index, `dependency_unavailable` otherwise: try again
   */
  async build(ref: WorkspaceRef, place: IndexPlace): Promise<boolean> {
    return this.#session(ref, place, async (client) => {
      const { rows } = await client.query(
        `select tenon.index_statement(s, i, true) as text from tenon.schemas s, jsonb_array_elements(s.indexes) i
         where s.id = $1 and i ->> 'name' = $2`,
        [place.schemaId, place.name],
      )
      if (rows[0] === undefined)
        throw new Problem('not_found', { detail: 'Nobody declares this index any more.' })
      await clear(client, place)
      try {
        await client.query(String(rows[0].text))
        return true
      } catch (error) {
        await clear(client, place)
        const code = error instanceof DatabaseError ? error.code : undefined
        if (code === UNIQUE_VIOLATION) return false
        throw code === TOO_LONG ? tooLongForIndex(error) : error
      }
    })
  }

  /** Clears away what is left of an index that could not be built; one that is whole stays. */
  async clear(ref: WorkspaceRef, place: IndexPlace): Promise<void> {
    await this.#session(ref, place, (client) => clear(client, place))
  }

  /** One at a time for each schema. The owner too is under row-level security: the session is of one workspace. */
  async #session<T>(
    ref: WorkspaceRef,
    { schemaId }: IndexPlace,
    work: (client: Client) => Promise<T>,
  ): Promise<T> {
    const client = new Client({
      connectionString: this.#url,
      application_name: 'tenon-builder',
      connectionTimeoutMillis: LIMITS.poolWaitMs,
      options: optionsOf(ref),
    })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('select pg_advisory_lock(hashtextextended($1, 16))', [schemaId])
      return await work(client)
    } catch (cause) {
      if (cause instanceof Problem) throw cause
      throw new Problem('dependency_unavailable', { detail: 'The index could not be built now.', cause })
    } finally {
      await client.end().catch(() => {})
    }
  }
}

const UNIQUE_VIOLATION = '23505'

/** Settings of the session. The server ends what it does for a client that is gone, as after a crash of ours. */
function optionsOf({ tenantId, workspaceId }: WorkspaceRef): string {
  const settings = {
    role: 'tenon_owner',
    'tenon.tenant': tenantId,
    'tenon.workspace': workspaceId,
    lock_timeout: LIMITS.builderLockWaitMs,
    client_connection_check_interval: LIMITS.builderCheckMs,
  }
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')
}

/** An index that was not finished is not used and still slows, or even refuses, what is written. */
async function clear(client: Client, { schemaId, name }: IndexPlace): Promise<void> {
  const index = `${schemaId}_${name}`
  const { rows } = await client.query(
    `select from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'tenon_data'::regnamespace and c.relname = $1 and not i.indisvalid`,
    [index],
  )
  if (rows.length > 0)
    await client.query(`drop index concurrently tenon_data.${client.escapeIdentifier(index)}`)
}
