/** The S3 API with the AWS SDK: what is written is read back, listed, copied, tagged and deleted. */

import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  type ChecksumAlgorithm,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  DeleteObjectTaggingCommand,
  GetBucketLocationCommand,
  GetBucketVersioningCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutBucketAclCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
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

const put = (Key: string, Body: string | Buffer, more: object = {}) =>
  s3.send(new PutObjectCommand({ Bucket, Key, Body, ...more }))
const read = async (Key: string, more: object = {}) => {
  const got = await s3.send(new GetObjectCommand({ Bucket, Key, ...more }))
  return { ...got, text: await got.Body?.transformToString() }
}
/** Expects an error of S3 with this code and status. */
const refused = (work: Promise<unknown>, name: string, httpStatusCode: number) =>
  expect(work).rejects.toMatchObject({ name, $metadata: { httpStatusCode } })

/** Keys that clients, routers and signatures may understand differently. */
const ODD_KEYS = [
  'in/a b+c.txt',
  'a//b',
  '/leading',
  'trailing/',
  'a%2Fb',
  'a%b',
  '100%',
  'é',
  'e\u0301',
  '😀/\u{10ffff}',
  "!'()*~-._",
  '$&,:;=@?#[]',
  '"<>\\^`{|}',
  ' space around ',
  '\t\n\u0001\u007f',
  'k'.repeat(1_024),
  '+',
  '*',
  'aws-chunked',
  '?list-type=2',
]

test('S3 API: keys of odd forms: are read, listed and deleted as they were written', async () => {
  for (const Key of ODD_KEYS) await put(Key, Key)
  for (const Key of ODD_KEYS) expect([Key, (await read(Key)).text]).toEqual([Key, Key])
  const listed = async (more: object) => {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, ...more }))
    return Contents.map(({ Key = '' }) => Key)
  }
  const sorted = ODD_KEYS.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  expect((await listed({ EncodingType: 'url' })).map(decodeURIComponent)).toEqual(sorted)
  expect(await listed({})).toEqual(sorted)
  const { Deleted, Errors } = await s3.send(
    new DeleteObjectsCommand({
      Bucket,
      Delete: { Objects: [...ODD_KEYS, 'absent'].map((Key) => ({ Key })) },
    }),
  )
  expect([Deleted?.length, Errors]).toEqual([ODD_KEYS.length + 1, undefined])
  expect(await listed({})).toEqual([])
})

test('S3 API: headers, metadata and tags: are kept with the object', async () => {
  const kept = {
    ...{ ContentType: 'text/plain', ContentEncoding: 'gzip', ContentLanguage: 'de' },
    ...{
      ContentDisposition: 'attachment; filename="a.txt"',
      Metadata: { color: 'red', 'two-words': 'a  b' },
    },
  }
  const { ETag } = await put('kept', 'hello', { ...kept, Tagging: 'team=a%20b&x=' })
  expect(ETag).toBe('"5d41402abc4b2a76b9719d911017c592"')
  expect(await s3.send(new HeadObjectCommand({ Bucket, Key: 'kept' }))).toMatchObject({
    ...kept,
    ETag,
    ContentLength: 5,
  })
  const tags = async () => (await s3.send(new GetObjectTaggingCommand({ Bucket, Key: 'kept' }))).TagSet
  expect(await tags()).toEqual([
    { Key: 'x', Value: '' },
    { Key: 'team', Value: 'a b' },
  ])
  const TagSet = [{ Key: 'Größe 1', Value: '<&>'.slice(0, 0) }]
  await s3.send(new PutObjectTaggingCommand({ Bucket, Key: 'kept', Tagging: { TagSet } }))
  expect(await tags()).toEqual(TagSet)
  await s3.send(new DeleteObjectTaggingCommand({ Bucket, Key: 'kept' }))
  expect(await tags()).toEqual([])
  const eleven = Array.from({ length: 11 }, (_, at) => ({ Key: `t${at}`, Value: '' }))
  await refused(
    s3.send(new PutObjectTaggingCommand({ Bucket, Key: 'kept', Tagging: { TagSet: eleven } })),
    'InvalidTag',
    400,
  )
  expect(
    await s3.send(
      new GetObjectAttributesCommand({ Bucket, Key: 'kept', ObjectAttributes: ['ETag', 'ObjectSize'] }),
    ),
  ).toMatchObject({ ETag: ETag?.replaceAll('"', ''), ObjectSize: 5 })
})

