/** HTTP calls of flows on Temporal: answers of failed calls, timeouts, causes of failures, bodies, idempotency keys. */

import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { canary, storeSecret } from '../../support/fixtures/secrets.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const SECRET = canary()
const MIB = 1_048_576
let workspace: TestWorkspace
let executions: Executions
let fakeServer: FakeServers
let lossyServer: FakeServers
let closedHost: string
/** Requests that have arrived at a server that never answers, and those of them that have ended. */
const hanging = { arrived: 0, ended: 0 }
const hangingServer = createServer((_request, response) => {
  hanging.arrived += 1
  response.on('close', () => {
    hanging.ended += 1
  })
})
/** Whether the request for `/limited` was refused once. */
let isLimited = false

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  fakeServer = await FakeServers.open({
    '/card': () => ({
      status: 402,
      headers: { 'x-request-id': 'r-1', 'set-cookie': 'session=hidden' },
      json: { decline_code: 'insufficient_funds' },
    }),
    '/limited': () => {
      const isFirst = !isLimited
      isLimited = true
      return isFirst ? { status: 429, headers: { 'retry-after': '2' } } : { json: { ok: true } }
    },
    '/tomorrow': () => ({ status: 503, headers: { 'retry-after': '86400' } }),
    '/huge': () => ({ status: 500, headers: { 'content-type': 'text/plain' }, text: 'x'.repeat(50 * MIB) }),
    '/cut': ({ headers }) => ({
      status: 500,
      headers: { 'content-type': 'text/plain' },
      text: `${'y'.repeat(65_536 - 10)}${headers['x-key']}`,
    }),
    '/leak': ({ headers }) => ({ status: 400, json: { got: headers['x-key'] } }),
    '/binary': () => ({
      status: 500,
      headers: { 'content-type': 'image/png' },
      text: Buffer.alloc(40_000, 1),
    }),
    '/malformed': () => ({ status: 500, headers: { 'content-type': 'application/json' }, text: '{"a":' }),
    '/hang': () => ({ hangs: true }),
    '/gone': () => ({ gone: true }),
    '/large': () => ({ json: 'z'.repeat(4 * MIB) }),
    '/slow': () => ({ json: {}, lateMs: 500 }),
  })
  // No connection to it is ever kept, so that a lost one is not that of an earlier request.
  lossyServer = await FakeServers.open({ '/gone': () => ({ gone: true }) })
  const closing = await FakeServers.open()
  closedHost = closing.host
  await closing.close()
  hangingServer.listen(0, '127.0.0.1')
  await once(hangingServer, 'listening')
  const allow = [fakeServer.host, lossyServer.host, closedHost, hostOf(hangingServer)]
  const body = { workspace_id: workspace.workspaceId, egress: { allow } }
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
  await storeSecret(workspace, 'key', SECRET)
})
afterAll(async () => {
  hangingServer.closeAllConnections()
  hangingServer.close()
  await Promise.all([fakeServer.close(), lossyServer.close()])
})

const hostOf = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`

const request = (path: string, more = '', method = 'get', { origin } = fakeServer) =>
  `{ call: http, with: { method: ${method}, endpoint: '${origin}${path}'${more} } }`

async function run(tasks: string, more = '') {
  return executions.ended(await executions.start(await executions.publish(tasks, { more })))
}

const caught = (task: string, output: string) =>
  `  - all: { try: [ { ask: ${task} } ], catch: { do: [ { told: { set: ${output} } } ] } }\n`

test('thirty requests at once with 130 KB each, more than one message of a task holds: all are sent', async () => {
  const ask = `{ call: http, with: { method: post, endpoint: '${fakeServer.origin}/slow', body: '\${ $workflow.input }' } }`
  const flow = await executions.publish(
    `  - all: { for: { in: '\${ [range(30)] }', concurrency: 30 }, do: [ { ask: ${ask} } ], output: { as: '\${ 1 }' } }`,
  )
  const id = await executions.start(flow, { input: { text: 'x'.repeat(130_000) } })
  expect(await executions.ended(id)).toMatchObject({ status: 'completed', error: null })
  expect(fakeServer.requestsTo('/slow')).toHaveLength(30)
})

describe('answer of a failed call', () => {
  test('is in $error, in the record of step and execution, and in the failure of the workflow', async () => {
    const answered = await run(
      caught(request('/card', '', 'post'), '{ code: "${ $error.response.content.decline_code }" }'),
    )
    expect([answered.status, answered.output]).toEqual(['completed', { code: 'insufficient_funds' }])
    const faulted = await run(`  - pay: ${request('/card', '', 'post')}\n`)
    const response = {
      status: 402,
      headers: expect.objectContaining({ 'x-request-id': 'r-1', 'set-cookie': '***' }),
      content: { decline_code: 'insufficient_funds' },
    }
    expect(faulted).toMatchObject({ status: 'faulted', error: { status: 402, response } })
    expect(faulted.steps[0].error.response).toEqual(response)
    expect(JSON.stringify(faulted)).not.toContain('hidden')
    const events = await withRawClient((client) =>
      client.workflow.getHandle(faulted.workflow_id).fetchHistory(),
    )
    expect(JSON.stringify(events)).not.toContain('insufficient_funds')
  })

  test('crosses the boundary of a sub-flow', async () => {
    const inner = await executions.publish(`  - pay: ${request('/card', '', 'post')}\n`)
    const task = `{ run: { workflow: { namespace: n, name: ${inner} } } }`
    const { output } = await run(
      caught(task, '{ got: "${ $error.response.content }", instance: "${ $error.instance }" }'),
    )
    expect(output).toEqual({ got: { decline_code: 'insufficient_funds' }, instance: '/do/0/all/try/0/ask' })
  })

  test.each([
    ['/huge', { content: expect.stringMatching(/^x{12288}$/), truncated: true }],
    ['/binary', { content: null, truncated: true }],
    ['/malformed', { content: '{"a":', truncated: true }],
  ])('%s: only a bounded excerpt is kept', async (path, response) => {
    const { error } = await run(`  - ask: ${request(path)}\n`)
    expect(error).toMatchObject({ status: 500, response })
    expect(JSON.stringify(error).length).toBeLessThan(20_000)
  })

  test('a secret in it: is masked, also if the excerpt ends within it', async () => {
    const use = 'use: { secrets: [key] }\n'
    const headers = ", headers: { x-key: '${ $secrets.key }' }"
    const leaked = await run(`  - ask: ${request('/leak', headers)}\n`, use)
    expect(leaked.error.response.content).toEqual({ got: '***' })
    const cut = await run(`  - ask: ${request('/cut', headers)}\n`, use)
    expect(cut.error.response.truncated).toBe(true)
    expect(JSON.stringify([leaked, cut])).not.toContain(SECRET.slice(0, 6))
  })

  test('errors: data: the response with its status is the output', async () => {
    const { status, output } = await run(
      `  - pay: ${request('/card', ', output: response, errors: data', 'post')}\n`,
    )
    expect([status, output]).toMatchObject([
      'completed',
      { statusCode: 402, content: { decline_code: 'insufficient_funds' } },
    ])
  })
})

describe('Retry-After', () => {
  const retrying = (path: string, limit: string) =>
    `  - all: { try: [ { ask: ${request(path)} } ], catch: { retry: { delay: PT0.01S, limit: ${limit} } } }\n`

  test('lengthens the delay of a retry', async () => {
    const started = performance.now()
    const { status, output } = await run(retrying('/limited', '{ attempt: { count: 2 } }'))
    expect([status, output]).toEqual(['completed', { ok: true }])
    expect(performance.now() - started).toBeGreaterThan(2_000)
  })

  test('exceeds the limit of the retry: there is none', async () => {
    const { status, error } = await run(retrying('/tomorrow', '{ duration: PT1M }'))
    expect([status, error.status]).toEqual(['faulted', 503])
  })
})

describe('no answer', () => {
  test.each([
    [
      'http://127.0.0.1:9/',
      'get',
      'communication',
      'egress_refused',
      /^127\.0\.0\.1:9 is not a public address\. .*egress allow 127\.0\.0\.1:9 --workspace ws_.* npm start -- --allow-loopback\.$/,
    ],
    [
      'http://nosuch.invalid/x',
      'get',
      'communication',
      'upstream_unavailable',
      /^nosuch\.invalid:80: the name (is not known|could not be resolved)\.$/,
    ],
  ])('%s: the error names the cause', async (url, method, _type, code, detail) => {
    const { error } = await run(`  - ask: { call: http, with: { method: ${method}, endpoint: '${url}' } }\n`)
    expect(error).toMatchObject({ code, detail: expect.stringMatching(detail) })
  })

  test('refused connection: names the server', async () => {
    const { error } = await run(
      `  - ask: { call: http, with: { method: post, endpoint: 'http://${closedHost}' } }\n`,
    )
    expect(error).toMatchObject({
      code: 'upstream_unavailable',
      detail: `${closedHost}: the connection was refused.`,
    })
  })

  test('connection lost: a GET is not sent again unseen, a POST may have arrived', async () => {
    const own = ', metadata: { tenon: { local: false } }'
    const get = await run(
      `  - ask: ${request('/gone/get', '', 'get', lossyServer).replace(/ }$/, `${own} }`)}\n`,
    )
    expect(get.error).toMatchObject({
      code: 'upstream_unavailable',
      detail: `${lossyServer.host} closed the connection without a complete answer.`,
    })
    expect(lossyServer.requestsTo('/gone/get')).toHaveLength(1)
    const post = await run(`  - ask: ${request('/gone/post', '', 'post')}\n`)
    expect(post.error).toMatchObject({
      type: expect.stringMatching(/communication$/),
      code: 'outcome_unknown',
      detail: expect.stringMatching(/The POST request may have arrived\.$/),
    })
    expect(fakeServer.requestsTo('/gone/post')).toHaveLength(1)
  })

  test('timeout of the task: ends the call and the request with the error `timeout`', async () => {
    const slow = request('/hang/timeout', '', 'post').replace(/ }$/, ', timeout: { after: PT1S } }')
    const { error } = await run(`  - ask: ${slow}\n`)
    expect(error).toMatchObject({ type: expect.stringMatching(/timeout$/), status: 408 })
    expect(error.detail).toContain('1 second')
  })

  test('large answer: the error names its size and the limit', async () => {
    const { error } = await run(`  - ask: ${request('/large')}\n`)
    expect(error).toMatchObject({
      code: 'upstream_invalid',
      detail: expect.stringMatching(/has \d+ bytes|more than/),
    })
  })
})

describe('request', () => {
  const sent = async (path: string, more: string, method = 'post') => {
    const { status, error } = await run(`  - ask: ${request(`/echo${path}`, more, method)}\n`)
    expect([status, error]).toEqual(['completed', null])
    const [received] = fakeServer.requestsTo(`/echo${path}`)
    return { url: received?.url ?? '', body: received?.body ?? '', headers: received?.headers ?? {} }
  }

  test('query: null is left out, a list is repeated', async () => {
    const { url } = await sent('/query', ', query: { x: null, tag: [a, b], n: 0, no: false }', 'get')
    expect(url).toBe('/echo/query?n=0&no=false&tag=a&tag=b')
  })

  test('form: the fields are encoded, lists repeated, null left out', async () => {
    const { body } = await sent(
      '/form',
      ", headers: { Content-Type: application/x-www-form-urlencoded }, body: { a: '1 2', b: [x, y], c: null, 'm[id]': 7 }",
    )
    expect(body).toBe('a=1+2&b=x&b=y&m%5Bid%5D=7')
  })

  test('form with a nested object: faults with the name of the field', async () => {
    const more = ', headers: { content-type: application/x-www-form-urlencoded }, body: { a: { b: 1 } }'
    const { error } = await run(`  - ask: ${request('/echo/nested', more, 'post')}\n`)
    expect(error).toMatchObject({
      type: expect.stringMatching(/validation$/),
      detail: expect.stringContaining('`a` of `body`'),
    })
    expect(fakeServer.requestsTo('/echo/nested')).toEqual([])
  })

  test('multipart: fields and files, read back by an independent parser', async () => {
    const { body, headers } = await sent(
      '/multipart',
      `, headers: { content-type: multipart/form-data }, body: { note: 'a "b"', tags: [x, y], none: null, text: { filename: "a\\"b.csv", contentType: text/csv, content: "1;2" }, bytes: { filename: x.bin, base64: aGVsbG8= } }`,
    )
    const form = await new Response(body, {
      headers: { 'content-type': headers['content-type'] ?? '' },
    }).formData()
    expect([form.get('note'), form.getAll('tags'), form.has('none')]).toEqual(['a "b"', ['x', 'y'], false])
    const [text, bytes] = [form.get('text') as File, form.get('bytes') as File]
    expect([text.name, text.type, await text.text()]).toEqual(['a"b.csv', 'text/csv', '1;2'])
    expect([bytes.name, bytes.type, await bytes.text()]).toEqual([
      'x.bin',
      'application/octet-stream',
      'hello',
    ])
  })

  test('JSON by default, also for a number; text as it is', async () => {
    expect(await sent('/json', ', body: { a: [1] }')).toMatchObject({
      body: '{"a":[1]}',
      headers: { 'content-type': 'application/json' },
    })
    expect((await sent('/number', ', body: 7')).headers).toMatchObject({ 'content-type': 'application/json' })
    expect((await sent('/text', ', headers: { content-type: text/plain }, body: hi')).body).toBe('hi')
  })

  test('idempotency key: the same for each retry, different for each item, the author may set another', async () => {
    const item = `{ call: http, with: { method: post, endpoint: '\${ "${fakeServer.origin}/gone/key/\\($n)" }' } }`
    await run(`  - all:
      for: { each: n, in: '\${ [1, 2] }' }
      do:
        - once: { try: [ { ask: ${item} } ], catch: { retry: { delay: PT0.01S, limit: { attempt: { count: 1 } } }, do: [ { on: { set: {} } } ] } }
`)
    const keys = [1, 2].map((n) =>
      fakeServer.requestsTo(`/gone/key/${n}`).map(({ headers }) => headers['idempotency-key']),
    )
    expect(keys.map((each) => each.length)).toEqual([2, 2])
    expect(keys[0]?.[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(new Set(keys.flat()).size).toBe(2)
    expect((await sent('/own', ', headers: { Idempotency-Key: mine }')).headers['idempotency-key']).toBe(
      'mine',
    )
    expect((await sent('/none', '', 'get')).headers['idempotency-key']).toBeUndefined()
  })
})

test('cancelled execution: its request is ended', async () => {
  const origin = `http://${hostOf(hangingServer)}`
  const ask = `{ call: http, with: { method: post, endpoint: '${origin}' }, timeout: { after: PT10M } }`
  const id = await executions.start(await executions.publish(`  - ask: ${ask}\n`))
  await eventually(async () => (hanging.arrived === 1 ? true : undefined))
  await executions.send(id, 'cancel')
  expect((await executions.ended(id)).status).toBe('cancelled')
  await eventually(async () => (hanging.ended === 1 ? true : undefined), 15_000)
})
