/** `mcp/<slug>.yaml`: hosted MCP servers, their drafts, and whether the published version has what the draft has. */

import { isDeepStrictEqual } from 'node:util'
import { TenonError } from '../../../../client/src/index.ts'
import { requireDistinct, requireName } from '../folder.ts'
import { allPages, type Place, runEach } from '../place.ts'
import { valueIn, withValue } from '../yaml-text.ts'
import {
  type Difference,
  type Kind,
  type NamedKind,
  Overtaken,
  type Pair,
  type Pulled,
  planNamed,
} from './kind.ts'

const KIND = 'mcp'

type Remote = Awaited<ReturnType<Place['client']['mcpServers']['list']>>['data'][number]
type Json = Readonly<Record<string, unknown>>

/** Settings of the endpoint and texts, which take effect at once. */
const SETTINGS: Json = {
  description: '',
  list: 'auto',
  challenge: 'auto',
  search: 'auto',
  results: 'both',
  authorization_server: null,
}
/** What a version is published from. */
const DRAFT: Json = { tools: {}, groups: [], prompts: {}, resources: {} }

const fileOf = (slug: string): string => `${KIND}/${slug}.yaml`

async function parse({ folder }: Place): Promise<Map<string, Json>> {
  const slugs = await folder.names(KIND)
  const read = await runEach(slugs, async (slug) => {
    const value = valueIn((await folder.read(fileOf(slug))) ?? '', fileOf(slug))
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new Error(`${fileOf(slug)}: write the members of a server: name and tools.`)
    checkMembers(slug, value as Json)
    return [slug, { name: slug, ...value }] as const
  })
  return new Map(read)
}

function checkMembers(slug: string, value: Json): void {
  const known = ['name', ...Object.keys(SETTINGS), ...Object.keys(DRAFT)]
  const unknown = Object.keys(value).find((member) => !known.includes(member))
  if (unknown !== undefined)
    throw new Error(`${fileOf(slug)}: ${unknown} is not known. The members are ${known.join(', ')}.`)
  const short = Object.keys(Object(value['tools'])).find((candidate) => !candidate.includes(':'))
  if (short !== undefined)
    throw new Error(
      `${fileOf(slug)}: tools.${short}: write the whole id, such as functions:price:invoke. \`tenon mcp candidates ${slug}\` lists all.`,
    )
}

async function read({ client, workspace }: Place): Promise<Map<string, Remote>> {
  const list = await allPages((page) => client.mcpServers.list({ ...page, ws: workspace.id }))
  return new Map(list.map((one) => [one.slug, one]))
}

const settingsOf = (file: Json): Json => ({
  ...Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, file[name] ?? SETTINGS[name]])),
  name: file['name'],
})

const draftOf = (file: Json): Json =>
  Object.fromEntries(Object.keys(DRAFT).map((name) => [name, file[name] ?? DRAFT[name]]))

const differing = (wanted: Json, present: Json): string[] =>
  Object.keys(wanted).filter((name) => !isDeepStrictEqual(wanted[name], present[name] ?? DRAFT[name] ?? null))

async function compare(
  place: Place,
  { file, remote, changed }: Pair<Json, Remote>,
): Promise<readonly Difference[]> {
  const members = [
    ...differing(settingsOf(file), remote as unknown as Json),
    ...differing(draftOf(file), remote.curation as Json),
  ]
  if (members.length > 0) return members.map((member) => ({ member, detail: 'changes' }))
  const behind = Object.keys(Object(file['tools'])).flatMap((candidate) => {
    const [source, name] = candidate.split(':')
    return changed.has(`${source}/${name}`) ? [`${source}/${name}`] : []
  })
  if (behind.length > 0)
    return [{ detail: `published again, since ${[...new Set(behind)].join(', ')} may change its tools` }]
  return (await isPublished(place, remote)) ? [] : [{ detail: 'the draft is published' }]
}

/** True if the published version, or one that waits for approval, has what the draft has. */
async function isPublished({ client, workspace }: Place, remote: Remote): Promise<boolean> {
  if (!hasTools(remote)) return true
  if (remote.latest_version === 0) return false
  const at = { ws: workspace.id, server: remote.id }
  const latest = await client.mcpVersions.get({ ...at, version: remote.latest_version })
  if (latest.state === 'needs_approval')
    return latest.published_at >= remote.updated_at || isClose(latest.published_at, remote)
  const texts = { name: remote.name, description: remote.description }
  const { prompts, resources } = remote.curation
  if (differing({ ...texts, prompts, resources } as Json, latest.manifest).length > 0) return false
  const { diff } = await client.mcpServers.preview(at)
  return diff.added.length + diff.removed.length + diff.changed.length === 0
}

