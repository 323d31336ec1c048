/** Who is alive and who holds a lock. A process is known by pid and start time: a reused pid fools nobody. */

import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** @typedef {{ pid: number, startTime: string }} ProcessIdentity */

/**
 * Names a process so that it can be recognised later.
 * @param {number} [pid]
 * @returns {ProcessIdentity | undefined} nothing where no such process lives
 */
export function identify(pid = process.pid) {
  const startTime = startTimeOf(pid)
  return startTime === undefined ? undefined : { pid, startTime }
}

/**
 * Whether that very process still lives.
 * @param {ProcessIdentity | undefined} identity
 */
export function isAlive(identity) {
  return identity !== undefined && startTimeOf(identity.pid) === identity.startTime
}

/**
 * Who holds the lock now.
 * @param {string} path
 * @returns {ProcessIdentity | undefined}
 */
export function lockOwner(path) {
  const owner = readOwner(path)
  return isAlive(owner) ? owner : undefined
}

/**
 * Takes a lock file, healing one whose owner is dead.
 * @param {string} path
 * @returns {{ release: () => void } | { owner: ProcessIdentity }} the lock, or who has it
 */
export function tryLock(path) {
  mkdirSync(dirname(path), { recursive: true })
  for (;;) {
    if (create(path)) return { release: () => release(path) }
    const owner = readOwner(path)
    if (owner !== undefined && isAlive(owner)) return { owner }
    retire(path)
  }
}

/**
 * Does the work while holding the lock, waiting for it as long as its owner lives.
 * @template T
 * @param {string} path
 * @param {() => Promise<T>} work
 * @param {(owner: ProcessIdentity) => void} [onWait] told every 2 s while it has to wait
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
    // Field 22 of proc(5) counts from boot, so the boot's id belongs to it.
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
 * A hard link fails where the name exists and carries its content from the first moment.
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
 * Moves a stale lock away. Another process may have healed it a moment before: then its lock is put back.
 * @param {string} path
 */
function retire(path) {
  const stale = `${path}.stale.${process.pid}`
  try {
    renameSync(path, stale)
    if (isAlive(readOwner(stale))) linkSync(stale, path)
  } catch {
    // Gone already, or taken again: the caller's next attempt sees which.
  } finally {
    rmSync(stale, { force: true })
  }
}
