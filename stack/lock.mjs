/** Lock files, and the identity of processes: pid and start time, so that a reused pid is not mistaken. */

import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** @typedef {{ pid: number, startTime: string }} ProcessIdentity */

/**
 * Identifies a process.
 * @param {number} [pid]
 * @returns {ProcessIdentity | undefined} undefined if no such process is alive
 */
export function identify(pid = process.pid) {
  const startTime = startTimeOf(pid)
  return startTime === undefined ? undefined : { pid, startTime }
}

/**
 * Tells if exactly that process is alive.
 * @param {ProcessIdentity | undefined} identity
 */
export function isAlive(identity) {
  return identity !== undefined && startTimeOf(identity.pid) === identity.startTime
}

/**
 * Returns the living owner of a lock.
 * @param {string} path
 * @returns {ProcessIdentity | undefined}
 */
export function lockOwner(path) {
  const owner = readOwner(path)
  return isAlive(owner) ? owner : undefined
}

/**
 * Acquires a lock file, also if its owner is dead.
 * @param {string} path
 * @returns {{ release: () => void } | { owner: ProcessIdentity }}  the lock, or its owner
 */
export function tryLock(path) {
  mkdirSync(dirname(path), { recursive: true })
  for (;;) {
    if (create(path)) return { release: () => release(path) }
    const owner = readOwner(path)
    if (owner !== undefined && isAlive(owner)) return { owner }
    removeStale(path)
  }
}

/**
 * Runs work under a lock, and waits for the lock as long as its owner is alive.
 * @template T
 * @param {string} path
 * @param {() => Promise<T>} work
 * @param {(owner: ProcessIdentity) => void} [onWait] called every 2 s while it waits
 * @returns {Promise<T>}
 */
export async function withLock(path, work, onWait) {
  for (let turn = 0; ; turn += 1) {
    const lock = tryLock(path)
    if ('release' in lock) return work().finally(lock.release)
    if (turn % 20 === 0) onWait?.(lock.owner)
    await delay(100)
  }
}

/** @param {number} pid */
function startTimeOf(pid) {
  if (process.platform !== 'linux') return startTimeByPs(pid)
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // Field 22 of proc(5) counts from boot, so it needs the id of the boot.
    return state === 'Z' || state === 'X' ? undefined : `${bootId()}:${fields[18]}`
  } catch {
    return undefined
  }
}

/** @param {number} pid */
function startTimeByPs(pid) {
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined
  } catch {
    return undefined
  }
}

function bootId() {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8)
  } catch {
    return ''
  }
}

/**
 * @param {string} path
 * @returns {ProcessIdentity | undefined}
 */
function readOwner(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Creates the lock as a hard link: that fails if the name exists, and has its content from the first moment.
 * @param {string} path
 */
function create(path) {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, JSON.stringify(identify()), { mode: 0o600 })
  try {
    linkSync(draft, path)
    return true
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/** @param {string} path */
function release(path) {
  if (readOwner(path)?.pid === process.pid) rmSync(path, { force: true })
}

/**
 * Moves a stale lock away; if another process has just acquired it, puts that lock back.
 * @param {string} path
 */
function removeStale(path) {
  const stale = `${path}.stale.${process.pid}`
  try {
    renameSync(path, stale)
    if (isAlive(readOwner(stale))) linkSync(stale, path)
  } catch {
    // Already removed or acquired: the next attempt of the caller shows which.
  } finally {
    rmSync(stale, { force: true })
  }
}
