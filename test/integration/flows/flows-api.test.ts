/** Flows through the API: drafts, diagnostics, versions, executions on Temporal. */

import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let echo: Server
let base: string
const requests: { method: string | undefined; path: string | undefined; body: string }[] = []

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const [port = 0] = inject('tenon').echoPorts
  base = `http://127.0.0.1:${port}`
  echo = createServer((request, response) => void respond(request, response))
  await new Promise<void>((done) => echo.listen(port, '127.0.0.1', done))
})
afterAll(() => new Promise((done) => echo.close(done)))

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = ''
  for await (const chunk of request) body += chunk
  requests.push({ method: request.method, path: request.url, body })
  const status = request.url === '/teapot' ? 418 : request.url === '/moved' ? 302 : 200
  response.writeHead(status, { 'content-type': 'application/json', location: 'http://169.254.169.254/' })
  response.end(JSON.stringify({ path: request.url, got: body === '' ? null : JSON.parse(body) }))
}

const flow = (name: string, tasks: string) =>
  `document:\n  dsl: '1.0.3'\n  namespace: test\n  name: ${name}\n  version: '1.0.0'\ndo:\n${tasks.replaceAll(/^/gm, '  ')}\n`

const yaml = { 'content-type': 'application/yaml' }
const operator = () => workspace.operator

async function publishFlow(source: string): Promise<string> {
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as: operator(),
    body: source,
    headers: yaml,
  })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  const version = await call('POST', `${workspace.flows}/definitions/${made.body.id}/versions`, {
    as: operator(),
    body: {},
  })
  expect(version.status, JSON.stringify(version.body)).toBe(201)
  return made.body.id
}

async function runFlow(id: string, input: unknown = {}): Promise<Reply> {
  const headers = { prefer: 'wait=20' }
  return call('POST', `${workspace.flows}/definitions/${id}/executions`, {
    as: operator(),
    body: { input },
    headers,
  })
}

describe('first flow', () => {
  test('hello.yaml validated, created, published and run: completes, stores its document', async () => {
    const source = await readFile('flows-dsl/examples/hello.yaml', 'utf8')
    const valid = await call('POST', `${workspace.flows}/validate`, { as: operator(), body: { source } })
    expect(valid.body).toMatchObject({
      valid: true,
      diagnostics: [],
      facts: { functions: ['collection.create'] },
    })
    const id = await publishFlow(source)
    const { body } = await runFlow('hello', { name: 'Ada' })
    expect(body).toMatchObject({ status: 'completed', flow_id: id, version: 1, error: null })
    expect(body.output.message).toBe('Hello, Ada!')
    const { tenantId, workspaceId } = workspace
    expect(body.workflow_id).toMatch(new RegExp(`^${tenantId}:${workspaceId}:${id}:[0-9a-f-]{36}$`))
    expect(body.temporal_url).toContain(encodeURIComponent(body.workflow_id))
    expect(
      body.steps.every(({ status }: { status: string }) => status === 'completed' || status === 'skipped'),
    ).toBe(true)
    const read = await call('GET', `${workspace.flows}/executions/${body.id}`, { as: operator() })
    expect([read.body, read.headers.get('x-stability')]).toEqual([body, 'preview'])
    const stored = await call('GET', '/v1/collections/greetings/documents', { as: workspace.service })
    expect(stored.body.data).toHaveLength(1)
    expect(stored.body.data[0].message).toBe('Hello, Ada!')
  })

  test('start without Prefer: wait: answered at once, before the execution ends', async () => {
    const id = await publishFlow(flow('patient', '- rest:\n    wait: PT1S\n- done:\n    set: { ok: true }'))
    const started = await call('POST', `${workspace.flows}/definitions/${id}/executions`, {
      as: operator(),
      body: {},
    })
    expect(started.status).toBe(201)
    expect(['pending', 'running', 'waiting']).toContain(started.body.status)
  })
})

describe('flow definition', () => {
  test('faulty draft: saved with its diagnostics, refused at publication', async () => {
    const source = flow(
      'faulty',
      '- one:\n    call: collection.creat\n    with: { name: a }\n- two:\n    sett: {}',
    )
    const made = await call('POST', `${workspace.flows}/definitions`, {
      as: operator(),
      body: { name: 'faulty', source },
    })
    expect(made.body).toMatchObject({ state: 'draft', valid: false })
    expect(made.body.diagnostics.length).toBeGreaterThanOrEqual(2)
    const reply = await call('POST', `${workspace.flows}/definitions/faulty/versions`, {
      as: operator(),
      body: {},
    })
    expect([reply.status, reply.body.code]).toEqual([422, 'flow_invalid'])
    expect(reply.body.diagnostics).toEqual(made.body.diagnostics)
    expect(reply.body.diagnostics[0]).toMatchObject({
      line: 8,
      hint: expect.stringContaining('collection.create'),
    })
  })

  test('new version published: older versions stay unchanged and can still be run', async () => {
    const id = await publishFlow(flow('versions', '- a:\n    set: { v: 1 }'))
    const path = `${workspace.flows}/definitions/${id}`
    await call('PUT', path, {
      as: operator(),
      body: flow('versions', '- a:\n    set: { v: 2 }'),
      headers: yaml,
    })
    const second = await call('POST', `${path}/versions`, { as: operator(), body: {} })
    expect(second.body.version).toBe(2)
    const first = await call('GET', `${path}/versions/1`, { as: operator() })
    expect(first.body.source).toContain('v: 1')
    expect(first.body.sha256).not.toBe(second.body.sha256)
    const list = await call('GET', `${path}/versions?page[size]=1`, { as: operator() })
    expect(list.body.data.map(({ version }: { version: number }) => version)).toEqual([1])
    const rest = await call('GET', `${path}/versions?page[after]=${list.body.page.next}`, { as: operator() })
    expect(rest.body.data.map(({ version }: { version: number }) => version)).toEqual([2])
    expect((await runFlow(id)).body.output).toEqual({ v: 2 })
    const old = await call('POST', `${path}/executions`, {
      as: operator(),
      body: { version: 1 },
      headers: { prefer: 'wait=20' },
    })
    expect(old.body.output).toEqual({ v: 1 })
    const missing = await call('POST', `${path}/executions`, { as: operator(), body: { version: 9 } })
    expect(missing.status).toBe(404)
  })

  test('five concurrent publications: each gets its own version number or 409', async () => {
    const id = await publishFlow(flow('publishers', '- a:\n    set: { v: 1 }'))
    const path = `${workspace.flows}/definitions/${id}/versions`
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => call('POST', path, { as: operator(), body: {} })),
    )
    const made = replies.filter(({ status }) => status === 201).map(({ body }) => body.version)
    expect(replies.every(({ status }) => status === 201 || status === 409)).toBe(true)
    expect(new Set(made).size).toBe(made.length)
  })

  test('delete: refused with 409 while an execution is open, then keeps its executions', async () => {
    const id = await publishFlow(flow('doomed', '- a:\n    wait: PT1S'))
    const started = await call('POST', `${workspace.flows}/definitions/${id}/executions`, {
      as: operator(),
      body: {},
    })
    expect((await call('DELETE', `${workspace.flows}/definitions/${id}`, { as: operator() })).status).toBe(
      409,
    )
    await expect
      .poll(
        async () =>
          (await call('GET', `${workspace.flows}/executions/${started.body.id}`, { as: operator() })).body
            .status,
      )
      .toBe('completed')
    expect((await call('DELETE', `${workspace.flows}/definitions/${id}`, { as: operator() })).status).toBe(
      200,
    )
    expect((await call('GET', `${workspace.flows}/definitions/${id}`, { as: operator() })).status).toBe(404)
    expect(
      (await call('GET', `${workspace.flows}/executions/${started.body.id}`, { as: operator() })).status,
    ).toBe(200)
  })

  test('unpublished flow started: 409; name used twice: 409', async () => {
    const source = flow('twice', '- a:\n    set: {}')
    const made = await call('POST', `${workspace.flows}/definitions`, { as: operator(), body: { source } })
    const start = await call('POST', `${workspace.flows}/definitions/${made.body.id}/executions`, {
      as: operator(),
      body: {},
    })
    expect([start.status, start.body.code]).toEqual([409, 'state_conflict'])
    const again = await call('POST', `${workspace.flows}/definitions`, { as: operator(), body: { source } })
    expect([again.status, again.body.code]).toEqual([409, 'conflict'])
  })
})

