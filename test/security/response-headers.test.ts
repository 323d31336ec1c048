/** Response headers that tell browsers not to guess types, not to embed replies elsewhere, and to stay on https. */

import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { startApi } from '../support/api-process.ts'
import { aRoom, type Caller, call, type Room } from '../support/tenants.ts'

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

const DOCUMENTS = '/v1/collections/todos/documents'

type Case = readonly [string, string, string, ((room: Room) => Caller)?, (string | Record<string, unknown>)?]

const CASES: readonly Case[] = [
  ['health check', 'GET', '/healthz'],
  ['JSON of an operation', 'GET', DOCUMENTS, (of) => of.service],
  ['made document', 'POST', DOCUMENTS, (of) => of.service, { title: 'x' }],
  ['refused credential', 'GET', DOCUMENTS],
  ['malformed body', 'POST', DOCUMENTS, (of) => of.service, '{"a":'],
  ['unknown route', 'GET', '/v1/nothing'],
  ['unknown method', 'PATCH', '/v1/tenants'],
  ['malformed path', 'GET', '/%c0%ae'],
  ['OpenAPI document', 'GET', '/openapi.json'],
  ['documentation page', 'GET', '/docs/'],
  ['page of a problem', 'GET', '/docs/problems/forbidden'],
  ['schema of flows', 'GET', '/v1/flows/schema.json'],
  ['keys of the issuer', 'GET', '/auth/jwks'],
  ['refusal of the issuer', 'POST', '/auth/token'],
  ['metadata of the issuer', 'GET', '/.well-known/oauth-authorization-server/auth'],
  ['client registration', 'POST', '/auth/register', undefined, {}],
  ['sign-in page', 'GET', '/auth/invitation?token=none'],
  [
    'MCP message',
    'POST',
    '/v1/mcp/platform/mcp',
    (of) => ({ ...of.operator, accept: 'application/json, text/event-stream' }),
    { jsonrpc: '2.0', id: 1, method: 'ping' },
  ],
  ['event stream', 'GET', '/v1/events/subscribe?topic=a', (of) => of.service],
]

test.each(CASES)(
  '%s – any reply – has nosniff and a resource policy, and no HSTS over http',
  async (...row) => {
    const [, method, path, as, body] = row
    const { headers } = await call(method, path, {
      ...(as && { as: as(room) }),
      ...(body !== undefined && { body }),
    })
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cross-origin-resource-policy')).toBe('same-site')
    expect(headers.get('strict-transport-security')).toBeNull()
  },
)

test('bytes that are no HTTP – the parser refuses them – the reply has nosniff as well', async () => {
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

describe('an API behind https', () => {
  test('any reply – TENON_PUBLIC_URL is https – has HSTS for a year, of this host alone', async () => {
    const { at, stop } = await startApi({ TENON_PUBLIC_URL: 'https://api.example' })
    try {
      const replies = await Promise.all([
        call('GET', '/healthz', { at }),
        call('GET', DOCUMENTS, { at, as: room.service }),
        call('GET', DOCUMENTS, { at }),
        call('GET', '/auth/jwks', { at }),
      ])
      for (const { headers } of replies)
        expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
    } finally {
      await stop()
    }
  })
})
