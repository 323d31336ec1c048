/** How each operation that takes a key is tried: the state in which it succeeds, and what it has then done besides making rows. */

import { v7 } from 'uuid'
import { typeId } from '../../src/core/ids.ts'
import { addAccount, Browser, inWorkspace } from '../support/clients/browser.ts'
import { NOTES, ok, publish, publishMcpServer } from '../support/clients/mcp.ts'
import { asSuperuser, call, eventually, type Reply, unique } from '../support/fixtures/tenants.ts'
import { EXECUTION_TRIALS } from './idempotency-faults-executions.ts'
import type { World } from './sweep-rows.ts'
import { inviteSweepUser } from './sweep-rows-users.ts'

/** The world in which an operation is tried. */
interface Target extends World {
  /** The MCP server whose version waits for an approval. */
  readonly mcpServer?: string
  /** A tenant and a workspace whose creation has failed. */
  readonly unfinishedTenant?: string
  readonly unfinishedWorkspace?: string
}

export interface Trial {
  /** Tells the trials of one operation apart. */
  readonly title?: string
  /** Brings the world into the state in which the operation succeeds, before each attempt. */
  readonly prepare?: (world: World) => Promise<Partial<Target>>
  /** The path, if it is not that of the sweep. */
  readonly path?: (world: Target) => string
  /** Waits until the request has had its effect, if it has one, before it is repeated. */
  readonly settle?: (world: Target) => Promise<void>
  /** Reads what the operation has done. It has done it once if this is `expected`. */
  readonly effect?: (world: Target, reply: Reply) => Promise<unknown>
  readonly expected?: unknown
}

const made = async ({ workspace }: World, path: string, body: object): Promise<Reply['body']> =>
  (await call('POST', path, { as: workspace.operator, body })).body
const bound = ({ workspace }: World) => ({ ...inWorkspace(workspace), role: 'service' })

const freshKey = async (world: World) => {
  const body = { workspace_id: world.workspace.workspaceId, kind: 'anon', name: 'x' }
  return { keyId: (await made(world, '/v1/api-keys', body)).id }
}
const freshUser = async ({ workspace }: World) => ({ userId: await inviteSweepUser(workspace) })
const freshAccount = async (world: World) => {
  const body = { ...bound(world), email: `${unique('a')}@example.test` }
  return { accountId: (await made(world, '/v1/accounts', body)).id }
}
/** An account whose person has set a password. Its role is not asked for approvals, which would be mailed to all of them. */
const acceptedAccount = async ({ workspace }: World) => ({
  accountId: (await addAccount(workspace.operator, { ...inWorkspace(workspace), role: 'workspace_admin' }))
    .id,
})
const readAccount = ({ workspace: { operator: as }, accountId }: World) =>
  ok(call('GET', `/v1/accounts/${accountId}`, { as }))

const freshClient = async (world: World) => {
  const body = { ...bound(world), kind: 'machine', name: 'x' }
  return { clientId: (await made(world, '/v1/oauth-clients', body)).client_id }
}
const freshDeadLetter = async (world: World) => {
  const { service: as, workspaceId: workspace_id } = world.workspace
  const source = 'export default () => { throw new Error("ours") }'
  const functionId: string = (await made(world, '/v1/functions', { workspace_id, name: unique('f'), source }))
    .id
  const headers = { prefer: 'respond-async' }
  const { body } = await call('POST', `/v1/functions/${functionId}/invoke`, { as, body: {}, headers })
  await eventually(async () => {
    const run = await call('GET', `/v1/operations/${body.id}`, { as })
    return run.body.state === 'failed' || undefined
  })
  return { failing: { functionId, runId: body.id } }
}

const limitServers = (
  { workspace: { operator: as, workspaceId: workspace_id } }: World,
  mcp_servers: number,
) => ok(call('PUT', '/v1/quotas', { as, body: { workspace_id, limits: { mcp_servers } } }))

