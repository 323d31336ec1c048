/** `settings.yaml`: the settings of the workspace that the file names; others stay as they are. */

import { isDeepStrictEqual } from 'node:util'
import { TenonError } from '../../../../client/src/index.ts'
import type { Place } from '../place.ts'
import { valueIn, withValue } from '../yaml-text.ts'
import { type Difference, type Kind, type KindPlan, Overtaken, type Pulled, warningsOf } from './kind.ts'

const FILE = 'settings.yaml'
const KIND = 'settings'

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Members of identity providers that the platform adds, or never returns. */
const OF_PLATFORM = ['has_secret', 'redirect_uri']

async function readFile({ folder }: Place): Promise<Json> {
  const text = await folder.read(FILE)
  const value = text === undefined ? {} : (valueIn(text, FILE) ?? {})
  if (!isObject(value)) throw new Error(`${FILE}: write settings such as anon: { collections: none }.`)
  if (JSON.stringify(value).includes('"client_secret"'))
    throw new Error(
      `${FILE} has a client_secret. No file of a project has the value of a secret: set it with \`tenon service set\`, which a project keeps.`,
    )
  return value
}

/** The settings of the file, and in their place those of the target. */
async function wanted(place: Place): Promise<Json> {
  return merged(await readFile(place), place.target.settings ?? {})
}

function merged(first: Json, second: Json): Json {
  const all = new Map(Object.entries(first))
  for (const [name, value] of Object.entries(second)) {
    const before = all.get(name)
    all.set(name, isObject(before) && isObject(value) ? merged(before, value) : value)
  }
  return Object.fromEntries(all)
}

/** The value of each setting by its pointer, and the revision of all. */
async function read({ client, workspace }: Place) {
  let etag: string | null = null
  const { effective } = await client.services.get(
    { workspace_id: workspace.id },
    { onResponse: ({ headers }) => (etag = headers.get('etag')) },
  )
  return { effective, etag: etag as string | null }
}

type Effective = Awaited<ReturnType<typeof read>>['effective']

/** The settings of the file that differ, each as the object that a request has for it. */
function differing(
  file: Json,
  effective: Effective,
): { readonly pointer: string; readonly value: unknown }[] {
  const known = new Map(effective.map(({ pointer, value }) => [pointer, shown(pointer, value)]))
  return leavesOf(file, known).filter(({ pointer, value }) => !isDeepStrictEqual(known.get(pointer), value))
}

const shown = (pointer: string, value: unknown): unknown =>
  pointer === '/auth/providers' && Array.isArray(value)
    ? value.map((one: Json) =>
        Object.fromEntries(Object.entries(one).filter(([name]) => !OF_PLATFORM.includes(name))),
      )
    : value

/** A setting that is set as a whole is one leaf, although it is an object. */
function leavesOf(
  value: unknown,
  known: ReadonlyMap<string, unknown>,
  pointer = '',
): { pointer: string; value: unknown }[] {
  if (!isObject(value) || known.has(pointer)) return [{ pointer, value }]
  return Object.entries(value).flatMap(([name, member]) => leavesOf(member, known, `${pointer}/${name}`))
}

const nested = (leaves: readonly { readonly pointer: string; readonly value: unknown }[]): Json =>
  leaves.reduce<Json>((all, { pointer, value }) => {
    const names = pointer.slice(1).split('/')
    return merged(all, names.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Json)
  }, {})

async function plan(place: Place): Promise<KindPlan> {
  const file = await wanted(place)
  if (Object.keys(file).length === 0) return { steps: [], extras: [], same: 0 }
  const { effective, etag } = await read(place)
  const leaves = withSiblings(differing(file, effective), effective)
  const { changes, warnings } =
    leaves.length === 0 ? { changes: [], warnings: [] } : await tried(place, leaves)
  if (changes.length === 0) return { steps: [], extras: [], same: 1 }
  const change = { kind: KIND, name: FILE, action: 'change' as const, differences: [...changes, ...warnings] }
  return { steps: [{ changes: [change], run: () => write(place, leaves, etag) }], extras: [], same: 0 }
}

/** A request replaces these as a whole, so that it has to have what stays. */
const REPLACED = ['/retention/', '/tenant/retention/']

function withSiblings(leaves: Leaves, effective: Effective): Leaves {
  const groups = REPLACED.filter((group) => leaves.some(({ pointer }) => pointer.startsWith(group)))
  const kept = effective.filter(
    ({ pointer, source }) =>
      source !== 'default' &&
      groups.some((group) => pointer.startsWith(group)) &&
      !leaves.some((leaf) => leaf.pointer === pointer),
  )
  return [...leaves, ...kept]
}

type Configured = Parameters<Place['client']['services']['configure']>[0]
type Leaves = ReturnType<typeof differing>

/** The platform says what a change of settings comes to. */
async function tried({ client, workspace }: Place, leaves: Leaves) {
  const body = { ...nested(leaves), workspace_id: workspace.id, dry_run: true } as Configured
  const answer = await client.services.configure(body)
  const changes: Difference[] = (answer.changes ?? []).map(({ pointer, before, after }) => ({
    ...{ member: pointer, detail: `${JSON.stringify(before)} → ${JSON.stringify(after)}` },
  }))
  return { changes, warnings: warningsOf(answer).map((detail) => ({ detail: `warning: ${detail}` })) }
}

async function write({ client, workspace }: Place, leaves: Leaves, etag: string | null) {
  const body = {
    ...nested(leaves),
    ...{ workspace_id: workspace.id, ...(etag !== null && { if_match: etag }) },
  } as Configured
  const answer = await client.services.configure(body).catch((error: unknown) => {
    if (error instanceof TenonError && error.code === 'precondition_failed')
      throw new Overtaken('A setting', { cause: error })
    throw error
  })
  const id = workspace.id
  return [{ kind: KIND, name: FILE, id, isNew: false, warnings: warningsOf(answer) }]
}

async function pull(place: Place): Promise<Pulled> {
  const [file, { effective }] = await Promise.all([readFile(place), read(place)])
  const ofTarget = nestedPointers(place.target.settings ?? {}, effective)
  const set = effective.filter(
    ({ pointer, source }) =>
      source === 'workspace' && !ofTarget.has(pointer) && !pointer.startsWith('/tenant/'),
  )
  const known = nestedPointers(file, effective)
  const leaves = effective
    .filter(({ pointer }) => set.some((one) => one.pointer === pointer) || known.has(pointer))
    .filter(({ pointer }) => !ofTarget.has(pointer))
    .map(({ pointer, value }) => ({ pointer, value: shown(pointer, value) }))
  if (leaves.length === 0 && (await place.folder.read(FILE)) === undefined) return { files: [], notes: [] }
  const text = withValue(await place.folder.read(FILE), merged(file, nested(leaves)), FILE)
  return { files: (await place.folder.write(FILE, text)) ? [FILE] : [], notes: [] }
}

function nestedPointers(value: Json, effective: Effective): Set<string> {
  const known = new Map(effective.map(({ pointer, value: present }) => [pointer, present]))
  return new Set(leavesOf(value, known).map(({ pointer }) => pointer))
}

export const settings: Kind = { plan, pull }
