/** Functions that export `fetch`: requests of any method, streams in both directions, failures, and clients that leave. */

import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { suspend } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

const SERVE = `
const encode = (text: string) => new TextEncoder().encode(text)
const endless = (first: string) => new ReadableStream({ start: (to) => to.enqueue(encode(first)) })
const ROUTES: Record<string, (request: Request) => Response | Promise<Response>> = {
  '/echo': (request) => new Response(request.body, { status: 201, headers: { 'content-type': 'text/odd', 'x-own': 'yes' } }),
  '/seen': async (request) => Response.json({
    method: request.method, url: request.url, headers: [...request.headers], body: await request.text(),
  }),
  '/events': () => new Response(endless('data: 1\\n\\n'), { headers: { 'content-type': 'text/event-stream' } }),
  '/ticks': () => new Response(new ReadableStream({
    pull: async (to) => { await new Promise((done) => setTimeout(done, 50)); to.enqueue(encode('tick')) },
  })),
  '/digits': () => new Response(new ReadableStream({
    start: (to) => { for (let n = 0; n < 10_000; n++) to.enqueue(encode(String(n % 10))); to.close() },
  })),
  '/empty': () => new Response(null, { status: 204, headers: { etag: '"1"' } }),
  '/moved': () => new Response(null, { status: 307, headers: { location: 'elsewhere' } }),
  '/throws': () => { throw new Error('before the head') },
  '/none': () => 1 as unknown as Response,
  '/hangs': () => new Promise(() => {}),
  '/breaks': () => new Response(new ReadableStream({
    pull: (to) => { to.enqueue(encode('first')); to.error(new Error('after the head')) },
  }, { highWaterMark: 0 })),
}
export const fetch = (request: Request) =>
  (ROUTES[new URL(request.url).pathname] ?? (() => new Response('no such path', { status: 404 })))(request)`

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  await deploy('web', SERVE, { anon: true, timeout: '5s' })
})

