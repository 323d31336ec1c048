/** Scopes of keys and tokens: every data operation under every scope, and streams that outlive a scope. */

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { AnyOperation } from '../../../src/core/operation.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { SCOPES } from '../../../src/features/key-operations.ts'
import { ROWS, type World } from '../../isolation/sweep-rows.ts'
import {
  closeSubscriptions,
  type ReceivedEvent,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

let workspace: TestWorkspace
/** Ids that do not exist: an authorised caller gets 404. */
let world: World
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const id = '01890000-0000-7000-8000-000000000000'
  const none = {
    keyId: 'k',
    schemaId: 's',
    operationId: 'o',
    exportId: 'o',
    documentId: id,
    flowId: 'f',
    executionId: 'e',
  }
  world = {
    workspace: workspace,
    ...none,
    scheduleId: 't',
    webhookId: 't',
    eventTriggerId: 't',
    agentId: 'a',
    bucket: 'no-such-bucket',
    host: 'h',
    uploadId: id,
    removalId: 'del_r',
    bulkChangeId: 'bulk_b',
    functionId: 'fn',
    failing: { functionId: 'fn', runId: 'run_r' },
    approvalId: 'a',
    accountId: 'a',
    clientId: 'c',
    userId: 'u',
  }
})

const DATA = OPERATIONS.filter(({ domain }) => domain === 'data_access')
const ADMINISTRATIVE = OPERATIONS.filter(({ domain }) => domain === 'structural_admin')
const DOCUMENTS = '/v1/collections/things/documents'

const key = async (scopes: readonly string[], kind = 'service') => {
  const body = { workspace_id: workspace.workspaceId, kind, name: 'narrow', scopes }
  return call('POST', '/v1/api-keys', { as: workspace.operator, body })
}
const narrowKey = async (...scopes: string[]): Promise<Caller & { id: string }> => {
  const { body } = await key(scopes)
  return { apikey: body.key, id: body.id }
}
const narrowToken = (scope: string) =>
  tokenOf({ roles: ['service'], tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId, scope })

async function send(operation: AnyOperation, as: Caller) {
  const row = ROWS[operation.name]
  const body = row?.body?.(world)
  return call(operation.http.method, row?.path(world) ?? '', { as, ...(body !== undefined && { body }) })
}

/** The scopes that the request of an operation's row needs. */
function scopesOf({ name, requiredScope = '', conditionalScopes = [] }: AnyOperation): string[] {
  const row = ROWS[name]
  const { searchParams } = new URL(row?.path(world) ?? '', 'http://any')
  const input = { ...Object.fromEntries(searchParams), ...(row?.body?.(world) as object | undefined) }
  return [requiredScope, ...conditionalScopes.filter(({ when }) => when(input)).map(({ scope }) => scope)]
}

test('scopes: list: as documented', () => {
  expect(SCOPES).toEqual([
    'analytics:read',
    'collections:read',
    'collections:write',
    'events:read',
    'events:write',
    'flows:approve',
    'flows:read',
    'flows:run',
    'functions:read',
    'functions:write',
    'objects:read',
    'objects:write',
    'payloads:read',
  ])
  // An operation missing from the data operations would need a scope that no key can have.
  // The scope payloads:read is of no operation: it adds to those that read executions and runs.
  expect([...new Set(DATA.map(({ requiredScope }) => requiredScope))].sort()).toEqual(
    SCOPES.filter((scope) => scope !== 'payloads:read'),
  )
  expect(ADMINISTRATIVE.filter(({ requiredScope }) => requiredScope !== undefined)).toEqual([])
})

