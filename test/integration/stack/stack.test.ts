/** The whole stack: replies, recovers from kills, is found by a second start, ends with its parent. */

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { Connection } from '@temporalio/client'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SEARCH_ATTRIBUTES } from '../../../src/core/work.ts'
import { INDEXED_VALUE_TYPES } from '../../../src/infra/temporal/namespace.ts'
import { findRunning, type Stack, StackRunning, startStack } from '../../../stack/start.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { eventually, isDead, listenOn, withoutServers } from './support.ts'

const dir = mkdtempSync(join(tmpdir(), 'tenon-stack-'))
// PostgreSQL does not run as root, so it needs access to the path; otherwise it falls back to a persistent folder.
chmodSync(dir, 0o711)
let stack: Stack
let owner: ChildProcess
let owned: readonly number[]

// Random ports: a stack of another test would take a preferred port while the server on it is restarted.
const options = {
  ...{ dir, ephemeral: false, anyPorts: true },
  env: withoutServers(process.env),
  onProgress: () => {},
}

beforeAll(async () => {
  owner = spawn(process.execPath, [fileURLToPath(new URL('owner.ts', import.meta.url)), dir], {
    env: options.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  ;[stack, owned] = await Promise.all([startStack(options), pidsOf(owner)])
})

afterAll(async () => {
  owner?.kill('SIGKILL')
  await stack?.stop()
  rmSync(dir, { recursive: true, force: true })
})

describe('running stack', () => {
  it('state: running: one row per server, secrets readable by the owner only', () => {
    expect(stack.servers.map(({ name }) => name)).toEqual(['postgres', 'temporal', 'seaweedfs', 'valkey'])
    for (const server of stack.servers) {
      expect(server.version).toMatch(/^\d+\.\d+/)
      expect(server).toMatchObject({
        origin: 'embedded',
        address: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      })
    }
    for (const file of ['stack.json', 'secrets.json']) expect(statSync(join(dir, file)).mode & 0o077).toBe(0)
  })

  it('PostgreSQL: running: version 18 with the builtin locale, durable', async () => {
    const row = await query(
      "select datlocprovider, datlocale, current_setting('fsync') as fsync from pg_database limit 1",
    )
    expect(row).toEqual({ datlocprovider: 'b', datlocale: 'C.UTF-8', fsync: 'on' })
  })

  it('Temporal: running: has the search attributes of flows', async () => {
    const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' })
    const { customAttributes } = await connection.operatorService.listSearchAttributes({
      namespace: 'default',
    })
    await connection.close()
    expect(customAttributes).toMatchObject(
      Object.fromEntries(
        Object.entries(SEARCH_ATTRIBUTES).map(([name, type]) => [name, INDEXED_VALUE_TYPES[type]]),
      ),
    )
  })

  it('object store: many buckets: accepts an object in each', async () => {
    for (let n = 0; n < 12; n += 1) await putObject(`bucket-${n}`)
  })

  it('Valkey: without password: refused', async () => {
    const { hostname, port } = new URL(stack.env['REDIS_URL'] ?? '')
    const client = new Redis({
      host: hostname,
      port: Number(port),
      lazyConnect: true,
      retryStrategy: () => null,
    })
    client.on('error', () => {})
    await expect(client.connect().then(() => client.ping())).rejects.toThrow(/NOAUTH|closed/)
    client.disconnect()
  })

  it('second start: stack runs: finds it', async () => {
    expect(findRunning(dir)).toMatchObject({ pid: process.pid, ready: true, env: stack.env })
    await expect(startStack(options)).rejects.toThrow(StackRunning)
  })
})

describe('killed server', () => {
  it.each([
    ['postgres', () => query('select 1 as one')],
    ['temporal', () => ping(stack.env['TEMPORAL_ADDRESS'] ?? '')],
    ['valkey', () => pong(stack.env['REDIS_URL'] ?? '')],
    ['seaweedfs', () => putObject('after-kill')],
  ])('%s: killed: restarts and replies', async (name, ask) => {
    const before = stack.supervisor.pid(name) ?? 0
    process.kill(before, 'SIGKILL')
    await eventually(() => isDead(before))
    await eventually(async () => {
      await ask()
      return true
    }, 25_000)
    expect(stack.supervisor.pid(name)).not.toBe(before)
  })

  it('temporal: killed, and another process takes the ports of its UI and metrics: restarts on others', async () => {
    const { ports } = JSON.parse(readFileSync(join(dir, 'stack.json'), 'utf8'))
    const before = stack.supervisor.pid('temporal') ?? 0
    process.kill(before, 'SIGKILL')
    const names = ['temporal-ui-inner', 'temporal-metrics'] as const
    const occupied = await Promise.all(names.map((name) => occupy(ports[name])))
    try {
      await eventually(async () => {
        await ping(stack.env['TEMPORAL_ADDRESS'] ?? '')
        return true
      }, 50_000)
      const ui = await fetch(`${stack.env['TEMPORAL_UI_URL']}/api/v1/settings`)
      expect(ui.status).toBe(200)
    } finally {
      for (const server of occupied) server.close()
    }
  })
})

describe('killed owner', () => {
  it('owner: killed: its servers end within 5 s', async () => {
    expect(owned).toHaveLength(4)
    expect(owned.filter(isDead)).toEqual([])
    const elapsedMs = stopwatch()
    owner.kill('SIGKILL')
    await eventually(() => owned.every(isDead), 8_000)
    expect(elapsedMs()).toBeLessThan(5_000)
  })
})

describe('stop', () => {
  it('stop: running stack: every server ends within 5 s, ports are kept', async () => {
    const pids = stack.servers.map(({ name }) => stack.supervisor.pid(name) ?? 0)
    const port = Number(new URL(stack.env['DATABASE_URL'] ?? '').port)
    const elapsedMs = stopwatch()
    await stack.stop()
    expect(elapsedMs()).toBeLessThan(5_000)
    expect(pids.filter((pid) => !isDead(pid))).toEqual([])
    expect(findRunning(dir)).toBeUndefined()
    const state = readFileSync(join(dir, 'stack.json'), 'utf8')
    expect(JSON.parse(state)).toMatchObject({ ports: { postgres: port } })
    expect(state).not.toContain('DATABASE_URL')
  })
})

async function query(text: string): Promise<unknown> {
  const client = new pg.Client({
    connectionString: stack.env['DATABASE_URL'],
    connectionTimeoutMillis: 2_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(text)).rows[0]
  } finally {
    await client.end().catch(() => {})
  }
}

async function putObject(bucket: string): Promise<void> {
  const s3 = new S3Client({
    endpoint: stack.env['S3_ENDPOINT'] ?? '',
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    maxAttempts: 1,
    credentials: {
      accessKeyId: stack.env['S3_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: stack.env['S3_SECRET_ACCESS_KEY'] ?? '',
    },
  })
  const abortSignal = AbortSignal.timeout(3_000)
  try {
    await s3.send(new CreateBucketCommand({ Bucket: bucket }), { abortSignal }).catch((error: Error) => {
      if (!error.name.startsWith('BucketAlready')) throw error
    })
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: 'k', Body: 'x'.repeat(10_000) }), {
      abortSignal,
    })
  } finally {
    s3.destroy()
  }
}

async function ping(address: string): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: 2_000 })
  await connection.close()
}

/** Listens on a loopback port as soon as it is free. */
async function occupy(port: number): Promise<Server> {
  for (;;) {
    const server = await listenOn(port).catch(() => undefined)
    if (server !== undefined) return server
    await setTimeout(2)
  }
}

async function pong(url: string): Promise<void> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.ping()
  } finally {
    client.disconnect()
  }
}

/** The process ids of its servers once they run. @throws Error with its output if it ends before */
async function pidsOf({ stdout, stderr }: ChildProcess): Promise<number[]> {
  if (stdout === null || stderr === null) throw new TypeError('The owner has no output')
  const errorOutput = text(stderr)
  for await (const line of createInterface(stdout)) return (JSON.parse(line) as { pids: number[] }).pids
  throw new Error(`The owner has started nothing: ${await errorOutput}`)
}
