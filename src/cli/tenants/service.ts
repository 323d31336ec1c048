/** `tenon service` and `tenon workspace egress`: the settings of a workspace, and the non-public addresses that its flows may call. */

import type { Command } from 'commander'
import { withQuery } from '../client.ts'
import { JSON_NOTATION, jsonArgument, textArgument, yamlIn } from '../json-argument.ts'
import { JSON_FLAG, type JsonOption, printPages } from '../output.ts'
import { workspaceClient } from '../settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'

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

async function show({ workspace, json }: ServiceOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const found = await client.get<{ effective: readonly Setting[] }>(
    withQuery('/v1/services', { workspace_id }),
  )
  if (json) return printJson(found)
  return printPages([found.effective], {
    SETTING: nameOf,
    VALUE: ({ value }) => JSON.stringify(value),
    SOURCE: ({ source }) => source,
  })
}

interface SetOptions extends ServiceOptions {
  readonly dryRun?: boolean
}

/** Prints what has changed, or would change. */
async function set(settings: readonly string[], { workspace, json, dryRun }: SetOptions): Promise<number> {
  const values = await Promise.all(settings.map(readSetting))
  const { client, workspace_id } = await workspaceClient(workspace)
  const body = { ...values.reduce<JsonObject>(merge, {}), workspace_id, dry_run: dryRun }
  const found = await client.post<{ changes: readonly Change[] }>('/v1/services/configure', body)
  if (json) return printJson(found)
  process.stderr.write(changedText(found.changes.length, dryRun))
  if (found.changes.length === 0) return 0
  return printPages([found.changes], {
    SETTING: nameOf,
    BEFORE: ({ before }) => JSON.stringify(before),
    AFTER: ({ after }) => JSON.stringify(after),
  })
}

function changedText(count: number, isTried = false): string {
  if (count === 0) return 'The settings have these values already.\n'
  return isTried ? 'Nothing was changed. Without --dry-run, these settings change:\n' : ''
}

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
    [['--dry-run', 'Print what would change, and change nothing.'], WORKSPACE, JSON_FLAG],
  )
}

interface Services {
  readonly egress: { readonly allow: readonly string[] }
}

/** Changes the list by `change`, and prints it, one address a line. */
async function updateEgress(
  { workspace }: WorkspaceOption,
  change?: (allowed: readonly string[]) => Iterable<string>,
): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const path = `/v1/services?workspace_id=${encodeURIComponent(workspace_id)}`
  let { egress } = await client.get<Services>(path)
  if (change !== undefined) {
    const body = { workspace_id, egress: { allow: [...change(egress.allow)] } }
    egress = (await client.post<Services>('/v1/services/configure', body)).egress
  }
  for (const address of egress.allow) process.stdout.write(`${address}\n`)
  return 0
}

export function egressVerbs(workspace: Command): void {
  const egress = workspace
    .command('egress')
    .description('Manage the non-public addresses that flows may call.')
  addVerb(
    egress,
    'list',
    'Print the allowed addresses.',
    (options: WorkspaceOption) => updateEgress(options),
    [WORKSPACE],
  )
  addVerb(
    egress,
    'allow <addresses...>',
    'Allow addresses, each HOST:PORT as in the URL. Requires the role operator.',
    (added: string[], options: WorkspaceOption) =>
      updateEgress(options, (allowed) => new Set([...allowed, ...added])),
    [WORKSPACE],
  )
  addVerb(
    egress,
    'remove <addresses...>',
    'Remove addresses from the allowed ones.',
    (removed: string[], options: WorkspaceOption) =>
      updateEgress(options, (allowed) => allowed.filter((one) => !removed.includes(one))),
    [WORKSPACE],
  )
}
