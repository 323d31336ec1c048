/** Checks with a real Keycloak that each tenant has its organization there, whatever happens to it, and that tokens of its members name the tenant. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UNDO } from '../../../src/features/tenants/provisioning.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { faultsOf } from '../../support/fixtures/provisioning-faults.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  sharedOperator,
  unique,
} from '../../support/fixtures/tenants.ts'
import { whileBeforeStep } from '../../support/servers/table-barrier.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { startApiWithIssuers } from '../../support/stack/api-with-issuers.ts'
import { ownPlatform } from '../../support/stack/own-platform.ts'
import { type ProvisioningNode, startProvisioningNode } from '../../support/stack/provisioning-worker.ts'
import { waitingStep } from '../../support/stack/purge-node.ts'
import { type Keycloak, startKeycloak } from '../keycloak/keycloak.ts'

const REALM = 'tenants'
const SECRET = 'a-secret-of-the-platform'

interface Organization {
  readonly id: string
  readonly alias: string
  readonly name: string
  readonly description?: string
  readonly enabled: boolean
  readonly attributes?: Readonly<Record<string, readonly string[]>>
}

let keycloak: Keycloak
let proxy: TcpProxy
let settings: Readonly<Record<string, string>>
let node: ProvisioningNode
let as: Caller
beforeAll(async () => {
  keycloak = await startKeycloak()
  proxy = await startTcpProxy(new URL(keycloak.base))
  await configureRealm()
  settings = {
    TENON_KEYCLOAK_URL: `http://127.0.0.1:${proxy.port}`,
    TENON_KEYCLOAK_REALM: REALM,
    TENON_KEYCLOAK_CLIENT_SECRET: SECRET,
  }
  ;[node, as] = await Promise.all([startProvisioningNode(settings), sharedOperator()])
})
afterAll(async () => {
  await node?.close()
  proxy?.close()
  await keycloak?.stop()
})

/** As docs/identity.md describes it. */
async function configureRealm(): Promise<void> {
  await keycloak.admin('POST', '', { realm: REALM, enabled: true, organizationsEnabled: true })
  await keycloak.admin('POST', `/${REALM}/clients`, {
    ...{ clientId: 'tenon', secret: SECRET, serviceAccountsEnabled: true, standardFlowEnabled: false },
  })
  const idOf = async (clientId: string) =>
    (await keycloak.admin('GET', `/${REALM}/clients?clientId=${clientId}`))[0].id
  const account = await keycloak.admin('GET', `/${REALM}/clients/${await idOf('tenon')}/service-account-user`)
  const management = await idOf('realm-management')
  const role = await keycloak.admin('GET', `/${REALM}/clients/${management}/roles/${ROLE}`)
  await keycloak.admin('POST', `/${REALM}/users/${account.id}/role-mappings/clients/${management}`, [role])
}
const ROLE = 'manage-organizations'

const ask = (method: string, path: string, body?: object): Promise<Reply> =>
  call(method, path, { as, at: node.at, headers: { prefer: 'wait=30' }, ...(body !== undefined && { body }) })

const create = async (slug = unique('org')) =>
  (await ask('POST', '/v1/tenants', { name: `The ${slug}`, slug })).body

async function find(tenantId: string): Promise<Organization | undefined> {
  const all: Organization[] = await keycloak.admin('GET', `/${REALM}/organizations?max=1000`)
  const found = all.find(({ alias }) => alias === tenantId)
  return found && keycloak.admin('GET', `/${REALM}/organizations/${found.id}`)
}

const change = async (tenantId: string, more: object) => {
  const found = await find(tenantId)
  await keycloak.admin('PUT', `/${REALM}/organizations/${found?.id}`, { ...found, ...more })
}

/** Kinds of differences, and how they are repaired. */
async function drift(tenantId: string): Promise<string[]> {
  const [own] = (await ask('GET', `/v1/tenants/${tenantId}/drift`)).body.data
  expect(own.unread).toEqual([])
  return own.differences.map(({ kind, repair }: { kind: string; repair: string }) => `${kind} ${repair}`)
}

test('created tenant: has an organization, which is renamed with it', async () => {
  const { id, slug, name } = await create()
  expect(await find(id)).toMatchObject({
    ...{ alias: id, name: slug, description: name, enabled: true, attributes: { tenant_id: [id] } },
  })
  expect(await drift(id)).toEqual([])
  const renamed = unique('renamed')
  expect((await ask('PATCH', `/v1/tenants/${id}`, { name: 'Renamed', slug: renamed })).status).toBe(200)
  expect(await find(id)).toMatchObject({ name: renamed, description: 'Renamed' })
})

