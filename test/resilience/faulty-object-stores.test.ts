/**
 * An object store that fails in every way, at every request of every method of REST and the S3 API: the answer is 503 or the right one,
 * an object is the old or the new one and never half of one, the repetition succeeds, and in the end the store has what the catalogue has.
 */

import { request } from 'node:http'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { compareObjects } from '../../src/cli/stack/compare-objects.ts'
import { sweepBlobs } from '../../src/features/objects/sweep-blobs.ts'
import { rootClient } from '../support/clients/object-store.ts'
import { openBucket } from '../support/clients/s3.ts'
import {
  asSuperuser,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { randomOf } from '../support/random.ts'
import { type RefusingStore, STORE_FAULTS, startRefusingStore } from '../support/servers/refusing-store.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'
import { openInProcessPlatform, scopeOf } from '../support/stack/in-process-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

let store: RefusingStore
let node: Node
let workspace: TestWorkspace
let bucket: string
let s3: S3Client
beforeAll(async () => {
  store = await startRefusingStore(new URL(inject('tenon').env['S3_ENDPOINT'] ?? ''))
  node = await startInProcessNode({ S3_ENDPOINT: store.url, S3_STS_ENDPOINT: store.url })
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  ;({ s3 } = await openBucket(workspace, node.at.url))
})
afterAll(async () => {
  s3?.destroy()
  await node?.close()
  store?.close()
})

const MIB = 1_048_576
const OLD = 'old '.repeat(50_000)
const NEW = 'new '.repeat(60_000)
/** More than one part of an upload that resumes. */
const LARGE = Buffer.alloc(7 * MIB + 3, 'large ')

/** What a client hears: a status, and the bytes of a reading method. A reply that is cut off is no answer. */
type Outcome = { readonly status: number; readonly code?: string | undefined; readonly text?: string } | 'cut'

async function rest(
  method: string,
  path: string,
  { body, ...headers }: Record<string, string> & { body?: string } = {},
): Promise<Outcome> {
  try {
    const response = await fetch(`${node.at.url}${path}`, {
      method,
      headers: { ...workspace.service, ...headers },
      ...(body !== undefined && { body }),
    })
    const text = await response.text()
    return { status: response.status, code: response.headers.get('x-problem-code') ?? undefined, text }
  } catch {
    return 'cut'
  }
}
const json = { 'content-type': 'application/json' }

async function wire(
  work: () => Promise<{ $metadata: { httpStatusCode?: number }; Body?: unknown }>,
): Promise<Outcome> {
  try {
    const { $metadata, Body } = await work()
    const text = await (Body as { transformToString(): Promise<string> } | undefined)?.transformToString()
    return { status: $metadata.httpStatusCode ?? 0, ...(text !== undefined && { text }) }
  } catch (error) {
    if (!(error instanceof S3ServiceException)) return 'cut'
    return { status: error.$metadata.httpStatusCode ?? 0, code: error.name }
  }
}

/** A method on the object `key`, which is there before, and has the content `OLD`. */
interface Method {
  readonly name: string
  /** Without faults. @returns what `run` gets */
  prepare?(key: string): Promise<string>
  run(key: string, prepared: string): Promise<Outcome>
  /** The same again, until it has succeeded; default: `run`, for which also these statuses mean that it was done before. */
  readonly done?: readonly number[]
  repeat?(key: string, prepared: string): Promise<Outcome>
  /** The contents that the object has before and after it; undefined: there is none. */
  readonly after: string | undefined
  /** What a reading method answers. */
  readonly reads?: string
}

const objectPath = (key: string) => `/v1/objects/${bucket}/${key}`
const change = (verb: string, body: object) =>
  rest('POST', `/v1/buckets/${bucket}/${verb}`, { ...json, body: JSON.stringify(body) })
const putOther = async (key: string) => {
  await rest('PUT', objectPath(`${key}-other`), { body: NEW })
  return ''
}
const beginParts = async (Key: string) =>
  (await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }))).UploadId ?? ''
const part = (Key: string, UploadId: string) => ({ Bucket: bucket, Key, UploadId, PartNumber: 1 })
const beginWithPart = async (Key: string) => {
  const upload = await beginParts(Key)
  const { ETag } = await s3.send(new UploadPartCommand({ ...part(Key, upload), Body: NEW }))
  return `${upload} ${ETag}`
}

const TUS = { 'tus-resumable': '1.0.0', 'content-type': 'application/offset+octet-stream' }
async function beginTus(key: string, length: number): Promise<string> {
  const response = await fetch(`${node.at.url}/v1/uploads`, {
    method: 'POST',
    headers: {
      ...{ ...workspace.service, 'tus-resumable': '1.0.0', 'upload-length': String(length) },
      'upload-metadata': `bucket ${btoa(bucket)},key ${btoa(key)}`,
    },
  })
  return response.headers.get('location') ?? ''
}
const offsetOf = async (path: string) => {
  const response = await fetch(`${node.at.url}${path}`, { method: 'HEAD', headers: { ...workspace.service } })
  return Number(response.headers.get('upload-offset') ?? 'NaN')
}
const append = (path: string, offset: number, bytes: Buffer): Promise<Outcome> =>
  rest('PATCH', path, {
    ...TUS,
    'upload-offset': String(offset),
    body: bytes.subarray(offset).toString('latin1'),
  })
