/** Byte quotas of documents and objects: every write is counted exactly, the limit is never exceeded. */

import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { limit, quota, repeatConcurrently, tally } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const PLATFORM = '{tenant_id,workspace_id,collection,id,version,created_at,updated_at}'

/** Bytes of the documents of a workspace, computed from the tables. */
async function documentBytesOf(workspace: TestWorkspace): Promise<number> {
  const tables = await asSuperuser<{ relation: string }>(
    `select format('tenon_data.%I', relation) as relation from tenon.schemas where workspace_id = $1`,
    [workspace.workspaceId],
  )
  let bytes = 0
  for (const relation of ['tenon.documents', ...tables.map((table) => table.relation)]) {
    const [row] = await asSuperuser<{ n: string }>(
      `select coalesce(sum(octet_length((to_jsonb(r) - '${PLATFORM}'::text[])::text)), 0) as n
        from ${relation} r where workspace_id = $1`,
      [workspace.workspaceId],
    )
    bytes += Number(row?.n)
  }
  return bytes
}

const PLAIN = '/v1/collections/things/documents'
const create = (workspace: TestWorkspace, text: string, collection = 'things') =>
  call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { text } })

async function declare(workspace: TestWorkspace, collection: string, schema: object = {}) {
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema }
  return (await call('POST', '/v1/schemas', { as: workspace.operator, body })).body
}

describe('bytes of documents', () => {
  test('byte quota: 200 concurrent writes, every kind of table: never exceeded', async () => {
    const workspace = await createTestWorkspace()
    await declare(workspace, 'own', { type: 'object', properties: { text: { type: 'string' } } })
    await Promise.all([create(workspace, 'a'), create(workspace, 'b', 'own')])
    expect(await quota(workspace, 'document_bytes')).toMatchObject({
      limit: -1,
      used: await documentBytesOf(workspace),
    })
    await limit(workspace, { document_bytes: 20_000 })
    const replies = await repeatConcurrently(200, (n) =>
      create(workspace, 'x'.repeat(1_000), n % 2 ? 'things' : 'own'),
    )
    const counts = tally(replies)
    expect(counts[201]).toBeGreaterThan(15)
    expect(Object.keys(counts)).toEqual(['201', '429'])
    const { used } = await quota(workspace, 'document_bytes')
    expect(used).toBe(await documentBytesOf(workspace))
    expect(used).toBeLessThanOrEqual(20_000)
    expect(used).toBeGreaterThan(18_000)
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body).toMatchObject({ code: 'quota_exceeded', quota: 'document_bytes', limit: 20_000 })
  })

  test('byte quota: growth beyond it: refused; shrinking or deletion: frees bytes; batch: counted as a whole', async () => {
    const workspace = await createTestWorkspace()
    await limit(workspace, { document_bytes: 2_000 })
    const { body } = await create(workspace, 'x'.repeat(1_000))
    const put = (size: number) =>
      call('PUT', `${PLAIN}/${body.id}`, { as: workspace.service, body: { text: 'y'.repeat(size) } })
    expect((await put(2_000)).status).toBe(429)
    expect((await put(1_900)).status).toBe(200)
    expect((await create(workspace, 'z'.repeat(100))).status).toBe(429)
    expect((await put(100)).status).toBe(200)
    const ops = Array.from({ length: 3 }, () => ({ op: 'create', data: { text: 'z'.repeat(700) } }))
    const batch = (some: unknown[]) =>
      call('POST', '/v1/collections/things/batch', { as: workspace.service, body: { ops: some } })
    const whole = await batch(ops)
    expect(whole.status).toBe(429)
    expect((await quota(workspace, 'document_bytes')).used).toBe(await documentBytesOf(workspace))
    const lines = Array.from({ length: 100 }, () => JSON.stringify({ text: 'w'.repeat(100) })).join('\n')
    const imported = await fetchImport(workspace, lines)
    expect(imported.status).toBe(429)
    const { used } = await quota(workspace, 'document_bytes')
    expect([used, used <= 2_000]).toEqual([await documentBytesOf(workspace), true])
    await call('DELETE', `${PLAIN}/${body.id}`, { as: workspace.service })
    expect((await quota(workspace, 'document_bytes')).used).toBe(await documentBytesOf(workspace))
  })

  const fetchImport = (workspace: TestWorkspace, body: string) =>
    call('POST', '/v1/collections/things/import', {
      as: workspace.service,
      headers: { 'content-type': 'application/x-ndjson' },
      body,
    })

  test('byte quota: declaration changes: the count is exact', async () => {
    const workspace = await createTestWorkspace()
    const { id } = await declare(workspace, 'own')
    await limit(workspace, { document_bytes: 100_000 })
    await repeatConcurrently(5, (n) => create(workspace, `text ${n}`, 'own'))
    const schemas = [
      {
        type: 'object',
        properties: { text: { type: 'string' }, at: { type: 'string', format: 'date-time' } },
      },
      { type: 'object', properties: { at: { type: 'string', format: 'date-time' } } },
      {},
    ]
    for (const schema of schemas) {
      const changed = await call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body: { schema } })
      expect(changed.status).toBe(200)
      expect((await quota(workspace, 'document_bytes')).used).toBe(await documentBytesOf(workspace))
      await create(workspace, 'one more', 'own')
      expect((await quota(workspace, 'document_bytes')).used).toBe(await documentBytesOf(workspace))
    }
  })

  test('byte quota: random writes, deletions and changes of the limit: the count is exact', async () => {
    const workspace = await createTestWorkspace()
    const names = ['things', 'own', 'late']
    await declare(workspace, 'own', { type: 'object', properties: { text: { type: 'string' } } })
    const ids: { collection: string; id: string }[] = []
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return Math.floor((seed / 2 ** 31) * below)
    }
    const writeAtRandom = async (): Promise<number> => {
      const collection = names[random(3)] ?? 'things'
      const one = ids[random(ids.length)]
      const choice = random(10)
      if (choice === 0) {
        const max = random(3) === 0 ? -1 : 500 + random(5_000)
        return (await limit(workspace, { document_bytes: max, documents: random(2) === 0 ? -1 : random(60) }))
          .status
      }
      if (choice < 6 || one === undefined) {
        const made = await create(workspace, 'x'.repeat(random(300)), collection)
        if (made.status === 201) ids.push({ collection, id: made.body.id })
        return made.status
      }
      const path = `/v1/collections/${one.collection}/documents/${one.id}`
      const as = workspace.service
      if (choice < 8) return (await call('PUT', path, { as, body: { text: 'y'.repeat(random(300)) } })).status
      return (await call('DELETE', path, { as })).status
    }
    for (let round = 0; round < 8; round++) {
      if (round === 3) await declare(workspace, 'late').catch(() => {})
      const statuses = await repeatConcurrently(25, writeAtRandom)
      expect(statuses.filter((status) => status >= 500 && status !== 503)).toEqual([])
      await limit(workspace, { document_bytes: 4_000 })
      expect((await quota(workspace, 'document_bytes')).used).toBe(await documentBytesOf(workspace))
    }
  })
})