test('organization changed by hand: is shown as a drift and made again; its domains stay', async () => {
  const { id, slug, name } = await create()
  const domains = [{ name: `${slug}.example`, verified: true }]
  for (const altered of [{ enabled: false }, { name: unique('other') }, { description: 'Theirs' }]) {
    await change(id, { ...altered, domains })
    expect(await drift(id)).toEqual(['altered automatic'])
    await ask('PATCH', `/v1/tenants/${id}`, { name })
    expect(await drift(id)).toEqual([])
    expect(await find(id)).toMatchObject({ name: slug, description: name, enabled: true, domains })
  }
  await keycloak.admin('DELETE', `/${REALM}/organizations/${(await find(id))?.id}`)
  expect(await drift(id)).toEqual(['missing automatic'])
  await ask('PATCH', `/v1/tenants/${id}`, { name })
  expect(await drift(id)).toEqual([])
})

test('organization removed or changed by hand: made again at the hourly look, and the workspaces of the tenant hear of it', async () => {
  const platform = await ownPlatform({ env: settings })
  try {
    const at = platform.started.running
    const { tenantId, service } = platform.workspace
    const own = await find(tenantId)
    const heard = await subscribeToEvents(service, 'topic=platform.tenant.drifted', {}, at)
    const afterAnHour = () =>
      asSuperuser('update tenon.tenants set drift_due_at = now() where id = $1', [tenantId], at)
    const told = async (count: number) =>
      (await receivedAtLeast(heard, count)).map(({ data }) => data.data.differences)
    await keycloak.admin('DELETE', `/${REALM}/organizations/${own?.id}`)
    await afterAnHour()
    await eventually(() => find(tenantId))
    const missing = { resource: 'realm', name: tenantId, kind: 'missing', repair: 'automatic' }
    expect(await told(1)).toMatchObject([[missing]])
    await change(tenantId, { enabled: false })
    await afterAnHour()
    await eventually(async () => ((await find(tenantId))?.enabled ? true : undefined))
    expect(await told(2)).toMatchObject([[missing], [{ ...missing, kind: 'altered' }]])
    await afterAnHour()
    expect(await told(3)).toMatchObject([[missing], [{ kind: 'altered' }], []])
  } finally {
    closeSubscriptions()
    await platform.end()
  }
})

test('organization of somebody else with the alias: is reported, and not touched', async () => {
  const { tenantId } = await createTestWorkspace()
  await keycloak.admin('POST', `/${REALM}/organizations`, { name: unique('theirs'), alias: tenantId })
  const before = await find(tenantId)
  expect(await drift(tenantId)).toEqual(['foreign by_hand'])
  await ask('PATCH', `/v1/tenants/${tenantId}`, { name: 'Test' })
  expect(await find(tenantId)).toEqual(before)
})

test('organization of somebody else with the name: the creation fails, and leaves nothing', async () => {
  const slug = unique('taken')
  await keycloak.admin('POST', `/${REALM}/organizations`, { name: slug, alias: slug })
  const made = await create(slug)
  expect(made.state).toBe('provisioning_failed')
  expect(await find(made.id)).toBeUndefined()
})

describe('creation of a tenant, step realm', () => {
  test.each(faultsOf(UNDO.realm))('$name: $state', async ({ fault, state, undoing }) => {
    node.wrap((run) => fault(run, 'realm', UNDO.realm ?? ''))
    const made = await create()
    const isThere = state === 'active' || undoing === 'fails'
    expect([made.state, (await find(made.id)) !== undefined]).toEqual([state, isThere])
    node.wrap((run) => run)
    if (state === 'active') return
    expect((await ask('POST', `/v1/tenants/${made.id}/retry`)).body.state).toBe('succeeded')
    expect(await find(made.id)).toBeDefined()
  })
})

test('Keycloak away: a creation waits, says why, and goes on when Keycloak is back', async () => {
  const { port } = proxy
  proxy.close()
  const body = { name: 'T', slug: unique('org') }
  const job = (await call('POST', '/v1/tenants', { as, at: node.at, body })).body
  const read = async () => (await ask('GET', `/v1/operations/${job.id}`)).body
  const waiting = await eventually(async () => {
    const [step] = (await read()).steps
    return step?.state === 'waiting' ? step : undefined
  })
  expect(waiting).toMatchObject({ name: 'realm', detail: 'Keycloak does not answer.' })
  proxy = await startTcpProxy(new URL(keycloak.base), { port })
  await eventually(async () => ((await read()).state === 'succeeded' ? true : undefined), 90_000)
  expect(await find(job.target)).toBeDefined()
})

