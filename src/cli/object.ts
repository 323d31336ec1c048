/** `tenon object put|get`: files to objects and back, as streams. */

import { createWriteStream, openAsBlob } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import type { Command } from 'commander'
import { callerPath, readSettings, serviceClient } from './settings.ts'
import { printJson, verb } from './verb.ts'

/** Sends a file; prints what was stored as JSON. */
async function putObject(to: string, file: string, options: { type?: string }): Promise<number> {
  // A blob of a file is read while it is sent, and its length is known.
  const body = await openAsBlob(callerPath(file))
  const headers = { 'content-type': options.type ?? 'application/octet-stream' }
  const client = await serviceClient(await readSettings())
  const response = await client.send('PUT', pathOf(to), { headers, body })
  return printJson(await response.json())
}

/** Writes an object into a file, or on stdout where none is named. */
async function getObject(from: string, file: string | undefined): Promise<number> {
  const client = await serviceClient(await readSettings())
  const { body } = await client.send('GET', pathOf(from))
  const source = Readable.fromWeb(body as ReadableStream)
  if (file === undefined) await pipeline(source, process.stdout, { end: false })
  else await pipeline(source, createWriteStream(callerPath(file)))
  return 0
}

const pathOf = (place: string) => `/v1/objects/${place.split('/').map(encodeURIComponent).join('/')}`

export function objectVerbs(program: Command): void {
  const object = program.command('object').description('objects, as the workspace of TENON_SERVICE_KEY')
  object
    .command('put <bucket/key> <file>')
    .option('--type <media type>', 'content type', 'application/octet-stream')
    .action(verb(putObject))
  object.command('get <bucket/key> [file]').description('into a file, or on stdout').action(verb(getObject))
}
