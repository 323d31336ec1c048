/** Two APIs behind HAProxy and two workers, each on a machine of its own, which reach the servers of a platform through proxies. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { type HaProxy, startHaProxy } from '../../support/servers/haproxy.ts'
import type { Link, Network } from '../../support/servers/network.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { type Program, startApi } from '../../support/stack/api-process.ts'
import type { OwnPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { startWorker } from '../../support/stack/worker-process.ts'

export const PROCESSES = ['API 1', 'API 2', 'worker 1', 'worker 2'] as const
export type ProcessName = (typeof PROCESSES)[number]

/** The settings by which processes find each store. */
const ADDRESSES = {
  PostgreSQL: ['DATABASE_APP_URL', 'DATABASE_SESSION_URL'],
  Valkey: ['REDIS_URL'],
  'object store': ['S3_ENDPOINT', 'S3_STS_ENDPOINT'],
  Temporal: ['TEMPORAL_ADDRESS'],
} as const
export type StoreName = keyof typeof ADDRESSES
export const STORES = Object.keys(ADDRESSES) as StoreName[]

const API_PORT = 8787
/** A balancer must have noticed; running requests may end. */
const DRAIN = { TENON_DRAIN_DELAY: '5', TENON_DRAIN_LIMIT: '60' }

interface Settings {
  readonly env?: Readonly<Record<string, string>>
}

/** A process on its machine. */
interface Member {
  readonly log: string
  process: ChildProcess
  start(settings?: Settings): Promise<ChildProcess>
  setLink(link: Link): Promise<void>
}

export class Fleet {
  readonly #balancer: HaProxy
  readonly #members: Readonly<Record<ProcessName, Member>>
  readonly #stores: Readonly<Record<StoreName, TcpProxy>>
  readonly #servers: readonly string[]
  /** The platform, as clients reach it: through the balancer. */
  readonly at: Running

  private constructor(parts: {
    at: Running
    balancer: HaProxy
    members: Record<ProcessName, Member>
    stores: Record<StoreName, TcpProxy>
    servers: readonly string[]
  }) {
    this.at = parts.at
    this.#balancer = parts.balancer
    this.#members = parts.members
    this.#stores = parts.stores
    this.#servers = parts.servers
  }

  /** Replaces API and worker of a platform. @param env settings of all its processes */
  static async start(
    network: Network,
    { started, dir }: OwnPlatform,
    env: Readonly<Record<string, string>>,
  ): Promise<Fleet> {
    const { running, stack } = started
    const stores = await openStores(network, running)
    const reached = {
      ...running,
      env: { ...running.env, ...DRAIN, ...through(network, running, stores), ...env },
    }
    const build = { ...(await currentBuild()), env: reached.env }
    const members: Partial<Record<ProcessName, Member>> = {}
    const servers: string[] = []
    for (const name of PROCESSES) {
      const { setLink, ...on } = await network.add(name.replace(' ', '').toLowerCase())
      const log = join(dir, 'logs', `${name}.log`)
      const start = async ({ env: own }: Settings = {}): Promise<ChildProcess> => {
        const program: Program = { ...build, on, log, env: { ...build.env, ...own } }
        if (name.startsWith('worker')) return startWorker(reached, program)
        const settings = {
          TENON_HOST: on.address,
          TENON_PORT: String(API_PORT),
          TENON_EAGER_START_SOCKET: '',
        }
        return (await startApi(settings, reached, undefined, program)).process
      }
      if (name.startsWith('API')) servers.push(`${on.address}:${API_PORT}`)
      members[name] = { log, start, setLink, process: await start() }
    }
    for (const name of ['api', 'worker']) await stack.supervisor.end(name)
    const balancer = await startHaProxy(await network.add('haproxy'), servers)
    await balancer.awaitReady(servers.length)
    const at = { ...reached, url: balancer.url }
    return new Fleet({ at, balancer, stores, servers, members: members as Record<ProcessName, Member> })
  }

  /** Of each API, past the balancer. */
  get apiUrls(): string[] {
    return this.#servers.map((server) => `http://${server}`)
  }

  /** Which APIs the balancer took away and back. */
  get balancerLog(): string {
    return this.#balancer.log()
  }

  /** Through which the processes reach a store. */
  store(name: StoreName): TcpProxy {
    return this.#stores[name]
  }

  member(name: ProcessName): Member {
    return this.#members[name]
  }

  /** Ends a process by SIGTERM, and waits for it. @throws Error if it does not end as it should */
  async drain(name: ProcessName): Promise<void> {
    const { process } = this.#members[name]
    const exited = once(process, 'exit')
    process.kill('SIGTERM')
    const [code, signal] = await exited
    if (code !== 0) throw new Error(`${name} ended with ${code ?? signal}`)
  }

  async kill(name: ProcessName): Promise<void> {
    const { process } = this.#members[name]
    const exited = once(process, 'exit')
    process.kill('SIGKILL')
    await exited
  }

  async start(name: ProcessName, settings?: Settings): Promise<void> {
    const member = this.#members[name]
    member.process = await member.start(settings)
  }

  /** Waits until the balancer sends requests to both APIs. */
  async awaitReady(): Promise<void> {
    await this.#balancer.awaitReady(2)
  }

  /** The processes end with their network. */
  async close(): Promise<void> {
    await this.#balancer.stop()
    for (const store of Object.values(this.#stores)) store.close()
  }
}

async function openStores(
  { address: host }: Network,
  { env }: Running,
): Promise<Record<StoreName, TcpProxy>> {
  const opened = STORES.map(async (name) => {
    const address = env[ADDRESSES[name][0]] ?? ''
    const url = new URL(address.includes('://') ? address : `tcp://${address}`)
    return [name, await startTcpProxy(url, { host })] as const
  })
  return Object.fromEntries(await Promise.all(opened)) as Record<StoreName, TcpProxy>
}

/** The addresses of the stores, as machines of the network reach them. */
function through(
  { address }: Network,
  { env }: Running,
  stores: Record<StoreName, TcpProxy>,
): Record<string, string> {
  const changed: Record<string, string> = {}
  for (const name of STORES)
    for (const setting of ADDRESSES[name]) {
      const before = env[setting]
      if (before === undefined) continue
      const host = `${address}:${stores[name].port}`
      changed[setting] = before.includes('://') ? before.replace(/(127\.0\.0\.1|localhost):\d+/, host) : host
    }
  return changed
}
