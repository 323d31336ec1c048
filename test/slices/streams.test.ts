/** Who begins to listen to a stream hears all that comes after the place it is told, whoever else listens already. */

import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, expect, inject, test } from 'vitest'
import { changesOf, type StreamKey, Streams } from '../../src/platform/events/streams.ts'
import { passingTo } from '../support/passing.ts'
import { eventually, unique } from '../support/tenants.ts'

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

/** One whose questions are answered late, but not those of its reader, which is connected second. */
async function slowlyAnswered(): Promise<Streams> {
  const passing = await passingTo(url, { lateMs: (connection) => (connection === 0 ? LATE_MS : 0) })
  open.push(passing)
  return streamsAt(Object.assign(new URL(url), { port: String(passing.port) }).href)
}

const aStream = (): StreamKey =>
  changesOf({ tenantId: `ten_${unique('t')}`, workspaceId: `ws_${unique('w')}` })

/** @returns ids in the order in which they are heard */
async function heardOf(streams: Streams, key: StreamKey): Promise<{ after: string; heard: string[] }> {
  const heard: string[] = []
  const { after } = await streams.listen(key, ({ id }) => heard.push(id))
  return { after, heard }
}

test('what comes while somebody joins others who listen is heard, or stands before his place', async () => {
  const [teller, streams, key] = [streamsAt(url.href), await slowlyAnswered(), aStream()]
  const tell = () => teller.publish(key, { topic: 't', source: 's', text: '{}' })
  await tell()
  const first = await heardOf(streams, key)
  const joining = heardOf(streams, key)
  // The server has said what was the last by now, and nobody has heard it yet.
  await pause(LATE_MS / 2)
  const during = await tell()
  await eventually(async () => first.heard.includes(during) || undefined)
  const { after, heard } = await joining
  const behind = await tell()
  await eventually(async () => heard.includes(behind) || undefined)
  const past = await streams.between(key, '0-0', after)
  expect([...past.map(({ id }) => id).slice(1), ...heard]).toEqual([during, behind])
})

test('who joins while the reader waits for another stream is heard at once', async () => {
  const [teller, streams] = [streamsAt(url.href), streamsAt(url.href)]
  await heardOf(streams, aStream())
  for (let nth = 0; nth < 30; nth++) {
    const key = aStream()
    const { heard } = await heardOf(streams, key)
    const id = await teller.publish(key, { topic: 't', source: 's', text: '{}' })
    await eventually(async () => heard.includes(id) || undefined, 2_000)
  }
})