/** The version has the time of the API, and the server that of the database. */
const isClose = (publishedAt: string, { updated_at }: Remote): boolean =>
  Math.abs(Date.parse(updated_at) - Date.parse(publishedAt)) < 1_000

const hasTools = ({ curation }: Remote): boolean =>
  Object.values(curation.tools).some(({ enabled }) => enabled)

async function write(
  place: Place,
  { name: slug, file, remote }: { name: string; file: Json; remote: Remote | undefined },
) {
  const { client, workspace } = place
  const ws = workspace.id
  const settings = settingsOf(file) as unknown as { name: string }
  const { server, etag } =
    remote === undefined
      ? { server: await create(place, { slug, ...settings }), etag: null }
      : await requireUnchanged(place, remote)
  const at = { ws, server: server.id }
  const condition = etag === null ? {} : { if_match: etag }
  const draft = { ...at, ...draftOf(file), ...condition } as Parameters<typeof client.mcpCuration.replace>[0]
  if (differing(settingsOf(file), server as unknown as Json).length > 0)
    await client.mcpServers.update({ ...at, ...settings })
  if (differing(draftOf(file), server.curation as Json).length > 0)
    await client.mcpCuration.replace(draft).catch((error: unknown) => {
      throw error instanceof TenonError && error.status === 412 ? overtaken(slug, error) : error
    })
  return { id: server.id, ...(await publish(place, at, slug)) }
}

const overtaken = (slug: string, cause?: unknown) => new Overtaken(`The MCP server ${slug}`, { cause })

const create = ({ client, workspace }: Place, input: { slug: string; name: string }): Promise<Remote> =>
  client.mcpServers.create({ ws: workspace.id, ...input }).catch((error: unknown) => {
    throw isConflict(error) ? overtaken(input.slug, error) : error
  })

const isConflict = (error: unknown): boolean => error instanceof TenonError && error.status === 409

/** @throws Overtaken if the server is not the one that was compared */
async function requireUnchanged({ client, workspace }: Place, planned: Remote) {
  let etag: string | null = null
  const at = { ws: workspace.id, server: planned.id }
  const server = await client.mcpServers.get(at, {
    onResponse: ({ headers }) => (etag = headers.get('etag')),
  })
  if (server.updated_at !== planned.updated_at) throw overtaken(planned.slug)
  return { server, etag: etag as string | null }
}

/** Publishes the draft, unless the published version has the same tools and texts. */
async function publish(place: Place, at: { ws: string; server: string }, slug: string) {
  const { client } = place
  const now = await client.mcpServers.get(at)
  if (!hasTools(now)) return { warnings: [`${slug} has no tools, so that nothing was published.`] }
  if (await isPublished(place, now)) return { warnings: [], result: 'unchanged' }
  const { version, state, diff, reasons } = await client.mcpVersions.create(at)
  const sentences = [
    ...diff.summary,
    ...reasons.map(({ tool, detail }) => `${tool ?? 'The server'} ${detail}`),
  ]
  const waits = `v${version} is not active until an admin approves it: tenon mcp approve ${slug} ${version}`
  return { warnings: [...sentences, ...(state === 'needs_approval' ? [waits] : [])], result: `v${version}` }
}

const named: NamedKind<Json, Remote> = {
  ...{ kind: KIND, parse, read, compare, write },
  remove: ({ client, workspace }, { id }) => client.mcpServers.delete({ ws: workspace.id, server: id }),
}

async function pull(place: Place): Promise<Pulled> {
  const [files, remotes] = await Promise.all([parse(place), read(place)])
  requireDistinct(KIND, [...remotes.keys()])
  const written: string[] = []
  for (const [slug, remote] of remotes) {
    const file = fileOf(requireName(slug, KIND))
    const local = files.get(slug)
    const all = { ...(remote as unknown as Json), ...(remote.curation as Json) }
    if (local !== undefined && differing({ ...settingsOf(local), ...draftOf(local) }, all).length === 0)
      continue
    const defaults: Json = { ...SETTINGS, ...DRAFT }
    const kept = ['name', ...Object.keys(defaults)].filter(
      (name) => !isDeepStrictEqual(all[name], defaults[name]),
    )
    const value = Object.fromEntries(kept.map((name) => [name, all[name]]))
    const text = withValue(await place.folder.read(file), value, file)
    if (await place.folder.write(file, text)) written.push(file)
  }
  return { files: written, notes: [] }
}

export const mcp: Kind = { plan: (place, changed) => planNamed(named, place, changed), pull }
