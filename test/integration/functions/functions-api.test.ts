/** Functions through the API: deployment, invocation, versions, configuration, calls from flows, tenant isolation. */

import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const deploy = (at: TestWorkspace, name: string, source: string, config?: object): Promise<Reply> =>
  call('POST', '/v1/functions', {
    as: at.operator,
    body: { workspace_id: at.workspaceId, name, source, ...(config && { config }) },
  })

async function deployFunction(
  at: TestWorkspace,
  name: string,
  source: string,
  config?: object,
): Promise<string> {
  const made = await deploy(at, name, source, config)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}

const invoke = (as: Caller, id: string, body?: unknown): Promise<Reply> =>
  call('POST', `/v1/functions/${id}/invoke`, { as, ...(body !== undefined && { body }) })

const ADD = 'interface In { a: number; b: number }\nexport default ({ a, b }: In): object => ({ sum: a + b })'

test('function: invoked by id and by name: bare result, run id in a header', async () => {
  const made = await deploy(workspace, 'add', ADD)
  expect(made.status).toBe(201)
  expect(made.headers.get('location')).toBe(`/v1/functions/${made.body.id}`)
  expect(made.body).toMatchObject({
    name: 'add',
    version: 1,
    workspace_id: workspace.workspaceId,
    tenant_id: workspace.tenantId,
    config: { timeout: '10s', memory_mb: 128, anon: false },
  })
  for (const id of [made.body.id, 'add']) {
    const reply = await invoke(workspace.service, id, { a: 1, b: 2 })
    expect([reply.status, reply.body]).toEqual([200, { sum: 3 }])
    expect(reply.headers.get('x-run-id')).toMatch(/^run_[0-9a-z]{26}$/)
    expect(reply.headers.get('content-type')).toMatch(/^application\/json/)
  }
})

test('function: any JSON as input: returned; no body: empty object; undefined: null', async () => {
  await deployFunction(workspace, 'echo', 'export default (input: unknown) => input')
  for (const value of [
    null,
    0,
    -1.5,
    true,
    '',
    'text',
    'é😀\u0000\ud800',
    [],
    [[1], { a: null }],
    { __proto: 1 },
  ]) {
    const reply = await invoke(workspace.service, 'echo', JSON.stringify(value))
    expect([reply.status, reply.body]).toEqual([200, value])
  }
  expect((await invoke(workspace.service, 'echo')).body).toEqual({})
  await deployFunction(workspace, 'nothing', 'export default async () => {}')
  const nothing = await invoke(workspace.service, 'nothing')
  expect([nothing.status, nothing.body]).toEqual([200, null])
})

test('function: a Response from the default export: an error that names the export `fetch`, and not an empty result', async () => {
  await deployFunction(workspace, 'handler', 'export default async () => Response.json({ a: 1 })')
  const { status, body } = await invoke(workspace.service, 'handler')
  expect([status, body.code]).toEqual([502, 'function_output_invalid'])
  expect(body.detail).toContain('`fetch`')
  await deployFunction(
    workspace,
    'within',
    'export default () => ({ ok: new Response("a") instanceof Response })',
  )
  expect((await invoke(workspace.service, 'within')).body).toEqual({ ok: true })
})

test('function: TypeScript with types, enums, generics, async, top-level await: runs', async () => {
  const source = `
    enum Level { low = 1, high = 5 }
    const salt: string = await Promise.resolve('s')
    class Box<T> { constructor(private readonly value: T) {} get = (): T => this.value }
    export default async function handler(input: { text: string }): Promise<{ level: Level; hash: string }> {
      const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(salt + input.text))
      return { level: new Box(Level.high).get(), hash: new Uint8Array(digest).toHex() }
    }`
  await deployFunction(workspace, 'typed', source)
  const { body } = await invoke(workspace.service, 'typed', { text: 'x' })
  expect(body).toEqual({ level: 5, hash: createHash('sha1').update('sx').digest('hex') })
})

