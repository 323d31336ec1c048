/** docker-compose.yml: its servers are as restricted as the embedded ones. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { describeConfig } from '../../../src/infra/config.ts'
import { binary } from '../../../stack/binaries.mjs'
import { BINARIES } from '../../../stack/pins.mjs'
import { roles, security } from '../../../stack/seaweedfs.ts'
import { DYNAMIC_CONFIG } from '../../../stack/temporal.ts'
import { SECRETS } from '../../conformance/containers/secrets.ts'

interface Service {
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly stop_grace_period?: string
  readonly command?: string | readonly string[]
  readonly env_file?: readonly object[]
  readonly environment?: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
  readonly image?: string
  readonly user?: string
  readonly restart?: string
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly pids_limit?: number
  readonly logging?: { readonly options: Readonly<Record<string, string>> }
}

const run = promisify(execFile)
const COMPOSE = 'docker-compose.yml'
const { services } = parse(await readFile(COMPOSE, 'utf8'), { merge: true }) as {
  services: Record<string, Service>
}

test('compose file: published ports of all services: API and Temporal UI proxy only, on loopback', () => {
  const published = Object.entries(services).flatMap(([name, { ports = [] }]) =>
    ports.map((port) => [name, port]),
  )
  expect(published).toEqual([
    ['temporal-ui', '127.0.0.1:${TEMPORAL_UI_PORT:-8233}:8233'],
    ['api', '127.0.0.1:${TENON_PORT:-8787}:8787'],
  ])
})

test('compose file: images of servers: have the versions of the embedded servers', async () => {
  const tagOf = (name: string) => services[name]?.image?.split(':')[1]
  const { stdout } = await run(await binary('temporal'), ['--version'])
  const [, server, ui] = /\(Server ([\d.]+), UI ([\d.]+)\)/.exec(stdout) ?? []
  const valkey = /v=([\d.]+)/.exec((await run(await binary('valkey'), ['--version'])).stdout)?.[1]
  expect(['temporal', 'temporal-schema', 'temporal-ui-server', 'valkey'].map(tagOf)).toEqual([
    ...[server, server, ui, valkey],
  ])
  expect(BINARIES.postgres.version).toMatch(new RegExp(`^${tagOf('postgres')}\\.`))
  expect([tagOf('temporal-databases'), tagOf('seaweedfs')]).toEqual([
    tagOf('postgres'),
    BINARIES.weed.version,
  ])
  const dockerfile = await readFile('Dockerfile', 'utf8')
  expect(dockerfile).toContain(`denoland/deno:bin-${BINARIES.deno.version} `)
  expect(dockerfile).toContain(
    `node:${JSON.parse(await readFile('package.json', 'utf8')).devDependencies.node}-`,
  )
})

test.each(Object.entries(services))(
  'compose file: %s: is not root, has no capabilities, a read-only root and limits, and writes logs of a bounded size',
  (_name, service) => {
    expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], mem_limit: expect.any(String) })
    expect(service.pids_limit).toBeGreaterThan(0)
    expect(service.security_opt).toContain('no-new-privileges')
    expect(service.logging?.options['max-size']).toBeDefined()
    // The image of the platform names a user by itself.
    expect(service.image === 'tenon:local' || /^[a-z]+$/.test(service.user ?? '')).toBe(true)
    const isJob = service.restart !== 'unless-stopped'
    expect(service.healthcheck === undefined).toBe(isJob)
  },
)

test.each(Object.entries(SECRETS))(
  'compose file: %s: goes to the services that need it alone',
  (name, owners) => {
    const holders = Object.entries(services).filter(([, { environment = {} }]) =>
      Object.values(environment).some((value) => value.includes(`{${name}`)),
    )
    expect(holders.map(([service]) => service).toSorted()).toEqual(owners)
  },
)

test('compose file: tenon.env: goes to each process that reads settings from it, the migration too', () => {
  const readers = Object.entries(services).filter(([, { env_file }]) => env_file !== undefined)
  expect(readers.map(([service]) => service).toSorted()).toEqual(['api', 'migrate', 'worker'])
  for (const [, { env_file }] of readers) expect(env_file).toEqual([{ path: 'tenon.env', required: false }])
})

test('compose file: worker alone: has the profile with which bubblewrap makes namespaces', async () => {
  const isOwn = (option: string) => option.startsWith('seccomp=')
  const own = Object.entries(services).filter(([, { security_opt = [] }]) => security_opt.some(isOwn))
  expect(own.map(([name]) => name)).toEqual(['worker'])
  const file = own[0]?.[1].security_opt?.find(isOwn)?.slice('seccomp='.length) ?? ''
  const { defaultAction, syscalls } = JSON.parse(await readFile(file, 'utf8')) as {
    defaultAction: string
    syscalls: readonly { names: readonly string[] }[]
  }
  const allowed = syscalls.flatMap(({ names }) => names)
  expect(defaultAction).toBe('SCMP_ACT_ERRNO')
  expect(allowed).toEqual(expect.arrayContaining(['clone', 'unshare', 'mount', 'umount2', 'pivot_root']))
  for (const name of ['bpf', 'keyctl', 'perf_event_open', 'ptrace', 'setns', 'init_module', 'io_uring_setup'])
    expect(allowed).not.toContain(name)
})

test.each(['api', 'worker'])(
  'compose file: %s: is healthy when it is ready, and has the time to end its requests',
  (name) => {
    const { healthcheck, stop_grace_period: grace = '', environment = {} } = services[name] ?? {}
    const [, port, path] = /127\.0\.0\.1:(\d+)(\/\w+)/.exec(healthcheck?.test.join(' ') ?? '') ?? []
    const ports = ['8787', environment['TENON_OPS_LISTEN']?.split(':').at(-1)]
    expect([path, ports]).toEqual(['/readyz', expect.arrayContaining([port])])
    const seconds = (setting: string) =>
      Number(describeConfig().find(({ name }) => name === setting)?.default)
    const [delay, limit] = [seconds('TENON_DRAIN_DELAY'), seconds('TENON_DRAIN_LIMIT')]
    expect(delay + limit).toBeGreaterThan(0)
    expect(Number(/^(\d+)s$/.exec(grace)?.[1])).toBeGreaterThan(delay + limit)
  },
)

test('compose file: SeaweedFS: same settings as the embedded server', async () => {
  const { command, environment = {} } = services['seaweedfs'] ?? {}
  const tokens = Object.entries(environment).filter(([name]) => name.startsWith('WEED_'))
  const expected = security('/identity/seaweedfs.pem', '${TENON_S3_SIGNING_SECRET}')
  const settings = Object.fromEntries(
    tokens.map(([name, value]) => [name, value.replace(':?see the head of this file', '')]),
  )
  expect({ ...(await securityFile()), ...settings }).toEqual(expected)
  const restrictions = ['-disableHttp', '-s3.allowedOrigins=http://closed.invalid', '-ip.bind=127.0.0.1']
  for (const option of [...restrictions, '-s3.iam.readOnly=true', '-volume.max=25000'])
    expect(String(command).split(' ')).toContain(option)
  expect(command).toContain('-s3.iam.config=/etc/seaweedfs/iam.json')
  const accessKey = services['api']?.environment?.['S3_ACCESS_KEY_ID'] ?? ''
  expect(JSON.parse(await readFile('deploy/seaweedfs/iam.json', 'utf8'))).toEqual(roles(accessKey))
})

test('compose file: Valkey: has a limit of memory, and deletes nothing by itself', () => {
  expect(services['valkey']?.command).toEqual(
    expect.arrayContaining(['--maxmemory', '--maxmemory-policy', 'noeviction']),
  )
})

test('compose file: Temporal: accepts no requests over HTTP', async () => {
  const config = parse(await readFile('deploy/temporal/dynamicconfig.yaml', 'utf8'))
  expect(config['frontend.httpAllowedHosts']).toEqual([{ value: ['closed.invalid'] }])
})

test('compose file: Temporal: has the dynamic settings of the embedded server', async () => {
  const config = parse(await readFile('deploy/temporal/dynamicconfig.yaml', 'utf8'))
  const onlyEmbedded = 'system.forceSearchAttributesCacheRefreshOnRead'
  const names = DYNAMIC_CONFIG.map((setting) => setting.split('=')[0]).filter((name) => name !== onlyEmbedded)
  expect(Object.keys(config).toSorted()).toEqual(names.toSorted())
})

const hasCompose = await run('docker-compose', ['version']).then(
  () => true,
  () => false,
)
if (!hasCompose) console.log(`Skipped: docker-compose does not check ${COMPOSE}. It does not run.`)

test.runIf(hasCompose)('compose file: with the secrets of its header: valid', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-compose-'))
  try {
    const text = await readFile(COMPOSE, 'utf8')
    const names = /for name in ([A-Z0-9_ ]+);/.exec(text)?.[1]?.split(' ') ?? []
    const lines = [...names.map((name) => `TENON_${name}_SECRET=x`), 'TENON_MASTER_KEY=x']
    await writeFile(join(dir, 'env'), lines.join('\n'))
    const args = ['--env-file', join(dir, 'env'), '-f', COMPOSE, 'config', '-q']
    await run('docker-compose', args)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

/** Entries of deploy/seaweedfs/security.toml, keyed by the environment variable for each. */
async function securityFile(): Promise<Record<string, string>> {
  let section = ''
  const settings: Record<string, string> = {}
  for (const line of (await readFile('deploy/seaweedfs/security.toml', 'utf8')).split('\n')) {
    section = /^\[(.+)\]$/.exec(line)?.[1] ?? section
    const [, name, value] = /^(\w+) = "?(.*?)"?$/.exec(line) ?? []
    if (name !== undefined && value !== undefined)
      settings[`WEED_${section}_${name}`.replaceAll('.', '_').toUpperCase()] = value
  }
  return settings
}
