/** `tenon schema apply|update`: declares collections from JSON files. */

import type { Command } from 'commander'
import { readCallerFile, workspaceClient } from './settings.ts'
import { addVerb, WORKSPACE, type WorkspaceOption } from './verb.ts'

/** The body of `POST /v1/schemas` without the workspace. */
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
async function apply(file: string, options: WorkspaceOption): Promise<number> {
  const schemas = await readSchemas(file)
  const { client, workspace_id } = await workspaceClient(options.workspace)
  for (const schema of schemas) {
    const { id, collection, store, mode } = await client.post<Declared>('/v1/schemas', {
      workspace_id,
      ...schema,
    })
    process.stdout.write(`${id} ${collection} (${store}, ${mode})\n`)
  }
  return 0
}

/** Changes each collection as the file declares it. @returns the exit code: 1 if an index could not be built */
async function update(file: string, options: WorkspaceOption): Promise<number> {
  const schemas = await readSchemas(file)
  const { client, workspace_id } = await workspaceClient(options.workspace)
  const known = await client.list<Declared>(`/v1/schemas?workspace_id=${workspace_id}`)
  const ids = new Map(known.map(({ id, collection }) => [collection, id]))
  let failed = false
  for (const { collection, ...change } of schemas) {
    const id = ids.get(collection)
    if (id === undefined) throw new Error(`${collection} is not declared: tenon schema apply`)
    const prefer = { prefer: `wait=${WAIT_S}` }
    const made = await client.call<Changed>('PUT', `/v1/schemas/${id}`, change, prefer)
    failed ||= made.state === 'failed'
    process.stdout.write(`${id} ${collection} ${resultOf(made)}\n`)
  }
  return failed ? 1 : 0
}
const WAIT_S = 30

/** The changed declaration, or the operation that builds its indexes. */
interface Changed {
  readonly id: string
  readonly revision?: number
  readonly state?: string
  readonly error?: { readonly detail: string } | null
}

const resultOf = ({ id, revision, state, error }: Changed) =>
  revision === undefined ? `(${state}: ${error?.detail ?? id})` : `(revision ${revision})`

async function readSchemas(file: string): Promise<SchemaFile[]> {
  const text = await readCallerFile(file)
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
  addVerb(
    schema,
    'apply <file>',
    'declare the collections of a JSON file: {collection, store, schema, mode?, access?, indexes?, unique?}, or a list of them',
    apply,
    [WORKSPACE],
  )
  addVerb(
    schema,
    'update <file>',
    'change declared collections as in a JSON file; members that it does not name stay',
    update,
    [WORKSPACE],
  )
}