describe('deployment', () => {
  test('deployment: existing name: next version, effective at once', async () => {
    const id = await deployFunction(workspace, 'twice', 'export default () => 1', { timeout: '2s' })
    expect((await invoke(workspace.service, 'twice')).body).toBe(1)
    const second = await deploy(workspace, 'twice', 'export default () => 2', { anon: true })
    expect(second.body).toMatchObject({ id, version: 2, config: { timeout: '2s', anon: true } })
    expect((await invoke(workspace.service, 'twice')).body).toBe(2)
    const many = await Promise.all(
      [3, 4, 5, 6].map((n) => deploy(workspace, 'twice', `export default () => ${n}`)),
    )
    expect(many.map(({ body }) => body.version).sort()).toEqual([3, 4, 5, 6])
    const read = await call('GET', `/v1/functions/${id}`, { as: workspace.operator })
    expect(read.body.version).toBe(6)
    expect(read.body.source).toBe(`export default () => ${(await invoke(workspace.service, 'twice')).body}`)
  })

  test.each([
    ['export default (', { line: 1, column: 17 }],
    ['const a = 1\n\nexport default () => a +', { line: 3, column: 25 }],
    ['export const handler = () => 1', { line: 1, column: 1, message: /default export/ }],
    ['const s = "export { x as default };"', { message: /default export/ }],
    ['export default 1; export default 2', { line: 1, column: 26 }],
    [`export default ${'!'.repeat(200_000)}1`, { message: /too deeply/ }],
    ['\u0000', { line: 1, column: 1 }],
  ])('deployment: invalid source %.40s: refused with its location', async (source, expected) => {
    const { status, body } = await deploy(workspace, 'bad', source)
    expect([status, body.code]).toEqual([422, 'function_invalid'])
    const { message, ...place } = expected as { message?: RegExp }
    expect(body.diagnostics[0]).toMatchObject(place)
    if (message) expect(body.diagnostics[0].message).toMatch(message)
    expect(JSON.stringify(body)).not.toMatch(/esbuild|goroutine|node_modules/)
  })

  test('deployment: source crashes the compiler: refused, the next source compiles', async () => {
    const [crash, fine] = await Promise.all([
      deploy(workspace, 'crash', `export default ${'!'.repeat(200_000)}1`),
      deploy(workspace, 'fine', ADD),
    ])
    expect([crash.status, fine.status]).toEqual([422, 201])
    expect((await deploy(workspace, 'fine', ADD)).status).toBe(201)
  })

  test.each([
    [{ name: 'UPPER' }, 400],
    [{ name: 'fn_x' }, 400],
    [{ source: '' }, 400],
    [{ source: 'x'.repeat(5_242_881) }, 400],
    [{ config: { timeout: '901s' } }, 400],
    [{ config: { memory_mb: 63 } }, 400],
    [{ config: { net: ['*'] } }, 400],
    [{ source: 'export const config = { env: { "a b": "x" } }\nexport default () => 1' }, 400],
    [{ source: 'export const config = { secrets: ["../x"] }\nexport default () => 1' }, 400],
    [{ workspace_id: 'ws_00000000000000000000000000' }, 404],
  ])('deployment: %.60j: %i', async (change, status) => {
    const body = {
      workspace_id: workspace.workspaceId,
      name: 'x',
      source: 'export default () => 1',
      ...change,
    }
    expect((await call('POST', '/v1/functions', { as: workspace.operator, body })).status).toBe(status)
  })
})

test('deployment: concurrent with deletion: one of the two takes effect, never half', async () => {
  for (let round = 0; round < 5; round++) {
    const id = await deployFunction(workspace, 'raced', 'export default () => 1')
    const [made, deleted] = await Promise.all([
      deploy(workspace, 'raced', 'export default () => 2'),
      call('DELETE', `/v1/functions/${id}`, { as: workspace.operator }),
    ])
    expect(made.status).toBe(201)
    expect([200, 404, 409]).toContain(deleted.status)
    const reply = await invoke(workspace.service, 'raced')
    expect([200, 404]).toContain(reply.status)
    if (reply.status === 200) expect(reply.body).toBe(2)
  }
})

