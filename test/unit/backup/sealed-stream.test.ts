/** The encryption of files in a repository: what was written comes back, and nothing else does. */

import { randomBytes } from 'node:crypto'
import { assert, asyncProperty, integer, record } from 'fast-check'
import { expect, test } from 'vitest'
import {
  type Chunks,
  FRAME_BYTES,
  SealBroken,
  seal,
  unseal,
} from '../../../src/backup/repository/sealed-stream.ts'
import { randomOf } from '../../support/random.ts'
import { repeated } from '../../support/stack/soak.ts'

const KEY = randomBytes(32)
const NAME = 'members/1/base.tar'
const HEAD_BYTES = 20
const SEALED_FRAME_BYTES = FRAME_BYTES + 16

/** The bytes in chunks of random sizes. */
async function* cut(bytes: Buffer, seed: number): Chunks {
  const random = randomOf(seed)
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + random(random(3) === 0 ? 50 : 2 * FRAME_BYTES)
    yield bytes.subarray(at, at + size)
    at += size
  }
}

async function collect(chunks: Chunks): Promise<Buffer> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}

/** Sizes at which a frame ends, and a little beside them. */
const input = record({
  frames: integer({ min: 0, max: 3 }),
  beside: integer({ min: -2, max: 2 }),
  seed: integer({ min: 1, max: 1e6 }),
})
const textOf = ({ frames, beside }: { frames: number; beside: number }) =>
  randomBytes(Math.max(0, frames * FRAME_BYTES + beside))

test('sealed stream: any length, cut anywhere: the same bytes come back', async () => {
  await assert(
    asyncProperty(input, async (one) => {
      const text = textOf(one)
      const sealed = await collect(seal(KEY, NAME, cut(text, one.seed)))
      expect((await collect(unseal(KEY, NAME, cut(sealed, one.seed + 1)))).equals(text)).toBe(true)
    }),
    { seed: 1, numRuns: repeated(40, 400) },
  )
})

test('sealed stream: a changed bit, a missing end, frames in another order, another name or key: refused, and no wrong byte is given out', async () => {
  const damages: Readonly<Record<string, (sealed: Buffer, at: number) => Buffer>> = {
    bit: (sealed, at) => {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] ?? 0) ^ 1
      return changed
    },
    cut: (sealed, at) => sealed.subarray(0, at),
    'cut between frames': (sealed) => sealed.subarray(0, HEAD_BYTES + SEALED_FRAME_BYTES),
    swapped: (sealed) => {
      const frame = (n: number) =>
        sealed.subarray(HEAD_BYTES + n * SEALED_FRAME_BYTES, HEAD_BYTES + (n + 1) * SEALED_FRAME_BYTES)
      return Buffer.concat([
        sealed.subarray(0, HEAD_BYTES),
        frame(1),
        frame(0),
        sealed.subarray(HEAD_BYTES + 2 * SEALED_FRAME_BYTES),
      ])
    },
    doubled: (sealed) => Buffer.concat([sealed, sealed.subarray(HEAD_BYTES)]),
  }
  const text = randomBytes(2 * FRAME_BYTES + 1_000)
  const sealed = await collect(seal(KEY, NAME, cut(text, 1)))
  const random = randomOf(7)
  for (const [name, damage] of Object.entries(damages))
    for (let n = 0; n < repeated(8, 200); n += 1) {
      const broken = damage(sealed, random(sealed.length))
      let given = 0
      const reading = async () => {
        for await (const chunk of unseal(KEY, NAME, cut(broken, n))) {
          expect(chunk.equals(text.subarray(given, given + chunk.length)), name).toBe(true)
          given += chunk.length
        }
      }
      await expect(reading(), name).rejects.toThrow(SealBroken)
    }
  await expect(collect(unseal(KEY, 'members/2/base.tar', cut(sealed, 1)))).rejects.toThrow(SealBroken)
  await expect(collect(unseal(randomBytes(32), NAME, cut(sealed, 1)))).rejects.toThrow(SealBroken)
})
