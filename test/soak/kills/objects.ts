/** Objects of the kill drill: written in every way, moved and deleted by REST, tus and the S3 API; in the end ledger, catalogue and store are compared. */

import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import { compareObjects } from '../../../src/cli/stack/compare-objects.ts'
import { sweepBlobs } from '../../../src/features/objects/sweep-blobs.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { asSuperuser, connectSuperuser } from '../../support/fixtures/tenants.ts'
import type { Random } from '../../support/random.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import type { Drill } from './drill.ts'

const OBJECTS = 6
const BYTES_MAX = 1_500_000
/** More than a part of an upload that resumes. */
const LARGE_BYTES_MAX = 14_000_000
const TUS = { 'tus-resumable': '1.0.0' }

const digestOf = (bytes: Buffer | ArrayBuffer) =>
  createHash('sha256')
    .update(Buffer.from(bytes as ArrayBuffer))
    .digest('hex')

/** Changes objects of its own until the drill is over. */
export class ObjectWriter {
  /** The digest of each object that is there, by its key. */
  readonly stored = new Map<string, string>()
  readonly #drill: Drill
  readonly #bucket: string
  readonly #n: number
  readonly #random: Random
  #steps = 0

  constructor(drill: Drill, bucket: string, n: number) {
    this.#drill = drill
    this.#bucket = bucket
    this.#n = n
    this.#random = drill.random(100 + n)
  }

  async run(): Promise<this> {
    const ways = [this.#put, this.#put, this.#resume, this.#move, this.#copy, this.#delete]
    while (!this.#drill.isOver) {
      this.#steps += 1
      await ways[this.#random(ways.length)]?.call(this)
      await pause(100)
    }
    return this
  }

  #key(): string {
    return `drill/${this.#n}/${this.#random(OBJECTS)}`
  }

  #known(): string | undefined {
    const keys = [...this.stored.keys()].sort()
    return keys[this.#random(Math.max(1, keys.length))]
  }

  #bytes(max: number): Buffer {
    return Buffer.alloc(this.#random(max), String(this.#random(1e9)))
  }

  #path(key: string): string {
    return `/v1/objects/${this.#bucket}/${key}`
  }

  async #put(): Promise<void> {
    const [key, body] = [this.#key(), this.#bytes(BYTES_MAX)]
    const headers = { 'content-type': 'application/octet-stream' }
    const reply = await this.#drill.answered('PUT', this.#path(key), { body, headers })
    if (this.#drill.expect(reply, [200, 201], `PUT ${key}`)) this.stored.set(key, digestOf(body))
    this.#drill.count('objects put')
  }

  /** By tus: asks after each failure how far it is, and goes on. */
  async #resume(): Promise<void> {
    const [key, body] = [this.#key(), this.#bytes(LARGE_BYTES_MAX)]
    const described = `bucket ${btoa(this.#bucket)},key ${btoa(key)}`
    const headers = { ...TUS, 'upload-length': String(body.length), 'upload-metadata': described }
    const location = await this.#retried(async () => {
      const reply = await this.#send('POST', '/v1/uploads', headers)
      return reply?.headers.get('location') ?? undefined
    })
    await this.#retried(async () => {
      const asked = await this.#send('HEAD', location, TUS)
      if (asked?.status !== 200) return undefined
      const offset = Number(asked.headers.get('upload-offset'))
      if (offset === body.length) return true
      const more = {
        ...TUS,
        'content-type': 'application/offset+octet-stream',
        'upload-offset': String(offset),
      }
      await this.#send('PATCH', location, more, body.subarray(offset))
      return undefined
    })
    this.stored.set(key, digestOf(body))
    this.#drill.count('objects resumed')
  }

  /** A response of the API; undefined if there is none. */
  async #send(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: Uint8Array,
  ): Promise<Response | undefined> {
    const all = { ...this.#drill.workspace.service, ...headers }
    const sent = { method, headers: all, signal: AbortSignal.timeout(60_000) }
    const sentMs = performance.now()
    const reply = await fetch(`${this.#drill.at.url}${path}`, {
      ...sent,
      ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> }),
    }).catch(() => undefined)
    const isAnswered = reply !== undefined && reply.status < 500
    this.#drill.note(sentMs, isAnswered ? undefined : `${reply?.status ?? 0} of an upload`)
    return reply
  }

  async #retried<T>(work: () => Promise<T | undefined>): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      const result = await work()
      if (result !== undefined) return result
      if (attempts > 400) throw new Error(`an upload of ${this.#n} does not end`)
      await pause(Math.min(1_000, 50 * attempts))
    }
  }

  async #move(): Promise<void> {
    await this.#change('move', (from, to, digest) => {
      this.stored.delete(from)
      this.stored.set(to, digest)
    })
  }

  async #copy(): Promise<void> {
    await this.#change('copy', (_from, to, digest) => this.stored.set(to, digest))
  }

  async #change(verb: string, done: (from: string, to: string, digest: string) => void): Promise<void> {
    const [from, to] = [this.#known(), this.#key()]
    const digest = from === undefined ? undefined : this.stored.get(from)
    if (from === undefined || digest === undefined || from === to) return
    const path = `/v1/buckets/${this.#bucket}/${verb}`
    const key = `objects-${this.#n}-${this.#steps}`
    const reply = await this.#drill.answered('POST', path, { key, body: { from, to } })
    if (this.#drill.expect(reply, [200], `${verb} ${from} to ${to}`)) done(from, to, digest)
    this.#drill.count(`objects: ${verb}`)
  }

  async #delete(): Promise<void> {
    const key = this.#known()
    if (key === undefined) return
    const reply = await this.#drill.answered('DELETE', this.#path(key))
    // A repetition finds none.
    const statuses = reply.attempts > 1 ? [200, 404] : [200]
    if (this.#drill.expect(reply, statuses, `DELETE ${key}`)) this.stored.delete(key)
    this.#drill.count('objects deleted')
  }
}

