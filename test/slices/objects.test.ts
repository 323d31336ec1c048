/** Objects through the API: bytes in are bytes out, under the workspace's own identity at the store. */

import { createHash, randomBytes } from 'node:crypto'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { aRoom, type Caller, call, type Room } from '../support/tenants.ts'

interface Shelf extends Room {
  readonly bucket: string
}

let room: Shelf
let other: Shelf
beforeAll(async () => {
  ;[room, other] = await Promise.all([aShelf(), aShelf()])
})

async function aShelf(): Promise<Shelf> {
  const made = await aRoom()
  const { body } = await call('GET', `/v1/workspaces/${made.workspaceId}`, { as: made.operator })
  return { ...made, bucket: body.bucket }
}

const pathOf = (bucket: string, key: string) =>
  `/v1/objects/${bucket}/${key.split('/').map(encodeURIComponent).join('/')}`

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** A raw request: the body is sent as it is, the reply's bytes come as they are. */
async function send(
  method: string,
  path: string,
  options: { as?: Caller; body?: Uint8Array | string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; bytes: Buffer; json: () => Record<string, unknown> }> {
  const response = await fetch(`${inject('tenon').url}${path}`, {
    method,
    headers: { ...(options.as ?? room.service), ...options.headers },
    ...(options.body !== undefined && { body: options.body }),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, headers: response.headers, bytes, json: () => JSON.parse(String(bytes)) }
}

test('what is put is what is got: text, its type, its tag', async () => {
  const path = pathOf(room.bucket, 'notes/hello.txt')
  const headers = { 'content-type': 'text/plain; charset=utf-8' }
  const put = await send('PUT', path, { body: 'Grüße', headers })
  expect([put.status, put.json()]).toEqual([
    201,
    { bucket: room.bucket, key: 'notes/hello.txt', size: 7, etag: put.headers.get('etag'), created: true },
  ])
  const got = await send('GET', path, { as: room.anon })
  expect([got.status, String(got.bytes)]).toEqual([200, 'Grüße'])
  expect(Object.fromEntries(got.headers)).toMatchObject({
    'content-type': 'text/plain; charset=utf-8',
    'content-length': '7',
    'accept-ranges': 'bytes',
    etag: put.headers.get('etag'),
  })
  const again = await send('PUT', path, { body: 'x' })
  expect([again.status, again.json()['created']]).toEqual([200, false])
})

describe('sizes', () => {
  test.each([0, 1, 65_536, 20_000_000])('%i random bytes', async (size) => {
    const body = randomBytes(size)
    const path = pathOf(room.bucket, `random/${size}`)
    expect((await send('PUT', path, { body })).json()['size']).toBe(size)
    const got = await send('GET', path)
    expect(got.headers.get('content-length')).toBe(String(size))
    expect(sha256(got.bytes)).toBe(sha256(body))
  })
})

test('another tenant’s bucket is AccessDenied', async () => {
  const path = pathOf(room.bucket, 'secret')
  await send('PUT', path, { body: 'ours' })
  for (const method of ['GET', 'PUT', 'DELETE', 'HEAD']) {
    const reply = await send(method, path, { as: other.service, ...(method === 'PUT' && { body: 'theirs' }) })
    expect([method, reply.status, reply.headers.get('x-problem-code')]).toEqual([method, 403, 'AccessDenied'])
  }
  expect(String((await send('GET', path)).bytes)).toBe('ours')
})