const serversOf = ({ workspace }: World) => `/v1/mcp/workspaces/${workspace.workspaceId}/servers`

const { 'collections:notes:delete': deletes, ...READING } = NOTES

/** A server whose second version reaches further than the first, and waits for an approval. */
async function waitingVersion(world: World) {
  await limitServers(world, -1)
  const server = await publishMcpServer(world.workspace, unique('s'), READING)
  const scope = 'notes_list'
  await publish(server, { ...READING, 'collections:notes:delete': { ...deletes, scope } })
  return { mcpServer: server.slug }
}

async function versionsOf(world: Target) {
  const { operator: as } = world.workspace
  const path = `${serversOf(world)}/${world.mcpServer}`
  const { active_version, latest_version } = await ok(call('GET', path, { as }))
  const { data } = await ok(call('GET', `${path}/versions`, { as }))
  return [active_version, latest_version, ...data.map(({ state }: { state: string }) => state)]
}

/** Suspends tenant and workspace, or resumes both: an operation on a suspended workspace is refused. */
export async function setSuspended({ workspace }: World, isSuspended: boolean) {
  const { tenantId, workspaceId, operator: as } = workspace
  const [tenant, inner] = [`/v1/tenants/${tenantId}`, `/v1/workspaces/${workspaceId}`]
  for (const path of [`${tenant}/resume`, `${inner}/resume`]) await call('POST', path, { as })
  if (isSuspended)
    for (const path of [`${inner}/suspend`, `${tenant}/suspend`]) await call('POST', path, { as, body: {} })
  return {}
}

/** What is being deleted, and can be restored. */
async function setDeleted({ operator: as }: World['workspace'], path: string) {
  await ok(call('DELETE', path, { as }))
  return {}
}

/** A workspace has one export at a time. */
async function exportsEnded({ workspace: { workspaceId } }: World) {
  await eventually(async () => {
    const open = await asSuperuser(
      `select from tenon.operations where target = $1 and type = 'workspace.export' and finished_at is null`,
      [workspaceId],
    )
    return open.length === 0 || undefined
  })
  return {}
}

/** Objects that are there, or not. */
const objects =
  (there: readonly string[], gone: readonly string[] = []) =>
  async ({ workspace: { service: as }, bucket }: World) => {
    for (const key of there) await ok(call('PUT', `/v1/objects/${bucket}/${key}`, { as, body: 'ours' }))
    for (const key of gone) await call('DELETE', `/v1/objects/${bucket}/${key}`, { as })
    return {}
  }

/** A tenant or a workspace whose creation has failed. */
async function unfinished({ workspace: { tenantId } }: World) {
  const [tenant, room] = [typeId('ten', v7()), typeId('ws', v7())]
  const failed = "'D', $2, 'provisioning_failed'"
  await asSuperuser(`insert into tenon.tenants (id, name, slug, state) values ($1, ${failed})`, [
    tenant,
    unique('t'),
  ])
  await asSuperuser(
    `insert into tenon.workspaces (id, tenant_id, name, slug, state) values ($1, $3, ${failed})`,
    [...[room, unique('w'), tenantId]],
  )
  return { unfinishedTenant: tenant, unfinishedWorkspace: room }
}

const stateOf = (kind: 'tenant' | 'workspace') => async (world: Target) => {
  const id = kind === 'tenant' ? world.unfinishedTenant : world.unfinishedWorkspace
  const ended = () => asSuperuser<{ state: string }>(`select state from tenon.${kind}s where id = $1`, [id])
  return eventually(async () => {
    const [row] = await ended()
    return row?.state === 'active' ? [row.state] : undefined
  })
}

const prepared = (prepare: NonNullable<Trial['prepare']>): readonly Trial[] => [{ prepare }]

/** Operations that need nothing but the resources of the sweep are left out. */
/** A collection exists as soon as it has a document. */
const withDocument =
  (collection: string) =>
  async ({ workspace: { service: as } }: World) => {
    await ok(call('POST', `/v1/collections/${collection}/documents`, { as, body: {} }))
    return {}
  }

