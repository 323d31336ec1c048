/** Byte quotas of documents and objects: every write is counted exactly, the limit is never exceeded. */

import { createHash } from 'node:crypto'
import { describe, expect, inject, test } from 'vitest'
import { limit, quota, rush, tally } from '../../support/fixtures/quotas.ts'
import {
  aRoom,
  aStoringRoom,
  asSuperuser,
  call,
  eventually,
  type Room,
} from '../../support/fixtures/tenants.ts'

const PLATFORM = '{tenant_id,workspace_id,collection,id,version,created_at,updated_at}'

/** Bytes of the documents of a workspace, computed from the tables. */
async function weighed(room: Room): Promise<number> {
  const tables = await asSuperuser<{ relation: string }>(
    `select format('tenon_data.%I', relation) as relation from tenon.schemas where workspace_id = $1`,
    [room.workspaceId],
  )
  let bytes = 0
  for (const relation of ['tenon.documents', ...tables.map((table) => table.relation)]) {
    const [row] = await asSuperuser<{ n: string }>(
      `select coalesce(sum(octet_length((to_jsonb(r) - '${PLATFORM}'::text[])::text)), 0) as n
        from ${relation} r where workspace_id = $1`,
      [room.workspaceId],
    )
    bytes += Number(row?.n)
  }
  return bytes
}

const PLAIN = '/v1/collections/things/documents'
const create = (room: Room, text: string, collection = 'things') =>
  call('POST', `/v1/collections/${collection}/documents`, { as: room.service, body: { text } })

async function declare(room: Room, collection: string, schema: object = {}) {
  const body = { workspace_id: room.workspaceId, collection, store: 'relational', schema }
  return (await call('POST', '/v1/schemas', { as: room.operator, body })).body
}

describe('bytes of documents', () => {
  test('byte quota: 200 concurrent writes, every kind of table: never exceeded', async () => {
    const room = await aRoom()
    await declare(room, 'own', { type: 'object', properties: { text: { type: 'string' } } })
    await Promise.all([create(room, 'a'), create(room, 'b', 'own')])
    expect(await quota(room, 'document_bytes')).toMatchObject({ limit: -1, used: await weighed(room) })
    await limit(room, { document_bytes: 20_000 })
    const replies = await rush(200, (n) => create(room, 'x'.repeat(1_000), n % 2 ? 'things' : 'own'))
    const counts = tally(replies)
    expect(counts[201]).toBeGreaterThan(15)
    expect(Object.keys(counts)).toEqual(['201', '429'])
    const { used } = await quota(room, 'document_bytes')
    expect(used).toBe(await weighed(room))
    expect(used).toBeLessThanOrEqual(20_000)
    expect(used).toBeGreaterThan(18_000)
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body).toMatchObject({ code: 'quota_exceeded', quota: 'document_bytes', limit: 20_000 })
  })

  test('byte quota: growth beyond it: refused; shrinking or deletion: frees bytes; batch: counted as a whole', async () => {
    const room = await aRoom()
    await limit(room, { document_bytes: 2_000 })
    const { body } = await create(room, 'x'.repeat(1_000))
    const put = (size: number) =>
      call('PUT', `${PLAIN}/${body.id}`, { as: room.service, body: { text: 'y'.repeat(size) } })
    expect((await put(2_000)).status).toBe(429)
    expect((await put(1_900)).status).toBe(200)
    expect((await create(room, 'z'.repeat(100))).status).toBe(429)
    expect((await put(100)).status).toBe(200)
    const ops = Array.from({ length: 3 }, () => ({ op: 'create', data: { text: 'z'.repeat(700) } }))
    const batch = (some: unknown[]) =>
      call('POST', '/v1/collections/things/batch', { as: room.service, body: { ops: some } })
    const whole = await batch(ops)
    expect(whole.status).toBe(429)
    expect((await quota(room, 'document_bytes')).used).toBe(await weighed(room))
    const lines = Array.from({ length: 100 }, () => JSON.stringify({ text: 'w'.repeat(100) })).join('\n')
    const imported = await fetchImport(room, lines)
    expect(imported.status).toBe(429)
    const { used } = await quota(room, 'document_bytes')
    expect([used, used <= 2_000]).toEqual([await weighed(room), true])
    await call('DELETE', `${PLAIN}/${body.id}`, { as: room.service })
    expect((await quota(room, 'document_bytes')).used).toBe(await weighed(room))
  })

  const fetchImport = (room: Room, body: string) =>
    call('POST', '/v1/collections/things/import', {
      as: room.service,
      headers: { 'content-type': 'application/x-ndjson' },
      body,
    })

  test('byte quota: declaration changes: the count is exact', async () => {
    const room = await aRoom()
    const { id } = await declare(room, 'own')
    await limit(room, { document_bytes: 100_000 })
    await rush(5, (n) => create(room, `text ${n}`, 'own'))
    const schemas = [
      {
        type: 'object',
        properties: { text: { type: 'string' }, at: { type: 'string', format: 'date-time' } },
      },
      { type: 'object', properties: { at: { type: 'string', format: 'date-time' } } },
      {},
    ]
    for (const schema of schemas) {
      const changed = await call('PUT', `/v1/schemas/${id}`, { as: room.operator, body: { schema } })
      expect(changed.status).toBe(200)
      expect((await quota(room, 'document_bytes')).used).toBe(await weighed(room))
      await create(room, 'one more', 'own')
      expect((await quota(room, 'document_bytes')).used).toBe(await weighed(room))
    }
  })

  test('byte quota: random writes, deletions and changes of the limit: the count is exact', async () => {
    const room = await aRoom()
    const names = ['things', 'own', 'late']
    await declare(room, 'own', { type: 'object', properties: { text: { type: 'string' } } })
    const ids: { collection: string; id: string }[] = []
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return Math.floor((seed / 2 ** 31) * below)
    }
    const act = async (): Promise<number> => {
      const collection = names[random(3)] ?? 'things'
      const one = ids[random(ids.length)]
      const choice = random(10)
      if (choice === 0) {
        const max = random(3) === 0 ? -1 : 500 + random(5_000)
        return (await limit(room, { document_bytes: max, documents: random(2) === 0 ? -1 : random(60) }))
          .status
      }
      if (choice < 6 || one === undefined) {
        const made = await create(room, 'x'.repeat(random(300)), collection)
        if (made.status === 201) ids.push({ collection, id: made.body.id })
        return made.status
      }
      const path = `/v1/collections/${one.collection}/documents/${one.id}`
      const as = room.service
      if (choice < 8) return (await call('PUT', path, { as, body: { text: 'y'.repeat(random(300)) } })).status
      return (await call('DELETE', path, { as })).status
    }
    for (let round = 0; round < 8; round++) {
      if (round === 3) await declare(room, 'late').catch(() => {})
      const statuses = await rush(25, act)
      expect(statuses.filter((status) => status >= 500 && status !== 503)).toEqual([])
      await limit(room, { document_bytes: 4_000 })
      expect((await quota(room, 'document_bytes')).used).toBe(await weighed(room))
    }
  }, 60_000)
})

describe('bytes of objects', () => {
  async function bucketOf(room: Room): Promise<string> {
    return (await call('GET', `/v1/workspaces/${room.workspaceId}`, { as: room.operator })).body.bucket
  }
  const put = (room: Room, path: string, bytes: number) =>
    call('PUT', path, { as: room.service, body: 'x'.repeat(bytes) })

  async function held(room: Room, bucket: string): Promise<number> {
    const { body } = await call('GET', `/v1/objects/${bucket}?page[size]=200`, { as: room.service })
    return body.data.reduce((sum: number, { size }: { size: number }) => sum + size, 0)
  }

  test('byte quota: 200 concurrent uploads: never exceeded; overwriting and deletion: free bytes, the count is exact', async () => {
    const room = await aStoringRoom()
    const bucket = await bucketOf(room)
    const path = (key: string | number) => `/v1/objects/${bucket}/${key}`
    expect((await put(room, path('before'), 1_000)).status).toBe(201)
    expect(await quota(room, 'object_bytes')).toEqual({ limit: -1, used: null, remaining: null })
    const set = await limit(room, { object_bytes: 10_000 })
    expect(set.body.quotas.object_bytes).toEqual({ limit: 10_000, used: 1_000, remaining: 9_000 })
    const replies = await rush(200, (n) => put(room, path(`k${n}`), 1_000))
    const counts = tally(replies)
    expect(Object.keys(counts)).toEqual(['201', '429'])
    expect(counts[201]).toBe(9)
    expect(await held(room, bucket)).toBe(10_000)
    expect((await quota(room, 'object_bytes')).used).toBe(10_000)
    expect((await call('DELETE', path('before'), { as: room.service })).status).toBe(200)
    expect((await quota(room, 'object_bytes')).used).toBe(9_000)
    // Uploads of one key, in any order of completion.
    await rush(20, (n) => put(room, path('same'), 50 * (n + 1)))
    expect((await quota(room, 'object_bytes')).used).toBe(await held(room, bucket))
    expect(await held(room, bucket)).toBeLessThanOrEqual(10_000)
    await limit(room, { object_bytes: -1 })
    expect((await put(room, path('more'), 5_000)).status).toBe(201)
    expect((await limit(room, { object_bytes: 6_000 })).body.quotas.object_bytes.used).toBe(
      await held(room, bucket),
    )
  }, 120_000)

  test('byte quota: upload of unknown length: aborted at the limit; interrupted upload: frees its reservation', async () => {
    const room = await aStoringRoom()
    const bucket = await bucketOf(room)
    await limit(room, { object_bytes: 100_000 })
    const chunks = async function* (times: number) {
      for (let n = 0; n < times; n++) yield new Uint8Array(10_000)
    }
    const { url } = inject('tenon')
    const send = (key: string, times: number) =>
      fetch(`${url}/v1/objects/${bucket}/${key}`, {
        method: 'PUT',
        headers: room.service,
        body: chunks(times) as never,
        duplex: 'half',
      } as RequestInit)
    expect((await send('fits', 5)).status).toBe(201)
    expect((await send('does-not', 50)).status).toBe(429)
    expect((await quota(room, 'object_bytes')).used).toBe(50_000)
    const foreign = await put(room, `/v1/objects/${bucket}x/key`, 10)
    expect(foreign.status).toBeGreaterThanOrEqual(403)
    expect((await quota(room, 'object_bytes')).used).toBe(50_000)
  }, 60_000)

  test('byte quota: reservation of a dead process: settled by a lookup in the store once the bytes are needed', async () => {
    const room = await aStoringRoom()
    const bucket = await bucketOf(room)
    await put(room, `/v1/objects/${bucket}/there`, 300)
    await limit(room, { object_bytes: 1_000 })
    // A reservation as a dead process leaves it: stored or not, never settled.
    const leave = (key: string, bytes: number) =>
      asSuperuser(
        `with left_behind as (
          insert into tenon.stored_objects (tenant_id, workspace_id, id, upload, bucket, key, bytes, expires_at)
          values ($1, $2, $3, 'dead', $4, $5, $6, now() - interval '1 second'))
        update tenon.quotas set used = used + $6 where workspace_id = $2 and name = 'object_bytes'`,
        [room.tenantId, room.workspaceId, idOf(bucket, key), bucket, key, bytes],
      )
    await leave('never-came', 700)
    expect((await quota(room, 'object_bytes')).used).toBe(1_000)
    expect((await put(room, `/v1/objects/${bucket}/next`, 700)).status).toBe(201)
    expect((await quota(room, 'object_bytes')).used).toBe(1_000)
    expect((await put(room, `/v1/objects/${bucket}/none`, 1)).status).toBe(429)
    expect(await eventually(async () => (await held(room, bucket)) || undefined)).toBe(1_000)
  }, 60_000)

  const idOf = (bucket: string, key: string) => createHash('sha256').update(`${bucket}/${key}`).digest()
})
