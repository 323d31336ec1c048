/** Connections to PostgreSQL: a server that falls silent, and sessions that hold locks. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { withDatabase } from '../../../src/backup/installation.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { Database, type StatementExecutor } from '../../../src/infra/postgres/database.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { asSuperuser, eventually } from '../../support/fixtures/tenants.ts'
import { startStatementProxy } from '../../support/servers/statement-proxy.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'
import { stopwatch } from '../../support/stopwatch.ts'

/** Between the pool and PostgreSQL; it drops the answers while `isSilent`, as a server that moved without a reset does. */
let proxy: Server
let isSilent = false
let database: Database
let proxyUrl: string
const sockets = new Set<Socket>()
/** Longer than a test lasts. */
const NEVER_MS = 3_600_000
const CONTEXT = { role: 'tenon_anon', tenant: '', workspace: '', statementTimeoutMs: 2_000 } as const

beforeAll(async () => {
  const url = new URL(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  const upstream = { host: url.hostname, port: Number(url.port) }
  proxy = createServer((client) => {
    const server = connect(upstream)
    for (const end of [client, server]) sockets.add(end.on('error', () => end.destroy()))
    client.pipe(server).on('data', (chunk) => isSilent || client.write(chunk))
  })
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done))
  url.port = String((proxy.address() as AddressInfo).port)
  proxyUrl = url.href
  database = Database.open(proxyUrl, () => {}, 1)
})
afterAll(async () => {
  await database?.close()
  for (const socket of sockets) socket.destroy()
  proxy?.close()
})

test('PostgreSQL does not answer on an open connection: the statement fails in time, the next one uses a new connection', async () => {
  const ask = () => database.batch(CONTEXT, [sql`select 1`])
  await ask()
  isSilent = true
  const elapsedMs = stopwatch()
  await expect(ask()).rejects.toMatchObject({ code: 'dependency_unavailable' })
  expect(elapsedMs()).toBeLessThan(10_000)
  await expect(database.ping()).rejects.toMatchObject({ code: 'dependency_unavailable' })
  isSilent = false
  await ask()
})

test('check of PostgreSQL: all connections of the pool are busy: asks on a connection of its own', async () => {
  const { promise: free, resolve: release } = Promise.withResolvers<void>()
  const { promise: held, resolve: hold } = Promise.withResolvers<void>()
  const busy = database.transaction('', async () => {
    hold()
    await free
  })
  await held
  // A statement would wait for the only connection.
  await database.ping()
  release()
  await busy
})

/** With a setting of the server, as an operator may have made it for all connections. */
function withSetting(url: string | undefined, setting: string): string {
  const changed = new URL(url ?? '')
  changed.searchParams.set('options', `-c ${setting}`)
  return changed.href
}

/** Longer than the server allows with that setting. */
const STANDING_MS = 600

test('check of PostgreSQL: each answer takes longer than the wait for a connection of the pool: the late answer counts, whatever becomes of a further connection', async () => {
  const lateMs = (connection: number) => (connection === 0 ? 0 : NEVER_MS)
  const slow = await startTcpProxy(new URL(inject('tenon').env['DATABASE_APP_URL'] ?? ''), { lateMs })
  const url = Object.assign(new URL(proxyUrl), { port: String(slow.port) }).href
  const own = Database.open(url, () => {}, 2)
  try {
    await own.ping()
    slow.delay(INFRA_LIMITS.health.poolMs * 2)
    await own.ping()
    expect(slow.connections).toBe(2)
  } finally {
    slow.close()
    await own.close()
  }
})

test('snapshot: the server ends transactions that stand still, sooner than a slow reader of an export goes on: the snapshot stays', async () => {
  const url = withSetting(inject('tenon').env['DATABASE_APP_URL'], 'idle_in_transaction_session_timeout=150')
  const pool = Database.open(url, () => {}, 1)
  try {
    const work = async (held: StatementExecutor) => {
      await held.batch(CONTEXT, [sql`select 1`])
      await pause(STANDING_MS)
      return held.batch(CONTEXT, [sql`select 1`])
    }
    await expect(pool.transaction('', work, 'snapshot')).resolves.toHaveLength(1)
  } finally {
    await pool.close()
  }
})

test('backup: the server ends idle connections, sooner than the bytes of objects are copied: the connection stays', async () => {
  const url = withSetting(inject('tenon').databaseUrl, 'idle_session_timeout=150')
  const rows = await withDatabase(url, async (held) => {
    await held.query('select 1')
    await pause(STANDING_MS)
    return held.query('select 1')
  })
  expect(rows.rowCount).toBe(1)
})

/** Of the statements of a transaction: its begin, its work, its end. */
test.each([1, 2, 3])(
  'transaction whose statement %d fails, and its rollback: the next work has a connection without an open transaction',
  async (failing) => {
    const failure = { error: '22000' }
    const failingProxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
    const pool = Database.open(failingProxy.url, () => {}, 1)
    const work = async () => pool.batch(CONTEXT, [sql`select 1`])
    try {
      await work()
      failingProxy.script((message) => (message >= failing ? failure : undefined))
      const transaction = pool.transaction('', (held) => held.batch(CONTEXT, [sql`select 1`]))
      await expect(transaction).rejects.toThrow()
      failingProxy.script()
      await expect(work()).resolves.toHaveLength(1)
    } finally {
      await pool.close()
      failingProxy.close()
    }
  },
)

test('session that holds a lock: takes no connection of the pool, ends by itself', async () => {
  const backend = sql`select pg_backend_pid() as pid`
  const session = await database.session()
  const [[inSession] = []] = await session.batch(CONTEXT, [backend])
  // The pool has one connection.
  const [[inPool] = []] = await database.batch(CONTEXT, [backend])
  expect(inPool?.['pid']).not.toBe(inSession?.['pid'])
  session.end()
  await eventually(async () => {
    const left = await asSuperuser('select from pg_stat_activity where pid = $1', [inSession?.['pid']])
    return left.length === 0 ? true : undefined
  })
  await database.ping()
})