async function deploy(name: string, source: string, config = {}, owner = workspace): Promise<string> {
  const body = { workspace_id: owner.workspaceId, name, source, config }
  const made = await call('POST', '/v1/functions', { as: owner.operator, body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}

const at = (path: string, name = 'web') => `/v1/functions/${name}/http${path}`

/** Sends the head of a request on a connection of its own; its body follows. */
function open(method: string, path: string, as: Caller = workspace.service): ClientRequest {
  return request(`${inject('tenon').url}${at(path)}`, { method, headers: { ...as }, agent: false })
}

async function responseTo(sent: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

async function nextText(response: IncomingMessage): Promise<string> {
  const [chunk] = (await once(response, 'data')) as [Buffer]
  return chunk.toString()
}

interface RunRow {
  readonly status: string
  readonly error: { readonly code: string; readonly detail: string } | null
  readonly trigger: { readonly kind: string }
}

const endedRun = (id: string): Promise<RunRow> =>
  eventually(async () => {
    const rows = await asSuperuser<RunRow>(
      'select status, error, trigger from tenon.function_runs where id = $1',
      [id],
    )
    return rows[0]?.status === 'completed' || rows[0]?.status === 'failed' ? rows[0] : undefined
  })

describe('request', () => {
  test('of each method: reaches the code with path, query and headers', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const hasBody = method !== 'GET'
      const sent = request(`${inject('tenon').url}${at('/seen?a=1&b=%20x')}`, {
        method,
        headers: {
          ...workspace.service,
          'x-given': 'yes',
          ...(hasBody && { 'content-type': 'text/plain', 'content-length': '8' }),
        },
        agent: false,
      })
      sent.end(hasBody ? 'the body' : undefined)
      const response = await responseTo(sent)
      const body = await text(response)
      expect([method, response.statusCode, body]).toEqual([method, 200, expect.stringContaining('{')])
      const seen = JSON.parse(body)
      const { origin } = new URL(seen.url)
      expect(seen).toMatchObject({
        method,
        url: `${origin}/seen?a=1&b=%20x`,
        body: hasBody ? 'the body' : '',
      })
      const headers = Object.fromEntries(seen.headers)
      expect(headers).toMatchObject({
        'x-given': 'yes',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-prefix': '/v1/functions/web/http',
        'x-request-id': response.headers['x-request-id'],
      })
    }
  })

  test('answered: status and headers are those of the code; the run is recorded', async () => {
    const reply = await call('POST', at('/echo'), { as: workspace.service, body: { n: 1 } })
    expect([reply.status, reply.headers.get('content-type'), reply.headers.get('x-own')]).toEqual([
      201,
      'text/odd',
      'yes',
    ])
    const runId = reply.headers.get('x-run-id') ?? ''
    expect(await endedRun(runId)).toEqual({ status: 'completed', error: null, trigger: { kind: 'http' } })
  })

  test('HEAD, and a response without a body: the headers alone', async () => {
    const head = await call('HEAD', at('/echo'), { as: workspace.service })
    expect([head.status, head.headers.get('x-own')]).toEqual([201, 'yes'])
    const empty = await call('POST', at('/empty'), { as: workspace.service })
    expect([empty.status, empty.headers.get('etag')]).toEqual([204, '"1"'])
    expect((await endedRun(empty.headers.get('x-run-id') ?? '')).status).toBe('completed')
    const moved = await fetch(`${inject('tenon').url}${at('/moved')}`, {
      headers: { ...workspace.service },
      redirect: 'manual',
    })
    expect([moved.status, moved.headers.get('location')]).toEqual([307, 'elsewhere'])
  })

  test('over another API node: the worker answers that node', async () => {
    const node = await startInProcessNode()
    try {
      const sent = { method: 'POST', headers: { ...workspace.service }, body: 'over there' }
      expect(await (await fetch(`${node.at.url}${at('/echo')}`, sent)).text()).toBe('over there')
    } finally {
      await node.close()
    }
  })
})

describe('streams', () => {
  test('in both directions: each chunk arrives before the next is sent', async () => {
    const sent = open('POST', '/echo')
    sent.write('one')
    const response = await responseTo(sent)
    expect(await nextText(response)).toBe('one')
    sent.write('two')
    expect(await nextText(response)).toBe('two')
    sent.end('three')
    expect(await text(response)).toBe('three')
    expect(response.complete).toBe(true)
  })

  test('bodies of 10,000 chunks of one byte: those that wait go together, in either direction', async () => {
    const digits = '0123456789'.repeat(1_000)
    const valkey = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
    let messages = 0
    valkey.on('pmessage', () => {
      messages += 1
    })
    await valkey.psubscribe(`tenon:*:http:${workspace.workspaceId}:*`)
    try {
      const sent = open('POST', '/echo')
      for (const digit of digits) sent.write(digit)
      sent.end()
      expect(await text(await responseTo(sent))).toBe(digits)
      expect((await call('GET', at('/digits'), { as: workspace.service })).body).toBe(digits)
      expect(messages).toBeGreaterThan(0)
      expect(messages).toBeLessThan(1_000)
    } finally {
      valkey.disconnect()
    }
  })

  test('server-sent events: the first arrives while the code goes on; a client that leaves ends the run', async () => {
    const sent = open('GET', '/events')
    sent.end()
    const response = await responseTo(sent)
    expect(response.headers).toMatchObject({ 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
    expect(await nextText(response)).toBe('data: 1\n\n')
    response.on('error', () => {})
    sent.destroy()
    const { status, error } = await endedRun(String(response.headers['x-run-id']))
    expect([status, error?.code, error?.detail]).toEqual([
      'failed',
      'run_cut_off',
      'The client closed the connection before it had the whole response.',
    ])
  })

  test('a tenant that is suspended meanwhile: ends the response, and the run has that reason', async () => {
    const own = await createTestWorkspace()
    await deploy('web', SERVE, { timeout: '20s' }, own)
    const response = await fetch(`${inject('tenon').url}${at('/ticks')}`, { headers: { ...own.service } })
    await suspend(own)
    await expect(response.text()).rejects.toThrow('terminated')
    const { error } = await endedRun(String(response.headers.get('x-run-id')))
    expect(error?.code).toBe('tenant_suspended')
  })

  test('a key that is revoked meanwhile: ends the response, and the run has that reason', async () => {
    const key = { workspace_id: workspace.workspaceId, kind: 'anon', name: 'leaked' }
    const leaked = (await call('POST', '/v1/api-keys', { as: workspace.operator, body: key })).body
    const response = await fetch(`${inject('tenon').url}${at('/ticks')}`, { headers: { apikey: leaked.key } })
    await call('DELETE', `/v1/api-keys/${leaked.id}`, { as: workspace.operator })
    await expect(response.text()).rejects.toThrow('terminated')
    const { error } = await endedRun(String(response.headers.get('x-run-id')))
    expect(error?.code).toBe('api_key_revoked')
  })

  test.each([
    ['before the head', '/seen'],
    ['within the response', '/echo'],
  ])(
    'a client that leaves in the middle of its body, %s: ends the run, which frees its slot',
    async (_when, path) => {
      const name = unique('one')
      const id = await deploy(name, SERVE, { timeout: '30s', concurrency: 1 })
      const sent = request(`${inject('tenon').url}${at(path, name)}`, {
        ...{
          method: 'POST',
          headers: { ...workspace.service, 'transfer-encoding': 'chunked' },
          agent: false,
        },
      })
      sent.on('error', () => {})
      sent.write('the first half')
      if (path === '/echo') expect(await nextText(await responseTo(sent))).toBe('the first half')
      const runOf = (status: string) => () =>
        asSuperuser<{ id: string }>(
          'select id from tenon.function_runs where function_id = $1 and status = $2',
          [id, status],
        ).then(([row]) => row)
      const { id: runId } = await eventually(runOf('running'))
      sent.socket?.destroy()
      const { status, error } = await endedRun(runId)
      expect([status, error?.code, error?.detail]).toEqual([
        'failed',
        'run_cut_off',
        'The client closed the connection before it had the whole response.',
      ])
      expect((await call('POST', at('/echo', name), { as: workspace.service, body: '1' })).status).toBe(201)
    },
  )

  test('a client that leaves before the head: ends the run', async () => {
    const id = await deploy('waits', 'export const fetch = () => new Promise(() => {})', { timeout: '30s' })
    const sent = request(`${inject('tenon').url}${at('/', 'waits')}`, {
      headers: { ...workspace.service },
      agent: false,
    })
    sent.on('error', () => {})
    sent.end()
    const rowsOf = (status: string) => () =>
      asSuperuser<{ id: string }>(
        'select id from tenon.function_runs where function_id = $1 and status = $2',
        [id, status],
      ).then(([row]) => row)
    await eventually(rowsOf('running'))
    sent.destroy()
    const run = await eventually(rowsOf('failed'))
    expect((await endedRun(run.id)).error?.code).toBe('run_cut_off')
  })
})

describe('failure', () => {
  test.each([
    ['/throws', 502, 'function_error'],
    ['/none', 502, 'function_error'],
    ['/hangs', 504, 'function_timeout'],
  ])('%s before the head: a problem with the id of the run', async (path, status, code) => {
    const reply = await call('GET', at(path), { as: workspace.service })
    expect([reply.status, reply.body.code]).toEqual([status, code])
    expect(reply.headers.get('x-run-id')).toBe(reply.body.run_id)
    expect((await endedRun(reply.body.run_id)).error?.code).toBe(code)
  })

  test('after the head: the response stays incomplete', async () => {
    const sent = open('GET', '/breaks')
    sent.end()
    const response = await responseTo(sent)
    expect(response.statusCode).toBe(200)
    await expect(text(response)).rejects.toThrow('aborted')
    expect((await endedRun(String(response.headers['x-run-id']))).error?.code).toBe('function_error')
  })

  test('a body above the limit: refused before the code runs', async () => {
    const sent = open('POST', '/echo').setHeader('content-length', '104857601')
    sent.flushHeaders()
    sent.on('error', () => {})
    const response = await responseTo(sent)
    expect([response.statusCode, response.headers['x-problem-code']]).toEqual([413, 'body_too_large'])
    sent.destroy()
  })

  test('a function without the export: 409 that names it', async () => {
    await deploy('plain', 'export default () => 1')
    const http = await call('GET', at('/', 'plain'), { as: workspace.service })
    expect([http.status, http.body.code, http.body.detail]).toEqual([
      409,
      'state_conflict',
      'The function exports no `fetch`, so it serves no HTTP requests.',
    ])
    const invoked = await call('POST', '/v1/functions/web/invoke', { as: workspace.service, body: {} })
    expect([invoked.status, invoked.body.code]).toEqual([409, 'state_conflict'])
  })
})

describe('access', () => {
  test('anon key in the query: admitted where the function allows it, and the code does not see it', async () => {
    const path = `${at('/seen')}?apikey=${workspace.anon['apikey']}&x=1`
    const { status, body } = await call('GET', path)
    expect([status, new URL(body.url).search]).toEqual([200, '?x=1'])
    await deploy('closed', SERVE)
    const closed = await call('GET', `${at('/seen', 'closed')}?apikey=${workspace.anon['apikey']}`)
    expect([closed.status, closed.body.code]).toEqual([404, 'not_found'])
  })

  test('user: admitted where the function allows it; of a failure it sees no output of the code', async () => {
    const as = await userToken(workspace, 'mia')
    expect((await call('GET', at('/seen'), { as })).status).toBe(404)
    await deploy('for-users', SERVE, { user: true })
    expect((await call('GET', at('/seen', 'for-users'), { as })).status).toBe(200)
    const failed = await call('GET', at('/throws', 'for-users'), { as })
    expect([failed.status, failed.body.logs, failed.body.error]).toEqual([502, undefined, undefined])
  })
})