describe.each(SCOPES)('caller with scope %s only', (scope) => {
  const callers: Record<string, Caller> = {}
  beforeAll(async () => {
    const { id: _id, ...asKey } = await narrowKey(scope)
    Object.assign(callers, { key: asKey, token: await narrowToken(`openid ${scope} profile`) })
  })

  test.each(DATA.map((operation) => [operation.name, operation] as const))(
    'operation %s: allowed exactly if the scope covers it',
    async (_name, operation) => {
      for (const as of Object.values(callers)) {
        const { status, headers, body } = await send(operation, as)
        const code = headers.get('x-problem-code') ?? body.code
        const missing = scopesOf(operation).find((needed) => needed !== scope)
        if (missing === undefined) {
          expect([401, 403, 500]).not.toContain(status)
          continue
        }
        expect([status, code]).toEqual([403, 'insufficient_scope'])
        expect(headers.get('www-authenticate')).toBe(
          `Bearer realm="tenon", error="insufficient_scope", scope="${missing}"`,
        )
        if (operation.http.method !== 'HEAD') expect(body.scope).toBe(missing)
      }
    },
  )
})

test('scope: right that the kind of key lacks: still refused', async () => {
  await openCollectionsToAnon(workspace)
  const { body } = await key(['objects:read', 'collections:read', 'events:read'], 'anon')
  const as = { apikey: body.key }
  expect((await call('GET', DOCUMENTS, { as })).status).toBe(200)
  const publish = await call('POST', '/v1/events/publish', { as, body: { topic: 'a', data: 1 } })
  expect([publish.status, publish.body.code]).toEqual([403, 'forbidden'])
  const write = await call('POST', DOCUMENTS, { as, body: { n: 1 } })
  expect([write.status, write.body.code]).toEqual([403, 'insufficient_scope'])
})

test('anon key with read scope: collection allows writes: still refused', async () => {
  const collection = 'open'
  const access = { anon: { create: true } }
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: {}, access }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const narrow = { apikey: (await key(['collections:read'], 'anon')).body.key }
  const path = `/v1/collections/${collection}/documents`
  expect((await call('POST', path, { as: workspace.anon, body: { n: 1 } })).status).toBe(201)
  const refused = await call('POST', path, { as: narrow, body: { n: 1 } })
  expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_scope'])
})

describe('tokens', () => {
  test('token: unknown scopes: no restriction; misspelt scope of ours: opens nothing', async () => {
    for (const scope of ['openid profile email', '', 'read:messages', 'mcp:notes:search'])
      expect((await call('GET', DOCUMENTS, { as: await narrowToken(scope) })).status).toBe(200)
    for (const scope of ['collection:read', 'everything:write', 'openid things:read']) {
      const { status, body } = await call('GET', DOCUMENTS, { as: await narrowToken(scope) })
      expect([status, body.code]).toEqual([403, 'insufficient_scope'])
    }
  })

  test.each(ADMINISTRATIVE.map((operation) => [operation.name, operation] as const))(
    'operator token with a scope: %s: refused',
    async (_name, operation) => {
      const as = await tokenOf({ roles: ['operator'], scope: SCOPES.join(' ') })
      const { status, headers, body } = await send(operation, as)
      expect([status, body.code]).toEqual([403, 'insufficient_scope'])
      expect(headers.get('www-authenticate')).toBe('Bearer realm="tenon", error="insufficient_scope"')
    },
  )
})

describe('scopes of a new key', () => {
  const change = (id: string, scopes: readonly string[]) =>
    call('PATCH', `/v1/api-keys/${id}`, { as: workspace.operator, body: { scopes } })

  test('scope: does not exist: refused with the nearest name', async () => {
    const reply = await key(['collections:read', 'colections:read', 'flows:write'])
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect(reply.body.errors).toEqual([
      expect.objectContaining({ pointer: '/scopes/1', detail: expect.stringContaining('collections:read?') }),
      expect.objectContaining({
        pointer: '/scopes/2',
        detail: expect.stringContaining('There is no such scope'),
      }),
    ])
    expect(reply.body.known).toEqual(SCOPES)
    const { id } = await narrowKey('events:read')
    expect((await change(id, ['analytics:write'])).status).toBe(400)
    expect((await key(Array(51).fill('events:read'))).status).toBe(400)
    expect((await change(id, ['events:read', 'events:read'])).body.scopes).toEqual(['events:read'])
  })

  test.each(SCOPES)('anon key: scope %s: accepted for reads, refused for writes', async (scope) => {
    // Anon keys see no payloads.
    const reads = scope.endsWith(':read') && scope !== 'payloads:read'
    const made = await key([scope], 'anon')
    expect(made.status).toBe(reads ? 201 : 400)
    const { body } = await key([], 'anon')
    const changed = await change(body.id, [scope])
    expect(changed.status).toBe(reads ? 200 : 400)
    if (!reads) expect(changed.body.errors[0]).toMatchObject({ pointer: '/scopes/0' })
  })

  test('scope: widened or narrowed: effective at once', async () => {
    const { id, ...as } = await narrowKey('events:read')
    const status = async () => (await call('GET', DOCUMENTS, { as })).status
    expect(await status()).toBe(403)
    await change(id, ['collections:read'])
    expect(await status()).toBe(200)
    await change(id, ['objects:read'])
    expect(await status()).toBe(403)
    await change(id, [])
    expect(await status()).toBe(200)
  })
})

