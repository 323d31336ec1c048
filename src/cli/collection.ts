/** `tenon collection|event`: data of a workspace, with its service key. */

import { createHash } from 'node:crypto'
import { createReadStream, openAsBlob } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { Command } from 'commander'
import { parseFrames } from './client.ts'
import { jsonArgument } from './json-argument.ts'
import { saveResponse } from './save-response.ts'
import { callerPath, serviceClient, workspaceClient } from './settings.ts'
import {
  addVerb,
  type Flag,
  printJson,
  refuseWithoutYes,
  WORKSPACE,
  type WorkspaceOption,
  YES_FLAG,
  type YesOption,
} from './verb.ts'

const collectionPath = (name: string) => `/v1/collections/${encodeURIComponent(name)}`
const documents = (name: string) => `${collectionPath(name)}/documents`

interface AddOptions {
  readonly upsert?: string
  readonly id?: string
}

async function add(name: string, document: string, { upsert, id }: AddOptions): Promise<number> {
  const body = await jsonArgument(document, 'The document')
  if (upsert !== undefined && id !== undefined) throw new Error('Use either --upsert or --id.')
  const client = await serviceClient()
  if (id !== undefined)
    return printJson(
      await client.call('PUT', `${documents(name)}/${encodeURIComponent(id)}`, body, {
        'if-none-match': '*',
      }),
    )
  const query = upsert === undefined ? '' : `?upsert=${encodeURIComponent(upsert)}`
  return printJson(await client.post(`${documents(name)}${query}`, body))
}

async function patch(
  name: string,
  id: string,
  changes: string,
  { operators }: { readonly operators?: boolean },
): Promise<number> {
  const body = await jsonArgument(changes, 'The changes')
  const type = operators === true ? 'application/vnd.tenon.ops+json' : 'application/merge-patch+json'
  const client = await serviceClient()
  const path = `${documents(name)}/${encodeURIComponent(id)}`
  return printJson(await client.call('PATCH', path, body, { 'content-type': type }))
}

/** Prints the results; exit code 2 if some operations failed. */
async function batch(operations: string, { each }: { readonly each?: boolean }): Promise<number> {
  const ops = await jsonArgument(operations, 'The list of operations')
  const client = await serviceClient()
  const answer = await client.post<{ committed: boolean }>('/v1/batch', { ops, atomic: each !== true })
  printJson(answer)
  return answer.committed ? 0 : 2
}

/** Filters as in the URL: `status=eq.open order=_created_at.desc`. */
function queryOf(filters: readonly string[]): URLSearchParams {
  return new URLSearchParams(
    filters.map((filter) => {
      const at = filter.indexOf('=')
      if (at < 1) throw new Error(`The filter ${filter} is not valid. Write field=operator.value.`)
      return [filter.slice(0, at), filter.slice(at + 1)] as [string, string]
    }),
  )
}

async function list(name: string, filters: readonly string[]): Promise<number> {
  const client = await serviceClient()
  return printJson(await client.get(`${documents(name)}?${queryOf(filters)}`))
}

async function aggregate(name: string, select: string, filters: readonly string[]): Promise<number> {
  const query = queryOf(filters)
  query.set('select', select)
  const client = await serviceClient()
  return printJson(await client.get(`${collectionPath(name)}/aggregate?${query}`))
}

interface BulkOptions {
  readonly all?: boolean
  readonly max?: string
  readonly dryRun?: boolean
}

interface BulkReply {
  readonly id?: string
  readonly ended_at?: string | null
  readonly status?: string
  readonly failed?: number
}

const updateMany = async (name: string, filter: string, changes: string, options: BulkOptions) =>
  changeMany(name, 'update-many', { filter, data: await jsonArgument(changes, 'The changes') }, options)

const deleteMany = (name: string, filter: string, options: BulkOptions) =>
  changeMany(name, 'delete-many', { filter }, options)

