/** Passing entries of streams on to many listeners: in turns of the event loop, fair between streams, in order and complete. */

import { afterAll, expect, inject, test } from 'vitest'
import type { TenantId } from '../../../src/core/tenant.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { type Entry, eventsOf, Streams } from '../../../src/infra/valkey/streams.ts'
import { eventually, unique } from '../../support/fixtures/tenants.ts'

const LISTENERS = 100
const ENTRIES = 3

const streams = new Streams(inject('tenon').env['REDIS_URL'] ?? '', () => {})
let isOver = false
/** Counts turns of the event loop. */
let turn = 0
const count = () => {
  turn += 1
  if (!isOver) setImmediate(count)
}
count()
afterAll(() => {
  isOver = true
  streams.close()
})

const streamOf = (name: string) => eventsOf(unique(name) as TenantId)
const message = (text: string) => ({ topic: 't', source: '/', text })

test('many listeners of a stream: a few get its entries in a turn, all get each in order, and those of another stream go between', async () => {
  const [loud, quiet] = [streamOf('ten_loud'), streamOf('ten_quiet')]
  const heard: { readonly at: string; readonly text: string; readonly turn: number }[] = []
  const hear = (at: string) => (entry: Entry) => void heard.push({ at, text: entry.text, turn })
  for (let n = 0; n < LISTENERS; n++) await streams.listen(loud, hear(`loud ${n}`))
  await streams.listen(quiet, hear('quiet'))
  const texts = Array.from({ length: ENTRIES }, (_, n) => `${n}`)
  for (const text of texts)
    await Promise.all([streams.publish(loud, message(text)), streams.publish(quiet, message(text))])
  await eventually(async () => heard.length === (LISTENERS + 1) * ENTRIES || undefined)
  for (const at of new Set(heard.map((one) => one.at)))
    expect(heard.filter((one) => one.at === at).map(({ text }) => text)).toEqual(texts)
  // The last calls of an entry and the first ones of the next may share a turn: each entry is counted by itself.
  const turns = Map.groupBy(heard, (one) => `${one.turn} ${one.text}`)
  for (const [, calls] of turns)
    expect(new Set(calls.map(({ at }) => at)).size).toBeLessThanOrEqual(INFRA_LIMITS.listenersPerTurnMax)
})

test('listener that stops at an entry, or while others get it: gets no further one, and one that begins then gets all later ones', async () => {
  const key = streamOf('ten_stop')
  const heard: string[] = []
  const stops: (() => void)[] = []
  const later = Promise.withResolvers<void>()
  const { stop } = await streams.listen(key, ({ text }) => {
    heard.push(`first ${text}`)
    stop()
    for (const other of stops) other()
    void streams.listen(key, (entry) => heard.push(`late ${entry.text}`)).then(() => later.resolve())
  })
  for (let n = 0; n < LISTENERS; n++)
    stops.push((await streams.listen(key, ({ text }) => heard.push(`other ${text}`))).stop)
  await streams.publish(key, message('1'))
  await later.promise
  await streams.publish(key, message('2'))
  await eventually(async () => heard.includes('late 2') || undefined)
  expect(heard).toEqual(['first 1', 'late 2'])
})
