/** Hostile tokens of end users: each is refused, or gives no more rights than the role `user` has in its own workspace. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { AUDIENCE, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import { type ApiWithIssuers, startApiWithIssuers } from '../../support/stack/api-with-issuers.ts'

const OWN = { _owner: '$user.id' }
/** Documents of their creators, of a team, of an address. */
const NOTES = '/v1/collections/notes/documents'
const ACCESS = {
  user: {
    read: {
      $or: [OWN, { team: '$user.claims.team' }, { email: '$user.email' }, { '$user.claims.admin': true }],
    },
    create: true,
    update: OWN,
    delete: OWN,
  },
}

const ODD_TEXTS: readonly (readonly [string, string])[] = [
  ['empty', ''],
  ['a space', ' '],
  ['a star', '*'],
  ['5 KB', 'x'.repeat(5_000)],
  ['a zero byte', '\u0000'],
  ['half a character', '\ud800'],
  ['SQL', "ben' or true --"],
]

let ours: TestWorkspace
let sibling: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[ours, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  sibling = await addTestWorkspace(ours)
  for (const each of [ours, sibling, other]) await fill(each)
})

/** Declares the collection, with documents that no forged claim may show. */
async function fill(workspace: TestWorkspace): Promise<void> {
  const { workspaceId: workspace_id, operator: as } = workspace
  const properties = Object.fromEntries(['title', 'team', 'email'].map((name) => [name, { type: 'string' }]))
  const body = {
    workspace_id,
    collection: 'notes',
    store: 'relational',
    schema: { properties },
    access: ACCESS,
  }
  const { status } = await call('POST', '/v1/schemas', { as, body })
  expect(status).toBe(201)
  for (const document of [
    { title: 'of the red team', team: 'red' },
    { title: 'of an address', email: 'mia@example.com' },
    { title: 'of nobody', team: '', email: '' },
  ]) {
    const reply = await call('POST', NOTES, { as: workspace.service, body: document })
    expect(reply.status).toBe(201)
  }
  const ofBen = await userToken(workspace, 'ben')
  expect((await call('POST', NOTES, { as: ofBen, body: { title: 'of ben' } })).status).toBe(201)
}

/** The claims of a good token. */
const good = (more: object = {}) => ({
  ...{ sub: 'eve', tenant_id: ours.tenantId, workspace_id: ours.workspaceId, role: 'user', roles: ['user'] },
  ...{ email: 'eve@example.com', email_verified: true, claims: {} },
  ...more,
})

type Ask = (as: Caller, method: string, path: string, body?: unknown) => ReturnType<typeof call>
const ask: Ask = (as, method, path, body) => call(method, path, { as, ...(body !== undefined && { body }) })

/** Requests that a user may not send. */
const CLOSED = [
  ['GET', '/v1/tenants', undefined],
  ['GET', '/v1/audit', undefined],
  ['POST', '/v1/issuer/rotate-keys', {}],
  ['POST', '/v1/events/publish', { topic: 'x', data: 1 }],
  ['GET', '/v1/approvals', undefined],
  ['GET', '/v1/collections/undeclared/documents', undefined],
  ['POST', '/v1/collections/undeclared/documents', {}],
] as const

/** Expects 401, or that no closed request is answered and no document of anybody else shows. */
async function expectNoMoreThanUser(as: Caller, send: Ask = ask): Promise<'refused' | 'no role' | 'user'> {
  const me = await send(as, 'GET', '/v1/me')
  if (me.status === 401) {
    expect(me.body.code).toBe('token_invalid')
    return 'refused'
  }
  expect([me.status, me.body.code]).toEqual([200, undefined])
  expect([[], ['user']]).toContainEqual(me.body.roles)
  for (const [method, path, body] of CLOSED) {
    const reply = await send(as, method, path, body)
    expect([path, reply.status], JSON.stringify(reply.body)).toEqual([path, 403])
  }
  const { status, body } = await send(as, 'GET', NOTES)
  if (me.body.roles.length === 0) {
    expect([status, body.code]).toEqual([403, 'privilege_domain_mismatch'])
    return 'no role'
  }
  expect([status, body.data], JSON.stringify(body)).toEqual([200, []])
  return 'user'
}

