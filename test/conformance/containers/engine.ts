/**
 * Podman with runc, installed if the machine has none. Images, volumes and networks are in the cache of Tenon, apart from those of other
 * users of the engine, so that all containers here are ours.
 */

import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDir, execute } from '../../../stack/binaries.mjs'

const PACKAGES = 'podman runc netavark aardvark-dns iptables debootstrap'
const COMPOSE = '1.6.0'
/** Podman stops a container with SIGKILL after this many seconds, and a build takes minutes. */
const COMMAND_MS = 900_000
const OUTPUT_BYTES_MAX = 1 << 26
/** Of open files and of threads. */
const LIMIT_MAX = 32_768

export const HOME = join(cacheDir(), 'containers')
const composeHome = join(HOME, `podman-compose-${COMPOSE}`)

/** Variables of the caller would replace those of the files beside docker-compose.yml. */
const OWN = /^(TENON|TEMPORAL|GATEWAY|COMPOSE)_/
const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OWN.test(name)))

/** The environment of all commands of the engine. */
const env: NodeJS.ProcessEnv = {
  ...inherited,
  CONTAINERS_CONF: join(HOME, 'containers.conf'),
  CONTAINERS_STORAGE_CONF: join(HOME, 'storage.conf'),
  PYTHONPATH: composeHome,
}

/** @throws Error with the way to get it, if the engine can neither be found nor installed */
export async function prepareEngine(): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error('npm run test:containers needs root.')
  await mkdir(HOME, { recursive: true })
  if (!isInstalled('podman') || !isInstalled('runc') || !isInstalled('debootstrap')) {
    await execute('apt-get', ['update'])
    await execute('apt-get', ['install', '-y', '--no-install-recommends', ...PACKAGES.split(' ')])
  }
  if (!existsSync(composeHome)) await installCompose()
  await writeFile(env['CONTAINERS_CONF'] ?? '', engineSettings())
  await writeFile(
    env['CONTAINERS_STORAGE_CONF'] ?? '',
    `[storage]\ndriver = "overlay"\ngraphroot = "${HOME}/storage"\nrunroot = "/run/tenon-containers"\n`,
  )
}

async function installCompose(): Promise<void> {
  const draft = `${composeHome}.draft`
  await rm(draft, { recursive: true, force: true })
  const install = ['-m', 'pip', 'install', '--quiet', '--target', draft, `podman-compose==${COMPOSE}`]
  await execute('python3', install)
  await rename(draft, composeHome)
}

/** Engines raise limits to their maximum, which not every virtual machine permits: half of what this process has is always allowed. */
function engineSettings(): string {
  const limit = (flag: string) => {
    const hard = Number(execFileSync('bash', ['-c', `ulimit -H -${flag}`], { encoding: 'utf8' }))
    const value = Math.min(Math.floor((hard || Number.POSITIVE_INFINITY) / 2), LIMIT_MAX)
    return `${value}:${value}`
  }
  return `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=${limit('n')}", "nproc=${limit('u')}"]
[network]
network_backend = "netavark"
network_config_dir = "${HOME}/networks"
`
}

const isInstalled = (command: string): boolean =>
  (process.env['PATH'] ?? '').split(':').some((folder) => existsSync(join(folder, command)))

export interface Output {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

async function run(command: string, args: readonly string[], cwd?: string): Promise<Output> {
  const options = { env, timeout: COMMAND_MS, maxBuffer: OUTPUT_BYTES_MAX, ...(cwd && { cwd }) }
  return promisify(execFile)(command, args, options).then(
    (output) => ({ code: 0, ...output }),
    ({ code = 1, stdout = '', stderr = '', message }) => ({
      code: typeof code === 'number' ? code : 1,
      stdout,
      stderr: stderr || message,
    }),
  )
}

/** Runs a command of Podman; any end is a result. */
export const tryPodman = (...args: readonly string[]): Promise<Output> => run('podman', args)

/** @returns what it printed @throws Error with its complaint */
export async function podman(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await tryPodman(...args)
  if (code !== 0) throw new Error(`podman ${args.join(' ')} ended with ${code}:\n${stderr}${stdout}`)
  return stdout.trim()
}

/** Runs podman-compose in the folder of a project. */
export const tryCompose = (folder: string, ...args: readonly string[]): Promise<Output> =>
  run('python3', [join(composeHome, 'podman_compose.py'), ...args], folder)

/** One removal leaves containers that others depend on. */
const REMOVALS = 4

/** Ends all containers of this engine, and removes them with their volumes and networks. For the end of a process, too. */
export function removeAll(): void {
  const attempt = (...args: readonly string[]) => {
    try {
      return execFileSync('podman', args, {
        env,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim()
    } catch {
      return undefined
    }
  }
  for (let turn = 0; turn < REMOVALS && attempt('ps', '--all', '--quiet') !== ''; turn++)
    attempt('rm', '--all', '--force', '--depend', '--time', '0', '--volumes')
  attempt('volume', 'rm', '--all', '--force')
  attempt('network', 'prune', '--force')
}
