/** Starts the platform on running servers: migrates the database, builds, and starts the API and the worker. */

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Stack } from '../../../stack/start.ts'
import { SECRET_SETTINGS } from '../../infra/config.ts'
import { formatMasterKeys, parseMasterKeys } from '../../infra/crypto/master-keys.ts'
import { DERIVED, deriveSecret, OPERATOR_CLIENT } from '../../infra/crypto/secrets.ts'
import { migrate } from '../../infra/postgres/migrate.ts'
import { callerPath } from '../settings.ts'
import { currentBuild } from './build.ts'
import { readEnvironment } from './environment.ts'
import { currentSite, siteFolder } from './site.ts'

/** Limits of paths of sockets: 103 bytes on macOS, 107 on Linux. */
const SOCKET_BYTES_MAX = 100
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export interface PlatformOptions {
  readonly stack: Stack
  /** Folder for logs. */
  readonly dir: string
  readonly port: number
  readonly masterKey: string
  readonly env?: Readonly<Record<string, string>>
  /** True, the default: stack traces name the lines of the sources. Reading the source maps takes a third of the start of a process. */
  readonly sourceMaps?: boolean
}

export interface RunningPlatform {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: string
  /** Settings with which another API process joins this platform. */
  readonly env: Readonly<Record<string, string>>
}

/** The codec server of an API on a local port. It is known before the API runs, since the Temporal UI starts first. */
export function codecEndpoint(port: number, { TENON_PUBLIC_URL }: NodeJS.ProcessEnv): string {
  return `${TENON_PUBLIC_URL || `http://127.0.0.1:${port}`}/v1/codec`
}

/**
 * Starts the processes under the supervisor of the stack. Resolves when the API and its servers are ready.
 * @throws PortTaken if another process listens on the port, and what the migration, the build and the supervisor throw; then neither
 *   process is left running
 */
export async function launchPlatform(options: PlatformOptions): Promise<RunningPlatform> {
  const { stack, port, masterKey } = options
  const passwords = {
    app: deriveSecret(masterKey, DERIVED.appPassword),
    builder: deriveSecret(masterKey, DERIVED.builderPassword),
  }
  const [{ appUrl, builderUrl }, build] = await Promise.all([
    migrate(stack.env['DATABASE_URL'] ?? '', { ...passwords, masterKeys: masterKey }),
    currentBuild(),
  ])
  const { DATABASE_URL: _admin, ...servers } = stack.env
  const env = {
    ...servers,
    DATABASE_APP_URL: appUrl,
    TENON_MASTER_KEY: masterKey,
    TENON_PORT: String(port),
    TENON_WORKFLOW_BUNDLE: build.workflows,
    TENON_DOCS_DIR: await siteFolder(),
    ...startsSocket(options.dir),
    TENON_MAIL_DIR: resolve(options.dir, 'mail'),
    NODE_ENV: 'production',
    // No balancer is in front, and the supervisor of the stack kills after 4 s.
    TENON_DRAIN_DELAY: '0',
    TENON_DRAIN_LIMIT: '3',
    // On a local platform, all administrators are one person with scripts.
    TENON_RATE_ADMIN: '1200/min',
    TENON_OPERATOR_SEES_PAYLOADS: 'true',
    ...inheritedSettings(),
    ...options.env,
  }
  const url = `http://127.0.0.1:${port}`
  const workerEnv = { ...env, DATABASE_BUILDER_URL: builderUrl, TENON_DRAIN_LIMIT: '5' }
  try {
    await Promise.all([
      runProcess(options, 'worker', build.worker, workerEnv, async () => {}),
      runProcess(options, 'api', build.api, env, () => answers(`${url}/readyz`)),
    ])
  } catch (error) {
    // The worker runs already, and has the port of the API in its settings.
    await stack.supervisor.end('worker')
    throw error
  }
  // Nobody waits for the documentation: the API serves it as soon as it is written.
  currentSite().catch((error: unknown) => process.stderr.write(`/docs is empty: ${String(error)}\n`))
  return {
    url,
    clientId: OPERATOR_CLIENT,
    clientSecret: deriveSecret(masterKey, DERIVED.operatorSecret),
    env,
  }
}

/** The socket on which the worker accepts starts from the API; none if its path would be too long. */
function startsSocket(dir: string): Record<string, string> {
  const socket = resolve(dir, 'starts.sock')
  return Buffer.byteLength(socket) > SOCKET_BYTES_MAX ? {} : { TENON_EAGER_START_SOCKET: socket }
}

/** Settings that the platform inherits from the environment of the CLI. */
function inheritedSettings(): Record<string, string> {
  const env = readEnvironment(callerPath)
  const names = Object.keys(env)
    .filter((name) => /^TENON_(RATE|STREAMS|USER_MAILS)_/.test(name) || isOfTemporal(name, env))
    .concat([
      'GATEWAY_SECRET',
      'LOG_LEVEL',
      'OIDC_ISSUERS',
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'OTEL_EXPORTER_OTLP_HEADERS',
      'SMTP_URL',
      'TENON_MAIL_FROM',
      'TENON_MAX_CACHED_WORKFLOWS',
      'TENON_CONTAINER_ENGINE',
      'TENON_DEV_STDIO_SERVERS',
      'TENON_EGRESS_ALLOWLIST',
      'TENON_MCP_HOSTS',
      'TENON_MCP_ORIGINS',
      'TENON_PUBLIC_URL',
      'TENON_SDK_PATCHES',
      'TENON_OPERATOR_SECRET',
      'TEMPORAL_NAMESPACE',
      'MONGODB_URL',
      'TENON_TRUSTED_PROXIES',
    ])
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [settingOf(name, env[name])] : [])))
}

/** A secret in a file stays there: no environment has it, and a new API key of Temporal is read when the old one is replaced. */
function settingOf(name: string, value: string): [name: string, value: string] {
  const file = process.env[`${name}_FILE`]
  return file && SECRET_SETTINGS.includes(name) ? [`${name}_FILE`, callerPath(file)] : [name, value]
}

/** How a Temporal of their own is reached; the embedded one is none of it. */
const isOfTemporal = (name: string, env: NodeJS.ProcessEnv): boolean =>
  Boolean(env['TEMPORAL_ADDRESS']) && name.startsWith('TEMPORAL_')

function runProcess(
  { stack, dir, sourceMaps = true }: PlatformOptions,
  name: string,
  main: string,
  env: Record<string, string>,
  ready: () => Promise<void>,
): Promise<void> {
  return stack.supervisor.run({
    name,
    command: process.execPath,
    args: sourceMaps ? ['--enable-source-maps', main] : [main],
    cwd: ROOT,
    env,
    logFile: join(dir, 'logs', `${name}.log`),
    ready,
  })
}

/** @throws Error if the API or one of its servers is not ready */
async function answers(url: string): Promise<void> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${url} answered ${response.status}`)
}

/** Reads the master keys of a data folder, one a line, or creates one. They decrypt every secret of the installation. */
export async function provideMasterKey(dir: string): Promise<string> {
  const file = join(dir, 'master.key')
  const known = await readFile(file, 'utf8').catch(() => undefined)
  if (known !== undefined) return formatMasterKeys(parseMasterKeys(known))
  if (existsSync(join(dir, 'master.made')))
    throw new Error(
      `${file} is missing, and the secrets of this data cannot be decrypted without it. Restore it, or move ${dir} away to start over.`,
    )
  const made = randomBytes(32).toString('base64')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await writeFile(file, `${made}\n`, { mode: 0o600, flag: 'wx' })
  await writeFile(join(dir, 'master.made'), 'A master key was made for this data; see master.key.\n')
  return made
}
