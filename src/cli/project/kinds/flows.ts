/** `flows/<name>.yaml` with their cases in `<name>.cases.yaml`: the drafts and latest versions of flows. */

import { hash } from 'node:crypto'
import { TenonError } from '../../../../client/src/index.ts'
import { testFlow } from '../../flows/simulate.ts'
import { requireDistinct, requireName } from '../folder.ts'
import { allPages, type Place, runEach } from '../place.ts'
import { valueIn } from '../yaml-text.ts'
import {
  type Difference,
  type Kind,
  type NamedKind,
  Overtaken,
  type Pulled,
  planNamed,
  warningsOf,
} from './kind.ts'

const KIND = 'flows'
const CASES = '.cases.yaml'

type Summary = Awaited<ReturnType<Place['client']['flows']['list']>>['data'][number]

/** A flow of the workspace, with the hash of its draft. */
interface Remote extends Pick<Summary, 'id' | 'name' | 'latest_version'> {
  readonly sha256: string
  /** True if the latest version has the source of the draft. */
  readonly isPublished: boolean
}

interface Local {
  readonly source: string
  readonly sha256: string
}

const fileOf = (name: string): string => `${KIND}/${name}.yaml`

async function parse({ folder }: Place): Promise<Map<string, Local>> {
  const names = await folder.names(KIND, [CASES])
  const read = await runEach(names, async (name) => {
    const source = (await folder.read(fileOf(name))) ?? ''
    const definition = valueIn(source, fileOf(name)) as { document?: { name?: unknown } } | null
    const own = definition?.document?.name
    if (own !== name)
      throw new Error(
        `${fileOf(name)} has the document.name ${JSON.stringify(own)}. Name the file like the flow.`,
      )
    return [name, { source, sha256: hash('sha256', source) }] as const
  })
  return new Map(read)
}

async function read(place: Place): Promise<Map<string, Remote>> {
  const ws = place.workspace.id
  const list = await allPages((page) => place.client.flows.list({ ...page, ws }))
  const remotes = await runEach(list, (one) => withHash(place, one))
  return new Map(remotes.map((one) => [one.name, one]))
}

/** The list of a server of this version has all that is compared; an older one is asked for each flow. */
async function withHash(place: Place, summary: Summary): Promise<Remote> {
  const { id, name, latest_version, source_sha256, has_unpublished_changes } = summary as Partial<Summary> &
    Summary
  if (source_sha256 !== undefined)
    return { id, name, latest_version, sha256: source_sha256, isPublished: !has_unpublished_changes }
  const at = { ws: place.workspace.id, flow: id }
  const { source } = await place.client.flows.get(at)
  const latest =
    latest_version === 0 ? undefined : await place.client.flowVersions.get({ ...at, version: latest_version })
  return { id, name, latest_version, sha256: hash('sha256', source), isPublished: latest?.source === source }
}

function compare(_: Place, { file, remote }: { file: Local; remote: Remote }): readonly Difference[] {
  if (file.sha256 !== remote.sha256) return [{ detail: `v${remote.latest_version + 1} is published` }]
  return remote.isPublished ? [] : [{ detail: `the draft is published as v${remote.latest_version + 1}` }]
}

async function write(
  place: Place,
  { name, file, remote }: { name: string; file: Local; remote: Remote | undefined },
) {
  const { client, workspace } = place
  const { source } = file
  const ws = workspace.id
  try {
    const draft =
      remote === undefined
        ? await client.flows.create({ ws, source })
        : await replaceDraft(place, { file, remote })
    const made = await client.flowVersions.create({ ws, flow: draft.id })
    const secrets = (made.webhooks ?? []).map(({ name: hook, url }) => `The webhook ${hook} is at ${url}.`)
    return { id: draft.id, warnings: [...warningsOf(made), ...secrets], result: `v${made.version}` }
  } catch (error) {
    if (error instanceof TenonError && error.code === 'conflict' && remote === undefined)
      throw new Overtaken(`The flow ${name}`, { cause: error })
    throw withDiagnostics(error, fileOf(name))
  }
}

/** @throws Overtaken if the draft is not the one that was compared */
async function replaceDraft(
  { client, workspace }: Place,
  { file, remote }: { file: Local; remote: Remote },
): Promise<{ readonly id: string }> {
  const at = { ws: workspace.id, flow: remote.id }
  let etag: string | null = null
  const draft = await client.flows.get(at, { onResponse: ({ headers }) => (etag = headers.get('etag')) })
  const overtaken = new Overtaken(`The flow ${remote.name}`)
  if (hash('sha256', draft.source) !== remote.sha256 || draft.latest_version !== remote.latest_version)
    throw overtaken
  if (remote.sha256 === file.sha256) return draft
  const condition = etag === null ? {} : { if_match: etag as string }
  return client.flows.update({ ...at, ...condition, source: file.source }).catch((error: unknown) => {
    throw error instanceof TenonError && error.status === 412 ? overtaken : error
  })
}

function withDiagnostics(error: unknown, file: string): unknown {
  const diagnostics = error instanceof TenonError ? error.problem['diagnostics'] : undefined
  if (!Array.isArray(diagnostics)) return error
  const lines = diagnostics.map(
    ({ line, column, code, message }) => `${file}:${line}:${column} ${code}: ${message}`,
  )
  return new Error(lines.join('\n'), { cause: error })
}

const named: NamedKind<Local, Remote> = {
  ...{ kind: KIND, parse, read, compare, write },
  remove: ({ client, workspace }, { id }) => client.flows.delete({ ws: workspace.id, flow: id }),
}

/** Runs the cases of flows on this machine. @throws Error if one fails, after its differences were printed */
export async function requireCases({ folder }: Place, names: readonly string[]): Promise<void> {
  for (const name of names) {
    if ((await folder.read(`${KIND}/${name}${CASES}`)) === undefined) continue
    const path = folder.path(fileOf(name))
    const { failed } = await testFlow(path, true)
    if (failed === 0) continue
    await testFlow(path, false)
    throw new Error(
      `${failed} ${failed === 1 ? 'case' : 'cases'} of the flow ${name} failed. Nothing was changed.`,
    )
  }
}

async function pull(place: Place): Promise<Pulled> {
  const remotes = await read(place)
  requireDistinct(KIND, [...remotes.keys()])
  const pulled = { files: [] as string[], notes: [] as string[] }
  await runEach([...remotes], async ([name, { id, sha256, isPublished }]) => {
    const file = `${KIND}/${requireName(name, KIND)}.yaml`
    if (!isPublished)
      pulled.notes.push(`The draft of the flow ${name} is not published; ${file} has the draft.`)
    const before = await place.folder.read(file)
    if (before !== undefined && hash('sha256', before) === sha256) return
    const { source } = await place.client.flows.get({ ws: place.workspace.id, flow: id })
    if (await place.folder.write(file, source)) pulled.files.push(file)
  })
  return pulled
}

export const flows: Kind = { plan: (place, changed) => planNamed(named, place, changed), pull }
