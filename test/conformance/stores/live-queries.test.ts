/** Live queries: the result that a client keeps from the stream is that of a naive model after each change, for random filters. */

import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { changesIn, openLive, readList, sorted } from '../../support/clients/live-copy.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Random, randomOf } from '../../support/random.ts'
import { repeated } from '../../support/stack/soak.ts'
import { documentsOf, queries as formatQueries } from './formats.ts'
import { type Filter, filters } from './model.ts'
import { DOCUMENTS, type Doc } from './odd-documents.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterAll(closeSubscriptions)

const SEED = 20_261_130

/** The documents that the model has, by id. */
type Model = Map<string, Doc>

/** Makes one random change, of the model too. */
async function changeOne(path: string, model: Model, random: Random): Promise<void> {
  const document = DOCUMENTS[random(DOCUMENTS.length)] ?? {}
  const ids = [...model.keys()]
  const id = ids[random(ids.length)]
  const action = ids.length < 8 || id === undefined ? 0 : random(6)
  const send = (method: string, at: string, body?: object) =>
    call(method, `${path}/documents${at}`, { as: ws.service, ...(body && { body }) })
  if (id === undefined || action === 0) {
    const { status, body } = await send('POST', '', document)
    expect(status, JSON.stringify(body)).toBe(201)
    model.set(body.id, document)
  } else if (action === 1) {
    await send('DELETE', `/${id}`)
    model.delete(id)
  } else if (action === 2) {
    await send('PUT', `/${id}`, document)
    model.set(id, { ...model.get(id), ...document })
  } else {
    await send('PUT', `/${id}?replace=true`, document)
    model.set(id, document)
  }
}

const textOf = (of: readonly Filter[]) =>
  of.map(({ pair }) => pair.map(encodeURIComponent).join('=')).join('&')

interface Subscriber {
  readonly of: readonly Filter[]
  readonly live: Awaited<ReturnType<typeof openLive>>
  readonly mayRead: (doc: Doc) => boolean
}

const idsOf = (documents: ReadonlyMap<string, unknown>) => [...documents.keys()].sort()

/** Waits until a subscriber has what the model gives, and shows the difference if it does not come to that. */
async function expectResult({ of, live, mayRead }: Subscriber, model: Model): Promise<void> {
  const found = [...model].filter(([, doc]) => mayRead(doc) && of.every(({ holds }) => holds(doc)))
  const expected = idsOf(new Map(found))
  const isSame = async () => (idsOf(live.now()).join() === expected.join() ? true : undefined)
  await eventually(isSame).catch(() => expect(idsOf(live.now()), textOf(of)).toEqual(expected))
}

const everything = () => true
/** The documents that users may read. */
const isReadable = (doc: Doc) => Number(doc['n']) < 60

test('timestamps, ids and exact numbers in any spelling: a live query reads them as the list does', async () => {
  const name = unique('live')
  const path = `/v1/collections/${name}`
  const text = { type: 'string' }
  const properties = {
    ...{ n: { type: 'integer' }, at: { ...text, format: 'date-time' }, ref: { ...text, format: 'uuid' } },
    ...{ price: { ...text, format: 'decimal' }, seq: { ...text, format: 'int64' } },
  }
  const body = { workspace_id: ws.workspaceId, collection: name, store: 'relational', schema: { properties } }
  expect(
    (await call('POST', '/v1/schemas', { as: ws.operator, body: { ...body, mode: 'off' } })).status,
  ).toBe(201)
  const queries = fc.sample(formatQueries, { numRuns: repeated(40, 200), seed: SEED }).map(({ text }) =>
    text
      .split('&')
      .filter((part) => !/^(order|page)/.test(decodeURIComponent(part)))
      .join('&'),
  )
  const lives = await Promise.all([...new Set(queries)].map((query) => openLive(ws.service, path, query)))
  for (const document of documentsOf(false)) await changeTo(path, document)
  const last = (await changeTo(path, { n: -1 })).body.id
  const all = await openLive(ws.service, path, '')
  expect(all.now().has(last)).toBe(true)
  for (const [index, live] of lives.entries()) {
    const query = [...new Set(queries)][index] ?? ''
    const { documents } = await readList(ws.service, path, query)
    const isSame = async () => (idsOf(live.now()).join() === idsOf(documents).join() ? true : undefined)
    await eventually(isSame).catch(() => expect(idsOf(live.now()), query).toEqual(idsOf(documents)))
    expect(sorted(live.now())).toEqual(sorted(documents))
  }
})

const changeTo = (path: string, body: object) => call('POST', `${path}/documents`, { as: ws.service, body })

test.each([
  ['undeclared', undefined],
  ['read by rules', { user: { read: { n: { lt: 60 } } } }],
])(
  'random documents, filters and changes: %s: the result that a client keeps is that of the model',
  async (_, access) => {
    const name = unique('live')
    const path = `/v1/collections/${name}`
    if (access !== undefined) {
      const schema = { properties: { n: { type: 'integer' } } }
      const body = { workspace_id: ws.workspaceId, collection: name, store: 'relational', schema, access }
      expect((await call('POST', '/v1/schemas', { as: ws.operator, body })).status).toBe(201)
    }
    const random = randomOf(SEED)
    const model: Model = new Map()
    for (let n = 0; n < 12; n += 1) await changeOne(path, model, random)
    const queries = fc.sample(filters, { numRuns: repeated(24, 45), seed: SEED })
    const callers = [
      { as: ws.service, mayRead: everything },
      ...(access === undefined ? [] : [{ as: await userToken(ws, 'mia'), mayRead: isReadable }]),
    ]
    const opened = callers.flatMap(({ as, mayRead }) =>
      queries.map(async (of) => ({ of, mayRead, as, live: await openLive(as, path, textOf(of)) })),
    )
    const subscribers = await Promise.all(opened)
    for (let round = 0; round < repeated(60, 300); round += 1) {
      await changeOne(path, model, random)
      for (const subscriber of subscribers) await expectResult(subscriber, model)
    }
    for (const { as, of, live } of subscribers) {
      const { documents } = await readList(as, path, textOf(of))
      expect(sorted(live.now()), textOf(of)).toEqual(sorted(documents))
    }
    const told = subscribers.reduce((sum, { live }) => sum + changesIn(live.received).length, 0)
    expect(told).toBeGreaterThan(subscribers.length * 5)
  },
)
