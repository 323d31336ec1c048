/** `tenon service` and `tenon workspace egress`: the settings of a workspace, and the non-public addresses that its flows may call. */

import type { Command } from 'commander'
import { type ApiClient, ApiError, withQuery } from '../client.ts'
import { JSON_NOTATION, jsonArgument, textArgument, yamlIn } from '../json-argument.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages } from '../output.ts'
import { workspaceClient } from '../settings.ts'
import { addVerb, printJson, printLine, WORKSPACE, type WorkspaceOption } from '../verb.ts'

interface ServiceOptions extends WorkspaceOption, JsonOption {}

interface Setting {
  readonly pointer: string
  readonly value: unknown
  readonly source: string
}

interface Change {
  readonly pointer: string
  readonly before: unknown
  readonly after: unknown
}

/** `anon.collections` for the pointer `/anon/collections`. */
const nameOf = ({ pointer }: { readonly pointer: string }): string => pointer.slice(1).replaceAll('/', '.')

/** The settings of a workspace as they are now, and their revision. */
async function readSettings<T>(client: ApiClient, workspace_id: string) {
  const path = withQuery('/v1/services', { workspace_id })
  const { answer, tag } = await client.callTagged<T>('GET', path)
  return { found: answer, revision: revisionOf(tag) }
}

/** Changes settings, if they still have the revision. @throws ApiError `precondition_failed` */
async function configure<T>(client: ApiClient, body: object, revision?: string) {
  const headers = revision === undefined ? {} : { 'if-match': `"${revision}"` }
  const { answer, tag } = await client.callTagged<T>('POST', '/v1/services/configure', body, headers)
  return { found: answer, revision: revisionOf(tag) }
}

/** The ETag without its quotes, which a shell would take away. */
const revisionOf = (tag = ''): string => tag.replaceAll('"', '')

const isOvertaken = (error: unknown): boolean =>
  error instanceof ApiError && error.problem['code'] === 'precondition_failed'

async function show({ workspace, json }: ServiceOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const { found, revision } = await readSettings<{ effective: readonly Setting[] }>(client, workspace_id)
  process.stderr.write(`Revision ${revision}\n`)
  if (json) return printJson(found)
  return printPages([found.effective], {
    SETTING: nameOf,
    VALUE: ({ value }) => JSON.stringify(value),
    SOURCE: ({ source }) => source,
  })
}

interface SetOptions extends ServiceOptions {
  readonly dryRun?: boolean
  readonly ifMatch?: string
}

/** Prints what has changed, or would change, and of which revision. */
async function set(settings: readonly string[], options: SetOptions): Promise<number> {
  const { workspace, json, dryRun = false, ifMatch } = options
  const values = await Promise.all(settings.map(readSetting))
  const { client, workspace_id } = await workspaceClient(workspace)
  const body = { ...values.reduce<JsonObject>(merge, {}), workspace_id, dry_run: dryRun }
  const now = async () => (await readSettings(client, workspace_id)).revision
  // A dry run prints the revision of the settings that it has compared.
  const expected = ifMatch === undefined && dryRun ? await now() : ifMatch && revisionOf(ifMatch)
  const made = configure<{ changes: readonly Change[] }>(client, body, expected)
  const { found, revision } = await made.catch(async (error: unknown) => {
    throw isOvertaken(error) ? overtaken(workspace_id, expected, await now()) : error
  })
  const { changes } = found
  process.stderr.write(dryRun ? triedText(changes.length, expected) : changedText(changes.length, revision))
  if (json) return printJson(found)
  if (changes.length === 0) return 0
  return printPages([changes], {
    SETTING: nameOf,
    BEFORE: ({ before }) => JSON.stringify(before),
    AFTER: ({ after }) => JSON.stringify(after),
  })
}

function overtaken(workspaceId: string, expected: string | undefined, revision: string): Error {
  return new Error(
    `Nothing was changed: the settings of ${workspaceId} are no longer those of revision ${expected}, but those of ${revision}.
Look at them with \`tenon service show --workspace ${workspaceId}\`. Then repeat the command with --if-match ${revision}.`,
  )
}

const SAME = 'The settings have these values already.\n'

const changedText = (count: number, revision: string): string =>
  `${count === 0 ? SAME : ''}Revision ${revision}\n`

