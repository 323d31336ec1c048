/** The turns of conversions: shared by tenants, bounded for each, and given back whatever happens. */

import sharp from 'sharp'
import { expect, test } from 'vitest'
import { type Conversion, ImageConverter } from '../../../src/infra/image-converter.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'

const { ofProcessMax, waitingMax } = INFRA_LIMITS.images
const SMALL: Conversion = { width: 8, height: undefined, fit: 'cover', formats: ['png'] }

const picture = await sharp({ create: { width: 20, height: 20, channels: 4, background: '#0f00' } })
  .png()
  .toBuffer()

/** A source that comes when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<Uint8Array>()
  let isAsked = false
  const load = () => {
    isAsked = true
    return promise
  }
  return { load, open: () => resolve(picture), isAsked: () => isAsked }
}

test('conversions of one tenant: one at a time, while another tenant goes on; too many are refused', async () => {
  const converter = new ImageConverter()
  const gates = Array.from({ length: waitingMax + 1 }, gate)
  const first = gates.map(({ load }) => converter.convert('a', load, SMALL))
  const asked = () => gates.map(({ isAsked }) => isAsked())
  await expect.poll(asked).toEqual([true, ...Array(waitingMax).fill(false)])
  expect(converter.use).toEqual({ running: 1, waiting: waitingMax })
  await expect(converter.convert('a', async () => picture, SMALL)).rejects.toMatchObject({
    code: 'overloaded',
  })
  expect(ofProcessMax).toBeGreaterThan(1)
  expect((await converter.convert('b', async () => picture, SMALL)).format).toBe('png')
  for (const { open } of gates) open()
  expect((await Promise.all(first)).every(({ bytes }) => bytes.byteLength > 0)).toBe(true)
  expect(converter.use).toEqual({ running: 0, waiting: 0 })
})

test('conversion that fails: gives its turn back', async () => {
  const converter = new ImageConverter()
  const failing = converter.convert('a', () => Promise.reject(new Error('away')), SMALL)
  await expect(failing).rejects.toThrow('away')
  await expect(converter.convert('a', async () => Buffer.from('x'), SMALL)).rejects.toMatchObject({
    code: 'image_unreadable',
  })
  expect(converter.use).toEqual({ running: 0, waiting: 0 })
})

test('transparent image as JPEG: on white, not on black', async () => {
  const conversion: Conversion = { ...SMALL, height: 4, fit: 'contain', formats: ['jpeg'] }
  const { bytes, format } = await new ImageConverter().convert('a', async () => picture, conversion)
  const { data, info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true })
  expect([format, info.width, info.height]).toEqual(['jpeg', 8, 4])
  expect(Math.min(...data)).toBeGreaterThan(250)
})
