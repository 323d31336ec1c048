/** Order by distance: the nearest documents and how far they are, compared with a computation of each, within what the caller may read. */

import { beforeAll, expect, test } from 'vitest'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

type Place = { readonly lat: number; readonly lng: number; readonly n: number }
const SCHEMA = {
  properties: { lat: { type: 'number' }, lng: { type: ['number', 'null'] }, n: { type: 'integer' } },
}
const at = (collection: string, rest = '') => `/v1/collections/${collection}/${rest}`
const declare = (collection: string, body: object = {}) =>
  call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: {
      ...{
        workspace_id: workspace.workspaceId,
        collection,
        store: 'relational',
        schema: SCHEMA,
        geo: ['lat', 'lng'],
      },
      ...body,
    },
    headers: { prefer: 'wait=30' },
  })
async function fill(collection: string, documents: readonly object[], as = workspace.service) {
  for (let from = 0; from < documents.length; from += 500) {
    const ops = documents.slice(from, from + 500).map((data) => ({ op: 'create', data }))
    expect((await call('POST', at(collection, 'batch'), { as, body: { ops } })).status).toBe(200)
  }
}
const nearest = (collection: string, query: string, as = workspace.service) =>
  call('GET', at(collection, `documents?${query}`), { as })

/** Metres by the spherical law of cosines, another formula than that of the product. */
function metres(a: Omit<Place, 'n'>, b: Omit<Place, 'n'>): number {
  const vector = ({ lat, lng }: Omit<Place, 'n'>) => {
    const [phi, lambda] = [(lat * Math.PI) / 180, (lng * Math.PI) / 180]
    return [Math.cos(phi) * Math.cos(lambda), Math.cos(phi) * Math.sin(lambda), Math.sin(phi)] as const
  }
  const [[x, y, z], [u, v, w]] = [vector(a), vector(b)]
  const cross = Math.hypot(y * w - z * v, z * u - x * w, x * v - y * u)
  return 6_371_008.8 * Math.atan2(cross, x * u + y * v + z * w)
}

test('random places: the nearest come first, at the poles and at the antimeridian too, as a computation of each finds them', async () => {
  const collection = unique('places')
  expect((await declare(collection)).status).toBe(201)
  const random = randomOf(7)
  const between = (low: number, high: number) => low + (random(1_000_000) / 1_000_000) * (high - low)
  const around: readonly [number, number][] = [
    [52.52, 13.405],
    [0, 179.999],
    [89.99, 0],
    [-89.9, -120],
    [-17.7, 178],
  ]
  const places: Place[] = Array.from({ length: 900 }, (_, n) => {
    const [lat, lng] = around[random(around.length)] ?? [0, 0]
    if (n % 3 === 0) return { n, lat: between(-90, 90), lng: between(-180, 180) }
    const wrapped = ((lng + between(-0.3, 0.3) + 540) % 360) - 180
    return { n, lat: Math.max(-90, Math.min(90, lat + between(-0.2, 0.2))), lng: wrapped }
  })
  const nowhere = [
    { n: -1 },
    { n: -2, lat: 1 },
    { n: -3, lat: 1, lng: null },
    { n: -4, lat: 1e308, lng: 4 },
    { n: -5, lat: 0, lng: 361 },
  ]
  await fill(collection, [...places, ...nowhere])
  for (const [lat, lng] of [...around, [12, -77] as const, [90, 0] as const, [0, -180] as const])
    for (const within of [undefined, 500, 30_000, 3_000_000]) {
      const near = places
        .map((place) => ({ n: place.n, far: metres(place, { lat, lng }) }))
        .filter(({ far }) => far <= (within ?? Number.POSITIVE_INFINITY))
        .sort((a, b) => a.far - b.far)
        .slice(0, 25)
      const bound = within === undefined ? '' : `&_distance=lte.${within}`
      const { status, body } = await nearest(
        collection,
        `order=_distance(${lat},${lng})&page[size]=25&select=n${bound}`,
      )
      expect([lat, lng, within, status]).toEqual([lat, lng, within, 200])
      expect(body.data.map(({ n }: Place) => n)).toEqual(near.map(({ n }) => n))
      for (const [index, { _distance }] of body.data.entries())
        expect(_distance).toBeCloseTo(near[index]?.far ?? 0, 2)
    }
  const all = await call('POST', at(collection, 'query'), {
    as: workspace.service,
    body: {
      filter: { _distance: { lte: 2e7 + 1e6 }, n: { lt: 100 } },
      sort: ['_distance(52.52, 13.405)'],
      limit: 1_000,
    },
  })
  expect([all.status, all.body.data.length, all.body.page]).toMatchObject([
    200,
    100,
    { has_more: false, next: null },
  ])
})

