/** A new subscriber receives everything after its start position, however many others are subscribed. */

import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterEach, expect, inject, test } from 'vitest'
import type { FeedSink } from '../../../src/core/bytes.ts'
import { isBefore } from '../../../src/core/execution.ts'
import { Events } from '../../../src/features/events/events.ts'
import { EVENT_LIMITS } from '../../../src/features/events/limits.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { changesOf, eventsOf, type StreamKey, Streams, timeOf } from '../../../src/infra/valkey/streams.ts'
import { eventually, unique } from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

const LATE_MS = 150
const url = new URL(inject('tenon').env['REDIS_URL'] ?? '')
const open: { close(): void }[] = []
afterEach(() => {
  for (const each of open.splice(0)) each.close()
})

function streamsAt(at: string): Streams {
  const streams = new Streams(at, () => {})
  open.push(streams)
  return streams
}

/** A Redis connection whose replies are delayed, except for those of its reader, which connects second. */
async function connectWithDelay(): Promise<Streams> {
  const proxy = await startTcpProxy(url, { lateMs: (connection) => (connection === 0 ? LATE_MS : 0) })
  open.push(proxy)
  return streamsAt(Object.assign(new URL(url), { port: String(proxy.port) }).href)
}

const newStreamKey = (): StreamKey =>
  changesOf({ tenantId: `ten_${unique('t')}`, workspaceId: `ws_${unique('w')}` })

/** @returns ids in the order of delivery */
async function listen(streams: Streams, key: StreamKey): Promise<{ after: string; received: string[] }> {
  const received: string[] = []
  const { after } = await streams.listen(key, ({ id }) => received.push(id))
  return { after, received }
}

test('subscriber: joins while events arrive: each is delivered or lies before its start position', async () => {
  const [publisher, streams, key] = [streamsAt(url.href), await connectWithDelay(), newStreamKey()]
  const publish = () => publisher.publish(key, { topic: 't', source: 's', text: '{}' })
  await publish()
  const first = await listen(streams, key)
  const second = listen(streams, key)
  // The server has reported the last id, and no subscriber has received it yet.
  await pause(LATE_MS / 2)
  const during = await publish()
  await eventually(async () => first.received.includes(during) || undefined)
  const { after, received } = await second
  const behind = await publish()
  await eventually(async () => received.includes(behind) || undefined)
  const { entries } = await streams.following(key, '0-0')
  const past = entries.map(({ id }) => id).filter((id) => !isBefore(after, id))
  expect([...past.slice(1), ...received]).toEqual([during, behind])
})

test('subscriber: joins while the reader waits for another stream: delivered at once', async () => {
  const [publisher, streams] = [streamsAt(url.href), streamsAt(url.href)]
  await listen(streams, newStreamKey())
  for (let nth = 0; nth < 30; nth++) {
    const key = newStreamKey()
    const { received } = await listen(streams, key)
    const id = await publisher.publish(key, { topic: 't', source: 's', text: '{}' })
    await eventually(async () => received.includes(id) || undefined, 2_000)
  }
})

test('subscriber: slow, stream dropped entries: one gap notice', async () => {
  const ref = { tenantId: `ten_${unique('t')}`, workspaceId: `ws_${unique('w')}` } as const
  const [streams, key, redis] = [streamsAt(url.href), eventsOf(ref.tenantId), new Redis(url.href)]
  open.push({ close: () => redis.disconnect() })
  const ids: string[] = []
  for (let n = 0; n < 3 * INFRA_LIMITS.eventsReadAtOnceMax; n++)
    ids.push(await streams.publish(key, { topic: 't', source: 's', text: '{}' }))
  const sent: string[] = []
  let release = () => {}
  const drained = new Promise<void>((done) => {
    release = done
  })
  const sink: FeedSink = { send: (frame) => sent.push(frame) > 0, drained: () => drained, end: () => {} }
  const feed = await new Events(ref, streams).subscribe({
    topics: ['t'],
    ownWorkspace: false,
    after: ids[0] ?? '',
  })
  const stop = feed.open(sink)
  await eventually(async () => sent.some((frame) => frame.includes(ids[1] ?? '-')) || undefined)
  await redis.xtrim(key, 'MAXLEN', 5)
  release()
  await eventually(async () => sent.some((frame) => frame.includes(ids.at(-1) ?? '-')) || undefined)
  stop()
  const got = ids.slice(1, INFRA_LIMITS.eventsReadAtOnceMax + 1)
  const before = `${timeOf(ids.at(-5) ?? '') - 1}-9999999999`
  const gap = `event: gap\ndata: ${JSON.stringify({ after: got.at(-1), earliest: before })}\n\n`
  const events = [...got, gap, ...ids.slice(-5)].map((id) => (id === gap ? gap : `id: ${id}\ndata: {}\n\n`))
  expect(sent.slice(1)).toEqual(events)
})

test('published events that take more memory than a stream may: the newest are kept', async () => {
  const [streams, redis] = [streamsAt(url.href), new Redis(url.href)]
  const key = eventsOf(`ten_${unique('t')}`)
  const text = 'x'.repeat(EVENT_LIMITS.eventBytesMax)
  const count = Math.ceil((INFRA_LIMITS.eventsKeptBytesMax * 1.25) / text.length)
  for (let n = 0; n < count; n++) await streams.publish(key, { topic: 't', source: `${n}`, text })
  try {
    expect(await redis.memory('USAGE', key, 'SAMPLES', 0)).toBeLessThan(INFRA_LIMITS.eventsKeptBytesMax * 1.1)
    const kept = await redis.xlen(key)
    expect(kept).toBeGreaterThan(count / 2)
    const [[, fields] = ['', []]] = await redis.xrange(key, '-', '+', 'COUNT', 1)
    expect(Number(fields[3])).toBe(count - kept)
  } finally {
    await redis.del(key)
    redis.disconnect()
  }
})
