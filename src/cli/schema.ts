/** `tenon schema apply|update`. */

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { ApiClient } from './client.ts'
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
  const client = await operatorClient(settings, workspace_id)
  for (const schema of schemas) {
    const { id, collection, store, mode } = await client.post<Declared>('/v1/schemas', {
      workspace_id,
      ...schema,
    })
    process.stdout.write(`${id} ${collection} (${store}, ${mode})\n`)
  }
  return 0
}

/** Changes each collection of the file to what it says there. @returns the exit code: 1 where an index failed */
async function update(file: string, options: { workspace?: string }): Promise<number> {
  const settings = await readSettings()
  const workspace = options.workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  const schemas = await readSchemas(file)
  const client = await operatorClient(settings, workspace)
  const declared = await declaredIn(client, workspace)
  let failed = false
  for (const { collection, ...change } of schemas) {
    const id = declared.get(collection)
    if (id === undefined) throw new Error(`${collection} is not declared: tenon schema apply`)
    const prefer = { prefer: `wait=${WAIT_S}` }
    const made = await client.call<Changed>('PUT', `/v1/schemas/${id}`, change, prefer)
    failed ||= made.state === 'failed'
    process.stdout.write(`${id} ${collection} ${told(made)}\n`)
  }
  return failed ? 1 : 0
}
const WAIT_S = 30

/** The declaration as it is now, or the operation that builds its indexes. */
interface Changed {
  readonly id: string
  readonly revision?: number
  readonly state?: string
  readonly error?: { readonly detail: string } | null
}

const told = ({ id, revision, state, error }: Changed) =>
  revision === undefined ? `(${state}: ${error?.detail ?? id})` : `(revision ${revision})`

/** Ids by collection. */
async function declaredIn(client: ApiClient, workspace: string): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (let next: string | null = ''; next !== null; ) {
    const after: string = next === '' ? '' : `&page[after]=${next}`
    const path = `/v1/schemas?workspace_id=${workspace}&page[size]=200${after}`
    const { data, page } = await client.get<{ data: Declared[]; page: { next: string | null } }>(path)
    for (const { id, collection } of data) found.set(collection, id)
    next = page.next
  }
  return found
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
  const schema = program.command('schema').description('declared collections')
  schema
    .command('apply <file>')
    .description(
      'declare what a JSON file says: {collection, store, schema, mode?, access?, indexes?, unique?}, or a list of them',
    )
    .option(...WORKSPACE)
    .action(verb(apply))
  schema
    .command('update <file>')
    .description('change declared collections to what a JSON file says; what it does not name stays')
    .option(...WORKSPACE)
    .action(verb(update))
}
