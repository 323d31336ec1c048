/** The right to aggregate: closed by default, of the documents that `read` admits, bounded, and no oracle of others. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createIn, declaredWithRules, declareWithRules } from '../../support/fixtures/access-rules.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia', { team: 'red' })
  ben = await userToken(workspace, 'ben', { team: 'blue' })
})

const declared = (access: object) => declaredWithRules(workspace, access)
const ask = (at: string, as: Caller, query: string) => call('GET', `${at}/aggregate?${query}`, { as })
const askBody = (at: string, as: Caller, body: object) => call('POST', `${at}/aggregate`, { as, body })

describe('the right', () => {
  test('not named: anon keys and users are refused, service keys are not', async () => {
    const { at, collection } = await declared({ anon: { read: true }, user: { read: true } })
    for (const as of [workspace.anon, mia])
      for (const reply of [
        await ask(at, as, 'select=count()'),
        await askBody(at, as, { measures: { n: { count: true } } }),
      ]) {
        expect([reply.status, reply.body.code]).toEqual([403, 'forbidden'])
        expect(reply.body.detail).toContain(`may not aggregate documents of ${collection}`)
        expect(reply.body.hint).toContain('"aggregate"')
      }
    expect((await ask(at, workspace.service, 'select=count()')).body).toEqual({ count: 0 })
  })

  test('true: anon keys and users aggregate what they may read', async () => {
    const { at } = await declared({
      anon: { read: true, aggregate: true },
      user: { read: true, aggregate: true },
    })
    for (const as of [workspace.anon, mia])
      expect((await ask(at, as, 'select=count()')).body).toEqual({ count: 0 })
  })

  test('undeclared collection, which anon keys read by the setting: not open to aggregates', async () => {
    const open = await createTestWorkspace()
    const settings = { workspace_id: open.workspaceId, anon: { collections: 'read' } }
    expect((await call('POST', '/v1/services/configure', { as: open.operator, body: settings })).status).toBe(
      200,
    )
    await call('POST', '/v1/collections/notes/documents', { as: open.service, body: { n: 1 } })
    expect((await call('GET', '/v1/collections/notes/documents', { as: open.anon })).status).toBe(200)
    expect((await ask('/v1/collections/notes', open.anon, 'select=count()')).status).toBe(403)
  })

  test('without read, or as a filter: the declaration is refused', async () => {
    const closed = (await declareWithRules(workspace, { user: { aggregate: true } })).reply
    expect(closed.body).toMatchObject({ status: 400, code: 'validation_failed' })
    expect(closed.body.detail).toContain('must be able to read')
    const filter = (await declareWithRules(workspace, { user: { read: true, aggregate: { team: 'red' } } }))
      .reply
    expect(filter.status).toBe(400)
  })

  test('key with other scopes: refused', async () => {
    const body = {
      workspace_id: workspace.workspaceId,
      kind: 'service',
      name: 'events',
      scopes: ['events:read'],
    }
    const { key } = (await call('POST', '/v1/api-keys', { as: workspace.operator, body })).body
    const reply = await ask('/v1/collections/things', { apikey: key }, 'select=count()')
    expect(reply.body.code).toBe('insufficient_scope')
  })
})

describe('users under a rule', () => {
  let at: string
  beforeAll(async () => {
    at = (
      await declared({
        anon: { read: { status: 'public' }, aggregate: true },
        user: { read: { team: '$user.claims.team' }, create: true, aggregate: true },
      })
    ).at
    for (const [team, level] of [
      ['red', 1],
      ['red', 2],
      ['blue', 100],
      ['blue', 1_000],
    ] as const)
      await createIn(at, workspace.service, { team, level, status: 'secret', title: `${team} ${level}` })
    await createIn(at, workspace.service, { level: 7, status: 'public' })
  })

  test('measures, groups, having and order are of what they may read alone', async () => {
    const select =
      'select=team,status,n:count(),total:level.sum(),most:level.max(),last:title.max(),mean:level.avg()'
    const row = (team: string, total: number, most: number) => ({
      ...{ team, status: 'secret', n: 2, total, most, last: `${team} ${most}`, mean: total / 2 },
    })
    expect((await ask(at, mia, select)).body.data).toEqual([row('red', 3, 2)])
    expect((await ask(at, ben, select)).body.data).toEqual([row('blue', 1_100, 1_000)])
    expect((await ask(at, workspace.anon, 'select=n:count(),total:level.sum()')).body).toEqual({
      n: 1,
      total: 7,
    })
    for (const more of [
      '&having=total.gt.3',
      '&having=most.gte.100',
      '&team=eq.blue',
      '&level=gt.2',
      '&title=like.blue*',
    ])
      expect((await ask(at, mia, select + more)).body.data).toEqual([])
    expect((await ask(at, mia, `${select}&order=total.desc&page[size]=1`)).body.page.has_more).toBe(false)
    expect((await ask(at, mia, 'select=n:count(),k:team.count_distinct()')).body).toEqual({ n: 2, k: 1 })
    expect((await ask(at, mia, 'select=n:count(),total:level.sum()&team=eq.blue')).body).toEqual({
      n: 0,
      total: null,
    })
  })

  test('an index on the tested field changes nothing of it', async () => {
    const indexed = (
      await declaredWithRules(
        workspace,
        { user: { read: { team: '$user.claims.team' }, aggregate: true } },
        { indexes: [{ fields: ['level'] }, { fields: ['team'] }] },
      )
    ).at
    for (const team of ['red', 'blue']) await createIn(indexed, workspace.service, { team, level: 5 })
    expect((await ask(indexed, mia, 'select=level,n:count()')).body.data).toEqual([{ level: 5, n: 1 }])
    expect((await ask(indexed, mia, 'select=level.max()&level=gt.4')).body).toEqual({ max: 5 })
  })

  test('cursor of another caller: refused or of what they may read', async () => {
    const first = await ask(at, workspace.service, 'select=team,count()&page[size]=1')
    const query = `select=team,count()&page[size]=1&page[after]=${encodeURIComponent(first.body.page.next)}`
    const next = await ask(at, mia, query)
    if (next.status === 200) expect(JSON.stringify(next.body)).not.toContain('blue')
    else expect(next.status).toBe(400)
  })

  test('other workspace: its own documents alone, and no other cursor', async () => {
    const other = await createTestWorkspace()
    const reply = await call('GET', `${at}/aggregate?select=count()`, { as: other.service })
    expect(reply.body).toEqual({ count: 0 })
    const { next } = (await ask(at, workspace.service, 'select=team,count()&page[size]=1')).body.page
    const path = `${at}/aggregate?select=team,count()&page[size]=1&page[after]=${encodeURIComponent(next)}`
    expect((await call('GET', path, { as: other.service })).body.code).toBe('cursor_invalid')
  })
})

test('more than a million planned rows: users and anon keys are refused, service keys are not', async () => {
  const { at, collection } = await declared({
    anon: { read: true, aggregate: true },
    user: { read: true, aggregate: true },
  })
  for (const level of [1, 2, 3]) await createIn(at, workspace.service, { level })
  const [row] = await asSuperuser<{ relation: string }>(
    'select relation from tenon.schemas where workspace_id = $1 and collection = $2',
    [workspace.workspaceId, collection],
  )
  const table = `tenon_data."${row?.relation}"`
  await asSuperuser(`analyze ${table}`)
  expect((await ask(at, mia, 'select=count()')).body).toEqual({ count: 3 })
  await asSuperuser(`update pg_class set reltuples = 2000000 where oid = '${table}'::regclass`)
  for (const as of [mia, workspace.anon]) {
    const reply = await ask(at, as, 'select=count()')
    expect([reply.status, reply.body.code]).toEqual([422, 'query_too_costly'])
  }
  expect((await ask(at, workspace.service, 'select=count()')).body).toEqual({ count: 3 })
})

test('many at once: each is answered, two at a time', async () => {
  const name = unique('busy')
  await call('POST', `/v1/collections/${name}/documents`, { as: workspace.service, body: { n: 1 } })
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => ask(`/v1/collections/${name}`, workspace.service, 'select=n:n.sum()')),
  )
  expect(replies.map(({ body }) => body)).toEqual(replies.map(() => ({ n: 1 })))
})
