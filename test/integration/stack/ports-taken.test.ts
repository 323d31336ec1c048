/** Ports that another process takes between the check that they are free and the start of the server. */

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import type { Server as Listener } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { postgres } from '../../../stack/postgres.ts'
import { seaweedfs } from '../../../stack/seaweedfs.ts'
import { loadSecrets, type Server, type ServerInfo } from '../../../stack/server.ts'
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
  60_000,
)

test('valkey: its port is taken each time: fails after three repetitions, says so', async () => {
  const start = startRaced(valkey, Array(9).fill('valkey'))
  await expect(start).rejects.toThrow(/^The port \d+ was taken by another process .*3 times: start again\.$/)
}, 60_000)