test('good token – has the rights of a user, so the tests below can fail', async () => {
  expect(await expectNoMoreThanUser(await tokenOf(good()))).toBe('user')
  const red = await ask(await tokenOf(good({ claims: { team: 'red' } })), 'GET', NOTES)
  expect(red.body.data.map(({ title }: { title: string }) => title)).toEqual(['of the red team'])
})

describe('further roles', () => {
  test.each([
    [['user', 'operator']],
    [['operator', 'user']],
    [['user', 'service']],
    [['service', 'anon', 'user']],
    [['tenant_admin', 'workspace_admin', 'user']],
    [['user', 'user']],
    [['user', 'USER', 'Operator', 'operator ']],
  ])('roles %j – are those of a user', async (roles) => {
    expect(await expectNoMoreThanUser(await tokenOf(good({ roles })))).toBe('user')
    for (const role of ['operator', 'service', ['operator']])
      expect(await expectNoMoreThanUser(await tokenOf(good({ roles, role })))).toBe('no role')
  })

  test.each([[[]], [['editor']], [undefined], ['user'], [null], [['anon']]])(
    'role user without the role in roles %j – has no role',
    async (roles) => {
      const as = await tokenOf(good({ roles }))
      const { body } = await ask(as, 'GET', '/v1/me')
      expect(body).toMatchObject({ roles: [], user: null })
      for (const [method, path, sent] of CLOSED) {
        const { status, body: problem } = await ask(as, method, path, sent)
        expect([path, status, problem.code]).toEqual([path, 403, 'privilege_domain_mismatch'])
      }
    },
  )

  test.each<[unknown]>([
    ['operator'],
    [{ 0: 'operator', length: 1 }],
    [[['operator']]],
    [[{ operator: 1 }]],
    [7],
    [true],
  ])('roles of another type, %j – give no role of an admin', async (odd) => {
    const rolesOf = async (roles: unknown) =>
      (await ask(await tokenOf(good({ roles })), 'GET', '/v1/me')).body.roles
    expect(await rolesOf(odd)).toEqual([])
    expect(await rolesOf([odd, 'user'])).toEqual(['user'])
  })
})

describe('bounds', () => {
  test('ids of another workspace or tenant – reach that one alone, or are refused', async () => {
    const of = (tenant: TestWorkspace, workspace: TestWorkspace) =>
      tokenOf(good({ sub: 'ben', tenant_id: tenant.tenantId, workspace_id: workspace.workspaceId }))
    for (const [tenant, workspace] of [
      [ours, other],
      [other, ours],
      [other, sibling],
    ] as const)
      expect(await expectNoMoreThanUser(await of(tenant, workspace))).toBe('refused')
    const ids = async (as: Caller) =>
      (await ask(as, 'GET', NOTES)).body.data.map(({ id }: { id: string }) => id)
    const own = await Promise.all([ours, sibling, other].map(async (each) => ids(await of(each, each))))
    expect(own.map(({ length }) => length)).toEqual([1, 1, 1])
    expect(new Set(own.flat()).size).toBe(3)
  })

  test.each([
    ['without a workspace', () => ({ workspace_id: undefined })],
    ['without a tenant', () => ({ tenant_id: undefined })],
    ['without both', () => ({ tenant_id: undefined, workspace_id: undefined })],
    ['with null as the workspace', () => ({ workspace_id: null })],
    ['with a list as the workspace', () => ({ workspace_id: [ours.workspaceId] })],
    ['with an object as the workspace', () => ({ workspace_id: { id: ours.workspaceId } })],
    ['with a list as the tenant', () => ({ tenant_id: [ours.tenantId] })],
    [
      'without a workspace, as operator and user',
      () => ({ workspace_id: undefined, roles: ['user', 'operator'] }),
    ],
    ['without a tenant, as service and user', () => ({ tenant_id: undefined, roles: ['service', 'user'] })],
  ])('token %s – has no role', async (_what, claims) => {
    expect(await expectNoMoreThanUser(await tokenOf(good(claims())))).toBe('no role')
  })

  test.each(['', 'ws_', '*', "' or 1=1 --", 'ws_01k5zzzzzzzzzzzzzzzzzzzzzz'])(
    'workspace %j – is refused',
    async (workspace_id) => {
      expect(await expectNoMoreThanUser(await tokenOf(good({ workspace_id })))).toBe('refused')
    },
  )
})

