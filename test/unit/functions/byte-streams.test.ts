/** Contents of objects between the code and the worker: whichever side ends first, the other one hears of it. */

import { expect, test } from 'vitest'
import { ByteStreams } from '../../../src/features/functions/sandbox/byte-streams.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    ({ code }: { code: string }) => code,
  )

test('content that is written: arrives in order, also if the first chunk comes before its reader, and ends', async () => {
  const streams = new ByteStreams()
  const first = streams.write(1, bytes('a'))
  const { chunks, length } = streams.receive(1, 2)
  const read = (async () => {
    let text = ''
    for await (const chunk of chunks) text += new TextDecoder().decode(chunk)
    return text
  })()
  await first
  await streams.write(1, bytes('b'))
  await streams.write(1, bytes(''))
  expect([await read, length]).toEqual(['ab', 2])
})

test.each(['before it is received', 'unread', 'between two chunks', 'while a chunk is awaited'])(
  'content whose call ends %s: neither side waits any longer',
  async (when) => {
    const streams = new ByteStreams()
    const writing = codeOf(streams.write(1, bytes('a')))
    if (when === 'before it is received') {
      streams.abandon(1)
      expect([await writing, await codeOf(streams.write(1, bytes('b')))]).toEqual([
        'body_incomplete',
        'state_conflict',
      ])
      return
    }
    const reader = streams.receive(1, undefined).chunks[Symbol.asyncIterator]()
    if (when !== 'unread') {
      await reader.next()
      expect(await writing).toBe('done')
    }
    const second = when === 'between two chunks' ? codeOf(streams.write(1, bytes('b'))) : writing
    const awaited = when === 'while a chunk is awaited' ? codeOf(reader.next()) : undefined
    streams.abandon(1)
    expect(await second).toBe(when === 'while a chunk is awaited' ? 'done' : 'body_incomplete')
    expect(await (awaited ?? codeOf(reader.next()))).toBe('body_incomplete')
  },
)

test('reader that gives up: the next chunk is refused', async () => {
  const streams = new ByteStreams()
  const reader = streams.receive(1, undefined).chunks[Symbol.asyncIterator]()
  const writing = codeOf(streams.write(1, bytes('a')))
  await reader.return?.()
  expect([await writing, await codeOf(streams.write(1, bytes('b')))]).toEqual([
    'state_conflict',
    'state_conflict',
  ])
})

test('content that the code reads: closed with the invocation, when it is dropped, and when it fails', async () => {
  const streams = new ByteStreams()
  const discarded: number[] = []
  const open = (n: number, chunks: AsyncIterable<Uint8Array>) =>
    streams.open({ status: 200, headers: {}, chunks, discard: () => void discarded.push(n) })
  const endless = {
    [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false as const, value: bytes('x') }) }),
  }
  const failing = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('cut')) }) }
  const [dropped, failed] = [open(1, endless), open(2, failing)]
  open(3, endless)
  expect(await streams.read(dropped)).toEqual(bytes('x'))
  streams.cancel(dropped)
  expect(await streams.read(dropped)).toBeUndefined()
  await expect(streams.read(failed)).rejects.toThrow('cut')
  streams.close()
  expect(() => open(4, endless)).toThrow()
  expect(discarded).toEqual([1, 2, 3, 4])
})
