/** Parts of the stack: ports, locks, missing programs, damaged PostgreSQL folders. */

import { spawn } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { BinaryUnavailable, binary } from '../../../stack/binaries.mjs'
import { ensureCertificate } from '../../../stack/certificate.ts'
import { identify, lockOwner, tryLock, withLock } from '../../../stack/lock.mjs'
import { Ports } from '../../../stack/ports.ts'
import { postgres } from '../../../stack/postgres.ts'
import { loadSecrets } from '../../../stack/server.ts'
import { findRunning, startStack } from '../../../stack/start.ts'
import { Supervisor } from '../../../stack/supervise.ts'
import { isDead, listenOn, withoutServers } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'tenon-parts-'))
const folder = (name: string) => join(root, name)
/** Without network: an index without a server, and an empty cache. */
const offline = {
  PATH: '/usr/bin:/bin',
  PIP_INDEX_URL: 'http://127.0.0.1:9/simple',
  PIP_CONFIG_FILE: '/dev/null',
  TENON_CACHE_DIR: folder('no-cache'),
}

afterAll(() => rmSync(root, { recursive: true, force: true }))

describe('ports', () => {
  it('port: preferred one taken: the next free one, never one twice', async () => {
    const { server, port } = await occupyPort()
    const ports = new Ports({ remembered: {}, any: false })
    const [first, second] = await Promise.all([ports.take('a', port), ports.take('b', port)])
    expect(first).toBeGreaterThan(port)
    expect(second).toBeGreaterThan(port)
    expect(second).not.toBe(first)
    server.close()
  })

  it('port: any free one: outside the range that the system gives to other processes', async () => {
    const ports = new Ports({ remembered: { a: 40_000 }, any: true })
    const numbers = await Promise.all(Array.from({ length: 50 }, (_, n) => ports.take(`${n}`, 1_024)))
    expect(new Set(numbers).size).toBe(50)
    expect(Math.max(...numbers)).toBeLessThan(32_768)
    const { server, port } = await occupyPort()
    expect(numbers).not.toContain(port)
    server.close()
  })

  it('takeAny: some ports taken: a free one; all taken: undefined', async () => {
    const [one, two] = await Promise.all([occupyPort(), occupyPort()])
    for (const any of [true, false]) {
      const ports = new Ports({ remembered: {}, any })
      expect(await ports.takeAny('a', [one.port, two.port])).toBeUndefined()
    }
    await new Promise((resolve) => two.server.close(resolve))
    const ports = new Ports({ remembered: {}, any: true })
    const numbers = await Promise.all(['a', 'b'].map((name) => ports.takeAny(name, [one.port, two.port])))
    expect(numbers.filter((port) => port !== undefined)).toEqual([two.port])
    one.server.close()
  })

  it('takeAny: one port remembered: preferred', async () => {
    const [one, two] = await Promise.all([occupyPort(), occupyPort()])
    await Promise.all([one, two].map(({ server }) => new Promise((resolve) => server.close(resolve))))
    const ports = new Ports({ remembered: { a: two.port }, any: false })
    expect(await ports.takeAny('a', [one.port, two.port])).toBe(two.port)
  })

  it('port: one remembered: preferred', async () => {
    const { server, port } = await occupyPort()
    await new Promise((resolve) => server.close(resolve))
    const ports = new Ports({ remembered: { a: port }, any: false })
    expect(await ports.take('a', 1_024)).toBe(port)
    expect(ports.reserved()).toEqual({ a: port })
  })
})

describe('ports, asked again', () => {
  it.each([true, false])('port, any: %s: the same one if it is free still, else another', async (any) => {
    const ports = new Ports({ remembered: {}, any })
    const first = await ports.take('a', 20_000)
    expect(await ports.take('a', 20_000)).toBe(first)
    const other = await listenOn(first)
    const second = await ports.take('a', 20_000)
    expect(second).not.toBe(first)
    expect(ports.reserved()).toEqual({ a: second })
    other.close()
  })
})

describe('certificate of the object store', () => {
  it('certificate: created once: own CA for 127.0.0.1, matches its key, readable by its owner only', () => {
    const path = folder('certificate.pem')
    ensureCertificate(path)
    const pem = readFileSync(path, 'utf8')
    const certificate = new X509Certificate(pem)
    expect(certificate.verify(certificate.publicKey)).toBe(true)
    expect(certificate.checkIssued(certificate)).toBe(true)
    expect(certificate.checkPrivateKey(createPrivateKey(pem))).toBe(true)
    expect(certificate.checkIP('127.0.0.1')).toBe('127.0.0.1')
    expect(certificate.ca).toBe(true)
    expect(certificate.validTo).toMatch(/9999/)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    ensureCertificate(path)
    expect(readFileSync(path, 'utf8')).toBe(pem)
  })
})

describe('lock', () => {
  it('lock: held: refused; owner dead: taken over', async () => {
    const path = folder('some.lock')
    const dead = spawn('true')
    await new Promise((resolve) => dead.once('exit', resolve))
    writeFileSync(path, JSON.stringify({ pid: dead.pid, startTime: 'x' }))
    const lock = tryLock(path)
    expect(lock).toHaveProperty('release')
    expect(tryLock(path)).toEqual({ owner: identify() })
  })

  it('lock: pid of the owner reused by another process: not held', () => {
    const path = folder('reused.lock')
    writeFileSync(path, JSON.stringify({ pid: process.ppid, startTime: 'another time' }))
    expect(lockOwner(path)).toBeUndefined()
    expect(tryLock(path)).toHaveProperty('release')
  })

  it('lock: several at once: one at a time', async () => {
    let inside = 0
    const work = async () => {
      inside += 1
      const seen = inside
      await new Promise((resolve) => setTimeout(resolve, 20))
      inside -= 1
      return seen
    }
    const path = folder('turns.lock')
    expect(await Promise.all([1, 2, 3].map(() => withLock(path, work)))).toEqual([1, 1, 1])
  })
})

