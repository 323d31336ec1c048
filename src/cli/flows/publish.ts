/** `tenon flow publish|definitions|delete`: definitions of flows and their versions. */

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type ApiClient, ApiError } from '../client.ts'
import { yamlIn } from '../json-argument.ts'
import { callerPath, flowsClient, readCallerFile } from '../settings.ts'
import { addVerb, dateTimeText, printJson, printTable, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { diagnosticsOf } from './check.ts'
import { type Diagnostic, printDiagnostics } from './diagnostics.ts'

interface Flow {
  readonly id: string
  readonly name: string
  readonly source: string
  readonly state: string
  readonly latest_version: number
  readonly updated_at: string
}

/** A definition as the answer to writing it shows it. */
interface Written extends Flow {
  readonly warnings: readonly Diagnostic[]
}

interface Version {
  readonly version: number
  readonly sha256: string
  readonly source: string
}

interface Webhook {
  readonly name: string
  readonly url: string
  /** Only of a new webhook. */
  readonly secret?: string
}

interface Published extends Pick<Version, 'version' | 'sha256'> {
  readonly flow: Flow
  readonly warnings: readonly Diagnostic[]
  readonly webhooks?: readonly Webhook[]
  /** The latest version has the same source, so there is no new one. */
  readonly isUnchanged?: true
}

interface PublishOptions extends WorkspaceOption {
  readonly file?: string
  readonly force?: boolean
}

/** Publishes files, and all flows below folders. @returns the exit code: 1 if a flow has diagnostics */
async function publish(files: readonly string[], options: PublishOptions): Promise<number> {
  const named = [...files, ...(options.file === undefined ? [] : [options.file])]
  if (named.length === 0) throw new Error('Name a file, or a folder with flows.')
  const { client, base } = await flowsClient(options.workspace)
  let code = 0
  for (const file of await findFlowFiles(named)) {
    try {
      const source = await readCallerFile(file)
      printPublished(file, await publishSource(client, base, source, options.force === true))
    } catch (error) {
      printDiagnostics(file, diagnosticsOf(error))
      code = 1
    }
  }
  return code
}

function printPublished(file: string, { flow, version, sha256, warnings, webhooks, isUnchanged }: Published) {
  printDiagnostics(file, warnings, 'warning')
  const note = isUnchanged ? 'unchanged' : sha256.slice(0, 12)
  process.stdout.write(`${flow.name} v${version} ${note} (${flow.id})\n`)
  for (const { name, url, secret } of webhooks ?? []) {
    process.stdout.write(`  webhook ${name}: ${url}\n`)
    if (secret !== undefined) process.stdout.write(`  secret, shown only once: ${secret}\n`)
  }
}

/** Files stay as they are; a folder becomes the flows below it. @throws Error if a folder has none */
async function findFlowFiles(named: readonly string[]): Promise<string[]> {
  const files: string[] = []
  for (const path of named) {
    if (!(await stat(callerPath(path))).isDirectory()) files.push(path)
    else files.push(...(await flowsBelow(path)))
  }
  return files
}

async function flowsBelow(folder: string): Promise<string[]> {
  const entries = await readdir(callerPath(folder), { recursive: true })
  const yaml = entries.filter(
    (name) => /\.ya?ml$/.test(name) && !/\.cases\.ya?ml$/.test(name) && !name.includes('node_modules'),
  )
  if (yaml.length === 0)
    throw new Error(`The folder ${folder} has no flows. Flows are files that end in .yaml.`)
  return yaml.toSorted().map((name) => join(folder, name))
}

/**
 * Creates or replaces the draft of the same name, and publishes it unless the latest version has the same source.
 * @param force publishes it in any case
 */
export async function publishSource(
  client: ApiClient,
  base: string,
  source: string,
  force = false,
): Promise<Published> {
  const flow = await putDraft(client, base, source)
  const path = `${base}/definitions/${flow.id}/versions`
  if (!force && flow.latest_version > 0) {
    const latest = await client.get<Version>(`${path}/${flow.latest_version}`)
    if (latest.source === source) return { flow, ...latest, warnings: flow.warnings, isUnchanged: true }
  }
  return { flow, ...(await client.post<Omit<Published, 'flow'>>(path, {})) }
}

async function putDraft(client: ApiClient, base: string, source: string): Promise<Written> {
  try {
    return await client.post<Written>(`${base}/definitions`, source)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
    return client.call<Written>('PUT', `${base}/definitions/${encodeURIComponent(nameIn(source))}`, source)
  }
}

/** `document.name` of a definition. @throws Error if it has none */
function nameIn(source: string): string {
  const definition = yamlIn(source, 'The flow') as { document?: { name?: unknown } } | null
  const name = definition?.document?.name
  if (typeof name === 'string' && name !== '') return name
  throw new Error('The flow has no document.name.')
}

async function listDefinitions({ workspace, json }: WorkspaceOption & { json?: boolean }): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const flows = await client.list<Flow>(`${base}/definitions`)
  if (json) return printJson(flows)
  const rows = flows.map(({ name, latest_version, state, updated_at, id }) => [
    name,
    latest_version === 0 ? '–' : `v${latest_version}`,
    state,
    dateTimeText(updated_at),
    id,
  ])
  printTable(['FLOW', 'LATEST', 'STATE', 'UPDATED', 'ID'], rows)
  return 0
}

async function remove(flow: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const { id } = await client.call<{ id: string }>(
    'DELETE',
    `${base}/definitions/${encodeURIComponent(flow)}`,
  )
  process.stdout.write(`${id} deleted\n`)
  return 0
}

export function definitionVerbs(flows: Command): void {
  addVerb(
    flows,
    'publish [files...]',
    'Create or replace drafts and publish them. A folder selects all flows below it. An unchanged flow gets no new version.',
    publish,
    [
      WORKSPACE,
      ['-f, --file <path>', 'A file, or a folder with flows.'],
      ['--force', 'Publish a new version even if the source is unchanged.'],
    ],
  )
  addVerb(flows, 'definitions', 'List the flows of the workspace.', listDefinitions, [
    WORKSPACE,
    ['--json', 'Print the flows as JSON.'],
  ])
  addVerb(
    flows,
    'delete <flow>',
    'Delete a flow with its versions. Fails while executions of the flow are open.',
    remove,
    [WORKSPACE],
  )
}
