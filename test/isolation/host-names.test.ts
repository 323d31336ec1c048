/** Sweeps every operation at the host name of a workspace: credentials of others are unknown there, and routes of operators do not exist. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PUBLIC_OBJECTS } from '../../src/api/public-objects.ts'
import type { AnyOperation } from '../../src/core/operation.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { sign as signDelivery } from '../../src/features/runs/triggers/standard-webhooks.ts'
import { sendRaw } from '../support/clients/raw-http.ts'
import { createStorageKey, type StorageKey } from '../support/clients/s3.ts'
import { sign } from '../support/clients/s3-signer.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
  userToken,
} from '../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../support/stack/gateway.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'

let node: Node
let ours: World
/** Names of a sibling of our workspace, and of a workspace of another tenant. */
let names: readonly string[]
let callers: Readonly<Record<string, Caller>>
/** Credentials of each form that nobody has made. */
const UNKNOWN = {
  key: { apikey: 'svc_service_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA00000000' },
  token: { authorization: 'Bearer garbage' },
}

beforeAll(async () => {
  node = await startInProcessNode()
  const [workspace, other] = await Promise.all([
    createTestWorkspace(undefined, true),
    createTestWorkspace(undefined, true),
  ])
  const sibling = await addTestWorkspaceWithStorage(workspace)
  ours = await createSweepResources(workspace)
  names = await Promise.all([sibling, other].map(give))
  const { tenantId: tenant_id, workspaceId: workspace_id } = workspace
  callers = {
    service: workspace.service,
    anon: workspace.anon,
    user: await userToken(workspace, 'mia'),
    workspaceAdmin: await tokenOf({ roles: ['workspace_admin'], tenant_id, workspace_id }),
    tenantAdmin: await tokenOf({ roles: ['tenant_admin'], tenant_id }),
    operator: workspace.operator,
    gateway: gatewayHeaders(workspace),
  }
})
afterAll(() => node?.close())

/** A name that the workspace has proved; how it does is tested elsewhere. */
async function give({ tenantId, workspaceId }: TestWorkspace): Promise<string> {
  const host = `${unique('shop')}.example`
  await asSuperuser(
    "insert into tenon.hosts (tenant_id, workspace_id, host, proof, verified_at) values ($1, $2, $3, 'x', now())",
    [tenantId, workspaceId, host],
  )
  return host
}

