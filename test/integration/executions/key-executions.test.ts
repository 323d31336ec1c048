// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Backends start and follow executions with a service key: scopes, isolation, waiting, streams, rate limit. */

import { beforeAll, describe, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

const WAIT = { prefer: 'wait=20' }

let workspace: TestWorkspace
let executions: Executions
let as: Caller
let flow: string
let listener: string

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  as = workspace.service
  flow = await executions.publish('  - greet: { set: { said: \'${ "hi " + .name }\' } }')
  listener = await executions.publish('  - hear: { listen: { to: { one: { with: { type: paid } } } } }')
})

const start = (name: string, body: object, more: { as?: Caller; headers?: Record<string, string> } = {}) =>
  call('POST', `/v1/flows/${name}/executions`, { as, body, ...more })
const read = (path: string, more: { as?: Caller; headers?: Record<string, string> } = {}) =>
  call('GET', `/v1/flows${path}`, { as, ...more })

describe('service key', () => {
  test('start with Prefer: wait: answers the ended execution, started by the key', async () => {
    const { status, body } = await start(flow, { input: { name: 'ada' } }, { headers: WAIT })
    expect([status, body.status, body.output]).toEqual([201, 'completed', { said: 'hi ada' }])
    expect(body.started_by).toMatch(/^key_/)
    expect((await read(`/executions/${body.id}`)).body).toMatchObject({ id: body.id, status: 'completed' })
    expect((await read(`/${flow}/executions?status=completed`)).body.data).toContainEqual(
      expect.objectContaining({ id: body.id }),
    )
  })

  test('start repeated with an Idempotency-Key: one execution', async () => {
    const headers = { 'idempotency-key': unique('k') }
    const first = await start(flow, { input: { name: 'bob' } }, { headers })
    const again = await start(flow, { input: { name: 'bob' } }, { headers })
    expect([again.status, again.body.id]).toEqual([201, first.body.id])
  })

  test('start of a version or alias, an unknown flow, invalid combinations: as for admins', async () => {
    expect((await start(flow, { version: 1 })).status).toBe(201)
    expect((await start(flow, { version: 7 })).status).toBe(404)
    expect((await start('nothing', {})).status).toBe(404)
    expect((await start(flow, { version: 1, alias: 'x' })).body.code).toBe('validation_failed')
    expect((await start(flow, { ws: workspace.workspaceId })).status).toBe(400)
  })

  test('result: 202 while it runs, 200 with the output, waits for the end', async () => {
    const { id } = (await start(listener, {})).body
    const early = await read(`/executions/${id}/result`, { headers: { prefer: 'wait=0' } })
    expect([early.status, early.body.output]).toEqual([202, null])
    const late = read(`/executions/${id}/result`, { headers: WAIT })
    await executions.shown(id, 'waiting')
    expect((await executions.send(id, 'signal', { event: { type: 'paid', data: { sum: 3 } } })).status).toBe(
      202,
    )
    expect(await late.then(({ status, body }) => [status, body.status])).toEqual([200, 'completed'])
    expect((await read(`/executions/${id}/result`)).body.output).toBeTruthy()
  })

  test('events: streams the past and the end', async () => {
    const { id } = (await start(flow, { input: { name: 'x' } }, { headers: WAIT })).body
    const stream = await read(`/executions/${id}/events`)
    expect([stream.status, stream.headers.get('content-type')]).toEqual([
      200,
      expect.stringMatching(/event-stream/),
    ])
  })

  test('token with the role service: the same rights', async () => {
    const token = await tokenOf({
      roles: ['service'],
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
    })
    expect((await start(flow, { input: { name: 'x' } }, { as: token })).status).toBe(201)
  })
})

describe('limits of a service key', () => {
  test('scopes: run does not read, read does not start; the challenge names the scope', async () => {
    const keys = keysOf(workspace)
    const run = { apikey: (await keys.make({ scopes: ['flows:run'] })).key }
    const reader = { apikey: (await keys.make({ scopes: ['flows:read'] })).key }
    const made = await start(flow, { input: { name: 'x' } }, { as: run })
    expect(made.status).toBe(201)
    const path = `/executions/${made.body.id}`
    expect((await read(path, { as: reader })).status).toBe(200)
    expect((await read(path, { as: run })).body).toMatchObject({
      code: 'insufficient_scope',
      scope: 'flows:read',
    })
    const refused = await start(flow, {}, { as: reader })
    expect([refused.status, refused.body.scope]).toEqual([403, 'flows:run'])
    expect(refused.headers.get('www-authenticate')).toContain('scope="flows:run"')
    expect((await call('GET', '/v1/collections', { as: run })).status).toBe(403)
  })

  test('another workspace of the tenant: sees neither flow nor execution', async () => {
    const other = await addTestWorkspace(workspace)
    const { id } = (await start(flow, { input: { name: 'x' } })).body
    for (const path of [`/executions/${id}`, `/executions/${id}/result`, `/executions/${id}/events`])
      expect((await read(path, { as: other.service })).status).toBe(404)
    expect((await read(`/${flow}/executions`, { as: other.service })).status).toBe(404)
    expect((await start(flow, {}, { as: other.service })).status).toBe(404)
  })

  test('anon key, admin: refused', async () => {
    expect((await start(flow, {}, { as: workspace.anon })).body.code).toBe('forbidden')
    expect((await start(flow, {}, { as: workspace.operator })).body.code).toBe('privilege_domain_mismatch')
    expect((await call('GET', `${workspace.flows}/executions`, { as })).body.code).toBe(
      'privilege_domain_mismatch',
    )
  })

  test('rate limit: of its own, beside that of data', async () => {
    const slow = { apikey: (await keysOf(workspace).make({ rate_limit: 2 })).key }
    const codes = []
    for (let n = 0; n < 4; n++) codes.push((await read(`/${flow}/executions`, { as: slow })).status)
    expect(codes.at(-1)).toBe(429)
    expect((await call('GET', '/v1/collections', { as: slow })).status).toBe(200)
  })
})
