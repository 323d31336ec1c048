/** One round trip to PostgreSQL for a simple request, counted on the wire: each ends with a Sync or is a query. */

import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { buildApp } from '../../src/api/app.ts'
import { parseConfig } from '../../src/platform/config.ts'
import { openDoorkeeper } from '../../src/platform/identity/doorkeeper.ts'
import { openLog } from '../../src/platform/log.ts'
import { openPlatform, type Platform } from '../../src/platform/platform.ts'
import { aRoom, call, type Room } from '../support/tenants.ts'

const SYNC = 'S'.charCodeAt(0)
const QUERY = 'Q'.charCodeAt(0)

let trips = 0
let wire: Server
let platform: Platform
let app: FastifyInstance
let room: Room

/** The messages of one connection (PostgreSQL manual, "Message Formats"); the first has no letter before its length. */
function counter(): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  let letter = 0
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= letter + 4) {
      const size = letter + rest.readUInt32BE(letter)
      if (rest.length < size) return
      if (letter === 1 && (rest[0] === SYNC || rest[0] === QUERY)) trips += 1
      letter = 1
      rest = rest.subarray(size)
    }
  }
}

/** Between the application and PostgreSQL, passing on what it counts. */
async function countingWire({ hostname, port }: URL): Promise<Server> {
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    client.on('data', counter())
    client.pipe(upstream).pipe(client)
    for (const end of [client, upstream]) end.on('error', () => client.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return server
}

beforeAll(async () => {
  const { env } = inject('tenon')
  const url = new URL(env['DATABASE_APP_URL'] ?? '')
  wire = await countingWire(url)
  url.port = String((wire.address() as AddressInfo).port)
  const config = parseConfig({ ...env, DATABASE_APP_URL: url.href })
  const opened = openPlatform(config, openLog('silent', 'test'))
  platform = opened.platform
  app = await buildApp(platform, openDoorkeeper(config, opened.parts))
  room = await aRoom()
  const properties = { title: { type: 'string' }, n: { type: 'integer' } }
  const schema = { type: 'object', required: ['title'], properties, additionalProperties: false }
  const body = { workspace_id: room.workspaceId, collection: 'declared', store: 'relational', schema }
  expect((await call('POST', '/v1/schemas', { as: room.operator, body })).status).toBe(201)
})
afterAll(async () => {
  await app.close()
  await platform.close()
  await new Promise((done) => wire.close(done))
})

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

async function ask(method: Method, url: string, payload?: object) {
  const reply = await app.inject({ method, url, headers: room.service, ...(payload && { payload }) })
  if (reply.statusCode >= 300) throw new Error(`${method} ${url} answered ${reply.body}`)
  return reply.json()
}

/** What the request costs once the key and the declaration are remembered. */
async function tripsOf(method: Method, url: string, payload?: object): Promise<number> {
  await ask('GET', `${url.replace(/(\/documents|\/query|\?).*$/, '')}/documents`)
  // What is counted in the background is written now, and not again for a while.
  await Promise.all([platform.meters.flush(), platform.audit.flush()])
  const before = trips
  await ask(method, url, payload)
  return trips - before
}

test.each(['undeclared', 'declared'])('%s: a simple request is one round trip', async (name) => {
  const base = `/v1/collections/${name}`
  const documents = `${base}/documents`
  const { id } = await ask('POST', documents, { title: 'a', n: 1 })
  for (const n of [2, 3]) await ask('POST', documents, { title: 'b', n })
  const list = `${documents}?title=eq.b&order=n.desc&page[size]=1`
  const { page } = await ask('GET', list)
  const costs = {
    create: await tripsOf('POST', documents, { title: 'c', n: 4 }),
    get: await tripsOf('GET', `${documents}/${id}`),
    list: await tripsOf('GET', list),
    'list, next page': await tripsOf('GET', `${list}&page[after]=${page.next}`),
    'list, counted': await tripsOf('GET', `${list}&count=exact`),
    query: await tripsOf('POST', `${base}/query`, { filter: { n: { gte: 2 } }, sort: { n: -1 } }),
    update: await tripsOf('PUT', `${documents}/${id}`, { n: 5 }),
    delete: await tripsOf('DELETE', `${documents}/${id}`),
  }
  expect(costs).toEqual(Object.fromEntries(Object.keys(costs).map((what) => [what, 1])))
})

test('a merge patch reads before it writes: two round trips', async () => {
  const documents = '/v1/collections/undeclared/documents'
  const { id } = await ask('POST', documents, { n: 1 })
  expect(await tripsOf('PATCH', `${documents}/${id}`, { n: 2 })).toBe(2)
})

test('the wire sees what is more than one', async () => {
  await Promise.all([platform.meters.flush(), platform.audit.flush()])
  const before = trips
  await Promise.all([ask('GET', '/healthz'), ask('GET', '/readyz'), ask('GET', '/readyz')])
  expect(trips - before).toBe(2)
})
