/** `functions/<name>.ts`, or a folder with an entry file: bundled here, and compared by the hash of what would be deployed. */

import { hash } from 'node:crypto'
import { relative } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { TenonError } from '../../../../client/src/index.ts'
import { type Bundle, bundleFunction } from '../../functions/bundle.ts'
import { requireDistinct, requireName } from '../folder.ts'
import { allPages, type Place, runEach } from '../place.ts'
import { valueIn, withValue } from '../yaml-text.ts'
import {
  type Difference,
  type Kind,
  type NamedKind,
  Overtaken,
  type Pulled,
  planNamed,
  warningsOf,
} from './kind.ts'

const KIND = 'functions'

type Remote = Awaited<ReturnType<Place['client']['functions']['list']>>['data'][number]
type Config = Readonly<Record<string, unknown>>

interface Local {
  readonly bundle: Bundle
  readonly sha256: string
  /** Of `functions/<name>.yaml`; undefined if there is none. */
  readonly config?: Config
}

/** Members that a file with the configuration need not have. `timeout` and `memory_mb` stay as they are if it does not name them. */
const DEFAULTS: Config = {
  concurrency: null,
  env: {},
  secrets: [],
  egress: [],
  scopes: [],
  schedule: null,
  triggers: [],
  idempotent: false,
  retries: 0,
  anon: false,
  user: false,
}

const configFile = (name: string): string => `${KIND}/${name}.yaml`

/** A name with an underscore is code that functions share. */
const isShared = (name: string): boolean => /^_|^node_modules$|\.d\.ts$|\.json$|\.md$/.test(name)

/** The paths of functions by their names. */
async function findPaths({ folder }: Place): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const { name: entry, isFolder } of await folder.list(KIND)) {
    if (isShared(entry) || (!isFolder && entry.endsWith('.yaml'))) continue
    if (!isFolder && !/\.[jt]s$/.test(entry))
      throw new Error(
        `${KIND}/${entry} is not read: functions are files that end in .ts or .js, and folders.`,
      )
    const name = requireName(isFolder ? entry : entry.replace(/\.[jt]s$/, ''), `${KIND}/${entry}`)
    const other = found.get(name)
    if (other !== undefined) throw new Error(`${other} and ${KIND}/${entry} are both the function ${name}.`)
    found.set(name, `${KIND}/${entry}`)
  }
  return found
}

async function readLocal(place: Place, name: string, path: string): Promise<Local> {
  const { folder } = place
  const bundle = await bundleFunction(folder.path(path))
  folder.requireInside(bundle.files, path)
  const text = await folder.read(configFile(name))
  const config = text === undefined ? undefined : valueIn(text, configFile(name))
  if (config !== undefined && (typeof config !== 'object' || config === null || Array.isArray(config)))
    throw new Error(`${configFile(name)}: write the members of the configuration, such as timeout: 9s.`)
  return {
    ...{ bundle, sha256: hash('sha256', bundle.source) },
    ...(config !== undefined && { config: config as Config }),
  }
}

async function parse(place: Place): Promise<Map<string, Local>> {
  const paths = await findPaths(place)
  const configs = (await place.folder.list(KIND)).flatMap(({ name }) => name.match(/^(.*)\.yaml$/)?.[1] ?? [])
  const stray = configs.find((name) => !paths.has(name))
  if (stray !== undefined) throw new Error(`${configFile(stray)} is the configuration of no function.`)
  const read = await runEach(
    [...paths],
    async ([name, path]) => [name, await readLocal(place, name, path)] as const,
  )
  return new Map(read)
}

async function read({ client, workspace }: Place): Promise<Map<string, Remote>> {
  const list = await allPages((page) => client.functions.list({ ...page, workspace_id: workspace.id }))
  return new Map(list.map((one) => [one.name, one]))
}

/** The members that a change has to set: all that differ. A module that exports its configuration decides it alone. */
function configChange({ config, bundle }: Local, { config: present }: Remote): Config {
  if (config === undefined && bundle.hasConfig) return {}
  const wanted = Object.entries({ ...(bundle.hasConfig ? {} : DEFAULTS), ...config })
  const now = present as Config
  return Object.fromEntries(
    wanted.filter(([name, value]) => !isDeepStrictEqual(now[name] ?? DEFAULTS[name] ?? null, value)),
  )
}

function compare(_: Place, { file, remote }: { file: Local; remote: Remote }): readonly Difference[] {
  const members = Object.keys(configChange(file, remote))
  return [
    ...(file.sha256 === remote.sha256
      ? []
      : [{ member: 'source', detail: `v${remote.version} gets a successor` }]),
    ...members.map((member) => ({ member, detail: 'the configuration changes' })),
  ]
}