const TRIALS: Readonly<Record<string, readonly Trial[]>> = {
  'collection.truncate': [{ prepare: withDocument('truncated') }],
  'collection.rename': [{ prepare: withDocument('renamed') }],
  'tenant.suspend': prepared((world) => setSuspended(world, false)),
  'workspace.suspend': prepared((world) => setSuspended(world, false)),
  'tenant.resume': prepared((world) => setSuspended(world, true)),
  'workspace.resume': prepared((world) => setSuspended(world, true)),
  'tenant.restore': prepared(({ workspace }) => setDeleted(workspace, `/v1/tenants/${workspace.tenantId}`)),
  'workspace.restore': prepared(({ workspace }) =>
    setDeleted(workspace, `/v1/workspaces/${workspace.workspaceId}`),
  ),
  'workspace.export': prepared(exportsEnded),
  // A workspace has a limited number of host names.
  'host.create': prepared(async ({ workspace, host }) => {
    const own = [workspace.workspaceId, host]
    await asSuperuser('delete from tenon.hosts where workspace_id = $1 and host <> $2', own)
    return {}
  }),
  'object.copy': prepared(objects(['secrets/plan'], ['secrets/copy'])),
  'object.move': prepared(objects(['secrets/copy'], ['secrets/moved'])),
  'object.remove_all': prepared(objects(['secrets/moved'])),
  'tenant.retry': [
    {
      prepare: unfinished,
      path: ({ unfinishedTenant }) => `/v1/tenants/${unfinishedTenant}/retry`,
      effect: stateOf('tenant'),
      expected: ['active'],
    },
  ],
  'workspace.retry': [
    {
      prepare: unfinished,
      path: ({ unfinishedWorkspace }) => `/v1/workspaces/${unfinishedWorkspace}/retry`,
      effect: stateOf('workspace'),
      expected: ['active'],
    },
  ],
  'api_key.rotate': prepared(freshKey),
  // A workspace has a limited number of sources.
  'mcp_source.create': prepared(async ({ workspace }) => {
    await asSuperuser("delete from tenon.mcp_sources where workspace_id = $1 and name like 'source-%'", [
      workspace.workspaceId,
    ])
    return {}
  }),
  'mcp_server.create': prepared(async (world) => {
    await limitServers(world, 100)
    await call('DELETE', `${serversOf(world)}/x`, { as: world.workspace.operator })
    return {}
  }),
  'mcp_version.approve': [
    {
      prepare: waitingVersion,
      path: (world) => `${serversOf(world)}/${world.mcpServer}/versions/2/approve`,
      effect: versionsOf,
      expected: [2, 2, 'published', 'published'],
    },
  ],
  'oauth_client.rotate_secret': prepared(freshClient),
  'account.invite': prepared(freshAccount),
  'account.reset': [
    {
      prepare: acceptedAccount,
      effect: async (world, { body }) => [
        (await readAccount(world)).status,
        (await new Browser('nowhere:').open(body.reset_url)).status,
      ],
      expected: ['reset', 200],
    },
  ],
  'account.confirm': [
    {
      prepare: acceptedAccount,
      effect: async (world) => {
        const me = await ok(call('GET', '/v1/me', { as: world.workspace.operator }))
        return (await readAccount(world)).confirmed_by.map((by: string) => by === me.subject)
      },
      expected: [true],
    },
  ],
  'account.reset_factors': prepared(freshAccount),
  'user.invite': prepared(freshUser),
  'user.sign_out': prepared(freshUser),
  'user.reset_factors': prepared(freshUser),
  'function_run.redrive': prepared(freshDeadLetter),
  'function_run.redrive_all': prepared(freshDeadLetter),
  ...EXECUTION_TRIALS,
}

export const trialsOf = (name: string): readonly Trial[] => TRIALS[name] ?? [{}]
