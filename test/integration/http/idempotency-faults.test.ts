/** Changes with a key meet other writers and faults at any message to PostgreSQL: what was acknowledged is stored exactly once. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { asSuperuser, call, eventually } from '../../support/fixtures/tenants.ts'
import {
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
  writeElsewhere,
} from '../../support/fixtures/write-ledger.ts'
import { randomOf } from '../../support/random.ts'
import { type StatementProxy, startStatementProxy } from '../../support/servers/statement-proxy.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let proxy: StatementProxy
let node: Node
let place: Place
beforeAll(async () => {
  proxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  node = await startInProcessNode({ DATABASE_APP_URL: proxy.url })
  place = { faulty: node.at, proxy, other: inject('tenon') }
})
afterAll(async () => {
  proxy?.script()
  await node?.close()
  proxy?.close()
})

const openLedger = () => openLedgerAt(place, 'k')

/** After it has read, and before it writes; so the first attempt of a change that reads finds another version. */
const BEFORE_WRITE = 3

describe('a change under a key loses its compare-and-swap', () => {
  const kinds = ['increment', 'patch', 'update', 'upsert', 'PATCH', 'one by one'] as const
  const requestOf = (ledger: Ledger, kind: (typeof kinds)[number], n: number): Request => {
    if (kind === 'PATCH') return patchOf(ledger, { [`d${n}`]: n })
    const increment = { op: 'increment', id: ledger.id, field: 'v' }
    if (kind === 'increment') return batchOf(ledger, [increment])
    if (kind === 'one by one')
      return batchOf(ledger, [increment, { op: 'create', data: { k: `c${n}` } }, increment], false)
    if (kind === 'upsert') return batchOf(ledger, [{ op: kind, on: ['k'], data: { k: 'hot', [`u${n}`]: n } }])
    return batchOf(ledger, [{ op: kind, id: ledger.id, data: { [`p${n}`]: n } }])
  }

  test.each(kinds)('%s: process dies at any later message: made once, the reply is its own', async (kind) => {
    const ledger = await openLedger()
    await sendAgain(ledger, 'alone', requestOf(ledger, kind, 0), {})
    const writer = { [BEFORE_WRITE]: () => writeElsewhere(ledger) }
    const raced = await sendAgain(ledger, 'raced', requestOf(ledger, kind, 1), writer)
    expect(raced.messages).toBeGreaterThanOrEqual(BEFORE_WRITE)
    for (let at = BEFORE_WRITE + 1; at <= raced.messages; at++) {
      const { first } = await sendAgain(ledger, `death${at}`, requestOf(ledger, kind, at), {
        ...writer,
        [at]: 'death',
      })
      // 200: all was kept before that message, or fewer were needed than in the race before.
      expect([200, 503], `${at}`).toContain(first.status)
    }
  })
})

describe('the process of a request freezes', () => {
  const increment = (ledger: Ledger) => batchOf(ledger, [{ op: 'increment', id: ledger.id, field: 'v' }])
  const creation = (ledger: Ledger) => batchOf(ledger, [{ op: 'create', data: { k: 'c' } }])
  const patch = (ledger: Ledger) => patchOf(ledger, { d: 1 })

  test.each([
    ['increment', increment, 2],
    ['increment', increment, BEFORE_WRITE],
    ['create', creation, 2],
    ['PATCH', patch, BEFORE_WRITE],
  ] as const)(
    '%s: another process takes the request over, then it wakes up: it changes nothing more',
    async (_, requestOf, at) => {
      const ledger = await openLedger()
      const request = requestOf(ledger)
      const { first, again, wake } = await freeze(ledger, request, at)
      const answer = await askUntilAnswered(ledger, again)
      expect(answer.status).toBe(200)
      wake()
      const { status, body } = await first
      // It has lost its claim. If it asks for it again, it gets the reply of the other process.
      expect([status, status === 200 ? body : body.code]).toEqual(
        status === 200 ? [200, answer.body] : [409, 'idempotency_in_flight'],
      )
      expect((await again()).body).toEqual(answer.body)
      const { body: all } = await call('GET', DOCUMENTS, { as: ledger.workspace.service })
      const versions = all.data.map((document: { _version: number }) => document._version)
      expect(versions).toEqual(request.changes === 0 ? [1, 1] : [2])
    },
  )

  test('a request that takes long: its lease is renewed until it is answered', async () => {
    const ledger = await openLedger()
    const { first, again, wake } = await freeze(ledger, increment(ledger), 2)
    await eventually(async () => {
      const [row] = await asSuperuser<{ renewed: boolean }>(
        `select held_until > made_at + ($2 + 1) * interval '1 second' as renewed
         from tenon.idempotency where workspace_id = $1`,
        [ledger.workspace.workspaceId, ACCESS_LIMITS.idempotencyLeaseSeconds],
      )
      return row?.renewed || undefined
    })
    expect((await again()).body.code).toBe('idempotency_in_flight')
    wake()
    const { status, body } = await first
    expect(status).toBe(200)
    expect((await again()).body).toEqual(body)
  })
})

const FAULTS = ['death', 'mute death', 'cut'] as const

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
        { op: 'patch', id, data: { [`p${n}`]: n } },
        { op: 'update', id, data: { u: n } },
        { op: 'replace', id, data: { k: 'hot', v: ledger.increments, r: n } },
        { op: 'upsert', on: ['k'], data: { k: 'hot', up: n } },
        { op: 'create', data: { k: `c${n}` } },
        { op: 'upsert', on: ['k'], data: { k: `u${n}` } },
        { op: 'delete', id: doomed },
      ]
      const ops = changes.slice(random(changes.length)).slice(0, 1 + random(3))
      const request =
        random(4) === 0 ? patchOf(ledger, { [`d${n}`]: n }) : batchOf(ledger, ops, random(3) > 0)
      // A replace has the number of increments in it, so those before it in the batch would be lost.
      if (request.increments > 0 && ops.some(({ op }) => op === 'replace')) continue
      const { reply } = await sendAgain(ledger, `${seed}-${n}`, request, {
        ...(random(2) === 0 && { [BEFORE_WRITE]: () => writeElsewhere(ledger) }),
        [4 + random(9)]: FAULTS[random(FAULTS.length)] ?? 'cut',
      })
      if (request.method === 'PATCH') continue
      for (const [index, { op, data }] of ops.entries()) {
        if (op === 'delete') made.delete(`doomed${n}`)
        else if (data?.['k'] !== undefined) made.set(String(data['k']), reply.body.results[index].id)
      }
    }
    const { body } = await call('GET', `${DOCUMENTS}?page[size]=100`, { as: ledger.workspace.service })
    const stored = (body.data as { k: string; id: string }[]).map(({ k, id }) => [k, id])
    expect(stored.sort()).toEqual([...made].sort())
  },
)
