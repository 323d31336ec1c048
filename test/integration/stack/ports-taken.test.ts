/** Ports that another process takes between the check that they are free and the start of the server. */

import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import type { Server as Listener } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { postgres } from '../../../stack/postgres.ts'
import { seaweedfs } from '../../../stack/seaweedfs.ts'
import { loadSecrets, type Server, type ServerInfo } from '../../../stack/server.ts'
import { startStack } from '../../../stack/start.ts'
import { Supervisor } from '../../../stack/supervise.ts'
import { temporal } from '../../../stack/temporal.ts'
import { valkey } from '../../../stack/valkey.ts'
import { repeated } from '../../support/stack/soak.ts'
import { listenOn, withoutServers } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'tenon-taken-'))
// PostgreSQL runs as another user, which needs access to the path.
beforeAll(() => chmodSync(root, 0o711))
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** Another process is faster: it takes the port of the first name at the first start, that of the second name at the second, … */
class RacedPorts extends Ports {
  readonly occupied: number[] = []
  readonly #names: readonly string[]
  readonly #calls = new Map<string, number>()
  readonly #listeners: Listener[] = []

  constructor(names: readonly string[]) {
    super({ remembered: {}, any: true })
    this.#names = names
  }

  override async take(...[name, ...more]: Parameters<Ports['take']>): Promise<number> {
    return this.#race(name, await super.take(name, ...more))
  }

  override async takeAny(...[name, ...more]: Parameters<Ports['takeAny']>): Promise<number | undefined> {
    const port = await super.takeAny(name, ...more)
    return port === undefined ? undefined : this.#race(name, port)
  }

  async #race(name: string, port: number): Promise<number> {
    const call = this.#calls.get(name) ?? 0
    this.#calls.set(name, call + 1)
    if (this.#names[call] !== name) return port
    this.#listeners.push(await listenOn(port))
    this.occupied.push(port)
    return port
  }

  close(): void {
    this.release()
    for (const listener of this.#listeners) listener.close()
  }
}

interface RacedStart {
  readonly info: ServerInfo
  readonly occupied: readonly number[]
  readonly allocated: readonly number[]
  /** What the start has reported. */
  readonly said: readonly string[]
}

/** Starts a server while another process takes its ports, and ends it. @throws what the start throws */
async function startRaced(server: Server, names: readonly string[]): Promise<RacedStart> {
  const dir = mkdtempSync(join(root, 'stack-'))
  chmodSync(dir, 0o711)
  const ports = new RacedPorts(names)
  const supervisor = new Supervisor()
  const said: string[] = []
  try {
    const { info, dispose } = await server.start({
      ...{ dir, ports, supervisor, ephemeral: true, env: withoutServers(process.env) },
      secrets: loadSecrets(dir),
      signal: new AbortController().signal,
      progress: (_phase, detail) => said.push(detail),
    })
    await supervisor.stop()
    await dispose?.()
    return { info, occupied: ports.occupied, allocated: Object.values(ports.reserved()), said }
  } finally {
    await supervisor.stop()
    ports.close()
  }
}

const SEAWEEDFS = ['master', 'volume', 'filer', 's3'].flatMap((role) => [
  `seaweedfs-${role}.port`,
  `seaweedfs-${role}.port.grpc`,
])

/** Every listener of every server: a start is repeated three times. */
const EVERY: readonly (readonly [server: Server, names: readonly string[]])[] = [
  [postgres, ['postgres']],
  [valkey, ['valkey']],
  [temporal, ['temporal', 'temporal-ui-inner', 'temporal-metrics']],
  [temporal, ['temporal-ui']],
  [seaweedfs, SEAWEEDFS.slice(0, 3)],
  [seaweedfs, SEAWEEDFS.slice(3, 6)],
  [seaweedfs, SEAWEEDFS.slice(6)],
]
/** Outside of a soak, the first of each server. */
const STARTS = EVERY.filter(
  ([server], n) => repeated(0, 1) === 1 || EVERY.findIndex(([one]) => one === server) === n,
)

test.each(STARTS.map(([server, names]) => ({ server, names, title: names.join(', ') })))(
  '$server.name: another process takes the ports $title: starts on others, says which were taken',
  async ({ server, names }) => {
    const { info, occupied, allocated, said } = await startRaced(server, names)
    expect(info.version).toMatch(/^\d+\.\d+/)
    expect(occupied).toHaveLength(names.length)
    for (const port of occupied) {
      expect(allocated).not.toContain(port)
      expect(said.join('\n')).toMatch(new RegExp(`again\\. .*\\b${port}\\b`))
    }
  },
)

test('valkey: its port is taken each time: fails after three repetitions, says so', async () => {
  const start = startRaced(valkey, Array(9).fill('valkey'))
  await expect(start).rejects.toThrow(/^The port \d+ was taken by another process .*3 times: start again\.$/)
})

const STARTS_AT_ONCE = 6
const TAKE_PORTS = fileURLToPath(new URL('../../support/stack/take-ports.ts', import.meta.url))

test('six installations that start at once: each gets ports of its own before anything listens', async () => {
  const from = randomInt(40_000, 60_000)
  const children = Array.from({ length: STARTS_AT_ONCE }, () =>
    spawn(process.execPath, [TAKE_PORTS, String(from), '14'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  )
  try {
    const taken = await Promise.all(
      children.map(async ({ stdout }) => JSON.parse(String((await once(stdout, 'data'))[0])) as number[]),
    )
    expect(taken.map(({ length }) => length)).toEqual(Array(STARTS_AT_ONCE).fill(14))
    expect(new Set(taken.flat()).size).toBe(STARTS_AT_ONCE * 14)
  } finally {
    for (const child of children) child.stdin.end()
  }
})

test.runIf(repeated(0, 1))('six first starts at once: all servers of each run', async () => {
  const dirs = Array.from({ length: STARTS_AT_ONCE }, () => mkdtempSync(join(root, 'first-')))
  for (const dir of dirs) chmodSync(dir, 0o711)
  const env = withoutServers(process.env)
  const starts = await Promise.allSettled(
    dirs.map((dir) => startStack({ dir, env, ephemeral: false, onProgress: () => {} })),
  )
  await Promise.all(starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value.stop()] : [])))
  expect(starts.map((start) => (start.status === 'fulfilled' ? 4 : start.reason.message))).toEqual(
    Array(STARTS_AT_ONCE).fill(4),
  )
})

test('port that is released: another allocation of the process gets it', async () => {
  const from = randomInt(40_000, 60_000)
  const [first, second] = [0, 1].map(() => new Ports({ remembered: {}, any: false })) as [Ports, Ports]
  const port = await first.take('one', from)
  expect(await second.take('one', port)).not.toBe(port)
  first.release()
  second.release()
  expect(await new Ports({ remembered: { one: port }, any: false }).take('one', from)).toBe(port)
})
