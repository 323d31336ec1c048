/** Requests of web pages from other origins: preflight requests, readable replies, the setting `cors.origins`, service keys. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { currentSite } from '../../../src/cli/stack/site.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { inWorkspace } from '../../support/clients/browser.ts'
import {
  fetchFrom,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
  openForeignSite,
} from '../../support/clients/chromium.ts'
import {
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

noticeWithoutChromium('requests of a page of another origin')

const APP = { origin: 'https://app.example.com' }
const DOCUMENTS = '/v1/collections/todos/documents'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  await call('POST', DOCUMENTS, { as: workspace.service, body: { title: 'one' } })
})

const configure = (origins: unknown, to = workspace) =>
  call('POST', '/v1/services/configure', {
    as: to.operator,
    body: { workspace_id: to.workspaceId, cors: { origins } },
  })

describe('preflight request', () => {
  const preflight = (path: string, headers: Record<string, string> = {}) =>
    call('OPTIONS', path, { headers: { ...APP, 'access-control-request-method': 'GET', ...headers } })

  test.each([
    ['documents', DOCUMENTS, 'GET, POST'],
    ['one document', `${DOCUMENTS}/doc_1`, 'GET, PUT, PATCH, DELETE'],
    ['event stream', '/v1/events/subscribe', 'GET'],
    ['caller', '/v1/me', 'GET'],
    ['executions of keys', '/v1/flows/order/executions', 'GET, POST'],
    ['objects', '/v1/objects/a/b.txt', 'GET, PUT, DELETE'],
  ])('%s: answered without a credential', async (_name, path, methods) => {
    const { status, headers, body } = await preflight(path)
    expect([status, body]).toEqual([204, ''])
    expect(headers.get('access-control-allow-origin')).toBe('*')
    expect(headers.get('access-control-allow-credentials')).toBeNull()
    const allowed = headers.get('access-control-allow-methods')?.split(', ') ?? []
    expect(allowed).toEqual(expect.arrayContaining(methods.split(', ')))
    for (const name of ['apikey', 'authorization', 'content-type', 'idempotency-key', 'if-match', 'prefer'])
      expect(headers.get('access-control-allow-headers')).toContain(name)
    expect(Number(headers.get('access-control-max-age'))).toBeGreaterThanOrEqual(600)
  })

  test('every operation on data – is answered, and no operation of admins', async () => {
    const answers = await Promise.all(
      OPERATIONS.map(async ({ name, domain, http }) => {
        const path = http.path.replace('{key}', 'a/b').replaceAll(/\{\w+\}/g, 'x')
        const { status, headers } = await preflight(path, { 'access-control-request-method': http.method })
        const methods = headers.get('access-control-allow-methods')?.split(', ') ?? []
        return {
          name,
          isData: domain !== 'structural_admin',
          isAllowed: status === 204 && methods.includes(http.method),
        }
      }),
    )
    expect(answers.filter(({ isData }) => isData).length).toBeGreaterThan(30)
    expect(answers.filter(({ isData, isAllowed }) => isData !== isAllowed)).toEqual([])
  })

  test.each([
    ['tenants', '/v1/tenants'],
    ['API keys', '/v1/api-keys'],
    ['administration of flows', `/v1/flows/workspaces/ws_1/secrets`],
  ])('%s: administrative routes refuse it', async (_name, path) => {
    const { status, headers } = await preflight(path)
    expect(status).toBe(405)
    expect(headers.get('access-control-allow-origin')).toBeNull()
  })

  test('OPTIONS that is no preflight request: 405 with the methods', async () => {
    const { status, headers } = await call('OPTIONS', DOCUMENTS)
    expect([status, headers.get('allow')]).toEqual([405, 'POST, GET, HEAD'])
  })
})

describe('request of a page', () => {
  test('anon key: the page reads the reply and the headers that it needs', async () => {
    await openCollectionsToAnon(workspace)
    const { status, headers } = await call('GET', DOCUMENTS, { as: workspace.anon, headers: APP })
    expect([status, headers.get('access-control-allow-origin')]).toEqual([200, '*'])
    const exposed = headers.get('access-control-expose-headers')?.split(', ')
    expect(exposed).toEqual(
      expect.arrayContaining([
        ...['etag', 'location', 'link', 'ratelimit', 'ratelimit-policy', 'retry-after'],
        ...['x-request-id', 'x-problem-code'],
      ]),
    )
    expect(headers.get('vary')).toContain('Origin')
  })

  test.each([
    ['no credential', {}, DOCUMENTS, 401],
    ['unknown key', { apikey: 'svc_anon_nothing' }, DOCUMENTS, 401],
    ['invalid query', undefined, `${DOCUMENTS}?nothing=1`, 400],
  ])('%s: the page reads the problem', async (_name, as, path, status) => {
    const reply = await call('GET', path, { as: as ?? workspace.anon, headers: APP })
    expect([reply.status, reply.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
  })

  test('event stream with the key in the query: the page may read it', async () => {
    const path = `/v1/events/subscribe?topic=todos.*&apikey=${workspace.anon['apikey']}`
    const { status, headers } = await call('GET', path, { headers: APP })
    expect([status, headers.get('access-control-allow-origin')]).toEqual([200, '*'])
  })

  test.each([[DOCUMENTS], ['/v1/me'], ['/v1/limits']])('service key: %s: 403', async (path) => {
    const { status, body } = await call('GET', path, { as: workspace.service, headers: APP })
    expect([status, body.code]).toEqual([403, 'service_key_in_browser'])
    expect((await call('GET', path, { as: workspace.service })).status).toBe(200)
  })

  test('page of the platform itself: may use a service key', async () => {
    const headers = { origin: inject('tenon').url }
    expect((await call('GET', DOCUMENTS, { as: workspace.service, headers })).status).toBe(200)
  })

  test('administrative route: the page gets no permission to read the reply', async () => {
    const { headers } = await call('GET', '/v1/tenants', { as: workspace.operator, headers: APP })
    expect(headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('setting cors.origins', () => {
  test('origins listed: pages of others get 403, programs are not affected', async () => {
    const own = await createTestWorkspace()
    const get = (origin?: string, as = own.anon) =>
      call('GET', '/v1/me', { as, headers: origin === undefined ? {} : { origin } })
    expect(
      (await call('GET', `/v1/services?workspace_id=${own.workspaceId}`, { as: own.operator })).body.cors,
    ).toEqual({
      origins: ['*'],
    })
    const listed = ['https://app.example.com', 'https://*.preview.example.com', 'http://localhost:5173']
    expect((await configure(listed, own)).body.cors).toEqual({ origins: listed })
    for (const origin of [undefined, listed[0], 'https://a.preview.example.com', listed[2]])
      expect([origin, (await get(origin)).status]).toEqual([origin, 200])
    for (const origin of [
      ...['https://evil.example', 'http://app.example.com', 'https://app.example.com:8443', 'null', ''],
      ...[
        'https://preview.example.com',
        'https://a.preview.example.com.evil.example',
        'http://localhost:5174',
      ],
    ]) {
      const { status, body, headers } = await get(origin)
      expect([origin, status, body.code]).toEqual([origin, 403, 'origin_refused'])
      expect(headers.get('access-control-allow-origin')).toBe('*')
    }
    const stream = `/v1/events/subscribe?topic=a.*&apikey=${own.anon['apikey']}`
    expect((await call('GET', stream, { headers: { origin: 'https://evil.example' } })).body.code).toBe(
      'origin_refused',
    )
    for (const token of [await tokenOf(inWorkspace(own)), await userToken(own, 'mia')]) {
      expect((await get(listed[0], token)).status).toBe(200)
      expect((await get('https://evil.example', token)).body.code).toBe('origin_refused')
    }
    await configure([], own)
    expect((await get(listed[0])).body.code).toBe('origin_refused')
    expect((await get()).status).toBe(200)
  })

  test.each([
    ['path', 'https://app.example.com/'],
    ['no scheme', 'app.example.com'],
    ['other scheme', 'ftp://app.example.com'],
    ['null', 'null'],
    ['wildcard inside', 'https://app.*.com'],
    ['wildcard of a port', 'http://localhost:*'],
    ['user', 'https://a@app.example.com'],
    ['upper case', 'https://App.example.com'],
    ['default port', 'https://app.example.com:443'],
  ])('%s: refused with its place', async (_name, origin) => {
    const { status, body } = await configure(['https://fine.example', origin])
    expect([status, body.errors?.[0]?.pointer]).toEqual([400, '/cors/origins/1'])
  })

  test('entry refused: the detail never proposes the entry itself', async () => {
    const proposals = new Map([
      ['https://App.example.com/x', 'did you mean https://app.example.com?'],
      ['https://*.*.com', 'write scheme and host'],
    ])
    for (const [origin, proposal] of proposals)
      expect((await configure([origin])).body.errors[0].detail).toContain(proposal)
  })
})

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('in Chromium', () => {
  test('page of another origin: reads, writes, hears events; /docs works under any host name', async () => {
    const own = await createTestWorkspace()
    const { url } = inject('tenon')
    const declared = {
      workspace_id: own.workspaceId,
      collection: 'notes',
      store: 'relational',
      schema: { properties: { text: { type: 'string' } } },
      access: { anon: { read: true, create: true } },
    }
    expect((await call('POST', '/v1/schemas', { as: own.operator, body: declared })).status).toBeLessThan(300)
    const site = await openForeignSite()
    const browser = await launchChromium()
    try {
      const page = await browser.newPage()
      await page.goto(site.origin)
      const notes = `${url}/v1/collections/notes/documents`
      const headers = { ...own.anon, 'content-type': 'application/json', 'idempotency-key': 'once' }
      const heard = page.evaluate(`new Promise((heard) => {
        const source = new EventSource('${url}/v1/events/subscribe?topic=collections.notes.*&apikey=${own.anon['apikey']}')
        window.opened = new Promise((opened) => source.onopen = opened)
        source.onmessage = ({ data }) => heard(data)
        setTimeout(() => heard('nothing'), 30000)
      })`)
      await page.evaluate('window.opened')
      const [created = ''] = await fetchFrom(page, [
        { url: notes, method: 'POST', headers, body: '{"text":"hi"}' },
      ])
      expect(JSON.parse(created)).toMatchObject({ text: 'hi' })
      const [listed = '', refused = ''] = await fetchFrom(page, [
        { url: notes, headers: { ...own.anon } },
        { url: notes, headers: { ...own.service } },
      ])
      expect(JSON.parse(listed).data).toHaveLength(1)
      expect(JSON.parse(refused).code).toBe('service_key_in_browser')
      expect(await heard).toContain('"text":"hi"')
      await currentSite()
      await page.goto(`${url.replace('127.0.0.1', 'tenon.test')}/docs`)
      // Its script runs.
      await page.getByLabel('Search the documentation').waitFor()
    } finally {
      await browser.close()
      await site.close()
    }
  })
})
