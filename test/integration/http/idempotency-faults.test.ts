/** Random keyed changes, lost compare-and-swaps and cut connections: each acknowledged change is stored exactly once. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { send } from '../../support/clients/idempotency.ts'
import { asSuperuser, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

/** Cuts all connections at a message to PostgreSQL, before it is passed on or before its answer is. */
const fault = { in: Number.POSITIVE_INFINITY, isAnswerLost: false, isDown: false }
const sockets = new Set<Socket>()
let wire: Server
let node: Node

beforeAll(async () => {
  const url = new URL(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  wire = createServer((client) => {
    if (fault.isDown) return client.destroy()
    const upstream = connect({ host: url.hostname, port: Number(url.port) })
    let isDeaf = false
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => [client, upstream].map((each) => sockets.delete(each.destroy())))
    }
    client.on('data', (chunk) => {
      fault.in -= 1
      if (fault.in !== 0) return void upstream.write(chunk)
      fault.isDown = true
      if (!fault.isAnswerLost) return cut()
      isDeaf = true
      return void upstream.write(chunk)
    })
    upstream.on('data', (chunk) => (isDeaf ? cut() : client.write(chunk)))
  })
  await new Promise<void>((done) => wire.listen(0, '127.0.0.1', done))
  url.port = String((wire.address() as AddressInfo).port)
  node = await startInProcessNode({ DATABASE_APP_URL: url.href })
})
afterAll(async () => {
  await node?.close()
  for (const socket of sockets) socket.destroy()
  wire?.close()
})

const cut = () => {
  for (const socket of sockets) socket.destroy()
}

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

const BATCH = '/v1/collections/hot/batch'

test.each([1, 2, 3, 4])(
  'keyed changes, seed %i: other writers and a cut at any message, then repeated: each is made once, its reply is its own',
  async (seed) => {
    const random = randomOf(seed)
    const { workspaceId, operator, service } = await createTestWorkspace()
    const schema = { type: 'object', properties: { k: { type: 'string' } }, required: ['k'] }
    const declaration = {
      workspace_id: workspaceId,
      collection: 'hot',
      store: 'relational',
      schema,
      unique: [['k']],
    }
    const declared = await call('POST', '/v1/schemas', { as: operator, body: declaration })
    expect(declared.status).toBe(201)
    const create = (k: string) =>
      call('POST', '/v1/collections/hot/documents', { as: service, body: { k, v: 0 } })
    const hot = (await create('hot')).body.id
    const read = () => call('GET', `/v1/collections/hot/documents/${hot}`, { as: service })
    let [versions, increments] = [1, 0]
    for (let n = 0; n < 14; n++) {
      const doomed = (await create(`doomed${n}`)).body.id
      const changes = [
        { op: 'increment', id: hot, field: 'v' },
        { op: 'patch', id: hot, data: { [`p${n}`]: n } },
        { op: 'update', id: hot, data: { u: n } },
        { op: 'upsert', on: ['k'], data: { k: 'hot', up: n } },
        { op: 'create', data: { k: `c${n}` } },
        { op: 'upsert', on: ['k'], data: { k: `u${n}` } },
        { op: 'delete', id: doomed },
      ]
      const ops = changes.slice(random(7)).slice(0, 1 + random(2))
      const isPatch = random(4) === 0
      const atomic = random(3) > 0
      const body = isPatch ? { [`d${n}`]: n } : { ops, atomic }
      const path = isPatch ? `/v1/collections/hot/documents/${hot}` : BATCH
      const ask = () => send(isPatch ? 'PATCH' : 'POST', service, `${seed}-${n}`, body, path, node.at)
      Object.assign(fault, { in: 1 + random(9), isAnswerLost: random(2) === 0, isDown: false })
      const others = [1, 2].map((w) =>
        call('PATCH', `/v1/collections/hot/documents/${hot}`, { as: service, body: { w: n * 10 + w } }),
      )
      const first = await ask()
      Object.assign(fault, { in: Number.POSITIVE_INFINITY, isDown: false })
      for (const { status } of await Promise.all(others)) versions += status === 200 ? 1 : 0
      // What the process would have done after its death is not done: its lease ends.
      const reply = await eventually(async () => {
        await asSuperuser(
          'update tenon.idempotency set held_until = now() where workspace_id = $1 and status is null and not done',
          [workspaceId],
        )
        const again = await ask()
        return again.status >= 500 || again.body.code === 'idempotency_in_flight' ? undefined : again
      })
      expect([seed, n, reply.status, reply.body.committed ?? true]).toEqual([seed, n, 200, true])
      if (first.status === 200) expect(reply.body).toEqual(first.body)
      expect((await ask()).body).toEqual(reply.body)
      if (!isPatch) increments += ops.filter(({ op }) => op === 'increment').length
      versions += isPatch ? 1 : ops.filter((op) => op.id === hot || op.data?.['k'] === 'hot').length
      const { body: now } = await read()
      expect([seed, n, body, now.v, now._version]).toEqual([seed, n, body, increments, versions])
    }
  },
)