describe('streams', () => {
  const ends = (received: readonly ReceivedEvent[]) =>
    eventually(async () => received.find(({ event }) => event === 'end')?.data.code, 8_000)
  const change = (id: string, body: object) =>
    call('PATCH', `/v1/api-keys/${id}`, { as: workspace.operator, body })

  test.each(['collections.*', 'collections.things.*', 'collections.things.created', 'collections'])(
    'subscription: topic %s: also needs collections:read',
    async (topic) => {
      for (const as of [await narrowKey('events:read'), await narrowToken('events:read')]) {
        const { id: _id, ...caller } = as as Record<string, string>
        const refused = await call('GET', `/v1/events/subscribe?topic=${topic}`, { as: caller })
        expect([refused.status, refused.body.code, refused.body.scope]).toEqual([
          403,
          'insufficient_scope',
          'collections:read',
        ])
      }
      const { id: _id, ...both } = await narrowKey('events:read', 'collections:read')
      await subscribeToEvents(both, `topic=${topic}`)
    },
  )

  test('stream: its key is disabled, rotated or narrowed: ends with the reason', async () => {
    const keys = await Promise.all(
      Array.from({ length: 4 }, () => narrowKey('events:read', 'collections:read')),
    )
    const [disabled, replaced, narrowed, halved] = await Promise.all(
      keys.map(({ id: _id, ...as }) => subscribeToEvents(as, 'topic=collections.things.*')),
    )
    const [one, two, three, four] = keys.map(({ id }) => id)
    await change(one ?? '', { status: 'disabled' })
    const body = { grace_seconds: 0 }
    await call('POST', `/v1/api-keys/${two}/rotate`, { as: workspace.operator, body })
    await change(three ?? '', { scopes: ['objects:read'] })
    await change(four ?? '', { scopes: ['events:read'] })
    expect(
      await Promise.all([disabled, replaced, narrowed, halved].map((received) => ends(received ?? []))),
    ).toEqual(['api_key_disabled', 'api_key_expired', 'insufficient_scope', 'insufficient_scope'])
  })

  test('stream: its key keeps the scope it needs: continues', async () => {
    const { id, ...as } = await narrowKey('events:read', 'collections:read')
    const received = await subscribeToEvents(as, 'topic=collections.kept.*')
    await change(id, { name: 'renamed', scopes: ['collections:read', 'events:read', 'objects:read'] })
    const made = await call('POST', '/v1/collections/kept/documents', {
      as: workspace.service,
      body: { n: 1 },
    })
    expect(made.status).toBe(201)
    await receivedAtLeast(received, 1)
  })
})

test('platform MCP server: narrowed token: tools are narrowed too', async () => {
  const call = async (scope: string) => {
    const url = new URL(`${inject('tenon').url}/v1/mcp/platform/mcp`)
    const client = new Client({ name: 'test', version: '1' })
    const transport = new StreamableHTTPClientTransport(url, {
      requestInit: { headers: await narrowToken(scope) },
    })
    await client.connect(transport as Parameters<typeof client.connect>[0])
    try {
      return await client.callTool({ name: 'collections_list', arguments: {} })
    } finally {
      await client.close()
    }
  }
  expect(await call('collections:read')).toMatchObject({ isError: false })
  expect(await call('events:read')).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('insufficient_scope') }],
  })
})
