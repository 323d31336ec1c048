/** `tenon fn deploy|dev`: bundles a function and deploys it as the next version, once or at each change. */

import { createHash } from 'node:crypto'
import { watch } from 'node:fs/promises'
import { dirname, relative, sep } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Command } from 'commander'
import { isObject } from '../../core/json.ts'
import { type ApiClient, ApiError } from '../client.ts'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { callerPath, workspaceClient } from '../settings.ts'
import { addVerb, type Flag, printError, printLine, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { bundleFunction, requireEntry, SourceError } from './bundle.ts'

interface Deployed {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly sha256: string
  readonly config: Readonly<Record<string, unknown>> & { readonly secrets?: readonly string[] }
}

interface Diagnostic {
  readonly message: string
  readonly file?: string
  readonly line: number
  readonly column: number
}

interface DeployOptions extends WorkspaceOption {
  readonly name?: string
  readonly config?: string
  readonly force?: boolean
}

const CONFIG: Flag = ['--config <json>', `Members of the configuration: ${JSON_NOTATION}.`]
const FORCE: Flag = [
  '--force',
  'Deploy a new version even if source and configuration equal those of the active version.',
]
const NAME: Flag = ['--name <name>', 'Name of the function. Default: the name of the file or folder.']

/** Prints the version, or the errors of the source on stderr. @returns the exit code */
async function deploy(path: string, options: DeployOptions): Promise<number> {
  try {
    printLine(await deployOnce(path, options))
    return 0
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    printError(error)
    return 1
  }
}

/**
 * @returns name, version, hash or `unchanged`, and id
 * @throws SourceError for errors that the bundler or the platform finds in the source
 */
async function deployOnce(path: string, { name, config, force, workspace }: DeployOptions): Promise<string> {
  const bundle = await bundleFunction(path)
  const { client, workspace_id } = await workspaceClient(workspace)
  const { source, source_map } = bundle
  const wanted = {
    ...{ workspace_id, name: name ?? bundle.name, source },
    ...(config !== undefined && { config: await configArgument(config) }),
  }
  // An exported `config` is the whole configuration, and only the platform reads it: another may have been set since.
  const same = force === true || bundle.hasConfig ? undefined : await findUnchanged(client, wanted)
  if (same !== undefined) {
    for (const warning of await missingSecrets(client, workspace_id, same))
      process.stderr.write(`warning: ${warning}\n`)
    return `${same.name} v${same.version} unchanged (${same.id})`
  }
  const body = { ...wanted, ...(source_map && { source_map }) }
  const made = await client.post<Deployed>('/v1/functions', body).catch((error: unknown) => {
    throw sourceErrorOf(error, path)
  })
  return `${made.name} v${made.version} ${made.sha256.slice(0, 12)} (${made.id})`
}

/** @throws Error if it is no object */
async function configArgument(text: string): Promise<object> {
  const config = await jsonArgument(text, 'The configuration')
  if (isObject(config)) return config
  throw new Error(
    `The configuration is ${JSON.stringify(config)}. Give its members, such as {"timeout": "9s"}.`,
  )
}

/** A warning for each secret that the function names and the workspace lacks, as a deployment has them. */
async function missingSecrets(
  client: ApiClient,
  workspaceId: string,
  { config: { secrets = [] } }: Deployed,
): Promise<string[]> {
  if (secrets.length === 0) return []
  const stored = await client.list<{ name: string }>(`/v1/flows/workspaces/${workspaceId}/secrets`)
  const missing = secrets.filter((secret) => !stored.some(({ name }) => name === secret))
  return missing.map((name) => `The workspace has no secret \`${name}\`. Runs fail until it is stored.`)
}

/** The function of that name, if its active version has this source, and its configuration these members. */
async function findUnchanged(
  client: ApiClient,
  {
    workspace_id,
    name,
    source,
    config,
  }: { workspace_id: string; name: string; source: string; config?: unknown },
): Promise<Deployed | undefined> {
  const sha256 = createHash('sha256').update(source).digest('hex')
  const known = await client.list<Deployed>(`/v1/functions?workspace_id=${workspace_id}`)
  const holds = ([member, value]: [string, unknown], of: Deployed) =>
    isDeepStrictEqual(of.config[member] ?? null, value)
  return known.find(
    (one) =>
      one.name === name &&
      one.sha256 === sha256 &&
      Object.entries(Object(config)).every((entry) => holds(entry, one)),
  )
}

/** The diagnostics of a refused deployment as a SourceError; any other error as it is. */
function sourceErrorOf(error: unknown, path: string): unknown {
  if (!(error instanceof ApiError) || !Array.isArray(error.problem['diagnostics'])) return error
  const diagnostics = error.problem['diagnostics'] as Diagnostic[]
  return new SourceError(
    diagnostics
      .map(({ file = path, line, column, message }) => `${file}:${line}:${column} ${message}`)
      .join('\n'),
  )
}

/** Editors write a file in several steps. */
const SETTLE_MS = 50

/**
 * Deploys at once and after each change below the folder, until it is interrupted, and prints how long each took since the
 * change. Errors are printed, and do not end it.
 */
async function dev(path: string, options: DeployOptions): Promise<number> {
  const folder = dirname(await requireEntry(path))
  // One after the other, so that the last change is the last version.
  let done = Promise.resolve()
  let changedMs: number | undefined = performance.now()
  const redeploy = () => {
    const sinceMs = changedMs ?? performance.now()
    changedMs = undefined
    const report = (made: string) => printLine(`${made} in ${Math.round(performance.now() - sinceMs)} ms`)
    done = done.then(() => deployOnce(path, options).then(report)).catch(printError)
  }
  redeploy()
  process.stderr.write(`Watching ${relative(callerPath('.'), folder) || '.'}; Press Ctrl-C to stop.\n`)
  let timer: NodeJS.Timeout | undefined
  for await (const { filename } of watch(folder, { recursive: true })) {
    if (filename?.split(sep).includes('node_modules')) continue
    changedMs ??= performance.now()
    clearTimeout(timer)
    timer = setTimeout(redeploy, SETTLE_MS)
  }
  return 0
}

export function deployVerbs(functions: Command): void {
  const flags = [NAME, CONFIG, WORKSPACE]
  addVerb(
    functions,
    'deploy <path>',
    'Bundle a file or a folder with its npm packages, and deploy it as the next version of a function if it has changed.',
    deploy,
    [...flags, FORCE],
  )
  addVerb(functions, 'dev <path>', 'Deploy a file or a folder at each change.', dev, flags)
}
