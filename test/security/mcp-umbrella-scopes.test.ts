/** Servers with many tools: what a client sends and gets stays short, and reaches the tools that the consent page has shown. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { umbrellasOf } from '../../src/core/tool-access.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  type TestAccount,
} from '../support/clients/browser.ts'
import {
  askToken,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  rpc,
} from '../support/clients/mcp.ts'
import { allowLoopback } from '../support/fixtures/secrets.ts'
import { asSuperuser, type Caller, call, type TestWorkspace, tokenOf } from '../support/fixtures/tenants.ts'
import { FakeServers } from '../support/servers/fake-servers.ts'

const BYTES_MAX = 2_000
/** As long as a slug may be, in names that clients put in front of others. */
const SLUG = 'a-slug-of-thirty-five-characters-ab'

let workspace: TestWorkspace
let person: TestAccount
let clientId: string
let api: FakeServers
let wide: PublishedMcpServer

/** Operations of an API: 60 that read and 40 that change, with names as frameworks generate them. */
const OPERATIONS = Array.from({ length: 100 }, (_, at) => {
  const method = at < 60 ? 'get' : at < 80 ? 'post' : 'delete'
  return {
    method,
    operationId: `${method}_`.padEnd(52, 'operation_of_a_resource_') + `_${at}`.padStart(4, '0'),
  }
})
const toolsOf = (...methods: string[]) =>
  OPERATIONS.filter(({ method }) => methods.includes(method)).map(({ operationId }) => operationId)

beforeAll(async () => {
  const paths = Object.fromEntries(
    OPERATIONS.map(({ method, operationId }) => [`/${operationId}`, { [method]: { operationId } }]),
  )
  api = await FakeServers.open({
    '/openapi.json': () => ({ json: { openapi: '3.1.0', servers: [{ url: '/' }], paths } }),
    ...Object.fromEntries(Object.keys(paths).map((path) => [path, () => ({ json: { path } })])),
  })
  workspace = await createMcpWorkspace()
  await allowLoopback(workspace, api)
  const as = workspace.operator
  const source = { name: 'api', kind: 'openapi', url: `${api.origin}/openapi.json` }
  await ok(call('POST', `/v1/mcp/workspaces/${workspace.workspaceId}/sources`, { as, body: source }))
  person = await addAccount(as, { role: 'service', ...inWorkspace(workspace) })
  clientId = await addClient(as)
  wide = await publishWide(SLUG)
})
afterAll(() => api.close())

const ALL = Object.fromEntries(
  OPERATIONS.map(({ operationId }) => [`openapi:api:${operationId}`, { enabled: true }]),
)

async function publishWide(slug: string): Promise<PublishedMcpServer> {
  const made = await publishMcpServer(workspace, slug, ALL)
  await ok(call('PATCH', made.base, { as: workspace.operator, body: { search: 'off', challenge: 'http' } }))
  return made
}

/** Ten copies of each tool of a version, which the limit of the API would refuse. */
const multiply = ({ id, slug }: PublishedMcpServer) =>
  asSuperuser(
    `update tenon.mcp_server_versions v set
      manifest = jsonb_set(v.manifest, '{tools}', m.tools), scopes = m.scopes, baseline = m.baseline
    from (
      select jsonb_agg(t || jsonb_build_object('name', n, 'scope', n)) as tools,
        jsonb_agg('mcp:' || $2 || ':' || n) as scopes,
        jsonb_agg('mcp:' || $2 || ':' || n) filter (where (t ->> 'reads')::boolean) as baseline
      from tenon.mcp_server_versions o, jsonb_array_elements(o.manifest -> 'tools') t,
        generate_series(0, 9) i, lateral (select (t ->> 'name') || i as n) named
      where o.server_id = $1) m
    where v.server_id = $1`,
    [id, slug],
  )

const umbrella = ({ slug }: PublishedMcpServer, ...kinds: string[]) =>
  kinds.map((kind) => `mcp:${slug}/${kind}`).join(' ')

/** What a server tells a client without a token: the challenge, and the scopes in it and in the metadata. */
async function challengeOf(server: PublishedMcpServer) {
  const { status, headers } = await rpc(server.path, {}, 'tools/list')
  const challenge = headers.get('www-authenticate') ?? ''
  const metadata = await ok(call('GET', `/.well-known/oauth-protected-resource${server.path}`))
  const [, scope] = /scope="([^"]+)"/.exec(challenge) ?? []
  return { status, challenge, scope, supported: metadata.scopes_supported?.join(' ') }
}