test('S3 API: ranges, overrides and conditions: are those of S3', async () => {
  const { ETag = '' } = await put('ranged', '0123456789')
  expect(await read('ranged', { Range: 'bytes=2-4' })).toMatchObject({
    text: '234',
    ContentRange: 'bytes 2-4/10',
  })
  expect(await read('ranged', { Range: 'bytes=-1' })).toMatchObject({ text: '9' })
  await refused(read('ranged', { Range: 'bytes=10-' }), 'InvalidRange', 416)
  expect(
    await read('ranged', { ResponseContentType: 'text/csv', ResponseCacheControl: 'no-store' }),
  ).toMatchObject({
    ContentType: 'text/csv',
    CacheControl: 'private, no-store',
  })
  await refused(read('ranged', { ResponseContentDisposition: 'a\r\nset-cookie: x' }), 'InvalidArgument', 400)
  await refused(read('ranged', { IfMatch: '"other"' }), 'PreconditionFailed', 412)
  await expect(read('ranged', { IfNoneMatch: ETag })).rejects.toMatchObject({
    $metadata: { httpStatusCode: 304 },
  })
  await refused(put('ranged', 'x', { IfNoneMatch: '*' }), 'PreconditionFailed', 412)
  await refused(put('ranged', 'x', { IfMatch: '"other"' }), 'PreconditionFailed', 412)
  await refused(
    s3.send(new DeleteObjectCommand({ Bucket, Key: 'ranged', IfMatch: '"other"' })),
    'PreconditionFailed',
    412,
  )
  expect((await read('ranged')).text).toBe('0123456789')
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'ranged', IfMatch: ETag }))
  await refused(read('ranged'), 'NoSuchKey', 404)
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'ranged' }))
})

test('S3 API: lists: have pages, prefixes and both versions', async () => {
  const keys = ['l/a', 'l/b/1', 'l/b/2', 'l/c', 'l/d/1']
  for (const key of keys) await put(key, '')
  const page = (more: object) =>
    s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'l/', MaxKeys: 2, ...more }))
  const seen: (string | undefined)[] = []
  let token: string | undefined
  do {
    const { Contents = [], NextContinuationToken } = await page({ ContinuationToken: token })
    seen.push(...Contents.map(({ Key }) => Key))
    token = NextContinuationToken
  } while (token !== undefined)
  expect(seen).toEqual(keys)
  const grouped = await page({ Delimiter: '/', MaxKeys: 1_000 })
  expect(grouped.CommonPrefixes).toEqual([{ Prefix: 'l/b/' }, { Prefix: 'l/d/' }])
  expect(grouped.Contents?.map(({ Key }) => Key)).toEqual(['l/a', 'l/c'])
  expect((await page({ StartAfter: 'l/b/2' })).Contents?.map(({ Key }) => Key)).toEqual(['l/c', 'l/d/1'])
  expect(await page({ MaxKeys: 0 })).toMatchObject({ KeyCount: 0, IsTruncated: false })
  const old = await s3.send(
    new ListObjectsCommand({ Bucket, Prefix: 'l/', Delimiter: '/', Marker: 'l/a', MaxKeys: 1 }),
  )
  expect(old).toMatchObject({ CommonPrefixes: [{ Prefix: 'l/b/' }], NextMarker: 'l/b/', IsTruncated: true })
  await refused(page({ ContinuationToken: 'c1_' }), 'InvalidArgument', 400)
})

test('S3 API: copies: keep what is with the bytes, or replace it', async () => {
  const { ETag = '' } = await put('from x', 'bytes', {
    Metadata: { a: '1' },
    ContentType: 'text/css',
    Tagging: 't=1',
  })
  const copy = (Key: string, more: object = {}) =>
    s3.send(new CopyObjectCommand({ Bucket, Key, CopySource: `${Bucket}/from%20x`, ...more }))
  expect((await copy('to')).CopyObjectResult?.ETag).toBe(ETag)
  expect(await read('to')).toMatchObject({ text: 'bytes', Metadata: { a: '1' }, ContentType: 'text/css' })
  expect((await s3.send(new GetObjectTaggingCommand({ Bucket, Key: 'to' }))).TagSet).toHaveLength(1)
  await refused(copy('from x'), 'InvalidRequest', 400)
  await copy('from x', { MetadataDirective: 'REPLACE', Metadata: { b: '2' }, ContentType: 'text/html' })
  expect(await read('from x')).toMatchObject({
    text: 'bytes',
    Metadata: { b: '2' },
    ContentType: 'text/html',
  })
  await refused(copy('to', { CopySourceIfMatch: '"other"' }), 'PreconditionFailed', 412)
  await refused(copy('to', { CopySource: 'other-bucket/from' }), 'AccessDenied', 403)
  await refused(copy('to', { CopySource: `${Bucket}/absent` }), 'NoSuchKey', 404)
})

test.each<ChecksumAlgorithm>(['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'])(
  'S3 API: checksum %s: is verified, in a header and in a trailer',
  async (ChecksumAlgorithm) => {
    await put(`sum-${ChecksumAlgorithm}`, 'hello', { ChecksumAlgorithm })
    const bytes = Buffer.alloc(300_000, 'abc')
    const Body = Readable.from([bytes.subarray(0, 100_000), bytes.subarray(100_000)])
    await s3.send(
      new PutObjectCommand({
        Bucket,
        Key: `sum-${ChecksumAlgorithm}`,
        Body,
        ContentLength: bytes.length,
        ChecksumAlgorithm,
      }),
    )
    expect((await read(`sum-${ChecksumAlgorithm}`)).text).toBe(bytes.toString())
    const wrong = { [`Checksum${ChecksumAlgorithm}`]: WRONG[ChecksumAlgorithm] }
    await refused(put('wrong', 'hello', wrong), 'BadDigest', 400)
    await refused(read('wrong'), 'NoSuchKey', 404)
  },
)

