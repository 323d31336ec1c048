/** The containers of docker-compose.yml: the demo runs in them, and each has no more rights and secrets than it needs. */

import { readFile } from 'node:fs/promises'
import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { tryPodman } from './engine.ts'
import { PLATFORM } from './images.ts'
import { type Container, Installation, serviceOf } from './installation.ts'
import { SECRETS } from './secrets.ts'

const { folder, secrets } = inject('containers')
const installation = new Installation(folder, secrets)
const containers = await installation.containers()
const named = (all: readonly Container[]) => all.map((one) => [serviceOf(one), one] as const)
const services = named(containers.filter(({ Config }) => Config.Healthcheck !== undefined))
const jobs = named(containers.filter(({ Config }) => Config.Healthcheck === undefined))

test('containers: services are healthy, and jobs have ended with 0', async () => {
  expect(services.map(([name]) => name).toSorted()).toEqual([
    'api',
    'postgres',
    'seaweedfs',
    'temporal',
    'temporal-ui',
    'temporal-ui-server',
    'valkey',
    'worker',
  ])
  expect(jobs.map(([name]) => name).toSorted()).toEqual([
    'migrate',
    'seaweedfs-certificate',
    'temporal-databases',
    'temporal-schema',
  ])
  await installation.becomeHealthy()
})

test('demo: uses every service once, and all of it succeeds', async () => {
  const { code, stdout, stderr } = await installation.compose(
    '--profile',
    'demo',
    'run',
    '--rm',
    '-T',
    '--no-deps',
    'demo',
  )
  expect(code, stderr).toBe(0)
  const demo = JSON.parse(stdout.slice(stdout.indexOf('{'))) as { failed: unknown[]; results: object[] }
  expect([demo.failed, demo.results.length]).toEqual([[], 5])
})

/** The lines of /proc/<pid>/status about rights. */
async function rightsOf({ State }: Container) {
  const status = await readFile(`/proc/${State.Pid}/status`, 'utf8')
  const line = (name: string) => new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(status)?.[1] ?? ''
  return {
    isRoot: line('Uid').split('\t').includes('0') || line('Gid').split('\t').includes('0'),
    capabilities: ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((set) =>
      Number.parseInt(line(set), 16),
    ),
    newPrivileges: line('NoNewPrivs') === '0',
    isFiltered: line('Seccomp') === '2',
  }
}

test.each(services)('%s: is not root, and has no capabilities and no way to get any', async (service) => {
  expect(await rightsOf(await installation.container(service))).toEqual({
    isRoot: false,
    capabilities: [0, 0, 0, 0, 0],
    newPrivileges: false,
    isFiltered: true,
  })
})

test.each([...services, ...jobs])('%s: has a read-only root, no capabilities, and limits', (_name, one) => {
  const { ReadonlyRootfs, Memory, PidsLimit, CapAdd } = one.HostConfig
  expect([ReadonlyRootfs, CapAdd, one.EffectiveCaps ?? []]).toEqual([true, [], []])
  expect(Math.min(Memory, PidsLimit)).toBeGreaterThan(0)
})

test.each(services)('%s: can write nothing but its volume and memory', async (service) => {
  const { Name } = await installation.container(service)
  const { code, stderr } = await tryPodman('exec', Name, 'sh', '-c', 'echo x > /usr/x || echo x > /etc/x')
  expect([code === 0, stderr]).toEqual([false, expect.stringContaining('Read-only file system')])
})

test.each(Object.entries(SECRETS))(
  '%s: is in the environment of no container that does not need it',
  (name, owners) => {
    const value = secrets[name] ?? ''
    expect(value.length).toBeGreaterThan(30)
    const holders = containers.filter(({ Config }) => Config.Env.some((variable) => variable.includes(value)))
    expect(holders.map(serviceOf).toSorted()).toEqual(owners.filter((owner) => owner !== 'demo'))
  },
)

type Role = readonly [user: string, password: string | undefined]

/** @returns what the role may do, or the code of the refusal */
async function logIn([user, password]: Role, database: string) {
  const url = new URL(inject('tenon').databaseUrl)
  const client = new Client({
    connectionString: Object.assign(url, { username: user, password, pathname: database }).href,
  })
  try {
    await client.connect()
    const { rows } = await client.query('select rolsuper from pg_roles where rolname = current_user')
    return rows[0]?.rolsuper === false ? 'with no more than its rights' : 'as a superuser'
  } catch (error) {
    return (error as { code?: string }).code
  } finally {
    await client.end()
  }
}

test('PostgreSQL: Temporal logs in to its own databases alone, and the platform to its own', async () => {
  const temporal: Role = ['temporal', secrets['TENON_TEMPORAL_SECRET']]
  const app: Role = ['tenon_app', secrets['TENON_APP_SECRET']]
  const builder: Role = ['tenon_builder', secrets['TENON_BUILDER_SECRET']]
  for (const database of ['temporal', 'temporal_visibility'])
    expect(await logIn(temporal, database)).toBe('with no more than its rights')
  for (const role of [app, builder]) expect(await logIn(role, 'tenon')).toBe('with no more than its rights')
  const refused = [
    await logIn(temporal, 'tenon'),
    await logIn(temporal, 'postgres'),
    await logIn(app, 'temporal'),
    await logIn(builder, 'temporal_visibility'),
  ]
  expect(refused).toEqual(refused.map(() => '28000'))
})

test('image of the platform: has no compiler and no package manager of Node', async () => {
  const find =
    'for name in gcc g++ cc c++ make ld as cargo go python3 npm npx; do command -v "$name"; done; echo searched'
  const { stdout } = await tryPodman('run', '--rm', '--network=none', PLATFORM, 'sh', '-c', find)
  expect(stdout).toBe('searched\n')
})

test('Temporal UI: is served under its own name alone, with the settings of the platform', async () => {
  const url = secrets['TEMPORAL_UI_URL'] ?? ''
  const settings = (await (await fetch(`${url}/api/v1/settings`)).json()) as { Codec: { Endpoint: string } }
  expect(settings.Codec.Endpoint).toBe(`${secrets['TENON_PUBLIC_URL']}/v1/codec`)
  expect(await (await fetch(url)).text()).toContain('<html')
})
