/** The object store itself refuses a suspended workspace's own key, and takes it again after. */

import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { beforeAll, expect, test } from 'vitest'
import { clientOf, identityOf } from '../support/storage.ts'
import { resume, suspend } from '../support/suspension.ts'
import { aStoringRoom, call, eventually, type Room } from '../support/tenants.ts'

let room: Room
let neighbour: Room
beforeAll(async () => {
  ;[room, neighbour] = await Promise.all([aStoringRoom(), aStoringRoom()])
})

test('its key reads and writes nothing while the tenant is suspended; the same key does again after', async () => {
  const [s3, other, { bucket: Bucket }] = await Promise.all([
    clientOf(room),
    clientOf(neighbour),
    identityOf(room),
  ])
  const put = () => s3.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' })).then(() => 'done', nameOf)
  const get = () => s3.send(new GetObjectCommand({ Bucket, Key: 'k' })).then(() => 'done', nameOf)
  expect([await put(), await get()]).toEqual(['done', 'done'])
  await suspend(room)
  await eventually(async () => ((await put()) === 'AccessDenied' ? true : undefined), 5_000)
  expect(await get()).toBe('AccessDenied')
  const { bucket } = await identityOf(neighbour)
  const theirs = await other.send(new PutObjectCommand({ Bucket: bucket, Key: 'k', Body: 'x' }))
  expect(theirs.$metadata.httpStatusCode).toBe(200)
  await resume(room)
  await eventually(async () => ((await put()) === 'done' ? true : undefined), 5_000)
  const read = await call('GET', `/v1/objects/${Bucket}/k`, { as: room.service })
  expect([read.status, read.body]).toEqual([200, 'x'])
})

const nameOf = (error: Error) => error.name
