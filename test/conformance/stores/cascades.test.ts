/** Deletions in random graphs of references leave what a naive model leaves: documents, versions and events. */

import { afterEach, expect, test } from 'vitest'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Collections, ID_OR_NULL, pathOf } from '../../support/fixtures/references.ts'
import { call, createTestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { type Random, randomOf } from '../../support/random.ts'
import { repeated } from '../../support/stack/soak.ts'
import { GUARDED_FROM, Model, type Reference, someReferences } from './cascade-model.ts'

const GRAPHS = repeated(3, 300)
const DOCUMENTS = 24
const DELETIONS = 10

afterEach(closeSubscriptions)

/** Declares collections whose references may lead to any of them, so after all are there. */
async function declareAll(there: Collections, references: ReadonlyMap<string, readonly Reference[]>) {
  const ids = new Map<string, string>()
  for (const collection of references.keys())
    ids.set(collection, (await there.declare({ collection, schema: {} })).id)
  for (const [name, own] of references) {
    const changed = await there.change(ids.get(name) ?? '', {
      schema: { properties: { n: { type: 'integer' }, a_id: ID_OR_NULL, b_id: ID_OR_NULL } },
      references: own.map((one) => ({ ...one, as: one.field.replace('_id', '') })),
      checks: [{ name: 'guarded', check: { $or: [{ n: { lt: GUARDED_FROM } }, { a_id: { neq: null } }] } }],
    })
    expect([changed.status, changed.body]).toMatchObject([200, {}])
  }
}

/** Creates documents that refer to those before them, and then leads some to later ones, in circles too. */
async function fill(
  there: Collections,
  references: ReadonlyMap<string, readonly Reference[]>,
  random: Random,
) {
  const model = new Model(references)
  const names = [...references.keys()]
  const target = (collection: string) => {
    const found = model.of(collection)
    return random(4) === 0 ? null : (found[random(found.length || 1)]?.id ?? null)
  }
  for (let count = 0; count < DOCUMENTS; count++) {
    const collection = names[random(names.length)] ?? ''
    const fields = Object.fromEntries(
      (references.get(collection) ?? []).map((one) => [one.field, target(one.collection)]),
    )
    const isFree = fields['a_id'] === null
    const n = random(isFree ? GUARDED_FROM : 10)
    const id = await there.create(collection, { n, ...fields })
    model.add({ id, collection, n, fields, version: 1 })
  }
  for (let count = 0; count < DOCUMENTS / 3; count++) {
    const doc = [...model.docs.values()][random(DOCUMENTS)]
    const [one] = references.get(doc?.collection ?? '') ?? []
    const id = one && target(one.collection)
    if (doc === undefined || one === undefined || !id || doc.fields[one.field] === id) continue
    const body = { [one.field]: id }
    const reply = await call('PATCH', pathOf(doc.collection, doc.id), { as: there.workspace.service, body })
    expect(reply.status).toBe(200)
    model.add({ ...doc, fields: { ...doc.fields, ...body }, version: doc.version + 1 })
  }
  return model
}

/** Deletes some documents in one of the ways, here and in the model. */
async function deleteSome(there: Collections, model: Model, random: Random): Promise<void> {
  const all = [...model.docs.values()]
  const some = all.slice(random(all.length || 1)).slice(0, 1 + random(3))
  const [first] = some
  if (first === undefined) return
  const as = there.workspace.service
  switch (random(3)) {
    case 0: {
      const { status } = await there.delete(first.collection, first.id)
      expect(status).toBe(model.deleteTogether([first.id]) ? 200 : 409)
      return
    }
    case 1: {
      const ops = some.map(({ collection, id }) => ({ op: 'delete', collection, id }))
      const reply = await call('POST', '/v1/batch', { as, body: { ops } })
      const refused = model.deleteInOrder(some.map(({ id }) => id))
      expect([reply.status === 200, reply.body.op_index]).toEqual([refused === undefined, refused])
      return
    }
    default: {
      const matching = model.of(first.collection).filter(({ n }) => n >= first.n)
      const reply = await call('POST', `/v1/collections/${first.collection}/delete-many`, {
        ...{ as, body: { filter: { n: { gte: first.n } } }, headers: { prefer: 'wait=30' } },
      })
      const failed = model.deleteMany(matching.map(({ id }) => id).sort())
      expect(reply.body).toMatchObject({ status: 'completed', failed })
    }
  }
}

test('random graphs of the three kinds: the documents, versions and events that a naive model leaves', async () => {
  const random = randomOf(20_261_130)
  const there = new Collections(await createTestWorkspace())
  const received = await subscribeToEvents(there.workspace.service, 'topic=collections.*')
  const expected: string[] = []
  let others = 0
  for (let graph = 0; graph < GRAPHS; graph++) {
    const names = [unique('a'), unique('b'), unique('c')]
    const references = someReferences(random, names)
    await declareAll(there, references)
    const model = await fill(there, references, random)
    others += [...model.docs.values()].reduce((sum, { version }) => sum + version, 0)
    for (let n = 0; n < DELETIONS; n++) {
      await deleteSome(there, model, random)
      const left = (await Promise.all(names.map((name) => there.all(name)))).flat()
      const shown = left.map(({ id, _version, a_id, b_id }) => [id, _version, a_id ?? null, b_id ?? null])
      const wanted = [...model.docs.values()].map(({ id, version, fields }) => [
        ...[id, version, fields['a_id'] ?? null, fields['b_id'] ?? null],
      ])
      expect({ graph, n, references: [...references], shown: shown.sort() }).toEqual({
        ...{ graph, n, references: [...references], shown: wanted.sort() },
      })
    }
    expected.push(...model.events.map((event) => event.join(' ')))
  }
  const events = await receivedAtLeast(received, expected.length + others)
  const heard = events.map(({ data: { topic, data } }) =>
    [topic.split('.')[2], data.id, data.version].join(' '),
  )
  expect(expected.length).toBeGreaterThan(GRAPHS * 3)
  expect(heard).toHaveLength(expected.length + others)
  expect(heard.slice().sort()).toEqual(expect.arrayContaining(expected))
  expect(new Set(heard).size).toBe(heard.length)
})