describe('programs', () => {
  it('program: not available: one line with the three ways out', async () => {
    const error: unknown = await binary('temporal', { env: offline }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(BinaryUnavailable)
    const { message } = error as Error
    expect(message).toMatch(/install .*PATH.*TEMPORAL_ADDRESS.*docker compose up/)
    expect(message).not.toContain('\n')
  })

  it('program: on PATH: used only if it runs', async () => {
    const bin = folder('bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'temporal'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
    writeFileSync(join(bin, 'valkey-server'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
    const env = { ...offline, PATH: `${bin}:/usr/bin:/bin` }
    await expect(binary('valkey', { env })).resolves.toBe(join(bin, 'valkey-server'))
    await expect(binary('temporal', { env })).rejects.toThrow(BinaryUnavailable)
  })

  it('program: named by its variable: has to run', async () => {
    const env = { ...offline, TENON_WEED_BIN: '/no/such/weed' }
    await expect(binary('weed', { env })).rejects.toThrow(/TENON_WEED_BIN names \/no\/such\/weed/)
  })
})

describe('failing start', () => {
  it('start: several servers fail: one line each, nothing is left running', async () => {
    const dir = folder('offline')
    const pids: number[] = []
    const start = startStack({
      dir,
      ephemeral: false,
      env: {
        ...withoutServers(process.env),
        ...offline,
        // Known at once: a download that fails may come after the time for which others are waited for.
        TENON_TEMPORAL_BIN: '/no/such/temporal',
        TENON_WEED_BIN: '/no/such/weed',
        REDIS_URL: 'redis://:hidden@127.0.0.1:9',
      },
      onProgress: () => {},
      onEvent: ({ detail }) => pids.push(Number(/^pid (\d+)/.exec(detail)?.[1] ?? 0)),
    })
    const { message } = (await start.catch((reason: unknown) => reason)) as Error
    expect(message).toMatch(/^Temporal: .*docker compose up/m)
    expect(message).toMatch(/^SeaweedFS: .*S3_ENDPOINT/m)
    expect(message).toMatch(/^Valkey: REDIS_URL is set, but .*ECONNREFUSED/m)
    expect(message).not.toContain('hidden')
    expect(pids.filter((pid) => pid > 0 && !isDead(pid))).toEqual([])
    expect(findRunning(dir)).toBeUndefined()
  })

  it('start: aborted: ends', async () => {
    const abort = new AbortController()
    const dir = folder('given-up')
    const pids: number[] = []
    const env = withoutServers(process.env)
    const onEvent = ({ detail }: { detail: string }) => {
      pids.push(Number(/^pid (\d+)/.exec(detail)?.[1] ?? 0))
      abort.abort()
    }
    const start = startStack({
      dir,
      ephemeral: true,
      env,
      onProgress: () => {},
      onEvent,
      signal: abort.signal,
    })
    await expect(start).rejects.toThrow(/given up/)
    expect(pids.filter((pid) => pid > 0 && !isDead(pid))).toEqual([])
    expect(readdirSync(dir)).toEqual([])
  })
})

describe('PostgreSQL data folder', () => {
  it('data folder: half initialised, or pid of the last run reused: repaired', async () => {
    const dir = folder('pg')
    mkdirSync(join(dir, 'postgres/base'), { recursive: true })
    mkdirSync(join(dir, 'postgres.draft'))
    await expect(startPostgres(dir)).resolves.toMatch(/^18\./)
    expect(readdirSync(dir).filter((name) => name.startsWith('postgres.'))).toEqual([
      expect.stringMatching(/broken/),
    ])

    const foreignProcess = spawn('sleep', ['60'], { stdio: 'ignore' })
    const pidFile = join(dir, 'postgres', 'postmaster.pid')
    expect(existsSync(pidFile)).toBe(false)
    writeFileSync(pidFile, `${foreignProcess.pid}\n${join(dir, 'postgres')}\n1\n5432\n\n127.0.0.1\n`)
    await expect(startPostgres(dir)).resolves.toMatch(/^18\./)
    expect(isDead(foreignProcess.pid ?? 0)).toBe(false)
    foreignProcess.kill('SIGKILL')
  })
})

async function startPostgres(dir: string): Promise<string> {
  // PostgreSQL runs as another user, which needs access to the path.
  chmodSync(root, 0o711)
  const supervisor = new Supervisor()
  try {
    const { info } = await postgres.start({
      dir,
      ephemeral: true,
      env: process.env,
      secrets: loadSecrets(dir),
      ports: new Ports({ remembered: {}, any: true }),
      supervisor,
      signal: new AbortController().signal,
      progress: () => {},
    })
    return info.version
  } finally {
    await supervisor.stop()
  }
}

async function occupyPort(): Promise<{ server: Server; port: number }> {
  const server = await listenOn(0)
  return { server, port: (server.address() as AddressInfo).port }
}
