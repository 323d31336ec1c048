/** Attacks on the ports of the embedded servers, from local processes and from web pages. */

import { randomUUID } from 'node:crypto'
import { connect } from 'node:http2'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { METRICS_PORTS, UI_PORTS } from '../../stack/temporal.ts'
import {
  type ForeignSite,
  fetchFrom,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
  openForeignSite,
  type PageRequest,
  showImages,
} from '../support/clients/chromium.ts'
import { ask, canFindListeners, type LocalReply, listenerOf, portsOf } from '../support/clients/listeners.ts'
import {
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { withRawClient } from '../support/stack/temporal.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

if (!canFindListeners) console.log('Skipped: attacks on the embedded servers. Only Linux tells their ports.')
noticeWithoutChromium('attacks on the embedded servers from a page')

const { env } = inject('tenon')
const portIn = (address = ''): number => Number(address.split(':').at(-1)?.replace(/\/.*/, ''))
const S3_PORT = portIn(env['S3_ENDPOINT'])
const UI_PORT = portIn(env['TEMPORAL_UI_URL'])
const GRPC_PORT = portIn(env['TEMPORAL_ADDRESS'])
const FOREIGN = { origin: 'https://evil.example' }
const SECRET = 'the plan of this tenant'

let browser: Browser
let site: ForeignSite
beforeAll(async () => {
  if (canFindListeners && hasChromium)
    [browser, site] = await Promise.all([launchChromium(), openForeignSite()])
})
afterAll(async () => {
  await browser?.close()
  await site?.close()
})

describe.runIf(canFindListeners)('SeaweedFS', () => {
  const ports = portsOf(listenerOf(S3_PORT))
  const inner = ports.filter((port) => port !== S3_PORT)
  let workspace: TestWorkspace
  let bucket: string
  const put = (path: string, body: string) =>
    call('PUT', path, { as: workspace.service, body, headers: { 'content-type': 'text/plain' } })
  const object = () => `/v1/objects/${bucket}/private/plan.txt`

  beforeAll(async () => {
    workspace = await createTestWorkspaceWithStorage()
    bucket = await bucketOf(workspace)
    expect((await put(object(), SECRET)).status).toBeLessThan(300)
  })

  /** Expects the object to be unchanged and its bucket to accept another. */
  async function expectIntact(): Promise<void> {
    const read = await call('GET', object(), { as: workspace.service })
    expect([read.status, read.body]).toEqual([200, SECRET])
    const path = `/v1/objects/${bucket}/after.txt`
    expect((await put(path, 'after')).status).toBeLessThan(300)
  }

  /** Requests that a neighbour on the machine sends to objects, buckets and S3 keys. */
  function attacks(): { method: string; path: string }[] {
    const path = `/buckets/${bucket}/private/plan.txt`
    const identity = `/etc/iam/identities/tenon-${workspace.workspaceId}.json`
    return [
      ...['/buckets/?pretty=y', '/etc/iam/identities/?pretty=y', identity, path].map((read) => ({
        method: 'GET',
        path: read,
      })),
      ...['/dir/status', '/vol/status', '/status', '/ui/index.html', '/cluster/status', '/metrics'].map(
        (read) => ({ method: 'GET', path: read }),
      ),
      ...['POST', 'PUT', 'DELETE'].map((method) => ({ method, path })),
      { method: 'DELETE', path: `/buckets/${bucket}?recursive=true` },
      { method: 'GET', path: `/col/delete?collection=${bucket}` },
      { method: 'GET', path: '/dir/assign' },
    ]
  }

  test('inner port over HTTP or TLS without a certificate: no response', async () => {
    expect(inner.length).toBeGreaterThan(3)
    for (const tls of [false, true])
      for (const port of inner)
        for (const { method, path } of attacks()) {
          const headers = { ...FOREIGN, accept: 'application/json', 'content-type': 'text/plain' }
          const reply = await ask(port, path, {
            method,
            headers,
            tls,
            ...(method !== 'GET' && { body: 'x' }),
          })
          expect(reply, `${method} ${port}${path}`).toBeUndefined()
        }
    await expectIntact()
  })

  test('inner port over gRPC: no call succeeds', async () => {
    const calls = inner.map(async (port) => [port, await callsByGrpc(port)])
    expect(await Promise.all(calls)).toEqual(inner.map((port) => [port, false]))
  })

  test('S3 port without a signature: refused, no cross-origin access', async () => {
    for (const path of [`/${bucket}`, `/${bucket}/private/plan.txt`])
      for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS']) {
        const headers = { ...FOREIGN, 'access-control-request-method': 'DELETE' }
        const reply = await ask(S3_PORT, path, { method, headers })
        // It closes the connection on a preflight for a bucket.
        expect(reply?.status ?? 403, `${method} ${path}`).toBe(403)
        expect(reply?.headers['access-control-allow-origin'], `${method} ${path}`).toBeUndefined()
      }
    await expectIntact()
  })

  describe.runIf(hasChromium)('cross-site page', () => {
    const foreign = inForeignPage()

    test('requests on every port: cannot read, overwrite or delete an object or bucket', async () => {
      const site = (port: number) => `http://127.0.0.1:${port}`
      const requests = ports.flatMap((port) =>
        attacks().flatMap(({ method, path }): PageRequest[] => [
          { url: site(port) + path, method, mode: 'cors' },
          ...(method === 'POST'
            ? [{ url: site(port) + path, method, mode: 'no-cors', asForm: true } as const]
            : []),
        ]),
      )
      const read = await fetchFrom(foreign.page(), requests)
      await showImages(
        foreign.page(),
        ports.map((port) => `${site(port)}/col/delete?collection=${bucket}`),
      )
      // S3 allows every page to read that a method is not allowed.
      const readable = requests
        .filter((_, index) => !/^$|<Code>MethodNotAllowed</.test(read[index] ?? ''))
        .map(({ url }) => url)
      expect(readable).toEqual([])
      await expectIntact()
    })
  })
})

