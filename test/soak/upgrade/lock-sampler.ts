/** Samples the locks of tables of the platform while clients write: for how long one is held that stops writers, and how long these wait. */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'

/** Locks that stop statements that write, or all (PostgreSQL, table 13.2). */
const STOPPING = ['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock']
/** Locks of statements that read and write. */
const OF_REQUESTS = ['AccessShareLock', 'RowShareLock', 'RowExclusiveLock']
const BETWEEN_MS = 5

const SAMPLE = `select l.pid, l.mode, l.granted, c.relname as table, extract(epoch from clock_timestamp())::float8 * 1000 as at_ms,
    coalesce(extract(epoch from clock_timestamp() - l.waitstart)::float8 * 1000, 0) as waited_ms
  from pg_locks l join pg_class c on c.oid = l.relation join pg_stat_activity a on a.pid = l.pid
  where l.database = (select oid from pg_database where datname = current_database()) and c.relnamespace = 'tenon'::regnamespace
    and l.locktype = 'relation' and c.relkind = 'r' and a.backend_type = 'client backend' and (l.mode = any($1) or not l.granted and l.mode = any($2))`

interface Sample {
  readonly pid: number
  readonly mode: string
  readonly granted: boolean
  readonly table: string
  readonly at_ms: number
  readonly waited_ms: number
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url, application_name: 'drill' })
  await client.connect()
  return client
}

export class LockSampler {
  /** The longest time, by the clock of the server, between the first and the last sample with the same lock that stops writers. */
  heldMs = 0
  /** That lock. */
  longest = ''
  /** The longest time for which a statement that a writer sends has waited for a lock of a table. */
  waitedMs = 0
  samples = 0
  readonly #client: Client
  readonly #since = new Map<string, number>()
  #isOver = false
  #sampling: Promise<void> = Promise.resolve()

  private constructor(client: Client) {
    this.#client = client
  }

  static async start(url: string): Promise<LockSampler> {
    const sampler = new LockSampler(await connect(url))
    sampler.#sampling = sampler.#sample()
    return sampler
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#sampling
    await this.#client.end()
  }

  async #sample(): Promise<void> {
    while (!this.#isOver) {
      const { rows } = await this.#client.query<Sample>({
        name: 'sample',
        text: SAMPLE,
        values: [STOPPING, OF_REQUESTS],
      })
      this.samples += 1
      this.#note(rows)
      await pause(BETWEEN_MS)
    }
  }

  #note(rows: readonly Sample[]): void {
    const isStopping = ({ mode }: Sample) => STOPPING.includes(mode)
    const held = new Map(
      rows
        .filter((row) => row.granted && isStopping(row))
        .map((row) => [`${row.mode} of ${row.table}, ${row.pid}`, row]),
    )
    for (const lock of this.#since.keys()) if (!held.has(lock)) this.#since.delete(lock)
    for (const [lock, { at_ms: at }] of held) {
      const since = this.#since.get(lock) ?? at
      this.#since.set(lock, since)
      if (at - since < this.heldMs && this.longest !== '') continue
      this.heldMs = Math.ceil(at - since)
      this.longest = lock.split(',')[0] ?? ''
    }
    for (const row of rows)
      if (!row.granted && !isStopping(row)) this.waitedMs = Math.max(this.waitedMs, Math.ceil(row.waited_ms))
  }
}

/** Inserts, changes and reads documents, one statement after the other, as a client without a quota does. */
export class Writer {
  writes = 0
  slowestMs = 0
  readonly #client: Client
  #isOver = false
  #writing: Promise<void> = Promise.resolve()

  private constructor(client: Client) {
    this.#client = client
  }

  static async start(url: string): Promise<Writer> {
    const writer = new Writer(await connect(url))
    await writer.#client.query("set tenon.tenant = 'ten_drill'; set tenon.workspace = 'wsp_drill'")
    writer.#writing = writer.#write()
    return writer
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#writing
    await this.#client.end()
  }

  async #write(): Promise<void> {
    const insert = `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
      values ('ten_drill', 'wsp_drill', 'things', uuidv7(), '{"n": 0}') returning id`
    const change = `update tenon.documents set data = '{"n": 1}', version = version + 1
      where tenant_id = 'ten_drill' and workspace_id = 'wsp_drill' and collection = 'things' and id = $1`
    while (!this.#isOver) {
      const { rows } = await this.#timed(insert, [])
      await this.#timed(change, [rows[0]?.id])
    }
  }

  async #timed(text: string, values: unknown[]) {
    const beganMs = performance.now()
    const result = await this.#client.query(text, values)
    this.slowestMs = Math.max(this.slowestMs, performance.now() - beganMs)
    this.writes += 1
    return result
  }
}
