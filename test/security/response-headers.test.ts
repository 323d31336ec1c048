/** Security headers of responses: no type sniffing, no cross-site embedding, HSTS behind https. */

import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { type Caller, call, createTestWorkspace, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const DOCUMENTS = '/v1/collections/todos/documents'

interface Case {
  readonly name: string
  readonly method?: string
  readonly path: string
  readonly as?: (workspace: TestWorkspace) => Caller
  readonly body?: unknown
}

const service = (of: TestWorkspace) => of.service
const agent = (of: TestWorkspace) => ({ ...of.operator, accept: 'application/json, text/event-stream' })
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' }

const CASES: readonly Case[] = [
  { name: 'health check', path: '/healthz' },
  { name: 'JSON of an operation', path: DOCUMENTS, as: service },
  { name: 'made document', method: 'POST', path: DOCUMENTS, as: service, body: { title: 'x' } },
  { name: 'refused credential', path: DOCUMENTS },
  { name: 'malformed body', method: 'POST', path: DOCUMENTS, as: service, body: '{"a":' },
  { name: 'unknown route', path: '/v1/nothing' },
  { name: 'unknown method', method: 'PATCH', path: '/v1/tenants' },
  { name: 'malformed path', path: '/%c0%ae' },
  { name: 'OpenAPI document', path: '/openapi.json' },
  { name: 'text for language models', path: '/llms.txt' },
  { name: 'documentation page', path: '/docs/' },
  { name: 'page of a problem', path: '/docs/problems/forbidden' },
  { name: 'schema of flows', path: '/v1/flows/schema.json' },
  { name: 'keys of the issuer', path: '/auth/jwks' },
  { name: 'refusal of the issuer', method: 'POST', path: '/auth/token' },
  { name: 'metadata of the issuer', path: '/.well-known/oauth-authorization-server/auth' },
  { name: 'client registration', method: 'POST', path: '/auth/register', body: {} },
  { name: 'sign-in page', path: '/auth/invitation?token=none' },
  { name: 'MCP message', method: 'POST', path: '/v1/mcp/platform/mcp', as: agent, body: PING },
  { name: 'event stream', path: '/v1/events/subscribe?topic=a', as: service },
]

test.each(CASES)('$name: has nosniff and a resource policy, no HSTS over http', async (request) => {
  const { method = 'GET', path, as, body } = request
  const { headers } = await call(method, path, { ...(as && { as: as(workspace) }), body })
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('cross-origin-resource-policy')).toBe('same-site')
  expect(headers.get('strict-transport-security')).toBeNull()
})

test('bytes that are not HTTP: the refusal has nosniff as well', async () => {
  const { hostname, port } = new URL(inject('tenon').url)
  const text = await new Promise<string>((done, fail) => {
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write('NONSENSE\r\n\r\n'))
    socket.on('data', (chunk) => (got += chunk.toString())).once('close', () => done(got))
    socket.once('error', fail)
  })
  expect(text).toMatch(/^HTTP\/1\.1 400 /)
  expect(text).toContain('\r\nx-content-type-options: nosniff\r\n')
  expect(text).toContain('\r\ncross-origin-resource-policy: same-site\r\n')
})

describe('API behind https', () => {
  test('any response: HSTS for a year, for this host only', async () => {
    const { at, close } = await startInProcessNode({ TENON_PUBLIC_URL: 'https://api.example' })
    try {
      const replies = await Promise.all([
        call('GET', '/healthz', { at }),
        call('GET', DOCUMENTS, { at, as: workspace.service }),
        call('GET', DOCUMENTS, { at }),
        call('GET', '/auth/jwks', { at }),
      ])
      for (const { headers } of replies)
        expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
    } finally {
      await close()
    }
  })
})