describe.runIf(canFindListeners)('Temporal', () => {
  const ports = portsOf(listenerOf(GRPC_PORT))

  test('HTTP on every port: only UI, metrics and the closed API respond', async () => {
    const replies = await Promise.all(ports.map(async (port) => [port, await ask(port, '/')] as const))
    const answering = replies.filter(([, reply]) => reply !== undefined).map(([port]) => port)
    expect(answering).toHaveLength(3)
    expect(answering).not.toContain(UI_PORT)
    // Browsers block two of them; the third refuses every host.
    const open = answering.filter((port) => ![...UI_PORTS, ...METRICS_PORTS].includes(port))
    expect(open).toHaveLength(1)
    const api = await ask(open[0] ?? 0, '/api/v1/namespaces')
    expect(api?.status).toBe(403)
  })

  test('UI under a foreign host name: 421', async () => {
    for (const path of ['/', '/api/v1/namespaces', '/api/v1/settings']) {
      for (const host of [`rebind.evil.example:${UI_PORT}`, 'rebind.evil.example', '127.0.0.1'])
        expect((await ask(UI_PORT, path, { headers: { host } }))?.status, host).toBe(421)
      for (const host of [`127.0.0.1:${UI_PORT}`, `localhost:${UI_PORT}`, `LOCALHOST:${UI_PORT}`])
        expect((await ask(UI_PORT, path, { headers: { host } }))?.status, host).toBe(200)
    }
  })

  test('UI, change sent by another site: 403', async () => {
    const host = `127.0.0.1:${UI_PORT}`
    const post = (headers: Record<string, string>): Promise<LocalReply | undefined> =>
      ask(UI_PORT, `/api/v1/namespaces/default/workflows/${randomUUID()}`, {
        method: 'POST',
        headers: { host, 'content-type': 'application/json', ...headers },
        body: '{}',
      })
    const foreign: Record<string, string>[] = [
      FOREIGN,
      { origin: 'null' },
      { origin: `http://${host}.evil.test` },
      { origin: `http://localhost:${UI_PORT}` },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: `http://${host}` },
    ]
    for (const headers of foreign) {
      const reply = await post(headers)
      expect([reply?.status, reply?.body], JSON.stringify(headers)).toEqual([
        403,
        expect.stringContaining('site'),
      ])
    }
    // The UI's server receives it, and misses a type name.
    const own = await post({ origin: `http://${host}`, 'sec-fetch-site': 'same-origin' })
    expect(own?.body).toContain('WorkflowType')
  })

  describe.runIf(hasChromium)('cross-site page', () => {
    const foreign = inForeignPage()

    test('start request on every port: starts no workflow', async () => {
      const workspace = await createTestWorkspace()
      const ref = { tenantId: workspace.tenantId, workspaceId: workspace.workspaceId }
      const id = `${workspace.tenantId}:${workspace.workspaceId}:flow_01m84ptafheaqb0jb56p2t1918:${randomUUID()}`
      const path = `/api/v1/namespaces/default/workflows/${encodeURIComponent(id)}`
      const body = JSON.stringify(startOf(ref))
      const requests = [...ports, UI_PORT].map(
        (port): PageRequest => ({
          url: `http://127.0.0.1:${port}${path}`,
          method: 'POST',
          mode: 'no-cors',
          headers: { 'content-type': 'text/plain' },
          body,
        }),
      )
      expect((await fetchFrom(foreign.page(), requests)).join('')).toBe('')
      const count = await withRawClient(async (client) => {
        const described = await client.workflow
          .getHandle(id)
          .describe()
          .catch((error: Error) => error.name)
        return typeof described === 'string' ? described : described.status.name
      })
      expect(count).toBe('WorkflowNotFoundError')
    })

    test('ports of the UI server and metrics: blocked by the browser', async () => {
      for (const port of [...UI_PORTS, ...METRICS_PORTS]) {
        const opened = foreign.page().goto(`http://127.0.0.1:${port}`)
        await expect(opened, String(port)).rejects.toThrow('ERR_UNSAFE_PORT')
      }
    })

    test('name rebound to this machine: reads nothing', async () => {
      const paths = ['/api/v1/namespaces', '/api/v1/settings', '/metrics', '/']
      for (const port of [...ports, UI_PORT]) {
        const site = `http://${unique('rebound')}.test:${port}`
        const opened = await foreign
          .page()
          .goto(site, { timeout: 10_000 })
          .catch(() => undefined)
        const status = opened?.status()
        // Ports without HTTP, or blocked by browsers, do not open.
        if (status === undefined) continue
        const urls = paths.map((path) => ({ url: site + path, headers: { accept: 'application/json' } }))
        const read = (await fetchFrom(foreign.page(), urls)).join('')
        expect(read, site).not.toContain('namespaceInfo')
        expect(read, site).not.toContain('CodecEndpoint')
        expect(read, site).not.toContain('# TYPE')
        expect(status, site).toBeGreaterThanOrEqual(400)
      }
    })
  })
})

