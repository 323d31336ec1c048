/** `collections/*.yaml`: declarations, which the platform plans and applies as one set, those first that others refer to. */

import { isDeepStrictEqual } from 'node:util'
import { TenonError } from '../../../../client/src/index.ts'
import { requireDistinct, requireName } from '../folder.ts'
import { allPages, type Place, runEach } from '../place.ts'
import { valueIn, withValue } from '../yaml-text.ts'
import {
  type Change,
  type Extra,
  type Kind,
  type KindPlan,
  Overtaken,
  type Step,
  type Written,
} from './kind.ts'

const KIND = 'collections'
/** Of a workspace; the files of more are not even read. */
const COUNT_MAX = 500

/** Members that a declaration need not have. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  mode: 'enforce',
  access: {},
  indexes: [],
  unique: [],
  trigram: [],
  search: null,
  arrays: [],
  geo: null,
  references: [],
  checks: [],
  exclude: [],
  ttl: null,
}

/** Members that say how the documents change, not what is declared; they stay in the file, and have no effect the second time. */
const TRANSITIONS = ['renamed_from', 'backfill']

type Declaration = Readonly<Record<string, unknown>>
type Declarations = Parameters<Place['client']['schemas']['plan']>[0]['schemas']
type Planned = Awaited<ReturnType<Place['client']['schemas']['plan']>>

const fileOf = (name: string): string => `${KIND}/${name}.yaml`

async function parse({ folder }: Place): Promise<Map<string, Declaration>> {
  const names = await folder.names(KIND)
  if (names.length > COUNT_MAX)
    throw new Error(
      `${KIND} has ${names.length} files. A workspace has at most ${COUNT_MAX} declared collections.`,
    )
  const read = await runEach(names, async (name) => {
    const value = valueIn((await folder.read(fileOf(name))) ?? '', fileOf(name))
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new Error(`${fileOf(name)}: write the members of a declaration, such as schema.`)
    const { collection = name, ...declared } = value as Declaration
    if (collection !== name)
      throw new Error(
        `${fileOf(name)} declares ${JSON.stringify(collection)}. Name the file like the collection.`,
      )
    return [name, { store: 'relational', ...declared }] as const
  })
  return new Map(read)
}

/** All declarations in one request, as they are requested. */
async function read({ client, workspace }: Place): Promise<Map<string, Declaration>> {
  const { schemas } = await client.schemas.export({ workspace_id: workspace.id })
  return new Map(schemas.map(({ collection, ...declared }) => [String(collection), declared]))
}

/** With the defaults of what the workspace has and the file does not, since members that a request does not name are kept. */
function complete(declared: Declaration, remote: Declaration = {}): Declaration {
  const removed = Object.entries(DEFAULTS).filter(([name]) => (remote[name] ?? null) !== null)
  return { ...Object.fromEntries(removed), ...declared }
}

function isSame(file: Declaration, remote: Declaration): boolean {
  const wanted = Object.entries({ ...DEFAULTS, ...file }).filter(([name]) => !TRANSITIONS.includes(name))
  return wanted.every(([name, value]) => isDeepStrictEqual(value, remote[name] ?? DEFAULTS[name]))
}

async function plan(place: Place): Promise<KindPlan> {
  const [files, remotes] = await Promise.all([parse(place), read(place)])
  const different = [...files].filter(([name, file]) => {
    const remote = remotes.get(name)
    return remote === undefined || !isSame(file, remote)
  })
  const steps: Step[] = []
  for (const chunk of chunksOf(inOrder(new Map(different)))) {
    const step = await planChunk(place, chunk, remotes)
    if (step !== undefined) steps.push(step)
  }
  const changed = steps.reduce((sum, { changes }) => sum + changes.length, 0)
  return { steps, extras: await findExtras(place, files, remotes), same: files.size - changed }
}

/** The body of a request has at most 1 MiB. */
const CHUNK_BYTES_MAX = 900_000

function chunksOf(declared: readonly (readonly [string, Declaration])[]) {
  const chunks: (readonly [string, Declaration])[][] = []
  let bytes = 0
  for (const one of declared) {
    const size = Buffer.byteLength(JSON.stringify(one))
    const last = chunks.at(-1)
    const fits = last !== undefined && bytes + size <= CHUNK_BYTES_MAX
    if (fits) last.push(one)
    else chunks.push([one])
    bytes = fits ? bytes + size : size
  }
  return chunks
}

/** Each behind those that it refers to, so that no request names a collection that is yet to come. */
function inOrder(declared: ReadonlyMap<string, Declaration>): (readonly [string, Declaration])[] {
  const ordered = new Map<string, Declaration>()
  // With a list of its own instead of recursion: references may form long chains.
  const waiting = [...declared.keys()].toReversed()
  const open = new Set<string>()
  while (waiting.length > 0) {
    const name = waiting.at(-1) as string
    const file = declared.get(name)
    const missing =
      file === undefined || open.has(name)
        ? []
        : targetsOf(file).filter((one) => declared.has(one) && !ordered.has(one) && !open.has(one))
    open.add(name)
    if (missing.length > 0) waiting.push(...missing)
    else {
      waiting.pop()
      if (file !== undefined) ordered.set(name, file)
    }
  }
  return [...ordered]
}

