/** Copies, moves, removal of many objects, and what is kept with an object. */

import { beforeAll, expect, test } from 'vitest'
import { insertObjects } from '../../support/fixtures/objects.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

const TEXT = { 'content-type': 'text/plain' }
const object = (method: string, key: string, headers: Record<string, string> = {}, body?: string) =>
  call(method, `/v1/objects/${bucket}/${key}`, {
    as: workspace.service,
    headers,
    ...(body !== undefined && { body }),
  })
const change = (verb: string, body: object, headers: Record<string, string> = {}) =>
  call('POST', `/v1/buckets/${bucket}/${verb}`, { as: workspace.service, headers, body })
const describe = (key: string) =>
  call('GET', `/v1/buckets/${bucket}/object?key=${encodeURIComponent(key)}`, { as: workspace.service })
const update = (body: object, headers: Record<string, string> = {}) =>
  call('PATCH', `/v1/buckets/${bucket}/object`, { as: workspace.service, headers, body })

test('copy: has the bytes and what is kept; the source stays; a condition of the new key is checked', async () => {
  const [from, to] = [unique('from'), unique('to')]
  await object('PUT', from, { ...TEXT, 'x-meta-color': 'red' }, 'bytes')
  const made = await change('copy', { from, to })
  expect([made.status, made.body]).toEqual([
    200,
    expect.objectContaining({ bucket, key: to, size: 5, created: true }),
  ])
  await object('DELETE', from)
  const copy = await object('GET', to)
  expect([copy.body, copy.headers.get('x-meta-color')]).toEqual(['bytes', 'red'])
  expect((await change('copy', { from: to, to }, { 'if-none-match': '*' })).status).toBe(412)
  expect((await change('copy', { from, to })).body.code).toBe('NoSuchKey')
})

test('move: the object has the new key alone, in place of what was there; moves of one object at once: one wins', async () => {
  const [from, to] = [unique('from'), unique('to')]
  await object('PUT', from, TEXT, 'moved')
  await object('PUT', to, TEXT, 'replaced')
  expect((await change('move', { from, to }, { 'if-none-match': '*' })).status).toBe(412)
  const moved = await change('move', { from, to })
  expect([moved.status, moved.body.created]).toEqual([200, false])
  expect([(await object('GET', from)).status, (await object('GET', to)).body]).toEqual([404, 'moved'])
  expect((await change('move', { from: to, to })).status).toBe(409)
  const names = Array.from({ length: 10 }, () => unique('won'))
  const all = await Promise.all(names.map((name) => change('move', { from: to, to: name })))
  expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(404)])
})

test('moves of several objects to one key at once: each answers, and the last one is there', async () => {
  const to = unique('to')
  const names = Array.from({ length: 8 }, () => unique('many'))
  for (const name of names) await object('PUT', name, TEXT, name)
  const all = await Promise.all(names.map((from) => change('move', { from, to })))
  expect(all.map(({ status }) => status)).toEqual(Array(8).fill(200))
  expect(names).toContain((await object('GET', to)).body)
  for (const name of names) expect((await object('HEAD', name)).status).toBe(404)
})

test('deletion of many: by keys, those that do not exist are skipped; by prefix, neighbours stay', async () => {
  const folder = unique('folder')
  for (const key of ['a', 'b', 'c/d', '../x'.replace('../', '..')])
    await object('PUT', `${folder}/${key}`, TEXT, key)
  await object('PUT', `${folder}0`, TEXT, 'neighbour')
  expect((await change('delete', { keys: [`${folder}/a`, `${folder}/none`] })).body).toEqual({ removed: 1 })
  const few = await change('delete', { prefix: `${folder}/` })
  expect([few.status, few.body]).toEqual([200, { removed: 3 }])
  expect((await object('GET', `${folder}0`)).body).toBe('neighbour')
  for (const body of [{}, { keys: ['a'], prefix: 'a' }, { prefix: '' }, { keys: [] }])
    expect((await change('delete', body)).status).toBe(400)
})