describe('claims of odd types', () => {
  test.each([undefined, null, 7, true, ['eve@example.com'], { a: 1 }])(
    'email %j – has no role',
    async (email) => {
      expect(await expectNoMoreThanUser(await tokenOf(good({ email })))).toBe('no role')
    },
  )

  test.each(['true', 1, {}, null, undefined, false, [true]])(
    'address of another user, verified %j – does not match a rule',
    async (email_verified) => {
      const as = await tokenOf(good({ email: 'mia@example.com', email_verified }))
      expect(await expectNoMoreThanUser(as)).toBe('user')
    },
  )

  test.each<readonly [string, string]>([...ODD_TEXTS, ['a pattern', '%'], ['a variable', '$user.id']])(
    'address that is %s – matches no document of others',
    async (_what, email) => {
      // The document of nobody has an empty address, which such a user has as well.
      const as = await tokenOf(good({ email, email_verified: email !== '' }))
      expect(await expectNoMoreThanUser(as)).toBe('user')
    },
  )

  test.each([
    ['a list', ['red']],
    ['a text', 'red'],
    ['a number', 7],
    ['null', null],
    ['absent', undefined],
    ['teams of other types', { team: ['red'], admin: 'true' }],
    ['a team that is an object', { team: { eq: 'red' }, admin: 1 }],
    ['a team with an operator', { team: 'neq.blue', admin: [true] }],
    ['a team of null', { team: null, admin: null }],
    ['nested claims', { claims: { team: 'red' }, user: { claims: { team: 'red' } } }],
    [
      'names of prototypes',
      JSON.parse('{"__proto__": {"team": "red", "admin": true}, "constructor": {"team": "red"}}'),
    ],
    ['a zero byte', { team: 'red\u0000', admin: '\u0000' }],
    ['half a character', { team: '\ud800red' }],
    ['a name with a zero byte', { 'team\u0000': 'red' }],
    ['a huge number', { team: 1e308, admin: -0 }],
    ['4,000 levels', { team: nested(2_000), x: nested(2_000) }],
    ['10 KB', { team: 'r'.repeat(10_000) }],
    ['1,000 names', Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`t${n}`, 1]))],
  ])('claims that are %s – match no document of others', async (_what, claims) => {
    expect(await expectNoMoreThanUser(await tokenOf(good({ claims })))).toBe('user')
  })

  function nested(levels: number): unknown {
    return Array.from({ length: levels }).reduce((inner) => [inner], 'red' as unknown)
  }

  test('claims of 100 KB – are refused before they are read', async () => {
    const as = await tokenOf(good({ claims: { team: 'r'.repeat(100_000) } }))
    for (const path of [NOTES, '/v1/me', '/v1/tenants']) {
      const { status, body } = await ask(as, 'GET', path)
      expect([path, status, body.code]).toEqual([path, 431, 'headers_too_large'])
    }
  })

  test.each<readonly [string, string]>([
    ...ODD_TEXTS,
    ['a name with a space', 'ben '],
    ['a name in capitals', 'BEN'],
  ])('subject that is %s – owns no document of another', async (_what, sub) => {
    const as = await tokenOf(good({ sub }))
    const outcome = await expectNoMoreThanUser(as)
    expect(['user', 'refused']).toContain(outcome)
  })

  test.each([7, ['ben'], { id: 'ben' }, true])(
    'subject of another type, %j – owns no document of another',
    async (sub) => {
      const { body } = await ask(await tokenOf(good({ sub })), 'GET', NOTES)
      expect(body.data ?? []).toEqual([])
    },
  )

  test.each([
    ['subject', { sub: 'eve\u0000' }],
    ['subject, half a character', { sub: 'eve\ud800' }],
    ['address', { email: 'eve\u0000@example.com' }],
    ['claim', { claims: { team: 'red\u0000' } }],
    ['claim, half a character', { claims: { team: '\ud800' } }],
    ['name of a claim', { claims: { 'a\u0000': 1 } }],
  ])('text that PostgreSQL cannot store, as %s – is a clear problem', async (_what, claims) => {
    const as = await tokenOf(good(claims))
    const made = await ask(as, 'POST', NOTES, { title: 'x' })
    const listed = await ask(as, 'GET', NOTES)
    expect([made.status, made.body.code]).toEqual([400, 'value_invalid'])
    expect([listed.status, listed.body.data]).toEqual([200, []])
  })
})

