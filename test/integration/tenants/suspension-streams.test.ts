/** Requests in progress when a tenant is suspended: uploads, downloads, imports, MCP servers, token issuer. */

import { request } from 'node:http'
import { beforeAll, expect, inject, test } from 'vitest'
import { aClient, aPerson, bearer, refresh, tokensOf } from '../../support/clients/browser.ts'
import { aServer, askToken, callTool, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { lines, openImport } from '../../support/clients/ndjson.ts'
import { identityOf } from '../../support/clients/object-store.ts'
import { documents, resume, suspend } from '../../support/fixtures/suspension.ts'
import {
  aRoom,
  aStoringRoom,
  asSuperuser,
  type Caller,
  call,
  eventually,
  type Room,
} from '../../support/fixtures/tenants.ts'

let room: Room
let bucket: string
beforeAll(async () => {
  room = await aStoringRoom()
  bucket = (await identityOf(room)).bucket
})

/** Calls `write` at intervals; returns once it ran several times. @returns a function that stops it */
async function writeRepeatedly(write: () => void): Promise<() => void> {
  let pieces = 0
  const timer = setInterval(() => {
    write()
    pieces++
  }, 200)
  await eventually(async () => (pieces >= 6 ? true : undefined))
  return () => clearInterval(timer)
}

test('upload in progress: refused within 5 s, nothing is stored', async () => {
  const { url } = inject('tenon')
  const sent = request(`${url}/v1/objects/${bucket}/slow`, {
    method: 'PUT',
    headers: { ...room.service, 'content-type': 'text/plain' },
  })
  const answered = new Promise<number>((resolve, reject) => {
    sent.on('error', reject).on('response', (response) => resolve(response.resume().statusCode ?? 0))
  })
  const stop = await writeRepeatedly(() => sent.write('x'.repeat(1_000)))
  await suspend(room)
  const suspendedMs = performance.now()
  expect(await answered).toBe(403)
  expect(performance.now() - suspendedMs).toBeLessThan(5_000)
  stop()
  sent.destroy()
  await resume(room)
  const { status } = await eventually(async () => {
    const reply = await call('GET', `/v1/objects/${bucket}/slow`, { as: room.service })
    return reply.body.code === 'AccessDenied' ? undefined : reply
  }, 5_000)
  expect(status).toBe(404)
})

test('download in progress: aborted', async () => {
  const large = 'x'.repeat(30_000_000)
  const path = `/v1/objects/${bucket}/large`
  expect((await call('PUT', path, { as: room.service, body: large })).status).toBe(201)
  const response = await fetch(`${inject('tenon').url}${path}`, { headers: room.service })
  const reader = response.body?.getReader()
  await reader?.read()
  await suspend(room)
  let bytes = 0
  const stop = Date.now() + 1_500
  const reading = (async () => {
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      bytes += part.value.byteLength
      // A slow reader: the server has most of the object left to send when it checks again.
      if (Date.now() < stop) await new Promise((done) => setTimeout(done, 100))
    }
  })()
  await expect(reading).rejects.toThrow()
  expect(bytes).toBeLessThan(large.length)
  await resume(room)
})

test('import in progress: refused within 5 s, documents imported before are kept', async () => {
  const other = await aRoom()
  const { sent, reply } = openImport('lines', { as: other.service })
  let n = 0
  const stop = await writeRepeatedly(() => sent.write(lines({ n: n++ })))
  await suspend(other)
  const suspendedMs = performance.now()
  const { body } = await reply
  expect(body.code).toBe('tenant_suspended')
  expect(performance.now() - suspendedMs).toBeLessThan(5_000)
  stop()
  sent.destroy()
  const before = await asSuperuser('select from tenon.documents where tenant_id = $1', [other.tenantId])
  await resume(other)
  expect(await documents(other, 'lines')).toHaveLength(before.length)
})

test('MCP server: 404 and no new tokens until resume', async () => {
  const hosted = await aServer(await aRoom(), 'rest')
  const scope = scopesOf(hosted, 'notes_list')
  const token: Caller = await tokenFor(hosted, scope)
  const callList = () => callTool(hosted.path, token, 'notes_list')
  expect((await callList()).status).toBe(200)
  await suspend(hosted.room)
  expect((await callList()).status).toBe(404)
  const refused = await askToken({ resource: hosted.url, scope })
  expect([refused.status, refused.body['error']]).toEqual([400, 'invalid_target'])
  const called = await call('POST', `${hosted.base}/call`, {
    as: hosted.room.operator,
    body: { tool: 'notes_list', arguments: {} },
  })
  expect([called.status, called.body.code]).toEqual([403, 'tenant_suspended'])
  await resume(hosted.room)
  expect((await callList()).status).toBe(200)
  expect((await askToken({ resource: hosted.url, scope })).status).toBe(200)
})

test('issuer: no tokens for clients and accounts of the tenant; earlier tokens work again after resume', async () => {
  const home = await aRoom()
  const as = home.operator
  const bounds = { tenant_id: home.tenantId, workspace_id: home.workspaceId }
  const body = { kind: 'machine', name: 'ci', role: 'service', ...bounds }
  const made = (await call('POST', '/v1/oauth-clients', { as, body })).body
  const machine = { id: made.client_id, secret: made.client_secret }
  const person = await aPerson(as, { role: 'tenant_admin', tenant_id: home.tenantId })
  const clientId = await aClient(as)
  const machines = await askToken({}, machine)
  const people = await tokensOf(clientId, person)
  const read = async (token: string | undefined, path: string) => {
    const reply = await call('GET', path, { as: bearer(token) })
    return reply.body.code ?? reply.status
  }
  const reads = () =>
    Promise.all([
      read(machines.body['access_token'], '/v1/collections'),
      read(people.body['access_token'], '/v1/workspaces'),
    ])
  expect(await reads()).toEqual([200, 200])
  await suspend(home)
  expect(await reads()).toEqual(['tenant_suspended', 'tenant_suspended'])
  await eventually(async () => ((await askToken({}, machine)).status === 200 ? undefined : true), 5_000)
  const refused = await refresh(clientId, people.body['refresh_token'])
  expect([refused.status, refused.body['error']]).toEqual([400, 'invalid_grant'])
  await expect(tokensOf(clientId, person)).rejects.toThrow()
  await resume(home)
  expect(await reads()).toEqual([200, 200])
  await eventually(async () => ((await askToken({}, machine)).status === 200 ? true : undefined), 5_000)
  expect((await refresh(clientId, people.body['refresh_token'])).status).toBe(200)
  expect((await tokensOf(clientId, person)).status).toBe(200)
})
