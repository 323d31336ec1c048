/** Changes of documents in MongoDB with a key meet faults at any message to either database: what was acknowledged is made once. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { call, eventually } from '../../support/fixtures/tenants.ts'
import {
  asker,
  askUntilAnswered,
  batchOf,
  create,
  DOCUMENTS,
  freeze,
  type Ledger,
  type Op,
  openLedger as openLedgerAt,
  type Place,
  patchOf,
  type Request,
  sendAgain,
  stored,
  warmUp,
  writeElsewhere,
} from '../../support/fixtures/write-ledger.ts'
import { randomOf } from '../../support/random.ts'
import {
  type Fault,
  isMongoChange,
  type StatementProxy,
  startStatementProxy,
} from '../../support/servers/statement-proxy.ts'
import { type MongoServer, startMongo } from '../../support/stack/ferretdb.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let mongo: MongoServer
let claims: StatementProxy
let documents: StatementProxy
let nodes: readonly Node[]
let place: Place
beforeAll(async () => {
  mongo = await startMongo()
  claims = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  documents = await startStatementProxy(mongo.url, isMongoChange)
  const [faulty, other] = [
    await startInProcessNode({ DATABASE_APP_URL: claims.url, MONGODB_URL: documents.url }),
    await startInProcessNode({ MONGODB_URL: mongo.url }),
  ]
  nodes = [faulty, other]
  place = { faulty: faulty.at, proxy: claims, other: other.at }
})
afterAll(async () => {
  claims?.script()
  documents?.script()
  for (const node of nodes ?? []) await node.close()
  claims?.close()
  documents?.close()
  await mongo?.stop()
})

const openLedger = () => openLedgerAt(place)

/** Messages to PostgreSQL: the claim, what is about to be changed, and what came of it. */
const BEGIN = 2

const increment = (ledger: Ledger) => batchOf(ledger, [{ op: 'increment', id: ledger.id, field: 'v' }])
const patch = (ledger: Ledger, n = 0) => patchOf(ledger, { [`d${n}`]: n })
const oneByOne = (ledger: Ledger, n: number) => {
  const more = { op: 'increment', id: ledger.id, field: 'v' }
  return batchOf(ledger, [more, { op: 'create', data: { k: `c${n}` } }, more], false)
}
const one = (op: string) => (ledger: Ledger, n: number) =>
  batchOf(ledger, [{ op, id: ledger.id, data: { k: 'hot', v: ledger.increments, [`${op}${n}`]: n } }])

const CHANGES: Readonly<Record<string, (ledger: Ledger, n: number) => Request>> = {
  increment,
  patch: one('patch'),
  update: one('update'),
  replace: one('replace'),
  PATCH: patch,
  'PATCH of a version': (ledger, n) => patchOf(ledger, { d: n, _version: 1 + ledger.changes }),
  'one by one': oneByOne,
}

test.each(Object.entries(CHANGES))(
  '%s: a fault at any message to PostgreSQL or at the change, then repeated: made once, the reply is its own',
  async (_, requestOf) => {
    const ledger = await openLedger()
    let n = 0
    const attempt = (faults: Readonly<Record<number, Fault>>, proxy = claims) =>
      sendAgain(ledger, `k${n}`, requestOf(ledger, n++), faults, { proxy })
    const { messages } = await attempt({})
    for (let at = 1; at <= messages; at++) {
      await attempt({ [at]: 'death' })
      await attempt({ [at]: 'mute death' })
    }
    const statements = (await attempt({}, documents)).messages
    for (const fault of ['cut', 'mute cut'] as const) {
      const { first } = await attempt({ [statements]: fault }, documents)
      expect(first.status).toBe(503)
    }
  },
)