async function answer({ name, http }: AnyOperation, as: Caller, host: string) {
  const row = ROWS[name]
  const body = row?.body?.(ours)
  const headers = {
    ...{ host, ...as, ...row?.headers?.(ours) },
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const url = `${node.at.url}${row?.path(ours)}`
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
  const reply = await sendRaw(url, headers, http.method, text)
  const { request_id: _, instance: __, ...told } = reply.body
  return [reply.status, reply.headers['x-problem-code'], reply.headers['www-authenticate'], told]
}

const OF_WORKSPACES = ['workspace_admin', 'service', 'user', 'anon']

describe.each(OPERATIONS.map((operation) => [operation.name, operation] as const))(
  '%s',
  (_name, operation) => {
    test('at the name of another workspace: each credential is answered as an unknown one', async () => {
      const isThere = operation.roles.some((role) => OF_WORKSPACES.includes(role))
      for (const host of names) {
        const unknown = {
          key: await answer(operation, UNKNOWN.key, host),
          token: await answer(operation, UNKNOWN.token, host),
        }
        expect(unknown.key[0]).toBe(isThere ? 401 : 404)
        for (const [who, as] of Object.entries(callers)) {
          const expected = 'apikey' in as ? unknown.key : unknown.token
          const found = await answer(operation, as, host)
          if (who === 'gateway' && isThere)
            expect([who, found.slice(0, 2)]).toEqual([who, [401, 'gateway_identity_invalid']])
          else expect([who, found]).toEqual([who, expected])
        }
      }
    })
  },
)

test('link, webhook, callback and public object of another workspace: are answered as unknown ones', async () => {
  const { workspace, bucket, webhookId } = ours
  const as = workspace.operator
  const body = {
    workspace_id: workspace.workspaceId,
    anon: { objects: 'public' },
    objects: { public_read: ['secrets/'] },
  }
  expect((await call('POST', '/v1/services/configure', { as, body })).status).toBe(200)
  const signed = await call('POST', `/v1/buckets/${bucket}/presign`, {
    as: workspace.service,
    body: { key: 'secrets/plan', method: 'GET' },
  })
  const link = new URL(signed.body.url)
  const own = await give(workspace)
  const at = async (host: string, path: string, method = 'GET') => {
    const { status, headers } = await sendRaw(`${node.at.url}${path}`, { host }, method)
    return [status, headers['x-problem-code']]
  }
  const linked = `${link.pathname}${link.search}`
  const open = `${PUBLIC_OBJECTS}${bucket}/secrets/plan`
  const hook = `/v1/flows/workspaces/${workspace.workspaceId}/triggers/${webhookId}`
  expect(await at(own, linked)).toEqual([200, undefined])
  expect(await at(own, open)).toEqual([200, undefined])
  for (const host of names) {
    expect(await at(host, linked)).toEqual([403, 'link_invalid'])
    expect(await at(host, open)).toEqual(await at(host, `${PUBLIC_OBJECTS}no-such-bucket/a`))
    expect(await at(host, hook, 'POST')).toEqual(await at(host, hook.replace(/.$/, 'x'), 'POST'))
  }
})

test('storage key of another workspace: is answered as an unknown one', async () => {
  const key = await createStorageKey(ours.workspace)
  const own = await give(ours.workspace)
  const at = async (host: string, as: StorageKey) => {
    const { target, headers } = sign({ method: 'GET', host, path: '/s3/', key: as })
    const reply = await sendRaw(`${node.at.url}${target}`, headers)
    return [reply.status, reply.headers['x-problem-code']]
  }
  expect(await at(own, key)).toEqual([200, undefined])
  for (const host of names)
    expect(await at(host, key)).toEqual(await at(host, { ...key, id: `${key.id.slice(0, -1)}x` }))
})

/** Publishes a flow that a signed delivery starts, and that answers a challenge. */
async function createWebhook({ flows, operator: as }: TestWorkspace) {
  const name = unique('hook')
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }
schedule: { webhook: { challenge: hub.challenge } }
do: [{ a: { set: {} } }]`
  await call('POST', `${flows}/definitions`, { as, body: { source } })
  const { body } = await call('POST', `${flows}/definitions/${name}/versions`, { as, body: {} })
  return { path: new URL(body.webhooks[0].url).pathname, secret: String(body.webhooks[0].secret) }
}

test('delivery, challenge and callback with the right secret: count at names of their own workspace alone', async () => {
  const { workspace } = ours
  const { path, secret } = await createWebhook(workspace)
  const [id, token] = [randomUUID(), 'a token']
  await asSuperuser(
    `insert into tenon.callbacks (tenant_id, workspace_id, id, execution_id, workflow_id, step, token_sha256, expires_at, delivered)
     values ($1, $2, $3, $4, 'none', 'a#0', sha256($5), now() + interval '1 day', true)`,
    [workspace.tenantId, workspace.workspaceId, id, ours.executionId, token],
  )
  const callback = `/v1/flows/workspaces/${workspace.workspaceId}/callbacks/${id}?token=${encodeURIComponent(token)}`
  const json = { 'content-type': 'application/json' }
  const send = async (host: string, target: string, method: string, headers = {}, body?: string) => {
    const reply = await sendRaw(`${node.at.url}${target}`, { host, ...headers }, method, body)
    return [reply.status, reply.headers['x-problem-code']]
  }
  const deliver = (host: string) => {
    const seconds = Math.floor(Date.now() / 1_000)
    const message = unique('msg')
    const signed = {
      ...{ 'webhook-id': message, 'webhook-timestamp': String(seconds) },
      'webhook-signature': signDelivery(secret, message, seconds, Buffer.from('{}')),
    }
    return send(host, path, 'POST', { ...json, ...signed }, '{}')
  }
  const challenge = (host: string) => send(host, `${path}?hub.challenge=yes`, 'GET')
  const callBack = (host: string) => send(host, callback, 'POST', json, '{}')
  const own = await give(workspace)
  expect(await deliver(own)).toEqual([202, undefined])
  expect(await challenge(own)).toEqual([200, undefined])
  // It was used before.
  expect(await callBack(own)).toEqual([409, 'state_conflict'])
  for (const host of names) {
    expect(await deliver(host)).toEqual([401, 'signature_invalid'])
    expect(await challenge(host)).toEqual([405, 'method_not_allowed'])
    expect(await callBack(host)).toEqual([404, 'not_found'])
  }
})
