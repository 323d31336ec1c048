/**
 * Runs the commands of the pages for operators, as they stand there: those that build, migrate and start processes in an installation of
 * their own, all others against the common platform. `NOT_RUN` lists the few that no test machine can run.
 */

import { execFile, spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { parse } from 'yaml'
import { describeConfig } from '../../../src/infra/config.ts'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { binary } from '../../../stack/binaries.mjs'
import { Ports } from '../../../stack/ports.ts'
import { operatorEnv } from '../../support/clients/cli.ts'
import { opsAddress } from '../../support/clients/metrics.ts'
import { asSuperuser, call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { runCheckNamed } from '../../support/stack/start-outcome.ts'

const execute = promisify(execFile)

const RUNBOOKS = 'docs/runbooks'
/** In the order in which an operator reads them: the first builds what the others start. */
const PAGES = [
  ...['deploying', 'operating', 'scaling'].map((name) => `docs/${name}.md`),
  ...readdirSync(RUNBOOKS).map((name) => `${RUNBOOKS}/${name}`),
]
/** The other commands of that page are those of the restore drill (test/soak/restore). */
const [, UPGRADE = ''] = readFileSync('docs/backup.md', 'utf8').split('\n## Upgrade\n')
const TEXT = [...PAGES.map((page) => readFileSync(page, 'utf8')), UPGRADE].join('\n')

/** The blocks of a language, without repetitions. */
const blocks = (...languages: string[]): string[] => [
  ...new Set(
    [...TEXT.matchAll(new RegExp(`\`\`\`(?:${languages.join('|')})\\n([^]*?)\\n *\`\`\``, 'g'))].map(
      ([, code = '']) => code,
    ),
  ),
]

interface Command {
  readonly text: string
  /** It belongs to a new installation, which has a database and a namespace of Temporal of its own. */
  readonly isOfNew: boolean
  /** Lines of its block before it that set variables. */
  readonly exports: readonly string[]
}

const isServer = (text: string) => /\bnode dist\/\w+\.mjs$|^weed server /.test(text)
const isExport = (line: string) => /^(export|for \w+ in .*export) /.test(line)

/** The commands of a block of a shell, without comments. */
function commandsOf(block: string): Command[] {
  const lines = block
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/\s+# .*$/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  const isOfNew = lines.some((text) => isServer(text) || /\btenon (build|migrate)\b/.test(text))
  return lines
    .map((text, n) => ({ text, isOfNew, exports: lines.slice(0, n).filter(isExport) }))
    .filter(({ text }) => !isExport(text))
}

const commands = [
  ...new Map(
    blocks('sh', 'bash')
      .flatMap(commandsOf)
      .map((command) => [command.text, command]),
  ).values(),
]

const read = (path: string) => readFileSync(path, 'utf8')
const COMPOSE_TEXT = read('docker-compose.yml')
const COMPOSE = parse(COMPOSE_TEXT, { merge: true }) as { services: Record<string, object> }

/** Commands that do not run here: why, and what of them is true nevertheless. */
const NOT_RUN: Readonly<Record<string, { readonly because: string; readonly holds: () => boolean }>> = {
  'docker compose up --wait': {
    because: 'needs a container engine; npm run test:containers starts the file',
    holds: () => ['api', 'worker'].every((name) => 'healthcheck' in (COMPOSE.services[name] ?? {})),
  },
  'docker compose run --rm demo': {
    because: 'needs a container engine; npm run test:containers starts the file',
    holds: () => 'demo' in COMPOSE.services,
  },
  'promtool check config /etc/prometheus/prometheus.yml': {
    because: 'needs Prometheus; npm run test:prometheus fetches it and checks the file of the repository',
    holds: () => read('test/conformance/prometheus/rules.ts').includes("'deploy/prometheus/prometheus.yml'"),
  },
  'systemctl restart prometheus': {
    because: 'needs systemd and a service of Debian',
    holds: () => true,
  },
  ...Object.fromEntries(
    ['current-version 0.1.0', 'ramping-version 0.2.0 --percentage 10', 'current-version 0.2.0'].map((set) => [
      `temporal worker deployment set-${set.replace(' ', ' --deployment-name tenon --build-id ')}`,
      {
        because: 'needs workers of two builds, which npm run test:external has',
        holds: () =>
          read('test/conformance/external/worker-versions.proof.ts').includes(
            'setWorkerDeploymentRampingVersion',
          ),
      },
    ]),
  ),
}

const runnable = commands.filter(({ text }) => !Object.hasOwn(NOT_RUN, text))

test('commands of pages for operators that are not run: are on a page, and what can be checked of them holds', () => {
  const wrong = Object.entries(NOT_RUN).filter(
    ([text, { holds }]) => !commands.some((command) => command.text === text) || !holds(),
  )
  expect(wrong.map(([text]) => text)).toEqual([])
  expect(runnable.length).toBeGreaterThan(40)
})

/** The id of a request in the examples, which this file sends. */
const REQUEST_ID = /npx tenon trace (req_\w+)/.exec(TEXT)?.[1] ?? ''
/** Ports in examples, which are taken on a machine with other installations. */
const PORTS = /(?<=127\.0\.0\.1:|TENON_PORT=)\d{4}\b/g
const BUSY_MS = 60_000

mkdirSync('.tenon', { recursive: true })
/** The folder of the new installation: below that of the repository, as a build must be. */
const folder = mkdtempSync(resolve('.tenon/pages-'))
/** Has the programs of servers under their usual names. */
const programs = mkdtempSync(join(tmpdir(), 'tenon-programs-'))
const database = unique('pages').replaceAll('-', '_')
let common: NodeJS.ProcessEnv
let installation: NodeJS.ProcessEnv

beforeAll(async () => {
  const { url, logs, env: settings } = inject('tenon')
  const workspace = await createTestWorkspace()
  const body = { workspace_id: workspace.workspaceId, name: 'traced', kind: 'service' }
  const headers = { 'x-request-id': REQUEST_ID }
  expect((await call('POST', '/v1/api-keys', { as: workspace.operator, body, headers })).status).toBe(201)
  symlinkSync(resolve('deploy'), join(folder, 'deploy'))
  symlinkSync(await binary('temporal'), join(programs, 'temporal'))
  await writeWeed()
  const PATH = [programs, dirname(process.execPath), process.env['PATH']].join(delimiter)
  common = {
    ...operatorEnv(workspace),
    ...{ OPS: await opsAddress('worker'), TENON_URL: url, LOGS: logs, PATH },
    TEMPORAL_ADDRESS: settings['TEMPORAL_ADDRESS'],
    DATABASE_URL: inject('tenon').databaseUrl,
  }
  installation = await newInstallation(PATH)
})
afterAll(async () => {
  for (const path of [programs, folder]) rmSync(path, { recursive: true, force: true })
  await asSuperuser(`drop database if exists ${database} with (force)`)
})

/** `weed` as the pages start it, on free ports. */
async function writeWeed(): Promise<void> {
  const ports = new Ports({ remembered: {}, any: true })
  const options = []
  for (const role of ['master', 'volume', 'filer', 's3'])
    for (const name of [`${role}.port`, `${role}.port.grpc`])
      options.push(`-${name}=${await ports.take(name, 0)}`)
  const path = join(programs, 'weed')
  writeFileSync(path, `#!/bin/sh\nexec ${await binary('weed')} -logtostderr "$@" ${options.join(' ')}\n`)
  chmodSync(path, 0o755)
}

/** Settings with which nothing has been migrated yet. The roles of the server keep the passwords of the common platform. */
async function newInstallation(PATH: string): Promise<NodeJS.ProcessEnv> {
  const { env: settings, databaseUrl, masterKey } = inject('tenon')
  await asSuperuser(`create database ${database} template template0`)
  const builder = { username: 'tenon_builder', password: deriveSecret(masterKey, DERIVED.builderPassword) }
  const at = (url: string | undefined) => new URL(`/${database}`, url).href
  return {
    ...process.env,
    ...settings,
    PATH,
    DATABASE_URL: at(databaseUrl),
    DATABASE_APP_URL: at(settings['DATABASE_APP_URL']),
    DATABASE_BUILDER_URL: Object.assign(new URL(at(databaseUrl)), builder).href,
    TENON_MASTER_KEY: masterKey,
    TENON_APP_PASSWORD: deriveSecret(masterKey, DERIVED.appPassword),
    TENON_BUILDER_PASSWORD: builder.password,
    TEMPORAL_NAMESPACE: database,
    ...{
      TENON_EAGER_START_SOCKET: '',
      TENON_PUBLIC_URL: '',
      TENON_PORT: '0',
      TENON_OPS_LISTEN: '127.0.0.1:0',
    },
    ...{ TENON_DRAIN_DELAY: '0', S3_ACCESS_KEY_ID: 'tenonroot', S3_SIGNING_SECRET: 'signing'.repeat(6) },
  }
}

/** `grep` has 1 if it finds nothing, and `tenon doctor` if it finds something. */
const MAY_BE_1 = /\| grep '[^|]*'$|tenon doctor$/

const scriptOf = ({ exports, text }: Command) => [...exports, text].join('\n')

test.each(runnable)('command of a page for operators: $text: runs', async (command) => {
  if (isServer(command.text)) return expectServes(command)
  const options = { cwd: folder, env: command.isOfNew ? installation : common }
  const { code, stderr } = await execute('sh', ['-c', scriptOf(command)], options).then(
    ({ stderr }) => ({ code: 0, stderr }),
    (error: { code: number; stderr: string }) => error,
  )
  expect(code === 0 || (code === 1 && MAY_BE_1.test(command.text)), `${code} ${stderr}`).toBe(true)
})

/** A process or store that runs until it is stopped becomes ready, and ends when it is told to. */
async function expectServes(command: Command): Promise<void> {
  const script = scriptOf(command)
    .replaceAll(PORTS, '0')
    .replace(/[^\n]*$/, 'exec env $&')
  const child = spawn('sh', ['-c', script], { cwd: folder, env: installation })
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk))
  const ended = Promise.withResolvers<unknown>()
  child.on('exit', (code, signal) => ended.resolve(code ?? signal))
  try {
    await Promise.race([
      eventually(async () => ((await isServing(printed)) ? true : undefined), BUSY_MS),
      ended.promise.then((code) => Promise.reject(new Error(`ended with ${code}: ${printed}`))),
    ])
  } finally {
    child.kill('SIGTERM')
  }
  expect(await ended.promise, printed).toBe(0)
}

