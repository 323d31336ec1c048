/** Requests in progress when a tenant is suspended: uploads, downloads, imports, MCP servers, token issuer. */

import { request } from 'node:http'
import { beforeAll, expect, inject, test } from 'vitest'
import { addAccount, addClient, bearer, refresh, tokensOf } from '../../support/clients/browser.ts'
import { askToken, callTool, publishMcpServer, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { lines, openImport } from '../../support/clients/ndjson.ts'
import { documents, resume, suspend } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
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
    headers: { ...workspace.service, 'content-type': 'text/plain' },
  })
  const answered = new Promise<number>((resolve, reject) => {
    sent.on('error', reject).on('response', (response) => resolve(response.resume().statusCode ?? 0))
  })
  const stop = await writeRepeatedly(() => sent.write('x'.repeat(1_000)))
  await suspend(workspace)
  const elapsedMs = stopwatch()
  expect(await answered).toBe(403)
  expect(elapsedMs()).toBeLessThan(5_000)
  stop()
  sent.destroy()
  await resume(workspace)
  const { status } = await eventually(async () => {
    const reply = await call('GET', `/v1/objects/${bucket}/slow`, { as: workspace.service })
    return reply.body.code === 'AccessDenied' ? undefined : reply
  }, 5_000)
  expect(status).toBe(404)
})

test('download in progress: aborted', async () => {
  const large = 'x'.repeat(30_000_000)
  const path = `/v1/objects/${bucket}/large`
  expect((await call('PUT', path, { as: workspace.service, body: large })).status).toBe(201)
  const response = await fetch(`${inject('tenon').url}${path}`, { headers: workspace.service })
  const reader = response.body?.getReader()
  await reader?.read()
  await suspend(workspace)
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
  await resume(workspace)
})

test('import in progress: refused within 5 s, documents imported before are kept', async () => {
  const other = await createTestWorkspace()
  const { sent, reply } = openImport('lines', { as: other.service })
  let n = 0
  const stop = await writeRepeatedly(() => sent.write(lines({ n: n++ })))
  await suspend(other)
  const elapsedMs = stopwatch()
  const { body } = await reply
  expect(body.code).toBe('tenant_suspended')
  expect(elapsedMs()).toBeLessThan(5_000)
  stop()
  sent.destroy()
  const before = await asSuperuser('select from tenon.documents where tenant_id = $1', [other.tenantId])
  await resume(other)
  expect(await documents(other, 'lines')).toHaveLength(before.length)
})

test('MCP server: 404 and no new tokens until resume', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), 'rest')
  const scope = scopesOf(mcpServer, 'notes_list')
  const token: Caller = await tokenFor(mcpServer, scope)
  const callList = () => callTool(mcpServer.path, token, 'notes_list')
  expect((await callList()).status).toBe(200)
  await suspend(mcpServer.workspace)
  expect((await callList()).status).toBe(404)
  const refused = await askToken({ resource: mcpServer.url, scope })
  expect([refused.status, refused.body['error']]).toEqual([400, 'invalid_target'])
  const called = await call('POST', `${mcpServer.base}/call`, {
    as: mcpServer.workspace.operator,
    body: { tool: 'notes_list', arguments: {} },
  })
  expect([called.status, called.body.code]).toEqual([403, 'tenant_suspended'])
  await resume(mcpServer.workspace)
  expect((await callList()).status).toBe(200)
  expect((await askToken({ resource: mcpServer.url, scope })).status).toBe(200)
})

test('issuer: no tokens for clients and accounts of the tenant; earlier tokens work again after resume', async () => {
  const home = await createTestWorkspace()
  const as = home.operator
  const bounds = { tenant_id: home.tenantId, workspace_id: home.workspaceId }
  const body = { kind: 'machine', name: 'ci', role: 'service', ...bounds }
  const made = (await call('POST', '/v1/oauth-clients', { as, body })).body
  const machine = { id: made.client_id, secret: made.client_secret }
  const person = await addAccount(as, { role: 'tenant_admin', tenant_id: home.tenantId })
  const clientId = await addClient(as)
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