const triedText = (count: number, revision: string | undefined): string =>
  count === 0
    ? SAME
    : `Nothing was changed. With --if-match ${revision} in place of --dry-run, these settings change, unless others change any before:\n`

type JsonObject = Readonly<Record<string, unknown>>

/** Reads `anon.collections=read`, or an object of settings: JSON or YAML, `@file`, or `-`. @throws Error for another value */
async function readSetting(argument: string): Promise<JsonObject> {
  const [, path, value] = /^([A-Za-z_][\w.]*)=(.*)$/s.exec(argument) ?? []
  if (path !== undefined && value !== undefined) return nested(path, yamlIn(await textArgument(value), path))
  const object = await jsonArgument(argument, 'The settings')
  if (isObject(object)) return object
  throw new Error(`${argument} is no setting. Write NAME=JSON such as anon.collections=read, or @file.`)
}

/** `{ anon: { collections: value } }` for the path `anon.collections`. */
const nested = (path: string, value: unknown): JsonObject =>
  path.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as JsonObject

/** Both objects; of members of both, objects are merged, and other values are those of the second. */
function merge(first: JsonObject, second: JsonObject): JsonObject {
  const merged = new Map(Object.entries(first))
  for (const [name, value] of Object.entries(second)) {
    const before = merged.get(name)
    merged.set(name, isObject(before) && isObject(value) ? merge(before, value) : value)
  }
  return Object.fromEntries(merged)
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function serviceVerbs(program: Command): void {
  const service = program.command('service').description('Manage the settings of a workspace.')
  addVerb(
    service,
    'show',
    'Print all settings of a workspace, each with its source: default, workspace or tenant.',
    show,
    [WORKSPACE, JSON_FLAG],
  )
  addVerb(
    service,
    'set <settings...>',
    `Set the named settings, and print those that have changed. A setting is NAME=JSON such as anon.collections=read, or an object: ${JSON_NOTATION}.`,
    set,
    [
      ['--dry-run', 'Print what would change, and change nothing.'],
      [
        '--if-match <revision>',
        'Change nothing if the settings have another revision than this one, which `show` and --dry-run print.',
      ],
      WORKSPACE,
      JSON_FLAG,
    ],
  )
}

interface Services {
  readonly egress: { readonly allow: readonly string[] }
}

/** Prints the list, one address a line. */
async function listEgress({ workspace, json }: ServiceOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const { egress } = (await readSettings<Services>(client, workspace_id)).found
  for (const address of egress.allow) printLine(json ? JSON.stringify(address) : address)
  return 0
}

/** How often a change that others have overtaken is made again, to the addresses that they left. */
const ATTEMPTS_MAX = 10

/** Changes the list by `change`, and prints it. */
async function updateEgress(
  { workspace, json }: ServiceOptions,
  change: (allowed: readonly string[]) => Iterable<string>,
): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  for (let attempt = 1; ; attempt += 1) {
    const { found, revision } = await readSettings<Services>(client, workspace_id)
    const body = { workspace_id, egress: { allow: [...change(found.egress.allow)] } }
    try {
      const { egress } = (await configure<Services>(client, body, revision)).found
      if (json) return printJson(egress)
      for (const address of egress.allow) printLine(address)
      return 0
    } catch (error) {
      if (!isOvertaken(error) || attempt === ATTEMPTS_MAX) throw error
    }
  }
}

export function egressVerbs(workspace: Command): void {
  const egress = workspace
    .command('egress')
    .description('Manage the non-public addresses that flows may call.')
  addVerb(egress, 'list', 'Print the allowed addresses.', listEgress, [WORKSPACE, JSON_LINES_FLAG])
  addVerb(
    egress,
    'allow <addresses...>',
    'Allow addresses, each HOST:PORT as in the URL. Requires the role operator.',
    (added: string[], options: ServiceOptions) =>
      updateEgress(options, (allowed) => new Set([...allowed, ...added])),
    [WORKSPACE, JSON_FLAG],
  )
  addVerb(
    egress,
    'remove <addresses...>',
    'Remove addresses from the allowed ones.',
    (removed: string[], options: ServiceOptions) =>
      updateEgress(options, (allowed) => allowed.filter((one) => !removed.includes(one))),
    [WORKSPACE, JSON_FLAG],
  )
}