describe('tokens of an external issuer', () => {
  let peer: PeerIssuer
  let company: Realm
  let second: Realm
  let node: ApiWithIssuers
  beforeAll(async () => {
    peer = await PeerIssuer.open()
    ;[company, second] = await Promise.all([peer.realm('company'), peer.realm('second')])
    node = await startApiWithIssuers(
      [company, second].map(({ issuer }) => ({
        ...{
          issuer,
          audience: AUDIENCE,
          tenants: [ours.tenantId],
          claims: { roles: 'roles', user: 'claims' },
        },
      })),
    )
  })
  afterAll(async () => {
    await node?.close()
    await peer?.close()
  })

  const send: Ask = (as, method, path, body) =>
    call(method, path, { as, at: node.at, ...(body !== undefined && { body }) })

  test.each([
    [['user', 'service', 'tenant_admin']],
    [['workspace_admin', 'user']],
    ['user service'],
    ['operator user'],
  ])('roles %j – are those of a user', async (roles) => {
    expect(await expectNoMoreThanUser(await company.token(good({ roles })), send)).toBe('user')
  })

  test('tenant that the issuer may not name – is refused', async () => {
    const claims = good({ tenant_id: other.tenantId, workspace_id: other.workspaceId })
    expect(await expectNoMoreThanUser(await company.token(claims), send)).toBe('refused')
    const between = good({ workspace_id: other.workspaceId })
    expect(await expectNoMoreThanUser(await company.token(between), send)).toBe('refused')
  })

  test('subject of a user of another issuer – owns nothing of that user', async () => {
    const claims = good({ sub: 'ben' })
    for (const realm of [company, second])
      expect(await expectNoMoreThanUser(await realm.token(claims), send)).toBe('user')
    const made = await send(await company.token(claims), 'POST', NOTES, { title: 'of an outsider' })
    expect([made.status, made.body._owner]).toEqual([201, `${company.issuer}#ben`])
    expect(await expectNoMoreThanUser(await second.token(claims), send)).toBe('user')
    // A subject that looks like one of another issuer.
    for (const sub of [`${company.issuer}#ben`, '#ben', `${node.at.url}/auth#ben`])
      expect(await expectNoMoreThanUser(await second.token(good({ sub })), send)).toBe('user')
  })

  test('address that the issuer has not verified – does not match a rule', async () => {
    for (const email_verified of [false, 'true', 1, undefined])
      expect(
        await expectNoMoreThanUser(
          await company.token(good({ email: 'mia@example.com', email_verified })),
          send,
        ),
      ).toBe('user')
  })

  test.each([
    ['a zero byte', { team: 'red\u0000' }],
    ['half a character', { team: '\ud800red' }],
    ['a list', ['red']],
    ['names of prototypes', JSON.parse('{"__proto__": {"team": "red", "admin": true}}')],
  ])('claims that are %s – match no document of others', async (_what, claims) => {
    expect(await expectNoMoreThanUser(await company.token(good({ claims })), send)).toBe('user')
  })
})