/** The probe of a process, or what `tenon doctor` says of a store. */
async function isServing(printed: string): Promise<boolean> {
  const [, port] = /"port":(\d+),"msg":"ops server listens"/.exec(printed) ?? []
  if (port !== undefined)
    return fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    )
  const [, s3] = /S3 API Server .* at http port (\d+)/.exec(printed) ?? []
  if (s3 === undefined) return false
  const { S3_ACCESS_KEY_ID = '', S3_SECRET_ACCESS_KEY = '' } = installation
  const store = { S3_ENDPOINT: `http://127.0.0.1:${s3}`, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY }
  return (await runCheckNamed('storage', store))?.is === 'good'
}

test('page of upgrades: its commands: are those that run here, and the migration has nothing to do a second time', async () => {
  const lines = [...UPGRADE.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block = '']) => commandsOf(block))
  const texts = lines.map(({ text }) => text)
  expect(texts).toEqual([
    'npx tenon migrate --check',
    'npx tenon migrate',
    'curl -fsS "$TENON_URL/readyz"',
    'npx tenon doctor',
  ])
  expect(runnable.map(({ text }) => text)).toEqual(expect.arrayContaining(texts))
  const [, says = ''] = /a second run says `([^`]+)`/.exec(UPGRADE) ?? []
  const twice = 'npx tenon migrate > /dev/null && npx tenon migrate'
  const again = await execute('sh', ['-c', twice], { cwd: folder, env: installation })
  expect(again.stdout).toBe(`${says}\n`)
})

test.each(blocks('sql'))('statement of a page for operators: %s: runs', async (statement) => {
  expect(await asSuperuser(statement)).toBeInstanceOf(Array)
})

const valkeyLines = [...new Set(blocks('valkey').flatMap((code) => code.split('\n')))]

test.each(valkeyLines)('command of a page for operators for Valkey: %s: runs', async (line) => {
  const redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
  const [command = '', ...words] = line.split(' ')
  expect(await redis.call(command, ...words)).toBeTruthy()
  redis.disconnect()
})

test('secrets of the containers: the commands before them write each that the compose file requires', () => {
  const required = [...COMPOSE_TEXT.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name)
  const written = [...read(join(folder, '.env')).matchAll(/^(\w+)=\S{32,}$/gm)].map(([, name]) => name)
  expect(written.toSorted()).toEqual([...new Set(required)].toSorted())
})

test('example of a balancer: asks a probe, and notices a stop before the process refuses connections', async () => {
  const [block = ''] = blocks('haproxy')
  const [, method = '', path = ''] = /option httpchk (\w+) (\S+)/.exec(block) ?? []
  expect((await call(method, path)).status).toBe(200)
  const [, seconds, failures] = /inter (\d+)s fall (\d+)/.exec(block) ?? []
  const delay = describeConfig().find(({ name }) => name === 'TENON_DRAIN_DELAY')?.default
  expect(Number(seconds) * Number(failures)).toBeLessThan(Number(delay))
})

test('example of Prometheus: has the targets of the commands before it, and is the file of the repository', () => {
  const page = read('docs/operating.md')
  const [, block = ''] = /```yaml\n(.*?)```/s.exec(page) ?? []
  const targetsOf = (text: string) => (parse(text) as { scrape_configs: unknown }).scrape_configs
  const scraped = targetsOf(block)
  expect(scraped).toEqual(targetsOf(read('deploy/prometheus/prometheus.yml')))
  const ports = [...page.matchAll(/TENON_OPS_LISTEN=(\S+) node/g)].map(([, address]) => address)
  expect(ports.map((target) => JSON.stringify(scraped).includes(String(target)))).toEqual([true, true])
})
