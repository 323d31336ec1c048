/** Images of another size or format: what readers get, what is refused, what is kept of it, and who may read it. */

import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import sharp from 'sharp'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { compareObjects } from '../../../src/cli/stack/compare-objects.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import {
  asSuperuser,
  type Caller,
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { bucketOf, configure, tryConfigure } from '../../support/stack/workspace-settings.ts'

const SIZES = ['64', 'x20', '32x32', '300']
const FORMATS = ['jpeg', 'png', 'webp', 'avif']

let workspace: TestWorkspace
let bucket: string
let photo: Buffer
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  await configure(workspace, {
    anon: { objects: 'public' },
    objects: {
      public_read: ['site/'],
      user: { read: ['mine/{user.id}/'] },
      images: { sizes: SIZES, formats: FORMATS },
    },
  })
  photo = await photoOf('#c0392b')
})

/** A photo of 100 × 200 pixels that a camera has stored lying on its side, with the place where it was taken. */
const photoOf = (background: string) =>
  sharp({ create: { width: 200, height: 100, channels: 3, background } })
    .jpeg()
    .withExif({ IFD0: { Artist: 'Mia' }, IFD3: { GPSLatitude: '52/1 31/1 0/1' } })
    .withMetadata({ orientation: 6 })
    .toBuffer()

const urlOf = (path: string) => `${inject('tenon').url}${path}`
const get = (key: string, query = '', init: RequestInit & { as?: Caller } = {}) =>
  fetch(urlOf(`/v1/objects/${bucket}/${key}?${query}`), {
    ...init,
    headers: { ...(init.as ?? workspace.service), ...(init.headers as Caller) },
  })

async function store(key: string, body: Uint8Array, type = 'image/jpeg', headers: Caller = {}) {
  const path = urlOf(`/v1/objects/${bucket}/${key}`)
  const put = await fetch(path, {
    method: 'PUT',
    headers: { ...workspace.service, 'content-type': type, ...headers },
    body: Buffer.from(body),
  })
  expect(put.ok).toBe(true)
  return key
}

/** Format, width and height of a reply. */
async function shapeOf(response: Response) {
  expect(response.status, await response.clone().text()).toBe(200)
  const { format, width, height, compression } = await sharp(await response.arrayBuffer()).metadata()
  return [compression === 'av1' ? 'avif' : format, width, height]
}

const refusal = async (response: Response) => {
  const { code, detail } = (await response.json()) as { code: string; detail: string }
  return [response.status, code, detail]
}

describe('image', () => {
  test('read with a size: upright, of that size, in its own format, and without what the camera noted', async () => {
    const key = await store('album/photo.jpg', photo)
    const response = await get(key, 'width=64')
    const bytes = Buffer.from(await response.clone().arrayBuffer())
    expect(await shapeOf(response)).toEqual(['jpeg', 64, 128])
    const { exif, orientation } = await sharp(bytes).metadata()
    expect([exif, orientation, bytes.includes('GPS')]).toEqual([undefined, undefined, false])
    expect(response.headers.get('content-type')).toBe('image/jpeg')
    expect(await shapeOf(await get(key, 'height=20'))).toEqual(['jpeg', 10, 20])
    // The object itself stays as it is.
    expect(Buffer.from(await (await get(key)).arrayBuffer()).equals(photo)).toBe(true)
  })

  test.each([
    ['', 'jpeg', 32, 32],
    ['&fit=cover', 'jpeg', 32, 32],
    ['&fit=contain', 'jpeg', 32, 32],
    ['&fit=fill', 'jpeg', 32, 32],
    ['&fit=inside', 'jpeg', 16, 32],
    ['&fit=outside', 'jpeg', 32, 64],
    ['&format=png', 'png', 32, 32],
    ['&format=webp&fit=inside', 'webp', 16, 32],
    ['&format=avif', 'avif', 32, 32],
  ])('read with width, height and %s: is a %s of %i × %i', async (query, ...shape) => {
    const key = await store('album/shape.jpg', photo)
    const response = await get(key, `width=32&height=32${query}`)
    expect(response.headers.get('content-type')).toBe(`image/${shape[0]}`)
    expect(await shapeOf(response)).toEqual(shape)
  })

  test('smaller than the size: is not enlarged', async () => {
    const key = await store('album/small.jpg', photo)
    expect(await shapeOf(await get(key, 'width=300'))).toEqual(['jpeg', 100, 200])
  })

  test('format=auto: the best that Accept names, else its own; Vary tells caches', async () => {
    const key = await store('site/auto.jpg', photo)
    const typeFor = async (accept: string) => {
      const response = await get(key, 'width=64&format=auto', { headers: { accept } })
      expect(response.headers.get('vary')?.toLowerCase()).toContain('accept')
      return response.headers.get('content-type')
    }
    expect(await typeFor('image/avif,image/webp,*/*;q=0.8')).toBe('image/avif')
    expect(await typeFor('text/html, IMAGE/WEBP;q=0.9, image/avif;q=0')).toBe('image/webp')
    expect(await typeFor('image/*, */*')).toBe('image/jpeg')
    const shared = await fetch(urlOf(`/public/${bucket}/${key}?width=64&format=auto`))
    expect(shared.headers.get('vary')).toBe('Accept')
    const tag = { 'if-none-match': shared.headers.get('etag') ?? '' }
    const known = await fetch(urlOf(`/public/${bucket}/${key}?width=64&format=auto`), { headers: tag })
    expect([known.status, known.headers.get('vary')]).toEqual([304, 'Accept'])
    expect((await fetch(urlOf(`/public/${bucket}/${key}?width=64`))).headers.get('vary')).toBe(null)
  })

  test('conditions, ranges and HEAD: are about the converted image', async () => {
    const key = await store('album/range.jpg', photo, 'image/jpeg', {
      'cache-control': 'max-age=60',
      'content-disposition': 'inline; filename="me.jpg"',
    })
    const [plain, whole] = [await get(key), await get(key, 'width=64&format=webp')]
    const bytes = Buffer.from(await whole.arrayBuffer())
    const etag = whole.headers.get('etag') ?? ''
    expect(etag).not.toBe(plain.headers.get('etag'))
    const head = await get(key, 'width=64&format=webp', { method: 'HEAD' })
    for (const name of ['etag', 'content-length', 'content-type', 'cache-control', 'content-disposition'])
      expect([name, head.headers.get(name)]).toEqual([name, whole.headers.get(name)])
    expect(head.headers.get('content-length')).toBe(String(bytes.byteLength))
    expect(head.headers.get('cache-control')).toBe('private, max-age=60')
    const known = await get(key, 'width=64&format=webp', { headers: { 'if-none-match': etag } })
    expect([known.status, known.headers.get('etag')]).toEqual([304, etag])
    const part = await get(key, 'width=64&format=webp', { headers: { range: 'bytes=-4', 'if-range': etag } })
    expect([part.status, Buffer.from(await part.arrayBuffer())]).toEqual([206, bytes.subarray(-4)])
    const stale = { 'if-match': plain.headers.get('etag') ?? '' }
    expect((await get(key, 'width=64&format=webp', { headers: stale })).status).toBe(412)
  })
})

