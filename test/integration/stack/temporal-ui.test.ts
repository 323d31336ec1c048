/** The proxy of the Temporal UI: forwarded requests, and its own replies. */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { runInNewContext } from 'node:vm'
import { afterEach, expect, test } from 'vitest'
import { startUiProxy } from '../../../stack/temporal-ui.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()))
})

async function listen(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return (server.address() as AddressInfo).port
}

const stop = (server: Server) => new Promise((done) => server.close(done))

/** An echo server: replies with the request. */
async function startEchoServer(): Promise<number> {
  const server = createServer((request, response) => {
    response.setHeader('set-cookie', ['a=1', 'b=2']).setHeader('x-path', request.url ?? '')
    response.statusCode = 207
    request.pipe(response)
  })
  closing.push(() => stop(server))
  return listen(server)
}

async function findFreePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  await stop(server)
  return port
}

async function proxyTo(upstream: number, url?: string, codecEndpoint?: string): Promise<string> {
  const port = await findFreePort()
  const own = `http://127.0.0.1:${port}`
  const proxy = await startUiProxy({
    listen: { host: '127.0.0.1', port },
    upstream: { host: '127.0.0.1', port: upstream },
    url: new URL(url ?? own),
    namespace: 'default',
    ...(codecEndpoint !== undefined && { codecEndpoint: () => codecEndpoint }),
  })
  closing.push(() => proxy.close())
  return own
}

test('proxy: request from its own site: forwarded with path, query and body; the reply keeps every cookie', async () => {
  const own = await proxyTo(await startEchoServer())
  const body = 'x'.repeat(300_000)
  const reply = await fetch(`${own}/a%2Fb?c=d`, { method: 'POST', body, headers: { origin: own } })
  expect(reply.status).toBe(207)
  expect(reply.headers.get('x-path')).toBe('/a%2Fb?c=d')
  expect(reply.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
  expect(await reply.text()).toBe(body)
})

test('proxy: no server behind it: 502', async () => {
  const own = await proxyTo(await findFreePort())
  for (const init of [{}, { method: 'POST', body: 'x'.repeat(300_000) }]) {
    const reply = await fetch(own, init)
    expect([reply.status, await reply.text()]).toEqual([502, expect.stringContaining('does not answer')])
  }
})

test('proxy: request for another host name: 421 with the address of the UI', async () => {
  const own = await proxyTo(await startEchoServer(), 'https://temporal.example.com')
  const reply = await fetch(own)
  expect([reply.status, await reply.text()]).toEqual([
    421,
    expect.stringContaining('https://temporal.example.com'),
  ])
})

test('proxy with a codec server: the settings of the UI name it and let it send the cookie', async () => {
  const server = createServer((_, response) =>
    response.end('{"Auth":{"Enabled":false},"Codec":{"PassAccessToken":false}}'),
  )
  closing.push(() => stop(server))
  const codecEndpoint = 'http://127.0.0.1:8787/v1/codec'
  const own = await proxyTo(await listen(server), undefined, codecEndpoint)
  for (const path of ['/api/v1/settings', '/api/v1/settings?']) {
    const reply = await fetch(`${own}${path}`)
    expect(await reply.json()).toEqual({
      Auth: { Enabled: false },
      Codec: {
        ...{ PassAccessToken: false, Endpoint: codecEndpoint, IncludeCredentials: true },
        DefaultErrorMessage: expect.stringContaining('token of an administrator'),
        DefaultErrorLink: '/auth/payloads',
      },
    })
  }
  const other = await fetch(`${own}/api/v1/settingsx`)
  expect(await other.text()).not.toContain('8787')
})

test('proxy: page of the UI: loads the script of views before its own; other replies are unchanged', async () => {
  const page = '<!doctype html><html><head lang="en"><script src="/app.js"></script></head></html>'
  const server = createServer(({ url }, response) => {
    response.setHeader('content-type', url === '/app.js' ? 'text/javascript' : 'text/html; charset=utf-8')
    response.end(page)
  })
  closing.push(() => stop(server))
  const own = await proxyTo(await listen(server))
  const accept = { headers: { accept: 'text/html,*/*' } }
  expect(await (await fetch(`${own}/namespaces/default`, accept)).text()).toBe(
    page.replace('<script', '<script src="/tenon-views.js"></script><script'),
  )
  expect(await (await fetch(`${own}/app.js`, accept)).text()).toBe(page)
})

test('script of views: first visit: columns and views; later ones: changes of the operator stay, the last hour follows', async () => {
  const own = await proxyTo(await startEchoServer())
  const script = await (await fetch(`${own}/tenon-views.js`)).text()
  const items = new Map<string, string>()
  const storage = {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, text: string) => void items.set(name, text),
  }
  const visit = () => runInNewContext(script, { window: { localStorage: storage } })
  const views = (): { id: string; name: string; query: string }[] =>
    JSON.parse(items.get('saved-workflow-queries') ?? '{}').default
  visit()
  expect(JSON.parse(items.get('namespace-workflow-table-columns') ?? '').default).toContainEqual({
    label: 'RunStatus',
  })
  const [failed, ...others] = views()
  expect(failed).toMatchObject({
    query: expect.stringMatching(/^ExecutionStatus="Failed" AND CloseTime>="20/),
  })
  const changed = [{ ...failed, query: 'ExecutionStatus="Failed" AND CloseTime>="2020"' }, others[0]]
  storage.setItem('saved-workflow-queries', JSON.stringify({ default: changed, other: [] }))
  storage.setItem('namespace-workflow-table-columns', '{"default":[{"label":"Start"}]}')
  visit()
  expect(views().map(({ name }) => name)).toEqual([failed?.name, others[0]?.name])
  expect(views()[0]?.query).not.toContain('2020"')
  expect(items.get('namespace-workflow-table-columns')).toBe('{"default":[{"label":"Start"}]}')
  storage.setItem('saved-workflow-queries', 'not JSON')
  expect(visit).not.toThrow()
})

test('proxy: /auth/payloads: leads to the page of the API', async () => {
  const own = await proxyTo(await startEchoServer(), undefined, 'http://127.0.0.1:8787/v1/codec')
  const reply = await fetch(`${own}/auth/payloads`, { redirect: 'manual' })
  expect([reply.status, reply.headers.get('location')]).toEqual([302, 'http://127.0.0.1:8787/auth/payloads'])
})