/** Goes on from what is acknowledged. */
const goOn =
  (bytes: Buffer) =>
  async (_key: string, path: string): Promise<Outcome> => {
    const offset = await offsetOf(path)
    if (Number.isNaN(offset)) return { status: 503, code: 'dependency_unavailable' }
    return offset === bytes.length ? { status: 204 } : append(path, offset, bytes)
  }
const tus = (name: string, bytes: Buffer): Method => ({
  name,
  prepare: (key) => beginTus(key, bytes.length),
  run: (_key, path) => append(path, 0, bytes),
  repeat: goOn(bytes),
  after: bytes.toString('latin1'),
})

const METHODS: readonly Method[] = [
  { name: 'PUT', run: (key) => rest('PUT', objectPath(key), { body: NEW }), after: NEW },
  { name: 'GET', run: (key) => rest('GET', objectPath(key)), after: OLD, reads: OLD },
  {
    name: 'GET of a range',
    run: (key) => rest('GET', objectPath(key), { range: 'bytes=0-99999' }),
    after: OLD,
    reads: OLD.slice(0, 100_000),
  },
  {
    name: 'copy',
    prepare: putOther,
    run: (key) => change('copy', { from: `${key}-other`, to: key }),
    after: NEW,
  },
  {
    name: 'move',
    prepare: putOther,
    run: (key) => change('move', { from: `${key}-other`, to: key }),
    done: [404],
    after: NEW,
  },
  { name: 'DELETE', run: (key) => rest('DELETE', objectPath(key)), done: [404], after: undefined },
  { name: 'delete of many', run: (key) => change('delete', { keys: [key] }), after: undefined },
  tus('tus, a few bytes', Buffer.from(NEW)),
  tus('tus, several parts', LARGE),
  {
    name: 'PutObject',
    run: (Key) => wire(() => s3.send(new PutObjectCommand({ Bucket: bucket, Key, Body: NEW }))),
    after: NEW,
  },
  {
    name: 'GetObject of a range',
    run: (Key) => wire(() => s3.send(new GetObjectCommand({ Bucket: bucket, Key, Range: 'bytes=4-100003' }))),
    after: OLD,
    reads: OLD.slice(4, 100_004),
  },
  {
    name: 'CopyObject',
    prepare: putOther,
    run: (Key) =>
      wire(() =>
        s3.send(new CopyObjectCommand({ Bucket: bucket, Key, CopySource: `${bucket}/${Key}-other` })),
      ),
    after: NEW,
  },
  {
    name: 'DeleteObject',
    run: (Key) => wire(() => s3.send(new DeleteObjectCommand({ Bucket: bucket, Key }))),
    after: undefined,
  },
  {
    name: 'DeleteObjects',
    run: (Key) =>
      wire(() => s3.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: [{ Key }] } }))),
    after: undefined,
  },
  {
    name: 'CreateMultipartUpload',
    run: (Key) => wire(() => s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }))),
    after: OLD,
  },
  {
    name: 'UploadPart',
    prepare: beginParts,
    run: (key, upload) => wire(() => s3.send(new UploadPartCommand({ ...part(key, upload), Body: NEW }))),
    after: OLD,
  },
  {
    name: 'UploadPartCopy',
    prepare: beginParts,
    run: (key, upload) =>
      wire(() =>
        s3.send(new UploadPartCopyCommand({ ...part(key, upload), CopySource: `${bucket}/${key}` })),
      ),
    after: OLD,
  },
  {
    name: 'CompleteMultipartUpload',
    prepare: beginWithPart,
    run: (Key, prepared) => {
      const [UploadId, ETag] = prepared.split(' ')
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] }
      return wire(() =>
        s3.send(new CompleteMultipartUploadCommand({ Bucket: bucket, Key, UploadId, MultipartUpload })),
      )
    },
    after: NEW,
  },
  {
    name: 'AbortMultipartUpload',
    prepare: beginWithPart,
    run: (Key, prepared) =>
      wire(() =>
        s3.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId: prepared.split(' ')[0] })),
      ),
    done: [404],
    after: OLD,
  },
]

/** What an object is now. */
async function contentOf(key: string): Promise<string | undefined> {
  const found = await rest('GET', objectPath(key))
  if (found === 'cut' || ![200, 404].includes(found.status))
    throw new Error(`${key}: ${JSON.stringify(found)}`)
  return found.status === 404 ? undefined : found.text
}

const summary = (text: string | undefined) => text && `${text.length}: ${text.slice(0, 4)}`

