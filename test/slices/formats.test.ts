/** Declared points in time, dates and uuids: compared as what they mean, read back as they were written. */

import { beforeAll, describe, expect, test } from 'vitest'
import { aRoom, call, type Reply, type Room, unique } from '../support/tenants.ts'

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

const properties = {
  n: { type: 'string' },
  at: { type: ['string', 'null'], format: 'date-time' },
  day: { type: 'string', format: 'date' },
  ref: { type: 'string', format: 'uuid' },
}
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

async function declared(body: object = {}): Promise<{ id: string; collection: string }> {
  const asked = { workspace_id: room.workspaceId, collection: unique('c'), store: 'relational' }
  const reply = await call('POST', '/v1/schemas', {
    as: room.operator,
    body: { ...asked, schema: { properties }, ...body },
  })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  return reply.body
}
async function fill(collection: string, documents: readonly object[]): Promise<void> {
  for (const body of documents)
    expect((await call('POST', at(collection), { as: room.service, body })).status).toBe(201)
}
const ask = (collection: string, query: string): Promise<Reply> =>
  call('GET', `${at(collection)}?${query}`, { as: room.service })
const names = ({ status, body }: Reply): string =>
  status === 200 ? body.data.map(({ n }: { n: unknown }) => n).join(' ') : body.code

const REF = '01890a5d-ac96-774b-bcce-b302099a8057'
/** `a`, `b` and `c` are one point in time; `d` is before it and stands behind it as text. */
const WRITTEN = [
  { n: 'a', at: '2026-01-01T00:00:00Z', day: '2026-01-01', ref: REF },
  { n: 'b', at: '2026-01-01T02:00:00.000+02:00', ref: REF.toUpperCase() },
  { n: 'c', at: '2025-12-31t19:00:00-05:00', day: '2025-12-31' },
  { n: 'd', at: '2026-01-01T01:59:59.999999999+02:00' },
  { n: 'e', at: '2026-01-01T00:00:00.1z' },
  { n: 'f', at: null },
  { n: 'g' },
]

describe.each([
  ['relational', {}],
  ['relational, with indexes', { indexes: [{ fields: ['at'] }, { fields: ['ref'] }, { fields: ['day'] }] }],
  ['document', { store: 'document' }],
  ['relational, not enforced', { mode: 'warn' }],
])('%s', (_name, body) => {
  let collection: string
  beforeAll(async () => {
    collection = (await declared(body)).collection
    await fill(collection, WRITTEN)
  })

  test.each([
    ['at=eq.2026-01-01T00:00:00Z', 'a b c'],
    ['at=eq.2025-12-31T23:00:00.0-01:00', 'a b c'],
    ['at=neq.2026-01-01', 'd e'],
    ['at=in.(2026-01-01,2026-01-01T00:00:00.100Z)', 'a b c e'],
    ['at=gt.2026-01-01T00:00:00Z', 'e'],
    ['at=gte.2026-01-01T01:00:00%2B01:00', 'a b c e'],
    ['at=lt.2026-01-01', 'd'],
    ['at=not.lt.2026-01-01', 'a b c e'],
    ['at=isdistinct.2026-01-01', 'd e f g'],
    ['at=is.null', 'f g'],
    ['at=exists.true', 'a b c d e f'],
    ['at=like.2025*', 'c'],
    ['at=not.like.2026*', 'c'],
    [`ref=eq.${REF}`, 'a b'],
    [`ref=eq.${REF.toUpperCase()}`, 'a b'],
    ['day=lt.2026-01-01', 'c'],
    ['order=at', 'd a b c e f g'],
    ['order=at.desc', 'g f e c b a d'],
    ['order=at.desc.nullslast,n.desc', 'e c b a d g f'],
    ['or=(at.lt.2026-01-01,day.eq.2026-01-01)', 'a d'],
  ])('%s → %s', async (query, found) => {
    expect(names(await ask(collection, query))).toBe(found)
  })

  test.each([
    ['at=gt.yesterday', 'declared as date-time; got "yesterday"', 'at=gte.2026-01-31T12:00:00Z'],
    ['at=gt.2026-01-01T00:00:00+02:00', 'got "2026-01-01T00:00:00 02:00"', '%2B'],
    ['at=eq.2026-02-29', 'got "2026-02-29"', 'at=gte.'],
    ['at=gte.2026', 'got "2026"', 'at=gte.'],
    ['at=in.(2026-01-01,x)', 'got "x"', 'at=gte.'],
    ['ref=eq.x', 'declared as uuid; got "x"', 'type'],
    ['day=gt.2026-01-01T00:00:00Z', 'declared as date; got', 'type'],
  ])('%s → 400', async (query, detail, hint) => {
    const { status, body: problem } = await ask(collection, query)
    expect([status, problem.code]).toEqual([400, 'filter_type_mismatch'])
    expect(problem.detail).toContain(detail)
    expect(problem.hint).toContain(hint)
  })

  test.each(['at', 'at.desc', 'at.nullsfirst', 'at.desc.nullslast', 'ref,at'])(
    'pages in the order %s lose and repeat nothing, also where one ends among equals',
    async (order) => {
      const whole = names(await ask(collection, `order=${order}`))
      for (const size of [1, 2, 3]) {
        const seen: string[] = []
        for (let after = ''; ; ) {
          const { body: page } = await ask(collection, `order=${order}&page[size]=${size}${after}`)
          seen.push(...page.data.map(({ n }: { n: string }) => n))
          if (page.page.next === null) break
          after = `&page[after]=${page.page.next}`
        }
        expect(seen.join(' ')).toBe(whole)
      }
    },
  )

  test('every value reads back as it was written', async () => {
    const { body: page } = await ask(collection, '')
    const fields = page.data.map(
      ({ id, _created_at, _updated_at, _version, ...rest }: Record<string, unknown>) => rest,
    )
    expect(fields).toEqual(WRITTEN)
  })
})
