/** `clients.yaml`: programs through which people sign in, by their names. Machines have secrets, and are made by hand. */

import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { TenonError } from '../../../../client/src/index.ts'
import { allPages, type Place } from '../place.ts'
import { valueIn, withValue } from '../yaml-text.ts'
import { type Kind, type NamedKind, type Pulled, planNamed } from './kind.ts'

const FILE = 'clients.yaml'
const KIND = 'clients'

interface Local {
  readonly audience: 'accounts' | 'users'
  readonly redirect_uris: readonly string[]
}

interface Remote extends Local {
  readonly id: string
}

const MEMBERS = ['audience', 'redirect_uris']

async function parse({ folder }: Place): Promise<Map<string, Local>> {
  const text = await folder.read(FILE)
  const value = text === undefined ? {} : (valueIn(text, FILE) ?? {})
  if (typeof value !== 'object' || Array.isArray(value))
    throw new Error(`${FILE}: write names, each with its redirect_uris.`)
  return new Map(Object.entries(value as object).map(([name, client]) => [name, clientOf(name, client)]))
}

function clientOf(name: string, client: unknown): Local {
  const members = Object.keys(Object(client))
  const unknown = members.find((member) => !MEMBERS.includes(member))
  if (unknown === 'kind' || unknown === 'role')
    throw new Error(
      `${FILE}: ${name}.${unknown}: a project has public clients alone. The secret of a machine client is shown once: make it with \`tenon oauth-client create\`.`,
    )
  if (unknown !== undefined)
    throw new Error(`${FILE}: ${name}.${unknown} is not known. The members are ${MEMBERS.join(' and ')}.`)
  const { audience = 'users', redirect_uris } = Object(client) as Partial<Local>
  if (!Array.isArray(redirect_uris)) throw new Error(`${FILE}: ${name}.redirect_uris: write a list of URLs.`)
  return { audience, redirect_uris }
}

async function read(place: Place): Promise<Map<string, Remote>> {
  const { client, workspace } = place
  // Admins alone see clients: a project without any needs no such right.
  if ((await place.folder.read(FILE)) === undefined) return new Map()
  return ofWorkspace(
    await allPages((page) => client.oauthClients.list({ ...page, tenant_id: workspace.tenant_id })),
    workspace.id,
  )
}

type Listed = Awaited<ReturnType<Place['client']['oauthClients']['list']>>['data'][number]

function ofWorkspace(all: readonly Listed[], workspaceId: string): Map<string, Remote> {
  const found = new Map<string, Remote>()
  for (const { client_id: id, kind, name, audience, redirect_uris, workspace_id, registered } of all) {
    if (workspace_id !== workspaceId || kind !== 'public' || registered) continue
    if (found.has(name)) throw new Error(`The workspace has two clients named ${name}. Delete one of them.`)
    found.set(name, { id, audience, redirect_uris })
  }
  return found
}

const named: NamedKind<Local, Remote> = {
  kind: KIND,
  parse,
  read,
  compare: (_, { file, remote }) =>
    MEMBERS.filter((member) => !isDeepStrictEqual(Object(file)[member], Object(remote)[member])).map(
      (member) => ({
        ...{ member, isBlocked: true },
        detail:
          'a client cannot be changed: delete it with `tenon oauth-client delete`, and apply again, which gives it another id',
      }),
    ),
  write: async ({ client, workspace }, { name, file }) => {
    const { id: workspace_id, tenant_id } = workspace
    const input = { kind: 'public', name, tenant_id, workspace_id, ...file } as const
    // The same for two projects that are applied at the same time, so that they make one client.
    const idempotencyKey = `project-${hash('sha256', JSON.stringify(input)).slice(0, 40)}`
    const made = await client.oauthClients.create(input, { idempotencyKey })
    return { id: made.client_id, warnings: [], result: made.client_id }
  },
  remove: ({ client }, { id }) => client.oauthClients.delete({ id }),
}

async function pull(place: Place): Promise<Pulled> {
  const { client, workspace, folder } = place
  const list = await allPages((page) =>
    client.oauthClients.list({ ...page, tenant_id: workspace.tenant_id }),
  ).catch((error: unknown) => {
    if (error instanceof TenonError && error.status === 403) return undefined
    throw error
  })
  if (list === undefined)
    return { files: [], notes: ['The clients were not read: only admins of the workspace see them.'] }
  const remotes = ofWorkspace(list, workspace.id)
  const before = await folder.read(FILE)
  if (remotes.size === 0 && before === undefined) return { files: [], notes: [] }
  const value = Object.fromEntries([...remotes].map(([name, { id: _, ...client }]) => [name, client]))
  const text = withValue(before, { ...Object.fromEntries(await parse(place)), ...value }, FILE)
  return { files: (await folder.write(FILE, text)) ? [FILE] : [], notes: [] }
}

export const clients: Kind = { plan: (place, changed) => planNamed(named, place, changed), pull }