test.each([1, 2])(
  'keyed changes, seed %i: other writers and a fault at any message, then repeated: each is made once, its reply is its own',
  async (seed) => {
    const random = randomOf(seed)
    const ledger = await openLedger()
    const { id } = ledger
    const made = new Map([['hot', id]])
    for (let n = 0; n < 15; n++) {
      const doomed = await create(ledger, `doomed${n}`)
      made.set(`doomed${n}`, doomed)
      const changes: Op[] = [
        { op: 'increment', id, field: 'v' },
        { op: 'create', data: { k: `c${n}` } },
        { op: 'patch', id, data: { [`p${n}`]: n } },
        { op: 'increment', id, field: 'v' },
        { op: 'update', id, data: { u: n } },
        { op: 'delete', id: doomed },
      ]
      const ops = changes.slice(random(changes.length)).slice(0, 1 + random(3))
      const request = random(4) === 0 ? patch(ledger, n) : batchOf(ledger, ops, ops.length === 1)
      const isClaim = random(3) > 0
      const kinds: readonly Fault[] = isClaim ? ['death', 'mute death', 'cut'] : ['cut', 'mute cut']
      const faults = { [isClaim ? 2 + random(4) : 1 + random(2)]: kinds[random(kinds.length)] ?? 'cut' }
      const { reply } = await sendAgain(ledger, `${seed}-${n}`, request, faults, {
        proxy: isClaim ? claims : documents,
        between: () => writeElsewhere(ledger),
      })
      if (request.method === 'PATCH') continue
      for (const [index, { op, data }] of ops.entries()) {
        if (op === 'delete') made.delete(`doomed${n}`)
        else if (op === 'create') made.set(String(data?.['k']), reply.body.results[index].id)
      }
    }
    const at = place.other
    const { body } = await call('GET', `${DOCUMENTS}?page[size]=100`, { as: ledger.workspace.service, at })
    const all = (body.data as { k: string; id: string }[]).map(({ k, id }) => [k, id])
    expect(all.sort()).toEqual([...made].sort())
  },
)

describe('the process of a request freezes', () => {
  const creation = (ledger: Ledger) => batchOf(ledger, [{ op: 'create', data: { k: 'c' } }])

  test.each([
    ['increment', increment],
    ['create', creation],
    ['PATCH', patch],
  ] as const)(
    '%s: it stops before its change, another process takes it over, then it wakes up: it changes nothing more',
    async (_, requestOf) => {
      const ledger = await openLedger()
      const request = requestOf(ledger)
      const { first, again, wake } = await freeze(ledger, request, 1, documents)
      const answer = await askUntilAnswered(ledger, again)
      expect(answer.status).toBe(200)
      wake()
      const { status, body } = await first
      expect([status, body.code]).toEqual([409, 'idempotency_in_flight'])
      expect((await again()).body).toEqual(answer.body)
      expect((await stored(ledger))._version).toBe(1 + request.changes)
    },
  )

  test('its change is delayed until another attempt is about to make it: made once', async () => {
    const ledger = await openLedger()
    const request = increment(ledger)
    const { messages } = await sendAgain(ledger, 'usual', request, {}, { proxy: documents })
    const { first, again, wake } = await freeze(ledger, request, messages, documents)
    const version = 2 + ledger.changes
    const arrive = async () => {
      wake()
      await eventually(async () => (await stored(ledger))._version === version || undefined)
    }
    const answer = await askUntilAnswered(ledger, () => {
      claims.script({ [BEGIN]: arrive })
      return again(place.faulty)
    })
    claims.script()
    expect(answer.body.results).toMatchObject([{ status: 200, version }])
    const { status, body } = await first
    // If its lease was renewed in between, it is the attempt that is answered.
    expect(status === 200 ? body : body.code).toEqual(status === 200 ? answer.body : 'idempotency_in_flight')
    expect(await stored(ledger)).toMatchObject({ _version: version, v: version - 1 })
  })
})

describe('a request is cut off, and others with keys change the document', () => {
  const cutOff = async (others: number) => {
    const ledger = await openLedger()
    const request = increment(ledger)
    const { messages } = await sendAgain(ledger, 'usual', request, {}, { proxy: documents })
    const ask = asker(ledger, 'cut off', request)
    await warmUp(ledger)
    documents.script({ [messages]: 'mute cut' })
    expect((await ask()).status).toBe(503)
    documents.script()
    for (let n = 0; n < others; n++)
      expect((await asker(ledger, `other${n}`, request)(place.other)).status).toBe(200)
    const reply = await askUntilAnswered(ledger, () => ask(place.other))
    return { reply, again: await ask(place.other), now: await stored(ledger) }
  }

  test('fewer than a document remembers: its own change is found', async () => {
    const others = COLLECTION_LIMITS.idempotencyMarksMax - 1
    const { reply, again, now } = await cutOff(others)
    expect(reply.body.results).toMatchObject([{ status: 200, version: 3 }])
    expect(again.body).toEqual(reply.body)
    expect(Object.keys(now).sort()).toEqual(['_created_at', '_updated_at', '_version', 'id', 'k', 'v'])
    expect(now.v).toBe(2 + others)
  })

  test('as many as a document remembers: it is not made again, and the reply says that this is not known', async () => {
    const others = COLLECTION_LIMITS.idempotencyMarksMax
    const { reply, again, now } = await cutOff(others)
    expect([reply.status, reply.body.code]).toEqual([409, 'idempotency_outcome_unknown'])
    expect(again.body).toEqual(reply.body)
    expect(now.v).toBe(2 + others)
  })
})
