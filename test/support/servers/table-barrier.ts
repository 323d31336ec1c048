/** Locks a table, so that other sessions wait until the test releases it. */

import type { Client } from 'pg'
import { call, connectSuperuser, eventually } from '../fixtures/tenants.ts'
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
    const client = await connectSuperuser(started.running)
    const { rows } = await client.query('select relation from tenon.schemas where collection = $1', [
      collection,
    ])
    await client.end()
    return TableBarrier.at({ started }, `tenon_data."${rows[0].relation}"`)
  }

  static async at({ started }: Pick<OwnPlatform, 'started'>, table: string): Promise<TableBarrier> {
    const client = await connectSuperuser(started.running)
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

/** Begins an operation that waits for a table, does something meanwhile, and gives the table free. @returns the operation's id */
export async function whileHeld<T extends { id: string }>(
  { workspace, started }: Pick<OwnPlatform, 'workspace' | 'started'>,
  lock: string,
  begin: () => Promise<T>,
  step: string,
  act: (begun: T) => unknown,
): Promise<string> {
  const at = started.running
  const session = await connectSuperuser(at)
  try {
    await session.query('begin')
    await session.query(lock)
    const begun = await begin()
    const { id } = begun
    await eventually(async () => {
      const { body } = await call('GET', `/v1/operations/${id}`, { as: workspace.operator, at })
      return (
        body.steps.some(
          (one: { name: string; state: string }) => one.name === step && one.state === 'running',
        ) || undefined
      )
    })
    await eventually(async () => {
      const { rows } = await session.query('select 1 from pg_locks where not granted limit 1')
      return rows.length > 0 ? true : undefined
    })
    await act(begun)
    return id
  } finally {
    // Gives the table free.
    await session.end()
  }
}

/** Keeps an operation from beginning a step, does something at that moment, and lets it begin. @param goOn lets the operation come so far */
export async function whileBeforeStep(
  { started }: Pick<OwnPlatform, 'started'>,
  { id, step }: { readonly id: string; readonly step: string },
  goOn: () => Promise<void>,
  work: () => Promise<void>,
): Promise<void> {
  const session = await connectSuperuser(started.running)
  await session.query(`select pg_advisory_lock(1)`)
  await session.query(`
    create function public.hold() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$;
    create trigger hold before update on tenon.operations for each row
      when (new.id = '${id}' and new.steps::text like '%"${step}"%') execute function public.hold()`)
  try {
    await goOn()
    await eventually(async () => {
      const { rows } = await session.query(`select from pg_locks where locktype = 'advisory' and not granted`)
      return rows[0]
    }, 120_000)
    await work()
  } finally {
    await session.query('select pg_advisory_unlock(1)')
    await session.query('drop trigger hold on tenon.operations; drop function public.hold()')
    await session.end()
  }
}
