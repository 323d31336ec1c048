/**
 * Measures objects through the S3 API of the platform against the same client at the object store, in one run: writes and reads, lists of
 * 100,000 keys, and the memory of 50 uploads of 100 MB at once. Writes at the platform include the catalogue and the event.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  GetObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { Client } from 'pg'
import { type Running, type Started, startPlatform } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { contest, print, sized } from './measure.ts'

const MB = 1_000_000
const SIZES = [
  { name: '4 KB', bytes: 4_096, lanes: 8 },
  { name: '8 MB', bytes: 8 * MB, lanes: 2 },
] as const
const LISTED = sized(100_000, 2_000)
const [UPLOADS, UPLOAD_BYTES] = [sized(50, 2), sized(100 * MB, 6 * MB)]

/** A client and the bucket that it uses. */
interface Side {
  readonly s3: S3Client
  readonly bucket: string
}

export async function objects(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    const { admin, workspaceId } = await createTestWorkspace(started.running)
    const { bucket } = await admin.get<{ bucket: string }>(`/v1/workspaces/${workspaceId}`)
    const key = await admin.post<{ id: string; key: string }>('/v1/api-keys', {
      ...{ workspace_id: workspaceId, kind: 'storage', name: 'bench' },
      actions: ['read', 'write', 'list'],
    })
    const { env, url } = started.running
    const platform = { s3: client(`${url}/s3`, key.id, key.key), bucket }
    const store = {
      s3: client(env['S3_ENDPOINT'] ?? '', env['S3_ACCESS_KEY_ID'] ?? '', env['S3_SECRET_ACCESS_KEY'] ?? ''),
      bucket,
    }
    await writesAndReads(store, platform)
    await lists(started.running, workspaceId, { store, platform })
    await parallelUploads(started, platform)
    for (const { s3 } of [platform, store]) s3.destroy()
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

const client = (endpoint: string, accessKeyId: string, secretAccessKey: string) =>
  new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    credentials: { accessKeyId, secretAccessKey },
  })

async function writesAndReads(store: Side, platform: Side): Promise<void> {
  for (const { name, bytes, lanes } of SIZES) {
    const Body = Buffer.alloc(bytes, 'x')
    let n = 0
    const put = ({ s3, bucket }: Side) =>
      s3.send(new PutObjectCommand({ Bucket: bucket, Key: `${bytes}-${n++ % 64}`, Body }))
    const get = async ({ s3, bucket }: Side) => {
      const { Body: body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: `${bytes}-read` }))
      await body?.transformToByteArray()
    }
    for (const { s3, bucket } of [store, platform])
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: `${bytes}-read`, Body }))
    const rates = await contest(
      { rounds: 5, lanes, ms: 4_000 },
      {
        'put, store': () => put(store),
        'put, platform': () => put(platform),
        'get, store': () => get(store),
        'get, platform': () => get(platform),
      },
    )
    print(`\n${name}, ${lanes} at once`, 'per s', 'p50 ms', 'p99 ms', '× store')
    for (const [what, { perS, p50Ms, p99Ms }] of Object.entries(rates)) {
      const base = rates[what.startsWith('put') ? 'put, store' : 'get, store'].perS
      print(what, perS, p50Ms, p99Ms, perS / base)
    }
  }
}

/** The keys at the store are those of blobs: as many, and as long as ours. */
async function lists(
  { databaseUrl }: Running,
  workspaceId: string,
  sides: Readonly<Record<'store' | 'platform', Side>>,
): Promise<void> {
  const { store, platform } = sides
  const database = new Client({ connectionString: databaseUrl })
  await database.connect()
  await database.query(
    `insert into tenon.objects (tenant_id, workspace_id, key, version, blob, size, etag)
      select tenant_id, id, 'listed/' || lpad(n::text, 29, '0'), gen_random_uuid(), gen_random_uuid(), 1, md5('x')
      from tenon.workspaces, generate_series(1, ${LISTED}) n where id = $1`,
    [workspaceId],
  )
  await database.query('analyze tenon.objects')
  await database.end()
  const names = Array.from({ length: LISTED }, (_, n) => `listed/${String(n + 1).padStart(29, '0')}`)
  const lane = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop())
      await store.s3.send(new PutObjectCommand({ Bucket: store.bucket, Key: name, Body: 'x' }))
  }
  await Promise.all(Array.from({ length: 16 }, lane))
  const listAll = async ({ s3, bucket }: Side) => {
    let count = 0
    let token: string | undefined
    do {
      const from: object = token === undefined ? {} : { ContinuationToken: token }
      const page: ListObjectsV2CommandOutput = await s3.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: 'listed/', ...from }),
      )
      count += page.KeyCount ?? 0
      token = page.NextContinuationToken
    } while (token !== undefined)
    if (count !== LISTED) throw new Error(`the list has ${count} keys`)
  }
  const rates = await contest(
    { rounds: 3, lanes: 1, ms: 1 },
    { store: () => listAll(store), platform: () => listAll(platform) },
  )
  print(`\nlist of ${LISTED} keys`, 's', '× store')
  for (const [name, { p50Ms }] of Object.entries(rates)) print(name, p50Ms / 1_000, rates.store.p50Ms / p50Ms)
}

/** By how much the memory of the API grows while many upload at once. */
async function parallelUploads(started: Started, platform: Side): Promise<void> {
  const pid = started.stack.supervisor.pid('api')
  const before = await residentMib(pid)
  let peak = before
  const watch = setInterval(() => void residentMib(pid).then((now) => (peak = Math.max(peak, now))), 100)
  const chunk = Buffer.alloc(65_536, 'x')
  const body = () =>
    Readable.from(
      (async function* () {
        for (let left = UPLOAD_BYTES; left > 0; left -= chunk.length)
          yield chunk.subarray(0, Math.min(left, chunk.length))
      })(),
      { objectMode: false },
    )
  const startedMs = performance.now()
  await Promise.all(
    Array.from({ length: UPLOADS }, (_, n) =>
      platform.s3.send(
        new PutObjectCommand({
          Bucket: platform.bucket,
          Key: `parallel-${n}`,
          Body: body(),
          ContentLength: UPLOAD_BYTES,
        }),
      ),
    ),
  )
  clearInterval(watch)
  const seconds = (performance.now() - startedMs) / 1_000
  print(`\n${UPLOADS} uploads of ${UPLOAD_BYTES / MB} MB`, 'MB/s', 'MiB more')
  print('at once', (UPLOADS * UPLOAD_BYTES) / MB / seconds, peak - before)
}

async function residentMib(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
}