test('token of a member of the organization: names its tenant, and no other', async () => {
  const [own, other] = [await create(), await create()]
  const audience = 'https://api.acme.test'
  const mapper = (name: string, protocolMapper: string, config: object) => ({
    ...{ name, protocol: 'openid-connect', protocolMapper },
    config: { 'access.token.claim': 'true', ...config },
  })
  await keycloak.admin('POST', `/${REALM}/clients`, {
    ...{ clientId: 'web', publicClient: true, directAccessGrantsEnabled: true },
    ...{ defaultClientScopes: ['basic', 'roles'], optionalClientScopes: ['organization'] },
    protocolMappers: [
      mapper('audience', 'oidc-audience-mapper', { 'included.custom.audience': audience }),
      mapper('tenant', 'oidc-organization-membership-mapper', {
        ...{ 'claim.name': 'tenant_id', 'jsonType.label': 'String', multivalued: 'false' },
      }),
    ],
  })
  await keycloak.admin('POST', `/${REALM}/roles`, { name: 'tenant_admin' })
  await keycloak.admin('POST', `/${REALM}/users`, {
    ...{ username: 'ada', firstName: 'Ada', lastName: 'L', email: 'ada@acme.test', enabled: true },
    credentials: [{ type: 'password', value: 'correct horse', temporary: false }],
  })
  const [ada] = await keycloak.admin('GET', `/${REALM}/users?username=ada`)
  const role = await keycloak.admin('GET', `/${REALM}/roles/tenant_admin`)
  await keycloak.admin('POST', `/${REALM}/users/${ada.id}/role-mappings/realm`, [role])
  await keycloak.admin('POST', `/${REALM}/organizations/${(await find(own.id))?.id}/members`, ada.id)
  const { access_token: token } = await keycloak.tokens(REALM, {
    ...{ grant_type: 'password', client_id: 'web', scope: 'openid organization' },
    ...{ username: 'ada', password: 'correct horse' },
  })
  const issuer = `${keycloak.base}/realms/${REALM}`
  const api = await startApiWithIssuers([{ issuer, audience, typ: 'JWT', tenants: '*' }])
  try {
    const ada = { authorization: `Bearer ${token}` }
    expect((await api.ask(ada, '/v1/me')).body).toMatchObject({ roles: ['tenant_admin'], tenant_id: own.id })
    expect((await api.ask(ada, `/v1/tenants/${own.id}`)).status).toBe(200)
    expect((await api.ask(ada, `/v1/tenants/${other.id}`)).status).toBe(404)
  } finally {
    await api.close()
  }
})

test('purge of one of two tenants: its organization is gone, and that of the other is as it was', async () => {
  const platform = await ownPlatform({ env: settings })
  try {
    const at = platform.started.running
    const { tenantId: kept, operator } = platform.workspace
    const { tenantId: doomed } = await createTestWorkspace(at)
    const before = await find(kept)
    expect([before, await find(doomed)].every((found) => found !== undefined)).toBe(true)
    const removal = await call('DELETE', `/v1/tenants/${doomed}?grace_days=0`, { as: operator, at })
    const { result } = await eventually(async () => {
      const { body } = await call('GET', `/v1/operations/${removal.body.id}`, { as: operator, at })
      return body.state === 'succeeded' ? body : undefined
    }, 60_000)
    expect([result.before.realm, result.after]).toEqual([1, {}])
    expect(await find(doomed)).toBeUndefined()
    expect(await find(kept)).toEqual(before)
  } finally {
    await platform.end()
  }
})

test('Keycloak away when a purge begins, and in its middle: waits and says why both times, and leaves no organization of its own', async () => {
  const platform = await ownPlatform({ env: settings })
  try {
    const { started, workspace } = platform
    const at = started.running
    const as = workspace.operator
    const { tenantId: doomed } = await createTestWorkspace(at)
    const before = await find(workspace.tenantId)
    const { port } = proxy
    proxy.close()
    const { body: removal } = await call('DELETE', `/v1/tenants/${doomed}?grace_days=0`, { as, at })
    const job = async () => (await call('GET', `/v1/operations/${removal.id}`, { as, at })).body
    expect((await waitingStep(removal.id, 'begin_purge', at)).detail).toBe('Keycloak does not answer.')
    const comeBack = async () => {
      proxy = await startTcpProxy(new URL(keycloak.base), { port })
    }
    await whileBeforeStep(platform, { id: removal.id, step: 'remove_objects' }, comeBack, async () =>
      proxy.close(),
    )
    expect((await waitingStep(removal.id, 'remove_resources', at)).detail).toBe('Keycloak does not answer.')
    await comeBack()
    const { result } = await eventually(async () => {
      const now = await job()
      return now.state === 'succeeded' ? now : undefined
    }, 120_000)
    expect([result.before.realm, result.after]).toEqual([1, {}])
    expect([await find(doomed), await find(workspace.tenantId)]).toEqual([undefined, before])
  } finally {
    await platform.end()
  }
})
