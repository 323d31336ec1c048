/** Writes an object to a file; what an earlier command has left in `<file>.part` is not sent again if the object is still the same. */

import { createWriteStream } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { setTimeout as pause } from 'node:timers/promises'
import { type ApiClient, ApiError } from '../client.ts'
import { Progress } from './progress.ts'
import { type ObjectName, objectPath } from './remote.ts'

/** Attempts in a row that may bring nothing before the command gives up. */
const ATTEMPTS_MAX = 6

export async function writeObject(client: ApiClient, from: ObjectName): Promise<void> {
  const { body } = await client.send('GET', objectPath(from))
  await pipeline(streamOf(body), process.stdout, { end: false })
}

export const downloadFile = (client: ApiClient, from: ObjectName, path: string): Promise<void> =>
  downloadTo(client, { path: objectPath(from), name: from.key }, path)

/** Something to download: its path at the API, and its name for people. */
interface Download {
  readonly path: string
  readonly name: string
}

/** As for objects: what an earlier command has left is not sent again. */
export async function downloadTo(client: ApiClient, from: Download, path: string): Promise<void> {
  const [part, tag] = [`${path}.part`, `${path}.part.etag`]
  for (let [failures, before] = [0, -1]; ; ) {
    const offset = await readSize(part)
    if (offset > before) failures = 0
    before = offset
    try {
      await fetchRest(client, from, { part, tag, offset })
      break
    } catch (error) {
      // The part has all bytes, or is of another object.
      if (error instanceof ApiError && error.status === 416) await rm(part, { force: true })
      else if (error instanceof ApiError && error.status < 500) throw error
      failures += 1
      if (failures >= ATTEMPTS_MAX) throw error
      await pause(100 * 2 ** failures)
    }
  }
  await rename(part, path)
  await rm(tag, { force: true })
}

async function fetchRest(
  client: ApiClient,
  from: Download,
  { part, tag, offset }: { readonly part: string; readonly tag: string; readonly offset: number },
): Promise<void> {
  const known = await readFile(tag, 'utf8').catch(() => undefined)
  const range =
    known === undefined || offset === 0 ? undefined : { range: `bytes=${offset}-`, 'if-range': known }
  const response = await client.send('GET', from.path, range === undefined ? {} : { headers: range })
  const start = response.status === 206 ? offset : 0
  const total = start + Number(response.headers.get('content-length'))
  await writeFile(tag, response.headers.get('etag') ?? '')
  const progress = new Progress(from.name, total)
  let bytes = start
  const counted = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      bytes += chunk.byteLength
      progress.show(bytes)
      yield chunk
    }
  }
  const target = createWriteStream(part, { flags: start > 0 ? 'a' : 'w' })
  await pipeline(streamOf(response.body), counted, target).finally(() => progress.end())
  if (bytes !== total) throw new Error(`The connection ended after ${bytes} of ${total} bytes.`)
}

const streamOf = (body: Response['body']): Readable =>
  body === null ? Readable.from([]) : Readable.fromWeb(body as ReadableStream)

const readSize = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )
