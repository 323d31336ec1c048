/** Users through the API: invitations, claims, lists, export, and what admins of other workspaces see. */

import { Client } from 'pg'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  authorization,
  Browser,
  claimsOf,
  inWorkspace,
  REDIRECT,
  type Seen,
} from '../../support/clients/browser.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { ok } from '../../support/clients/mcp.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  addUser,
  confirm,
  createUserApp,
  newUser,
  signUp,
  trySignIn,
  type UserApp,
  userTokens,
} from '../../support/clients/users.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

let app: UserApp
let admin: Caller
let siblingAdmin: Caller
beforeAll(async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  app = await createUserApp(workspace)
  const tokenIn = (of: typeof workspace) => tokenOf({ roles: ['workspace_admin'], ...inWorkspace(of) })
  ;[admin, siblingAdmin] = (await Promise.all([tokenIn(workspace), tokenIn(sibling)])) as [Caller, Caller]
})

const create = (body: object, as: Caller = admin): Promise<Reply> =>
  call('POST', '/v1/users', { as, body: { workspace_id: app.workspace.workspaceId, ...body } })

async function accept(link: string, password: string): Promise<Seen> {
  const browser = new Browser('nowhere:')
  return browser.submit(await browser.open(link), { action: 'set', password, again: password })
}

describe('invitation', () => {
  test('renewed while the person accepts the earlier one: refused, since its link would be none', async () => {
    const { body: user } = await create({ email: newUser().email })
    const database = new Client({ connectionString: inject('tenon').databaseUrl })
    await database.connect()
    try {
      await database.query('begin')
      await database.query('select from tenon.user_links where user_id = $1 for update', [user.id])
      const renewed = call('POST', `/v1/users/${user.id}/invite`, { as: admin, body: {} })
      await eventually(async () => {
        const { rows } = await database.query(
          `select from pg_stat_activity where wait_event_type = 'Lock' and pg_backend_pid() = any(pg_blocking_pids(pid))`,
        )
        return rows.length > 0 || undefined
      })
      await database.query('update tenon.users set email_verified_at = now() where id = $1', [user.id])
      await database.query('commit')
      const { status, body } = await renewed
      expect([status, body.code, body.invitation_url]).toEqual([409, 'state_conflict', undefined])
    } finally {
      await database.end()
    }
  })

  test('by an admin: mailed, in the answer once, accepted once; then the user signs in with the claims', async () => {
    const { email, password } = newUser()
    const claims = { plan: 'pro' }
    const reply = await create({ email: email.toUpperCase(), name: 'Uma', claims })
    expect([reply.status, reply.body]).toEqual([
      201,
      expect.objectContaining({ email, name: 'Uma', claims, status: 'invited', email_verified: false }),
    ])
    expect((await mailTo(email, 'Your invitation')).link).toBe(reply.body.invitation_url)
    const { id } = reply.body
    expect(reply.headers.get('location')).toBe(`/v1/users/${id}`)
    expect(JSON.stringify(await ok(call('GET', `/v1/users/${id}`, { as: admin })))).not.toMatch(
      /invitation_url|scrypt/,
    )
    const { status } = await trySignIn(new Browser(REDIRECT), authorization(app.clientId), {
      email,
      password,
    })
    expect(status).toBe(401)
    expect((await accept(reply.body.invitation_url, 'short')).status).toBe(400)
    expect((await accept(reply.body.invitation_url, password)).status).toBe(200)
    expect((await accept(reply.body.invitation_url, `${password} 2`)).status).toBe(404)
    const { body } = await userTokens(app, { email, password })
    expect(claimsOf(body['access_token'])).toMatchObject({ sub: id, claims })
    expect(await ok(call('GET', `/v1/users/${id}`, { as: admin }))).toMatchObject({ status: 'active' })
  })

  test('another one: voids the first; for a user who has accepted: 409', async () => {
    const { email, password } = newUser()
    const first = await ok(create({ email }))
    const second = await ok(call('POST', `/v1/users/${first.id}/invite`, { as: admin, body: {} }))
    expect((await accept(first.invitation_url, password)).status).toBe(404)
    expect((await accept(second.invitation_url, password)).status).toBe(200)
    const again = await call('POST', `/v1/users/${first.id}/invite`, { as: admin, body: {} })
    expect([again.status, again.body.code]).toEqual([409, 'state_conflict'])
  })

  test('disabled or deleted user: the link is not valid', async () => {
    const users = await Promise.all([create({ email: newUser().email }), create({ email: newUser().email })])
    const [disabled, deleted] = users.map(({ body }) => body)
    await ok(call('PATCH', `/v1/users/${disabled.id}`, { as: admin, body: { disabled: true } }))
    await ok(call('DELETE', `/v1/users/${deleted.id}`, { as: admin }))
    for (const { invitation_url: link } of [disabled, deleted])
      expect((await accept(link, 'a password that is long')).status).toBe(404)
  })

  test('known address: 409; invalid address: 400; sign_up "off": 409 with the setting', async () => {
    const { email } = await addUser(app)
    expect((await create({ email })).body.code).toBe('conflict')
    for (const bad of ['x', 'a@b.test\n', 'ä@b.test', 'a@b..test', 'a b@c.test'])
      expect([bad, (await create({ email: bad })).status]).toEqual([bad, 400])
    const closed = await addTestWorkspace(app.workspace)
    const body = { workspace_id: closed.workspaceId, email }
    const reply = await call('POST', '/v1/users', { as: app.workspace.operator, body })
    expect([reply.status, reply.body.hint]).toEqual([409, expect.stringContaining('"sign_up":"invite"')])
  })

  test('signing up with an invited address: accepts the invitation', async () => {
    const user = newUser()
    const { id } = await ok(create({ email: user.email, claims: { plan: 'team' } }))
    expect((await confirm(await signUp(app, user), user)).status).toBe(200)
    const { body } = await userTokens(app, user)
    expect(claimsOf(body['access_token'])).toMatchObject({ sub: id, claims: { plan: 'team' } })
  })
})

