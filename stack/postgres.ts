/** PostgreSQL 18, from its npm package, on a loopback port with a password. */

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { prepareData } from './postgres-data.ts'
import { postgresHome } from './postgres-home.ts'
import { hostOf, type Server, type StartContext, type Started } from './server.ts'

const PREFERRED_PORT = 54_320
const PROBE_MS = 3_000

export const postgres: Server = {
  name: 'postgres',
  title: 'PostgreSQL',
  urlVariable: 'DATABASE_URL',
  start,
  inspect: async (url) => ({
    info: {
      name: 'postgres',
      title: 'PostgreSQL',
      version: await serverVersion(url),
      address: hostOf(url),
      origin: 'external',
    },
    env: { DATABASE_URL: url },
  }),
}

async function start(context: StartContext): Promise<Started> {
  context.progress('starting', 'PostgreSQL')
  const home = await postgresHome(context)
  await prepareData(home, context.secrets.postgresPassword)
  const port = await context.ports.take('postgres', PREFERRED_PORT)
  const url = `postgres://postgres:${context.secrets.postgresPassword}@127.0.0.1:${port}/postgres`
  let version = ''
  await context.supervisor.run({
    name: 'postgres',
    command: join(home.bin, 'postgres'),
    args: ['-D', home.data, ...settings(port, context.ephemeral).flatMap((setting) => ['-c', setting])],
    logFile: join(context.dir, 'logs', 'postgres.log'),
    stage: 0,
    cwd: '/',
    ...home.account,
    // Its fast shutdown; SIGTERM would wait for clients.
    stopSignal: 'SIGINT',
    ready: async () => {
      version = await serverVersion(url)
    },
  })
  const pid = context.supervisor.pid('postgres')
  const { outside } = home
  return {
    info: {
      name: 'postgres',
      title: 'PostgreSQL',
      version,
      address: `127.0.0.1:${port}`,
      origin: 'embedded',
      ...(pid !== undefined && { pid }),
    },
    env: { DATABASE_URL: url },
    ...(context.ephemeral &&
      outside !== undefined && { dispose: () => rm(outside, { recursive: true, force: true }) }),
  }
}

function settings(port: number, ephemeral: boolean): string[] {
  const durable = ephemeral ? ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off'] : []
  return [
    `port=${port}`,
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'max_connections=200',
    ...durable,
  ]
}

async function serverVersion(url: string): Promise<string> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: PROBE_MS,
    query_timeout: PROBE_MS,
  })
  // Without a listener a connection that is cut would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ server_version: string }>('show server_version')
    return rows[0]?.server_version.split(' ')[0] ?? ''
  } finally {
    await client.end().catch(() => {})
  }
}
