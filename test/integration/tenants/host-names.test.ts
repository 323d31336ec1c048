/** Host names of workspaces: claimed, proved by DNS, served in the process, lost and deleted. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { sendRaw } from '../../support/clients/raw-http.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type DnsServer, startDnsServer } from '../../support/servers/dns-server.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import type { Running } from '../../support/stack/start.ts'

let dns: DnsServer
let node: Node
let ours: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  dns = await startDnsServer()
  ;[node, ours, other] = await Promise.all([
    startInProcessNode({
      ...{ TENON_DNS_SERVERS: dns.address, TENON_S3_HOST: 's3.tenon.example.' },
      // Lookups are counted in a database of Valkey of their own.
      ...{ REDIS_URL: `${inject('tenon').env['REDIS_URL']}/8`, TENON_RATE_PUBLIC: '1/min burst 3' },
      TENON_TRUSTED_PROXIES: 'loopback',
    }),
    createTestWorkspace(),
    createTestWorkspace(),
  ])
})
afterAll(async () => {
  await node?.close()
  await dns?.close()
})

const newName = () => `${unique('shop')}.example`
const hostsOf = ({ workspaceId }: TestWorkspace) => `/v1/workspaces/${workspaceId}/hosts`
const adminOf = (
  { tenantId: tenant_id, workspaceId: workspace_id }: TestWorkspace,
  role = 'workspace_admin',
) => tokenOf({ roles: [role], tenant_id, workspace_id })

const ask = async (of: TestWorkspace, method: string, path = '', body?: object): Promise<Reply> =>
  call(method, `${hostsOf(of)}${path}`, {
    ...{ as: await adminOf(of), at: node.at },
    ...(body !== undefined && { body }),
  })
const claim = (of: TestWorkspace, host: string) => ask(of, 'POST', '', { host })
const verify = (of: TestWorkspace, host: string) => ask(of, 'POST', `/${host}/verify`, {})

/** Publishes the proofs of these claims of a name, and of no others. */
const publish = (host: string, ...claims: Reply[]) =>
  dns.texts.set(`_tenon.${host}`, ['v=spf1 -all', ...claims.map(({ body }) => body.record.value)])

async function give(of: TestWorkspace, host = newName()): Promise<string> {
  publish(host, await claim(of, host))
  expect((await verify(of, host)).status).toBe(200)
  return host
}

/** As from an address of its own, whose limit of requests without a credential is not used up. */
const newAddress = () =>
  `2001:db8:${Math.floor(Math.random() * 65_536).toString(16)}:${Math.floor(Math.random() * 65_536).toString(16)}::1`

const under = (host: string, as: Caller, path = '/v1/me', at: Running = node.at, address = newAddress()) =>
  sendRaw(`${at.url}${path}`, { host, 'x-forwarded-for': address, ...as })

test('claimed name: counts once DNS has its proof, and serves its workspace alone', async () => {
  const host = newName()
  const claimed = await claim(ours, host)
  expect([claimed.status, claimed.headers.get('location')]).toEqual([201, `${hostsOf(ours)}/${host}`])
  expect(claimed.body).toMatchObject({
    ...{ host, workspace_id: ours.workspaceId, verified_at: null },
    record: {
      name: `_tenon.${host}`,
      type: 'TXT',
      value: expect.stringMatching(/^tenon-host-proof=[\w-]{32}$/),
    },
  })
  const early = await verify(ours, host)
  expect([early.status, early.body.code]).toEqual([409, 'state_conflict'])
  expect(early.body.detail).toContain('there is no TXT record')
  // Names that nobody has proved serve everything.
  expect((await under(host, other.service)).status).toBe(200)

  publish(host, claimed)
  const verified = await verify(ours, host.toUpperCase())
  expect(verified.body).toMatchObject({ host, verified_at: expect.any(String) })
  expect((await verify(ours, host)).body).toEqual(verified.body)
  expect((await ask(ours, 'GET')).body.data).toContainEqual(verified.body)

  expect((await under(host, ours.service)).status).toBe(200)
  for (const spelling of [host.toUpperCase(), `${host}.`, `${host}:8443`]) {
    const refused = await under(spelling, other.service)
    expect([spelling, refused.status, refused.body.code]).toEqual([spelling, 401, 'api_key_invalid'])
  }
})

