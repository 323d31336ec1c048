/** Checks with real Sentinels that a failover loses no event that was acknowledged, and that everything goes on at the new primary. */

import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Appender } from '../../../src/features/events/outbox-relay.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { eventsOf, type StreamKey, Streams } from '../../../src/infra/valkey/streams.ts'
import { closeSubscriptions, messages, subscribeToEvents } from '../../support/clients/sse.ts'
import { partStatus } from '../../support/clients/status.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis-server.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { refusalOf } from '../../support/stack/start-outcome.ts'

const NAME = 'mymaster'
const PASSWORD = 'a-password'
const DATA = [
  'maxmemory 100mb',
  'maxmemory-policy noeviction',
  `requirepass ${PASSWORD}`,
  `masterauth ${PASSWORD}`,
]

let servers: RedisServer[]
let sentinels: RedisServer[]
let settings: Record<string, string>
let node: Node
let workspace: TestWorkspace
beforeAll(async () => {
  const client = { password: PASSWORD }
  const primary = await startRedis({ settings: DATA, client })
  const replica = () => startRedis({ settings: [...DATA, `replicaof 127.0.0.1 ${primary.port}`], client })
  servers = [primary, await replica(), await replica()]
  const watch = [
    `sentinel monitor ${NAME} 127.0.0.1 ${primary.port} 2`,
    `sentinel auth-pass ${NAME} ${PASSWORD}`,
    `sentinel down-after-milliseconds ${NAME} 1000`,
    `sentinel failover-timeout ${NAME} 5000`,
    'requirepass of-sentinels',
    'sentinel sentinel-pass of-sentinels',
  ]
  const sentinel = () =>
    startRedis({ settings: watch, args: ['--sentinel'], client: { password: 'of-sentinels' } })
  sentinels = [await sentinel(), await sentinel(), await sentinel()]
  await eventually(async () => (await replicas(primary)) === 2 || undefined)
  for (const one of sentinels)
    await eventually(async () => {
      const others = (await one.client.call('SENTINEL', 'sentinels', NAME)) as unknown[]
      return others.length === 2 || undefined
    })
  settings = {
    REDIS_URL: `redis://:${PASSWORD}@${NAME}`,
    REDIS_SENTINELS: sentinels.map(({ port }) => `127.0.0.1:${port}`).join(','),
    REDIS_SENTINEL_PASSWORD: 'of-sentinels',
  }
  node = await startInProcessNode(settings)
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  await node?.close()
  await Promise.all([...(sentinels ?? []), ...(servers ?? [])].map((one) => one.stop()))
})
afterEach(closeSubscriptions)

async function replicas({ client }: RedisServer): Promise<number> {
  return (await client.info('replication')).match(/^slave\d+:.*state=online/gm)?.length ?? 0
}

async function primaryOf(): Promise<RedisServer> {
  const [sentinel] = sentinels as [RedisServer]
  const [, port] = (await sentinel.client.call('SENTINEL', 'get-master-addr-by-name', NAME)) as string[]
  const found = servers.find((one) => String(one.port) === port)
  if (found === undefined) throw new Error(`no server at ${port}`)
  return found
}

const publish = (n: number) =>
  call('POST', '/v1/events/publish', {
    as: workspace.service,
    at: node.at,
    body: { topic: 'load', data: { n } },
  })

/** Publishes all the time while something happens. @returns the numbers of the acknowledged events, and how many were refused */
async function underLoad(work: () => Promise<void>): Promise<{ acknowledged: number[]; refused: number }> {
  const acknowledged: number[] = []
  let refused = 0
  let next = 0
  let isOver = false
  const lane = async () => {
    while (!isOver) {
      next += 1
      const n = next
      const { status } = await publish(n)
      if (status === 202) acknowledged.push(n)
      else {
        expect(status).toBe(503)
        refused += 1
        await pause(20)
      }
    }
  }
  const lanes = Array.from({ length: 4 }, lane)
  try {
    await eventually(async () => acknowledged.length > 50 || undefined)
    await work()
    const before = acknowledged.length
    await eventually(async () => acknowledged.length > before + 50 || undefined, 60_000)
  } finally {
    isOver = true
    await Promise.all(lanes)
  }
  return { acknowledged, refused }
}

/** The numbers of all events that the streams have. */
async function stored(): Promise<Set<number>> {
  const { client } = await primaryOf()
  const keys = await client.keys('tenon:*:events')
  const rows = (await Promise.all(keys.map((key) => client.xrange(key, '-', '+')))).flat()
  return new Set(rows.map(([, fields]) => JSON.parse(fields[fields.indexOf('event') + 1] ?? '{}').data?.n))
}

test('processes start at the primary that Sentinels name', async () => {
  for (const process of ['api', 'worker'] as const) expect(await refusalOf(process, settings)).toBe('')
  expect(await partStatus('valkey', node.at)).toMatchObject({ status: 'pass' })
})

test('primary killed during publish: each acknowledged event is at the new primary, and subscribers hear the next ones', async () => {
  const before = await primaryOf()
  const { acknowledged } = await underLoad(async () => {
    before.signal('SIGKILL')
    await eventually(async () => (await primaryOf()) !== before || undefined, 60_000)
  })
  const there = await stored()
  expect(acknowledged.filter((n) => !there.has(n))).toEqual([])
  const heard = await subscribeToEvents(workspace.service, 'topic=after', {}, node.at)
  await eventually(async () => {
    await call('POST', '/v1/events/publish', {
      as: workspace.service,
      at: node.at,
      body: { topic: 'after', data: {} },
    })
    return messages(heard).length > 0 || undefined
  })
  await before.start()
  await eventually(async () => (await replicas(await primaryOf())) === 2 || undefined, 60_000)
})

