/** OpenAPI documents of tenants: parsing, the cache of one workspace, and bounded load on the process. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CallHttpClient } from '../../../src/activities/http/call-http-client.ts'
import { Tokens } from '../../../src/activities/http/oauth-tokens.ts'
import { type DocumentReader, Documents } from '../../../src/activities/http/openapi-document.ts'
import { Egress } from '../../../src/infra/http-client/egress.ts'
import { ThreadPool } from '../../../src/infra/thread-pool.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { stopwatch } from '../../support/stopwatch.ts'

/** Measures the longest time for which the thread is blocked while `work` runs. */
function watchBlocking<T>(work: Promise<T>): { work: Promise<T>; longestMs: () => number } {
  let longestMs = 0
  let lastMs = performance.now()
  const watch = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - lastMs)
    lastMs = performance.now()
  }, 20)
  return { work: work.finally(() => clearInterval(watch)), longestMs: () => longestMs }
}

describe('OpenAPI documents', () => {
  let fakeServers: FakeServers
  let text = ''
  beforeAll(async () => {
    fakeServers = await FakeServers.open({ '/doc': () => ({ text }), '/gone': () => ({ status: 410 }) })
  })
  const threads = new ThreadPool()
  afterAll(async () => {
    threads.close()
    await fakeServers.close()
  })

  let nowMs = 1
  const documents = new Documents(() => nowMs)
  const read = (
    source: string,
    workspace = 'w',
    path = `/doc?${Math.random()}`,
    authentication?: unknown,
  ) => {
    text = source
    const services = {
      http: new CallHttpClient(new Egress([]), { allowed: [fakeServers.host] }),
      tokens: new Tokens(),
      workflowId: 'r',
    }
    const reader: DocumentReader = {
      workspace,
      yamlInThread: (input, cpuMs) => threads.run('t', { name: 'yamlToJson', input, cpuMs }),
    }
    return documents.get({ endpoint: `${fakeServers.origin}${path}`, authentication }, reader, services)
  }
  const JSON_TEXT = '{"openapi":"3.0.3","paths":{}}'

  test('JSON and YAML: are parsed', async () => {
    expect((await read(JSON_TEXT)).document).toEqual({ openapi: '3.0.3', paths: {} })
    expect((await read(`\ufeff${JSON_TEXT}`)).document).toMatchObject({ openapi: '3.0.3' })
    expect((await read("swagger: '2.0'\npaths: &a {}\nmore: *a")).document).toMatchObject({ more: {} })
  })

  test.each([
    ['no JSON', '{"openapi":'],
    ['no YAML', 'a: [b'],
    ['another version', '{"openapi":"4.0.0"}'],
    ['no document', '[1]'],
    ['a text', 'hello'],
    ['nothing', ''],
    [
      'a bomb',
      `openapi: 3.0.0\na0: &a0 [x]\n${Array.from({ length: 30 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}]`).join('\n')}`,
    ],
    ['YAML without measure', `openapi: 3.0.0\nx: ${'y'.repeat(2_100_000)}`],
    ['100,000 levels of YAML', '['.repeat(100_000)],
    ['questions without end', '? '.repeat(500_000)],
    ['100,000 levels of JSON', `{"a":${'['.repeat(100_000)}`],
  ])('%s: is rejected without blocking the thread', async (_name, source) => {
    const elapsedMs = stopwatch()
    const held = watchBlocking(read(source))
    await expect(held.work).rejects.toMatchObject({ nonRetryable: true, type: 'configuration' })
    expect(elapsedMs()).toBeLessThan(8_000)
    expect(held.longestMs()).toBeLessThan(1_000)
  })

  test('document of 50 MB: reading stops at the limit', async () => {
    await expect(read(JSON_TEXT.padEnd(52_428_800))).rejects.toMatchObject({ code: 'upstream_invalid' })
  })

  test('missing document: is reported', async () => {
    await expect(read('', 'w', '/gone')).rejects.toMatchObject({ type: 'communication' })
  })

  test('cache: keeps a document per workspace, and none that was fetched with credentials', async () => {
    const count = () => fakeServers.requestsTo('/doc-kept').length
    fakeServers.requests.length = 0
    await read(JSON_TEXT, 'w', '/doc-kept')
    await read(JSON_TEXT, 'w', '/doc-kept')
    expect(count()).toBe(1)
    await read(JSON_TEXT, 'other', '/doc-kept')
    expect(count()).toBe(2)
    const bearer = { scheme: 'bearer', properties: { token: 'x' } }
    await read(JSON_TEXT, 'w', '/doc-kept', bearer)
    await read(JSON_TEXT, 'w', '/doc-kept', bearer)
    expect(count()).toBe(4)
    nowMs += 300_001
    await read(JSON_TEXT, 'w', '/doc-kept')
    expect(count()).toBe(5)
  })

  test('cache: large documents evict each other', async () => {
    const large = JSON_TEXT.padEnd(7_000_000)
    fakeServers.requests.length = 0
    for (const name of ['a', 'b', 'c', 'c', 'a']) await read(large, 'w', `/doc-${name}`)
    expect(fakeServers.requests.map(({ url }) => url)).toEqual(['/doc-a', '/doc-b', '/doc-c', '/doc-a'])
  })
})