async function write(
  place: Place,
  { name, file, remote }: { name: string; file: Local; remote: Remote | undefined },
) {
  const { client, workspace } = place
  const { source, source_map } = file.bundle
  const config = remote === undefined ? file.config : configChange(file, remote)
  if (remote !== undefined) await requireUnchanged(place, remote)
  const deployment = {
    ...{ workspace_id: workspace.id, name, source },
    ...(source_map && { source_map }),
    ...(config !== undefined && { config }),
  }
  const made =
    remote !== undefined && remote.sha256 === file.sha256
      ? await client.functions.configure({ id: remote.id, ...config })
      : await deploy(place, deployment, remote?.version ?? 0)
  return { id: made.id, warnings: warningsOf(made), result: `v${made.version}` }
}

type Deployment = Parameters<Place['client']['functions']['create']>[0]

/** A server that is older does not know the condition, and has been asked for the version just before. */
async function deploy({ client }: Place, deployment: Deployment, expected_version: number) {
  const { name } = deployment
  try {
    return await client.functions.create({ ...deployment, expected_version })
  } catch (error) {
    if (!(error instanceof TenonError)) throw error
    if (error.code === 'precondition_failed') throw overtaken(name, error)
    const isOlder = error.errors.some(({ pointer }) => pointer === '/expected_version')
    if (!isOlder) throw withDiagnostics(error, name)
    return client.functions.create(deployment).catch((refused: unknown) => {
      throw withDiagnostics(refused, name)
    })
  }
}

/** @throws Overtaken if the function is not the one that was compared */
async function requireUnchanged({ client }: Place, planned: Remote): Promise<void> {
  const { updated_at, version } = await client.functions.get({ id: planned.id })
  if (updated_at !== planned.updated_at || version !== planned.version) throw overtaken(planned.name)
}

const overtaken = (name: string, cause?: unknown) => new Overtaken(`The function ${name}`, { cause })

/** With a line for each diagnostic of the compiler. */
function withDiagnostics(error: unknown, name: string): unknown {
  const diagnostics = error instanceof TenonError ? error.problem['diagnostics'] : undefined
  if (!Array.isArray(diagnostics)) return error
  const lines = diagnostics.map(
    ({ file = `${KIND}/${name}`, line, column, message }) => `${file}:${line}:${column} ${message}`,
  )
  return new Error(lines.join('\n'), { cause: error })
}

const named: NamedKind<Local, Remote> = {
  ...{ kind: KIND, parse, read, compare, write },
  remove: ({ client }, { id }) => client.functions.delete({ id }),
}

async function pull(place: Place): Promise<Pulled> {
  const [files, remotes] = await Promise.all([parse(place), read(place)])
  requireDistinct(KIND, [...remotes.keys()])
  const pulled = { files: [] as string[], notes: [] as string[] }
  await runEach([...remotes], ([name, remote]) =>
    pullOne(place, { name, remote, file: files.get(name) }, pulled),
  )
  return pulled
}

/** Writes the source if it differs, and then the configuration unless the source exports it. */
async function pullOne(
  place: Place,
  { name, remote, file }: { name: string; remote: Remote; file: Local | undefined },
  pulled: { files: string[]; notes: string[] },
): Promise<void> {
  const { folder, client } = place
  const [entry = '', ...others] = file?.bundle.files ?? []
  const path = file === undefined ? `${KIND}/${requireName(name, KIND)}.ts` : relative(folder.root, entry)
  if (file?.sha256 !== remote.sha256) {
    if (others.length > 0) {
      pulled.notes.push(
        `${KIND}/${name} is made of several files, and the workspace has another version (v${remote.version}), which cannot be taken apart. The files stay as they are.`,
      )
      return
    }
    const { source } = await client.functions.get({ id: remote.id })
    if (await folder.write(path, source)) pulled.files.push(path)
  }
  const local = file?.sha256 === remote.sha256 ? file : await readLocal(place, name, path)
  const isWritten = local.config !== undefined || local.bundle.hasConfig
  if (isWritten && Object.keys(configChange(local, remote)).length === 0) return
  const text = withValue(await folder.read(configFile(name)), shortOf(remote.config), configFile(name))
  if (await folder.write(configFile(name), text)) pulled.files.push(configFile(name))
}

const shortOf = (config: Config): Config =>
  Object.fromEntries(
    Object.entries(config).filter(([name, value]) => !isDeepStrictEqual(value, DEFAULTS[name])),
  )

export const functions: Kind = {
  plan: (place, changed) => planNamed(named, place, changed),
  pull,
}
