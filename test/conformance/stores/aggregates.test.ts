/** Aggregates give what a naive model gives, in both stores, whether or not the collection is declared: in one page, and page by page. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import { repeated } from '../../support/stack/soak.ts'
import { type Case, someCase, someDocuments } from './aggregate-model.ts'

const DOCUMENTS = 400
const CASES = repeated(100, 5_000)
/** FerretDB looks at each document of all tests for every query. */
const CASES_IN_MONGO = repeated(30, 1_000)
const PROPERTIES = {
  status: { type: ['string', 'null'] },
  amount: { type: ['integer', 'null'] },
  price: { type: ['number', 'null'] },
  at: { type: 'string', format: 'date-time' },
}

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Aggregates over MongoDB are not tested: ${missing}.`)

const STORES = missing === undefined ? (['PostgreSQL', 'MongoDB'] as const) : (['PostgreSQL'] as const)
type StoreName = 'PostgreSQL' | 'MongoDB'

let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
const workspaces = new Map<StoreName, TestWorkspace>()
beforeAll(async () => {
  workspaces.set('PostgreSQL', await createTestWorkspace())
  if (missing !== undefined) return
  mongo = await startMongoApi()
  workspaces.set('MongoDB', await createTestWorkspace(mongo.running))
})
afterAll(() => mongo?.stop())

function callOf(store: StoreName) {
  const at = (store === 'MongoDB' ? mongo?.running : undefined) ?? inject('tenon')
  const workspace = workspaces.get(store)
  if (workspace === undefined) throw new TypeError(`no workspace for ${store}`)
  return {
    workspace,
    send: (method: string, path: string, options: Parameters<typeof call>[2] = {}): Promise<Reply> =>
      call(method, path, { as: workspace.service, at, ...options }),
  }
}

const documents = someDocuments(randomOf(20_260_329), DOCUMENTS)

async function filled(store: StoreName, declaration: object | undefined): Promise<string> {
  const { workspace, send } = callOf(store)
  const collection = unique('model')
  if (declaration !== undefined) {
    const body = { workspace_id: workspace.workspaceId, collection, ...declaration }
    const reply = await send('POST', '/v1/schemas', { as: workspace.operator, body })
    expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  }
  const ops = documents.map((data) => ({ op: 'create', data }))
  const body = { ops, ...(store === 'MongoDB' && { atomic: false }) }
  const made = await send('POST', `/v1/collections/${collection}/batch`, { body })
  expect(made.status, JSON.stringify(made.body)).toBe(200)
  return collection
}

const schema = { type: 'object', properties: PROPERTIES }
const ofPostgres = { indexes: [{ fields: ['status'] }] }
const KINDS: Readonly<Record<StoreName, Readonly<Record<string, object | undefined>>>> = {
  PostgreSQL: {
    undeclared: undefined,
    relational: { store: 'relational', schema },
    document: { store: 'document', schema, ...ofPostgres },
    'relational in mode warn': { store: 'relational', mode: 'warn', schema },
  },
  MongoDB: {
    undeclared: undefined,
    document: { store: 'document', schema },
    'document in mode warn': { store: 'document', mode: 'warn', schema },
  },
}

describe.each(STORES.flatMap((store) => Object.keys(KINDS[store]).map((kind) => [kind, store] as const)))(
  '%s collection in %s',
  (kind, store) => {
    let at: string
    beforeAll(async () => {
      at = `/v1/collections/${await filled(store, KINDS[store][kind])}/aggregate`
    })

    const ask = (query: Readonly<Record<string, string>>): Promise<Reply> =>
      callOf(store).send('GET', `${at}?${new URLSearchParams(query)}`)

    async function expectSame(wanted: Case, size: string | undefined): Promise<void> {
      const seen: unknown[] = []
      let after = ''
      do {
        const reply = await ask({
          ...wanted.query,
          ...(size && { 'page[size]': size }),
          ...(after && { 'page[after]': after }),
        })
        const shown = `${JSON.stringify(wanted.query)}: ${JSON.stringify(reply.body).slice(0, 300)}`
        if (reply.status === 400 && reply.body.code === 'number_unsafe') {
          expect(wanted.unsafe, shown).toBe(true)
          return
        }
        expect(reply.status, shown).toBe(200)
        seen.push(...(wanted.grouped ? reply.body.data : [reply.body]))
        after = wanted.grouped ? (reply.body.page.next ?? '') : ''
      } while (after !== '')
      expect(wanted.unsafe).toBe(false)
      expect(seen, JSON.stringify(wanted.query)).toEqual(wanted.rows)
    }

    const cases = store === 'MongoDB' ? CASES_IN_MONGO : CASES
    test(`${cases} random aggregates: equal to the model`, async () => {
      const random = randomOf(kind.length)
      let grouped = 0
      let unsafe = 0
      for (let nth = 0; nth < cases; nth++) {
        const wanted = someCase(random, documents)
        await expectSame(wanted, random(3) === 0 && wanted.rows.length < 60 ? '7' : '10000')
        grouped += wanted.grouped ? 1 : 0
        unsafe += wanted.unsafe ? 1 : 0
      }
      // The cases are what they are meant to be.
      expect(grouped).toBeGreaterThan(cases / 2)
      expect(unsafe).toBeGreaterThan(0)
      expect(unsafe).toBeLessThan(cases / 2)
    })
  },
)