/** Signs in. @returns the page of the consent, and how to give it */
async function signInFor(server: PublishedMcpServer, scope: string, browser = new Browser(REDIRECT)) {
  const flow = authorization(clientId, { resource: server.url, scope })
  const { tenant, email, password } = person
  const login = await browser.open(flow.url)
  const page = login.html.includes('value="login"')
    ? await browser.submit(login, { action: 'login', tenant, email, password })
    : login
  const allow = async () => {
    const end: Seen = await browser.submit(page, { action: 'allow' })
    const { body } = await exchange(clientId, flow, new URL(end.url))
    return {
      as: bearer(body['access_token']),
      token: body['access_token'] ?? '',
      refresh: body['refresh_token'],
    }
  }
  return { url: flow.url, page, allow }
}

/** The tools that a token reaches. */
async function granted(server: PublishedMcpServer, as: Caller): Promise<string[]> {
  const { body } = await rpc(server.path, as, 'tools/list')
  const tools: { name: string; description: string }[] = body.result.tools
  return tools.filter(({ description }) => !description.includes('Needs the scope')).map(({ name }) => name)
}

const textOf = (html: string) => html.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')

describe.each([
  [100, 1],
  [1_000, 10],
])('server with %i tools', (count, copies) => {
  let server: PublishedMcpServer
  beforeAll(async () => {
    server = copies === 1 ? wide : await publishWide(`${SLUG.slice(0, -2)}-m`)
    if (copies > 1) await multiply(server)
  })
  const copied = (names: string[]) =>
    names.flatMap((name) => (copies === 1 ? [name] : Array.from({ length: copies }, (_, i) => `${name}${i}`)))

  test.each([
    ['get', ['read']],
    ['get post delete', ['read', 'write']],
  ])(
    'tools that %s: challenge, URL and token below 2 kB; the page has each tool, the token reaches these alone',
    async (methods, kinds) => {
      const first = await challengeOf(server)
      expect([first.status, first.scope, first.supported]).toEqual([
        401,
        umbrella(server, 'read'),
        first.scope,
      ])
      expect(first.challenge.length).toBeLessThan(BYTES_MAX)
      const { url, page, allow } = await signInFor(server, umbrella(server, ...kinds))
      expect(url.length).toBeLessThan(BYTES_MAX)
      const names = copied(toolsOf(...methods.split(' ')))
      const text = textOf(page.html)
      expect(text.match(/reads data/g)).toHaveLength(0.6 * count)
      expect(text.match(/changes or deletes data/g) ?? []).toHaveLength(kinds.length > 1 ? 0.4 * count : 0)
      const headings = ['Tools that change or delete', 'Tools that read']
      expect(headings.map((heading) => text.split(heading).length - 1)).toEqual(
        kinds.length > 1 ? [1, 1] : [0, 1],
      )
      const { as, token } = await allow()
      expect(token.length).toBeLessThan(BYTES_MAX)
      expect(claimsOf(token).scope).toBe(umbrella(server, ...kinds))
      expect((await granted(server, as)).sort()).toEqual(names.sort())
      const denied = await callTool(server.path, as, copied(toolsOf('delete'))[0] ?? '', {})
      expect(denied.status).toBe(kinds.length > 1 ? 200 : 403)
      expect((denied.headers.get('www-authenticate') ?? '').length).toBeLessThan(BYTES_MAX)
    },
  )

  test('agent without a person: a token below 2 kB, without naming a scope and with all', async () => {
    const as = workspace.operator
    const made = await ok(call('POST', `${server.base}/clients`, { as, body: { name: 'agent' } }))
    const client = { id: made.client_id, secret: made.client_secret }
    for (const [scope, names] of [
      [undefined, toolsOf('get')],
      [umbrella(server, 'read', 'write'), toolsOf('get', 'post', 'delete')],
    ] as const) {
      const { body } = await askToken({ resource: server.url, ...(scope && { scope }) }, client)
      expect(body['access_token']?.length).toBeLessThan(BYTES_MAX)
      expect((await granted(server, bearer(body['access_token']))).sort()).toEqual(copied([...names]).sort())
    }
  })
})

test('many tools and another issuer, which knows no umbrella: challenge and metadata name no scope', async () => {
  const server = await publishWide(`${SLUG.slice(0, -2)}-x`)
  const values = [server.id, 'https://login.example']
  await asSuperuser('update tenon.mcp_servers set authorization_server = $2 where id = $1', values)
  const { status, challenge, supported } = await challengeOf(server)
  expect([status, challenge.includes('scope='), supported]).toEqual([401, false, undefined])
})

