/** The installation of docker-compose.yml as it stands, with secrets and ports of its own, started by podman-compose. */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { Ports } from '../../../stack/ports.ts'
import { PROJECT_DIR } from '../../../stack/project.mjs'
import { eventually } from '../../support/fixtures/tenants.ts'
import { type Running, UNLIMITED } from '../../support/stack/start.ts'
import { type Output, podman, tryCompose, tryPodman } from './engine.ts'

const PROJECT = 'tenon'
/** For a first start on a busy machine. */
const HEALTHY_MS = 600_000
const COMPOSE_TEXT = readFileSync(join(PROJECT_DIR, 'docker-compose.yml'), 'utf8')

/** Settings of the tests, which an operator would write into tenon.env. */
const SETTINGS = {
  ...UNLIMITED,
  TENON_VALIDATE_RESPONSES: 'true',
  TENON_OPERATOR_SEES_PAYLOADS: 'true',
}

/** What `podman inspect` says of a container, as far as it is read here. */
export interface Container {
  readonly Name: string
  readonly State: { readonly Status: string; readonly ExitCode: number; readonly Pid: number }
  readonly Config: {
    readonly Env: readonly string[]
    readonly Labels: Readonly<Record<string, string>>
    readonly Healthcheck?: object
  }
  readonly HostConfig: {
    readonly ReadonlyRootfs: boolean
    readonly Memory: number
    readonly PidsLimit: number
    readonly CapAdd: readonly string[]
  }
  readonly EffectiveCaps: readonly string[] | null
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, { readonly IPAddress: string }>> }
}

export class Installation {
  readonly folder: string
  readonly secrets: Readonly<Record<string, string>>
  readonly #forwarders: Server[] = []

  constructor(folder: string, secrets: Readonly<Record<string, string>>) {
    this.folder = folder
    this.secrets = secrets
  }

  /** Runs podman-compose in its folder; any end is a result. */
  compose(...args: readonly string[]): Promise<Output> {
    return tryCompose(this.folder, '-p', PROJECT, ...args)
  }

  /**
   * Starts all services, those first which others wait for, until each is healthy and each job has done its work: what `depends_on` says, and
   * Podman before 4.6 does not do.
   */
  async start(): Promise<void> {
    for (const services of startOrder()) {
      const { code, stderr } = await this.compose('up', '--detach', '--no-build', '--no-deps', ...services)
      if (code !== 0) throw new Error(`podman-compose up ended with ${code}:\n${stderr}`)
      await this.becomeHealthy()
    }
  }

  /** Asks each health check, as the engine does by timers of systemd where there is one. */
  async becomeHealthy(): Promise<void> {
    let late = ''
    const isHealthy = async () => {
      late = await this.#firstUnhealthy()
      return late === '' ? true : undefined
    }
    await eventually(isHealthy, HEALTHY_MS).catch(async (error: unknown) => {
      throw new Error(`${late} is not healthy: ${error}\n${(await this.logs(late)).slice(-5_000)}`)
    })
  }

