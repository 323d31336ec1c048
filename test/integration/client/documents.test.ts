/** The client's documents against the real API: create, query, change, conditions, errors and repetition. */

import { beforeAll, expect, inject, test } from 'vitest'
import { type Client, createClient, TenonError } from '../../../client/src/index.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

interface Collections {
  readonly courts: {
    readonly fields: { readonly name: string; readonly city?: string | null; readonly price?: number }
    readonly references: { readonly bookings: { readonly collection: 'bookings'; readonly kind: 'many' } }
  }
  readonly bookings: {
    readonly fields: { readonly court_id: string; readonly guest: string; readonly starts_at: string }
    readonly references: { readonly court: { readonly collection: 'courts'; readonly kind: 'one' } }
  }
}

let ws: TestWorkspace
let tenon: Client<Collections>
beforeAll(async () => {
  ws = await createTestWorkspace()
  tenon = createClient<Collections>({ url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' })
  const text = { type: 'string' }
  const declare = async (collection: string, properties: object, more = {}) => {
    const body = {
      workspace_id: ws.workspaceId,
      collection,
      store: 'relational',
      schema: { properties },
      ...more,
    }
    const { status, body: made } = await call('POST', '/v1/schemas', { as: ws.operator, body })
    expect(status, JSON.stringify(made)).toBe(201)
  }
  await declare('courts', { name: text, city: { type: ['string', 'null'] }, price: { type: 'integer' } })
  await declare(
    'bookings',
    {
      court_id: { type: 'string', format: 'uuid' },
      guest: text,
      starts_at: { type: 'string', format: 'date-time' },
    },
    { references: [{ field: 'court_id', collection: 'courts', as: 'court', inverse: 'bookings' }] },
  )
})

test('a document is created, read, changed in each way, and deleted', async () => {
  const courts = tenon.from('courts')
  const made = await courts.create({ name: 'Centre', price: 20 })
  expect(await courts.get(made.id)).toEqual(made)
  const updated = await courts.update(made.id, { city: 'Rome' })
  expect(updated).toMatchObject({ name: 'Centre', city: 'Rome', price: 20, _version: 2 })
  expect(await courts.change(made.id, { inc: { price: 5 } })).toMatchObject({ price: 25, _version: 3 })
  const replaced = await courts.replace(made.id, { name: 'North' }, { ifVersion: 3 })
  expect(replaced).not.toHaveProperty('city')
  await expect(courts.update(made.id, { name: 'x' }, { ifVersion: 1 })).rejects.toMatchObject({
    ...{ name: 'TenonError', code: 'precondition_failed', status: 412 },
  })
  await courts.delete(made.id)
  const gone = await courts.get(made.id).catch((error: unknown) => error)
  expect(gone).toBeInstanceOf(TenonError)
  expect(gone).toMatchObject({ code: 'not_found', status: 404, requestId: expect.stringMatching(/.{8}/) })
})

test('a query filters, sorts, selects, counts and walks all pages', async () => {
  const city = unique('city')
  const courts = tenon.from('courts')
  for (let n = 0; n < 7; n++) await courts.create({ name: `court ${n}`, city, price: n })
  const inCity = courts.where({ city })
  const page = await inCity
    .where({ price: { gte: 2 } })
    .order('price', 'desc')
    .select('price')
    .page({ size: 3, count: 'exact' })
  expect(page.data.map(({ price }) => price)).toEqual([6, 5, 4])
  expect(Object.keys(page.data[0] ?? {}).sort()).toEqual(['id', 'price'])
  expect(page.page).toMatchObject({ total: 5, has_more: true })
  expect(await inCity.count()).toBe(7)
  expect((await inCity.order('price').first())?.name).toBe('court 0')
  expect(await inCity.where({ name: 'nowhere' }).first()).toBeUndefined()
  const names: string[] = []
  for await (const { name } of inCity) names.push(name)
  expect(names).toHaveLength(7)
  const { data } = await inCity.aggregate<{ total: number }>({
    group: ['city'],
    measures: { total: { sum: 'price' } },
  })
  expect(data).toEqual([{ city, total: 21 }])
})

test('expand adds the document referred to, and those that refer', async () => {
  const court = await tenon.from('courts').create({ name: 'Clay' })
  const starts_at = '2026-12-01T10:00:00.000Z'
  await tenon.from('bookings').create({ court_id: court.id, guest: 'mia', starts_at })
  const booking = await tenon.from('bookings').where({ court_id: court.id }).expand('court').first()
  expect(booking?._expand.court?.name).toBe('Clay')
  const found = await tenon
    .from('courts')
    .where({ id: court.id })
    .expand('bookings', { select: ['guest'] })
    .first()
  expect(found?._expand.bookings.map(({ guest }) => guest)).toEqual(['mia'])
})

test('upsert finds a document by unique fields, and an id of the caller is taken once', async () => {
  const name = unique('members')
  const schema = { properties: { email: { type: 'string', maxLength: 200 }, n: { type: 'integer' } } }
  const body = {
    workspace_id: ws.workspaceId,
    collection: name,
    store: 'relational',
    schema,
    unique: [{ fields: ['email'] }],
  }
  const { status, body: declared } = await call('POST', '/v1/schemas', { as: ws.operator, body })
  expect(status, JSON.stringify(declared)).toBe(201)
  const members = createClient({ url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' }).from(name)
  const one = await members.upsert({ email: 'a@b.c', n: 1 }, { on: ['email'] })
  const two = await members.upsert({ email: 'a@b.c', n: 2 }, { on: ['email'] })
  expect(two).toMatchObject({ id: one.id, n: 2 })
  const id = '018f0000-0000-7000-8000-000000000001'
  expect((await members.create({ email: 'x' }, { id })).id).toBe(id)
  await expect(members.create({ email: 'y' }, { id })).rejects.toMatchObject({ name: 'TenonError' })
})

test('a create and a deletion whose answers were lost are repeated, and made once', async () => {
  const name = unique('orders')
  let attempts = 0
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    attempts += 1
    if (attempts > 1) return response
    await response.arrayBuffer()
    throw new TypeError('the connection was closed')
  }
  const { url } = inject('tenon')
  const orders = createClient({ url, apikey: ws.service['apikey'] ?? '', fetch: losing }).from(name)
  const made = await orders.create({ n: 1 })
  expect(attempts).toBe(2)
  expect(await orders.count()).toBe(1)
  expect((await orders.first())?.id).toBe(made.id)
  attempts = 0
  await orders.delete(made.id)
  expect(attempts).toBe(2)
  await expect(orders.delete(made.id)).rejects.toMatchObject({ code: 'not_found' })
})

test('no server, a deadline and a cancelled call each say so', async () => {
  const away = createClient({ url: 'http://127.0.0.1:1', retries: 0 })
  await expect(away.from('a').count()).rejects.toMatchObject({ code: 'network_error', status: 0 })
  const hanging: typeof fetch = (_input, init) =>
    new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)))
  const slow = createClient({ url: 'http://127.0.0.1:1', fetch: hanging, timeoutMs: 20 })
  await expect(slow.from('a').count()).rejects.toMatchObject({ code: 'deadline_exceeded' })
  const signal = AbortSignal.abort(new Error('left the page'))
  await expect(slow.from('a').count({ signal })).rejects.toThrow('left the page')
})

test('an expired token is renewed once, and a wrong one is an error', async () => {
  const { url } = inject('tenon')
  const asked: (string | undefined)[] = []
  const token = ({ refused }: { refused?: string }) => {
    asked.push(refused)
    return 'not.a.token'
  }
  await expect(createClient({ url, token }).from('a').count()).rejects.toMatchObject({ status: 401 })
  expect(asked).toEqual([undefined, 'not.a.token'])
})