test('users: the nearest of what they may read; box by two ranges', async () => {
  const collection = unique('places')
  await declare(collection, { access: { user: { read: { _owner: '$user.id' }, create: true } } })
  const mia = await userToken(workspace, 'mia')
  await fill(collection, [{ lat: 1, lng: 1, n: 1 }])
  await fill(
    collection,
    [
      { lat: 2, lng: 2, n: 2 },
      { lat: 50, lng: 50, n: 3 },
    ],
    mia,
  )
  const { body } = await nearest(collection, 'order=_distance(1,1).asc', mia)
  expect(body.data.map(({ n }: Place) => n)).toEqual([2, 3])
  const box = await nearest(collection, 'lat=gte.0&lat=lte.5&lng=gte.0&lng=lte.5&order=n', mia)
  expect(box.body.data.map(({ n }: Place) => n)).toEqual([2])
})

test('many documents: a circle and a box are read from the index', async () => {
  const collection = unique('places')
  const { body: schema } = await declare(collection)
  const [row] = await asSuperuser<{ columns: { property: string; column: string }[] }>(
    'select columns from tenon.schemas where id = $1',
    [schema.id],
  )
  const columns = ['lat', 'lng'].map((name) => row?.columns.find(({ property }) => property === name)?.column)
  await asSuperuser(
    `insert into tenon_data."${schema.id}" (tenant_id, workspace_id, id, ${columns.join()})
     select $1, $2, gen_random_uuid(), 50 + (n % 997) / 250.0, 10 + (n % 1009) / 250.0 from generate_series(1, 30000) n`,
    [workspace.tenantId, workspace.workspaceId],
  )
  await asSuperuser(`analyze tenon_data."${schema.id}"`)
  const reads = async () => {
    const [found] = await asSuperuser<{ read: string }>(
      `select idx_tup_read as read from pg_stat_all_indexes where indexrelname = $1`,
      [`${schema.id}_i1`],
    )
    return Number(found?.read)
  }
  const before = await reads()
  const { body } = await nearest(collection, 'order=_distance(51,11)&page[size]=5')
  expect(body.data).toHaveLength(5)
  expect(body.data[0]._distance).toBeLessThan(1_000)
  await eventually(async () => ((await reads()) > before ? true : undefined))
  expect((await reads()) - before).toBeLessThan(5_000)
})

test.each([
  ['NaN', 'order=_distance(NaN,1)', 'order_invalid'],
  ['infinity', 'order=_distance(1,1e999)', 'order_invalid'],
  ['a latitude of 91', 'order=_distance(91,0)', 'order_invalid'],
  ['one number', 'order=_distance(1)', 'order_invalid'],
  ['the farthest first', 'order=_distance(1,2).desc', 'order_invalid'],
  ['another key', 'order=_distance(1,2),n', 'order_invalid'],
  ['SQL', 'order=_distance(1,2);select 1', 'order_invalid'],
  ['a negative distance', 'order=_distance(1,2)&_distance=lte.-1', 'filter_invalid'],
  ['NaN metres', 'order=_distance(1,2)&_distance=lte.NaN', 'filter_invalid'],
  ['a lower bound', 'order=_distance(1,2)&_distance=gte.1', 'filter_invalid'],
  ['a bound without a place', '_distance=lte.1', 'filter_invalid'],
  ['a count', 'order=_distance(1,2)&count=exact', 'filter_invalid'],
])('distance with %s: refused', async (_what, query, code) => {
  const collection = unique('places')
  await declare(collection)
  const { status, body } = await nearest(collection, query)
  expect([status, body.code]).toEqual([400, code])
})

test('texts as coordinates, and a collection without them: refused', async () => {
  const texts = { properties: { lat: { type: 'string' }, lng: { type: 'number' } } }
  const declared = await declare(unique('places'), { schema: texts })
  expect([declared.status, declared.body.code]).toEqual([400, 'validation_failed'])
  const collection = unique('places')
  await declare(collection, { geo: null })
  const { body } = await nearest(collection, 'order=_distance(1,2)')
  expect([body.code, body.hint]).toEqual(['not_supported', expect.stringContaining('"geo": ["lat", "lng"]')])
})
