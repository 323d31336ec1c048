/** Images that are made to harm: none is decoded beyond its bounds, none is read by a decoder that is closed, and the process goes on. */

import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { beforeAll, expect, inject, test } from 'vitest'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { bucketOf, configure } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let path: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  path = `/v1/objects/${await bucketOf(workspace)}`
  await configure(workspace, {
    objects: { images: { sizes: ['64', '64x64', '2560x1'], formats: ['jpeg', 'png', 'webp', 'avif'] } },
  })
})

async function store(key: string, bytes: Uint8Array, type: string): Promise<void> {
  const headers = { ...workspace.service, 'content-type': type }
  const put = await fetch(`${inject('tenon').url}${path}/${key}`, {
    method: 'PUT',
    headers,
    body: Buffer.from(bytes),
  })
  expect(put.ok).toBe(true)
}

const chunk = (name: string, data: Uint8Array): Buffer => {
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  const body = Buffer.concat([Buffer.from(name), data])
  length.writeUInt32BE(data.byteLength)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}

/** A PNG of one bit per pixel that says how large it is. @param rows how many it has */
function png(width: number, height: number, rows: number): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width)
  header.writeUInt32BE(height, 4)
  header[8] = 1
  const row = Math.ceil(width / 8) + 1
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc(row * rows), { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** A GIF of 100 × 100 pixels with frames of one. */
function gif(frames: number): Buffer {
  const head = Buffer.concat([
    Buffer.from('GIF89a'),
    Buffer.from([100, 0, 100, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255]),
  ])
  const frame = Buffer.from([
    ...[0x21, 0xf9, 4, 0, 1, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0],
    ...[2, 2, 0x44, 1, 0],
  ])
  return Buffer.concat([head, ...Array<Buffer>(frames).fill(frame), Buffer.from([0x3b])])
}

const plain = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#2c3ecc' } })
const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="file:///etc/passwd"/></svg>'

const photo = await plain(400, 300).jpeg().toBuffer()
const noise = await sharp({
  create: {
    ...{ width: 400, height: 300, channels: 3, background: '#888' },
    noise: { type: 'gaussian', mean: 128, sigma: 40 },
  },
})
  .jpeg()
  .toBuffer()

test.each<readonly [string, string, Uint8Array, string]>([
  ['SVG', 'image/svg+xml', Buffer.from(svg), 'image_unreadable'],
  ['SVG that is called PNG', 'image/png', Buffer.from(svg), 'image_unreadable'],
  ['TIFF', 'image/tiff', await plain(9, 9).tiff().toBuffer(), 'image_unreadable'],
  ['PDF', 'application/pdf', Buffer.from('%PDF-1.7\n'), 'image_unreadable'],
  ['program of ImageMagick', 'image/png', Buffer.from('push graphic-context\n'), 'image_unreadable'],
  ['portable pixmap', 'image/jpeg', Buffer.from('P1 1 1 0'), 'image_unreadable'],
  ['text that is called JPEG', 'image/jpeg', Buffer.from('hello'), 'image_unreadable'],
  ['empty object', 'image/jpeg', Buffer.alloc(0), 'image_unreadable'],
  ['JPEG that ends in the midst', 'image/jpeg', noise.subarray(0, noise.length / 2), 'image_unreadable'],
  ['JPEG that ends in its head', 'image/jpeg', noise.subarray(0, 100), 'image_unreadable'],
  ['PNG of 50,000 × 50,000', 'image/png', png(50_000, 50_000, 2_000), 'image_too_large'],
  ['PNG of 2^31 - 1 × 1', 'image/png', png(2 ** 31 - 1, 1, 0), 'image_unreadable'],
  ['PNG with fewer rows than it says', 'image/png', png(7_000, 7_000, 1), 'image_unreadable'],
  [
    'AVIF of 36 megapixels',
    'image/avif',
    await plain(6_000, 6_000).avif({ effort: 0 }).toBuffer(),
    'image_too_large',
  ],
  [
    'more bytes than are read',
    'image/jpeg',
    Buffer.concat([photo, Buffer.alloc(26_214_400)]),
    'image_too_large',
  ],
])('%s: refused, whatever its declared type is, and remembered', async (_, type, bytes, code) => {
  await store('bomb', bytes, type)
  const statuses = { image_unreadable: 422, image_too_large: 413 } as Record<string, number>
  for (const query of ['width=64', 'width=64', 'width=64&height=64&format=webp']) {
    const { body } = await call('GET', `${path}/bomb?${query}`, { as: workspace.service })
    expect([body.status, body.code], JSON.stringify(body)).toEqual([statuses[code], code])
    // What a decoder says of the bytes is for the log.
    expect(JSON.stringify(body)).not.toMatch(/vips|libpng|heif|buffer/i)
  }
  await store('photo', photo, 'image/jpeg')
  const after = await fetch(`${inject('tenon').url}${path}/photo?width=64`, { headers: workspace.service })
  expect([after.status, after.headers.get('content-type')]).toEqual([200, 'image/jpeg'])
})

test.each<readonly [string, string, Uint8Array, string]>([
  ['GIF of 10,000 frames: its first one', 'image/gif', gif(10_000), 'png'],
  [
    'polyglot with a page behind it',
    'text/html',
    Buffer.concat([photo, Buffer.from('<script>alert(1)</script>')]),
    'jpeg',
  ],
  ['PNG that is called a page', 'text/html', await plain(90, 90).png().toBuffer(), 'png'],
])('%s: only the pixels, in a format by the bytes', async (_, type, bytes, format) => {
  await store('odd', bytes, type)
  const url = `${inject('tenon').url}${path}/odd?width=64&height=64&fit=inside${format === 'png' ? '&format=png' : ''}`
  const response = await fetch(url, { headers: workspace.service })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, `image/${format}`])
  const converted = Buffer.from(await response.arrayBuffer())
  const found = await sharp(converted).metadata()
  expect([found.format, found.pages]).toEqual([format, undefined])
  expect(converted.includes('<script>')).toBe(false)
})

test('image of extreme sides: no side of what becomes of it is longer than the bound', async () => {
  await store('tall', await plain(3, 15_000).png().toBuffer(), 'image/png')
  const bytes = await fetch(`${inject('tenon').url}${path}/tall?width=64`, { headers: workspace.service })
  const { width, height } = await sharp(await bytes.arrayBuffer()).metadata()
  expect([width, height]).toEqual([1, 2_560])
  const { body } = await call('GET', `${path}/tall?width=2560&height=1&fit=outside`, {
    as: workspace.service,
  })
  expect([body.status, body.code]).toEqual([413, 'image_too_large'])
})
