/** `tenon schema apply|plan|export|update|list|show|infer|delete`: declares collections from JSON files, and reads declarations. */

import { mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { ApiClient } from './client.ts'
import { callerPath, readCallerFile, workspaceClient } from './settings.ts'
import {
  addVerb,
  printJson,
  printTable,
  refuseWithoutYes,
  WORKSPACE,
  type WorkspaceOption,
  YES_FLAG,
  type YesOption,
} from './verb.ts'

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

/**
 * Changes each declared collection of the file: one object or a list of them. Others are declared by `apply`, an error for `update`.
 * @returns the exit code: 1 if an index could not be built
 */
const write =
  (verb: 'apply' | 'update') =>
  async (file: string, options: WorkspaceOption): Promise<number> => {
    const schemas = await readSchemas(file)
    const { client, workspace_id } = await workspaceClient(options.workspace)
    const known = await declaredIn(client, workspace_id)
    let code = 0
    for (const schema of schemas) {
      const isNew = !known.some(({ collection }) => collection === schema.collection)
      const made =
        isNew && verb === 'apply'
          ? declare(client, workspace_id, schema)
          : change(client, idOf(known, schema.collection), schema)
      code = Math.max(code, await made)
    }
    return code
  }

/** Prints the declaration, which builds indexes if the collection has documents. @returns the exit code: 1 if an index could not be built */
async function declare(client: ApiClient, workspace_id: string, schema: SchemaFile): Promise<number> {
  const body = { workspace_id, ...schema }
  const made = await client.call<Declared & Changed>('POST', '/v1/schemas', body, PREFER)
  const { id, collection, store, mode } = made
  const result = made.state === undefined ? `(${store}, ${mode})` : resultOf(made)
  process.stdout.write(`${id} ${collection ?? schema.collection} ${result}\n`)
  return made.state === 'failed' ? 1 : 0
}

/** Prints the revision. @returns the exit code: 1 if an index could not be built */
async function change(client: ApiClient, id: string, { collection, ...body }: SchemaFile): Promise<number> {
  const made = await client.call<Changed>('PUT', `/v1/schemas/${id}`, body, PREFER)
  process.stdout.write(`${id} ${collection} ${resultOf(made)}\n`)
  return made.state === 'failed' ? 1 : 0
}

const declaredIn = (client: ApiClient, workspace_id: string): Promise<Declared[]> =>
  client.list<Declared>(`/v1/schemas?workspace_id=${workspace_id}`)

/** @throws Error if the collection is not declared */
function idOf(known: readonly Declared[], collection: string): string {
  const found = known.find((one) => one.collection === collection)
  if (found === undefined)
    throw new Error(`The collection ${collection} is not declared. Declare it with \`tenon schema apply\`.`)
  return found.id
}

async function list({ workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const rows = await declaredIn(client, workspace_id)
  printTable(
    ['COLLECTION', 'STORE', 'MODE', 'ID'],
    rows.map(({ collection, store, mode, id }) => [collection, store, mode, id]),
  )
  return 0
}

async function show(collection: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const id = idOf(await declaredIn(client, workspace_id), collection)
  return printJson(await client.get(`/v1/schemas/${id}`))
}

async function infer(collection: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const { schema } = await client.post<{ schema: unknown }>('/v1/schemas/infer', { workspace_id, collection })
  return printJson({ collection, store: 'relational', schema })
}

async function remove(collection: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const id = idOf(await declaredIn(client, workspace_id), collection)
  await client.call('DELETE', `/v1/schemas/${id}`)
  process.stdout.write(`${collection} deleted\n`)
  return 0
}

/** Waits for the indexes. */
const PREFER = { prefer: 'wait=30' }

/** The changed declaration, or the operation that builds its indexes. */
interface Changed {
  readonly id: string
  readonly revision?: number
  readonly state?: string
  readonly error?: { readonly detail: string } | null
}

const resultOf = ({ id, revision, state, error }: Changed) =>
  revision === undefined ? `(${state}: ${error?.detail ?? id})` : `(revision ${revision})`

/** All declarations of a file, or of the files `*.json` of a folder. */
async function readAll(path: string): Promise<SchemaFile[]> {
  if (!(await isFolder(path))) return readSchemas(path)
  const names = (await readdir(callerPath(path))).filter((name) => name.endsWith('.json')).sort()
  const all = await Promise.all(names.map((name) => readSchemas(join(path, name))))
  return all.flat()
}

const isFolder = async (path: string): Promise<boolean> => (await stat(callerPath(path))).isDirectory()

interface Plan {
  readonly changes: readonly {
    readonly collection: string
    readonly member: string
    readonly effect: string
    readonly detail: string
  }[]
  readonly fingerprint: string
}

const readPlan = (client: ApiClient, body: object): Promise<Plan> =>
  client.post<Plan>('/v1/schemas/plan', body)

async function plan(path: string, { workspace }: WorkspaceOption): Promise<number> {
  const schemas = await readAll(path)
  const { client, workspace_id } = await workspaceClient(workspace)
  const { changes, fingerprint } = await readPlan(client, { workspace_id, schemas })
  printTable(
    ['COLLECTION', 'EFFECT', 'MEMBER', 'CHANGE'],
    changes.map(({ collection, effect, member, detail }) => [collection, effect, member, detail]),
  )
  process.stdout.write(`Fingerprint: ${fingerprint}\n`)
  return 0
}

interface ApplyOptions extends WorkspaceOption, YesOption {
  readonly fingerprint?: string
}

/** Applies the declarations of a folder as planned, or those of a file one by one. */
async function apply(path: string, options: ApplyOptions): Promise<number> {
  const { workspace, fingerprint, yes } = options
  if (fingerprint === undefined && !(await isFolder(path))) return write('apply')(path, options)
  const schemas = await readAll(path)
  const { client, workspace_id } = await workspaceClient(workspace)
  const planned = await readPlan(client, { workspace_id, schemas })
  const deleting = planned.changes.filter(({ effect }) => effect === 'destructive')
  if (deleting.length > 0 && yes !== true)
    return refuseWithoutYes(
      'This deletes for ever:',
      deleting.map(({ collection, detail }) => `${collection}: ${detail}`),
    )
  const body = { workspace_id, schemas, fingerprint: fingerprint ?? planned.fingerprint }
  const { applied } = await client.post<{ applied: readonly Applied[] }>('/v1/schemas/apply', body)
  for (const { schema_id, collection, revision, operation_id } of applied) {
    const building = operation_id === undefined ? '' : `, indexes: ${operation_id}`
    process.stdout.write(`${schema_id} ${collection} (revision ${revision}${building})\n`)
  }
  if (applied.length === 0) process.stdout.write('Nothing to change.\n')
  return 0
}

interface Applied {
  readonly collection: string
  readonly schema_id: string
  readonly revision: number
  readonly operation_id?: string
}

async function exportAll(folder: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const { schemas } = await client.get<{ schemas: readonly SchemaFile[] }>(
    `/v1/schemas/export?workspace_id=${workspace_id}`,
  )
  await mkdir(callerPath(folder), { recursive: true })
  for (const schema of schemas) {
    const file = join(folder, `${schema.collection}.json`)
    await writeFile(callerPath(file), `${JSON.stringify(schema, null, 2)}\n`)
    process.stdout.write(`${file}\n`)
  }
  return 0
}

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
  const schema = program.command('schema').description('Manage declared collections.')
  addVerb(
    schema,
    'apply <path>',
    'Declare the collections of a JSON file, or of the files *.json in a folder, which are planned first: {collection, store, schema, mode?, access?, indexes?, unique?, references?, checks?, exclude?, ttl?}, or a list of them. Declared collections are changed as by `schema update`.',
    apply,
    [
      WORKSPACE,
      ['--fingerprint <text>', 'Fingerprint of a plan. Nothing is done if anything has changed since.'],
      YES_FLAG,
    ],
  )
  addVerb(
    schema,
    'plan <path>',
    'Preview the changes that the declarations of a file or folder make, with their effects.',
    plan,
    [WORKSPACE],
  )
  addVerb(
    schema,
    'export <folder>',
    'Export all declarations, each to a JSON file that `schema apply` takes.',
    exportAll,
    [WORKSPACE],
  )
  addVerb(
    schema,
    'update <file>',
    'Update declared collections as in a JSON file. Members that the file does not name are kept.',
    write('update'),
    [WORKSPACE],
  )
  addVerb(schema, 'list', 'List declared collections.', list, [WORKSPACE])
  addVerb(schema, 'show <collection>', 'Print the declaration of a collection.', show, [WORKSPACE])
  addVerb(
    schema,
    'infer <collection>',
    'Preview a declaration with a schema for the documents of a collection.',
    infer,
    [WORKSPACE],
  )
  addVerb(schema, 'delete <collection>', 'Delete a declared collection that has no documents.', remove, [
    WORKSPACE,
  ])
}