/** Runs a method while the store fails from its nth request on, and repeats it without. */
async function trial(
  method: Method,
  fault: (typeof STORE_FAULTS)[number],
  servedBefore: number,
): Promise<void> {
  const key = unique('faulty')
  await rest('PUT', objectPath(key), { body: OLD })
  const prepared = (await method.prepare?.(key)) ?? ''
  const isDone = (outcome: Outcome, also: readonly number[] = []) =>
    outcome !== 'cut' && (outcome.status < 300 || also.includes(outcome.status))
  store.servedBefore = servedBefore
  store.fault = fault
  const outcome = await method.run(key, prepared)
  store.fault = undefined
  const what = `${method.name}, ${fault} after ${servedBefore}`
  if (outcome === 'cut') expect(method.reads, what).toBeDefined()
  else if (!isDone(outcome))
    expect([what, outcome.status, outcome.code]).toEqual([
      ...[what, 503, expect.stringMatching(/^(dependency_unavailable|ServiceUnavailable)$/)],
    ])
  else if (method.reads !== undefined)
    expect([what, summary(outcome.text)]).toEqual([what, summary(method.reads)])
  const between = await contentOf(key)
  const allowed = isDone(outcome) ? [method.after] : [OLD, method.after]
  expect(allowed.includes(between), `${what}: ${summary(between)}`).toBe(true)
  const again = method.repeat ?? method.run
  await eventually(async () => isDone(await again(key, prepared), method.done) || undefined)
  expect([what, summary(await contentOf(key))]).toEqual([what, summary(method.after)])
}

/** How many requests of the store a method makes. */
async function requestsOf(method: Method): Promise<number> {
  const key = unique('counted')
  await rest('PUT', objectPath(key), { body: OLD })
  const prepared = (await method.prepare?.(key)) ?? ''
  const before = store.requests
  const outcome = await method.run(key, prepared)
  expect([method.name, outcome !== 'cut' && outcome.status < 300]).toEqual([method.name, true])
  return store.requests - before
}

const random = randomOf(9)
test.each(METHODS.map((method) => [method.name, method] as const))(
  'object store that fails in the midst of %s: 503 or the right answer, the old or the new object, and then well',
  async (_name, method) => {
    const count = await requestsOf(method)
    for (const fault of STORE_FAULTS) {
      const all = Array.from({ length: count }, (_, n) => n)
      const some = new Set([0, random(Math.max(1, count))])
      for (const n of repeated(0, 1) === 0 ? some : all) await trial(method, fault, n)
    }
  },
)

test('object store that has failed: has the blobs of all objects, and after the sweep nothing else', async () => {
  const [database, root] = [await connectSuperuser(inject('tenon')), rootClient()]
  const platform = openInProcessPlatform()
  try {
    const compare = () => compareObjects({ database, store: root, buckets: [bucket] })
    expect(await compare()).toEqual([])
    const old = [workspace.workspaceId]
    await asSuperuser('update tenon.object_uploads set expires_at = now() where workspace_id = $1', old)
    const scope = scopeOf(platform, workspace, 'service')
    while (await sweepBlobs(scope));
    await asSuperuser(
      `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
      old,
    )
    while (await sweepBlobs(scope));
    expect(await compare()).toEqual([])
    const { Uploads = [] } = await root.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
    const { Contents = [] } = await root.send(new ListObjectsV2Command({ Bucket: bucket }))
    const rows = await asSuperuser<{ blob: string }>(
      'select blob from tenon.objects where workspace_id = $1 and size > 0 order by blob',
      old,
    )
    expect([Uploads, Contents.map(({ Key }) => Key)]).toEqual([[], rows.map(({ blob }) => blob)])
  } finally {
    root.destroy()
    await database.end()
    await platform.close()
  }
})

test('connections that break off again and again after a few bytes: HEAD says at once what came, and the store gets no more than was sent, 1 MiB each time, and what is put again behind the tail', async () => {
  const length = 64 * MIB
  const path = await beginTus(unique('phone'), length)
  const bytes = Buffer.alloc(64 * 1_024, 'x')
  const before = store.received
  let [offset, tails, breaks] = [0, 0, 12]
  while (breaks-- > 0) {
    tails += offset
    const requests = store.requests
    const headers = {
      ...{ ...workspace.service, ...TUS, 'upload-offset': String(offset) },
      'content-length': String(length - offset),
    }
    const broken = request(`${node.at.url}${path}`, { method: 'PATCH', headers, agent: false })
    broken.on('error', () => {})
    broken.write(bytes)
    await eventually(async () => store.requests > requests || undefined)
    await new Promise((closed) => broken.once('close', closed).destroy())
    const now = await offsetOf(path)
    expect(now).toBeGreaterThan(offset)
    offset = now
  }
  expect(store.received - before).toBeLessThanOrEqual(tails + offset + 12 * (MIB + 100_000))
})