function targetsOf({ references, access }: Declaration): string[] {
  const lookups = Object.values(Object((access as { lookups?: object } | undefined)?.lookups)) as unknown[]
  const named = [...(Array.isArray(references) ? (references as unknown[]) : []), ...lookups]
  return named.map((one) => String(Object(one).collection))
}

async function planChunk(
  place: Place,
  chunk: readonly (readonly [string, Declaration])[],
  remotes: ReadonlyMap<string, Declaration>,
): Promise<Step | undefined> {
  const workspace_id = place.workspace.id
  const schemas = chunk.map(([collection, file]) => ({
    collection,
    ...complete(file, remotes.get(collection)),
  })) as unknown as Declarations
  const planned = await place.client.schemas.plan({ workspace_id, schemas })
  const changes = changesOf(planned, remotes)
  if (changes.length === 0) return undefined
  return {
    changes,
    run: () => apply(place, { workspace_id, schemas, fingerprint: planned.fingerprint }, remotes),
  }
}

function changesOf({ changes }: Planned, remotes: ReadonlyMap<string, Declaration>): Change[] {
  return [...Map.groupBy(changes, ({ collection }) => collection)].map(([name, of]) => ({
    ...{ kind: KIND, name, action: remotes.has(name) ? 'change' : 'create' },
    differences: of.map(({ member, effect, detail }) => ({
      ...{ member, detail: `${detail} (${effect})` },
      ...(effect === 'destructive' && { isLossy: true }),
    })),
  }))
}

async function apply(
  { client }: Place,
  input: Parameters<Place['client']['schemas']['apply']>[0],
  remotes: ReadonlyMap<string, Declaration>,
): Promise<Written[]> {
  try {
    const { applied } = await client.schemas.apply(input)
    return applied.map(({ collection, schema_id, revision, operation_id }) => ({
      ...{ kind: KIND, name: collection, id: schema_id, isNew: !remotes.has(collection) },
      warnings: operation_id === undefined ? [] : [`Its indexes are built by the operation ${operation_id}.`],
      result: `revision ${revision}`,
    }))
  } catch (error) {
    if (error instanceof TenonError && error.code === 'plan_outdated')
      throw new Overtaken('A collection', { cause: error })
    throw error
  }
}

/** Those first that others refer to: they are deleted last. */
async function findExtras(
  { client, workspace }: Place,
  files: ReadonlyMap<string, unknown>,
  remotes: ReadonlyMap<string, Declaration>,
): Promise<Extra[]> {
  const extras = inOrder(new Map([...remotes].filter(([name]) => !files.has(name))))
  if (extras.length === 0) return []
  const list = await allPages((page) => client.schemas.list({ ...page, workspace_id: workspace.id }))
  const ids = new Map(list.map(({ collection, id }) => [collection, id]))
  return extras.flatMap(([name]) => {
    const id = ids.get(name)
    // The API refuses it for a collection with documents.
    return id === undefined ? [] : [{ kind: KIND, name, id, remove: () => client.schemas.delete({ id }) }]
  })
}

async function pull(place: Place): Promise<{ files: string[]; notes: string[] }> {
  const [files, remotes] = await Promise.all([parse(place), read(place)])
  requireDistinct(KIND, [...remotes.keys()])
  const written: string[] = []
  for (const [name, remote] of remotes) {
    requireName(name, `the collection ${name}`)
    const file = files.get(name)
    if (file !== undefined && (isSame(file, remote) || (await isSameToPlatform(place, name, [file, remote]))))
      continue
    const text = withValue(await place.folder.read(fileOf(name)), shortOf(remote), fileOf(name))
    if (await place.folder.write(fileOf(name), text)) written.push(fileOf(name))
  }
  return { files: written, notes: [] }
}

/** Two declarations may be written differently and mean the same, which the platform alone can tell. */
async function isSameToPlatform(
  place: Place,
  name: string,
  [file, remote]: readonly [Declaration, Declaration],
): Promise<boolean> {
  const schemas = [{ collection: name, ...complete(file, remote) }] as unknown as Declarations
  const asked = place.client.schemas.plan({ workspace_id: place.workspace.id, schemas })
  // A file that cannot be planned is replaced.
  const { changes } = await asked.catch(() => ({ changes: [undefined] }))
  return changes.length === 0
}

/** Without the members that have their defaults. */
const shortOf = (declared: Declaration): Declaration =>
  Object.fromEntries(
    Object.entries(declared).filter(
      ([name, value]) => value !== null && !isDeepStrictEqual(value, DEFAULTS[name]) && !isEmpty(value),
    ),
  )

/** Of members that this version does not know. The empty schema is a schema. */
const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0

export const collections: Kind = { plan, pull }
