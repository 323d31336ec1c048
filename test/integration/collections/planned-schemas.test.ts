/** Plans of declarations: the changes with their effects, applied as planned or not at all by what has changed since. */

import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

type Declaration = Readonly<Record<string, unknown>>

const post = (verb: string, body: object, of = ws) =>
  call('POST', `/v1/schemas/${verb}`, { as: of.operator, body: { workspace_id: of.workspaceId, ...body } })
const plan = (...schemas: readonly Declaration[]) => post('plan', { schemas })
const apply = (fingerprint: string, ...schemas: readonly Declaration[]) =>
  post('apply', { schemas, fingerprint })
/** Plans and applies. @returns the effects, and the reply */
async function planned(...schemas: readonly Declaration[]) {
  const { status, body } = await plan(...schemas)
  expect(status, JSON.stringify(body)).toBe(200)
  const effects = body.changes.map(
    ({ collection, member, effect }: Record<string, string>) => `${collection} ${member} ${effect}`,
  )
  return { effects, fingerprint: body.fingerprint, reply: await apply(body.fingerprint, ...schemas) }
}
const create = (collection: string, body: object) =>
  call('POST', `/v1/collections/${collection}/documents`, { as: ws.service, body })
const read = (id: string) => call('GET', `/v1/schemas/${id}`, { as: ws.operator })

const text = { type: 'string' }
const uuid = { type: 'string', format: 'uuid' }

test('new collections in any order: what others refer to comes first, and a second plan has no changes', async () => {
  const [a, b, c] = [unique('a'), unique('b'), unique('c')]
  const set = [
    {
      ...{ collection: a, store: 'relational', schema: { properties: { b_id: uuid, team: text } } },
      references: [{ field: 'b_id', collection: b, inverse: 'parents' }],
    },
    {
      collection: b,
      store: 'relational',
      schema: { properties: { c_id: uuid } },
      references: [{ field: 'c_id', collection: c }],
    },
    { collection: c, store: 'relational', schema: {} },
  ]
  const first = await planned(...set)
  expect(first.effects).toEqual([c, b, a].map((name) => `${name} collection instant`))
  expect(first.reply.status, JSON.stringify(first.reply.body)).toBe(200)
  expect(first.reply.body.applied).toMatchObject([
    { collection: c, revision: 0 },
    { collection: b },
    { collection: a },
  ])
  const again = await planned(...set)
  expect([again.effects, again.reply.body]).toEqual([[], { applied: [] }])
  const exported = await call('GET', `/v1/schemas/export?workspace_id=${ws.workspaceId}`, { as: ws.operator })
  const own = exported.body.schemas.filter(({ collection }: { collection: string }) =>
    [a, b, c].includes(collection),
  )
  expect((await planned(...own)).effects).toEqual([])
})

test('effects of each member: told before, and made', async () => {
  const name = unique('c')
  const start = {
    collection: name,
    store: 'relational',
    schema: { properties: { n: { type: 'integer' }, title: text } },
  }
  await planned(start)
  await create(name, { n: 1, title: 'a' })
  const steps: [Declaration, string[]][] = [
    [{ indexes: [{ fields: ['n'] }] }, ['indexes index']],
    [{ unique: [['title']], indexes: [] }, ['unique index', 'indexes instant']],
    [{ checks: [{ name: 'positive', check: { n: { gt: 0 } } }] }, ['checks instant']],
    [{ access: { user: { read: true } } }, ['access instant']],
    [{ checks: [], unique: [] }, ['unique instant', 'checks instant']],
    [
      { schema: { properties: { n: { type: 'number' }, title: text } } },
      ['schema instant', 'schema rewrite'],
    ],
    [
      { schema: { properties: { n: { type: 'number' }, label: text } }, renamed_from: { label: 'title' } },
      ['renamed_from instant'],
    ],
    [
      {
        schema: { properties: { n: { type: 'number' }, label: text, state: text }, required: ['state'] },
        backfill: { state: 'open' },
      },
      ['backfill rewrite', 'schema validate', 'schema rewrite'],
    ],
    [{ ttl: { field: '_created_at', after: '1000d' } }, ['indexes index', 'ttl destructive']],
    [{ ttl: null }, ['indexes instant', 'ttl instant']],
    [{ mode: 'warn' }, ['mode instant']],
  ]
  let declared: Declaration = start
  for (const [change, effects] of steps) {
    const wanted: Declaration = { ...declared, ...change }
    const { renamed_from: _, backfill: __, ...kept } = wanted
    declared = kept
    const made = await planned(wanted)
    expect(made.effects).toEqual(effects.map((effect) => `${name} ${effect}`))
    expect(made.reply.status, JSON.stringify(made.reply.body)).toBe(200)
    const [{ operation_id }] = made.reply.body.applied
    if (operation_id !== undefined) await ended(operation_id)
    expect((await planned(wanted)).effects).toEqual([])
  }
  const { body } = await call('GET', `/v1/collections/${name}/documents`, { as: ws.service })
  expect(body.data).toMatchObject([{ n: 1, label: 'a', state: 'open', _version: 1 }])
})

