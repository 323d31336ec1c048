/** Changes with a key meet other writers and faults at any message to PostgreSQL: what was acknowledged is stored exactly once. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { LIMITS } from '../../../src/core/limits.ts'
import { send } from '../../support/clients/idempotency.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import {
  type Fault,
  type StatementProxy,
  startStatementProxy,
} from '../../support/servers/statement-proxy.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let proxy: StatementProxy
let node: Node
beforeAll(async () => {
  proxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  node = await startInProcessNode({ DATABASE_APP_URL: proxy.url })
})
afterAll(async () => {
  proxy?.script()
  await node?.close()
  proxy?.close()
})

const DOCUMENTS = '/v1/collections/hot/documents'
const BATCH = '/v1/collections/hot/batch'

/** A collection with one document that all write, and the number of changes of it that were acknowledged. */
interface Ledger {
  readonly workspace: TestWorkspace
  readonly path: string
  readonly id: string
  changes: number
  increments: number
}

async function openLedger(): Promise<Ledger> {
  const workspace = await createTestWorkspace()
  const schema = { type: 'object', properties: { k: { type: 'string' } }, required: ['k'] }
  const body = {
    workspace_id: workspace.workspaceId,
    collection: 'hot',
    store: 'relational',
    schema,
    unique: [['k']],
  }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const ledger = { workspace, changes: 0, increments: 0 }
  const id = await create(ledger, 'hot')
  return { ...ledger, id, path: `${DOCUMENTS}/${id}` }
}

const create = async ({ workspace }: Pick<Ledger, 'workspace'>, k: string): Promise<string> =>
  (await call('POST', DOCUMENTS, { as: workspace.service, body: { k, v: 0 } })).body.id

/** Another writer, which is acknowledged by another process. */
async function writeElsewhere(ledger: Ledger): Promise<void> {
  const body = { w: ledger.changes }
  const { status } = await call('PATCH', ledger.path, { as: ledger.workspace.service, body })
  expect(status).toBe(200)
  ledger.changes += 1
}

interface Request {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly body: unknown
  /** How many changes of the document it makes, and how many of them are increments. */
  readonly changes: number
  readonly increments: number
}

interface Op {
  readonly op: string
  readonly id?: string
  readonly field?: string
  readonly on?: readonly string[]
  readonly data?: Readonly<Record<string, unknown>>
}

const batchOf = (ledger: Ledger, ops: readonly Op[], atomic = true): Request => ({
  ...{ method: 'POST', path: BATCH, body: { ops, atomic } },
  changes: ops.filter(({ id, data }) => id === ledger.id || data?.['k'] === 'hot').length,
  increments: ops.filter(({ op }) => op === 'increment').length,
})

const patchOf = ({ path }: Ledger, body: object): Request => ({
  ...{ method: 'PATCH', path, body, changes: 1, increments: 0 },
})

/** The node has a connection, and knows the caller and the collection: the first message of the next request is its claim. */
const warmUp = ({ workspace, path }: Ledger) =>
  eventually(async () => {
    const { status } = await call('GET', path, { as: workspace.service, at: node.at })
    return status === 200 || undefined
  })

/**
 * Sends the request with the faults, then again until it is answered, and compares the replies and the ledger with what is
 * stored. The leases of a dead process are over at once.
 */
async function sendAgain(ledger: Ledger, key: string, request: Request, faults: Record<number, Fault>) {
  const { workspace, path } = ledger
  const ask = () => send(request.method, workspace.service, key, request.body, request.path, node.at)
  await warmUp(ledger)
  proxy.script(faults)
  const first = await ask()
  const { messages } = proxy
  proxy.script()
  const reply = await eventually(async () => {
    await asSuperuser(
      'update tenon.idempotency set held_until = now() where workspace_id = $1 and held_until > now()',
      [workspace.workspaceId],
    )
    const again = await ask()
    return again.status >= 500 || again.body.code === 'idempotency_in_flight' ? undefined : again
  })
  ledger.changes += request.changes
  ledger.increments += request.increments
  const told = { key, request, faults }
  if (first.status < 300) expect({ told, body: reply.body }).toEqual({ told, body: first.body })
  expect({ told, body: (await ask()).body }).toEqual({ told, body: reply.body })
  const { body: now } = await call('GET', path, { as: workspace.service })
  expect({ told, status: reply.status, version: now._version, v: now.v }).toEqual({
    ...{ told, status: reply.status < 300 ? reply.status : 200 },
    ...{ version: 1 + ledger.changes, v: ledger.increments },
  })
  return { first, reply, messages }
}

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
  /** Sends the request to the node, which waits for the answer to a message that is held until it wakes up. */
  const freeze = async (ledger: Ledger, request: Request, at: number) => {
    await warmUp(ledger)
    const { promise, resolve: wake } = Promise.withResolvers<void>()
    let isAsleep = false
    proxy.script({
      [at]: () => {
        isAsleep = true
        return promise
      },
    })
    const ask = (where = inject('tenon')) =>
      send(request.method, ledger.workspace.service, 'k', request.body, request.path, where)
    const first = ask(node.at)
    await eventually(async () => isAsleep || undefined)
    return { first, again: ask, wake }
  }
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
      const taken = await eventually(async () => {
        await asSuperuser('update tenon.idempotency set held_until = now() where workspace_id = $1', [
          ledger.workspace.workspaceId,
        ])
        const reply = await again()
        return reply.body.code === 'idempotency_in_flight' ? undefined : reply
      })
      expect(taken.status).toBe(200)
      wake()
      const { status, body } = await first
      expect([status, body.code]).toEqual([409, 'idempotency_in_flight'])
      expect((await again()).body).toEqual(taken.body)
      const { body: all } = await call('GET', DOCUMENTS, { as: ledger.workspace.service })
      const versions = all.data.map((document: { _version: number }) => document._version)
      expect(versions).toEqual(request.changes === 0 ? [1, 1] : [2])
    },
  )

  test('a request that takes longer than a lease: it keeps its claim until it is answered', async () => {
    const ledger = await openLedger()
    const { first, again, wake } = await freeze(ledger, increment(ledger), 2)
    const claim = await eventually(async () => {
      const [row] = await asSuperuser<{ held: boolean; old: boolean }>(
        `select held_until > now() as held, now() > made_at + $2 * interval '1 second' as old
         from tenon.idempotency where workspace_id = $1`,
        [ledger.workspace.workspaceId, LIMITS.idempotencyLeaseSeconds],
      )
      return row?.old ? row : undefined
    })
    expect(claim.held).toBe(true)
    expect((await again()).body.code).toBe('idempotency_in_flight')
    wake()
    const { status, body } = await first
    expect(status).toBe(200)
    expect((await again()).body).toEqual(body)
  })
})

/** A number generator (mulberry32), below `max`. */
function randomOf(seed: number): (max: number) => number {
  let state = seed
  return (max) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % max
  }
}

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
