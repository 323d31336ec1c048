/** A repository in a folder: each file is written under another name, flushed to the disk and renamed. */

import { randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { access, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { lockOwner, tryLock, withLock } from '../../../stack/lock.mjs'
import { fullRepository, isFull, StoreFault } from '../store-fault.ts'
import { FileMissing, type FileStore } from './file-store.ts'
import type { Chunks } from './sealed-stream.ts'

/** Ends the name of a file that is not complete. */
const PART = '.part'
const LOCKS = 'locks'
const PRUNE = 'prune'
const LOOK_MS = 200

export function openFolder(folder: string): FileStore {
  const pathOf = (name: string) => join(folder, ...name.split('/'))
  return {
    address: folder,
    write: (name, content) => writeFile(folder, pathOf(name), content),
    read: (name) => readFile(folder, name, pathOf(name)),
    has: (name) => isThere(pathOf(name)),
    list: (prefix) => listFiles(folder, pathOf(prefix)),
    remove: (name) => rm(pathOf(name), { force: true }),
    sharing: (work) => share(join(folder, LOCKS), work),
    exclusively: (work) =>
      exclude(join(folder, LOCKS), async () => {
        await removeParts(folder)
        return work()
      }),
    close: () => {},
  }
}

async function writeFile(folder: string, path: string, content: Chunks): Promise<void> {
  const part = `${path}.${process.pid}${PART}`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await pipeline(Readable.from(content), createWriteStream(part, { mode: 0o600, flush: true }))
    await rename(part, path)
    await flush(dirname(path))
  } catch (error) {
    await rm(part, { force: true })
    throw asFault(folder, error)
  }
}

/** The error itself if it is that of the content that is written. */
function asFault(folder: string, error: unknown): unknown {
  if (isFull(error)) return fullRepository(folder, error)
  const { path, message } = error as NodeJS.ErrnoException
  return path?.startsWith(folder)
    ? new StoreFault(
        `The repository ${folder} cannot be used (${message}). Run the command again when it can.`,
        error,
      )
    : error
}

/** Of processes that were killed: nobody adds meanwhile. */
async function removeParts(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile() && entry.name.endsWith(PART)) await rm(join(entry.parentPath, entry.name))
}

/** A rename survives a crash of the machine only with its folder. */
async function flush(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

async function* readFile(folder: string, name: string, path: string): Chunks {
  try {
    yield* createReadStream(path, { highWaterMark: 1_048_576 }) as AsyncIterable<Buffer>
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ENOENT'
      ? new FileMissing(folder, name)
      : asFault(folder, error)
  }
}

/** Each process that adds has a lock of its own. One that begins while another prunes takes its lock back, and waits. */
async function share<T>(locks: string, work: () => Promise<T>): Promise<T> {
  const own = join(locks, `add-${process.pid}-${randomBytes(4).toString('hex')}`)
  for (;;) {
    const lock = tryLock(own)
    if ('owner' in lock) throw new TypeError(`the lock ${own} is taken`)
    if (lockOwner(join(locks, PRUNE)) === undefined) return work().finally(lock.release)
    lock.release()
    await pause(LOOK_MS)
  }
}

function exclude<T>(locks: string, work: () => Promise<T>): Promise<T> {
  return withLock(join(locks, PRUNE), async () => {
    const adding = async () => (await readdir(locks)).filter((name) => name.startsWith('add-'))
    const isAdding = async () => (await adding()).some((name) => lockOwner(join(locks, name)) !== undefined)
    while (await isAdding()) await pause(LOOK_MS)
    // Those that are left are of processes that were killed, or take theirs back.
    for (const name of await adding()) await rm(join(locks, name), { force: true })
    return work()
  })
}

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

async function listFiles(folder: string, path: string) {
  const entries = await readdir(path, { withFileTypes: true, recursive: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw asFault(folder, error)
    },
  )
  const paths = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith(PART))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
  return Promise.all(
    paths.map(async (one) => ({
      name: relative(folder, one).split(sep).join('/'),
      size: (await stat(one)).size,
    })),
  )
}
