/** Makes a folder and the objects below a prefix equal, in one direction. */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { ApiClient } from '../client.ts'
import { printLine } from '../verb.ts'
import { downloadFile } from './download.ts'
import { type ListedObject, listPages, type ObjectName, objectPath } from './remote.ts'
import { typeOf, uploadFile } from './upload.ts'

/** Transfers at once. */
const LANES = 4

export interface SyncOptions {
  readonly delete?: boolean
  readonly dryRun?: boolean
  readonly json?: boolean
}

interface LocalFile {
  readonly path: string
  /** In bytes. */
  readonly size: number
  /** Milliseconds since 1970. */
  readonly modifiedMs: number
}

interface Step {
  readonly action: 'upload' | 'download' | 'delete'
  /** Relative to the folder and to the prefix. */
  readonly name: string
  readonly run: () => Promise<unknown>
}

/** Two sides by relative names. */
interface Sides {
  readonly files: ReadonlyMap<string, LocalFile>
  readonly objects: ReadonlyMap<string, ListedObject>
}

/**
 * @param way `up`: the objects become as the files are; `down`: the reverse
 * @returns the exit code: 2 if a transfer failed
 */
export async function sync(
  client: ApiClient,
  way: 'up' | 'down',
  { folder, remote }: { readonly folder: string; readonly remote: ObjectName },
  options: SyncOptions,
): Promise<number> {
  const prefix = remote.key === '' || remote.key.endsWith('/') ? remote.key : `${remote.key}/`
  const place = { client, folder, remote: { ...remote, key: prefix } }
  const sides = { files: await filesIn(folder), objects: await objectsBelow(place) }
  const { steps, unchanged } = way === 'up' ? await stepsUp(place, sides) : await stepsDown(place, sides)
  const kept = options.delete === true ? steps : steps.filter(({ action }) => action !== 'delete')
  const failed: { name: string; reason: string }[] = []
  await inLanes(kept, async ({ action, name, run }) => {
    try {
      if (options.dryRun !== true) await run()
      if (options.json !== true) printLine(`${action} ${name}`)
    } catch (error) {
      failed.push({ name, reason: (error as Error).message })
      process.stderr.write(`failed ${action} ${name}: ${(error as Error).message}\n`)
    }
  })
  const done = kept.filter(({ name }) => !failed.some((one) => one.name === name))
  const namesOf = (action: Step['action']) =>
    done.filter((one) => one.action === action).map(({ name }) => name)
  const report = {
    uploaded: namesOf('upload'),
    downloaded: namesOf('download'),
    deleted: namesOf('delete'),
    unchanged,
    failed,
  }
  if (options.json === true) printLine(JSON.stringify(report, null, 2))
  return failed.length === 0 ? 0 : 2
}

interface Place {
  readonly client: ApiClient
  readonly folder: string
  /** The key is a prefix. */
  readonly remote: ObjectName
}

async function stepsUp({ client, folder, remote }: Place, { files, objects }: Sides) {
  const nameOf = (name: string) => ({ bucket: remote.bucket, key: remote.key + name })
  const steps: Step[] = []
  let unchanged = 0
  for (const [name, file] of files) {
    if (await isEqual(file, objects.get(name))) unchanged += 1
    else
      steps.push({
        action: 'upload',
        name,
        run: () => uploadFile(client, nameOf(name), join(folder, name), typeOf(name)),
      })
  }
  for (const name of objects.keys())
    if (!files.has(name))
      steps.push({ action: 'delete', name, run: () => client.send('DELETE', objectPath(nameOf(name))) })
  return { steps, unchanged }
}

async function stepsDown({ client, folder, remote }: Place, { files, objects }: Sides) {
  const steps: Step[] = []
  let unchanged = 0
  for (const [name, object] of objects) {
    if (await isEqual(files.get(name), object)) {
      unchanged += 1
      continue
    }
    const run = async () => {
      const path = join(folder, requireFileName(name))
      await mkdir(dirname(path), { recursive: true })
      await downloadFile(client, { bucket: remote.bucket, key: object.key }, path)
    }
    steps.push({ action: 'download', name, run })
  }
  for (const [name, { path }] of files)
    if (!objects.has(name)) steps.push({ action: 'delete', name, run: () => rm(path) })
  return { steps, unchanged }
}

/** The name of a file inside the folder. Of two names one would be the same file, or none. @throws Error for a key that is no such name */
function requireFileName(name: string): string {
  const isName = (part: string) =>
    part !== '' && part !== '.' && part !== '..' && (sep === '/' || !part.includes(sep))
  if (name.split('/').every(isName)) return name
  throw new Error('The key is no name of a file: a part between slashes is empty, `.` or `..`.')
}

/** By size and MD5. The ETag of an object that was uploaded in parts is no MD5: then it is equal if it is not older than the file. */
async function isEqual(file: LocalFile | undefined, object: ListedObject | undefined): Promise<boolean> {
  if (file === undefined || object === undefined || file.size !== object.size) return false
  const etag = object.etag.replaceAll('"', '')
  if (!/^[0-9a-f]{32}$/.test(etag)) return Date.parse(object.last_modified) >= Math.floor(file.modifiedMs)
  const hash = createHash('md5')
  await pipeline(createReadStream(file.path), hash)
  return hash.digest('hex') === etag
}

/** Files by their paths with slashes. Links are not followed, and what a download has left is none. */
async function filesIn(folder: string): Promise<Map<string, LocalFile>> {
  const found = new Map<string, LocalFile>()
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    },
  )
  for (const entry of entries) {
    if (!entry.isFile() || /\.part(\.etag)?$/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    const { size, mtimeMs } = await stat(path)
    const name = path.slice(join(folder, sep).length).split(sep).join('/')
    found.set(name, { path, size, modifiedMs: mtimeMs })
  }
  return found
}

async function objectsBelow({ client, remote }: Place): Promise<Map<string, ListedObject>> {
  const found = new Map<string, ListedObject>()
  for await (const { data } of listPages(client, remote))
    for (const object of data) found.set(object.key.slice(remote.key.length), object)
  return found
}

async function inLanes<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const lane = async () => {
    for (const item of queue) await work(item)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}
