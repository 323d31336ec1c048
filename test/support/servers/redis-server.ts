/** Redis of Debian, which is built with TLS and Sentinel: the embedded Valkey has no TLS. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { ValkeyOptions } from '../../../src/infra/valkey/connect.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import { debianProgram } from './debian.ts'

export interface RedisServer {
  readonly port: number
  /** Its folder, in which paths of its settings begin. */
  readonly dir: string
  /** For what an operator does. */
  readonly client: Redis
  /** What it has written to its log. */
  log(): string
  signal(signal: NodeJS.Signals): void
  /** Starts the process again with what its file says then. */
  start(): Promise<void>
  stop(): Promise<void>
}

interface RedisServerOptions {
  /** Lines of its file besides the port, or those that begin with a given port. */
  readonly settings: readonly string[]
  /** Files in its folder, by name. */
  readonly files?: Readonly<Record<string, string>>
  /** TLS: the only port takes nothing else. */
  readonly isTls?: boolean
  readonly args?: readonly string[]
  readonly client?: ValkeyOptions
}

export async function startRedis(options: RedisServerOptions): Promise<RedisServer> {
  const { path, env } = await debianProgram('redis-tools', 'usr/bin/redis-check-rdb')
  const dir = mkdtempSync(join(tmpdir(), 'tenon-redis-'))
  const port = await new Ports({ remembered: {}, any: true }).take('redis', 0)
  const ports = options.isTls ? ['port 0', `tls-port ${port}`] : [`port ${port}`]
  for (const [name, text] of Object.entries(options.files ?? {})) writeFileSync(join(dir, name), text)
  const config = join(dir, 'redis.conf')
  writeFileSync(
    config,
    `${['bind 127.0.0.1', 'save ""', 'dir .', ...ports, ...options.settings].join('\n')}\n`,
  )
  const log = join(dir, 'redis.log')
  const client = new Redis({ port, host: '127.0.0.1', lazyConnect: true, ...options.client })
  client.on('error', () => {})
  let child: ChildProcess | undefined
  const start = async () => {
    // The program is what its name says.
    child = spawn(path, [config, ...(options.args ?? [])], { argv0: 'redis-server', cwd: dir, env })
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text) => appendFileSync(log, text))
    await eventually(async () => {
      if (child?.exitCode !== null) throw new Error(`Redis ended: ${readFileSync(log, 'utf8')}`)
      return client.ping().then(
        () => true,
        () => undefined,
      )
    })
  }
  const end = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await start()
  return {
    ...{ port, dir, client, start },
    log: () => readFileSync(log, 'utf8'),
    signal: (signal) => void child?.kill(signal),
    stop: async () => {
      client.disconnect()
      await end()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