  /** @returns its service; empty if there is none */
  async #firstUnhealthy(): Promise<string> {
    for (const container of await this.containers()) {
      const { Config, State, Name } = container
      const isGood =
        Config.Healthcheck === undefined
          ? State.Status === 'exited' && State.ExitCode === 0
          : State.Status === 'running' && (await tryPodman('healthcheck', 'run', Name)).code === 0
      if (!isGood) return serviceOf(container)
    }
    return ''
  }

  /** Those of all services and jobs, the demo excepted. */
  async containers(): Promise<readonly Container[]> {
    const ids = (await podman('ps', '--all', '--quiet')).split('\n').filter((id) => id !== '')
    return ids.length === 0 ? [] : (JSON.parse(await podman('inspect', ...ids)) as Container[])
  }

  async container(service: string): Promise<Container> {
    const found = (await this.containers()).find((container) => serviceOf(container) === service)
    if (found === undefined) throw new Error(`There is no container of ${service}.`)
    return found
  }

  /** What the container of a service has printed. */
  async logs(service: string): Promise<string> {
    const { stdout, stderr } = await tryPodman('logs', (await this.container(service)).Name)
    return `${stdout}${stderr}`
  }

  /** Runs a program in the container of a service, with input. */
  async exec(service: string, ...command: readonly string[]): Promise<string> {
    return podman('exec', (await this.container(service)).Name, ...command)
  }

  /** The installation as tests know one: the API by its port, and the database for tests of itself. */
  async running(): Promise<Running> {
    const { secrets } = this
    const databasePort = await this.#forward('postgres', 5432)
    return {
      url: secrets['TENON_PUBLIC_URL'] ?? '',
      clientId: 'tenon-operator',
      clientSecret: secrets['TENON_OPERATOR_SECRET'] ?? '',
      masterKey: secrets['TENON_MASTER_KEY'] ?? '',
      databaseUrl: `postgres://postgres:${secrets['TENON_POSTGRES_SECRET']}@127.0.0.1:${databasePort}/tenon`,
      logs: this.folder,
      env: { GATEWAY_SECRET: secrets['GATEWAY_SECRET'] ?? '' },
      echoPorts: [],
    }
  }

  /** A loopback port that leads to one of a container, which has another address after a restart. */
  async #forward(service: string, port: number): Promise<number> {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      this.#connect(service, port).then(
        (upstream) => {
          upstream.on('error', () => socket.destroy())
          socket.pipe(upstream).pipe(socket)
          socket.on('close', () => upstream.destroy())
        },
        () => socket.destroy(),
      )
    })
    this.#forwarders.push(server)
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    return (server.address() as { port: number }).port
  }

  async #connect(service: string, port: number): Promise<Socket> {
    const { NetworkSettings } = await this.container(service)
    const [network] = Object.values(NetworkSettings.Networks)
    return connect(port, network?.IPAddress)
  }

  async close(): Promise<void> {
    for (const server of this.#forwarders) server.close()
    await rm(this.folder, { recursive: true, force: true })
  }
}

interface Service {
  readonly depends_on?: Readonly<Record<string, object>>
  readonly profiles?: readonly string[]
}

/** The services that start by themselves, in groups: each depends on those of earlier groups alone. */
function startOrder(): string[][] {
  const { services } = parse(COMPOSE_TEXT, { merge: true }) as { services: Record<string, Service> }
  const waiting = new Map(Object.entries(services).filter(([, { profiles }]) => profiles === undefined))
  const groups: string[][] = []
  while (waiting.size > 0) {
    const isFree = ([, { depends_on = {} }]: [string, Service]) =>
      Object.keys(depends_on).every((name) => !waiting.has(name))
    const group = [...waiting].filter(isFree).map(([name]) => name)
    for (const name of group) waiting.delete(name)
    groups.push(group)
  }
  return groups
}

export const serviceOf = ({ Config }: Container): string => Config.Labels['com.docker.compose.service'] ?? ''

/** A folder with the file, what it mounts, and the secrets that the commands of its head would make. */
export async function createInstallation(): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-containers-'))
  for (const name of ['docker-compose.yml', 'deploy'])
    await cp(join(PROJECT_DIR, name), join(folder, name), { recursive: true })
  const ports = new Ports({ remembered: {}, any: true })
  const [api, ui] = [await ports.take('api', 0), await ports.take('temporal-ui', 0)]
  const names = /for name in ([A-Z0-9_ ]+);/.exec(COMPOSE_TEXT)?.[1]?.split(' ') ?? []
  const random = (bytes: number) => randomBytes(bytes).toString('hex')
  const secrets = {
    ...Object.fromEntries(names.map((name) => [`TENON_${name}_SECRET`, random(24)])),
    TENON_MASTER_KEY: randomBytes(32).toString('base64'),
    GATEWAY_SECRET: random(32),
    TENON_PORT: String(api),
    TENON_PUBLIC_URL: `http://127.0.0.1:${api}`,
    TEMPORAL_UI_PORT: String(ui),
    TEMPORAL_UI_URL: `http://127.0.0.1:${ui}`,
  }
  const lines = (values: Readonly<Record<string, string>>) =>
    Object.entries(values).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(join(folder, '.env'), lines(secrets).join(''))
  await writeFile(join(folder, 'tenon.env'), lines(SETTINGS).join(''))
  return new Installation(folder, secrets)
}