async function ended(operation: string): Promise<void> {
  for (;;) {
    const { body } = await call('GET', `/v1/operations/${operation}`, {
      as: ws.operator,
      headers: { prefer: 'wait=5' },
    })
    if (body.finished_at !== null) return expect(body.state).toBe('succeeded')
  }
}

test('collection with documents: declared by a plan, with their ids and versions', async () => {
  const name = unique('c')
  const made = await create(name, { n: 1 })
  const wanted = { collection: name, store: 'relational', schema: { properties: { n: { type: 'integer' } } } }
  const { effects, reply } = await planned(wanted)
  expect(effects).toEqual(
    ['collection instant', 'schema validate', 'collection rewrite'].map((one) => `${name} ${one}`),
  )
  expect(reply.status).toBe(200)
  const { body } = await call('GET', `/v1/collections/${name}/documents?n=eq.1`, { as: ws.service })
  expect(body.data).toEqual([made.body])
})

test('something has changed since: 409 plan_outdated, and nothing is done', async () => {
  const [name, other] = [unique('a'), unique('b')]
  const start = [name, other].map((collection) => ({ collection, store: 'relational', schema: {} }))
  const { reply } = await planned(...start)
  const wanted = start.map((one) => ({ ...one, schema: { title: 'new' } }))
  const { body } = await plan(...wanted)
  const [, { schema_id }] = reply.body.applied
  await call('PUT', `/v1/schemas/${schema_id}`, { as: ws.operator, body: { schema: { title: 'mine' } } })
  const late = await apply(body.fingerprint, ...wanted)
  expect([late.status, late.body.code]).toEqual([409, 'plan_outdated'])
  for (const fingerprint of ['', 'none', body.fingerprint.toUpperCase()])
    expect((await apply(fingerprint, ...wanted)).body.code).toBe('plan_outdated')
  const others = await apply(body.fingerprint, ...wanted.slice(0, 1))
  expect(others.body.code).toBe('plan_outdated')
  expect((await read(reply.body.applied[0].schema_id)).body.revision).toBe(0)
  expect((await read(schema_id)).body).toMatchObject({ revision: 1, schema: { title: 'mine' } })
})

test('several applies at once: one wins, the others are outdated', async () => {
  for (let round = 0; round < 3; round++) {
    const names = [unique('a'), unique('b')]
    const set = names.map((collection) => ({ collection, store: 'relational', schema: {} }))
    for (const wanted of [set, set.map((one) => ({ ...one, schema: { title: 'new' } }))]) {
      const { body } = await plan(...wanted)
      const replies = await Promise.all([1, 2, 3].map(() => apply(body.fingerprint, ...wanted)))
      const codes = replies.map(({ status, body: { code } }) => code ?? status).sort()
      expect(codes).toEqual([200, 'plan_outdated', 'plan_outdated'])
      expect(replies.find(({ status }) => status === 200)?.body.applied).toHaveLength(2)
    }
  }
})

test('one that documents do not fit: named, and what was done before it is told', async () => {
  const [name, other] = [unique('a'), unique('b')]
  const start = [name, other].map((collection) => ({ collection, store: 'relational', schema: {} }))
  await planned(...start)
  await create(other, { n: 'x' })
  const wanted = start.map((one) => ({ ...one, schema: { properties: { n: { type: 'integer' } } } }))
  const { reply } = await planned(...wanted)
  expect([reply.status, reply.body]).toMatchObject([
    409,
    { code: 'schema_incompatible', collection: other, applied: [{ collection: name, revision: 1 }] },
  ])
  expect((await plan(...wanted)).body.changes[0].collection).toBe(other)
})

test.each<[string, Declaration[], number]>([
  [
    'one collection twice',
    [
      { collection: 'twice', store: 'relational', schema: {} },
      { collection: 'twice', store: 'document', schema: {} },
    ],
    400,
  ],
  ['a faulty schema', [{ collection: 'faulty', store: 'relational', schema: { type: 'text' } }], 422],
  ['an unknown member', [{ collection: 'unknown', store: 'relational', schema: {}, more: 1 }], 400],
  ...(
    [
      ['a reference to nothing', { references: [{ field: 'n_id', collection: 'nowhere' }] }],
      ['an index on no field', { indexes: [{ fields: ['m'] }] }],
    ] as const
  ).map(([what, more]): [string, Declaration[], number] => [
    what,
    [{ collection: 'refused', store: 'relational', schema: { properties: { n_id: uuid } }, ...more }],
    400,
  ]),
])('%s: refused', async (_what, schemas, status) => {
  expect((await plan(...schemas)).status).toBe(status)
})

test('workspace of others, and keys: refused', async () => {
  const other = await createTestWorkspace()
  const body = { workspace_id: other.workspaceId, schemas: [], fingerprint: 'x' }
  for (const verb of ['plan', 'apply']) {
    const { fingerprint, ...unplanned } = body
    const sent = verb === 'plan' ? unplanned : { ...unplanned, fingerprint }
    const refused = await call('POST', `/v1/schemas/${verb}`, { as: other.service, body: sent })
    expect(refused.body.code).toBe('privilege_domain_mismatch')
  }
})
