/** Runs an API process inside a test, with its traffic to the stores counted. */

import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { inject } from 'vitest'
import { buildApp } from '../../../src/api/app.ts'
import { openAuthServices } from '../../../src/app/auth-services.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { mountMcp } from '../../../src/mcp/mount.ts'

export interface CountedApi {
  readonly app: FastifyInstance
  readonly platform: Platform
  /**
   * Round trips to PostgreSQL so far, commands on streams of Valkey, pieces sent to the object store.
   * Periodic background work is not counted: entries of the audit log, and reads of the issuer's keys.
   */
  readonly seen: { trips: number; streams: number; objects: number }
  /** Lines of its log, at the finest level. */
  readonly lines: readonly string[]
  close(): Promise<void>
}

/**
 * @param env settings other than those of the running platform @param now clock for the age of external
 * issuers' keys, in milliseconds
 */
export async function startCountedApi(
  env: Record<string, string | undefined> = {},
  now?: () => number,
): Promise<CountedApi> {
  const settings = { ...inject('tenon').env, ...env }
  const seen = { trips: 0, streams: 0, objects: 0 }
  const wires: Server[] = []
  const through = async (name: string, counter: () => (chunk: Buffer) => void) => {
    const url = new URL(settings[name] ?? '')
    const wire = await countingWire(url, counter)
    wires.push(wire)
    url.port = String((wire.address() as AddressInfo).port)
    return { [name]: url.href.replace(/\/$/, '') }
  }
  const config = parseConfig({
    ...settings,
    ...(await through('DATABASE_APP_URL', () => roundTrips(() => seen.trips++))),
    ...(await through('REDIS_URL', () => (chunk) => {
      seen.streams += String(chunk).match(STREAM_COMMAND)?.length ?? 0
    })),
    ...(await through('S3_ENDPOINT', () => () => {
      seen.objects += 1
    })),
  })
  const lines: string[] = []
  const log = openLog('trace', 'test', { write: (line) => void lines.push(line) })
  const { platform, parts } = openPlatform(config, log)
  const authServices = openAuthServices(config, parts, now)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
  const close = async () => {
    await app.close()
    await platform.close()
    await Promise.all(wires.map((wire) => new Promise((done) => wire.close(done))))
  }
  return { app, platform, seen, lines, close }
}

/** A read, or the script that appends: its two keys are a stream of a tenant and what was dropped of it (infra/valkey/stream-log.ts). */
const STREAM_COMMAND = /\r\nx(read|range|revrange)\r\n|\r\ntenon:\{ten_[^\r]*\r\n\$\d+\r\ntenon:\{ten_/gi

/** A proxy between the application and a server that passes on what it counts. */
async function countingWire(
  { hostname, port }: URL,
  counter: () => (chunk: Buffer) => void,
): Promise<Server> {
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    client.on('data', counter())
    client.pipe(upstream).pipe(client)
    for (const end of [client, upstream]) end.on('error', () => client.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return server
}

const [SYNC, QUERY, PARSE, BIND] = ['S', 'Q', 'P', 'B'].map((letter) => letter.charCodeAt(0))

/**
 * The messages of one connection (PostgreSQL manual, "Message Formats"), of which a Sync and a simple query
 * are round trips; the first message has no letter before its length.
 */
function roundTrips(count: () => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  let letter = 0
  const shared = new Set<string>()
  let isShared = false
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= letter + 4) {
      const size = letter + rest.readUInt32BE(letter)
      if (rest.length < size) return
      const kind = letter === 1 ? rest[0] : undefined
      const [first = '', second = ''] = rest.subarray(5, size).toString('latin1').split('\0', 2)
      if (kind === PARSE && /append_audit|from signing_keys/.test(second)) shared.add(first)
      if (kind === BIND && shared.has(second)) isShared = true
      if ((kind === SYNC && !isShared) || kind === QUERY) count()
      if (kind === SYNC) isShared = false
      letter = 1
      rest = rest.subarray(size)
    }
  }
}
