/** Object stores of other workspaces are out of reach: buckets, their names, and paths that lead out of one. */

import { beforeAll, expect, test } from 'vitest'
import { Caller, expectProblem, expectStatus, sendRawPath, str } from '../../support/clients/rest-client.ts'
import {
  createTenantPair,
  expectIsolated,
  expectUnaffected,
  makeKey,
  type World,
  word,
} from '../../support/fixtures/tenant-pair.ts'

let world: World
let path: string

const BINARY = { 'content-type': 'application/x-test' }

beforeAll(async () => {
  world = await createTenantPair({ stores: true })
  path = `/v1/objects/${world.a.bucket}`
  expectStatus(
    await world.a.service.send('PUT', `${path}/first`, { raw: world.a.mark, headers: BINARY }),
    201,
  )
})

test('bucket: of a sibling workspace: refused', async () => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Second', slug: `second-${word()}`, bucket: `second-${word()}` }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  const second = new Caller({ apikey: await makeKey(a.admin, str(made, 'id'), 'service') })
  expectProblem(await second.get(`${path}/first`), 403, 'AccessDenied')
})

test('bucket name: used by another workspace: refused', async () => {
  const { b } = world
  const sent = { tenant_id: b.tenant, name: 'Thief', slug: `thief-${word()}`, bucket: world.a.bucket }
  const made = await b.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectStatus(made, 409)
})

test.each(['*', 'wal*', '%2A', 'Upper', 'a', 'x'.repeat(64)])('bucket name: %s: refused', async (bucket) => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Odd', slug: `odd-${word()}`, bucket }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectProblem(made, made.status === 422 ? 422 : 400)
})

test.each([
  '../x',
  '..%2F..%2Fetc%2Fpasswd',
  '%2e%2e/%2e%2e/x',
  'a/../../b',
  './x',
  'nul%00byte',
  `${'k'.repeat(1025)}`,
])('object key: path traversal or too long (%#): refused', async (key) => {
  const headers = { apikey: world.b.serviceKey, ...BINARY }
  for (const method of ['PUT', 'GET', 'DELETE']) {
    const sent = await sendRawPath(
      method,
      `/v1/objects/${world.b.bucket}/${key}`,
      headers,
      method === 'PUT' ? 'x' : '',
    )
    world.b.transcript.record(sent)
    expectProblem(sent, 400)
  }
  await expectUnaffected(world)
})

test('bucket: path traversal into another: refused', async () => {
  const headers = { apikey: world.b.serviceKey }
  const reply = await sendRawPath('GET', `/v1/objects/${world.b.bucket}/../${world.a.bucket}/first`, headers)
  world.b.transcript.record(reply)
  expect(reply.text).not.toBe(world.a.mark)
  expect([400, 403, 404]).toContain(reply.status)
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world, world.a.bucket))
