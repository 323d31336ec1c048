/**
 * References, filters through them and aggregates under such filters give what a naive model gives: in PostgreSQL, in MongoDB, and where
 * the collections are in both. Nothing holds the references, so some lead to documents that were deleted.
 */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { ID_OR_NULL, pathOf } from '../../support/fixtures/references.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Random, randomOf } from '../../support/random.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import { repeated } from '../../support/stack/soak.ts'
import type { Running } from '../../support/stack/start.ts'
import { someCase } from './aggregate-model.ts'
import {
  KINDS,
  type Kind,
  MANY,
  ONE,
  type Sees,
  someData,
  someFilter,
  someList,
  without,
} from './reference-model.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`References over MongoDB are not compared: ${missing}.`)

const SEED = 20_261_130
/** In a soak 10,200 in all places together. */
const CASES = repeated(30, 1_700)

const { all, gone } = someData(randomOf(SEED))
const left = without(all, gone)

type Stores = Readonly<Record<Kind, 'relational' | 'document'>>
const stores = (
  authors: Stores['authors'],
  posts: Stores['posts'],
  comments: Stores['comments'],
): Stores => ({
  ...{ authors, posts, comments },
})
const PLACES: Readonly<Record<string, { readonly inMongo: boolean; readonly stores: Stores }>> = {
  PostgreSQL: { inMongo: false, stores: stores('relational', 'relational', 'document') },
  ...(missing === undefined && {
    MongoDB: { inMongo: true, stores: stores('document', 'document', 'document') },
    'both stores': { inMongo: true, stores: stores('relational', 'document', 'relational') },
  }),
}

let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

const SCALARS = {
  n: { type: 'integer' },
  hidden: { type: 'boolean' },
  status: { type: ['string', 'null'] },
  amount: { type: ['integer', 'null'] },
  price: { type: ['number', 'null'] },
  at: { type: 'string', format: 'date-time' },
}

/** The fields of a document, and of those below it, without what the platform adds. */
function fieldsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fieldsOf)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([name]) => !name.startsWith('_') || name === '_expand')
  return Object.fromEntries(kept.map(([name, below]) => [name, fieldsOf(below)]))
}

describe.each(Object.keys(PLACES))('%s', (name) => {
  const names = new Map<Kind, string>(KINDS.map((kind) => [kind, unique(kind)]))
  const nameOf = (kind: Kind) => names.get(kind) ?? ''
  let at: Running
  let workspace: TestWorkspace
  let callers: readonly { readonly as: Caller; readonly sees: Sees }[]

  const send = (method: string, path: string, options: Parameters<typeof call>[2] = {}): Promise<Reply> =>
    call(method, path, { as: workspace.service, at, ...options })

  async function declare(kind: Kind) {
    const inverseOf = (link: { readonly to: Kind; readonly field: string }) =>
      Object.entries(MANY[link.to]).find(([, many]) => many.to === kind && many.field === link.field)?.[0]
    const references = Object.entries(ONE[kind]).map(([as, link]) => {
      const inverse = inverseOf(link)
      return {
        ...{ field: link.field, collection: nameOf(link.to), as, on_delete: 'none' },
        ...(inverse !== undefined && { inverse }),
      }
    })
    const links = Object.fromEntries(references.map(({ field }) => [field, ID_OR_NULL]))
    const body = {
      ...{ workspace_id: workspace.workspaceId, collection: nameOf(kind), references },
      store: PLACES[name]?.stores[kind],
      schema: { properties: { ...SCALARS, ...links } },
      access: { user: { read: { hidden: false }, aggregate: true } },
    }
    const reply = await send('POST', '/v1/schemas', { as: workspace.operator, body })
    expect([reply.status, reply.body]).toMatchObject([201, {}])
  }

  beforeAll(async () => {
    at = (PLACES[name]?.inMongo ? mongo?.running : undefined) ?? inject('tenon')
    workspace = await createTestWorkspace(at)
    const user = await userToken(workspace, 'uma', {}, at)
    callers = [
      { as: workspace.service, sees: () => true },
      { as: user, sees: ({ hidden }) => !hidden },
    ]
    for (const kind of KINDS) {
      await declare(kind)
      const { body } = await importInto(nameOf(kind), lines(...all[kind]), { as: workspace.service, at })
      expect(body).toMatchObject({ created: all[kind].length, failed: 0 })
    }
    for (const kind of KINDS)
      for (const { id } of gone[kind])
        expect((await send('DELETE', pathOf(nameOf(kind), id))).status).toBe(200)
  })

  /** All pages of a list, or of the groups of an aggregate. */
  async function read(path: string, pairs: readonly (readonly [string, string])[], as: Caller) {
    const seen: unknown[] = []
    for (let after = ''; ; ) {
      const query = new URLSearchParams(pairs.map(([key, value]): [string, string] => [key, value]))
      if (after !== '') query.set('page[after]', after)
      const reply = await send('GET', `${path}?${query}`, { as })
      if (reply.status !== 200 || !Array.isArray(reply.body.data)) return { seen, reply }
      seen.push(...reply.body.data)
      after = reply.body.page.next ?? ''
      if (after === '') return { seen, reply }
    }
  }

  const someCaller = (random: Random) => {
    const caller = callers[random(callers.length)]
    if (caller === undefined) throw new TypeError('there are two callers')
    return caller
  }

  test(`${CASES} random lists from seed ${SEED}: equal to the model`, async () => {
    const random = randomOf(SEED + 1)
    const reached = { filtered: 0, expanded: 0 }
    for (let nth = 0; nth < CASES; nth++) {
      const { as, sees } = someCaller(random)
      const kind = KINDS[random(KINDS.length)] ?? 'posts'
      const wanted = someList(random, kind, { all: left, sees })
      const { seen, reply } = await read(pathOf(nameOf(kind)), wanted.pairs, as)
      const shown = `${nth} ${kind} ${JSON.stringify(wanted.pairs)}`
      expect([reply.status, reply.body], shown).toMatchObject([200, {}])
      expect(fieldsOf(seen), shown).toEqual(wanted.rows)
      reached.filtered += Number(wanted.filtered)
      reached.expanded += Number(wanted.expanded)
    }
    // The cases are what they are meant to be.
    expect(Math.min(reached.filtered, reached.expanded)).toBeGreaterThan(CASES / 4)
  })

  test(`${CASES} random aggregates from seed ${SEED}: equal to the model`, async () => {
    const random = randomOf(SEED + 2)
    for (let nth = 0; nth < CASES; nth++) {
      const { as, sees } = someCaller(random)
      const kind = KINDS[random(KINDS.length)] ?? 'posts'
      const filter = someFilter(random, kind, { all: left, sees })
      const wanted = someCase(
        random,
        left[kind].filter((one) => sees(one) && filter.holds(one)),
      )
      const pairs = [...Object.entries(wanted.query), ...filter.pairs]
      const { seen, reply } = await read(`/v1/collections/${nameOf(kind)}/aggregate`, pairs, as)
      const shown = `${nth} ${kind} ${JSON.stringify(pairs)}`
      if (reply.body.code === 'number_unsafe') {
        expect(wanted.unsafe, shown).toBe(true)
        continue
      }
      expect([reply.status, reply.body], shown).toMatchObject([200, {}])
      expect(wanted.grouped ? seen : [reply.body], shown).toEqual(wanted.rows)
    }
  })
})