/** Compares what was acknowledged with the catalogue, and the catalogue with the store, before and after a sweep of all that is over. */
export async function compareStored(
  drill: Drill,
  bucket: string,
  writers: readonly ObjectWriter[],
): Promise<void> {
  const expected = new Map(writers.flatMap(({ stored }) => [...stored]))
  const { workspace, at } = drill
  const rows = await asSuperuser<{ key: string }>(
    'select key from tenon.objects where workspace_id = $1',
    [workspace.workspaceId],
    at,
  )
  const keys = new Set(rows.map(({ key }) => key))
  for (const key of keys)
    if (!expected.has(key)) drill.find(`object ${key}: is there, and was deleted or moved`)
  for (const [key, digest] of expected) {
    const path = `/v1/objects/${bucket}/${key}`
    const response = await fetch(`${at.url}${path}`, { headers: workspace.service })
    if (digestOf(await response.arrayBuffer()) !== digest)
      drill.find(`GET ${path}: ${response.status}, other bytes than were acknowledged`, 'lost')
  }
  drill.count('objects compared', expected.size)
  await compareWithStore(drill, bucket)
}

async function compareWithStore(drill: Drill, bucket: string): Promise<void> {
  const { workspace, at } = drill
  const [database, store] = [await connectSuperuser(at), rootClient(at)]
  const platform = openInProcessPlatform(at.env)
  const compare = async (when: string) => {
    const found = await compareObjects({ database, store, buckets: [bucket] })
    for (const { blob, kind } of found) drill.find(`blob ${blob}, ${when}: ${kind}`)
  }
  const of = [workspace.workspaceId]
  try {
    await compare('before the sweep')
    await database.query('update tenon.object_uploads set expires_at = now() where workspace_id = $1', of)
    const scope = scopeOf(platform, workspace, 'service')
    while (await sweepBlobs(scope));
    const past = `set unused_at = now() - interval '2 hours'`
    const { rowCount } = await database.query(`update tenon.unused_blobs ${past} where workspace_id = $1`, of)
    drill.count('blobs swept', rowCount ?? 0)
    while (await sweepBlobs(scope));
    await compare('after the sweep')
    const { rows } = await database.query(
      'select from tenon.objects where workspace_id = $1 and size > 0',
      of,
    )
    const { Contents = [] } = await store.send(new ListObjectsV2Command({ Bucket: bucket }))
    if (Contents.length !== rows.length)
      drill.find(`the store has ${Contents.length} blobs for ${rows.length} objects after the sweep`)
    drill.count('blobs in the store', Contents.length)
  } finally {
    store.destroy()
    await database.end()
    await platform.close()
  }
}
