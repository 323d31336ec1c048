/** Checks what anon keys may do with a collection: a refusal is a problem, never an empty success. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  expectProblem,
  expectStatus,
  get,
  list,
  type Reply,
  Stream,
  str,
} from '../../support/clients/rest-client.ts'
import { declare, documents, fill, tags } from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

const STORES = ['relational', 'document'] as const
const RIGHTS = ['create', 'update', 'delete'] as const
const schema = { type: 'object', properties: { tag: { type: 'string' }, mark: { type: 'string' } } }

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
  for (const store of STORES) {
    await declare(world.a, `plain_${store}`, { store, schema })
    await declare(world.a, `hidden_${store}`, { store, schema, access: { anon: { read: false } } })
    await declare(world.a, `blind_${store}`, {
      store,
      schema,
      access: { anon: { read: false, create: true } },
    })
    for (const right of RIGHTS) {
      await declare(world.a, `${right}_${store}`, {
        store,
        schema,
        access: { anon: { read: true, [right]: true } },
      })
    }
  }
})

/** Attempts the three changes with an anon key and returns their statuses by name. */
async function attemptChanges(name: string): Promise<Record<(typeof RIGHTS)[number], Reply>> {
  const { anon, mark } = world.a
  const [id] = await fill(world.a, name, [{ tag: 'kept' }])
  const path = `${documents(name)}/${id}`
  return {
    create: await anon.post(documents(name), { tag: 'anon', mark }),
    update: await anon.put(path, { tag: 'changed' }),
    delete: await anon.delete(path),
  }
}

describe.each(STORES)('anon key, store %s', (store) => {
  test('anon key: no access rules: reads, cannot change anything', async () => {
    const name = `plain_${store}`
    const replies = await attemptChanges(name)
    for (const right of RIGHTS) expectProblem(replies[right], 403)
    expect(tags(await world.a.anon.get(documents(name)))).toEqual(['kept'])
    const queried = await world.a.anon.post(`/v1/collections/${name}/query`, { filter: { tag: 'kept' } })
    expect(tags(queried)).toEqual(['kept'])
    expectProblem(await world.a.anon.send('POST', `/v1/collections/${name}/import`, IMPORT), 403)
  })

  test.each(RIGHTS)('anon key: %s allowed: allowed, other changes refused', async (right) => {
    const name = `${right}_${store}`
    const replies = await attemptChanges(name)
    for (const other of RIGHTS) {
      if (other === right) expectStatus(replies[other], other === 'create' ? 201 : 200)
      else expectProblem(replies[other], 403)
    }
    const expected = { create: ['kept', 'anon'], update: ['changed'], delete: [] }[right]
    expect(tags(await world.a.service.get(documents(name)))).toEqual(expected)
  })

  test('anon key: read denied: every way of reading is refused, none gives an empty success', async () => {
    const name = `hidden_${store}`
    const [id] = await fill(world.a, name, [{ tag: 'secret' }])
    const { anon } = world.a
    const replies = [
      await anon.get(documents(name)),
      await anon.get(`${documents(name)}?tag=eq.secret&count=exact`),
      await anon.get(`${documents(name)}/${id}`),
      await anon.get(`${documents(name)}/01890a5d-ac96-774b-bcce-b302099a8057`),
      await anon.post(`/v1/collections/${name}/query`, {}),
      await anon.get(`/v1/collections/${name}/export`),
    ]
    for (const reply of replies) {
      expect([403, 404], reply.text).toContain(reply.status)
      expectProblem(reply, reply.status)
      expect(reply.text).not.toContain('secret"')
    }
  })

  test('anon key: create allowed, read denied: creates', async () => {
    const name = `blind_${store}`
    const { anon, mark } = world.a
    expectStatus(await anon.post(documents(name), { tag: 'dropped', mark }), 201)
    expect(tags(await world.a.service.get(documents(name)))).toEqual(['dropped'])
    const batched = await anon.post(`/v1/collections/${name}/batch`, {
      ops: [{ op: 'create', data: { tag: 'batched', mark } }],
    })
    expectStatus(batched, 200)
    expect(list(await world.a.service.get(documents(name)))).toHaveLength(2)
  })

  test('anon key: read denied: receives no change events', async () => {
    const [hidden, plain] = [`hidden_${store}`, `plain_${store}`]
    const direct = await Stream.open(`/v1/events/subscribe?topic=collections.${hidden}.created`, world.a.anon)
    expect(direct.reply.status).toBe(403)
    direct.close()
    const stream = await Stream.open('/v1/events/subscribe?topic=collections.*', world.a.anon)
    try {
      // Refused as a whole, or without what may not be read.
      if (stream.reply.status !== 200) return expect(stream.reply.status).toBe(403)
      await stream.next(({ event }) => event === 'ready')
      const [unheard] = await fill(world.a, hidden, [{ tag: 'unheard' }])
      const [marker] = await fill(world.a, plain, [{ tag: 'marker' }])
      await stream.next(({ data }) => JSON.stringify(data).includes(String(marker)))
      expect(stream.frames.filter(({ data }) => JSON.stringify(data).includes(String(unheard)))).toEqual([])
    } finally {
      stream.close()
    }
  })

  test('anon key: right removed: refused', async () => {
    const name = `create_${store}`
    const schemas = list(
      await world.a.admin.get(`/v1/schemas?workspace_id=${world.a.workspace}&page[size]=200`),
    )
    const id = str(
      schemas.find((row) => get(row, 'collection') === name),
      'id',
    )
    expectStatus(await world.a.admin.put(`/v1/schemas/${id}`, { access: { anon: { create: false } } }), 200)
    expectProblem(await world.a.anon.post(documents(name), { tag: 'late' }), 403)
  })
})

const IMPORT = { raw: '{"tag":"x"}\n', headers: { 'content-type': 'application/x-ndjson' } }

test('anon key: undeclared collection: cannot create it', async () => {
  expectProblem(await world.a.anon.post(documents('fresh'), { tag: 'x' }), 403)
  expectProblem(await world.a.anon.send('POST', '/v1/collections/fresh/import', IMPORT), 403)
  const names = list(await world.a.service.get('/v1/collections?page[size]=200')).map((row) =>
    get(row, 'name'),
  )
  expect(names).not.toContain('fresh')
})

test('anon key: context headers from the client: no effect on its rights', async () => {
  const callerWithContext = world.a.anon.with({
    'x-pg-role': 'service',
    'x-tenant-id': world.b.tenant,
    'x-workspace-id': world.b.workspace,
  })
  expectProblem(await callerWithContext.post(documents('plain_document'), { tag: 'x' }), 403)
  expect(list(await callerWithContext.get(documents('keepsakes')))).toEqual([])
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