/** Follows the change until it has ended. Prints it; exit code 2 if documents, or the change itself, failed. */
async function changeMany(
  name: string,
  verb: string,
  { filter, data }: { readonly filter: string; readonly data?: unknown },
  { all, max, dryRun }: BulkOptions,
): Promise<number> {
  const body = {
    ...{ filter: await jsonArgument(filter, 'The filter'), data, all, dry_run: dryRun },
    ...(max !== undefined && { max_documents: Number(max) }),
  }
  const client = await serviceClient()
  let change = (await client.post(`${collectionPath(name)}/${verb}`, body)) as BulkReply
  while (change.ended_at === null) {
    await pause(BULK_LOOK_MS)
    change = (await client.get(`${collectionPath(name)}/bulk-changes/${change.id}`)) as BulkReply
  }
  printJson(change)
  return (change.failed ?? 0) > 0 || change.status === 'failed' ? 2 : 0
}

const BULK_LOOK_MS = 500

/** Options of CSV, as the API has them. */
interface CsvOptions {
  readonly csv?: boolean
  readonly delimiter?: string
  readonly null?: string
  readonly jsonCells?: boolean
}

const CSV_FLAGS: readonly Flag[] = [
  ['--csv', 'The file is CSV. Default: if its name ends with .csv.'],
  ['--delimiter <character>', 'Character between two cells of CSV: , ; | or tab. Default: a comma.'],
  ['--null <text>', 'Cell of CSV without quotes that stands for `null`.'],
  ['--json-cells', 'Cells of fields without a declared type are JSON where they can be.'],
]

const isCsv = ({ csv }: CsvOptions, file: string | undefined): boolean =>
  csv ?? file?.toLowerCase().endsWith('.csv') === true

function csvQuery({ delimiter, null: nullText, jsonCells }: CsvOptions): [string, string][] {
  return [
    ...(delimiter === undefined ? [] : [['csv[delimiter]', delimiter] as [string, string]]),
    ...(nullText === undefined ? [] : [['csv[null]', nullText] as [string, string]]),
    ...(jsonCells === true ? [['csv[cells]', 'json'] as [string, string]] : []),
  ]
}

interface ImportOptions extends CsvOptions {
  readonly key?: string
  readonly stop?: boolean
  readonly header?: string
  readonly mode?: string
  readonly on?: string
  readonly dryRun?: boolean
  readonly quiet?: boolean
  readonly keepSystem?: boolean
}

function importQuery(options: ImportOptions): URLSearchParams {
  const { stop, header, mode, on, dryRun, quiet, keepSystem } = options
  const given = {
    ...{ mode, on, 'csv[header]': header },
    on_error: stop && 'stop',
    dry_run: dryRun && 'true',
    quiet: quiet && 'true',
    keep: keepSystem && 'system',
  }
  const query = new URLSearchParams(csvQuery(options))
  for (const [name, value] of Object.entries(given)) if (value) query.set(name, value)
  return query
}

/** Prints the report; exit code 2 if lines failed. The default idempotency key is the digest of the file. */
async function importFile(name: string, file: string, options: ImportOptions): Promise<number> {
  const { key } = options
  const path = callerPath(file)
  const headers = {
    'content-type': isCsv(options, file) ? 'text/csv' : 'application/x-ndjson',
    'idempotency-key': key ?? (await digestFile(path)),
  }
  const query = importQuery(options)
  const client = await serviceClient()
  const body = await openAsBlob(path)
  const response = await client.send('POST', `${collectionPath(name)}/import?${query}`, { body, headers })
  const report = (await response.json()) as { failed: number }
  printJson(report)
  return report.failed === 0 ? 0 : 2
}

async function digestFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

async function exportFile(
  name: string,
  filters: readonly string[],
  options: CsvOptions & { readonly out?: string; readonly escapeFormulas?: boolean },
): Promise<number> {
  const { out, escapeFormulas } = options
  const query = queryOf(filters)
  for (const [parameter, value] of csvQuery(options)) query.set(parameter, value)
  if (escapeFormulas === true) query.set('csv[formulas]', 'escape')
  const headers = isCsv(options, out) ? { accept: 'text/csv' } : {}
  const client = await serviceClient()
  return saveResponse(await client.send('GET', `${collectionPath(name)}/export?${query}`, { headers }), out)
}

