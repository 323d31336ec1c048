/** Writes the body of a response to stdout or to a file, which exists only when it is complete. */

import { createWriteStream } from 'node:fs'
import { rename } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { callerPath } from './settings.ts'

/** More than the last line of an export has. */
const TAIL_BYTES = 256

/**
 * @param file relative to the caller; undefined: stdout
 * @param isEnd true for the line with which a complete body of JSON Lines ends; without it any body is complete
 * @returns exit code 0
 * @throws Error if the body is not complete; what has arrived is on stdout, or in `<file>.part`
 */
export async function saveResponse(
  { body }: Response,
  file: string | undefined,
  isEnd?: (line: string) => boolean,
): Promise<number> {
  const source = body === null ? Readable.from([]) : Readable.fromWeb(body as ReadableStream)
  let tail = Buffer.alloc(0)
  const kept = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES)
      yield chunk
    }
  }
  const path = file === undefined ? undefined : callerPath(file)
  if (path === undefined) await pipeline(source, kept, process.stdout, { end: false })
  else await pipeline(source, kept, createWriteStream(`${path}.part`))
  const last = /([^\n]*)\n$/.exec(tail.toString())?.[1] ?? ''
  if (isEnd !== undefined && !isEnd(last))
    throw new Error('The export ended early, so it is not complete. Repeat the command.')
  if (path !== undefined) await rename(`${path}.part`, path)
  return 0
}
