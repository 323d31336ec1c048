/** docker-compose.yml: its servers are as restricted as the embedded ones. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { describeConfig } from '../../../src/infra/config.ts'
import { roles, security } from '../../../stack/seaweedfs.ts'
import { DYNAMIC_CONFIG } from '../../../stack/temporal.ts'

interface Service {
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly stop_grace_period?: string
  readonly command?: string | readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
}

const COMPOSE = 'docker-compose.yml'
const { services } = parse(await readFile(COMPOSE, 'utf8'), { merge: true }) as {
  services: Record<string, Service>
}

test('compose file: published ports of all services: API and Temporal UI proxy only, on loopback', () => {
  const published = Object.entries(services).flatMap(([name, { ports = [] }]) =>
    ports.map((port) => [name, port]),
  )
  expect(published).toEqual([
    ['temporal-ui', '127.0.0.1:8233:8233'],
    ['api', '127.0.0.1:8787:8787'],
  ])
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

const run = promisify(execFile)
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