describe('bytes of objects', () => {
  const put = (workspace: TestWorkspace, path: string, bytes: number) =>
    call('PUT', path, { as: workspace.service, body: 'x'.repeat(bytes) })

  async function storedBytes(workspace: TestWorkspace, bucket: string): Promise<number> {
    const { body } = await call('GET', `/v1/objects/${bucket}?page[size]=200`, { as: workspace.service })
    return body.data.reduce((sum: number, { size }: { size: number }) => sum + size, 0)
  }

  test('byte quota: 200 concurrent uploads: never exceeded; overwriting and deletion: free bytes, the count is exact', async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(workspace)
    const path = (key: string | number) => `/v1/objects/${bucket}/${key}`
    expect((await put(workspace, path('before'), 1_000)).status).toBe(201)
    expect(await quota(workspace, 'object_bytes')).toEqual({ limit: -1, used: 1_000, remaining: null })
    const set = await limit(workspace, { object_bytes: 10_000 })
    expect(set.body.quotas.object_bytes).toEqual({ limit: 10_000, used: 1_000, remaining: 9_000 })
    const replies = await repeatConcurrently(200, (n) => put(workspace, path(`k${n}`), 1_000))
    const counts = tally(replies)
    expect(Object.keys(counts)).toEqual(['201', '429'])
    expect(counts[201]).toBe(9)
    expect(await storedBytes(workspace, bucket)).toBe(10_000)
    expect((await quota(workspace, 'object_bytes')).used).toBe(10_000)
    expect((await call('DELETE', path('before'), { as: workspace.service })).status).toBe(200)
    expect((await quota(workspace, 'object_bytes')).used).toBe(9_000)
    // Uploads of one key, in any order of completion.
    await repeatConcurrently(20, (n) => put(workspace, path('same'), 50 * (n + 1)))
    expect((await quota(workspace, 'object_bytes')).used).toBe(await storedBytes(workspace, bucket))
    expect(await storedBytes(workspace, bucket)).toBeLessThanOrEqual(10_000)
    await limit(workspace, { object_bytes: -1 })
    expect((await put(workspace, path('more'), 5_000)).status).toBe(201)
    expect((await limit(workspace, { object_bytes: 6_000 })).body.quotas.object_bytes.used).toBe(
      await storedBytes(workspace, bucket),
    )
  })

  test('byte quota: upload of unknown length: aborted at the limit; interrupted upload: frees its reservation', async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(workspace)
    await limit(workspace, { object_bytes: 100_000 })
    const chunks = async function* (times: number) {
      for (let n = 0; n < times; n++) yield new Uint8Array(10_000)
    }
    const { url } = inject('tenon')
    const send = (key: string, times: number) =>
      fetch(`${url}/v1/objects/${bucket}/${key}`, {
        method: 'PUT',
        headers: workspace.service,
        body: chunks(times) as never,
        duplex: 'half',
      } as RequestInit)
    expect((await send('fits', 5)).status).toBe(201)
    expect((await send('does-not', 50)).status).toBe(429)
    expect((await quota(workspace, 'object_bytes')).used).toBe(50_000)
    const foreign = await put(workspace, `/v1/objects/${bucket}x/key`, 10)
    expect(foreign.status).toBeGreaterThanOrEqual(403)
    expect((await quota(workspace, 'object_bytes')).used).toBe(50_000)
  })

  test('uploads and downloads whose client goes away: nothing is stored, and neither a metric nor the log has an error', async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(workspace)
    const { service: as } = workspace
    await limit(workspace, { object_bytes: 20_000_000 })
    const url = (key: string) => new URL(`${inject('tenon').url}/v1/objects/${bucket}/${key}`)
    expect((await put(workspace, `/v1/objects/${bucket}/large`, 8_000_000)).status).toBe(201)
    const [id, count] = [unique('gone'), 20]
    const tagged = (n: number) => ({ ...as, 'x-request-id': `${id}.${n}` })
    const abortUpload = (n: number) =>
      new Promise<void>((done) => {
        const headers = { ...tagged(n), 'content-length': '1000000' }
        const sent = request(url(`part-${n}`), { method: 'PUT', headers, agent: false })
        sent.on('error', () => {}).once('close', () => done())
        sent.write(Buffer.alloc(100_000), () => setImmediate(() => sent.destroy()))
      })
    const abortDownload = (n: number) =>
      new Promise<void>((done) => {
        const sent = request(url('large'), { headers: tagged(n), agent: false }, (response) =>
          response.once('data', () => sent.destroy()),
        )
        sent.on('error', () => {}).once('close', () => done())
        sent.end()
      })
    await repeatConcurrently(count, (n) => (n % 2 === 0 ? abortUpload(n) : abortDownload(n)))
    const metric = async (name: string, label = '') => {
      const { body } = await call('GET', `/v1/analytics/query?metric=${name}&window=1h`, { as })
      const points = body.series.filter(
        ({ labels }: { labels: { class?: string } }) => (labels.class ?? '') === label,
      )
      return points[0].points.reduce((sum: number, [, value]: [string, number]) => sum + (value ?? 0), 0)
    }
    // Beside the one that stored the object, one that read the metric: those that were given up before are counted by then.
    await eventually(async () => ((await metric('requests')) > 1 ? true : undefined))
    expect(await metric('errors', '5xx')).toBe(0)
    const log = await readFile(join(inject('tenon').logs, 'api.log'), 'utf8')
    const own = log.split('\n').filter((line) => line.includes(id))
    expect(own.filter((line) => JSON.parse(line).level >= 40)).toEqual([])
    expect(await storedBytes(workspace, bucket)).toBe(8_000_000)
    await eventually(async () =>
      (await quota(workspace, 'object_bytes')).used === 8_000_000 ? true : undefined,
    )
  })

  test('byte quota: reservation of a dead process: free once the bytes are needed', async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(workspace)
    await put(workspace, `/v1/objects/${bucket}/there`, 300)
    await limit(workspace, { object_bytes: 1_000 })
    // An upload as a dead process leaves it.
    await asSuperuser(
      `with left_behind as (
        insert into tenon.object_uploads (tenant_id, workspace_id, id, bytes, expires_at)
        values ($1, $2, gen_random_uuid(), 700, now() - interval '1 second'))
      update tenon.quotas set used = used + 700 where workspace_id = $2 and name = 'object_bytes'`,
      [workspace.tenantId, workspace.workspaceId],
    )
    expect((await quota(workspace, 'object_bytes')).used).toBe(1_000)
    expect((await put(workspace, `/v1/objects/${bucket}/next`, 700)).status).toBe(201)
    expect((await quota(workspace, 'object_bytes')).used).toBe(1_000)
    expect((await put(workspace, `/v1/objects/${bucket}/none`, 1)).status).toBe(429)
    expect(await storedBytes(workspace, bucket)).toBe(1_000)
  })
})