test.runIf(canFindListeners)('PostgreSQL and Valkey over HTTP: no response', async () => {
  for (const url of [inject('tenon').databaseUrl, env['REDIS_URL'] ?? '']) {
    const ports = portsOf(listenerOf(Number(new URL(url).port)))
    const replies = await Promise.all(ports.map((port) => ask(port, '/')))
    expect(replies.filter((reply) => reply !== undefined)).toEqual([])
  }
})

/** A forged start request: an execution of the attacker's flow under the tenant's name. */
function startOf(ref: object): object {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const payload = (value: unknown): object => ({
    metadata: { encoding: base64('json/plain') },
    data: base64(JSON.stringify(value)),
  })
  const input = {
    execution_id: 'run_01m84ptafheaqb0jb56p2t1918',
    protocol: 4,
    input: {},
    trigger: { kind: 'manual' },
  }
  return {
    workflowType: { name: 'flowExecution' },
    taskQueue: { name: `nobody-works-here-${unique('q')}` },
    header: { fields: { 'tenon-tenant': payload(ref) } },
    input: { payloads: [payload(input)] },
  }
}

/** True if a server answers a gRPC call without TLS. */
function callsByGrpc(port: number): Promise<boolean> {
  return new Promise((done) => {
    const session = connect(`http://127.0.0.1:${port}`)
    const end = (answered: boolean): void => {
      session.destroy()
      done(answered)
    }
    session.once('error', () => end(false)).once('close', () => end(false))
    const headers = {
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    }
    const stream = session.request(headers)
    stream.once('response', (reply) => end(reply['grpc-status'] !== undefined || reply[':status'] === 200))
    stream.once('error', () => end(false))
    stream.setTimeout(3_000, () => end(false))
    stream.end(Buffer.alloc(5))
  })
}

/** Opens a page of a foreign site for the tests of a block. */
function inForeignPage(): { page(): Page } {
  let page: Page
  beforeEach(async () => {
    page = await browser.newPage()
    await page.goto(site.origin)
  })
  return { page: () => page }
}
