/** Excess by one tenant, and use of a credential beyond its rights: no effect on others. */

import { createServer } from 'node:http'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { expect, inject, test } from 'vitest'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

const DOCUMENTS = '/v1/collections/c/documents'

async function runFlow(
  workspace: TestWorkspace,
  name: string,
  tasks: string,
  input: unknown = {},
): Promise<Reply> {
  const head = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }`
  const as = workspace.operator
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as,
    body: { source: `${head}\ndo:\n${tasks}\n` },
  })
  const version = await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as, body: {} })
  expect(version.status, JSON.stringify([made.body, version.body])).toBe(201)
  const headers = { prefer: 'wait=20' }
  return call('POST', `${workspace.flows}/definitions/${name}/executions`, { as, headers, body: { input } })
}

test('flow: multiplies a large value in a loop: faults, other tenants are unaffected', async () => {
  const [greedy, victim] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const input = Array(250_000).fill(0)
  const executions = [1, 2, 3, 4].map((n) =>
    runFlow(greedy, `spin${n}`, "- a: { set: { x: '${ . }' }, then: a }", input),
  )
  const others = await runFlow(victim, 'small', '- a: { set: { ok: true } }')
  expect(others.body.status).toBe('completed')
  for (const { body } of await Promise.all(executions)) {
    expect(body).toMatchObject({ status: 'faulted', error: { type: expect.stringContaining('expression') } })
  }
})

test('reply: request with very many errors: bounded size', async () => {
  const workspace = await createTestWorkspace()
  const key = 'k'.repeat(200_000)
  const inside = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [n, '\u0000']))
  const reply = await call('POST', DOCUMENTS, { as: workspace.service, body: { [key]: inside } })
  expect(reply.status).toBe(400)
  expect(JSON.stringify(reply.body).length).toBeLessThan(20_000)
  const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`${key.slice(0, 150)}${n}`, 1]))
  const admin = await call('POST', '/v1/tenants', { as: workspace.operator, body: unknown })
  expect(admin.status).toBe(400)
  expect(JSON.stringify(admin.body).length).toBeLessThan(20_000)
})

test('suspended tenant: tokens: refused; token with inconsistent claims: refused', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const mixed = await tokenOf({
    roles: ['service'],
    tenant_id: workspace.tenantId,
    workspace_id: other.workspaceId,
  })
  expect((await call('POST', DOCUMENTS, { as: mixed, body: {} })).body.code).toBe('token_invalid')
  await asSuperuser(`update tenon.tenants set state = 'suspended' where id = $1`, [other.tenantId])
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: other.tenantId })
  const data = await tokenOf({
    roles: ['service'],
    tenant_id: other.tenantId,
    workspace_id: other.workspaceId,
  })
  const body = { workspace_id: other.workspaceId, kind: 'service', name: 'x' }
  expect((await call('POST', '/v1/api-keys', { as: admin, body })).body.code).toBe('tenant_suspended')
  expect((await call('POST', DOCUMENTS, { as: data, body: {} })).body.code).toBe('tenant_suspended')
  // Operators may read, and change nothing.
  const flows = { as: other.operator, body: { source: 'x' } }
  expect((await call('POST', `${other.flows}/definitions`, flows)).body.code).toBe('tenant_suspended')
})

test('bucket: exists already: cannot be claimed; scopes: unknown: refused', async () => {
  const workspace = await createTestWorkspace()
  const { env } = inject('tenon')
  const s3 = new S3Client({
    endpoint: env['S3_ENDPOINT'] ?? '',
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: {
      accessKeyId: env['S3_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: env['S3_SECRET_ACCESS_KEY'] ?? '',
    },
  })
  const bucket = unique('backups')
  await s3.send(new CreateBucketCommand({ Bucket: bucket }))
  s3.destroy()
  const body = { tenant_id: workspace.tenantId, name: 'W', slug: unique('w'), bucket }
  const made = await call('POST', '/v1/workspaces', {
    as: workspace.operator,
    body,
    headers: { prefer: 'wait=30' },
  })
  expect(made.body.state).toBe('provisioning_failed')
  const key = { workspace_id: workspace.workspaceId, kind: 'service', name: 'x', scopes: ['collections:fly'] }
  expect((await call('POST', '/v1/api-keys', { as: workspace.operator, body: key })).status).toBe(400)
})

test.each([
  ['NUL in the output', '- a: { set: { x: "a\\0b" } }', 'faulted'],
  ['lone surrogate in the output', '- a: { set: { x: "\\uD800" } }', 'faulted'],
  [
    'nested names of 450 characters',
    `- ${'a'.repeat(450)}: { do: [ { ${'b'.repeat(450)}: { call: collection.create, with: { name: c, document: {} } } } ] }`,
    'completed',
  ],
])('execution: %s: always ends', async (_name, tasks, status) => {
  const { body } = await runFlow(await createTestWorkspace(), unique('f'), tasks)
  expect([body.status, body.ended_at === null]).toEqual([status, false])
})

test('execution: result too large for Temporal: faults; input too large: refused', async () => {
  const workspace = await createTestWorkspace()
  for (let n = 0; n < 22; n++) {
    expect(
      (await call('POST', DOCUMENTS, { as: workspace.service, body: { x: 'x'.repeat(200_000) } })).status,
    ).toBe(201)
  }
  const large = await runFlow(workspace, 'large', '- a: { call: collection.list, with: { name: c } }')
  expect(large.body).toMatchObject({
    status: 'faulted',
    error: { code: 'output_too_large' },
  })
  const start = (input: string) =>
    call('POST', `${workspace.flows}/definitions/large/executions`, {
      as: workspace.operator,
      body: `{"input":${input}}`,
    })
  expect((await start(`[${Array(1_000_000).fill('1e20').join(',')}]`)).status).toBe(413)
  expect((await start(`${'['.repeat(6_000)}${']'.repeat(6_000)}`)).status).toBe(400)
})

test('document: grows beyond its limit by updates: refused; number that cannot be stored: refused', async () => {
  const workspace = await createTestWorkspace()
  const { body } = await call('POST', DOCUMENTS, { as: workspace.service, body: { a: 'x'.repeat(200_000) } })
  const grow = await call('PUT', `${DOCUMENTS}/${body.id}`, {
    as: workspace.service,
    body: { b: 'x'.repeat(100_000) },
  })
  expect([grow.status, grow.body.code]).toEqual([413, 'body_too_large'])
  expect((await call('POST', DOCUMENTS, { as: workspace.service, body: '{"a":1e999}' })).status).toBe(400)
})

test('credentials: invalid one next to a valid one: 401', async () => {
  const workspace = await createTestWorkspace()
  for (const authorization of ['Bearer garbage', 'Basic abc']) {
    expect((await call('GET', DOCUMENTS, { as: { ...workspace.service, authorization } })).status).toBe(401)
  }
})

test('flow: request that HTTP cannot express, truncated response: errors that a flow can catch', async () => {
  const workspace = await createTestWorkspace()
  const port = inject('tenon').echoPorts[4] ?? 0
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('half')
    setTimeout(() => response.destroy(), 20)
  }).listen(port, '127.0.0.1')
  try {
    const get = (name: string, rest: string) =>
      runFlow(
        workspace,
        name,
        `- a: { call: http, with: { endpoint: 'http://127.0.0.1:${port}/', ${rest} } }`,
      )
    const header = await get('header', `method: get, headers: { x: "a\\r\\nb: c" }`)
    expect(header.body).toMatchObject({ status: 'faulted', error: { status: 400 } })
    const cut = await get('cut', 'method: post')
    expect(cut.body).toMatchObject({
      status: 'faulted',
      error: { status: 500, code: 'outcome_unknown' },
    })
  } finally {
    await new Promise((done) => server.close(done))
  }
})
