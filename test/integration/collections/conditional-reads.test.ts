/** Conditional reads (RFC 9110 §13.1.2), and the round trips that idempotency keys add to a write. */

import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { buildApp } from '../../../src/api/app.ts'
import { openAuthServices } from '../../../src/app/auth-services.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const DOCUMENTS = '/v1/collections/todos/documents'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

test('conditional read: If-None-Match with the current tag: 304 without a body', async () => {
  const as = workspace.service
  const { body } = await call('POST', DOCUMENTS, { as, body: { secret: 'x' } })
  const path = `${DOCUMENTS}/${body.id}`
  const read = (tags: string, method = 'GET') =>
    call(method, path, { as, headers: { 'if-none-match': tags } })
  for (const tags of ['"v1"', 'W/"v1"', '"v0", "v1"', '*'])
    for (const method of ['GET', 'HEAD']) {
      const { status, body: none, headers } = await read(tags, method)
      expect([tags, status, none]).toEqual([tags, 304, ''])
      expect([headers.get('etag'), headers.get('content-type')]).toEqual(['"v1"', null])
      expect(headers.get('cache-control')).toBe('private, no-store')
    }
  for (const tags of ['"v2"', 'v1', '"v1', '', '"v1" "v1"']) {
    const reply = await read(tags)
    expect([tags, reply.status, reply.body.secret]).toEqual([tags, 200, 'x'])
  }
  await call('PUT', path, { as, body: { secret: 'y' } })
  expect((await read('"v1"')).body.secret).toBe('y')
  expect((await read('"v2"')).status).toBe(304)
})

test('conditional read: If-None-Match: * from another workspace: 404; without credentials: 401', async () => {
  const { body } = await call('POST', DOCUMENTS, { as: workspace.service, body: {} })
  const other = await createTestWorkspace()
  const headers = { 'if-none-match': '*' }
  expect((await call('GET', `${DOCUMENTS}/${body.id}`, { as: other.service, headers })).status).toBe(404)
  expect((await call('GET', `${DOCUMENTS}/${body.id}`, { headers })).status).toBe(401)
})

test('conditional write: If-None-Match with a tag: POST does not check it, and is refused; PUT is never 304', async () => {
  const as = workspace.service
  const refused = await call('POST', DOCUMENTS, { as, body: {}, headers: { 'if-none-match': '"v1"' } })
  expect([refused.status, refused.body.code]).toEqual([400, 'condition_unsupported'])
  const { body } = await call('POST', DOCUMENTS, { as, body: {} })
  const headers = { 'if-none-match': '"v2"' }
  const put = await call('PUT', `${DOCUMENTS}/${body.id}`, { as, body: { n: 1 }, headers })
  expect([put.status, put.body.n]).toEqual([200, 1])
})

/** A second API in this process, so that its round trips can be counted. */
async function startLocalApi() {
  const config = parseConfig(inject('tenon').env)
  const { platform, parts } = openPlatform(config, openLog('silent', 'test'))
  const app = await buildApp(platform, openAuthServices(config, parts))
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return { url, close: () => app.close().then(() => platform.close()) }
}

let local: Awaited<ReturnType<typeof startLocalApi>>
beforeAll(async () => {
  local = await startLocalApi()
})
afterAll(() => local.close())

test('round trips: a write: one without an idempotency key, a claim and a transaction with one, one for a replay', async () => {
  const batch = vi.spyOn(Database.prototype, 'batch')
  const transaction = vi.spyOn(Database.prototype, 'transaction')
  // Audit entries are written in the background, in batches.
  const roundTrips = () =>
    batch.mock.calls.filter(([, statements]) => !statements.some(({ text }) => text.includes('append_audit')))
      .length
  const headers = { ...workspace.service, 'content-type': 'application/json' }
  const trips = async (key?: string) => {
    const [before, transactions] = [roundTrips(), transaction.mock.calls.length]
    const sent = { ...headers, ...(key && { 'idempotency-key': key }) }
    const { status } = await fetch(`${local.url}${DOCUMENTS}`, {
      method: 'POST',
      headers: sent,
      body: '{"n":1}',
    })
    expect(status).toBe(201)
    return [roundTrips() - before, transaction.mock.calls.length - transactions]
  }
  // The first request looks up the key and the declaration, which are then cached.
  await trips()
  expect([await trips(), await trips('a'), await trips('a'), await trips('b'), await trips()]).toEqual([
    [1, 0],
    [1, 1],
    [1, 0],
    [1, 1],
    [1, 0],
  ])
  batch.mockRestore()
  transaction.mockRestore()
})
