/** Identity headers of a gateway: dropped without the secret, accepted with it, tested through a real gateway too. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { publishMcpServer, rpc } from '../../support/clients/mcp.ts'
import { type RawHeaders, sendRaw } from '../../support/clients/raw-http.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type Gateway, startGateway } from '../../support/stack/caddy.ts'
import { gatewayHeaders, identityHeaders } from '../../support/stack/gateway.ts'

let shop: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[shop, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})
afterEach(closeSubscriptions)

const me = (as: Caller): Promise<Reply> => call('GET', '/v1/me', { as })

describe('with the gateway secret', () => {
  test('gateway: four identity headers: the caller reads, writes and subscribes in that workspace', async () => {
    const as = gatewayHeaders(shop)
    const made = await call('POST', '/v1/collections/orders/documents', { as, body: { n: 1 } })
    expect(made.status).toBe(201)
    const listed = await call('GET', '/v1/collections/orders/documents', { as: shop.service })
    expect(listed.body.data).toHaveLength(1)
    const received = await subscribeToEvents(as, 'topic=orders.new')
    expect(
      (await call('POST', '/v1/events/publish', { as, body: { topic: 'orders.new', data: 1 } })).status,
    ).toBe(202)
    expect(await receivedAtLeast(received, 1)).toHaveLength(1)
    expect(
      (await call('GET', '/v1/collections/orders/documents', { as: gatewayHeaders(other) })).body.data,
    ).toEqual([])
  })

  test('gateway: x-pg-role anon: writes are refused', async () => {
    const as = gatewayHeaders(shop, 'anon')
    expect((await me(as)).body.roles).toEqual(['anon'])
    const sent = { as, body: { topic: 'x', data: 1 } }
    expect((await call('POST', '/v1/events/publish', sent)).body.code).toBe('forbidden')
  })

  test.each([
    ['unknown role', { 'x-pg-role': 'tenon_admin' }, ['x-pg-role']],
    ['administrative role', { 'x-pg-role': 'operator' }, ['x-pg-role']],
    ['role in upper case', { 'x-pg-role': 'SERVICE' }, ['x-pg-role']],
    ['two roles', { 'x-pg-role': 'anon, service' }, ['x-pg-role']],
    ['no role', { 'x-pg-role': '' }, ['x-pg-role']],
    ['no subject', { 'x-auth-subject': ' ' }, ['x-auth-subject']],
    ['subject of 201 characters', { 'x-auth-subject': 'x'.repeat(201) }, ['x-auth-subject']],
    ['truncated tenant', { 'x-tenant-id': 'ten_1' }, ['x-tenant-id']],
    ['two tenants', { 'x-tenant-id': 'ten_1, ten_10' }, ['x-tenant-id']],
    [
      'only a subject',
      { 'x-tenant-id': '', 'x-workspace-id': '', 'x-pg-role': '' },
      ['x-tenant-id', 'x-workspace-id', 'x-pg-role'],
    ],
  ])('gateway: %s: 401 that names the header', async (_what, wrong, names) => {
    const { status, body } = await me({ ...gatewayHeaders(shop), ...wrong })
    expect([status, body.code]).toEqual([401, 'gateway_identity_invalid'])
    expect(body.errors.map(({ name }: { name: string }) => name)).toEqual(names)
  })

  test('gateway: tenant or workspace missing, mismatched or almost equal: 401', async () => {
    const { tenantId, workspaceId } = shop
    const last = tenantId.endsWith('0') ? '1' : '0'
    for (const of of [
      { tenantId, workspaceId: other.workspaceId },
      { tenantId: other.tenantId, workspaceId },
      { tenantId: `${tenantId.slice(0, -1)}${last}`, workspaceId },
      { tenantId: tenantId.slice(0, -1), workspaceId },
      { tenantId: `${tenantId}0`, workspaceId },
      { tenantId: tenantId.toUpperCase(), workspaceId },
    ]) {
      expect((await me(gatewayHeaders(of))).body.code).toBe('gateway_identity_invalid')
    }
  })

  test('gateway: tenant suspended: refused within 5 s, its streams end', async () => {
    const workspace = await createTestWorkspace()
    const as = gatewayHeaders(workspace)
    const received = await subscribeToEvents(as, 'topic=x')
    await asSuperuser(`update tenon.tenants set state = 'suspended' where id = $1`, [workspace.tenantId])
    await eventually(async () => ((await me(as)).body.code === 'tenant_suspended' ? true : undefined), 6_000)
    const ended = () => eventually(async () => received.find(({ event }) => event === 'end'), 8_000)
    expect((await ended()).data).toEqual({ code: 'tenant_suspended' })
  })

  test('gateway: administrative route: privilege_domain_mismatch; MCP server: credentials_missing', async () => {
    const as = gatewayHeaders(shop)
    expect((await call('GET', '/v1/tenants', { as })).body.code).toBe('privilege_domain_mismatch')
    const server = await publishMcpServer(shop, 'gate')
    expect((await rpc(server.path, as, 'tools/list')).body.code).toBe('credentials_missing')
    expect((await rpc('/v1/mcp/platform/mcp', as, 'tools/list')).body.code).toBe('credentials_missing')
  })

  test('gateway: same Idempotency-Key as an API key: two requests', async () => {
    const keys = await call('GET', `/v1/api-keys?workspace_id=${shop.workspaceId}`, { as: shop.operator })
    const { id } = keys.body.data.find(({ kind }: { kind: string }) => kind === 'service')
    const send = (as: Caller) =>
      call('POST', '/v1/collections/once/documents', {
        as,
        body: { n: 1 },
        headers: { 'idempotency-key': 'same' },
      })
    const [byKey, byGateway] = [await send(shop.service), await send(gatewayHeaders(shop, 'service', id))]
    expect([byKey.status, byGateway.status]).toEqual([201, 201])
    expect(byGateway.body.id).not.toBe(byKey.body.id)
  })
})

test('identity headers from a client: next to any other credential: ignored', async () => {
  const foreign = [identityHeaders(other), gatewayHeaders(other), gatewayHeaders(other, 'nonsense')]
  for (const sent of foreign) {
    for (const as of [shop.service, shop.anon, shop.operator]) {
      const [plain, withHeaders] = [await me(as), await me({ ...sent, ...as })]
      expect(withHeaders.body).toEqual(plain.body)
    }
  }
})

describe('through Caddy', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway(shop)
  })
  afterAll(() => gateway?.stop())

  const at = (url: string) => ({ at: { ...inject('tenon'), url } })
  const viaCaddy = (url: string, path: string, as: Caller = {}) => call('GET', path, { as, ...at(url) })
  const raw = async (url: string, headers: RawHeaders) => (await sendRaw(`${url}/v1/me`, headers)).body

  test('Caddy, public route: gateway secret and identity headers from the client: no identity', async () => {
    const { publicUrl } = gateway
    for (const as of [{}, identityHeaders(shop), gatewayHeaders(shop)])
      expect((await viaCaddy(publicUrl, '/v1/me', as)).body.code).toBe('credentials_missing')
    const { body } = await viaCaddy(publicUrl, '/v1/me', { ...gatewayHeaders(other), ...shop.service })
    expect(body).toMatchObject({ kind: 'api_key', tenant_id: shop.tenantId })
  })

  test('Caddy, shop route: any client headers: identity of the shop', async () => {
    const { shopUrl } = gateway
    const seen = { kind: 'gateway', subject: 'shop-backend', tenant_id: shop.tenantId, roles: ['service'] }
    for (const as of [{}, identityHeaders(other), gatewayHeaders(other, 'anon')])
      expect((await viaCaddy(shopUrl, '/v1/me', as)).body).toMatchObject(seen)
    const twice = { 'X-Tenant-Id': [other.tenantId, other.tenantId], x_tenant_id: other.tenantId }
    expect(await raw(shopUrl, twice)).toMatchObject(seen)
    expect((await viaCaddy(shopUrl, '/v1/tenants')).body.code).toBe('privilege_domain_mismatch')
  })

  test('Caddy: identity headers declared hop-by-hop by the client: still added', async () => {
    const connection = 'close, x-gateway-secret, x-tenant-id, x-workspace-id, x-pg-role'
    const headers = { connection, ...gatewayHeaders(other) }
    expect(await raw(gateway.shopUrl, headers)).toMatchObject({ tenant_id: shop.tenantId })
    expect((await raw(gateway.publicUrl, headers)).code).toBe('credentials_missing')
  })

  test('Caddy: identity headers from the client: each dropped, each added once', async () => {
    const type = { 'content-type': 'application/json' }
    const echo = createServer(({ rawHeaders }, response) =>
      response.writeHead(200, type).end(JSON.stringify(rawHeaders)),
    )
    await new Promise<void>((done) => echo.listen(0, '127.0.0.1', done))
    const { port } = echo.address() as AddressInfo
    const before = await startGateway(shop, `http://127.0.0.1:${port}`)
    try {
      const names = Object.keys(gatewayHeaders(other)).sort()
      const identity = async (url: string) => {
        const all = (await raw(url, gatewayHeaders(other))) as unknown as string[]
        const pairs = all.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), all[at + 1]]] : []))
        return pairs.filter(([name = '']) => names.includes(name)).sort()
      }
      expect(await identity(before.publicUrl)).toEqual([])
      const own = gatewayHeaders(shop, 'service', 'shop-backend')
      expect(await identity(before.shopUrl)).toEqual(Object.entries(own).sort())
    } finally {
      await before.stop()
      await new Promise((done) => echo.close(done))
    }
  })

  test('Caddy: client has a credential of its own: that one counts', async () => {
    const { shopUrl } = gateway
    expect((await viaCaddy(shopUrl, '/v1/me', other.service)).body).toMatchObject({
      kind: 'api_key',
      tenant_id: other.tenantId,
    })
    expect((await viaCaddy(shopUrl, '/v1/me', { apikey: 'svc_service_x' })).body.code).toBe('api_key_invalid')
    expect((await viaCaddy(shopUrl, '/v1/me', { authorization: 'Bearer x' })).body.code).toBe('token_invalid')
  })

  test('Caddy: event stream: delivered as events occur', async () => {
    const received = await subscribeToEvents({}, 'topic=through', {}, at(gateway.shopUrl).at)
    await call('POST', '/v1/events/publish', { as: shop.service, body: { topic: 'through', data: 'now' } })
    expect((await receivedAtLeast(received, 1))[0]?.data.data).toBe('now')
  })

  test('Caddy: sibling workspace: refused', async () => {
    const sibling = await addTestWorkspace(shop)
    const as = sibling.service
    await call('POST', '/v1/collections/private/documents', { as, body: { n: 1 } })
    expect((await viaCaddy(gateway.shopUrl, '/v1/collections/private/documents')).body.data).toEqual([])
  })
})