test('deletion of a folder of many objects: an operation, once for each key; what is written meanwhile stays', async () => {
  const folder = unique('many')
  await insertObjects(workspace, `${folder}/`, 2_500)
  await insertObjects(workspace, `${folder}0`, 1)
  const keyed = { 'idempotency-key': unique('delete') }
  const begun = await change('delete', { prefix: `${folder}/` }, keyed)
  expect([begun.status, begun.body]).toEqual([
    202,
    expect.objectContaining({ state: 'running', target: `${bucket}/${folder}/`, removed: 0 }),
  ])
  const path = `/v1/operations/${begun.body.id}`
  expect(begun.headers.get('location')).toBe(path)
  await object('PUT', `${folder}/late`, TEXT, 'late')
  expect((await change('delete', { prefix: `${folder}/` }, keyed)).body.id).toBe(begun.body.id)
  const ended = await eventually(async () => {
    const { body } = await call('GET', path, { as: workspace.service })
    return body.state === 'succeeded' ? body : undefined
  })
  expect(ended.removed).toBe(2_500)
  const left = await asSuperuser<{ key: string }>(
    'select key from tenon.objects where workspace_id = $1 and starts_with(key, $2) order by key',
    [workspace.workspaceId, folder],
  )
  expect(left.map(({ key }) => key)).toEqual([`${folder}/late`, `${folder}000001`])
})

test('metadata and tags: kept, replaced each by itself under a condition, and sent as headers', async () => {
  const key = unique('kept')
  const etag = (await object('PUT', key, { ...TEXT, 'x-meta-a': '1' }, 'x')).headers.get('etag') ?? ''
  expect((await describe(key)).body).toMatchObject({
    key,
    size: 1,
    etag,
    metadata: { a: '1' },
    tags: {},
    owner: null,
  })
  const read = await describe(key)
  const version = read.headers.get('etag') ?? ''
  expect(version).toBe(`"${read.body.version}"`)
  for (const other of ['"other"', etag, `W/${version}`])
    expect((await update({ key, tags: { team: 'red' } }, { 'if-match': other })).status).toBe(412)
  const tagged = await update({ key, tags: { team: 'red' } }, { 'if-match': version })
  expect(tagged.body).toMatchObject({ etag, metadata: { a: '1' }, tags: { team: 'red' } })
  expect(tagged.headers.get('etag')).toBe(`"${tagged.body.version}"`)
  expect((await update({ key, metadata: { b: '2' } })).body).toMatchObject({
    metadata: { b: '2' },
    tags: { team: 'red' },
  })
  const head = await object('HEAD', key)
  expect([head.headers.get('x-meta-a'), head.headers.get('x-meta-b')]).toEqual([null, '2'])
  expect((await update({ key, metadata: { 'a\r\n': 'x' } })).status).toBe(400)
  expect((await update({ key, metadata: { a: 'x\r\ny: z' } })).status).toBe(400)
  expect((await describe(unique('none'))).body.code).toBe('NoSuchKey')
})

test('changes of metadata at once, each under the ETag that it has read: none is lost, those that are refused read again', async () => {
  const key = unique('counted')
  await object('PUT', key, TEXT, 'x')
  const refusals: number[] = []
  const add = async (name: string): Promise<void> => {
    const { body, headers } = await describe(key)
    const metadata = { ...body.metadata, [name]: '1' }
    const { status } = await update({ key, metadata }, { 'if-match': headers.get('etag') ?? '' })
    if (status === 200) return
    refusals.push(status)
    await add(name)
  }
  const names = Array.from({ length: 8 }, (_, n) => `n${n}`)
  await Promise.all(names.map(add))
  expect(Object.keys((await describe(key)).body.metadata).sort()).toEqual(names)
  expect(new Set(refusals)).toEqual(new Set([412]))
})

test('right to write alone: copies, moves and updates nothing, since they show the object or its bytes', async () => {
  const key = unique('closed')
  await object('PUT', key, TEXT, 'secret')
  const { workspaceId: workspace_id, operator } = workspace
  const made = await call('POST', '/v1/api-keys', {
    as: operator,
    body: { workspace_id, kind: 'service', name: 'writer', scopes: ['objects:write'] },
  })
  const as = { apikey: made.body.key }
  const tried = [
    call('POST', `/v1/buckets/${bucket}/copy`, { as, body: { from: key, to: 'open' } }),
    call('POST', `/v1/buckets/${bucket}/move`, { as, body: { from: key, to: 'open' } }),
    call('PATCH', `/v1/buckets/${bucket}/object`, { as, body: { key } }),
  ]
  const codes = (await Promise.all(tried)).map(({ status, body }) => [status, body.code])
  expect(codes).toEqual(Array(3).fill([403, 'insufficient_scope']))
  expect((await call('PUT', `/v1/objects/${bucket}/${key}`, { as, body: 'mine' })).status).toBe(200)
})
