/** `tenon up` where something is in its way: a port that another process takes meanwhile, a server that does not start. */

import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { launchPlatform } from '../../../src/cli/stack/launch-platform.ts'
import { onFreePorts, Ports } from '../../../stack/ports.ts'
import type { Stack } from '../../../stack/start.ts'
import { Supervisor } from '../../../stack/supervise.ts'
import { listenOn, withoutServers } from '../stack/support.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-up-'))
  // PostgreSQL runs as another user, which needs access to the path.
  await chmod(folder, 0o711)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

interface Started {
  readonly child: ChildProcess
  /** Resolves with the first line of its output. */
  readonly begun: Promise<void>
  /** Resolves at its end. */
  readonly ended: Promise<{ readonly code: number | null; readonly output: string }>
}

function up(env: NodeJS.ProcessEnv, ...args: string[]): Started {
  const words = [resolve('src/cli/main.ts'), 'up', '--ephemeral', '--once', '--no-demo', ...args]
  const child = spawn(process.execPath, words, { cwd: folder, env: { ...env, TMPDIR: folder } })
  let output = ''
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += chunk
      begin()
    })
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  return { child, begun, ended: ended.then((code) => ({ code, output })) }
}

test('another process takes the port of the API while the servers start: the API has another one', async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  const { begun, ended } = up(withoutServers(process.env), '--port', String(port))
  let other: Server | undefined
  try {
    await begun
    other = await listenOn(port)
    const { code, output } = await ended
    expect([code, output]).toEqual([0, expect.stringMatching(/^ {2}API +http:\/\/127\.0\.0\.1:\d+$/m)])
    expect(output).not.toContain(`http://127.0.0.1:${port}\n`)
  } finally {
    other?.close()
  }
})

test('another process takes the port of the API while the API starts: both processes start again with another one', async () => {
  const { databaseUrl, masterKey, env: settings } = inject('tenon')
  const { TENON_PORT: _port, TENON_EAGER_START_SOCKET: _socket, ...env } = settings
  const supervisor = new Supervisor()
  const stack = { env: { ...env, DATABASE_URL: databaseUrl }, supervisor } as unknown as Stack
  const ports = new Ports({ remembered: {}, any: true })
  const [occupied, free] = await Promise.all([ports.take('taken', 0), ports.take('free', 0)])
  const other = await listenOn(occupied)
  const left = [occupied, free]
  const reasons: string[] = []
  try {
    const launch = () => launchPlatform({ stack, dir: folder, port: left.shift() ?? 0, masterKey, env })
    const { url } = await onFreePorts(launch, (reason) => reasons.push(reason))
    expect(reasons).toEqual([`The port ${occupied} was taken by another process while api started.`])
    expect([url, (await fetch(`${url}/readyz`)).status]).toEqual([`http://127.0.0.1:${free}`, 200])
    expect(supervisor.pid('worker')).toBeDefined()
  } finally {
    await supervisor.stop()
    other.close()
  }
})

test('secret in a file: API and worker get the path, not the secret', async () => {
  const { databaseUrl, masterKey, env: settings } = inject('tenon')
  const { TENON_PORT: _port, TENON_EAGER_START_SOCKET: _socket, GATEWAY_SECRET: _secret, ...env } = settings
  const supervisor = new Supervisor()
  const stack = { env: { ...env, DATABASE_URL: databaseUrl }, supervisor } as unknown as Stack
  const port = await new Ports({ remembered: {}, any: true }).take('file', 0)
  await writeFile(join(folder, 'gateway'), `${'g'.repeat(32)}\n`)
  vi.stubEnv('TENON_CALLER_CWD', folder)
  vi.stubEnv('GATEWAY_SECRET_FILE', 'gateway')
  try {
    const launched = await launchPlatform({ stack, dir: folder, port, masterKey, env })
    expect(launched.env).toMatchObject({ GATEWAY_SECRET_FILE: join(folder, 'gateway') })
    expect(launched.env).not.toHaveProperty('GATEWAY_SECRET')
  } finally {
    vi.unstubAllEnvs()
    await supervisor.stop()
  }
})

test('a server does not start while a download hangs: ends with the error, and does not wait for the download', async () => {
  const weed = join(folder, 'weed')
  const script = '#!/bin/sh\n[ "$1" = version ] && exit 0\necho "the disk is on fire"\nexit 3\n'
  await writeFile(weed, script, { mode: 0o755 })
  let downloads = 0
  const registry = createServer(() => {
    downloads += 1
  })
  await listenOn(0, registry)
  const { port } = registry.address() as { port: number }
  const { databaseUrl: DATABASE_URL, env: servers } = inject('tenon')
  const { REDIS_URL, TEMPORAL_ADDRESS } = servers
  const { ended } = up({
    ...withoutServers(process.env),
    ...{ DATABASE_URL, REDIS_URL, TEMPORAL_ADDRESS, TENON_WEED_BIN: weed },
    // Without Deno, which is fetched from a registry that never answers.
    ...{ TENON_DENO_BIN: '', TENON_CACHE_DIR: join(folder, 'cache'), PATH: '/usr/bin:/bin' },
    PIP_INDEX_URL: `http://127.0.0.1:${port}/simple`,
    PIP_CONFIG_FILE: '/dev/null',
  })
  try {
    const { code, output } = await ended
    expect([code, output]).toEqual([1, expect.stringContaining('the disk is on fire')])
    // The client of the registry tries twice, 20 s each.
    expect(downloads).toBeLessThan(2)
  } finally {
    registry.close()
  }
})
