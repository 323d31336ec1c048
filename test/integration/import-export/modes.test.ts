/** Modes of imports: documents that exist, dry runs, imports that nobody hears of, and references to later lines. */

import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'
import { repeated } from '../../support/stack/soak.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const send = (name: string, values: readonly object[], query: string, as = ws.service) =>
  importInto(name, lines(...values), { as, query })

/** All documents, in the order of their ids. */
async function stored(name: string): Promise<Record<string, unknown>[]> {
  const { body } = await call('POST', `/v1/collections/${name}/query`, {
    as: ws.service,
    body: { limit: 1_000 },
  })
  return body.data.map(({ _created_at, _updated_at, ...rest }: Record<string, unknown>) => rest)
}

async function declare(name: string, more: object): Promise<void> {
  const body = { workspace_id: ws.workspaceId, collection: name, store: 'relational', ...more }
  const made = await call('POST', '/v1/schemas', { as: ws.operator, body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
}

const UNIQUE_EMAIL = {
  schema: { properties: { email: { type: 'string' }, n: { type: 'integer' } } },
  unique: [['email']],
}

/** Ids that grow. */
const ids = (count: number) =>
  Array.from({ length: count }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`)

test('upsert: sets fields of existing documents and keeps others; again: changes nothing, and tells nobody', async () => {
  const name = unique('modes')
  const [a = '', b = ''] = ids(2)
  await send(name, [{ id: a, n: 1, kept: true }], '')
  const values = [{ id: a, n: 2 }, { id: b, n: 3 }, { n: 4 }]
  const first = await send(name, values, '?mode=upsert')
  expect(first.body).toEqual({ lines: 3, created: 2, existing: 0, updated: 1, failed: 0, errors: [] })
  expect(await stored(name)).toEqual([
    { id: a, n: 2, kept: true, _version: 2 },
    { id: b, n: 3, _version: 1 },
    { id: expect.any(String), n: 4, _version: 1 },
  ])
  const again = await send(name, values.slice(0, 2), '?mode=upsert')
  expect(again.body).toMatchObject({ created: 0, updated: 2 })
  expect((await publishedChanges(ws, name)).map(({ data }) => [data.id, data.version])).toEqual([
    ...[
      [a, 1],
      [b, 1],
      [expect.any(String), 1],
      [a, 2],
    ],
  ])
})

test('replace: removes fields that the line does not have; the same id twice in a file: the last line counts', async () => {
  const name = unique('modes')
  const [a = ''] = ids(1)
  await send(name, [{ id: a, n: 1, gone: true }], '')
  expect(
    (
      await send(
        name,
        [
          { id: a, n: 2 },
          { id: a, m: 3 },
        ],
        '?mode=replace',
      )
    ).body,
  ).toMatchObject({ updated: 2 })
  expect(await stored(name)).toEqual([{ id: a, m: 3, _version: 3 }])
})

test('upsert by a unique field: finds documents by it; elsewhere refused', async () => {
  const name = unique('modes')
  await declare(name, UNIQUE_EMAIL)
  await send(name, [{ email: 'a', n: 1 }], '')
  const { body } = await send(
    name,
    [{ email: 'a', n: 2 }, { email: 'b', n: 3 }, { n: 4 }],
    '?mode=upsert&on=email',
  )
  expect(body).toMatchObject({
    created: 1,
    updated: 1,
    failed: 1,
    errors: [{ line: 3, code: 'validation_failed' }],
  })
  expect((await stored(name)).map(({ email, n }) => [email, n])).toEqual([
    ['a', 2],
    ['b', 3],
  ])
  const refused = await send(name, [{ email: 'a', n: 2 }], '?mode=upsert&on=n')
  expect(refused.body).toMatchObject({ failed: 1, errors: [{ code: 'upsert_not_unique' }] })
  const csv = await call('POST', `/v1/collections/${name}/import?mode=upsert&on=email`, {
    ...{ as: ws.service, headers: { 'content-type': 'text/csv' }, body: 'email,n\na,5\n' },
  })
  expect(csv.body).toMatchObject({ created: 0, updated: 1 })
})

test('upsert by a unique field: a line whose id another document has fails, and none is counted that is not stored', async () => {
  const name = unique('modes')
  await declare(name, UNIQUE_EMAIL)
  const [a = '', b = ''] = ids(2)
  await send(name, [{ id: a, email: 'old' }], '')
  const values = [
    { id: a, email: 'new' },
    { id: b, email: 'first' },
    { id: b, email: 'second' },
  ]
  const { body } = await send(name, values, '?mode=upsert&on=email')
  expect(body).toMatchObject({
    ...{ created: 1, updated: 0, failed: 2 },
    errors: [
      { line: 1, code: 'precondition_failed', detail: 'There is a document of this id.' },
      { line: 3, code: 'precondition_failed' },
    ],
  })
  expect((await stored(name)).map(({ id, email }) => [id, email])).toEqual([
    [a, 'old'],
    [b, 'first'],
  ])
})

test('upsert by a unique field of a user who may not read every document: a line may name no id, whether it exists or not', async () => {
  const name = unique('modes')
  const own = { _owner: '$user.id' }
  await declare(name, { ...UNIQUE_EMAIL, access: { user: { read: own, create: true, update: own } } })
  const [hidden = '', free = ''] = ids(2)
  await send(name, [{ id: hidden, email: 'hidden' }], '')
  const values = [{ id: hidden, email: 'a' }, { id: free, email: 'b' }, { email: 'c' }]
  const { status, body } = await send(name, values, '?mode=upsert&on=email', await userToken(ws, 'mia'))
  expect([status, body]).toMatchObject([
    200,
    {
      ...{ created: 1, failed: 2 },
      errors: [
        { line: 1, code: 'validation_failed', pointer: '/id' },
        { line: 2, code: 'validation_failed', pointer: '/id' },
      ],
    },
  ])
})

test('upsert by a unique field while others create the same documents under the same ids: no line fails', async () => {
  const name = unique('race')
  await declare(name, UNIQUE_EMAIL)
  const values = ids(100).map((id, n) => ({ id, email: `${n}` }))
  const files = [0, 1, 2, 3].map((n) => values.map((value) => ({ ...value, [`f${n}`]: 1 })))
  const replies = await Promise.all(files.map((file) => send(name, file, '?mode=upsert&on=email')))
  for (const { status, body } of replies)
    expect([status, body.failed], JSON.stringify(body)).toEqual([200, 0])
  expect(replies.reduce((sum, { body }) => sum + body.created, 0)).toBe(100)
  for (const document of await stored(name)) expect(document).toMatchObject({ f0: 1, f1: 1, f2: 1, f3: 1 })
})

test('upsert of more bytes of documents than one answer may have: every line is stored', async () => {
  const name = unique('modes')
  const all = ids(400)
  const text = 'x'.repeat(100_000)
  await send(
    name,
    all.map((id) => ({ id, text })),
    '?quiet=true',
  )
  const values = all.map((id, n) => ({ id, n }))
  const { status, body } = await send(name, values, '?mode=upsert')
  expect([status, body]).toMatchObject([200, { created: 0, updated: 400, failed: 0 }])
})

test('stop in mode upsert: lines before the one that fails are stored, none after it', async () => {
  const name = unique('modes')
  await declare(name, UNIQUE_EMAIL)
  const [a = '', b = '', c = '', d = ''] = ids(4)
  await send(
    name,
    [
      { id: b, email: 'b' },
      { id: d, email: 'd' },
    ],
    '',
  )
  const values = [
    { id: a, n: 1 },
    { id: b, n: 1 },
    { id: c, email: 'd' },
    { id: d, n: 1 },
  ]
  const { status, body } = await send(name, values, '?mode=upsert&on_error=stop')
  expect([status, body.code, body.line, body.imported]).toEqual([
    ...[409, 'unique_violation', 3],
    expect.objectContaining({ lines: 3, created: 1, updated: 1, failed: 1 }),
  ])
  expect((await stored(name)).map(({ id, n }) => [id, n])).toEqual([
    [a, 1],
    [b, 1],
    [d, undefined],
  ])
})

describe('upsert of lines some of which have documents that no read before has found', () => {
  const OWN = { _owner: '$user.id' }
  const values = [{ n: 1 }, { n: 2 }, { n: 3 }].map((value) => ({ ...value, state: 'open' }))

  /** A file under a key: the first of its documents is closed to changes now, the second is deleted, the third is as it was. */
  async function importedOnce() {
    const name = unique('modes')
    const update = { ...OWN, state: 'open' }
    await declare(name, {
      schema: { properties: { n: { type: 'integer' }, state: { type: 'string' } } },
      access: { user: { read: OWN, create: true, update } },
    })
    const as = await userToken(ws, 'mia')
    const again = (query: string) =>
      importInto(name, lines(...values), { as, query, headers: { 'idempotency-key': 'file' } })
    expect((await again('?mode=upsert')).body).toMatchObject({ created: 3 })
    const [first, second] = await stored(name)
    const at = `/v1/collections/${name}/documents`
    await call('PATCH', `${at}/${first?.['id']}`, { as: ws.service, body: { state: 'closed' } })
    await call('DELETE', `${at}/${second?.['id']}`, { as: ws.service })
    return { name, again }
  }

  test('again: each is counted as what was done with it', async () => {
    const { name, again } = await importedOnce()
    const { body } = await again('?mode=upsert')
    expect(body).toMatchObject({ created: 1, existing: 0, updated: 1, failed: 1, errors: [{ line: 1 }] })
    expect((await stored(name)).map(({ n, state }) => [n, state])).toEqual([
      [1, 'closed'],
      [2, 'open'],
      [3, 'open'],
    ])
  })

  test('again with on_error=stop: nothing is stored of the lines after the one that fails', async () => {
    const { name, again } = await importedOnce()
    const { status, body } = await again('?mode=upsert&on_error=stop')
    expect([status, body.line]).toEqual([403, 1])
    expect(body.imported).toMatchObject({ lines: 1, created: 0, updated: 0, failed: 1 })
    expect((await stored(name)).map(({ n }) => n)).toEqual([1, 3])
  })
})

test('dry run: says which lines would fail, and stores nothing', async () => {
  const name = unique('modes')
  await declare(name, UNIQUE_EMAIL)
  const [a = '', b = ''] = ids(2)
  await send(name, [{ id: a, email: 'a' }], '')
  const values = [{ id: a, n: 1 }, { id: b, email: 'a' }, { n: 'x' }, { email: 'c' }]
  expect((await send(name, values, '?dry_run=true')).body).toMatchObject({
    ...{ lines: 4, created: 1, existing: 1, failed: 2 },
    errors: [
      { line: 2, code: 'unique_violation' },
      { line: 3, code: 'schema_violation' },
    ],
  })
  expect((await send(name, values, '?dry_run=true&mode=upsert')).body).toMatchObject({
    created: 1,
    updated: 1,
    failed: 2,
  })
  expect((await stored(name)).map(({ id, n }) => [id, n])).toEqual([[a, undefined]])
  expect(await publishedChanges(ws, name)).toHaveLength(1)
})

test('upsert and replace: a line after one of the same id that fails creates the document', async () => {
  const [a = ''] = ids(1)
  for (const mode of ['upsert', 'replace']) {
    const name = unique('modes')
    await declare(name, UNIQUE_EMAIL)
    const values = [
      { id: a, n: 'not a number' },
      { id: a, n: 2 },
    ]
    const { body } = await send(name, values, `?mode=${mode}`)
    expect(body, mode).toMatchObject({ created: 1, updated: 0, failed: 1, errors: [{ line: 1 }] })
    expect(await stored(name)).toEqual([{ id: a, n: 2, _version: 1 }])
  }
})

test('dry run of lines with the same id, in a chunk and in the next one: reports what the import reports then', async () => {
  const [a = '', b = '', c = ''] = ids(3)
  for (const mode of ['create', 'upsert', 'replace']) {
    const name = unique('modes')
    await declare(name, UNIQUE_EMAIL)
    await send(name, [{ id: c, n: 0 }], '')
    const values = [
      { id: a, n: 1 },
      { id: a, n: 2 },
      { id: b, n: 'not a number' },
      { id: b, n: 3 },
      { id: b, n: 4 },
      { id: c, n: 5 },
      ...Array.from({ length: 500 }, () => ({})),
      { id: a, n: 6 },
      { id: c, n: 7 },
    ]
    const dry = await send(name, values, `?mode=${mode}&dry_run=true`)
    const counts = mode === 'create' ? { existing: 5 } : { existing: 0, updated: 5 }
    expect(dry.body, mode).toMatchObject({ lines: 508, created: 502, failed: 1, ...counts })
    expect((await send(name, values, `?mode=${mode}`)).body, mode).toEqual(dry.body)
  }
})

test('quiet: no change events; keep=system: versions, times and owners stay; for service keys alone', async () => {
  const name = unique('modes')
  await declare(name, { schema: {}, access: { user: { read: true, create: true } } })
  const [a = '', b = ''] = ids(2)
  await send(name, [{ id: a, n: 1 }], '?quiet=true')
  await send(name, [{ id: a, n: 2 }], '?quiet=true&mode=upsert')
  await send(
    name,
    [
      { id: a, n: 3 },
      { id: a, n: 4 },
    ],
    '?quiet=true&mode=replace',
  )
  const system = {
    _version: 7,
    _created_at: '2020-01-02T03:04:05.678Z',
    _updated_at: '2021-01-02T03:04:05.678Z',
  }
  const kept = { id: b, n: 5, ...system, _owner: 'mia' }
  expect((await send(name, [kept], '?quiet=true&keep=system')).body).toMatchObject({ created: 1, failed: 0 })
  expect((await send(name, [kept], '?quiet=true&keep=system')).body).toMatchObject({
    created: 0,
    existing: 1,
  })
  expect((await send(name, [{ n: 6 }], '?quiet=true&keep=system')).body).toMatchObject({ failed: 1 })
  const { body } = await call('GET', `/v1/collections/${name}/documents/${b}`, { as: ws.service })
  expect(body).toEqual(kept)
  expect((await stored(name)).map(({ n, _version }) => [n, _version])).toEqual([
    [4, 4],
    [5, 7],
  ])
  expect(await publishedChanges(ws, name)).toEqual([])
  const mia = await userToken(ws, 'mia')
  const refused = await send(name, [{ n: 1 }], '?quiet=true', mia)
  expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
  for (const query of ['?keep=system', '?keep=system&quiet=true&mode=upsert', '?on=n']) {
    const { status, body: problem } = await send(name, [{ n: 1 }], query)
    expect([status, problem.code], query).toEqual([400, 'validation_failed'])
  }
})

test('quiet change beside others of the same time: is told to nobody, the others are', async () => {
  const name = unique('modes')
  const all = ids(40)
  await send(
    name,
    all.map((id) => ({ id, n: 0 })),
    '?quiet=true',
  )
  await Promise.all(
    all.map((id, n) =>
      n % 2 === 0
        ? send(name, [{ id, n: 1 }], '?quiet=true&mode=upsert')
        : call('PUT', `/v1/collections/${name}/documents/${id}`, { as: ws.service, body: { n: 1 } }),
    ),
  )
  expect((await stored(name)).every(({ n }) => n === 1)).toBe(true)
  const told = (await publishedChanges(ws, name)).map(({ data }) => data.id)
  expect(told.sort()).toEqual(all.filter((_, n) => n % 2 === 1))
})

test('references to later lines: stored, through chunks and in rings; to nothing: those lines fail', async () => {
  const name = unique('tree')
  await declare(name, {
    schema: { properties: { n: { type: 'integer' }, parent: { type: 'string', format: 'uuid' } } },
    references: [{ field: 'parent', collection: name, as: 'up' }],
  })
  const all = ids(1_200)
  // Each refers to the next one; the last two refer to each other, and one to a document that is not there.
  const values = all.map((id, n) => ({ id, n, parent: all[n + 1] ?? all[n - 1] }))
  const lost = { n: -1, parent: randomUUID() }
  const dry = await send(name, [lost, ...values], '?dry_run=true')
  expect(dry.body).toMatchObject({
    lines: 1_201,
    created: 1_200,
    failed: 1,
    errors: [{ line: 1, code: 'reference_not_found' }],
  })
  expect(await stored(name)).toEqual([])
  const { body } = await send(name, [lost, ...values], '')
  expect(body).toMatchObject({
    lines: 1_201,
    created: 1_200,
    failed: 1,
    errors: [{ line: 1, code: 'reference_not_found' }],
  })
  const { body: counted } = await call('GET', `/v1/collections/${name}/documents?count=exact&page[size]=1`, {
    as: ws.service,
  })
  expect(counted.page.total).toBe(1_200)
})

test('upsert while others create the same documents: every line is there in the end', async () => {
  const name = unique('race')
  const all = ids(200)
  const files = Array.from({ length: 4 }, (_, file) => all.map((id) => ({ id, [`f${file}`]: file })))
  const replies = await Promise.all(files.map((values) => send(name, values, '?mode=upsert')))
  for (const { status, body } of replies)
    expect([status, body.failed], JSON.stringify(body)).toEqual([200, 0])
  for (const document of await stored(name)) expect(document).toMatchObject({ f0: 0, f1: 1, f2: 2, f3: 3 })
})

test('random lines in each mode: leave what the same changes by a batch leave', async () => {
  const random = randomOf(20_261_130)
  const all = ids(30)
  const [byImport, byBatch] = [unique('modes'), unique('modes')]
  const model = new Set<string>()
  for (let round = 0; round < repeated(12, 120); round += 1) {
    const mode = ['create', 'upsert', 'replace'][random(3)] ?? 'create'
    const values = Array.from({ length: 1 + random(8) }, () => ({
      ...{ id: all[random(all.length)] ?? '', [`f${random(4)}`]: random(3) },
    }))
    const reply = await send(byImport, values, `?mode=${mode}`)
    expect([reply.status, reply.body.failed]).toEqual([200, 0])
    for (const { id, ...data } of values) {
      const path = `/v1/collections/${byBatch}`
      const op = { create: undefined, upsert: 'update', replace: 'replace' }[mode]
      if (!model.has(id)) await importInto(byBatch, lines({ id, ...data }), { as: ws.service })
      else if (op !== undefined)
        await call('POST', `${path}/batch`, { as: ws.service, body: { ops: [{ op, id, data }] } })
      model.add(id)
    }
    expect(await stored(byImport), `${mode} ${JSON.stringify(values)}`).toEqual(await stored(byBatch))
  }
})
