/** The memory of Valkey: a server that evicts keys is refused, one without limit reported, and a full one named. */

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ExpiringHashes } from '../../../src/infra/valkey/expiring-hashes.ts'
import { Ports } from '../../../stack/ports.ts'
import { loadSecrets } from '../../../stack/server.ts'
import { Supervisor } from '../../../stack/supervise.ts'
import { valkey } from '../../../stack/valkey.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { partStatus } from '../../support/clients/status.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { refusalOf, runCheckNamed } from '../../support/stack/start-outcome.ts'

const dir = mkdtempSync(join(tmpdir(), 'tenon-valkey-'))
const supervisor = new Supervisor()
let env: { REDIS_URL: string }
let redis: Redis
beforeAll(async () => {
  chmodSync(dir, 0o711)
  const started = await valkey.start({
    ...{ dir, supervisor, ephemeral: true, env: process.env, secrets: loadSecrets(dir) },
    ports: new Ports({ remembered: {}, any: true }),
    signal: new AbortController().signal,
    progress: () => {},
  })
  env = { REDIS_URL: started.env['REDIS_URL'] ?? '' }
  redis = new Redis(env.REDIS_URL)
})
afterAll(async () => {
  redis.disconnect()
  await supervisor.stop()
  rmSync(dir, { recursive: true, force: true })
})

/** The finding about Valkey, and how API and worker start. */
async function start() {
  const { is, detail } = (await runCheckNamed('valkey', env)) ?? {}
  return { is, detail, api: await refusalOf('api', env), worker: await refusalOf('worker', env) }
}

test('embedded server: has a limit, and deletes nothing by itself', async () => {
  expect(await start()).toMatchObject({
    ...{ is: 'good', api: '', worker: '' },
    detail: expect.stringMatching(/^\d+ % of \d+ MiB in use, deletes nothing by itself$/),
  })
})

const withPolicy = async (policy: string, work: () => Promise<void>) => {
  await redis.config('SET', 'maxmemory-policy', policy)
  try {
    await work()
  } finally {
    await redis.config('SET', 'maxmemory-policy', 'noeviction')
  }
}

test.each(['allkeys-lru', 'allkeys-lfu', 'allkeys-random'])(
  'policy %s: deletes events: neither API nor worker starts',
  (policy) =>
    withPolicy(policy, async () => {
      const sentence = `  valkey: Valkey deletes keys of any kind when its memory is full (maxmemory-policy ${policy}): `
      expect(await start()).toMatchObject({
        is: 'wrong',
        api: expect.stringContaining(sentence),
        worker: expect.stringContaining('Set `maxmemory-policy noeviction`.'),
      })
    }),
)

test.each(['volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'])(
  'policy %s: deletes no events: reported, and both start',
  (policy) =>
    withPolicy(policy, async () => {
      const sentence = `keys that expire when its memory is full (maxmemory-policy ${policy}): counts of rate limits`
      expect(await start()).toMatchObject({
        ...{ is: 'warning', api: '', worker: '' },
        detail: expect.stringMatching(new RegExp(sentence.replace(/[()]/g, '\\$&'))),
      })
    }),
)

test('keys that expire: are those of rate limits, open streams and MCP sessions, and none of events', async () => {
  const workspace = await createTestWorkspace()
  const node = await startInProcessNode({ ...env, TENON_RATE_SERVICE: '60/min' })
  const sessions = new ExpiringHashes(env.REDIS_URL, 60, () => {})
  try {
    const at = node.at
    await subscribeToEvents(workspace.service, 'topic=kept.test,collections.kept.*', {}, at)
    const event = { topic: 'kept.test', data: {} }
    await call('POST', '/v1/events/publish', { as: workspace.service, at, body: event })
    await sessions.set('tenon:mcp', 'level', 'info', 1)
    const kinds = new Map<boolean, Set<string>>()
    for (const key of await redis.keys('*')) {
      const expires = (await redis.pttl(key)) >= 0
      kinds.set(expires, (kinds.get(expires) ?? new Set()).add(await redis.type(key)))
    }
    // A count of a limit is a string, the leases of open streams are a sorted set, a session is a hash.
    expect([...(kinds.get(true) ?? [])].toSorted()).toEqual(['hash', 'string', 'zset'])
    expect([...(kinds.get(false) ?? [])].toSorted()).toEqual(['hash', 'stream'])
  } finally {
    closeSubscriptions()
    sessions.close()
    await node.close()
  }
})

test('no limit: reported, and both start', async () => {
  await redis.config('SET', 'maxmemory', '0')
  expect(await start()).toMatchObject({
    ...{ is: 'warning', api: '', worker: '' },
    detail: expect.stringMatching(/no limit of memory \(maxmemory 0\).* Set `maxmemory` below/),
  })
})

test('full: publishing, administration and streams answer that it is full, documents go on, it is reported', async () => {
  const workspace = await createTestWorkspace()
  const node = await startInProcessNode(env)
  try {
    const ask = async (method: string, path: string, as = workspace.service, body?: object) =>
      call(method, path, { as, at: node.at, body })
    const event = { topic: 'full.test', data: {} }
    expect((await ask('POST', '/v1/events/publish', workspace.service, event)).status).toBeLessThan(300)
    await redis.config('SET', 'maxmemory', '1mb')
    const refused = [
      await ask('POST', '/v1/events/publish', workspace.service, event),
      await ask('GET', '/v1/tenants', workspace.operator),
      await ask('GET', '/v1/events/subscribe?topic=full.*'),
    ]
    for (const { status, body } of refused) {
      expect([status, body.code, body.detail]).toEqual([
        ...[503, 'dependency_unavailable', 'Valkey is full: it takes no writes.'],
      ])
    }
    expect(await partStatus('valkey', node.at)).toMatchObject({ status: 'fail', cause: 'full' })
    const created = await ask('POST', '/v1/collections/full/documents', workspace.service, { n: 1 })
    expect(created.status).toBe(201)
    expect(await start()).toMatchObject({
      is: 'warning',
      detail: expect.stringMatching(/^Valkey uses \d+ % of its/),
    })
  } finally {
    await redis.config('SET', 'maxmemory', '0')
    await node.close()
  }
})