describe('setting objects.images', () => {
  test('of a new workspace: allows nothing, and the refusal names it', async () => {
    const own = await createTestWorkspaceWithStorage()
    const path = `/v1/objects/${await bucketOf(own)}/a.jpg`
    const put = await fetch(urlOf(path), { method: 'PUT', headers: own.service, body: new Uint8Array(photo) })
    expect(put.status).toBe(201)
    const reply = await call('GET', `${path}?width=64`, { as: own.service })
    expect([reply.status, reply.body.code]).toEqual([400, 'image_not_allowed'])
    expect(reply.body.detail).toContain('objects.images')
    expect(reply.body.hint).toContain('/v1/services/configure')
    const { objects } = await configure(own, { objects: { images: { sizes: ['64'] } } })
    expect(objects.images).toEqual({ sizes: ['64'], formats: ['jpeg', 'png', 'webp'] })
    expect((await configure(own, { objects: { images: { formats: ['webp'] } } })).objects.images).toEqual({
      sizes: ['64'],
      formats: ['webp'],
    })
    const fetched = () => fetch(urlOf(`${path}?width=64`), { headers: own.service })
    // As soon as the process reads its settings anew; a photo becomes the one format that is allowed.
    const response = await eventually(async () => {
      const got = await fetched()
      return got.status === 200 ? got : undefined
    })
    expect(response.headers.get('content-type')).toBe('image/webp')
  })

  test.each([
    ['width=65', 'image_not_allowed', '64, x20, 32x32, 300'],
    ['width=32', 'image_not_allowed', '64, x20, 32x32, 300'],
    ['width=20&height=20', 'image_not_allowed', 'The size 20x20'],
    ['width=999999999', 'image_not_allowed', 'The size 999999999'],
    ['format=webp', 'validation_failed', 'width'],
    ['fit=cover&width=64', 'validation_failed', 'fit'],
    ['width=0', 'validation_failed', 'width'],
    ['width=64&format=svg', 'validation_failed', 'format'],
    ['width=64&width=64', 'validation_failed', 'width'],
    ['width=64&quality=80', 'unknown_parameter', 'quality'],
  ])('request for %s: refused with %s', async (query, code, text) => {
    const key = await store('album/allowed.jpg', photo)
    const [status, found, detail] = await refusal(await get(key, query))
    expect([status, found]).toEqual([400, code])
    expect(detail).toContain(text)
  })

  test.each([
    [{ sizes: ['2561'] }, '/objects/images/sizes/0'],
    [{ sizes: ['64', '64x9999'] }, '/objects/images/sizes/1'],
    [{ sizes: ['064'] }, '/objects/images/sizes/0'],
    [{ sizes: ['64', '64'] }, '/objects/images/sizes'],
    [{ sizes: Array.from({ length: 33 }, (_, n) => `${n + 1}`) }, '/objects/images/sizes'],
    [{ formats: ['svg'] }, '/objects/images/formats/0'],
    [{ formats: [] }, '/objects/images/formats'],
    [{ quality: 80 }, '/objects/images'],
  ])('value %j: refused with a pointer', async (images, pointer) => {
    const { status, body } = await tryConfigure(workspace, { objects: { images } })
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(JSON.stringify(body.errors)).toContain(`"${pointer}`)
  })
})

