/** `tenon schema apply`. */

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { callerPath, need, operatorClient, readSettings } from './settings.ts'
import { verb, WORKSPACE } from './verb.ts'

/** What a file says: the body of `POST /v1/schemas`, but for the workspace, which is the caller's. */
interface SchemaFile {
  readonly collection: string
  readonly [member: string]: unknown
}

interface Declared {
  readonly id: string
  readonly collection: string
  readonly store: string
  readonly mode: string
}

/** Declares each collection of the file: one object or a list of them. @returns the exit code */
async function apply(file: string, options: { workspace?: string }): Promise<number> {
  const settings = await readSettings()
  const workspace_id = options.workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  const schemas = await readSchemas(file)
  const client = await operatorClient(settings)
  for (const schema of schemas) {
    const { id, collection, store, mode } = await client.post<Declared>('/v1/schemas', {
      workspace_id,
      ...schema,
    })
    process.stdout.write(`${id} ${collection} (${store}, ${mode})\n`)
  }
  return 0
}

async function readSchemas(file: string): Promise<SchemaFile[]> {
  const text = await readFile(callerPath(file), 'utf8')
  try {
    return [JSON.parse(text)].flat() as SchemaFile[]
  } catch (error) {
    throw new Error(`${file} is not JSON: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    })
  }
}

export function schemaVerbs(program: Command): void {
  program
    .command('schema')
    .description('declared collections')
    .command('apply <file>')
    .description(
      'declare what a JSON file says: {collection, store, schema, mode?, access?}, or a list of them',
    )
    .option(...WORKSPACE)
    .action(verb(apply))
}