describe('malformed YAML', () => {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
    .split('')
    .map((c, n) => `${c}: &${c} [${Array(9).fill(`*${'abcdefghi'[n]}`).join(',')}]`)
    .join('\n')}\n`
  test.each([
    ['not YAML', 'document: [unclosed'],
    ['plain text', 'hello'],
    ['empty', ''],
    ['alias bomb', bomb],
    ['duplicate keys', 'document:\n  dsl: 1\ndocument:\n  dsl: 2\n'],
    ['twenty thousand brackets', '['.repeat(20_000)],
    ['tabs', 'document:\n\tdsl: 1'],
    ['two documents', `${flow('a', '- a:\n    set: {}')}---\n${flow('b', '- a:\n    set: {}')}`],
  ])('%s: diagnostics with line and column, within three seconds', async (_name, source) => {
    const elapsedMs = stopwatch()
    const { status, body } = await call('POST', `${workspace.flows}/validate`, {
      as: operator(),
      body: { source },
    })
    expect([status, body.valid]).toEqual([200, false])
    expect(body.diagnostics[0]).toMatchObject({ line: expect.any(Number), column: expect.any(Number) })
    expect(elapsedMs()).toBeLessThan(3_000)
    const create = await call('POST', `${workspace.flows}/definitions`, {
      as: operator(),
      body: source,
      headers: yaml,
    })
    expect([400, 422]).toContain(create.status)
  })

  test('one megabyte: refused by size', async () => {
    const body = `document: {}\n# ${'x'.repeat(1_000_000)}`
    const reply = await call('POST', `${workspace.flows}/validate`, { as: operator(), body, headers: yaml })
    expect([400, 413]).toContain(reply.status)
    expect(reply.headers.get('content-type')).toContain('problem+json')
  })
})

