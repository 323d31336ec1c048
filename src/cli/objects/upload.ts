/** Sends a file or a pipe to an object: small ones in one request, others by tus, which resumes where an earlier command broke off. */

import { createHash } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { TUS_VERSION } from '../../core/tus.ts'
import { type ApiClient, ApiError } from '../client.ts'
import { Progress } from './progress.ts'
import { type ObjectName, objectPath } from './remote.ts'

const MIB = 1_048_576
/** Larger ones are sent by tus. */
const PLAIN_BYTES_MAX = 64 * MIB
/** Of one request by tus: what the platform stores at once. */
const REQUEST_BYTES = 24 * MIB
/** Requests in a row that may fail before the command gives up. */
const ATTEMPTS_MAX = 6

const TUS = { 'tus-resumable': TUS_VERSION }

/** @param type media type of the object @returns what the platform has stored */
export async function uploadFile(
  client: ApiClient,
  to: ObjectName,
  path: string,
  type: string,
): Promise<unknown> {
  const { size, mtimeMs } = await stat(path)
  const body = await openAsBlob(path)
  if (size <= PLAIN_BYTES_MAX) return putBlob(client, to, body, type)
  const note = await openNote([client.url, to.bucket, to.key, path, size, mtimeMs, type])
  const url = (await note.read()) ?? (await begin(client, to, type, { 'upload-length': String(size) }))
  await note.write(url)
  const progress = new Progress(to.key, size)
  const sent = await sendRest(client, url, {
    progress,
    slice: (from) => body.slice(from, from + REQUEST_BYTES),
    size,
  })
  progress.end()
  await note.remove()
  // The upload of the note was given up meanwhile.
  return sent ? describe(client, to) : uploadFile(client, to, path, type)
}

async function putBlob(client: ApiClient, to: ObjectName, body: Blob, type: string): Promise<unknown> {
  const response = await client.send('PUT', objectPath(to), { headers: { 'content-type': type }, body })
  return response.json()
}

/** Sends a stream whose end is not known. It cannot be resumed by another command, since its bytes are gone then. */
export async function uploadStream(
  client: ApiClient,
  to: ObjectName,
  source: AsyncIterable<Uint8Array>,
  type: string,
): Promise<unknown> {
  const blocks = readBlocks(source)
  let block = (await blocks.next()).value ?? new Blob([])
  let next = await blocks.next()
  if (next.done === true) return putBlob(client, to, block, type)
  const url = await begin(client, to, type, { 'upload-defer-length': '1' })
  const progress = new Progress(to.key)
  for (let offset = 0; ; ) {
    const [start, current] = [offset, block]
    const end = start + current.size
    const isLast = next.done === true
    const length = isLast ? { 'upload-length': String(end) } : {}
    const slice = (from: number) => current.slice(from - start)
    if (!(await sendRest(client, url, { progress, slice, size: end, length })))
      throw new Error('The upload was given up by the platform.')
    offset = end
    if (next.done === true) break
    block = next.value
    next = await blocks.next()
  }
  progress.end()
  return describe(client, to)
}

/** Collects a stream into blocks of `REQUEST_BYTES`; the last one may be smaller. */
async function* readBlocks(source: AsyncIterable<Uint8Array>): AsyncGenerator<Blob, undefined> {
  let [parts, bytes]: [Uint8Array<ArrayBuffer>[], number] = [[], 0]
  for await (const chunk of source) {
    parts.push(new Uint8Array(chunk))
    bytes += chunk.byteLength
    if (bytes < REQUEST_BYTES) continue
    yield new Blob(parts)
    ;[parts, bytes] = [[], 0]
  }
  if (bytes > 0) yield new Blob(parts)
  return undefined
}

const describe = (client: ApiClient, { bucket, key }: ObjectName): Promise<unknown> =>
  client.get(`/v1/buckets/${bucket}/object?key=${encodeURIComponent(key)}`)

async function begin(
  client: ApiClient,
  { bucket, key }: ObjectName,
  type: string,
  length: Record<string, string>,
): Promise<string> {
  const pairs = Object.entries({ bucket, key, 'content-type': type })
  const described = pairs.map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
  const headers = { ...TUS, ...length, 'upload-metadata': described.join(',') }
  const response = await client.send('POST', '/v1/uploads', { headers })
  return response.headers.get('location') ?? ''
}

interface Rest {
  readonly progress: Progress
  /** The bytes of one request, from an offset on. */
  readonly slice: (from: number) => Blob
  /** Where it ends. */
  readonly size: number
  /** `Upload-Length`, if the upload does not have it. */
  readonly length?: Record<string, string>
}

/** Sends what the platform does not have. @returns false if there is no such upload any more */
async function sendRest(
  client: ApiClient,
  url: string,
  { progress, slice, size, length = {} }: Rest,
): Promise<boolean> {
  for (let [failures, before] = [0, -1]; ; ) {
    try {
      const head = await client.send('HEAD', url, { headers: TUS })
      let offset = Number(head.headers.get('upload-offset'))
      if (offset > before) failures = 0
      before = offset
      progress.show(offset)
      const isOpen = head.headers.get('upload-length') === null && 'upload-length' in length
      for (let isFirst = isOpen; offset < size || isFirst; isFirst = false) {
        const headers = {
          ...TUS,
          ...length,
          'content-type': 'application/offset+octet-stream',
          'upload-offset': String(offset),
        }
        const sent = await client.send('PATCH', url, { headers, body: slice(offset) })
        offset = Number(sent.headers.get('upload-offset'))
        progress.show(offset)
      }
      return true
    } catch (error) {
      if (error instanceof ApiError && (error.status === 404 || error.status === 410)) return false
      const isForNow = !(error instanceof ApiError) || error.status === 409 || error.status >= 500
      failures += 1
      if (!isForNow || failures >= ATTEMPTS_MAX) throw error
      await pause(200 * 2 ** failures)
    }
  }
}

/** Where a later command finds the URL of an upload of the same file. */
async function openNote(what: readonly unknown[]) {
  const { XDG_CACHE_HOME } = process.env
  const folder = join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'tenon', 'uploads')
  const file = join(folder, createHash('sha256').update(JSON.stringify(what)).digest('hex'))
  return {
    read: async () => readFile(file, 'utf8').catch(() => undefined),
    write: async (url: string) => {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await writeFile(file, url, { mode: 0o600 })
    },
    remove: () => rm(file, { force: true }),
  }
}

/** Media types by the ending of a name: those that browsers show. */
const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css',
  csv: 'text/csv',
  gif: 'image/gif',
  html: 'text/html',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  js: 'text/javascript',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain',
  webm: 'video/webm',
  webp: 'image/webp',
  xml: 'application/xml',
  zip: 'application/zip',
}

/** The media type of a file by its name; `application/octet-stream` for others. */
export const typeOf = (name: string): string =>
  TYPES[/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''] ?? 'application/octet-stream'
