/** Checks hosted MCP servers: lifecycle over REST, discovery, and the wire protocol in both versions. */

import { Client as Modern, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client'
import { Client as Legacy } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  anonymous,
  base,
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  type Reply,
  str,
  token,
  tokenReply,
} from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type Party, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

/** A hosted server and what a caller of it needs. */
interface PublishedMcpServer {
  readonly id: string
  readonly servers: string
  readonly wire: string
  readonly candidate: string
  readonly tool: string
}

const hosted: { a?: PublishedMcpServer; b?: PublishedMcpServer } = {}

function server(who: 'a' | 'b'): PublishedMcpServer {
  const found = hosted[who]
  if (!found) throw new Error(`the server of ${who} was never published`)
  return found
}

beforeAll(async () => {
  world = await createTenantPair()
  for (const party of [world.a, world.b]) {
    const sent = { text: 'in stock', mark: party.mark }
    expectStatus(await party.service.post('/v1/collections/products/documents', sent), 201)
  }
})

/** Creates, curates and publishes a server whose one tool reads the collection `products`. */
async function publishServer(who: 'a' | 'b'): Promise<PublishedMcpServer> {
  const { admin, workspace } = world[who]
  const servers = `/v1/mcp/workspaces/${workspace}/servers`
  // Assumption: a server is created from its name alone.
  const made = await admin.post(servers, { name: 'shop' })
  expectStatus(made, 201)
  const id = str(made, 'id')
  const candidate = candidateNamed(await admin.get(`${servers}/${id}/candidates`), 'products')
  const tools = { [candidate]: { enabled: true, name: 'read_products', description: 'Reads the products.' } }
  expectStatus(await admin.put(`${servers}/${id}/curation`, { tools }), 200)
  await publish(who, servers, id)
  const result = { id, servers, wire: `${base}${servers}/${id}/mcp`, candidate, tool: 'read_products' }
  hosted[who] = result
  return result
}

/** Publishes the curated tools and approves the version if needed; returns the publication. */
async function publish(who: 'a' | 'b', servers: string, id: string): Promise<Reply> {
  const { admin } = world[who]
  const reply = await admin.post(`${servers}/${id}/publish`, {})
  expectStatus(reply, 200, 201)
  if (get(reply, 'state') === 'needs_approval') {
    const path = `${servers}/${id}/versions/${String(get(reply, 'version'))}/approve`
    expectStatus(await admin.post(path, {}), 200)
  }
  return reply
}

/** The candidate that reads that collection; assumption: candidates have a `name`. */
function candidateNamed(reply: unknown, word: string): string {
  const names = list(reply).map((candidate) => str(candidate, 'name'))
  const matching = names.filter((name) => name.includes(word))
  const found = matching.find((name) => /query|list|read|find|search/.test(name)) ?? matching[0]
  if (!found) throw new Error(`no candidate for ${word} among ${names.join(', ')}`)
  return found
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}

/** Sends one message to a wire endpoint, as a client of the 2025 protocol does. */
function sendMessage(wire: string, message: unknown, bearer?: string, who?: Party) {
  const headers = {
    accept: 'application/json, text/event-stream',
    ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
  }
  return new Caller(headers, who?.transcript).post(wire, message)
}

/** Requests a token for one server, with the scope named in the server's challenge. */
async function tokenFor(who: 'a' | 'b'): Promise<string> {
  const { wire, tool } = server(who)
  const scope = await scopeOf(wire, tool)
  return token({ resource: wire, ...(scope ? { scope } : {}) })
}

const call = (name: string) => ({
  jsonrpc: '2.0',
  id: 2,
  method: 'tools/call',
  params: { name, arguments: {} },
})

async function scopeOf(wire: string, tool: string): Promise<string | undefined> {
  const unscoped = await token({ resource: wire })
  const refused = await sendMessage(wire, call(tool), unscoped)
  return /scope="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '')?.[1]
}

async function legacyClient(wire: string, bearer: string, who: Party): Promise<Legacy> {
  const client = new Legacy({ name: 'test-legacy', version: '1.0.0' })
  const transport = new LegacyHttp(new URL(wire), {
    requestInit: { headers: { authorization: `Bearer ${bearer}` } },
    fetch: who.transcript.fetch,
  })
  // The class leaves `sessionId` optional and the interface does not: a matter of exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Legacy['connect']>[0])
  return client
}