/** Prints the documents that match, then each change of the result as a line of JSON, until Ctrl-C or the end of the stream. */
async function watch(name: string, filters: readonly string[]): Promise<number> {
  const query = queryOf(filters)
  const client = await serviceClient()
  let position = ''
  for (let after: string | null = ''; after !== null; ) {
    const page = new URLSearchParams(query)
    if (after === '') page.set('page[position]', 'true')
    else page.set('page[after]', after)
    const list = (await client.get(`${documents(name)}?${page}`)) as List
    for (const document of list.data) printLine({ event: 'list', id: document.id, document })
    position ||= list.page.position ?? ''
    after = list.page.next
  }
  query.set('last_event_id', position)
  const response = await client.send('GET', `${collectionPath(name)}/subscribe?${query}`)
  process.stderr.write(`Watching ${name}. Press Ctrl-C to stop.\n`)
  for await (const { event, data } of parseFrames(response))
    if (event !== undefined && event !== 'ready') printLine({ event, ...JSON.parse(data) })
  return 0
}

interface List {
  readonly data: readonly { readonly id: string }[]
  readonly page: { readonly next: string | null; readonly position?: string }
}

const printLine = (value: object): void => void process.stdout.write(`${JSON.stringify(value)}\n`)

/** Drops or truncates. @returns the exit code: 1 without `--yes` */
const removeAll =
  (verb: 'drop' | 'truncate') =>
  async (name: string, { workspace, yes }: WorkspaceOption & YesOption): Promise<number> => {
    const isDrop = verb === 'drop'
    const documents = `all documents of the collection ${name}`
    if (yes !== true)
      return refuseWithoutYes('This deletes for ever:', [documents, ...(isDrop ? ['its declaration'] : [])])
    const { client, workspace_id } = await workspaceClient(workspace)
    const query = new URLSearchParams({ workspace_id, confirm: name })
    if (isDrop) await client.call('DELETE', `${collectionPath(name)}?${query}`)
    else await client.call('POST', `${collectionPath(name)}/truncate?${query}`)
    process.stdout.write(`${name} ${isDrop ? 'dropped' : 'truncated'}\n`)
    return 0
  }

async function rename(name: string, to: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  await client.post(`${collectionPath(name)}/rename`, { workspace_id, to })
  process.stdout.write(`${name} renamed to ${to}\n`)
  return 0
}

/** The verbs that change whole collections, with the rights of an admin. */
function wholeVerbs(collection: Command): void {
  const flags = [WORKSPACE, YES_FLAG]
  addVerb(
    collection,
    'drop <name>',
    'Drop a collection: delete its documents, its declaration and its indexes.',
    removeAll('drop'),
    flags,
  )
  addVerb(
    collection,
    'truncate <name>',
    'Truncate a collection: delete its documents, and keep its declaration.',
    removeAll('truncate'),
    flags,
  )
  addVerb(
    collection,
    'rename <name> <to>',
    'Rename a collection. References and lookups of other declarations follow.',
    rename,
    [WORKSPACE],
  )
}

/** The verbs that change single documents. */
function documentVerbs(collection: Command): void {
  addVerb(collection, 'add <name> <json>', 'Create a document.', add, [
    [
      '--upsert <fields>',
      'Fields that are unique, such as email. A document with the same values is changed instead.',
    ],
    ['--id <uuid>', 'Id of the document. One that exists is refused.'],
  ])
  addVerb(
    collection,
    'patch <name> <id> <json>',
    'Merge a patch into a document (RFC 7396), or apply operators to it.',
    patch,
    [['--operators', 'Apply operators instead, such as \'{"inc": {"seen": 1}, "push": {"tags": "a"}}\'.']],
  )
  addVerb(
    collection,
    'batch <json>',
    'Make a list of changes of documents, all or none, such as \'[{"collection": "todos", "op": "create", "data": {}}]\'.',
    batch,
    [['--each', 'Make each change by itself. Exit code 2 if some could not be made.']],
  )
}

