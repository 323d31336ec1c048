/** `server.json` for registries: public as the protected-resource metadata is, and valid by the registry's schema. */

import { Ajv } from 'ajv'
import { beforeAll, describe, expect, test } from 'vitest'
import type { PublishedServer } from '../../../src/access/authentication/mcp-server-registry.ts'
import { serverJson } from '../../../src/mcp/server-json.ts'
import { ok, type PublishedMcpServer, publish, publishMcpServer } from '../../support/clients/mcp.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const LIST = { 'collections:notes:list': { enabled: true } }

/** The rules of schema 2025-12-11 on the members that are used, in own words; others are allowed there as well. */
const isValid = new Ajv().compile({
  type: 'object',
  required: ['name', 'description', 'version'],
  properties: {
    $schema: { const: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json' },
    name: {
      type: 'string',
      minLength: 3,
      maxLength: 200,
      pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$',
    },
    title: { type: 'string', minLength: 1, maxLength: 100 },
    description: { type: 'string', minLength: 1, maxLength: 100 },
    version: { type: 'string', maxLength: 255, pattern: '^[0-9]+\\.[0-9]+\\.[0-9]+$' },
    remotes: {
      type: 'array',
      items: {
        type: 'object',
        required: ['type', 'url'],
        properties: {
          type: { enum: ['streamable-http'] },
          url: { type: 'string', pattern: '^https?://[^\\s]+$' },
        },
      },
    },
    _meta: { type: 'object', additionalProperties: { type: 'object' } },
  },
  additionalProperties: false,
})

let server: PublishedMcpServer
beforeAll(async () => {
  server = await publishMcpServer(await createTestWorkspace(), 'listed', LIST)
})

const read = (base: string) => call('GET', `${base}/server.json`)
const change = (body: object) => ok(call('PATCH', server.base, { as: server.workspace.operator, body }))

describe('GET server.json', () => {
  test('published server: its address, version and hash; the same by its id; no credential needed', async () => {
    await change({ description: 'Orders of the shop.' })
    await publish(server, LIST)
    const { status, body, headers } = await read(server.base)
    expect([status, isValid(body)]).toEqual([200, true])
    const { hash } = await ok(call('GET', `${server.base}/versions/2`, { as: server.workspace.operator }))
    expect(body).toMatchObject({
      name: `1.0.0.127/${server.workspace.workspaceId}.listed`,
      title: 'Server listed',
      description: 'Orders of the shop.',
      version: '2.0.0',
      remotes: [{ type: 'streamable-http', url: server.url }],
      _meta: { 'io.modelcontextprotocol.registry/publisher-provided': { manifest_sha256: hash } },
    })
    expect([headers.get('access-control-allow-origin'), headers.get('cache-control')]).toEqual([
      '*',
      'no-store',
    ])
    expect(headers.get('ratelimit')).toMatch(/^"address"/)
    expect((await read(server.base.replace('listed', server.id))).body).toEqual(body)
  })

  test('unpublished, suspended, unknown: the same 404', async () => {
    const draft = await createTestWorkspace()
    const path = `/v1/mcp/workspaces/${draft.workspaceId}/servers`
    await ok(call('POST', path, { as: draft.operator, body: { name: 'Draft', slug: 'draft' } }))
    await change({ suspended: true })
    const replies = await Promise.all(
      [`${path}/draft`, `${path}/none`, server.base, '/v1/mcp/workspaces/ws_x/servers/listed'].map(read),
    )
    await change({ suspended: false })
    const anonymous = replies.map(({ status, body }) => ({
      status,
      ...body,
      instance: '',
      request_id: '',
    }))
    expect(anonymous[0]).toMatchObject({ status: 404, code: 'not_found' })
    for (const one of anonymous) expect(one).toEqual(anonymous[0])
  })
})

describe('serverJson', () => {
  const published = {
    ref: { tenantId: 'ten_1', workspaceId: 'ws_01h455vb4pex5vsknk084sn02q' },
    slug: 'orders',
    name: 'Orders',
    version: 3,
    versionHash: 'a'.repeat(64),
  } as unknown as PublishedServer

  test.each([
    ['https://api.example.com/mcp', 'com.example.api/ws_01h455vb4pex5vsknk084sn02q.orders'],
    ['https://EXAMPLE.com:8443/mcp', 'com.example/ws_01h455vb4pex5vsknk084sn02q.orders'],
    ['http://localhost:8787/mcp', 'localhost/ws_01h455vb4pex5vsknk084sn02q.orders'],
    ['http://[::1]:8787/mcp', '---1-/ws_01h455vb4pex5vsknk084sn02q.orders'],
  ])('%s: %s', (url, name) => {
    const made = serverJson(published, 'Orders.', url)
    expect([made.name, isValid(made)]).toEqual([name, true])
  })

  test('long and empty texts, long hosts: within the bounds of the schema', () => {
    const host = `${Array.from({ length: 4 }, () => 'x'.repeat(60)).join('.')}.com`
    const long = serverJson(
      { ...published, name: '😀'.repeat(150) },
      ' a\n b '.repeat(50),
      `https://${host}/mcp`,
    )
    expect([long.title.length, isValid(long)]).toEqual([199, true])
    const empty = serverJson(published, ' \n', 'https://example.com/mcp')
    expect([empty.description, isValid(empty)]).toEqual(['Orders', true])
  })
})
