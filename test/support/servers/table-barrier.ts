/** Locks a table, so that other sessions wait until the test releases it. */

import { Client } from 'pg'
import { call } from '../fixtures/tenants.ts'
import type { OwnPlatform } from '../stack/own-platform.ts'

/** Locks a table, such as that of a collection: its readers and writers wait. */
export class TableBarrier {
  readonly #client: Client
  readonly #table: string

  private constructor(client: Client, table: string) {
    this.#client = client
    this.#table = table
  }

  static async ofCollection({ started, workspace }: OwnPlatform, collection: string): Promise<TableBarrier> {
    const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: {} }
    await call('POST', '/v1/schemas', { as: workspace.operator, at: started.running, body })
    const client = await connected(started)
    const { rows } = await client.query('select relation from tenon.schemas where collection = $1', [
      collection,
    ])
    await client.end()
    return TableBarrier.at({ started }, `tenon_data."${rows[0].relation}"`)
  }

  static async at({ started }: Pick<OwnPlatform, 'started'>, table: string): Promise<TableBarrier> {
    const client = await connected(started)
    await client.query(`begin; lock table ${table} in access exclusive mode`)
    return new TableBarrier(client, table)
  }

  /** The connections that wait for the table. */
  waiting(): Promise<number[]> {
    return waitersOf(this.#client, this.#table)
  }

  async open(): Promise<void> {
    await this.#client.end()
  }
}

/** The connections that wait for a lock of the table, by the ids of their processes. */
export async function waitersOf(client: Client, table: string): Promise<number[]> {
  const { rows } = await client.query(
    'select distinct pid from pg_locks where relation = $1::regclass and not granted',
    [table],
  )
  return rows.map(({ pid }) => pid)
}

async function connected({ running }: OwnPlatform['started']): Promise<Client> {
  const client = new Client({ connectionString: running.databaseUrl })
  await client.connect()
  return client
}