describe('tools after the consent', () => {
  test('added, or read by now: refused with their own scope until they are consented to', async () => {
    const [first, second, third, ...others] = toolsOf('get')
    const write = toolsOf('delete')[0] ?? ''
    const choose = (...names: (string | undefined)[]) =>
      Object.fromEntries(names.map((name) => [`openapi:api:${name}`, { enabled: true }]))
    const strict = (name = '') => ({
      [`openapi:api:${name}`]: { enabled: true, annotations: { readOnlyHint: false, destructiveHint: true } },
    })
    const server = await publishMcpServer(workspace, 'grows', {
      ...choose(first, ...others, write),
      ...strict(second),
    })
    await ok(
      call('PATCH', server.base, { as: workspace.operator, body: { search: 'off', challenge: 'http' } }),
    )
    const browser = new Browser(REDIRECT)
    const consent = await (await signInFor(server, umbrella(server, 'read'), browser)).allow()
    const before = [first, ...others].sort()
    expect((await granted(server, consent.as)).sort()).toEqual(before)
    await publish(server, choose(first, second, third, ...others, write))
    const { body } = await refresh(clientId, consent.refresh)
    for (const as of [consent.as, bearer(body['access_token'])]) {
      expect((await granted(server, as)).sort()).toEqual(before)
      for (const name of [second, third, write]) {
        const { status, headers } = await callTool(server.path, as, name ?? '', {})
        expect([status, headers.get('www-authenticate')]).toEqual([
          403,
          expect.stringContaining(`scope="mcp:grows:${name}"`),
        ])
      }
    }
    // The same scope in the same browser: asked again, since it stands for more by now.
    const again = await signInFor(server, umbrella(server, 'read'), browser)
    expect(textOf(again.page.html).match(/reads data/g)).toHaveLength(60)
    expect((await granted(server, (await again.allow()).as)).sort()).toEqual(toolsOf('get').sort())
  })
})

describe('umbrella of another server', () => {
  test('requested or in a token: reaches nothing here', async () => {
    const other = await publishMcpServer(await createMcpWorkspace(), 'theirs')
    const url = new URL(authorization(clientId, { resource: wide.url, scope: umbrella(other, 'read') }).url)
    const end = await new Browser(REDIRECT).open(url.href)
    expect(new URL(end.url).searchParams.get('error')).toBe('invalid_scope')
    const { tenantId, workspaceId } = workspace
    const claims = {
      ...{ sub: 'agent', client_id: 'tenon-operator', tenant_id: tenantId, workspace_id: workspaceId },
      ...{ mcp_server: wide.id, mcp_version: 1 },
    }
    for (const scope of [
      umbrella(other, 'read', 'write'),
      `mcp:${SLUG}/admin`,
      `mcp:${SLUG}/`,
      `mcp:${SLUG}`,
    ]) {
      const as = await tokenOf({ ...claims, scope }, { audience: wide.url })
      expect([scope, await granted(wide, as)]).toEqual([scope, []])
      expect((await callTool(wide.path, as, toolsOf('get')[0] ?? '', {})).status).toBe(403)
    }
  })

  test('client with scopes from an admin: reaches those of them that the umbrella stands for', async () => {
    const [read = '', write = ''] = [toolsOf('get')[3], toolsOf('post')[3]]
    const scopes = [read, write].map((name) => `mcp:${SLUG}:${name}`)
    const body = { name: 'narrow', scopes }
    const made = await ok(call('POST', `${wide.base}/clients`, { as: workspace.operator, body }))
    const client = { id: made.client_id, secret: made.client_secret }
    for (const [kinds, reached] of [
      [['read'], [read]],
      [['write'], [write]],
      [
        ['read', 'write'],
        [read, write],
      ],
    ] as const) {
      const answer = await askToken({ resource: wide.url, scope: umbrella(wide, ...kinds) }, client)
      const as = bearer(answer.body['access_token'])
      expect((await granted(wide, as)).sort()).toEqual([...reached].sort())
      expect((await callTool(wide.path, as, toolsOf('delete')[0] ?? '', {})).status).toBe(403)
    }
  })
})

test('umbrellas: each scope under exactly one, a scope with one writing tool under write, generated', () => {
  const effects = [
    { readOnlyHint: true, destructiveHint: false },
    { readOnlyHint: false, destructiveHint: false },
    { readOnlyHint: false, destructiveHint: true },
    { readOnlyHint: true, destructiveHint: true },
  ]
  const more = { idempotentHint: false, openWorldHint: false }
  const tools = Array.from({ length: 64 }, (_, at) => ({
    ...{ name: `t${at}`, title: '', candidate: `c:${at}`, scope: `s${at % 23}` },
    annotations: { ...more, ...effects[(at * at + at) % 4] } as never,
  }))
  const umbrellas = umbrellasOf('x', tools)
  const all = [...umbrellas.values()].flat()
  expect(all.toSorted()).toEqual([...new Set(tools.map(({ scope }) => `mcp:x:${scope}`))].toSorted())
  const writes = (scope: string) =>
    tools.some(
      (tool) =>
        tool.scope === scope && (!tool.annotations['readOnlyHint'] || tool.annotations['destructiveHint']),
    )
  for (const [umbrellaName, scopes] of umbrellas)
    for (const scope of scopes)
      expect(umbrellaName).toBe(writes(scope.slice('mcp:x:'.length)) ? 'mcp:x/write' : 'mcp:x/read')
})