test('name of a workspace: a credential of another, even of its tenant, is answered as an unknown one', async () => {
  const host = await give(ours)
  const sibling = await addTestWorkspace(ours)
  const reach = async (as: Caller) => {
    const { status, body } = await under(host, as)
    return [status, body.code]
  }
  for (const elsewhere of [sibling, other])
    for (const as of [elsewhere.service, elsewhere.anon])
      expect(await reach(as)).toEqual([401, 'api_key_invalid'])
  for (const as of [
    await adminOf(sibling),
    await adminOf(other),
    ours.operator,
    await tokenOf({ roles: ['tenant_admin'], tenant_id: ours.tenantId }),
  ])
    expect(await reach(as)).toEqual([401, 'token_invalid'])
  expect(await reach(ours.anon)).toEqual([200, undefined])
})

test('roles that reach beyond a workspace: do not count at its name, nor are their routes there', async () => {
  const host = await give(ours)
  const as = await adminOf(ours, 'operator')
  const me = await under(host, as)
  expect(me.body['roles']).toEqual([])
  expect((await under(host, as, hostsOf(ours))).status).toBe(403)
  expect((await under(host, await adminOf(ours), hostsOf(ours))).status).toBe(200)
  for (const path of [
    '/v1/tenants',
    '/v1/mcp/platform/mcp',
    '/auth/jwks',
    '/docs',
    '/dev/mail',
    '/.well-known/tenon-manifest-keys',
  ]) {
    const { status, body } = await under(host, as, path)
    expect([path, status, body.code]).toEqual([path, 404, 'route_not_found'])
  }
  expect((await under(host, {}, '/healthz')).status).toBe(200)
})

test('name that two claim: the one with the proof gets it, and keeps it while its proof is there', async () => {
  const host = newName()
  const [first, second] = [await claim(ours, host), await claim(other, host)]
  expect(first.body.record.value).not.toBe(second.body.record.value)
  publish(host, second)
  expect((await verify(ours, host)).body.code).toBe('state_conflict')
  expect((await verify(other, host)).status).toBe(200)

  publish(host, first, second)
  expect((await verify(ours, host)).body).toMatchObject({ status: 409, code: 'conflict' })
  expect((await under(host, other.service)).status).toBe(200)

  // The name has changed hands, and its new owner has removed the old record.
  publish(host, first)
  expect((await verify(ours, host)).status).toBe(200)
  expect((await under(host, other.service)).status).toBe(401)
  expect((await under(host, ours.service)).status).toBe(200)
  const [lost] = (await ask(other, 'GET')).body.data.filter((one: { host: string }) => one.host === host)
  expect(lost.verified_at).toBeNull()
})

test('proofs looked up by two at the same moment: one workspace has the name', async () => {
  const host = newName()
  publish(host, await claim(ours, host), await claim(other, host))
  const results = await Promise.all([verify(ours, host), verify(other, host)])
  expect(results.map(({ status }) => status).sort()).toEqual([200, 409])
})

test('deleted name: no process serves it any longer, and a new claim needs a new proof', async () => {
  const host = await give(ours)
  // The process of the suite learns of the name, and of its end, from the database alone.
  const first = inject('tenon')
  const isRefused = async () => (await under(host, other.service, '/v1/me', first)).status === 401
  await eventually(async () => ((await isRefused()) ? true : undefined))
  expect((await ask(ours, 'DELETE', `/${host}`)).body).toEqual({ host, deleted: true })
  expect((await under(host, other.service)).status).toBe(200)
  await eventually(async () => ((await isRefused()) ? undefined : true))
  expect((await ask(ours, 'DELETE', `/${host}`)).status).toBe(404)
  await claim(ours, host)
  expect((await verify(ours, host)).status).toBe(409)
})