describe('rights', () => {
  test('those of the object: of each caller, before anything is said about sizes', async () => {
    for (const key of ['site/p.jpg', 'mine/mia/p.jpg', 'closed/p.jpg']) await store(key, photo)
    const [mia, ben] = [await userToken(workspace, 'mia'), await userToken(workspace, 'ben')]
    const status = async (key: string, as: Caller, query = 'width=64') =>
      (await get(key, query, { as })).status
    // Converted and kept before others ask.
    for (const key of ['site/p.jpg', 'mine/mia/p.jpg', 'closed/p.jpg'])
      expect(await status(key, workspace.service)).toBe(200)
    expect(await status('mine/mia/p.jpg', mia)).toBe(200)
    expect(await status('site/p.jpg', workspace.anon)).toBe(200)
    for (const query of ['width=64', 'width=65', 'width=32&height=32']) {
      expect(await status('mine/mia/p.jpg', ben, query)).toBe(403)
      expect(await status('closed/p.jpg', mia, query)).toBe(403)
      expect(await status('closed/p.jpg', workspace.anon, query)).toBe(403)
    }
    const open = async (key: string, query = 'width=64') =>
      (await fetch(urlOf(`/public/${bucket}/${key}?${query}`))).status
    expect(await open('site/p.jpg')).toBe(200)
    expect(await open('site/p.jpg', 'width=65')).toBe(400)
    expect([await open('closed/p.jpg'), await open('closed/p.jpg', 'width=65')]).toEqual([404, 404])
  })

  test('signed link: reads the image in any allowed size, under its own type, and ends with the key', async () => {
    await store('album/linked.jpg', photo)
    const made = await call('POST', '/v1/api-keys', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, kind: 'service', name: unique('links') },
    })
    const { key, id } = made.body
    const { body: link } = await call('POST', `/v1/buckets/${bucket}/presign`, {
      as: { apikey: key },
      body: { key: 'album/linked.jpg', content_type: 'image/x-own', disposition: 'attachment' },
    })
    const read = () => fetch(`${link.url}&width=64&format=webp`)
    const response = await read()
    expect(response.headers.get('content-disposition')).toBe('attachment')
    expect(response.headers.get('content-type')).toBe('image/webp')
    expect(await shapeOf(response)).toEqual(['webp', 64, 128])
    expect((await fetch(`${link.url}&width=65`)).status).toBe(400)
    expect((await call('DELETE', `/v1/api-keys/${id}`, { as: workspace.operator })).status).toBe(200)
    await expect.poll(async () => (await read()).status).toBe(403)
  })

  test('closed or removed after the image was kept: it is not served', async () => {
    const key = await store('site/gone.jpg', photo)
    const open = async () => (await fetch(urlOf(`/public/${bucket}/${key}?width=64`))).status
    expect(await open()).toBe(200)
    await configure(workspace, { objects: { public_read: ['other/'] } })
    await expect.poll(open).toBe(404)
    await configure(workspace, { objects: { public_read: ['site/'] } })
    await expect.poll(open).toBe(200)
    await call('DELETE', `/v1/objects/${bucket}/${key}`, { as: workspace.service })
    expect([await open(), (await get(key, 'width=64')).status]).toEqual([404, 404])
  })

  test('another workspace: neither its images nor ours are met, though key, bytes and size are the same', async () => {
    const other = await createTestWorkspaceWithStorage()
    await configure(other, { objects: { images: { sizes: ['64'] } } })
    const path = `/v1/objects/${await bucketOf(other)}/album/same.jpg`
    const body = new Uint8Array(photo)
    expect((await fetch(urlOf(path), { method: 'PUT', headers: other.service, body })).status).toBe(201)
    await store('album/same.jpg', photo)
    const [ours, theirs] = [
      await get('album/same.jpg', 'width=64'),
      await fetch(urlOf(`${path}?width=64`), { headers: other.service }),
    ]
    expect([ours.status, theirs.status]).toEqual([200, 200])
    const stored = await asSuperuser<{ workspace_id: string; blob: string }>(
      `select i.workspace_id, i.blob from tenon.object_images i join tenon.objects o
        on o.tenant_id = i.tenant_id and o.workspace_id = i.workspace_id and o.blob = i.source
        where o.key = 'album/same.jpg' and o.workspace_id = any($1)`,
      [[workspace.workspaceId, other.workspaceId]],
    )
    expect(new Set(stored.map(({ workspace_id }) => workspace_id)).size).toBe(2)
    expect(new Set(stored.map(({ blob }) => blob)).size).toBe(2)
    for (const [as, foreign] of [
      [other.service, `/v1/objects/${bucket}/album/same.jpg?width=64`],
      [workspace.service, `${path}?width=64`],
    ] as const)
      expect((await call('GET', foreign, { as })).body.code).toBe('AccessDenied')
  })
})

interface Kept {
  readonly blob: string
  readonly conversion: string
}

const keptOf = (key: string): Promise<Kept[]> =>
  asSuperuser<Kept>(
    `select i.blob, i.conversion from tenon.object_images i join tenon.objects o
      on o.workspace_id = i.workspace_id and o.blob = i.source where o.workspace_id = $1 and o.key = $2`,
    [workspace.workspaceId, key],
  )

