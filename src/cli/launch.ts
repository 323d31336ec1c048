/** From running servers to a running platform: migrate, build the bundle, start the API and the worker. */

import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Stack } from '../../stack/start.ts'
import { OPERATOR_CLIENT } from '../platform/identity.ts'
import { migrate } from '../platform/pg/migrate.ts'
import { DERIVED, deriveSecret } from '../platform/secrets.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUNDLES = join(ROOT, 'node_modules/.cache/tenon')
/** What the bundle is made of; a change in any file makes a new one. */
const BUNDLE_SOURCES = ['src/workflows', 'src/core', 'src/activities', 'flows-dsl', 'package-lock.json']

export interface Launch {
  readonly stack: Stack
  /** Folder for logs. */
  readonly dir: string
  readonly port: number
  readonly masterKey: string
  readonly env?: Readonly<Record<string, string>>
}

export interface Launched {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: string
  /** Settings with which another API or worker process joins this platform. */
  readonly env: Readonly<Record<string, string>>
}

/** Starts the processes under the stack's supervisor. Returns when the API answers and its servers do too. */
export async function launch(options: Launch): Promise<Launched> {
  const { stack, port, masterKey } = options
  const [{ appUrl }, bundle] = await Promise.all([
    migrate(stack.env['DATABASE_URL'] ?? '', deriveSecret(masterKey, DERIVED.appPassword)),
    bundlePath(),
  ])
  const { DATABASE_URL: _admin, ...servers } = stack.env
  const env = {
    ...servers,
    DATABASE_APP_URL: appUrl,
    TENON_MASTER_KEY: masterKey,
    TENON_PORT: String(port),
    TENON_WORKFLOW_BUNDLE: bundle,
    NODE_ENV: 'production',
    ...options.env,
  }
  const url = `http://127.0.0.1:${port}`
  await Promise.all([
    runProcess(options, 'worker', 'src/activities/main.ts', env, async () => {}),
    runProcess(options, 'api', 'src/api/main.ts', env, () => answers(`${url}/readyz`)),
  ])
  return {
    url,
    clientId: OPERATOR_CLIENT,
    clientSecret: deriveSecret(masterKey, DERIVED.operatorSecret),
    env,
  }
}

function runProcess(
  { stack, dir }: Launch,
  name: string,
  main: string,
  env: Record<string, string>,
  ready: () => Promise<void>,
): Promise<void> {
  return stack.supervisor.run({
    name,
    command: process.execPath,
    args: ['--import', 'tsx', main],
    cwd: ROOT,
    env,
    logFile: join(dir, 'logs', `${name}.log`),
    ready,
  })
}

/** @throws where the API, or a server behind it, does not answer yet */
async function answers(url: string): Promise<void> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${url} answered ${response.status}`)
}

/** The workflow bundle, built once per content of its sources. */
async function bundlePath(): Promise<string> {
  const path = join(BUNDLES, `workflows-${await digest()}.js`)
  const known = await readFile(path).then(
    () => true,
    () => false,
  )
  if (known) return path
  const { buildBundle } = await import('../activities/bundle.ts')
  const code = await buildBundle()
  await mkdir(BUNDLES, { recursive: true })
  const draft = `${path}.${process.pid}`
  await writeFile(draft, code)
  await rename(draft, path)
  return path
}

async function digest(): Promise<string> {
  const hash = createHash('sha256')
  for (const source of BUNDLE_SOURCES) {
    for (const file of await filesOf(join(ROOT, source))) hash.update(file).update(await readFile(file))
  }
  return hash.digest('hex').slice(0, 24)
}

async function filesOf(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true, recursive: true }).catch(() => undefined)
  if (entries === undefined) return [path]
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  return files.map((entry) => join(entry.parentPath, entry.name)).sort()
}

/** The master key of a data folder, made once. Whoever has it can read every secret of the installation. */
export async function masterKeyOf(dir: string): Promise<string> {
  const file = join(dir, 'master.key')
  const known = await readFile(file, 'utf8').catch(() => undefined)
  if (known !== undefined) return known.trim()
  const made = randomBytes(32).toString('base64')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await writeFile(file, `${made}\n`, { mode: 0o600, flag: 'wx' })
  return made
}