describe('claims', () => {
  const nested = (levels: number): object => (levels === 1 ? { end: 1 } : { next: nested(levels - 1) })

  test.each([
    ['8 KiB', { a: 'x'.repeat(8_192 - 8) }, 200],
    ['one byte more', { a: 'x'.repeat(8_192 - 7) }, 400],
    ['100 KB', { a: 'x'.repeat(100_000) }, 400],
    ['five levels', nested(5), 200],
    ['six levels', nested(6), 400],
    ['a list', [], 400],
    ['a text', 'x', 400],
    ['a NUL character', { a: 'x\u0000' }, 400],
    ['half a surrogate pair', { '\ud800': 1 }, 400],
    ['an escaped backslash before u0000', { a: '\\u0000' }, 200],
    ['large numbers', { a: Array.from({ length: 500 }, () => 1e300) }, 200],
  ])('%s: %s', async (_what, claims, status) => {
    const { id } = await ok(create({ email: newUser().email }))
    const reply = await call('PATCH', `/v1/users/${id}`, { as: admin, body: { claims } })
    expect(reply.status).toBe(status)
    if (status === 200) expect(reply.body.claims).toEqual(claims)
    else expect(reply.body.code).toBe('validation_failed')
  })

  test('of the largest size: in a token that the API accepts', async () => {
    const user = await addUser(app)
    const claims = { a: 'x'.repeat(8_192 - 8) }
    await ok(call('PATCH', `/v1/users/${user.id}`, { as: admin, body: { claims } }))
    const { body } = await userTokens(app, user)
    const as = { authorization: `Bearer ${body['access_token']}` }
    expect((await call('GET', '/v1/me', { as })).status).toBe(200)
  })
})

test('list: by workspace and address; export: one user a line; neither shows secrets', async () => {
  const own = await createUserApp(await createTestWorkspace())
  const { workspaceId, operator: as } = own.workspace
  const users = []
  for (const _ of [1, 2, 3]) users.push(await addUser(own))
  const listed = await ok(call('GET', `/v1/users?workspace_id=${workspaceId}&page[size]=2`, { as }))
  expect([listed.data.length, listed.page.has_more]).toEqual([2, true])
  const [one] = users
  const email = encodeURIComponent(one?.email.toUpperCase() ?? '')
  const found = await ok(call('GET', `/v1/users?workspace_id=${workspaceId}&email=${email}`, { as }))
  expect(found.data.map(({ id }: { id: string }) => id)).toEqual([one?.id])
  const exported = await call('GET', `/v1/users/export?workspace_id=${workspaceId}`, { as })
  expect(exported.headers.get('content-type')).toContain('application/x-ndjson')
  const lines: string[] = exported.body.trim().split('\n')
  expect(lines.map((line) => JSON.parse(line).id)).toEqual(users.map(({ id }) => id))
  expect(JSON.parse(lines[0] ?? '')).toEqual(await ok(call('GET', `/v1/users/${one?.id}`, { as })))
  expect(JSON.stringify([listed, exported.body])).not.toMatch(/scrypt|password|generation/)
})