test('configuration: names of settings and secrets that have another form are refused with their place', async () => {
  const config = { env: { 'a b': 'x', 'c\n': 'x', OK: 'x' }, secrets: ['fine', 'not fine'] }
  const { status, body } = await deploy(workspace, 'named', 'export default () => 1', config)
  expect([status, body.code]).toEqual([400, 'validation_failed'])
  expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toContain('/config/env/c\n')
  const again = { ...config, env: { 'a b': 'x' } }
  const second = await deploy(workspace, 'named', 'export default () => 1', again)
  expect([second.status, second.body.errors]).toEqual([
    400,
    [
      expect.objectContaining({
        pointer: '/config/env/a b',
        detail: expect.stringContaining('letters, digits'),
      }),
      expect.objectContaining({
        pointer: '/config/secrets/1',
        detail: expect.stringContaining('no name of a secret'),
      }),
    ],
  ])
})

test('function: configured, listed, deleted: names resolve within the workspace of the credential', async () => {
  const id = await deployFunction(workspace, 'conf', 'export default () => 1')
  const own = await tokenOf({
    roles: ['workspace_admin'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
  })
  const set = await call('PUT', '/v1/functions/conf/config', { as: own, body: { memory_mb: 64 } })
  expect(set.body).toMatchObject({ id, config: { timeout: '10s', memory_mb: 64, anon: false } })
  expect((await invoke(workspace.service, 'conf')).body).toBe(1)
  expect((await call('GET', '/v1/functions/conf', { as: workspace.operator })).status).toBe(404)
  const list = await call('GET', '/v1/functions?page[size]=200', { as: own })
  expect(list.body.data.map(({ name }: { name: string }) => name)).toContain('conf')
  expect(JSON.stringify(list.body)).not.toContain('"source"')
  expect((await call('DELETE', `/v1/functions/${id}`, { as: own })).body).toEqual({ id, deleted: true })
  for (const ref of [id, 'conf']) expect((await invoke(workspace.service, ref)).status).toBe(404)
})

test('operator: names a function by its id; for a name, the error says so', async () => {
  const id = await deployFunction(workspace, 'named', ADD)
  const as = workspace.operator
  const path = (named: string, rest = '') => `/v1/functions/${named}${rest}`
  for (const [method, rest, body] of [
    ['GET', ''],
    ['PUT', '/config', { timeout: '5s' }],
    ['GET', '/versions'],
    ['GET', '/versions/1'],
    ['POST', '/versions/1/activate', {}],
    ['PUT', '/aliases/production', { version: 1 }],
    ['GET', '/aliases/production'],
    ['GET', '/triggers'],
    ['GET', '/runs'],
    ['POST', '/redrive'],
    ['DELETE', '/aliases/production'],
    ['DELETE', ''],
  ] as const) {
    const options = { as, ...(body !== undefined && { body }) }
    const refused = await call(method, path('named', rest), options)
    expect([rest, refused.status, refused.body.detail]).toEqual([
      rest,
      404,
      expect.stringContaining('by its id'),
    ])
    expect((await call(method, path(id, rest), options)).status).toBeLessThan(300)
  }
  const { body } = await call('GET', path(id), { as })
  expect(body.detail).toBe('There is no such function.')
})

test('anon key: invokes a function opened to it: result, or a failure without details', async () => {
  const id = await deployFunction(
    workspace,
    'open',
    'export default () => { console.log("secret"); throw new Error("no") }',
  )
  const closed = await invoke(workspace.anon, id)
  expect([closed.status, closed.body.code]).toEqual([404, 'not_found'])
  await call('PUT', `/v1/functions/${id}/config`, { as: workspace.operator, body: { anon: true } })
  const open = await invoke(workspace.anon, 'open')
  expect([open.status, open.body.code, open.body.detail]).toEqual([502, 'function_error', 'no'])
  expect(JSON.stringify(open.body)).not.toContain('secret')
  expect(open.body.run_id).toBe(open.headers.get('x-run-id'))
  const { logs, usage } = (await invoke(workspace.service, 'open')).body
  expect(logs).toEqual(['secret'])
  expect(Object.keys(usage).toSorted()).toEqual(['cold', 'duration_ms', 'memory_mb'])
  expect(usage.duration_ms).toBe(Math.round(usage.duration_ms))
})

test('function: same name in other tenants and workspaces: own code each; foreign id: 404', async () => {
  const [other, sibling] = await Promise.all([createTestWorkspace(), addTestWorkspace(workspace)])
  const workspaces = [workspace, other, sibling]
  const ids = await Promise.all(
    workspaces.map((at, n) => deployFunction(at, 'same', `export default () => 'workspace ${n}'`)),
  )
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, n) => invoke(workspaces[n % 3]?.service ?? {}, 'same')),
  )
  expect(replies.map(({ body }) => body)).toEqual(Array.from({ length: 12 }, (_, n) => `workspace ${n % 3}`))
  const missing = await invoke(other.service, 'fn_00000000000000000000000000')
  for (const as of [other.service, sibling.service]) {
    const foreign = await invoke(as, ids[0] ?? '')
    const { request_id: _a, instance: _b, ...rest } = foreign.body
    expect(rest).toMatchObject({ status: 404, code: 'not_found', detail: missing.body.detail })
  }
})