describe('task', () => {
  test('call http: sends the request, returns the response, faults with the status of an error', async () => {
    const tasks = `- ask:
    call: http
    with:
      method: post
      endpoint: ${base}/orders
      query: { page: 2 }
      body: { name: '\${ .name }' }
- tea:
    call: http
    with: { method: get, endpoint: '${base}/teapot' }`
    const { body } = await runFlow(await publishFlow(flow('http', tasks)), { name: 'Ada' })
    expect(requests.find(({ path }) => path === '/orders?page=2')).toMatchObject({
      method: 'POST',
      body: '{"name":"Ada"}',
    })
    expect(body.status).toBe('faulted')
    expect(body.error).toMatchObject({
      status: 418,
      instance: '/do/1/tea',
      type: expect.stringContaining('communication'),
    })
    expect(requests.filter(({ path }) => path === '/teapot')).toHaveLength(1)
  })

  test.each([
    'http://169.254.169.254/latest/meta-data',
    'http://127.0.0.1:1/',
    'http://[::1]:1/',
    'http://[::ffff:127.0.0.1]:1/',
    'http://localhost:1/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://10.0.0.1/',
  ])('HTTP call to %s: blocked by the egress guard', async (url) => {
    const name = `egress-${Buffer.from(url).toString('hex').slice(0, 40)}`
    const { body } = await runFlow(
      await publishFlow(flow(name, `- a:\n    call: http\n    with: { method: get, endpoint: '${url}' }`)),
    )
    expect(body.status).toBe('faulted')
    expect(['egress_refused', 'validation_failed']).toContain(body.error.code)
  })

  test.each(['file:///etc/passwd', 'gopher://x/', 'not a URL'])(
    'HTTP call to %s: invalid when literal, faults when computed',
    async (url) => {
      const source = flow('scheme', `- a:\n    call: http\n    with: { method: get, endpoint: '${url}' }`)
      const { body } = await call('POST', `${workspace.flows}/validate`, { as: operator(), body: { source } })
      expect(body).toMatchObject({ valid: false, diagnostics: [{ line: 9 }] })
      const hidden = flow(
        `hidden-${Buffer.from(url).toString('hex')}`,
        "- a:\n    call: http\n    with: { method: get, endpoint: '${ .url }' }",
      )
      const run = await runFlow(await publishFlow(hidden), { url })
      expect(run.body).toMatchObject({ status: 'faulted' })
    },
  )

  test('HTTP call answered with a redirect: not followed, faults with 302', async () => {
    const { body } = await runFlow(
      await publishFlow(
        flow('redirect', `- a:\n    call: http\n    with: { method: get, endpoint: '${base}/moved' }`),
      ),
    )
    expect(body.error).toMatchObject({ status: 302 })
  })

  test('switch with two cases: takes one; documents are created once', async () => {
    const tasks = `- choose:
    switch:
      - big: { when: '.n > 10', then: big }
      - small: { then: small }
- big:
    call: collection.create
    with: { name: sizes, document: { size: big } }
    then: end
- small:
    call: collection.create
    with: { name: sizes, document: { size: small } }`
    const id = await publishFlow(flow('sizes', tasks))
    await runFlow(id, { n: 11 })
    await runFlow(id, { n: 3 })
    const { body } = await call('GET', '/v1/collections/sizes/documents', { as: workspace.service })
    expect(body.data.map(({ size }: { size: string }) => size)).toEqual(['big', 'small'])
  })

  test("platform call refused: the execution faults with the problem and the task's pointer", async () => {
    const tasks = '- a:\n    call: collection.create\n    with: { name: "not a name", document: {} }'
    const { body } = await runFlow(await publishFlow(flow('refused', tasks)))
    expect(body).toMatchObject({ status: 'faulted', output: null })
    expect(body.error).toMatchObject({
      instance: '/do/0/a',
      status: 400,
      code: 'validation_failed',
    })
    expect(body.steps[0]).toMatchObject({ status: 'faulted', name: 'a' })
  })

  test('for, try, fork and emit: loop in order, retries counted, race lost is cancelled, event emitted', async () => {
    const tasks = `- each:
    for: { each: n, in: '\${ .numbers }' }
    do:
      - keep: { call: collection.create, with: { name: loops, document: { n: '\${ $n }' } } }
- attempt:
    try:
      - ask: { call: http, with: { method: get, endpoint: '${base}/teapot' } }
    catch:
      as: fault
      retry: { delay: { milliseconds: 50 }, limit: { attempt: { count: 2 } } }
      do:
        - note: { set: { status: '\${ $fault.status }' } }
- race:
    fork:
      compete: true
      branches:
        - slow: { wait: PT1M }
        - quick: { set: { won: quick } }
- tell:
    emit: { event: { with: { type: flows.done, data: { n: 3 } } } }`
    const teapots = requests.filter(({ path }) => path === '/teapot').length
    const { body } = await runFlow(await publishFlow(flow('widened', tasks)), { numbers: [1, 2, 3] })
    expect(body.error).toBeNull()
    expect(body).toMatchObject({ status: 'completed', output: { type: 'flows.done', data: { n: 3 } } })
    expect(requests.filter(({ path }) => path === '/teapot')).toHaveLength(teapots + 3)
    const stored = await call('GET', '/v1/collections/loops/documents', { as: workspace.service })
    expect(stored.body.data.map(({ n }: { n: number }) => n)).toEqual([1, 2, 3])
    const slow = body.steps.find(({ name }: { name: string }) => name === 'slow')
    expect(slow.status).toBe('cancelled')
  })

  test('input that looks like an expression: stays plain text', async () => {
    const input = { name: '${ $workflow.id }' }
    const { body } = await runFlow(
      await publishFlow(flow('inert', "- a:\n    set: { said: '${ .name }' }")),
      input,
    )
    expect(body.output).toEqual({ said: '${ $workflow.id }' })
  })
})

test('flow started and deleted concurrently: every request gets 200, 201, 404 or 409', async () => {
  const workspace = await createTestWorkspace()
  const as = workspace.operator
  const statuses = new Set<number>()
  for (let n = 0; n < 8; n++) {
    const source = `document: { dsl: '1.0.3', namespace: t, name: f${n}, version: '1.0.0' }\ndo:\n  - a: { set: { ok: true } }\n`
    await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
    await call('POST', `${workspace.flows}/definitions/f${n}/versions`, { as, body: {} })
    const start = () =>
      call('POST', `${workspace.flows}/definitions/f${n}/executions`, { as, body: { input: {} } })
    const remove = () => call('DELETE', `${workspace.flows}/definitions/f${n}`, { as })
    for (const { status } of await Promise.all([start(), remove(), start(), remove(), start()]))
      statuses.add(status)
  }
  for (const status of statuses) expect([200, 201, 404, 409]).toContain(status)
})