const WRONG: Record<string, string> = {
  CRC32: 'AAAAAA==',
  CRC32C: 'AAAAAA==',
  CRC64NVME: 'AAAAAAAAAAA=',
  SHA1: `${'A'.repeat(27)}=`,
  SHA256: `${'A'.repeat(43)}=`,
}

test('S3 API: uploads in parts: become an object, or are aborted', async () => {
  const Key = 'large/é'
  const { UploadId } = await s3.send(
    new CreateMultipartUploadCommand({
      Bucket,
      Key,
      ContentType: 'text/plain',
      Metadata: { a: '1' },
      Tagging: 't=1',
    }),
  )
  const parts = [Buffer.alloc(5_242_880, 'a'), Buffer.from('the end')]
  const etags: (string | undefined)[] = []
  for (const [at, Body] of parts.entries())
    etags.push(
      (await s3.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber: at + 1, Body }))).ETag,
    )
  await put('source', '0123456789')
  const copied = await s3.send(
    new UploadPartCopyCommand({
      ...{ Bucket, Key, UploadId, PartNumber: 3 },
      ...{ CopySource: `${Bucket}/source`, CopySourceRange: 'bytes=2-4' },
    }),
  )
  const { Parts } = await s3.send(new ListPartsCommand({ Bucket, Key, UploadId }))
  expect(Parts?.map(({ PartNumber, Size, ETag }) => [PartNumber, Size, ETag])).toEqual([
    [1, 5_242_880, etags[0]],
    [2, 7, etags[1]],
    [3, 3, copied.CopyPartResult?.ETag],
  ])
  const { Uploads } = await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: 'large/' }))
  expect(Uploads).toMatchObject([{ Key, UploadId }])
  const complete = (PartNumbers: readonly number[], ETags: readonly (string | undefined)[] = etags) =>
    s3.send(
      new CompleteMultipartUploadCommand({
        ...{ Bucket, Key, UploadId },
        MultipartUpload: {
          Parts: PartNumbers.map((PartNumber) => ({ PartNumber, ETag: ETags[PartNumber - 1] })),
        },
      }),
    )
  await refused(complete([2, 1]), 'InvalidPartOrder', 400)
  await refused(complete([1], ['"0"']), 'InvalidPart', 400)
  const { ETag } = await complete([1, 2])
  expect(ETag).toMatch(/^"[0-9a-f]{32}-2"$/)
  expect((await read(Key, { Range: 'bytes=5242878-' })).text).toBe('aathe end')
  expect(await s3.send(new HeadObjectCommand({ Bucket, Key }))).toMatchObject({ Metadata: { a: '1' }, ETag })
  await refused(s3.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId })), 'NoSuchUpload', 404)
  const second = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }))
  await s3.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId: second.UploadId }))
  expect((await s3.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads).toBeUndefined()
  for (const PartNumber of [0, 10_001])
    await refused(
      s3.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body: 'x' })),
      'InvalidArgument',
      400,
    )
})

test('S3 API: the bucket: is the only one, in no region and without versions', async () => {
  const { Buckets } = await s3.send(new ListBucketsCommand({}))
  expect(Buckets).toEqual([{ Name: Bucket, CreationDate: expect.any(Date) }])
  await s3.send(new HeadBucketCommand({ Bucket }))
  expect((await s3.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint).toBeUndefined()
  expect((await s3.send(new GetBucketVersioningCommand({ Bucket }))).Status).toBeUndefined()
  await refused(s3.send(new PutBucketAclCommand({ Bucket, ACL: 'private' })), 'NotImplemented', 501)
  await refused(put('x', 'x', { ACL: 'public-read' }), 'NotImplemented', 501)
  await refused(read('x', { VersionId: '1' }), 'NotImplemented', 501)
})

test('header Idempotency-Key: is none of S3, so each request has its own effect', async () => {
  const begin = async () => {
    const command = new CreateMultipartUploadCommand({ Bucket, Key: 'keyed' })
    command.middlewareStack.add(
      (next) => (args) => {
        Object.assign((args.request as { headers: object }).headers, { 'idempotency-key': 'same' })
        return next(args)
      },
      { step: 'build' },
    )
    return (await s3.send(command)).UploadId
  }
  const [first, second] = [await begin(), await begin()]
  expect(first).not.toBe(second)
  for (const UploadId of [first, second])
    await s3.send(new AbortMultipartUploadCommand({ Bucket, Key: 'keyed', UploadId }))
})