test('admin of another workspace: 404 for each operation, an empty list', async () => {
  const user = await addUser(app)
  const path = `/v1/users/${user.id}`
  const as = siblingAdmin
  const replies = await Promise.all([
    call('GET', path, { as }),
    call('PATCH', path, { as, body: { claims: { admin: true } } }),
    call('DELETE', path, { as }),
    call('POST', `${path}/sign-out`, { as, body: {} }),
    call('POST', `${path}/invite`, { as, body: {} }),
    call('GET', `/v1/users/export?workspace_id=${app.workspace.workspaceId}`, { as }),
    create({ email: newUser().email }, as),
  ])
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 404))
  const query = `workspace_id=${app.workspace.workspaceId}&email=${encodeURIComponent(user.email)}`
  expect((await call('GET', `/v1/users?${query}`, { as })).body.data).toEqual([])
  expect((await userTokens(app, user)).status).toBe(200)
})

test('database roles: passwords and digests of links are for the issuer; admins create invitations alone', async () => {
  const user = await addUser(app)
  const { tenantId, workspaceId } = app.workspace
  const own = [tenantId, workspaceId]
  const insert = (purpose: string) => `
    insert into tenon.user_links (digest, tenant_id, workspace_id, user_id, purpose, email, expires_at)
    values (sha256(random()::text::bytea), '${tenantId}', '${workspaceId}', '${user.id}', '${purpose}', 'a@b.test', now() + interval '1 h')`
  for (const role of ['tenon_admin', 'tenon_operator']) {
    for (const what of [
      'password from tenon.users',
      'digest from tenon.user_links',
      'password from tenon.user_links',
    ])
      await expect(sqlAsRole(role, own, `select ${what}`)).rejects.toThrow(/permission denied/)
    for (const what of [
      "password = 'x'",
      "email = 'a@b.test'",
      'email_verified_at = now()',
      'generation = 0',
    ])
      await expect(sqlAsRole(role, own, `update tenon.users set ${what}`)).rejects.toThrow(
        /permission denied/,
      )
    for (const purpose of ['reset', 'email'])
      await expect(sqlAsRole(role, own, insert(purpose))).rejects.toThrow(/row-level security/)
  }
  for (const role of ['tenon_anon', 'tenon_service', 'tenon_relay'])
    for (const table of ['users', 'user_links'])
      await expect(sqlAsRole(role, own, `select from tenon.${table}`)).rejects.toThrow(/permission denied/)
  const all = `select id from tenon.users where id = '${user.id}'`
  expect(await sqlAsRole('tenon_admin', own, all)).toHaveLength(1)
  for (const ref of [
    ['', ''],
    [tenantId, 'ws_other'],
    ['ten_other', workspaceId],
  ])
    expect(await sqlAsRole('tenon_admin', ref, all)).toEqual([])
})

test('invitation of a user who has accepted, written by the rights of an admin: sets no password', async () => {
  const user = await addUser(app)
  await asSuperuser(
    `insert into tenon.user_links (digest, tenant_id, workspace_id, user_id, purpose, email, expires_at)
     values (sha256('stolen'), $1, $2, $3, 'invitation', $4, now() + interval '1 h')`,
    [app.workspace.tenantId, app.workspace.workspaceId, user.id, user.email],
  )
  const { invitation_url: url } = await ok(create({ email: newUser().email }))
  expect((await accept(url.replace(/token=.*/, 'token=stolen'), 'a password that is long')).status).toBe(404)
  expect((await userTokens(app, user)).status).toBe(200)
})

test('auth.sign_up set to "off": users who exist go on signing in while nobody can join', async () => {
  const user = await addUser(app)
  await configure(app.workspace, { auth: { sign_up: 'off' } })
  try {
    expect((await userTokens(app, user)).status).toBe(200)
  } finally {
    await configure(app.workspace, { auth: { sign_up: 'open' } })
  }
})
