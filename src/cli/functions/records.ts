/** `tenon fn list|show|versions|activate|rollback|config|delete`: reads and changes deployed functions. */

import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { workspaceClient } from '../settings.ts'
import {
  addVerb,
  dateTimeText,
  printJson,
  printLine,
  printTable,
  WORKSPACE,
  type WorkspaceOption,
} from '../verb.ts'
import { functionClient } from './client.ts'

interface FunctionRecord {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly updated_at: string
  readonly config: Readonly<Record<string, unknown>>
}

interface Version {
  readonly version: number
  readonly sha256: string
  readonly active: boolean
  readonly created_at: string
  readonly created_by: string
}

interface JsonOption extends WorkspaceOption {
  readonly json?: boolean
}

async function list({ workspace, json }: JsonOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const functions = await client.list<FunctionRecord>(`/v1/functions?workspace_id=${workspace_id}`)
  if (json) return printJson(functions)
  printTable(
    ['FUNCTION', 'VERSION', 'UPDATED', 'ID'],
    functions.map(({ name, version, updated_at, id }) => [name, `v${version}`, dateTimeText(updated_at), id]),
  )
  return 0
}

async function show(name: string, options: WorkspaceOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  return printJson(await client.get(path))
}

async function versions(name: string, options: JsonOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  const found = await client.list<Version>(`${path}/versions`)
  if (options.json) return printJson(found)
  printTable(
    ['VERSION', 'ACTIVE', 'DEPLOYED', 'BY', 'SHA-256'],
    found.map(({ version, active, created_at, created_by, sha256 }) => [
      `v${version}`,
      active ? 'yes' : '',
      dateTimeText(created_at),
      created_by,
      sha256.slice(0, 12),
    ]),
  )
  return 0
}

async function activate(name: string, text: string, options: WorkspaceOption): Promise<number> {
  const version = Number(/^v?(\d+)$/.exec(text)?.[1])
  if (Number.isNaN(version)) throw new Error(`${text} is not a version: write 3, or v3.`)
  const { client, path } = await functionClient(name, options)
  const active = await client.post<FunctionRecord>(`${path}/versions/${version}/activate`, {})
  printLine(`${active.name} v${active.version}`)
  return 0
}

/** Activates the newest version before the active one. */
async function rollback(name: string, options: WorkspaceOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  const found = await client.list<Version>(`${path}/versions`)
  const active = found.find((one) => one.active)?.version ?? 0
  const earlier = found.map(({ version }) => version).filter((version) => version < active)
  if (earlier.length === 0) throw new Error(`${name} has no version before v${active}.`)
  return activate(name, String(Math.max(...earlier)), options)
}

/** Sets the named members, and prints the configuration. */
async function config(name: string, change: string | undefined, options: WorkspaceOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  if (change === undefined) return printJson((await client.get<FunctionRecord>(path)).config)
  const body = await jsonArgument(change, 'The configuration')
  return printJson((await client.call<FunctionRecord>('PUT', `${path}/config`, body)).config)
}

async function remove(name: string, options: WorkspaceOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  await client.call('DELETE', path)
  printLine(`${name} deleted`)
  return 0
}

export function recordVerbs(functions: Command): void {
  const json = ['--json', 'Print the result as JSON.'] as const
  addVerb(functions, 'list', 'List functions.', list, [WORKSPACE, json])
  addVerb(functions, 'show <name>', 'Print a function with its source and configuration.', show, [WORKSPACE])
  addVerb(functions, 'versions <name>', 'List the versions of a function.', versions, [WORKSPACE, json])
  addVerb(
    functions,
    'activate <name> <version>',
    'Make a version the active one, which is invoked by default.',
    activate,
    [WORKSPACE],
  )
  addVerb(functions, 'rollback <name>', 'Activate the version before the active one.', rollback, [WORKSPACE])
  addVerb(
    functions,
    'config <name> [change]',
    `Print the configuration, or set the members in [change]: ${JSON_NOTATION}.`,
    config,
    [WORKSPACE],
  )
  addVerb(functions, 'delete <name>', 'Delete a function with all its versions.', remove, [WORKSPACE])
}
