/** MCP clients discover the issuer from the server's address, get a token, and request further scopes. */

import { request } from 'node:http'
import { ClientCredentialsProvider as ModernProvider } from '@modelcontextprotocol/client'
import { ClientCredentialsProvider as LegacyProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import { beforeAll, expect, inject, test } from 'vitest'
import { MCP_LIMITS } from '../../../src/features/mcp-servers/limits.ts'
import { ok, type PublishedMcpServer, publishMcpServer, scopesOf } from '../../support/clients/mcp.ts'
import { connectLegacy, connectModern } from '../../support/clients/mcp-sdk.ts'
import { asSuperuser, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

let mcpServer: PublishedMcpServer
let options: { clientId: string; clientSecret: string; expectedIssuer: string }
beforeAll(async () => {
  mcpServer = await publishMcpServer(await createTestWorkspace(), 'oauth')
  const as = mcpServer.workspace.operator
  const made = await ok(call('POST', `${mcpServer.base}/clients`, { as, body: { name: 'agent' } }))
  options = {
    clientId: made.client_id,
    clientSecret: made.client_secret,
    expectedIssuer: `${inject('tenon').url}/auth`,
  }
})

const READS = ['notes_get', 'notes_list']
const note = { name: 'notes_create', arguments: { document: { text: 'up' } } }

test('client of 2025: gets read scopes by itself, a write scope if configured', async () => {
  const connect = async (scope?: string) => {
    const authProvider = new LegacyProvider({ ...options, ...(scope && { scope }) })
    return (await connectLegacy(mcpServer.url, { authProvider })).client
  }
  const client = await connect()
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(READS)
  await client.close()
  // Without a browser its SDK does not request the scope of a challenge; the scope is configured.
  const configured = await connect(scopesOf(mcpServer, 'notes_create'))
  expect((await configured.callTool(note)).structuredContent).toMatchObject({ text: 'up' })
  await configured.close()
})

test('client of 2026: requests the write scope when a call needs it', async () => {
  const authProvider = new ModernProvider(options)
  const { client } = await connectModern(mcpServer.url, { authProvider })
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(READS)
  expect((await client.callTool(note)).structuredContent).toMatchObject({ text: 'up' })
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['notes_create', ...READS])
  await client.close()
})

test('forged Host header: metadata shows the configured address (T21)', async () => {
  const { hostname, port } = new URL(mcpServer.url)
  const read = (path: string) =>
    new Promise<string>((resolve, reject) => {
      const headers = { host: 'evil.test', 'x-forwarded-host': 'evil.test', 'x-forwarded-proto': 'https' }
      request({ hostname, port, path, headers }, (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve(text))
      })
        .on('error', reject)
        .end()
    })
  for (const path of [
    `/.well-known/oauth-protected-resource${mcpServer.path}`,
    '/.well-known/oauth-authorization-server/auth',
    '/.well-known/oauth-authorization-server',
    '/.well-known/openid-configuration',
    '/auth/.well-known/openid-configuration',
  ]) {
    const text = await read(path)
    expect(text).toContain(inject('tenon').url)
    expect(text).not.toContain('evil')
  }
})

test('unauthenticated calls: logged up to a limit per minute', async () => {
  const { workspace, path, id } = await publishMcpServer(await createTestWorkspace(), 'strangers')
  const max = MCP_LIMITS.deniedRecordedPerMinuteMax
  const as = (n: number) => (n % 2 === 0 ? {} : { authorization: 'Bearer x' })
  const replies = await Promise.all(
    Array.from({ length: 3 * max }, (_, n) => call('POST', path, { as: as(n), body: {} })),
  )
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([401]))
  const rows = await asSuperuser('select from tenon.mcp_calls where tenant_id = $1 and server_id = $2', [
    workspace.tenantId,
    id,
  ])
  // Twice the limit if a new minute began meanwhile.
  expect(rows.length).toBeGreaterThanOrEqual(max)
  expect(rows.length).toBeLessThanOrEqual(2 * max)
})
