/** Early refusals of the issuer: slow bodies, invisible characters in names, scopes of other servers. */

import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { API_LIMITS } from '../../src/api/limits.ts'
import { inWorkspace, REDIRECT } from '../support/clients/browser.ts'
import { ok, type PublishedMcpServer, publishMcpServer, serversOf } from '../support/clients/mcp.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'
import { stopwatch } from '../support/stopwatch.ts'

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let other: PublishedMcpServer
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mcpServer = await publishMcpServer(workspace, 'strict')
  other = await publishMcpServer(await createTestWorkspace(), 'elsewhere')
})

interface ClosedConnection {
  readonly text: string
  readonly ms: number
  readonly calmMs: number
}

/** Sends the text, then nothing. @returns the response, and when the connection was closed, by the clock and by a stopwatch */
function sendRaw(text: string): Promise<ClosedConnection> {
  const { hostname, port } = new URL(inject('tenon').url)
  const elapsedMs = stopwatch()
  const startedMs = performance.now()
  return new Promise((resolve, reject) => {
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.setTimeout(40_000, () => socket.destroy(new Error('the connection was not ended')))
    socket.on('data', (chunk) => {
      got += chunk
    })
    socket.on('error', (error) => (got === '' ? reject(error) : undefined))
    socket.on('close', () => resolve({ text: got, ms: performance.now() - startedMs, calmMs: elapsedMs() }))
  })
}

const head = (path: string, type: string) =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: 500\r\n\r\n`
const FORM = 'application/x-www-form-urlencoded'

describe('slow request', () => {
  test.concurrent.each([
    ['/auth/token', FORM],
    ['/auth/revoke', FORM],
    ['/auth/invitation?token=x', FORM],
    ['/auth/register', 'application/json'],
  ])('body at %s: cut off after 10 s', async (path, type) => {
    const { text, ms, calmMs } = await sendRaw(`${head(path, type)}grant_type=client_`)
    expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*body_incomplete/)
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(ms).toBeGreaterThan(API_LIMITS.issuerBodyMs - 500)
    expect(calmMs).toBeLessThan(API_LIMITS.issuerBodyMs + 4_000)
  })

  test.concurrent('header: cut off after 15 s and the next check', async () => {
    const { calmMs } = await sendRaw('POST /auth/token HTTP/1.1\r\nhost: x\r\nx-slow: ')
    expect(calmMs).toBeLessThan(API_LIMITS.headersTimeoutMs + API_LIMITS.connectionsCheckMs + 4_000)
  })
})

const HIDDEN = ['\u202e', '\u2066', '\u200b', '\u00ad', '\u3164', '\u{e0061}', '\u2028', '\u0085']

describe.each(HIDDEN.map((text) => [text.codePointAt(0)?.toString(16), text]))(
  'name with U+%s',
  (_point, hidden) => {
    const name = `Ac${hidden}me`

    test('client that registers itself: refused', async () => {
      const reply = await call('POST', '/auth/register', {
        body: { redirect_uris: [REDIRECT], client_name: name },
      })
      expect([reply.status, reply.body.error]).toEqual([400, 'invalid_client_metadata'])
      expect(reply.body.error_description).toMatch(/^client_name holds the invisible character U\+/)
    })

    test.each([
      [
        'an OAuth client',
        () => ['/v1/oauth-clients', { kind: 'machine', role: 'service', ...inWorkspace(workspace), name }],
      ],
      [
        'an account',
        () => ['/v1/accounts', { role: 'service', ...inWorkspace(workspace), email: 'a@x.test', name }],
      ],
      [
        'an email address',
        () => ['/v1/accounts', { role: 'service', ...inWorkspace(workspace), email: `a${hidden}@x.test` }],
      ],
      ['an agent’s client', () => [`${mcpServer.base}/clients`, { name }]],
      ['a tenant', () => ['/v1/tenants', { name, slug: unique('n') }]],
      ['a workspace', () => ['/v1/workspaces', { tenant_id: workspace.tenantId, name, slug: unique('n') }]],
      ['an API key', () => ['/v1/api-keys', { workspace_id: workspace.workspaceId, kind: 'anon', name }]],
      ['an MCP server', () => [serversOf(workspace), { name, slug: unique('n') }]],
    ] as const)('%s: refused', async (_what, requestOf) => {
      const [path, body] = requestOf() as [string, object]
      const reply = await call('POST', path, { as: workspace.operator, body })
      expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    })
  },
)

test('names in any script, with combining marks or emoji: accepted', async () => {
  for (const name of [
    'Zoë & Søn',
    'Ωmega 株式会社',
    'חברה',
    'نمونه',
    'e\u0301te\u0301',
    'I \u2764\ufe0f it',
    '👩🏽',
  ])
    await ok(call('POST', `${mcpServer.base}/clients`, { as: workspace.operator, body: { name } }))
})

describe('client of an agent', () => {
  const createAgentClient = (scopes: string[], base = mcpServer.base, as = workspace.operator) =>
    call('POST', `${base}/clients`, { as, body: { name: 'agent', scopes } })

  test.each([
    ['another MCP server', ['mcp:elsewhere:notes_get']],
    ['an unknown tool', ['mcp:strict:notes_gte']],
    ['a valid and an invalid one', ['mcp:strict:notes_get', 'mcp:strict:nothing']],
  ])('scope of %s: refused with the available scopes', async (_what, scopes) => {
    const reply = await createAgentClient(scopes)
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect(reply.body.detail).toMatch(
      /is not a scope of the server strict, which offers .*mcp:strict:notes_get/,
    )
    expect(reply.body.errors[0].pointer).toBe(`/scopes/${scopes.length - 1}`)
    expect(reply.body.detail).not.toContain(other.id)
  })

  test('scopes of its server: accepted; any scope before publication: 409', async () => {
    expect((await createAgentClient(['mcp:strict:notes_get', 'mcp:strict:notes_create'])).status).toBe(201)
    const draft = await createTestWorkspace()
    const body = { name: 'Draft', slug: 'draft' }
    await ok(call('POST', serversOf(draft), { as: draft.operator, body }))
    const early = await createAgentClient(
      ['mcp:draft:notes_get'],
      `${serversOf(draft)}/draft`,
      draft.operator,
    )
    expect([early.status, early.body.code]).toEqual([409, 'state_conflict'])
    const all = await call('POST', `${serversOf(draft)}/draft/clients`, {
      as: draft.operator,
      body: { name: 'a' },
    })
    expect(all.status).toBe(201)
  })
})