test('input: too large or too deep: refused before anything runs', async () => {
  await deployFunction(workspace, 'taker', 'export default () => 1')
  const deep = await invoke(workspace.service, 'taker', '['.repeat(100) + ']'.repeat(100))
  expect([deep.status, deep.body.code]).toEqual([400, 'validation_failed'])
  const grown = await invoke(workspace.service, 'taker', `[${'1e20,'.repeat(150_000)}1]`)
  expect([grown.status, grown.body.code]).toEqual([413, 'body_too_large'])
})

test('flow: calls a function that throws: caught, and the code runs once', async () => {
  await deployFunction(workspace, 'double', 'export default ({ n }: { n: number }) => ({ n: n * 2 })')
  await deployFunction(workspace, 'throws', 'export default () => { throw new Error("no such luck") }')
  const source = `document: { dsl: '1.0.3', namespace: test, name: calls, version: '1.0.0' }
do:
  - twice: { call: function.invoke, with: { id: double, input: { n: 21 } }, export: { as: .n } }
  - guarded:
      try:
        - fails: { call: function.invoke, with: { id: throws } }
      catch:
        as: error
        do:
          - told: { set: { detail: '\${ $error.detail }', status: '\${ $error.status }', answer: '\${ $context }' } }
`
  const as = workspace.operator
  const made = await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/calls/versions`, { as, body: {} })
  const elapsedMs = stopwatch()
  const run = await call('POST', `${workspace.flows}/definitions/calls/executions`, {
    as,
    body: { input: {} },
    headers: { prefer: 'wait=20' },
  })
  expect(run.body).toMatchObject({
    status: 'completed',
    output: { detail: 'no such luck', status: 502, answer: 42 },
  })
  // Eight attempts with backoff would take most of a minute.
  expect(elapsedMs()).toBeLessThan(10_000)
})

test('invocations: twenty at once while others crash: each gets its own result', async () => {
  await deployFunction(
    workspace,
    'own',
    'export default async (n: number) => { await new Promise((d) => setTimeout(d, n)); return n }',
  )
  await deployFunction(
    workspace,
    'bomb',
    'export default () => { const a: unknown[] = []; for (;;) a.push({ a: a.length }) }',
    // Runs beyond the usual share get the processor time that others leave.
    { timeout: '60s' },
  )
  const [numbers, bombs] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, (_, n) => invoke(workspace.service, 'own', n * 10))),
    Promise.all([0, 1].map(() => invoke(workspace.service, 'bomb'))),
  ])
  expect(numbers.map(({ body }) => body)).toEqual(Array.from({ length: 20 }, (_, n) => n * 10))
  expect(bombs.map(({ body }) => body.code)).toEqual(['function_out_of_memory', 'function_out_of_memory'])
})

test('OpenAPI: invoke route: describes input and output', async () => {
  const { body } = await call('GET', '/openapi.json')
  const post = body.paths['/v1/functions/{id}/invoke'].post
  expect(post.requestBody.required).toBe(false)
  expect(post.responses['200'].headers['x-run-id'].schema.pattern).toMatch(/^\^run_/)
  expect(post.responses['200'].content['application/json'].schema.description).toMatch(
    /^Return value of the function;/,
  )
})
