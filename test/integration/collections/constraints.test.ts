/** Constraints of declarations: checks, conditional uniqueness and ranges that do not overlap, by every way to write. */

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const declare = (collection: string, body: object, of = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: { workspace_id: of.workspaceId, collection, store: 'relational', ...body },
  })
async function declared(body: object, of = workspace): Promise<{ id: string; collection: string }> {
  const reply = await declare(unique('c'), body, of)
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  return reply.body
}
const change = (id: string, body: object) =>
  call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body, headers: { prefer: 'wait=20' } })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`
const create = (collection: string, body: object, as = workspace.service) =>
  call('POST', at(collection), { as, body })
const idOf = async (collection: string, body: object): Promise<string> => {
  const made = await create(collection, body)
  expect([made.status, made.body]).toMatchObject([201, {}])
  return made.body.id
}

const time = { type: 'string', format: 'date-time' }
const BOOKING = {
  court: { type: 'string' },
  status: { type: 'string' },
  guests: { type: 'integer' },
  starts_at: time,
  ends_at: time,
}
const ENDS_AFTER_START = {
  name: 'ends_after_start',
  check: { ends_at: { gt: { $field: 'starts_at' } } },
  message: 'A booking ends after it starts.',
}
const booked = (hours: readonly [number, number], more: object = {}) => {
  const [starts_at, ends_at] = hours.map((hour) => `2026-05-01T${String(hour).padStart(2, '0')}:00:00Z`)
  return { court: 'north', starts_at, ends_at, ...more }
}

/** The reply to a change that breaks a check, whichever way it came. */
const BROKEN = {
  code: 'schema_violation',
  checks: ['ends_after_start'],
  errors: [
    {
      ...{ in: 'body', name: 'ends_at', pointer: '/ends_at', keyword: 'check' },
      detail: 'breaks the check ends_after_start: A booking ends after it starts.',
    },
    { name: 'starts_at', pointer: '/starts_at' },
  ],
}

/** Each way to make a change by which a document would get these fields. @param fields breaks a constraint; each of `ids` does not yet */
async function everyWay(
  collection: string,
  fields: object,
  ids: readonly string[],
  as = workspace.service,
): Promise<Reply[]> {
  const [id = ''] = ids
  const one = (op: object) => call('POST', `/v1/collections/${collection}/batch`, { as, body: { ops: [op] } })
  return [
    await create(collection, fields, as),
    await call('PATCH', at(collection, id), { as, body: fields }),
    await call('PUT', at(collection, id), { as, body: fields }),
    await call('PUT', `${at(collection, id)}?replace=true`, { as, body: fields }),
    await one({ op: 'create', data: fields }),
    await one({ op: 'update', id, data: fields }),
    await one({ op: 'patch', id, data: fields }),
    await one({ op: 'replace', id, data: fields }),
    await one({ op: 'update', id, set: fields }),
    await call('PATCH', at(collection, id), {
      ...{ as, body: { set: fields } },
      headers: { 'content-type': 'application/vnd.tenon.ops+json' },
    }),
    await call('PUT', at(collection, randomUUID()), { as, body: fields, headers: { 'if-none-match': '*' } }),
  ]
}

const imported = (collection: string, lines: readonly object[]) =>
  call('POST', `/v1/collections/${collection}/import?on_error=continue`, {
    as: workspace.service,
    body: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })

describe('checks', () => {
  test.each(['relational', 'document'])(
    '%s: broken by any way to write: refused, and named',
    async (store) => {
      const { collection } = await declared({
        store,
        schema: { properties: BOOKING },
        checks: [ENDS_AFTER_START],
      })
      const id = await idOf(collection, booked([8, 10]))
      for (const reply of await everyWay(collection, booked([10, 10]), [id])) {
        expect(reply.status).toBe(422)
        expect(reply.body).toMatchObject(BROKEN)
      }
      const lines = await imported(collection, [booked([8, 9]), booked([9, 8]), booked([9, 10])])
      expect(lines.body).toMatchObject({
        created: 2,
        failed: 1,
        errors: [{ line: 2, code: 'schema_violation' }],
      })
      expect((await call('GET', at(collection, id), { as: workspace.service })).body).toMatchObject(
        booked([8, 10]),
      )
      const many = await call('POST', `/v1/collections/${collection}/update-many`, {
        as: workspace.service,
        body: { filter: { court: 'north' }, data: { starts_at: '2026-05-01T09:30:00Z' } },
        headers: { prefer: 'wait=30' },
      })
      expect(many.body).toMatchObject({
        ...{ matched: 3, changed: 2, failed: 1 },
        failures: [{ code: 'schema_violation' }],
      })
    },
  )

  test('a change of one field: compared with the other field that is stored, by meaning', async () => {
    const { collection } = await declared({ schema: { properties: BOOKING }, checks: [ENDS_AFTER_START] })
    const id = await idOf(collection, booked([8, 10]))
    const as = workspace.service
    const put = (body: object) => call('PUT', at(collection, id), { as, body })
    expect((await put({ ends_at: '2026-05-01T09:00:00+02:00' })).body).toMatchObject(BROKEN)
    expect((await put({ ends_at: '2026-05-01T08:00:00.001Z' })).status).toBe(200)
    expect((await put({ starts_at: '2026-05-01T10:00:00+01:59' })).body).toMatchObject(BROKEN)
  })

  test('two changes at once that together break a check: one of them is refused', async () => {
    const { collection } = await declared({
      schema: { properties: { least: { type: 'integer' }, most: { type: 'integer' } } },
      checks: [{ name: 'ordered', check: { least: { lte: { $field: 'most' } } } }],
    })
    const as = workspace.service
    for (let round = 0; round < 20; round++) {
      const id = await idOf(collection, { least: 1, most: 5 })
      const put = (body: object) => call('PUT', at(collection, id), { as, body })
      const replies = await Promise.all([put({ least: 4 }), put({ most: 2 })])
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 422])
      const { body } = await call('GET', at(collection, id), { as })
      expect(body.least).toBeLessThanOrEqual(body.most)
    }
  })

  test('collection that is declared with its documents: those that break a check are counted, those that overlap named', async () => {
    const [collection, other] = [unique('c'), unique('c')]
    await idOf(collection, booked([10, 8]))
    const made = await declare(collection, { schema: { properties: BOOKING }, checks: [ENDS_AFTER_START] })
    expect([made.status, made.body.warnings]).toMatchObject([201, [{ pointer: '/checks/0' }]])
    expect((await create(collection, booked([10, 8]))).body).toMatchObject(BROKEN)
    const ids = [await idOf(other, booked([8, 12])), await idOf(other, booked([9, 10]))]
    const exclude = [{ fields: ['court'], range: ['starts_at', 'ends_at'] }]
    const refused = await declare(other, { schema: { properties: BOOKING }, exclude })
    expect(refused.body).toMatchObject({ code: 'exclusion_violation', overlapping: [ids] })
  })

  test('null and missing values: break no check', async () => {
    const properties = { ...BOOKING, ends_at: { type: ['string', 'null'], format: 'date-time' } }
    const { collection } = await declared({ schema: { properties }, checks: [ENDS_AFTER_START] })
    await idOf(collection, { starts_at: '2026-05-01T08:00:00Z' })
    await idOf(collection, { starts_at: '2026-05-01T08:00:00Z', ends_at: null })
    await idOf(collection, {})
  })

  test('documents that were there and break a check: counted in a warning; their next write must meet it', async () => {
    const { id, collection } = await declared({ schema: { properties: BOOKING } })
    const [first] = [await idOf(collection, booked([10, 8])), await idOf(collection, booked([9, 8]))]
    await idOf(collection, booked([8, 9]))
    const changed = await change(id, { checks: [ENDS_AFTER_START] })
    expect([changed.status, changed.body.warnings]).toMatchObject([
      200,
      [
        {
          pointer: '/checks/0',
          detail: expect.stringMatching(/^2 documents break the check ends_after_start/),
        },
      ],
    ])
    const as = workspace.service
    expect((await call('PUT', at(collection, first), { as, body: { guests: 3 } })).body).toMatchObject(BROKEN)
    expect((await call('PUT', at(collection, first), { as, body: booked([8, 9]) })).status).toBe(200)
    const second = (await call('GET', `${at(collection)}?order=starts_at.desc`, { as })).body.data[0].id
    const table = `tenon_data."${id}_1"`
    await asSuperuser(`update ${table} set owner = 'another' where id = $1`, [second])
    const written = asSuperuser(`update ${table} set extra = extra where id = $1`, [second])
    await expect(written).rejects.toMatchObject({ code: '23514', constraint: 'check_1' })
    const removed = await change(id, { checks: [] })
    expect([removed.status, removed.body.checks]).toEqual([200, []])
    await idOf(collection, booked([9, 8]))
  })
})

describe('exclude', () => {
  const EXCLUDE = [{ fields: ['court'], range: ['starts_at', 'ends_at'] }]

  test('overlapping range by any way to write: 409 with the fields and the other document', async () => {
    const { collection } = await declared({ schema: { properties: BOOKING }, exclude: EXCLUDE })
    const id = await idOf(collection, booked([8, 10]))
    const other = await idOf(collection, booked([10, 12]))
    for (const reply of await everyWay(collection, booked([9, 11], { guests: 1 }), [id])) {
      expect([reply.status, reply.body]).toMatchObject([
        409,
        {
          code: 'exclusion_violation',
          errors: [{ name: 'starts_at', pointer: '/starts_at' }, { name: 'ends_at' }],
        },
      ])
      expect([id, other]).toContain(reply.body.conflicting_id)
    }
    await idOf(collection, booked([9, 11], { court: 'south' }))
    await idOf(collection, booked([12, 13]))
    await idOf(collection, { court: 'north', starts_at: '2026-05-01T08:30:00Z' })
    await idOf(collection, { ...booked([8, 9]), court: undefined })
    await idOf(collection, booked([9, 9]))
  })

  test.each([
    ['date', { type: 'string', format: 'date' }, ['2026-02-28', '2026-03-02'], ['2026-03-01', '2026-03-05']],
    ['integer', { type: 'integer' }, [-5, 5], [4, 9]],
    ['number', { type: 'number' }, [0.1, 0.30000000000000004], [0.3, 1]],
    ['decimal', { type: 'string', format: 'decimal' }, ['-1.50', '10'], ['9.99', '11']],
    [
      'int64',
      { type: 'string', format: 'int64' },
      ['9007199254740992', '9007199254740994'],
      ['9007199254740993', '9007199254740999'],
    ],
  ])('ranges of type %s: compared exactly, without their ends', async (_, type, first, second) => {
    const { collection } = await declared({
      schema: { properties: { from: type, to: type } },
      exclude: [{ fields: [], range: ['from', 'to'] }],
    })
    await idOf(collection, { from: first[0], to: first[1] })
    const refused = await create(collection, { from: second[0], to: second[1] })
    expect(refused.body.code).toBe('exclusion_violation')
    await idOf(collection, { from: first[1], to: second[1] })
  })

  test('where: documents that do not meet it take part in no overlap, until they do', async () => {
    const { collection } = await declared({
      schema: { properties: BOOKING },
      exclude: [{ ...EXCLUDE[0], where: { status: { neq: 'cancelled' } } }],
    })
    const first = await idOf(collection, booked([8, 10], { status: 'booked' }))
    const cancelled = await idOf(collection, booked([9, 11], { status: 'cancelled' }))
    const as = workspace.service
    const revived = await call('PATCH', at(collection, cancelled), { as, body: { status: 'booked' } })
    expect(revived.body).toMatchObject({ code: 'exclusion_violation', conflicting_id: first })
    await call('PATCH', at(collection, first), { as, body: { status: 'cancelled' } })
    const again = await call('PATCH', at(collection, cancelled), { as, body: { status: 'booked' } })
    expect(again.status).toBe(200)
  })

  test('twenty bookings of one hour at once, of several callers: one is made', async () => {
    const { collection } = await declared({
      schema: { properties: BOOKING },
      exclude: EXCLUDE,
      access: { user: { read: true, create: true } },
    })
    const users = await Promise.all([...Array(9).keys()].map((n) => userToken(workspace, `racer-${n}`)))
    const callers = [...users, workspace.service, ...users, workspace.service]
    for (const day of [1, 2, 3]) {
      const fields = {
        court: 'north',
        starts_at: `2026-06-0${day}T08:00:00Z`,
        ends_at: `2026-06-0${day}T09:00:00Z`,
      }
      const replies = await Promise.all(callers.map((as) => create(collection, fields, as)))
      const made = replies.filter(({ status }) => status === 201)
      expect(made).toHaveLength(1)
      for (const reply of replies.filter(({ status }) => status !== 201))
        expect([reply.status, reply.body.code]).toEqual([409, 'exclusion_violation'])
    }
  })

  test('two imports of the same bookings in opposite orders: each is made once', async () => {
    const { collection } = await declared({
      schema: {
        properties: { court: { type: 'string' }, start: { type: 'integer' }, end: { type: 'integer' } },
      },
      exclude: [{ fields: ['court'], range: ['start', 'end'] }],
    })
    const lines = [...Array(60).keys()].map((n) => ({ court: 'north', start: n, end: n + 1 }))
    const replies = await Promise.all([imported(collection, lines), imported(collection, lines.toReversed())])
    expect(replies.map(({ status, body }) => [status, body.code])).toEqual([
      [200, undefined],
      [200, undefined],
    ])
    expect(replies.reduce((sum, { body }) => sum + body.created, 0)).toBe(60)
    expect(replies.reduce((sum, { body }) => sum + body.failed, 0)).toBe(60)
  })

  test('documents that overlap already: the declaration is refused, and names some of them', async () => {
    const { id, collection } = await declared({ schema: { properties: BOOKING } })
    const ids = [await idOf(collection, booked([8, 12])), await idOf(collection, booked([9, 10]))]
    await idOf(collection, booked([9, 10], { court: 'south' }))
    const refused = await change(id, { exclude: EXCLUDE })
    expect([refused.status, refused.body]).toMatchObject([
      409,
      { code: 'exclusion_violation', overlapping: [ids] },
    ])
    await call('DELETE', at(collection, ids[0]), { as: workspace.service })
    const changed = await change(id, { exclude: EXCLUDE, checks: [ENDS_AFTER_START] })
    expect([changed.status, changed.body.exclude]).toEqual([200, EXCLUDE])
    // Later changes of the declaration keep both, or take them away.
    const properties = { ...BOOKING, note: { type: 'string' } }
    expect((await change(id, { schema: { properties } })).status).toBe(200)
    expect((await create(collection, booked([9, 10]))).body.conflicting_id).toBe(ids[1])
    expect((await create(collection, booked([9, 8]))).body).toMatchObject(BROKEN)
    expect((await change(id, { exclude: [], checks: [] })).body).toMatchObject({ exclude: [], checks: [] })
    await idOf(collection, booked([9, 10]))
    await idOf(collection, booked([9, 8]))
  })
})

describe('a field that gets another type', () => {
  const of = (type: string) => ({
    properties: {
      from: { type },
      to: { type },
      kind: { type: 'string' },
      rank: { type },
      code: { type: 'string' },
    },
  })

  test('its constraints hold in the new column', async () => {
    const { id, collection } = await declared({
      schema: of('integer'),
      checks: [{ name: 'ordered', check: { from: { lte: { $field: 'to' } } } }],
      exclude: [{ fields: ['kind'], range: ['from', 'to'] }],
      unique: [{ fields: ['code'], where: { rank: { gte: 1 } } }],
    })
    const first = await idOf(collection, { kind: 'a', from: 1, to: 5, rank: 1, code: 'x' })
    const changed = await change(id, { schema: of('number') })
    expect([changed.status, changed.body.indexes]).toMatchObject([
      200,
      [{ fields: ['code'], state: 'ready' }],
    ])
    for (const fields of [
      { kind: 'a', from: 4.5, to: 6.5 },
      { rank: 1.5, code: 'x' },
    ])
      expect((await create(collection, fields)).body).toMatchObject({ conflicting_id: first })
    const refused = await call('PUT', at(collection, first), { as: workspace.service, body: { from: 5.5 } })
    expect(refused.body).toMatchObject({ code: 'schema_violation', checks: ['ordered'] })
    await idOf(collection, { kind: 'a', from: 5, to: 6.5, rank: 0.5, code: 'x' })
  })
})

describe('unique with a condition', () => {
  const PUBLISHED = { fields: ['slug'], where: { state: { in: ['published', 'draft'] } } }
  const properties = { slug: { type: 'string' }, state: { type: 'string' }, code: { type: 'string' } }

  test('equal values: refused among the documents that meet it, by any way to write', async () => {
    const { collection } = await declared({ schema: { properties }, unique: [PUBLISHED, ['code']] })
    const first = await idOf(collection, { slug: 'a', state: 'published' })
    const second = await idOf(collection, { slug: 'a', state: 'old' })
    await idOf(collection, { slug: 'a' })
    for (const reply of await everyWay(collection, { slug: 'a', state: 'draft' }, [second]))
      expect([reply.status, reply.body]).toMatchObject([
        409,
        { code: 'unique_violation', errors: [{ name: 'slug' }], conflicting_id: first },
      ])
    const upsert = (op: object) =>
      call('POST', `/v1/collections/${collection}/batch`, {
        as: workspace.service,
        body: { ops: [{ op: 'upsert', ...op }] },
      })
    const refused = await upsert({ on: ['slug'], data: { slug: 'a', state: 'draft' } })
    expect(refused.body.code).toBe('upsert_not_unique')
    expect((await upsert({ on: ['code'], data: { code: 'c', slug: 'b', state: 'draft' } })).status).toBe(200)
    const conflicting = await upsert({ on: ['code'], data: { code: 'c', slug: 'a' } })
    expect(conflicting.body).toMatchObject({ code: 'unique_violation', conflicting_id: first })
  })

  test('a collection that has documents: built beside writers; those that meet it and are equal are named', async () => {
    const { id, collection } = await declared({ schema: { properties } })
    const twins = [
      await idOf(collection, { slug: 'a', state: 'published' }),
      await idOf(collection, { slug: 'a', state: 'draft' }),
    ]
    await idOf(collection, { slug: 'a', state: 'old' })
    const failed = await change(id, { unique: [PUBLISHED] })
    expect([failed.status, failed.body]).toMatchObject([202, { error: { duplicates: [twins] } }])
    const as = workspace.service
    await call('PATCH', at(collection, twins[0]), { as, body: { state: 'old' } })
    const built = await change(id, { unique: [PUBLISHED] })
    expect([built.status, built.body.indexes]).toMatchObject([200, [{ ...PUBLISHED, state: 'ready' }]])
    expect((await create(collection, { slug: 'a', state: 'draft' })).body.conflicting_id).toBe(twins[1])
  })
})

describe('isolation', () => {
  const body = {
    schema: { properties: { ...BOOKING, code: { type: 'string' } } },
    exclude: [{ fields: ['court'], range: ['starts_at', 'ends_at'] }],
    unique: [['code']],
  }

  test('a conflict with a document that the caller may not read: 409 without its id', async () => {
    const access = {
      user: { read: { _owner: '$user.id' }, create: true, update: true },
      anon: { create: true },
    }
    const { collection } = await declared({ ...body, access })
    const [ann, bob] = [await userToken(workspace, 'ann'), await userToken(workspace, 'bob')]
    const id = (await create(collection, booked([8, 10], { code: 'a' }), ann)).body.id
    for (const fields of [booked([9, 11]), { code: 'a' }]) {
      const shown = await create(collection, fields, ann)
      expect([shown.status, shown.body.conflicting_id]).toEqual([409, id])
      for (const as of [bob, workspace.anon]) {
        const hidden = await create(collection, fields, as)
        expect([hidden.status, JSON.stringify(hidden.body).includes(id)]).toEqual([409, false])
      }
    }
    const own = (await create(collection, booked([12, 13]), bob)).body.id
    const moved = await call('PATCH', at(collection, own), {
      as: bob,
      body: { starts_at: booked([9, 9]).starts_at },
    })
    expect([moved.status, moved.body.code, 'conflicting_id' in moved.body]).toEqual([
      409,
      'exclusion_violation',
      false,
    ])
  })

  test('two workspaces with one declaration: their documents never conflict', async () => {
    const other = await addTestWorkspace(workspace)
    const { collection } = await declared(body)
    expect((await declare(collection, body, other)).status).toBe(201)
    const fields = booked([8, 10], { code: 'a' })
    for (const as of [workspace.service, other.service]) {
      expect((await create(collection, fields, as)).status).toBe(201)
      expect((await create(collection, fields, as)).status).toBe(409)
    }
  })
})

describe('declarations that are refused', () => {
  const properties = { ...BOOKING, tags: { type: 'array' }, fine: { type: 'number' } }
  const check = (condition: object) => ({ checks: [{ name: 'c', check: condition }] })
  test.each([
    ['a field that is not declared', check({ ends: { gt: 1 } }), '/checks/0/check'],
    [
      'another field that is not declared',
      check({ ends_at: { gt: { $field: 'starts' } } }),
      '/checks/0/check',
    ],
    ['fields of two types', check({ ends_at: { gt: { $field: 'guests' } } }), '/checks/0/check'],
    ['a field of the platform', check({ _owner: 'x' }), '/checks/0/check'],
    ['an operator that takes no field', check({ court: { like: { $field: 'status' } } }), '/checks/0/check'],
    ['a path into values', check({ tags: { json_path_eq: ['$[0]', 1] } }), '/checks/0/check'],
    ['a condition without a test', check({}), '/checks/0/check'],
    ['a value of another type', check({ guests: { gt: 'many' } }), '/checks/0/check'],
    ['two checks of one name', { checks: [ENDS_AFTER_START, ENDS_AFTER_START] }, '/checks/1/name'],
    ['a range of two types', { exclude: [{ fields: [], range: ['starts_at', 'guests'] }] }, '/exclude/0'],
    ['a range of texts', { exclude: [{ fields: [], range: ['court', 'status'] }] }, '/exclude/0'],
    [
      'a field without a column',
      { exclude: [{ fields: ['tags'], range: ['starts_at', 'ends_at'] }] },
      '/exclude/0',
    ],
    [
      'a condition of a unique index',
      { unique: [{ fields: ['court'], where: { none: 1 } }] },
      '/unique/0/where',
    ],
    ['mode warn', { mode: 'warn', ...check({ guests: { gt: 1 } }) }, '/checks'],
  ])('%s', async (_, constraints, pointer) => {
    const refused = await declare(unique('c'), { schema: { properties }, ...constraints })
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.errors[0].pointer).toContain(pointer)
  })
})
