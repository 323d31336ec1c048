/** The declaration of rules: what is refused and where, warnings; and their explanation. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  createIn,
  declaredWithRules,
  declareWithRules,
  TICKETS,
} from '../../support/fixtures/access-rules.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let mia: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia', { team: 'red' })
})

const declare = (access: unknown, more: object = {}) => declareWithRules(workspace, access, more)
const declared = (access: object, more: object = {}) => declaredWithRules(workspace, access, more)

describe('the declaration of a rule', () => {
  test.each([
    ['of an unknown field', { user: { read: { tean: 'x' } } }, '/access/user/read', 'did you mean team'],
    [
      'with an unknown variable',
      { user: { read: { team: '$user.claim.team' } } },
      '/access/user/read',
      '$user.claims',
    ],
    [
      'that compares a number with an address',
      { user: { read: { level: '$user.email' } } },
      '/access/user/read',
      'integer',
    ],
    ['with a literal of another type', { user: { read: { level: 'high' } } }, '/access/user/read', 'integer'],
    ['with $now for a text', { user: { read: { level: { lt: '$now' } } } }, '/access/user/read', 'integer'],
    ['for anon keys with a user', { anon: { read: { _owner: '$user.id' } } }, '/access/anon/read', 'no user'],
    [
      'with an unknown operator',
      { user: { read: { team: { equals: 'x' } } } },
      '/access/user/read',
      'operator',
    ],
    [
      'with a variable for like',
      { user: { read: { team: { like: '$user.id' } } } },
      '/access/user/read',
      'takes no variable',
    ],
    [
      'with a variable inside of an object',
      { user: { read: { tags: { cs: { a: '$user.id' } } } } },
      '/access/user/read',
      'a whole value or an element of a list',
    ],
    ['that updates without reading', { user: { update: true } }, '/access/user/read', 'be able to read'],
    ['that is a text', { user: { read: 'yes' } }, '/access/user/read', ''],
    ['of an unknown role', { admin: { read: true } }, '/access', ''],
    ['that is nested too deep', { user: { read: nested(12) } }, '/access/user/read', 'levels'],
    [
      'with too many tests',
      { user: { read: { $or: Array(40).fill({ team: 'x' }) } } },
      '/access/user/read',
      'at most 30',
    ],
    [
      'whose patterns are long',
      { user: { read: { $or: ['a', 'b'].map((one) => ({ title: { like: `*${one.repeat(260)}*` } })) } } },
      '/access/user/read',
      'at most 500 characters',
    ],
    [
      'of 100 KB',
      { user: { read: { team: { in: Array(9_000).fill('0123456789') } } } },
      '/access/user/read',
      'characters',
    ],
  ])('%s – is refused with its place', async (_what, access, pointer, words) => {
    const { reply } = await declare(access)
    expect([reply.status, reply.body.code], JSON.stringify(reply.body)).toEqual([400, 'validation_failed'])
    expect(JSON.stringify(reply.body.errors.map((error: { pointer: string }) => error.pointer))).toContain(
      pointer,
    )
    expect(JSON.stringify(reply.body)).toContain(words)
  })

  function nested(levels: number): object {
    return levels === 0 ? { team: 'x' } : { $or: [nested(levels - 1)] }
  }

  test('that no index serves – is accepted with a warning', async () => {
    const read = { _owner: '$user.id' }
    const { reply } = await declare({ user: { read } })
    expect([reply.status, reply.body.warnings]).toEqual([
      201,
      [{ pointer: '/access/user/read', detail: expect.stringContaining('_owner') }],
    ])
    const served = await declare({ user: { read } }, { indexes: [{ fields: ['_owner', 'status'] }] })
    expect([served.reply.status, served.reply.body.warnings]).toEqual([201, undefined])
    expect(served.reply.body.access).toEqual({ user: { read } })
  })

  test.each([
    ['numbers', { level: { gt: 5, lt: 1 } }],
    ['two teams at once', { $and: [{ team: 'a' }, { team: 'b' }] }],
    ['its own negation', { $and: [{ _owner: '$user.id' }, { $not: { _owner: '$user.id' } }] }],
    ['none of a list', { team: { in: [] } }],
  ])('that contradicts itself, by %s – admits nothing', async (_what, rule) => {
    const { at } = await declared({ user: { read: rule, create: true, update: rule } })
    const { id } = (await createIn(at, mia, { team: 'a', level: 3 })).body
    expect((await call('GET', `${at}/documents?count=exact`, { as: mia })).body).toMatchObject({
      ...{ data: [], page: { total: 0 } },
    })
    const patched = await call('PATCH', `${at}/documents/${id}`, { as: mia, body: { level: 6 } })
    expect(patched.status).toBe(404)
  })

  test('without any test – is accepted with a warning that says what it admits', async () => {
    const rules = { read: {}, create: { $or: [] }, update: { $and: [{}, { $not: { $or: [] } }] } }
    const { reply } = await declare({ user: rules })
    expect([reply.status, reply.body.warnings]).toEqual([
      201,
      [
        { pointer: '/access/user/read', detail: expect.stringContaining('every document: write true') },
        { pointer: '/access/user/create', detail: expect.stringContaining('no document: write false') },
        { pointer: '/access/user/update', detail: expect.stringContaining('every document: write true') },
      ],
    ])
  })

  test('that takes long for the largest document – is decided at once, and holds nobody up', async () => {
    const hard = { title: { like: `*${'a'.repeat(480)}b*` } }
    const { at } = await declared({ user: { read: hard, create: { $not: hard } } })
    const elapsedMs = stopwatch()
    const made = await createIn(at, mia, { title: 'a'.repeat(260_000) })
    expect(made.status).toBe(201)
    expect(elapsedMs()).toBeLessThan(2_000)
  })

  test('whose values look like SQL – compares them as texts', async () => {
    const texts = ["'; drop table tenon.tenants; --", '%1$L %s %%', '$1', "\\' or true --", '$$ $user.id']
    for (const text of texts) {
      const written = text.startsWith('$') ? `$${text}` : text
      const { at } = await declared({ user: { read: { title: written } } })
      await createIn(at, workspace.service, { title: text })
      await createIn(at, workspace.service, { title: 'other' })
      const { body } = await call('GET', `${at}/documents`, { as: mia })
      expect(body.data.map(({ title }: { title: string }) => title)).toEqual([text])
    }
  })
})

describe('explain', () => {
  let collection: string
  let id: string
  beforeAll(async () => {
    const found = await declared(TICKETS)
    collection = found.collection
    id = (await createIn(found.at, mia, { title: 'help', status: 'open', team: 'red' })).body.id
  })
  const explain = (body: object, as = workspace.operator, name = collection) =>
    call('POST', `/v1/collections/${name}/access/explain`, {
      as,
      body: { workspace_id: workspace.workspaceId, ...body },
    })

  test('a document and a user – shows the rule and each of its tests', async () => {
    const { status, body } = await explain({ as: { id: 'eve', claims: { team: 'red' } }, op: 'read', id })
    expect(status, JSON.stringify(body)).toBe(200)
    expect(body).toEqual({
      ...{ allowed: true, decision: 'allowed', reason: 'access.user.read admits the document.' },
      decided_by: 'access.user.read',
      rule: TICKETS.user.read,
      tests: [
        { test: { _owner: { eq: '$user.id' } }, negated: false, holds: false },
        { test: { team: { eq: '$user.claims.team' } }, negated: false, holds: true },
        { test: { '$user.claims.role': 'admin' }, negated: false, holds: false },
      ],
    })
  })

  test('a document that would be created – is explained as well', async () => {
    const as = { id: 'eve', claims: { team: 'red' } }
    const { body } = await explain({ as, op: 'create', document: { status: 'closed', team: 'red' } })
    expect(body.allowed).toBe(false)
    expect(body.tests).toContainEqual({ test: { status: 'open' }, negated: false, holds: false })
  })

  test('explain: an update rule with $old: depends on the result, and is decided with it', async () => {
    const { at, collection: name } = await declared({ user: { read: true, update: { level: '$old.level' } } })
    const made = (await createIn(at, workspace.service, { title: 'a', level: 1 })).body
    const ask = async (document?: object) => {
      const question = { as: { id: 'eve' }, op: 'update', id: made.id, ...(document && { document }) }
      const { body } = await call('POST', `/v1/collections/${name}/access/explain`, {
        as: workspace.operator,
        body: { workspace_id: workspace.workspaceId, ...question },
      })
      return [body.allowed, body.decision, body.tests[0].holds, body.tests[0].unknown !== undefined]
    }
    expect(await ask()).toEqual([false, 'depends', false, true])
    expect(await ask({ level: 1 })).toEqual([true, 'allowed', true, false])
    expect(await ask({ level: 2 })).toEqual([false, 'denied', false, false])
  })

  test.each(['none', 'read'])(
    'an anon key that the declaration does not name, setting %s of the workspace – is closed; without `access` the setting decides',
    async (collections) => {
      await configure(workspace, { anon: { collections } })
      const silent = await declared({})
      const made = await createIn(silent.at, workspace.service, { title: 'a' })
      const question = { as: 'anon', op: 'read', id: made.body.id }
      const bySetting = (await explain(question, workspace.operator, silent.collection)).body
      expect([bySetting.allowed, bySetting.decided_by]).toEqual([
        collections === 'read',
        'setting anon.collections',
      ])
      const { body } = await explain({ as: 'anon', op: 'read', id })
      expect([body.allowed, body.decided_by]).toEqual([false, 'default'])
      expect((await explain({ as: 'anon', op: 'delete', id })).body).toMatchObject({
        allowed: false,
        decided_by: 'default',
      })
    },
  )

  test('keys, users, and admins of others – may not ask', async () => {
    for (const as of [workspace.service, workspace.anon, mia])
      expect((await explain({ as: 'anon', op: 'read', id }, as)).status).toBe(403)
  })

  test('an unknown document, and none – are clear problems', async () => {
    expect((await explain({ as: 'anon', op: 'read', id: 'nothing' })).status).toBe(404)
    expect((await explain({ as: 'anon', op: 'read' })).body.detail).toContain('id')
  })
})