async function modernClient(wire: string, bearer: string, who: Party): Promise<Modern> {
  const client = new Modern(
    { name: 'test-modern', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  await client.connect(
    new ModernHttp(new URL(wire), {
      authProvider: { token: async () => bearer },
      fetch: who.transcript.fetch,
    }),
  )
  return client
}

describe('lifecycle of a server', () => {
  test('server: created: 201 with an id', async () => {
    const { admin, workspace } = world.a
    const reply = await admin.post(`/v1/mcp/workspaces/${workspace}/servers`, { name: 'shop' })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({ id: expect.stringMatching(/^mcp_/), name: 'shop' })
    const path = `/v1/mcp/workspaces/${workspace}/servers/${str(reply, 'id')}`
    expectStatus(await admin.get(path), 200)
    expectStatus(await admin.delete(path), 200)
    expectProblem(await admin.get(path), 404)
  })

  test('server: resources of the workspace: candidates, curated, published', async () => {
    expect((await publishServer('a')).candidate).toContain('products')
    expect((await publishServer('b')).candidate).toContain('products')
  })

  test('publish: new version: version, hash, difference and state', async () => {
    const { servers, id, candidate } = server('a')
    const tools = {
      [candidate]: { enabled: true, name: 'read_products', description: 'Reads all products.' },
    }
    expectStatus(await world.a.admin.put(`${servers}/${id}/curation`, { tools }), 200)
    const reply = await publish('a', servers, id)
    expect(reply.body).toMatchObject({
      version: 2,
      hash: expect.stringMatching(/\w{32,}/),
      diff: expect.anything(),
      state: expect.stringMatching(/^(active|needs_approval)$/),
    })
  })

  test('server: second one: refused by the quota of one', async () => {
    const { servers } = server('a')
    expectProblem(await world.a.admin.post(servers, { name: 'second' }), 429, 'quota_exceeded')
  })

  test('tool: called over REST: result', async () => {
    const { servers, id, tool } = server('a')
    const reply = await world.a.admin.post(`${servers}/${id}/call`, { tool, arguments: {} })
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ content: expect.any(Array), is_error: false })
    expect(reply.text).toContain(world.a.mark)
  })

  test('tool: unknown, or with an unknown argument: refused', async () => {
    const { servers, id, tool } = server('a')
    const unknown = await world.a.admin.post(`${servers}/${id}/call`, { tool: 'nothing', arguments: {} })
    expectProblem(unknown, unknown.status === 400 ? 400 : 404)
    const wrong = { tool, arguments: { not_an_argument: 1 } }
    const reply = await world.a.admin.post(`${servers}/${id}/call`, wrong)
    if (reply.status === 200) expect(get(reply, 'is_error')).toBe(true)
    else expectProblem(reply, reply.status === 422 ? 422 : 400)
  })

  test('audit: tool called: entry with the tool', async () => {
    const { servers, id, tool } = server('a')
    await expect
      .poll(async () => (await world.a.admin.get(`${servers}/${id}/audit`)).text, { timeout: 10_000 })
      .toContain(tool)
  })

  test('server: of A in a workspace of B: 404 identical to that of a missing one', async () => {
    const [foreignId, missingId] = [server('a').id, `${server('a').id.slice(0, -4)}zzzz`]
    const inB = server('b').servers
    for (const path of ['', '/candidates', '/audit', '/audit/verify']) {
      const seen = await world.b.admin.get(`${inB}/${foreignId}${path}`)
      expectProblem(seen, 404)
      expect(anonymous(seen, foreignId)).toBe(
        anonymous(await world.b.admin.get(`${inB}/${missingId}${path}`), missingId),
      )
    }
  })
})