export function collectionVerbs(program: Command): void {
  const collection = program.command('collection').description('Manage documents of a collection.')
  documentVerbs(collection)
  wholeVerbs(collection)
  addVerb(
    collection,
    'list <name> [filters...]',
    'List documents. Filters have the form field=operator.value, such as status=eq.open order=_created_at.desc.',
    list,
  )
  addVerb(
    collection,
    'aggregate <name> <select> [filters...]',
    'Count and add up documents by groups, such as "status,n:count(),total:amount.sum()". Behind it stand filters as in list, and having=total.gt.100 order=total.desc.',
    aggregate,
  )
  const bulk = [
    ['--all', 'Change all documents, if the filter is empty: {}.'],
    ['--max <number>', 'Change nothing if more documents match.'],
    ['--dry-run', 'Change nothing, and print how many documents match.'],
  ] as const
  addVerb(
    collection,
    'update-many <name> <filter> <changes>',
    'Set fields in all documents that match a filter in JSON, such as \'{"status": "open"}\' \'{"status": "late"}\', and wait for the end. Exit code 2 if some could not be changed.',
    updateMany,
    bulk,
  )
  addVerb(
    collection,
    'delete-many <name> <filter>',
    'Delete all documents that match a filter in JSON, and wait for the end. Exit code 2 if some could not be deleted.',
    deleteMany,
    bulk,
  )
  addVerb(
    collection,
    'watch <name> [filters...]',
    'Print the documents that match, then each change of them: enter, update, leave and delete, as JSON Lines. Filters as in list, and select=a,b.',
    watch,
  )
  fileVerbs(collection)
}

/** The verbs that read and write files. */
function fileVerbs(collection: Command): void {
  addVerb(
    collection,
    'import <name> <file>',
    'Create a document from each line of a JSON Lines file, or each row of a CSV file. A repeated import of the same file creates no duplicates.',
    importFile,
    [
      ...CSV_FLAGS,
      ['--header <names>', 'Names of the columns of a CSV file that has no header.'],
      ['--key <text>', 'Idempotency key of the import. Default: the digest of the file.'],
      ['--stop', 'Stop at the first line that fails.'],
      [
        '--mode <mode>',
        'Action on documents that exist: create leaves them, upsert sets fields, replace sets all. Default: create.',
      ],
      [
        '--on <fields>',
        'Fields that are declared unique, by which the mode upsert finds documents. Default: their id.',
      ],
      ['--dry-run', 'Say which lines would fail, and store nothing.'],
      ['--quiet', 'Make no change events, so that no trigger starts.'],
      ['--keep-system', 'Keep versions, times and owners of the lines, with --quiet.'],
    ],
  )
  addVerb(
    collection,
    'export <name> [filters...]',
    'Print all documents as JSON Lines, or as CSV: then select=a,b names the columns.',
    exportFile,
    [
      ['--out <file>', 'Write the documents to a file instead of stdout.'],
      ...CSV_FLAGS,
      ['--escape-formulas', 'Put a quote before a text of CSV that a spreadsheet would take for a formula.'],
    ],
  )
}

async function publish(topic: string, data: string): Promise<number> {
  const body = { topic, data: await jsonArgument(data, 'The data') }
  const client = await serviceClient()
  return printJson(await client.post('/v1/events/publish', body))
}

/** Prints each event as a line of JSON, until Ctrl-C or the end of the stream. */
async function subscribe(topic: string): Promise<number> {
  const client = await serviceClient()
  const response = await client.send('GET', `/v1/events/subscribe?topic=${encodeURIComponent(topic)}`)
  process.stderr.write(`Subscribed to ${topic}. Press Ctrl-C to stop.\n`)
  for await (const { event, data } of parseFrames(response)) {
    // Frames of the stream itself have a name: `ready`, `gap`, `end`.
    if (event === undefined && data !== '') process.stdout.write(`${data}\n`)
  }
  return 0
}

export function eventVerbs(program: Command): void {
  const event = program
    .command('event')
    .description("Publish and subscribe to events of the tenant's event stream.")
  addVerb(event, 'publish <topic> <json>', 'Publish an event.', publish)
  addVerb(
    event,
    'subscribe <topic>',
    'Print events of a topic. A topic orders.* selects all topics below orders.',
    subscribe,
  )
}
