/** Replies pass proxies and caches between the client and the API unchanged, and belong to one caller. */

import { request } from 'node:http'
import { afterEach, beforeAll, expect, inject, test } from 'vitest'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startCachingProxy } from '../../support/servers/caching-proxy.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})
afterEach(closeSubscriptions)

test('headers in the description of the API: none has an underscore, which proxies drop', async () => {
  const { body } = await call('GET', '/openapi.json')
  const names: string[] = []
  JSON.stringify(body, (key, value) => {
    if (value?.in === 'header') names.push(value.name)
    if (key === 'headers' && value?.type === undefined) names.push(...Object.keys(value))
    return value
  })
  expect(names.length).toBeGreaterThan(5)
  expect(names.filter((name) => name.includes('_'))).toEqual([])
})

test('reply under a credential: no cache keeps it, and it varies with each credential', async () => {
  const paths = ['/v1/collections/notes/documents', '/v1/me', '/v1/collections/notes/documents/none']
  for (const path of paths) {
    const { headers } = await call('GET', path, { as: workspace.service })
    expect([path, headers.get('cache-control')]).toEqual([path, expect.stringMatching(/private|no-store/)])
    const varying = headers.get('vary')?.toLowerCase().split(', ')
    expect(varying).toEqual(expect.arrayContaining(['authorization', 'apikey', 'origin']))
  }
})

test('reply of code that calls itself public, through a shared cache: kept for the credential that asked, and for no other', async () => {
  const source = `let n = 0
    export const fetch = () => new Response(String(++n), { headers: { 'cache-control': 'public, max-age=600', vary: 'accept-language' } })`
  const id = await deployed(workspace, source, { anon: true })
  const cache = await startCachingProxy(inject('tenon').url)
  const at = { ...inject('tenon'), url: cache.url }
  const read = async (as: Record<string, string>) => {
    const { status, body } = await call('GET', `/v1/functions/${id}/http/`, { as, at })
    return status === 200 ? String(body) : status
  }
  try {
    const { service, anon } = workspace
    expect([await read(service), await read(service), cache.hits.length]).toEqual(['1', '1', 1])
    expect(await read(anon)).toBe('2')
    const strangers = [
      (await createTestWorkspace()).service,
      (await addTestWorkspace(workspace)).service,
      await userToken(workspace, 'mia'),
    ]
    for (const as of strangers) expect(await read(as)).toBe(404)
    expect(await read({})).toBe(401)
    expect([await read(service), cache.hits.length]).toEqual(['1', 2])
  } finally {
    cache.close()
  }
})

/** The start of a reply to a client that can read compressed bodies. */
const startOf = (path: string): Promise<{ headers: NodeJS.Dict<string | string[]>; text: string }> =>
  new Promise((resolve, reject) => {
    const headers = { apikey: workspace.service['apikey'], 'accept-encoding': 'gzip, br' }
    const sent = request(`${inject('tenon').url}${path}`, { headers }, (response) => {
      response.once('data', (data) => {
        resolve({ headers: response.headers, text: String(data) })
        response.destroy()
      })
    })
    sent.on('error', reject).end()
  })

test('client that can read compressed bodies: JSON and streams arrive as they are, and are not buffered', async () => {
  const json = await startOf('/v1/me')
  expect(json.headers['content-encoding']).toBeUndefined()
  expect(JSON.parse(json.text)).toEqual((await call('GET', '/v1/me', { as: workspace.service })).body)
  const stream = await startOf('/v1/events/subscribe?topic=t')
  expect(stream.headers['content-encoding']).toBeUndefined()
  expect(stream.headers).toMatchObject({ 'x-accel-buffering': 'no' })
  expect(stream.headers['cache-control']).toContain('no-transform')
  expect(stream.text).toContain('event: ready')
})

test('subscriptions to 20 topics, and refused ones to 2,000, beside one to another topic: it gets each event once, in order', async () => {
  const many = `topic=${Array.from({ length: 20 }, (_, n) => `t${n}`)}`
  const tooMany = `topic=${Array.from({ length: 2_000 }, (_, n) => `t${n}`)}`
  const as = workspace.service
  const others = await Promise.all(Array.from({ length: 10 }, () => subscribeToEvents(as, many)))
  const own = await subscribeToEvents(as, 'topic=calm')
  const refused = Array.from({ length: 50 }, () => call('GET', `/v1/events/subscribe?${tooMany}`, { as }))
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  for (const data of numbers)
    for (const topic of ['calm', `t${data}`])
      expect((await call('POST', '/v1/events/publish', { as, body: { topic, data } })).status).toBe(202)
  for (const received of [own, ...others])
    expect((await receivedAtLeast(received, 20)).map(({ data }) => data.data)).toEqual(numbers)
  expect(new Set((await Promise.all(refused)).map(({ status }) => status))).toEqual(new Set([414]))
})

test('subscription to 21 topics, or to 2,000: refused', async () => {
  const listed = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`)
  const statusOf = async (query: string) =>
    (await call('GET', `/v1/events/subscribe?${query}`, { as: workspace.service })).status
  expect(await statusOf(`topic=${listed(21)}`)).toBe(400)
  // The address itself is too long.
  expect(await statusOf(`topic=${listed(2_000)}`)).toBe(414)
  // Node refuses a head of more than 16 KiB before the address is looked at.
  expect([414, 431]).toContain(
    await statusOf(
      listed(2_000)
        .map((topic) => `topic=${topic}`)
        .join('&'),
    ),
  )
})
