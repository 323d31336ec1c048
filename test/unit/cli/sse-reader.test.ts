/** The reader of server-sent events of the CLI, on streams as servers and proxies write them. */

import { expect, test } from 'vitest'
import { parseFrames } from '../../../src/cli/client.ts'

async function framesIn(chunks: readonly string[]): Promise<unknown[]> {
  const bytes = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk))
      controller.close()
    },
  })
  const frames: unknown[] = []
  for await (const { id, event, data } of parseFrames(new Response(bytes))) frames.push({ id, event, data })
  return frames
}

const FRAMES = [
  { id: '1', event: 'ready', data: '{"a":1}' },
  { id: undefined, event: undefined, data: 'first\nsecond' },
]

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])('lines that end with %s: yield each complete frame and no heartbeat', async (_name, end) => {
  const lines = [
    'id: 1',
    'event: ready',
    'data: {"a":1}',
    '',
    ': heartbeat',
    '',
    'data: first',
    'data:second',
    '',
    '',
  ]
  const text = lines.join(end)
  expect(await framesIn([text])).toEqual(FRAMES)
  expect(await framesIn([...text])).toEqual(FRAMES)
})

test('stream that breaks off: the incomplete frame is dropped', async () => {
  expect(await framesIn(['data: a\n\ndata: b\n'])).toEqual([{ id: undefined, event: undefined, data: 'a' }])
})