test('names in other forms: are stored as the one that browsers send', async () => {
  const name = newName()
  for (const [given, host] of [
    [`MiXeD-${name}.`, `mixed-${name}`],
    [`bücher-${name}`, `xn--bcher-${name.split('.')[0]}-kva.example`],
    [`a。${name}`, `a.${name}`],
  ] as const) {
    const claimed = await claim(ours, given)
    expect([given, claimed.status]).toEqual([given, 201])
    if (!given.startsWith('b')) expect(claimed.body.host).toBe(host)
    else expect(claimed.body.host).toMatch(/^xn--/)
    expect((await claim(ours, claimed.body.host)).body.code).toBe('conflict')
  }
})

test.each([
  ...[
    '*.shop.example',
    'shop',
    'shop.example:443',
    'https://shop.example',
    'shop.example/a',
    'a@shop.example',
  ],
  ...['127.0.0.1', '127.1', '0x7f.0.0.1', '2130706433', '１２７.0.0.1', '[::1]', '::1', 'shop.1', 'a.0x7f'],
  ...[
    '-a.example',
    'a-.example',
    'a..example',
    '.shop.example',
    'a_b.example',
    'xn--.example',
    'a b.example',
  ],
  ...[
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(123)}example`,
    '%73hop.example',
    'shop.example?',
    'shop.example#',
  ],
  ...[
    's3.tenon.example',
    'bucket.s3.tenon.example',
    'S3.Tenon.Example.',
    'shop.example\\a',
    '\u0000.example',
  ],
])('%j as a host name: is refused', async (host) => {
  const { status, body } = await claim(ours, host)
  expect([host, status, body.code]).toEqual([host, 400, 'validation_failed'])
})

test('DNS that does not answer: 503, and the claim stays as it is', async () => {
  const host = newName()
  publish(host, await claim(ours, host))
  dns.isSilent = true
  const { status, body } = await verify(ours, host)
  dns.isSilent = false
  expect([status, body.code]).toEqual([503, 'dependency_unavailable'])
  expect((await verify(ours, host)).status).toBe(200)
})

test('DNS that is slow: all proofs of a workspace are looked up at once', async () => {
  const fresh = await createTestWorkspace()
  for (const host of [newName(), newName(), newName()]) {
    publish(host, await claim(fresh, host))
    expect((await verify(fresh, host)).status).toBe(200)
  }
  dns.answersAfter = 3
  const path = `/v1/tenants/${fresh.tenantId}/drift?page[size]=200`
  const { body } = await call('GET', path, { as: fresh.operator, at: node.at })
  dns.answersAfter = 1
  const of = body.data.find(({ target }: { target: string }) => target === fresh.workspaceId)
  expect([of.differences, of.unread]).toEqual([[], []])
})

test('more names than a workspace may claim: 409 with their number', async () => {
  const fresh = await addTestWorkspace(other)
  await asSuperuser(
    `insert into tenon.hosts (tenant_id, workspace_id, host, proof)
     select $1, $2, n || '.many.example', 'x' from generate_series(1, 50) n`,
    [fresh.tenantId, fresh.workspaceId],
  )
  const { status, body } = await claim(fresh, newName())
  expect([status, body.detail]).toEqual([409, 'A workspace has at most 50 host names.'])
})

test('admin: cannot declare a name as proved in the database, nor see that of another tenant', async () => {
  const host = await give(ours)
  expect(
    (await call('DELETE', `${hostsOf(ours)}/${host}`, { as: await adminOf(other), at: node.at })).status,
  ).toBe(404)
  expect((await call('GET', hostsOf(ours), { as: await adminOf(other), at: node.at })).status).toBe(404)
  const [rights] = await asSuperuser<{ may: boolean }>(
    "select has_column_privilege('tenon_admin', 'tenon.hosts', 'verified_at', 'insert, update') as may",
  )
  expect(rights?.may).toBe(false)
})

test.each([
  ...['shop.example/a', 'a@shop.example', '%73hop.example', 'shop.example:99999', 'shop.example:https'],
  ...['shop.example#', 'a b.example', '[::1', '[1.2.3]', '::1', '*.shop.example', 'shop.example?x'],
])('Host %j: is refused with a problem', async (host) => {
  const { status, headers, body } = await under(host, ours.service)
  expect([status, String(headers['content-type']).split(';')[0], body.code]).toEqual([
    ...[400, 'application/problem+json', 'header_invalid'],
  ])
  expect((await under(host, {}, '/healthz')).status).toBe(200)
})

test.each([
  'api_1',
  'tenon',
  'localhost:8787',
  '127.0.0.1',
  '[::1]',
  '[2001:db8::1]:8787',
  'shop.example.:80',
])('Host %j: serves everything', async (host) => {
  expect((await under(host, ours.service)).status).toBe(200)
})

test('host of the S3 API: in any letter case, with a final dot and a port: the same', async () => {
  const answer = async (host: string) => {
    const { status, headers } = await under(host, {}, '/')
    return [status, headers['content-type']]
  }
  const expected = await answer('bucket.s3.tenon.example')
  expect(expected).not.toEqual(await answer('unknown.example'))
  for (const host of ['bucket.S3.Tenon.example', 'bucket.s3.tenon.example.', 'bucket.s3.tenon.example.:8443'])
    expect([host, await answer(host)]).toEqual([host, expected])
})

test('lookups: of names that a workspace has cost nothing, of others as much as requests without a credential', async () => {
  const names = Array.from({ length: 6 }, newName)
  await asSuperuser(
    `insert into tenon.hosts (tenant_id, workspace_id, host, proof, verified_at)
     select $1, $2, host, 'x', now() from unnest($3::text[]) host`,
    [ours.tenantId, ours.workspaceId, names],
  )
  const address = newAddress()
  const ask = async (host: string) => (await under(host, ours.service, '/v1/me', node.at, address)).status
  for (const name of names) expect(await ask(name)).toBe(200)
  const unknown = []
  for (let n = 0; n < 4; n++) unknown.push(await ask(newName()))
  expect(unknown).toEqual([200, 200, 200, 429])
  // What is known already is not looked up.
  expect(await ask(names[0] ?? '')).toBe(200)
})

test('workspace that loses a name: its audit log says so, and not who has it', async () => {
  const host = await give(other)
  publish(host, await claim(ours, host))
  expect((await verify(ours, host)).status).toBe(200)
  const { body } = await call('GET', '/v1/audit?operation=host.lose', {
    as: await adminOf(other),
    at: node.at,
  })
  const [entry] = body.data.filter(({ target }: { target: string }) => target.endsWith(host))
  expect(entry).toMatchObject({
    ...{ workspace_id: other.workspaceId, outcome: 'done', target: `${hostsOf(other)}/${host}` },
    actor: { kind: 'platform', subject: null },
  })
  expect(JSON.stringify(body.data)).not.toContain(ours.tenantId)
})

test('list of host names, one on a page: goes on after a name with dots', async () => {
  const fresh = await createTestWorkspace()
  const names = [newName(), newName(), newName()].toSorted()
  for (const host of names) expect((await ask(fresh, 'POST', '', { host })).status).toBe(201)
  const found: string[] = []
  for (let next: string | null = ''; next !== null; ) {
    const after: string = next === '' ? '' : `&page[after]=${next}`
    const { body } = await call('GET', `${hostsOf(fresh)}?page[size]=1${after}`, {
      as: fresh.operator,
      at: node.at,
    })
    found.push(...body.data.map(({ host }: { host: string }) => host))
    next = body.page.next
  }
  expect(found).toEqual(names)
})