describe('discovery and challenges', () => {
  const metadataOf = (wire: string) => wire.replace(base, `${base}/.well-known/oauth-protected-resource`)

  test('protected resource metadata: no credential: readable', async () => {
    const { wire } = server('a')
    const reply = await new Caller({ origin: 'https://elsewhere.example' }).get(metadataOf(wire))
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({
      resource: wire,
      authorization_servers: [expect.stringContaining('/auth')],
      bearer_methods_supported: ['header'],
    })
    expect(reply.headers.get('access-control-allow-origin')).toBe('*')
  })

  test('protected resource metadata: missing server: 404', async () => {
    expectStatus(await new Caller({}).get(metadataOf(`${server('a').wire.slice(0, -8)}zzzz/mcp`)), 404)
  })

  test('wire: no token: 401 with a challenge that names the metadata', async () => {
    const { wire } = server('a')
    const reply = await sendMessage(wire, initialize)
    expectStatus(reply, 401)
    const challenge = reply.headers.get('www-authenticate') ?? ''
    expect(challenge).toMatch(/^Bearer /)
    expect(challenge).toContain(`resource_metadata="${metadataOf(wire)}"`)
    expect(challenge).not.toContain('error=')
    expect(reply.headers.get('cache-control')).toMatch(/no-store/)
  })

  test('wire: invalid token: 401 invalid_token', async () => {
    const reply = await sendMessage(server('a').wire, initialize, 'abc.def.ghi')
    expectStatus(reply, 401)
    expect(reply.headers.get('www-authenticate')).toContain('error="invalid_token"')
  })

  test('wire: scope of the tool missing: 403 insufficient_scope that names it', async () => {
    const { wire, tool } = server('a')
    const reply = await sendMessage(wire, call(tool), await token({ resource: wire }))
    expectStatus(reply, 403)
    const challenge = reply.headers.get('www-authenticate') ?? ''
    expect(challenge).toContain('error="insufficient_scope"')
    expect(challenge).toMatch(/scope="[^"]*mcp:[^":]+:read_products/)
    expect(challenge).toContain('resource_metadata=')
  })

  test('wire: API key or operator token: refused', async () => {
    const { wire } = server('a')
    expectStatus(await world.a.service.post(wire, initialize), 401)
    expectStatus(await world.a.admin.post(wire, initialize), 401)
  })

  test('wire: token in the query: not read', async () => {
    const bearer = await tokenFor('a')
    expectStatus(await sendMessage(`${server('a').wire}?access_token=${bearer}`, initialize), 401)
  })

  test('T12: wire: token of another server: refused, in both directions', async () => {
    const [ofA, ofB] = [await tokenFor('a'), await tokenFor('b')]
    const atB = await sendMessage(server('b').wire, initialize, ofA, world.b)
    expectStatus(atB, 401)
    expect(atB.headers.get('www-authenticate')).toContain('error="invalid_token"')
    expectStatus(await sendMessage(server('a').wire, initialize, ofB), 401)
    await expectUnaffected(world)
  })

  test('token of a server: any other route: refused', async () => {
    const caller = new Caller({ authorization: `Bearer ${await tokenFor('a')}` })
    for (const path of ['/v1/collections/products/documents', '/v1/quotas', server('a').servers]) {
      expectStatus(await caller.get(path), 401, 403)
    }
  })

  test('token endpoint: missing resource: no token', async () => {
    const reply = await tokenReply({ resource: `${base}/v1/mcp/workspaces/ws_x/servers/mcp_x/mcp` })
    expectStatus(reply, 400)
  })

  test('wire: JSON-RPC batch: 400', async () => {
    const batch = [initialize, { jsonrpc: '2.0', id: 2, method: 'tools/list' }]
    expectStatus(await sendMessage(server('a').wire, batch, await tokenFor('a')), 400)
    await expectUnaffected(world)
  })

  test.each(['{"jsonrpc":', '7', '{}', '{"jsonrpc":"1.0","id":1,"method":"x"}'])(
    'wire: body %s: 400',
    async (raw) => {
      const headers = {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        authorization: `Bearer ${await tokenFor('a')}`,
      }
      expectStatus(await new Caller(headers).send('POST', server('a').wire, { raw }), 400)
      await expectUnaffected(world)
    },
  )
})

describe.each([
  ['2025', legacyClient],
  ['2026', modernClient],
] as const)('wire, clients of %s', (_, open) => {
  test.each(['a', 'b'] as const)('wire: tools of server %s: listed and called', async (who) => {
    const { wire, tool } = server(who)
    const client = await open(wire, await tokenFor(who), world[who])
    try {
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual([tool])
      const result = await client.callTool({ name: tool, arguments: {} })
      expect(result.isError ?? false).toBe(false)
      const text = JSON.stringify(result)
      expect(text).toContain(world[who].mark)
      expect(text).not.toContain(world[who === 'a' ? 'b' : 'a'].mark)
    } finally {
      await client.close()
    }
  })

  test('wire: client without a valid token: cannot connect', async () => {
    await expect(open(server('a').wire, 'abc.def.ghi', world.a)).rejects.toThrow()
  })
})

describe('platform MCP server', () => {
  const wire = `${base}/v1/mcp/platform/mcp`

  test('platform server: no credential: 401 with a challenge', async () => {
    const reply = await sendMessage(wire, initialize)
    expectStatus(reply, 401)
    expect(reply.headers.get('www-authenticate')).toMatch(/Bearer/)
  })

  // Assumption: it accepts the operator's access token, as the administrative routes do.
  test.each([
    ['2025', legacyClient],
    ['2026', modernClient],
  ] as const)('platform server: clients of %s: list its tools', async (_, open) => {
    const client = await open(wire, await token(), world.a)
    try {
      expect((await client.listTools()).tools.length).toBeGreaterThan(0)
    } finally {
      await client.close()
    }
  })

  test('platform server: JSON-RPC batch: 400', async () => {
    const batch = [initialize, { jsonrpc: '2.0', id: 2, method: 'tools/list' }]
    expectStatus(await sendMessage(wire, batch, await token()), 400)
    await expectUnaffected(world)
  })

  test('platform server: token of a hosted server: refused', async () => {
    expectStatus(await sendMessage(wire, initialize, await tokenFor('a')), 401)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
