/** Batches that are refused, repeated, of several collections, or sent by those without the right. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply } from '../../support/clients/rest-client.ts'
import { declare, documents, fill, type Row, tags } from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

let world: World

const STORES = ['relational', 'document'] as const
const PROPERTIES = {
  tag: { type: 'string' },
  sku: { type: 'string' },
  n: { type: 'number' },
  mark: { type: 'string' },
}

beforeAll(async () => {
  world = await createTenantPair()
  for (const store of STORES) {
    const schema = { type: 'object', properties: PROPERTIES, required: ['tag'] }
    await declare(world.a, store, { store, schema, unique: [['sku']] })
  }
})

describe.each(STORES)('batch, %s collection', (store) => {
  const batch = (ops: unknown[], more: Row = {}, headers = {}): Promise<Reply> =>
    world.a.service.post(`/v1/collections/${store}/batch`, { ops, ...more }, headers)
  const tagged = async (tag: string) => list(await world.a.service.get(`${documents(store)}?tag=eq.${tag}`))

  test('batch: repeated with an Idempotency-Key: applied once', async () => {
    const tag = word()
    const send = () => batch([{ op: 'create', data: { tag } }], {}, { 'idempotency-key': tag })
    const first = await send()
    const again = await send()
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(await tagged(tag)).toHaveLength(1)
  })

  test.each([
    [[]],
    [[{ op: 'fly' }]],
    [[{ op: 'create' }]],
    [[{ op: 'create', data: [] }]],
    [[{ op: 'create', data: { tag: 'x', _version: 3 } }]],
    [[{ op: 'create', data: { tag: 'x', id: 'y' } }]],
    [[{ op: 'update', data: {} }]],
    [[{ op: 'update', id: 'x', data: { n: 1 }, unset: ['n'] }]],
    [[{ op: 'increment', id: 'x' }]],
    [[{ op: 'increment', id: 'x', field: '_version' }]],
    [[{ op: 'upsert', on: ['n'], data: { tag: 'x', n: 1 } }]],
    [[{ op: 'upsert', on: [], data: { tag: 'x' } }]],
    [[{ op: 'delete', id: 'x', colour: 1 }]],
    'ops',
  ])('batch: ops %j: 400', async (ops) => {
    const path = `/v1/collections/${store}/batch`
    expectProblem(await world.a.service.post(path, { ops }), 400)
  })
})

describe('batch over several collections', () => {
  const batch = (ops: unknown[], caller = world.a.service, more = {}) =>
    caller.post('/v1/batch', { ops, ...more })

  test('batch: both stores and an undeclared collection: atomic', async () => {
    const tag = word()
    const names = [...STORES, 'loose']
    const creates = names.map((collection) => ({ op: 'create', collection, data: { tag } }))
    const refused = await batch([...creates, { op: 'create', collection: 'relational', data: { tag: 5 } }])
    expectProblem(refused, 422)
    expect(get(refused, 'op_index')).toBe(3)
    const rows = () =>
      Promise.all(names.map((name) => world.a.service.get(`${documents(name)}?tag=eq.${tag}`)))
    for (const reply of await rows()) expect(tags(reply)).toEqual([])
    expectStatus(await batch(creates), 200)
    for (const reply of await rows()) expect(tags(reply)).toEqual([tag])
  })

  test('batch: op without a collection: refused', async () => {
    expectProblem(await batch([{ op: 'create', data: { tag: 'x' } }]), 400)
  })

  test('batch: document of another tenant: 404, nothing is applied', async () => {
    const [foreignId] = await fill(world.b, 'keep', [{ tag: 'theirs', n: 1 }])
    for (const op of ['update', 'delete', 'increment']) {
      const more = op === 'update' ? { data: { n: 9 } } : op === 'increment' ? { field: 'n' } : {}
      const reply = await batch([
        { op: 'create', collection: 'keep', data: { tag: 'made' } },
        { op, collection: 'keep', id: foreignId, ...more },
      ])
      expectProblem(reply, 404)
    }
    expect(tags(await world.a.service.get(documents('keep')))).toEqual([])
    expect((await world.b.service.get(`${documents('keep')}/${foreignId}`)).body).toMatchObject({
      n: 1,
      _version: 1,
    })
  })

  test('batch: anon key: same rights as for single requests', async () => {
    const reply = await batch([{ op: 'create', collection: 'loose', data: { tag: 'anon' } }], world.a.anon)
    expectProblem(reply, 403)
    const each = await batch([{ op: 'create', collection: 'loose', data: { tag: 'anon' } }], world.a.anon, {
      atomic: false,
    })
    if (each.status === 200) expect(get(each, 'results/0/status')).toBe(403)
    else expectProblem(each, 403)
    expect(tags(await world.a.service.get(`${documents('loose')}?tag=eq.anon`))).toEqual([])
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
