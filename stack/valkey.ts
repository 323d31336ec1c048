/** Starts Valkey, or the Redis of the machine, on a loopback port with a password. */

import { mkdir, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import {
  embedded,
  hostOf,
  program,
  repeatedly,
  type Server,
  type StartContext,
  type Started,
} from './server.ts'

const PREFERRED_PORT = 6_380
const PROBE_MS = 3_000
/** Valkey may use a quarter of the memory. */
const MEMORY_PARTS = 4
const MEMORY_BYTES_MIN = 256 * 1_048_576

export const valkey: Server = {
  name: 'valkey',
  title: 'Valkey',
  urlVariable: 'REDIS_URL',
  start,
  inspect: async (url) => ({
    info: { name: 'valkey', ...(await inspect(url)), address: hostOf(url), origin: 'external' },
    env: { REDIS_URL: url },
  }),
}

async function start(context: StartContext): Promise<Started> {
  const command = await program('valkey', context)
  const dir = join(context.dir, 'valkey')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  return repeatedly(context, 'Valkey', () => run(context, command, dir))
}

async function run(context: StartContext, command: string, dir: string): Promise<Started> {
  const port = await context.ports.take('valkey', PREFERRED_PORT)
  // Not as arguments, which all users of the machine can read.
  const config = join(dir, 'valkey.conf')
  await writeFile(config, settings(context, port), { mode: 0o600 })
  const url = `redis://:${context.secrets.valkeyPassword}@127.0.0.1:${port}`
  let answer = { title: '', version: '' }
  await context.supervisor.run({
    name: 'valkey',
    command,
    args: [config],
    cwd: dir,
    logFile: join(context.dir, 'logs', 'valkey.log'),
    stage: 0,
    ready: async () => {
      answer = await inspect(url)
    },
  })
  const info = embedded(context, { name: 'valkey', ...answer, address: hostOf(url) })
  return { info, env: { REDIS_URL: url } }
}

/** Paths are relative to the working folder, so that a folder with a space needs no quotes. */
function settings(context: StartContext, port: number): string {
  return [
    'bind 127.0.0.1',
    `port ${port}`,
    `requirepass ${context.secrets.valkeyPassword}`,
    'save ""',
    // Full, it refuses writes, which is told; by default it would take all memory, and the system would end a process.
    `maxmemory ${Math.max(MEMORY_BYTES_MIN, Math.floor(memoryBytes() / MEMORY_PARTS))}`,
    'maxmemory-policy noeviction',
    `appendonly ${context.ephemeral ? 'no' : 'yes'}`,
    'dir .',
    '',
  ].join('\n')
}

/** Of the machine, or of the container if that is less. */
const memoryBytes = (): number =>
  Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

async function inspect(url: string): Promise<{ title: string; version: string }> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: PROBE_MS,
    commandTimeout: PROBE_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  let reason: unknown
  client.on('error', (error) => {
    reason = error
  })
  try {
    await client.connect()
    await client.ping()
    const info = await client.info('server')
    const version = /^valkey_version:(\S+)/m.exec(info)?.[1]
    if (version !== undefined) return { title: 'Valkey', version }
    return { title: 'Redis', version: /^redis_version:(\S+)/m.exec(info)?.[1] ?? '' }
  } catch (error) {
    // The error of a command says only that the connection is closed.
    throw reason ?? error
  } finally {
    client.disconnect()
  }
}