test('primary frozen and replaced during publish: the same', async () => {
  const before = await primaryOf()
  const { acknowledged, refused } = await underLoad(async () => {
    before.signal('SIGSTOP')
    await eventually(async () => (await primaryOf()) !== before || undefined, 60_000)
  })
  before.signal('SIGCONT')
  expect(refused).toBeGreaterThan(0)
  const there = await stored()
  expect(acknowledged.filter((n) => !there.has(n))).toEqual([])
  await eventually(async () => (await replicas(await primaryOf())) === 2 || undefined, 60_000)
})

test('no replica left: an event is refused, since a failover would lose it', async () => {
  await withoutReplicas(async () => {
    const { status, body } = await publish(0)
    expect([status, body.code, body.part]).toEqual([503, 'dependency_unavailable', 'valkey'])
  })
  await eventually(async () => (await publish(0)).status === 202 || undefined)
})

const address = () => ({
  url: `redis://:${PASSWORD}@${NAME}`,
  sentinels: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
  sentinelPassword: 'of-sentinels',
})

/** Does the work while no replica answers. */
async function withoutReplicas(work: () => Promise<void>): Promise<void> {
  const primary = await primaryOf()
  const others = servers.filter((one) => one !== primary)
  for (const one of others) one.signal('SIGSTOP')
  try {
    await work()
  } finally {
    for (const one of others) one.signal('SIGCONT')
  }
}

const message = (text: string) => ({ topic: 'a', source: 's', text })
const succeeds = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => undefined,
  )

test('relay: while no replica answers, attempts append nothing', async () => {
  const appender = new Appender(address(), () => {})
  const key: StreamKey = `tenon:{ten_x}:${unique('changes')}`
  const append = (text: string) => succeeds(appender.append([{ key, message: message(text) }]))
  await eventually(() => append('before'))
  await withoutReplicas(async () => {
    for (const _ of Array(3)) expect(await append('meanwhile')).toBe(undefined)
  })
  await eventually(() => append('meanwhile'))
  appender.close()
  expect((await (await primaryOf()).client.xrange(key, '-', '+')).map(([, fields]) => fields[5])).toEqual([
    'before',
    'meanwhile',
  ])
})

test('relay: a batch that cuts the replicas off is not appended again when they are back', async () => {
  const { client } = await primaryOf()
  const appender = new Appender(address(), () => {})
  const key: StreamKey = `tenon:{ten_x}:${unique('changes')}`
  const batch = Array.from({ length: 16 }, (_, n) => ({ key, message: message(`${n}`.padEnd(500_000, 'x')) }))
  const [, limits = ''] = (await client.config('GET', 'client-output-buffer-limit')) as string[]
  // A replica whose buffer is full loses its connection, and must copy everything.
  await client.config('SET', 'client-output-buffer-limit', 'replica 1mb 1mb 1')
  try {
    expect(await succeeds(appender.append(batch))).toBe(undefined)
    await eventually(() => succeeds(appender.append(batch)), 60_000)
  } finally {
    await client.config('SET', 'client-output-buffer-limit', limits)
    appender.close()
  }
  expect(await client.xlen(key)).toBe(batch.length)
  await client.del(key)
})

test('while events wait for a replica, reads are answered, and what is too much is refused at once', async () => {
  const streams = new Streams(address(), () => {})
  const key = eventsOf('ten_x')
  const add = (text: string) => succeeds(streams.publish(key, message(text)))
  await eventually(() => add('before'))
  const order: string[] = []
  const note = (name: string, work: Promise<unknown>) => work.finally(() => order.push(name))
  await withoutReplicas(async () => {
    const { ofTenantMax } = INFRA_LIMITS.replicaConfirmsPending
    const waiting = Array.from({ length: ofTenantMax }, (_, n) => note('published', add(`${n}`)))
    const { client } = await primaryOf()
    await eventually(async () => String(await client.client('LIST')).includes('cmd=wait') || undefined)
    const others = [
      note('too much', expect(streams.publish(key, message('x'))).rejects.toThrow('Valkey does not answer.')),
      // One after the other: the answers to all that has been sent could come with that to the publisher.
      note(
        'read',
        streams.ping().then(() => streams.following(eventsOf('ten_y'), '0-0')),
      ),
    ]
    await Promise.all(others)
    expect(order).toEqual(['too much', 'read'])
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([undefined]))
  })
  await eventually(() => add('after'))
  streams.close()
})

test('a script that the primary has forgotten: what confirms an event comes after it', async () => {
  const { client } = await primaryOf()
  const streams = new Streams(address(), () => {})
  const add = (topic: string) => succeeds(streams.publish(eventsOf('ten_x'), { ...message('{}'), topic }))
  await eventually(() => add('first'))
  const monitor = await client.monitor()
  const seen: string[] = []
  monitor.on('monitor', (_time: string, [command = '', ...args]: string[]) => {
    seen.push(args.includes('of-forgotten') ? `${command} of-forgotten`.toLowerCase() : command.toLowerCase())
  })
  await client.script('FLUSH')
  expect(await add('of-forgotten')).toBe(true)
  await client.echo('end')
  await eventually(async () => seen.includes('echo') || undefined)
  monitor.disconnect()
  streams.close()
  const confirming = seen.slice(seen.indexOf('xadd of-forgotten')).indexOf('wait')
  expect(confirming, seen.join(', ')).toBeGreaterThan(0)
})
