/** The S3 API with the AWS SDK: what is written is read back, listed and deleted. */

import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBucket } from '../../support/clients/s3.ts'
import { createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let s3: S3Client
let Bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  ;({ s3, bucket: Bucket } = await openBucket(workspace))
})
afterAll(() => s3?.destroy())

test('S3 API: an object is written: it is read, described, listed and deleted', async () => {
  const written = await s3.send(
    new PutObjectCommand({ Bucket, Key: 'in/a b+c.txt', Body: 'hello', ContentType: 'text/plain' }),
  )
  expect(written.ETag).toBe('"5d41402abc4b2a76b9719d911017c592"')
  const read = await s3.send(new GetObjectCommand({ Bucket, Key: 'in/a b+c.txt' }))
  expect([read.ContentType, await read.Body?.transformToString()]).toEqual(['text/plain', 'hello'])
  const head = await s3.send(new HeadObjectCommand({ Bucket, Key: 'in/a b+c.txt' }))
  expect([head.ContentLength, head.ETag]).toEqual([5, written.ETag])
  const { Contents, KeyCount } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'in/' }))
  expect([KeyCount, Contents?.map(({ Key }) => Key)]).toEqual([1, ['in/a b+c.txt']])
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'in/a b+c.txt' }))
  await expect(s3.send(new GetObjectCommand({ Bucket, Key: 'in/a b+c.txt' }))).rejects.toThrow(
    expect.objectContaining({ name: 'NoSuchKey' }),
  )
})
