/** Constraints of declarations: checks, conditional uniqueness and ranges that do not overlap, by every way to write. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  addTestWorkspace,
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
})
