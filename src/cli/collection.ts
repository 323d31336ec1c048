/** `tenon collection add|list|import|export <name>`: documents, with the service key of the workspace. */

import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, openAsBlob } from 'node:fs'
import { rename } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import type { Command } from 'commander'
import { callerPath, readSettings, serviceClient } from './settings.ts'
import { jsonOf, printJson, verb } from './verb.ts'

const collectionPath = (name: string) => `/v1/collections/${encodeURIComponent(name)}`
const documents = (name: string) => `${collectionPath(name)}/documents`

async function add(name: string, document: string): Promise<number> {
  const body = jsonOf(document, 'The document')
  const client = await serviceClient(await readSettings())
  return printJson(await client.post(documents(name), body))
}

/** Filters stand as they do in the URL: `status=eq.open order=_created_at.desc`. */
function queryOf(filters: readonly string[]): URLSearchParams {
  return new URLSearchParams(
    filters.map((filter) => {
      const at = filter.indexOf('=')
      if (at < 1) throw new Error(`A filter has the form field=operator.value: ${filter}`)
      return [filter.slice(0, at), filter.slice(at + 1)] as [string, string]
    }),
  )
}

async function list(name: string, filters: readonly string[]): Promise<number> {
  const client = await serviceClient(await readSettings())
  return printJson(await client.get(`${documents(name)}?${queryOf(filters)}`))
}

interface ImportOptions {
  readonly key?: string
  readonly stop?: boolean
}

/** Prints the report; exit code 2 where lines failed. The file's digest is its key, so it may be sent again. */
async function importFile(name: string, file: string, { key, stop }: ImportOptions): Promise<number> {
  const path = callerPath(file)
  const headers = {
    'content-type': 'application/x-ndjson',
    'idempotency-key': key ?? (await digestOf(path)),
  }
  const query = stop === true ? '?on_error=stop' : ''
  const client = await serviceClient(await readSettings())
  const body = await openAsBlob(path)
  const response = await client.send('POST', `${collectionPath(name)}/import${query}`, { body, headers })
  const report = (await response.json()) as { failed: number }
  printJson(report)
  return report.failed === 0 ? 0 : 2
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

interface ExportOptions {
  readonly out?: string
}

/** On stdout, or into a file that has its name once it is whole. */
async function exportFile(name: string, filters: readonly string[], { out }: ExportOptions): Promise<number> {
  const client = await serviceClient(await readSettings())
  const { body } = await client.send('GET', `${collectionPath(name)}/export?${queryOf(filters)}`)
  const source = body === null ? Readable.from([]) : Readable.fromWeb(body as ReadableStream)
  if (out === undefined) await pipeline(source, process.stdout, { end: false })
  else {
    const path = callerPath(out)
    await pipeline(source, createWriteStream(`${path}.part`))
    await rename(`${path}.part`, path)
  }
  return 0
}

export function collectionVerbs(program: Command): void {
  const collection = program.command('collection').description('documents of a collection')
  collection.command('add <name> <json>').description('create a document').action(verb(add))
  collection
    .command('list <name> [filters...]')
    .description('list documents: status=eq.open order=_created_at.desc')
    .action(verb(list))
  collection
    .command('import <name> <file>')
    .description('create a document of each line of JSON; the same file may be sent again')
    .option('--key <text>', 'Idempotency-Key; default: the digest of the file')
    .option('--stop', 'end at the first line that fails')
    .action(verb(importFile))
  collection
    .command('export <name> [filters...]')
    .description('all documents as lines of JSON, on stdout')
    .option('--out <file>', 'into a file')
    .action(verb(exportFile))
}
