/** Contents of objects in functions: streams of any size in both directions, which neither the code nor the worker keeps. */

import { createHash } from 'node:crypto'
import { beforeAll, expect, inject, test } from 'vitest'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const MIB = 1_048_576
const SIZE_MB = repeated(64, 200)
const SERVED_MB = 20

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

const run = async (source: string, input: object = {}) =>
  resultOf(workspace.service, await deployed(workspace, source, { timeout: '60s' }), { bucket, ...input })

/** The MD5 and size of an object. */
const describe = async (key: string) => {
  const { body } = await call('GET', `/v1/buckets/${bucket}/object?key=${key}`, { as: workspace.service })
  return [body.size, body.etag]
}

test(`${SIZE_MB} MB stored from a stream, copied from a Response, and served over HTTP: all of it arrives, in the memory of a small function`, async () => {
  const source = `
    const chunk = new Uint8Array(${MIB})
    export default async ({ bucket }, { tenon: { objects } }) => {
      let left = ${SIZE_MB}
      const pull = (controller) => (left-- > 0 ? controller.enqueue(chunk) : controller.close())
      const made = await objects.put(bucket, 'made', new ReadableStream({ pull }, { highWaterMark: 0 }))
      const copied = await objects.put(bucket, 'copied', await objects.get(bucket, 'made'), { content_type: 'x/y' })
      return { made: made.size, copied: copied.size }
    }
    export const fetch = (_request, { tenon }) => tenon.objects.get('${bucket}', 'copied', { range: 'bytes=0-${SERVED_MB * MIB - 1}' })`
  const id = await deployed(workspace, source, { timeout: '60s', memory_mb: 64 })
  const size = SIZE_MB * MIB
  expect(await resultOf(workspace.service, id, { bucket })).toEqual({ made: size, copied: size })
  const hash = createHash('md5')
  for (let n = 0; n < SIZE_MB; n++) hash.update(new Uint8Array(MIB))
  const etag = `"${hash.digest('hex')}"`
  expect([await describe('made'), await describe('copied')]).toEqual([
    [size, etag],
    [size, etag],
  ])
  const response = await fetch(`${inject('tenon').url}/v1/functions/${id}/http/`, {
    headers: workspace.service,
  })
  expect([response.status, response.headers.get('content-type')]).toEqual([206, 'x/y'])
  let bytes = 0
  for await (const part of response.body ?? []) bytes += part.length
  expect(bytes).toBe(SERVED_MB * MIB)
})

test('many contents at once, more than are sent at a time: each arrives', async () => {
  const source = `export default async ({ bucket }, { tenon: { objects } }) => {
    const keys = Array.from({ length: 70 }, (_, n) => 'many/' + n)
    await Promise.all(keys.map((key, n) => objects.put(bucket, key, new Blob([new Uint8Array(300_000 + n)]))))
    const sizes = []
    for (const key of keys) {
      const response = await objects.get(bucket, key)
      sizes.push((await response.bytes()).length)
    }
    await Promise.all(keys.slice(0, 30).map(async (key) => objects.put(bucket, key + '/copy', await objects.get(bucket, key))))
    return sizes
  }`
  expect(await run(source)).toEqual(Array.from({ length: 70 }, (_, n) => 300_000 + n))
})

test('a stream that fails, a call that is refused, a content that is not read: the code hears of it, and nothing is stored', async () => {
  const source = `export default async ({ bucket }, { tenon: { objects } }) => {
    const large = () => new Blob([new Uint8Array(2_000_000)])
    const coded = (work) => work.then(() => 'done', ({ code, message }) => code ?? message)
    let n = 0
    const failing = new ReadableStream({ pull(c) { if (n++ < 20) c.enqueue(new Uint8Array(100_000)); else throw new Error('broken') } })
    const texts = new ReadableStream({ start(c) { c.enqueue('text'); c.close() } })
    const outcomes = {
      failing: await coded(objects.put(bucket, 'failing', failing)),
      texts: await coded(objects.put(bucket, 'texts', texts)),
      stored: (await objects.put(bucket, 'kept', large())).size,
      refused: await coded(objects.put(bucket, 'kept', large(), { if_none_match: '*' })),
      foreign: await coded(objects.put('not-' + bucket, 'kept', large())),
      digest: await coded(objects.put(bucket, 'digest', large(), { content_md5: 'AAAAAAAAAAAAAAAAAAAAAA==' })),
    }
    const unread = []
    for (let at = 0; at < 32; at++) unread.push(await objects.get(bucket, 'kept'))
    outcomes.open = await coded(objects.get(bucket, 'kept'))
    await unread[0].body.cancel()
    outcomes.after = (await (await objects.get(bucket, 'kept')).bytes()).length
    outcomes.keys = (await objects.list(bucket, { prefix: '' })).data.map(({ key }) => key).filter((key) => /^(failing|texts|digest|kept)$/.test(key))
    return outcomes
  }`
  expect(await run(source)).toEqual({
    failing: 'broken',
    texts: 'The content of an object must be a stream of bytes.',
    stored: 2_000_000,
    refused: 'PreconditionFailed',
    foreign: 'AccessDenied',
    digest: 'digest_mismatch',
    open: 'overloaded',
    after: 2_000_000,
    keys: ['kept'],
  })
})
