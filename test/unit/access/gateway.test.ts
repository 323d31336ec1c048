/**
 * Checks that identity headers of a gateway are removed from every form in which Node exposes headers, and no
 * others are.
 */

import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gatewayReader } from '../../../src/access/authentication/credentials.ts'
import { type RawHeaders, sendRaw } from '../../support/clients/raw-http.ts'

const SECRET = 'a secret of thirty-two characters'
const IDENTITY = {
  'x-tenant-id': 'ten_1',
  'x-workspace-id': 'ws_1',
  'x-auth-subject': 'ann',
  'x-pg-role': 'anon',
}
const OTHERS = {
  constructor: 'x',
  'x-tenant': 'y',
  x_tenant_id: 'z',
  'set-cookie': ['a', 'b'],
  'idempotency-key': 'k',
}

let server: Server
beforeAll(async () => {
  const readers: Record<string, ReturnType<typeof gatewayReader>> = {
    '/': gatewayReader(SECRET),
    '/deaf': gatewayReader(undefined),
  }
  const seen = (request: IncomingMessage) => ({
    identity: readers[request.url ?? '']?.(request) ?? null,
    headers: request.headers,
    raw: request.rawHeaders,
    distinct: request.headersDistinct,
  })
  const type = { 'content-type': 'application/json' }
  server = createServer((request, response) =>
    response.writeHead(200, type).end(JSON.stringify(seen(request))),
  )
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
})
afterAll(() => new Promise((done) => server.close(done)))

const send = async (headers: RawHeaders, path = '/') =>
  (await sendRaw(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, headers)).body

test('identity headers: with the gateway secret: are returned as the identity', async () => {
  const { identity } = await send({ ...IDENTITY, 'x-gateway-secret': SECRET })
  expect(identity).toEqual(IDENTITY)
})

test.each([
  ['no secret', {}],
  ['a wrong one', { 'x-gateway-secret': `${SECRET}.` }],
  ['an empty one', { 'x-gateway-secret': '' }],
  ['the right one twice', { 'x-gateway-secret': [SECRET, SECRET] }],
])('identity headers: with %s: are ignored', async (_what, secret) => {
  expect((await send({ ...IDENTITY, ...secret }))['identity']).toBeNull()
})

test('identity headers: no secret is configured: no secret is accepted', async () => {
  for (const secret of ['', 'undefined', 'null'])
    expect((await send({ ...IDENTITY, 'x-gateway-secret': secret }, '/deaf'))['identity']).toBeNull()
})

test('gateway secret: without identity headers: yields no identity', async () => {
  expect((await send({ 'x-gateway-secret': SECRET }))['identity']).toBeNull()
})

test.each(['/', '/deaf'])('identity headers: any request: are removed from it (%s)', async (path) => {
  const plain = await send(OTHERS, path)
  const odd = { 'X-TENANT-ID': ['ten_1', 'ten_10'], 'X-Gateway-Secret': SECRET, 'x-Pg-Role': 'service' }
  for (const identity of [{ ...IDENTITY, 'x-gateway-secret': SECRET }, odd]) {
    const { headers, raw, distinct } = await send({ ...OTHERS, ...identity }, path)
    expect({ headers, raw, distinct }).toEqual({
      headers: plain['headers'],
      raw: plain['raw'],
      distinct: plain['distinct'],
    })
  }
})
