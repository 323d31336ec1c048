/** Measures a backup, which is compressed and encrypted, beside `pg_basebackup` with a plain copy of the same objects. */

import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3'
import { type Blob, findBlobs } from '../../src/backup/blobs.ts'
import { type Installation, withDatabase } from '../../src/backup/installation.ts'
import { connectionOf, runProgram } from '../../src/backup/postgres/programs.ts'
import { backUp, openInstallation } from '../../test/support/stack/back-up.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { interleaved, print, sized } from '../measure.ts'
import { linesTo, send } from '../ndjson.ts'

const ROUNDS = 4
const DOCUMENTS = sized(300_000, 1_000)
const OBJECTS = sized(400, 10)
const OBJECT_BYTES = 500_000
/** As a backup does. */
const AT_ONCE = 8

export async function backup({ running }: Started): Promise<void> {
  const workspace = await createTestWorkspace(running)
  await send(workspace, 'bench', linesTo(DOCUMENTS))
  await putObjects(workspace)
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-backup-'))
  const installation = await openInstallation(running, join(dir, 'received'))
  let n = 0
  const { plain, backup } = await interleaved(ROUNDS, {
    plain: () => copyPlainly(installation, join(dir, `plain-${n++}`)),
    backup: () => backUp(installation, join(dir, `repository-${n++}`)),
  })
  installation.objects.destroy()
  await rm(dir, { recursive: true, force: true })
  print(`${DOCUMENTS} documents, ${OBJECTS} objects of ${OBJECT_BYTES} bytes`, 'p50 ms', '× plain')
  print('pg_basebackup and a copy of objects', plain.p50Ms, 1)
  print('backup (goal 1.2)', backup.p50Ms, backup.p50Ms / plain.p50Ms)
}

async function putObjects({ url, apikey, admin, workspaceId }: TestWorkspace): Promise<void> {
  const { bucket } = await admin.get<{ bucket: string }>(`/v1/workspaces/${workspaceId}`)
  for (let n = 0; n < OBJECTS; n += 1) {
    const headers = { apikey, 'content-type': 'application/octet-stream' }
    const body = randomBytes(OBJECT_BYTES)
    const { status } = await fetch(`${url}/v1/objects/${bucket}/${n}`, { method: 'PUT', headers, body })
    if (status >= 300) throw new Error(`an object was answered with ${status}`)
  }
}

async function copyPlainly(installation: Installation, folder: string): Promise<void> {
  const { programs, databaseUrl, objects } = installation
  await mkdir(folder)
  const { args, env } = connectionOf(databaseUrl)
  const options = ['--format=tar', '--wal-method=fetch', '--checkpoint=fast']
  await runProgram(programs, 'pg_basebackup', [...args, ...options, '--pgdata', join(folder, 'base')], {
    env,
  })
  const blobs = await withDatabase(databaseUrl, (database) => findBlobs(database, null))
  const queue = blobs.values()
  await Promise.all(Array.from({ length: AT_ONCE }, () => copyObjects(queue, objects, folder)))
}

async function copyObjects(queue: IteratorObject<Blob>, objects: S3Client, folder: string): Promise<void> {
  for (const { bucket, blob } of queue) {
    const { Body } = await objects.send(new GetObjectCommand({ Bucket: bucket, Key: blob }))
    await pipeline(Body as Readable, createWriteStream(join(folder, blob.replaceAll('/', '_'))))
  }
}
