/** NDJSON import: lines from chunked bytes, and ids derived from the idempotency key. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseJson } from '../../../src/core/json.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { seeded } from '../../../src/features/collections/ndjson/entries.ts'
import { splitLines } from '../../../src/features/collections/ndjson/lines.ts'

async function split(chunks: Iterable<Uint8Array>, max: number): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  for await (const lines of splitLines(async_(chunks), max)) {
    for (const { number, bytes } of lines) {
      expect(number).toBe(found.length + 1)
      found.push(bytes && Buffer.from(bytes).toString('latin1'))
    }
  }
  return found
}

async function* async_<T>(all: Iterable<T>): AsyncGenerator<T> {
  yield* all
}

describe('lines', () => {
  test('any chunking: are those of the whole text', async () => {
    const byte = fc.constantFrom('\n', 'a', '\r', '\u00c3')
    await fc.assert(
      fc.asyncProperty(
        fc.array(byte, { maxLength: 40 }),
        fc.array(fc.integer({ min: 1, max: 7 })),
        async (bytes, cuts) => {
          const text = bytes.join('')
          const whole = text.split('\n')
          if (whole.at(-1) === '') whole.pop()
          const wanted = whole.map((line) => (line.length > 5 ? undefined : line))
          const chunks: Buffer[] = []
          let from = 0
          for (const cut of [...cuts, text.length]) {
            chunks.push(Buffer.from(text.slice(from, from + cut), 'latin1'))
            from += cut
          }
          expect(await split(chunks, 5)).toEqual(wanted)
        },
      ),
      { seed: 7, numRuns: 500 },
    )
  })

  test('without end: are rejected at the limit', async () => {
    const piece = Buffer.alloc(4_194_304, 'x')
    const pieces = Array.from(
      { length: COLLECTION_LIMITS.importLineBytesMax / piece.length + 1 },
      () => piece,
    )
    await expect(split(pieces, 100)).rejects.toMatchObject({ code: 'body_too_large' })
  })
})

test('ids of a key: sort by line, are the same for the same text, and contain their time', () => {
  const numbers = Array.from({ length: 3_000 }, (_, n) => n + 1)
  const atMs = Date.parse('2026-01-01T00:00:00Z')
  const idsOf = (seed: string, text: string) => {
    const idOf = seeded({ seed: Buffer.from(seed), atMs })
    return numbers.map((line) => idOf(line, text))
  }
  const ids = idsOf('k', 'a')
  expect([...ids].sort()).toEqual(ids)
  expect(idsOf('k', 'a')).toEqual(ids)
  expect(new Set([...ids, ...idsOf('l', 'a'), ...idsOf('k', 'b')]).size).toBe(9_000)
  expect(ids.every((id) => Number.parseInt(id.replace('-', '').slice(0, 12), 16) === atMs)).toBe(true)
})

test('JSON: is parsed as in request bodies', () => {
  expect(parseJson('{"a":"__proto__","b":{"constructor":1}}')).toEqual({
    a: '__proto__',
    b: { constructor: 1 },
  })
  for (const text of ['', '{', '[{"__proto__":1}]', '{"a":{"const\\u0072uctor":{"prototype":1}}}'])
    expect(() => parseJson(text), text).toThrow(expect.objectContaining({ code: 'body_invalid' }))
})