async function blobsStored(): Promise<string[]> {
  const s3 = rootClient()
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }))
  s3.destroy()
  return Contents.map(({ Key = '' }) => Key)
}

/** Lets the sweeper remove what is unused, as if its time were over. */
async function sweep(): Promise<void> {
  await asSuperuser(
    `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  await configure(workspace, { retention: { meters: '30d' } })
}

async function mismatches(): Promise<unknown[]> {
  const [database, store] = [await connectSuperuser(inject('tenon')), rootClient()]
  try {
    return await compareObjects({ database, store, buckets: [bucket] })
  } finally {
    store.destroy()
    await database.end()
  }
}

/** Holds the row of an object, as a change of it does, until the writer ends. */
async function holdRow(key: string) {
  const writer = await connectSuperuser(inject('tenon'))
  const where = `where workspace_id = '${workspace.workspaceId}' and key = '${key}'`
  await writer.query(`begin; update tenon.objects set version = gen_random_uuid() ${where}`)
  const waiting = 'select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))'
  const isAwaited = () =>
    eventually(async () => ((await writer.query(waiting)).rows.length > 0 ? true : undefined))
  return { writer, where, isAwaited }
}

describe('kept image', () => {
  test('requests at the same moment: one conversion; it is no object, and no quota counts it', async () => {
    const key = await store('album/once.jpg', photo)
    const usedOf = async () => {
      const path = `/v1/quotas?workspace_id=${workspace.workspaceId}`
      const { body } = await call('GET', path, { as: workspace.operator })
      return body.data?.find(({ name }: { name: string }) => name === 'object_bytes')?.used
    }
    const [before, used] = [await blobsStored(), await usedOf()]
    const tags = await Promise.all(
      Array.from({ length: 12 }, async () => (await get(key, 'width=64')).headers.get('etag')),
    )
    expect(new Set(tags).size).toBe(1)
    expect(tags[0]).toMatch(/^"[0-9a-f]{32}"$/)
    const kept = await keptOf(key)
    expect(kept.map(({ conversion }) => conversion)).toEqual(['64x cover jpeg,png,webp,avif'])
    const added = (await blobsStored()).filter((blob) => !before.includes(blob))
    expect(added).toEqual(kept.map(({ blob }) => blob))
    expect(await usedOf()).toEqual(used)
    const { body } = await call('GET', `/v1/objects/${bucket}?prefix=album/once`, { as: workspace.service })
    expect(body.data.map((one: { key: string }) => one.key)).toEqual([key])
    expect(await mismatches()).toEqual([])
    const uploads = `select from tenon.object_uploads where workspace_id = $1`
    expect(await asSuperuser(uploads, [workspace.workspaceId])).toEqual([])
  })

  test('object replaced, described anew and moved: the image is that of the present bytes, and old ones are removed', async () => {
    const key = await store('album/change.jpg', photo)
    const colour = async (at: string) => {
      const bytes = await (await get(at, 'width=32&height=32&format=png')).arrayBuffer()
      const { dominant } = await sharp(bytes).stats()
      return dominant.r > dominant.b ? 'red' : 'blue'
    }
    expect(await colour(key)).toBe('red')
    const [red] = await keptOf(key)
    await store(key, await photoOf('#2c3ecc'))
    expect(await colour(key)).toBe('blue')
    const [blue] = await keptOf(key)
    // Bytes that are the same keep their image.
    const path = `/v1/buckets/${bucket}`
    const as = workspace.service
    await call('PATCH', `${path}/object`, { as, body: { key, metadata: { a: 'b' } } })
    const to = 'album/moved.jpg'
    expect((await call('POST', `${path}/move`, { as, body: { from: key, to } })).status).toBe(200)
    expect(await colour(to)).toBe('blue')
    expect(await keptOf(to)).toEqual([blue])
    // The sweeper finds the image by its source, and an hour later its bytes.
    await sweep()
    await eventually(async () => {
      const rows = await asSuperuser('select from tenon.object_images where blob = $1', [red?.blob])
      return rows.length === 0 || undefined
    })
    await eventually(async () => {
      await sweep()
      return !(await blobsStored()).includes(red?.blob ?? '') || undefined
    })
    expect(await blobsStored()).toContain(blue?.blob)
    expect(await mismatches()).toEqual([])
  })

  test('object replaced while its image is converted: the image is served, and not kept', async () => {
    const key = await store('album/raced.jpg', photo)
    const { writer, where, isAwaited } = await holdRow(key)
    const reading = get(key, 'width=64')
    await isAwaited()
    // As a replacement does it.
    const { rows } = await writer.query(
      `with changed as (update tenon.objects set blob = gen_random_uuid(), size = 0 ${where} returning old.*)
        insert into tenon.unused_blobs (tenant_id, workspace_id, blob) select tenant_id, workspace_id, blob from changed returning blob`,
    )
    await writer.query('commit')
    await writer.end()
    expect((await reading).status).toBe(200)
    expect(await asSuperuser('select from tenon.object_images where source = $1', [rows[0].blob])).toEqual([])
    expect(await mismatches()).toEqual([])
  })

  test('process killed between bytes and row: nothing is without an owner, the next reader gets the image, and the bytes are removed', async () => {
    const key = await store('album/killed.jpg', photo)
    const before = await blobsStored()
    const { at, process } = await startApi({})
    const { writer, isAwaited } = await holdRow(key)
    const url = `${at.url}/v1/objects/${bucket}/${key}?width=64`
    const reading = fetch(url, { headers: workspace.service }).catch(() => undefined)
    await isAwaited()
    process.kill('SIGKILL')
    expect(await reading).toBe(undefined)
    // The server would end its statement without an answer, but only once it no longer waits.
    await writer.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))',
    )
    await writer.query('rollback')
    await writer.end()
    const [left, ...others] = (await blobsStored()).filter((blob) => !before.includes(blob))
    expect([others, await keptOf(key), await mismatches()]).toEqual([[], [], []])
    expect((await get(key, 'width=64')).status).toBe(200)
    const lease = `update tenon.object_uploads set expires_at = now() where id = $1 returning bytes`
    expect(await asSuperuser(lease, [left])).toEqual([{ bytes: '0' }])
    await eventually(async () => {
      await sweep()
      return !(await blobsStored()).includes(left ?? '') || undefined
    })
    expect(await mismatches()).toEqual([])
  })

  test('not read for a month, and more than a workspace may keep: removed, the longest unread first', async () => {
    const key = await store('album/old.jpg', photo)
    expect((await get(key, 'width=64')).status).toBe(200)
    await asSuperuser(
      `update tenon.object_images set read_at = now() - interval '31 days' where workspace_id = $1`,
      [workspace.workspaceId],
    )
    await sweep()
    await eventually(async () => (await keptOf(key)).length === 0 || undefined)
    // As large as all that may be kept, and read before and after the next one.
    const full = await store('album/full.jpg', photo)
    const fill = (conversion: string, age: string) =>
      asSuperuser(
        `insert into tenon.object_images (tenant_id, workspace_id, source, conversion, blob, size, etag, content_type, read_at)
          select tenant_id, workspace_id, blob, $3, gen_random_uuid(), 268435456, '', '', now() - $4::interval
          from tenon.objects where workspace_id = $1 and key = $2`,
        [workspace.workspaceId, full, conversion, age],
      )
    await fill('older', '2 days')
    await fill('old', '1 day')
    expect((await get(full, 'width=64')).status).toBe(200)
    expect((await keptOf(full)).map(({ conversion }) => conversion)).toEqual(['64x cover jpeg,png,webp,avif'])
    await asSuperuser(`delete from tenon.unused_blobs where workspace_id = $1`, [workspace.workspaceId])
  })
})
