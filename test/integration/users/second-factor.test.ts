/** The second factor of users: time-based codes and recovery codes, at a sign-in and on the account page. */

import { beforeAll, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { authorization, Browser, bearer, REDIRECT, type Seen } from '../../support/clients/browser.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { ok } from '../../support/clients/mcp.ts'
import {
  codeAt,
  type Enrolled,
  enrol,
  forgetUsedCodes,
  openAccount,
} from '../../support/clients/second-factors.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  accountPageOf,
  addUser,
  createUserApp,
  submitStep,
  trySignIn,
  type UserApp,
  userTokens,
} from '../../support/clients/users.ts'
import { asSuperuser, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

let app: UserApp
let other: UserApp
beforeAll(async () => {
  const workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[app, other] = (await Promise.all(workspaces.map((one) => createUserApp(one)))) as [UserApp, UserApp]
})

const ticketIn = ({ html }: Seen) => /name="ticket" value="([^"]+)"/.exec(html)?.[1] ?? ''

/** Signs in with the password. @returns the browser, and the page that asks for a code */
async function withPassword(user: Enrolled) {
  const browser = new Browser(REDIRECT)
  const page = await trySignIn(browser, authorization(app.clientId), user)
  expect([page.status, page.html]).toEqual([200, expect.stringContaining('Enter a code')])
  return {
    browser,
    page,
    enter: (code: string, ticket = ticketIn(page)) =>
      submitStep(browser, page, 'code', { action: 'code', ticket, code }),
  }
}

const isSignedIn = ({ url }: Seen) => url.startsWith(REDIRECT) && new URL(url).searchParams.has('code')

test('second factor: the sign-in takes password and code; each code works once', async () => {
  const user = await enrol(app, await addUser(app))
  const { page, enter } = await withPassword(user)
  expect(page.headers.get('content-security-policy')).not.toContain('script-src')
  const code = codeAt(user.secret, 1)
  expect((await enter('000000')).status).toBe(401)
  expect((await enter('')).status).toBe(401)
  const again = await withPassword(user)
  expect(isSignedIn(await enter(` ${code.slice(0, 3)} ${code.slice(3)}`))).toBe(true)
  expect((await again.enter(code)).status).toBe(401)
  // Older than the last one that was used.
  expect((await again.enter(codeAt(user.secret))).status).toBe(401)
  await mailTo(user.email, 'has changed')
})

test('codes of two sign-ins at the same time: one is accepted', async () => {
  const user = await enrol(app, await addUser(app))
  const both = await Promise.all([withPassword(user), withPassword(user)])
  const code = codeAt(user.secret, 1)
  const ends = await Promise.all(both.map(({ enter }) => enter(code)))
  expect(ends.map(isSignedIn).sort()).toEqual([false, true])
})

test('recovery code: signs in once instead of a code', async () => {
  const user = await enrol(app, await addUser(app))
  expect(new Set(user.recovery).size).toBe(10)
  const [first = '', second = ''] = user.recovery
  const one = await withPassword(user)
  expect(isSignedIn(await one.enter(first.toUpperCase()))).toBe(true)
  const two = await withPassword(user)
  expect((await two.enter(first)).status).toBe(401)
  expect(isSignedIn(await two.enter(second.replace('-', ' ')))).toBe(true)
  const { page } = await openAccount(app, user)
  expect(page.html).toContain('Recovery codes left: 8')
})

test('ticket: of another sign-in, of another user, changed, or from before a sign-out: begins again', async () => {
  const [user, twin] = await Promise.all([addUser(app), addUser(app)]).then((users) =>
    Promise.all(users.map((one) => enrol(app, one))),
  )
  const mine = await withPassword(user as Enrolled)
  const foreign = await withPassword(twin as Enrolled)
  const code = codeAt(user?.secret ?? '', 1)
  for (const ticket of [ticketIn(foreign.page), `${ticketIn(mine.page)}A`, '', 'x'])
    expect((await mine.enter(code, ticket)).html).toContain('The sign-in took too long')
  await ok(call('POST', `/v1/users/${user?.id}/sign-out`, { as: app.workspace.operator, body: {} }))
  expect((await mine.enter(code)).html).toContain('has changed since you started')
})

test('password alone: opens neither a session nor the account page', async () => {
  const user = await enrol(app, await addUser(app))
  const { browser } = await withPassword(user)
  expect(isSignedIn(await browser.open(authorization(app.clientId, { prompt: 'none' }).url))).toBe(false)
  const visit = new Browser('nowhere:')
  const { email, password } = user
  const page = await visit.submit(await visit.open(accountPageOf(app)), {
    action: 'sign_in',
    email,
    password,
  })
  expect(page.html).toContain('Enter a code')
  expect(visit.cookies).toEqual([])
  for (const fields of [
    { action: 'totp_begin', current: password },
    { action: 'totp_off', current: password, code: user.recovery[0] ?? '' },
    { action: 'delete', current: password },
    { action: 'code', ticket: ticketIn(page), code: '000000' },
  ])
    expect((await visit.submit(page, fields)).html).not.toContain('Signed in as')
  const code = { action: 'code', ticket: ticketIn(page), code: codeAt(user.secret, 1) }
  const opened = await visit.submit(page, code)
  expect(opened.html).toContain(`Signed in as <b>${email}`)
})

test('guesses of codes: refused after ten, also with the right one, and recorded', async () => {
  const user = await enrol(app, await addUser(app))
  const { enter } = await withPassword(user)
  for (let n = 0; n < 10; n++) expect((await enter(String(100_000 + n))).status).toBe(401)
  expect((await enter(codeAt(user.secret, 1))).status).toBe(429)
  const as = app.workspace.operator
  const denied = await eventually(async () => {
    const entries = await entriesOfWorkspace(app.workspace, '&operation=person.sign_in')
    return entries.find(({ code, detail }) => code === 'code_wrong' && detail?.['account_id'] === user.id)
  })
  expect(denied).toMatchObject({ outcome: 'denied', status: 401 })
  expect((await call('GET', `/v1/users/${user.id}`, { as })).body.second_factor).toBe(true)
})

test('setup: needs the password, a right code, and the ticket of this user', async () => {
  const [user, twin] = await Promise.all([addUser(app), addUser(app)])
  const { browser, page } = await openAccount(app, user)
  expect((await browser.submit(page, { action: 'totp_begin', current: 'a wrong password' })).status).toBe(401)
  const setup = await browser.submit(page, { action: 'totp_begin', current: user.password })
  const [, link = ''] = /href="(otpauth:[^"]+)"/.exec(setup.html) ?? []
  const query = new URL(link.replaceAll('&amp;', '&')).searchParams
  expect(Object.fromEntries(query)).toMatchObject({ algorithm: 'SHA1', digits: '6', period: '30' })
  const secret = query.get('secret') ?? ''
  expect(secret).toMatch(/^[A-Z2-7]{32}$/)
  expect(setup.html.replaceAll(' ', '')).toContain(`<code>${secret}</code>`)
  const form = { action: 'totp_on', ticket: ticketIn(setup), code: codeAt(secret) }
  expect((await browser.submit(page, { ...form, code: '000000' })).status).toBe(401)
  const foreign = await openAccount(app, twin)
  expect((await foreign.browser.submit(foreign.page, form)).status).toBe(400)
  expect((await userTokens(app, user)).status).toBe(200)
  expect((await browser.submit(page, form)).html).toContain('Your recovery codes')
  // It is on: neither the same form nor a second setup replaces it.
  expect((await browser.submit(page, form)).status).toBe(401)
})

test('switching off: needs password and code; then the password suffices', async () => {
  const user = await enrol(app, await addUser(app))
  const { browser, page } = await openAccount(app, user)
  await forgetUsedCodes(user)
  const form = { action: 'totp_off', current: user.password, code: codeAt(user.secret) }
  expect((await browser.submit(page, { ...form, current: 'a wrong password' })).status).toBe(401)
  expect((await browser.submit(page, { ...form, code: '000000' })).status).toBe(401)
  expect((await browser.submit(page, form)).html).toContain('no longer needs a code of an app')
  expect((await userTokens(app, user)).status).toBe(200)
})

test('reset by an admin: removes the factor, signs out; not by a service', async () => {
  const user = await enrol(app, await addUser(app))
  const reset = (as = app.workspace.operator) =>
    call('POST', `/v1/users/${user.id}/reset-factors`, { as, body: {} })
  const { browser } = await openAccount(app, user)
  expect((await reset(app.workspace.service)).status).toBe(403)
  expect((await ok(reset())).second_factor).toBe(false)
  expect((await browser.open(accountPageOf(app))).html).not.toContain(user.email)
  const tokens = await userTokens(app, user)
  expect((await call('GET', '/v1/me', { as: bearer(tokens.body['access_token']) })).status).toBe(200)
  const entry = await eventually(
    async () => (await entriesOfWorkspace(app.workspace, '&operation=user.reset_factors'))[0],
  )
  expect(entry).toMatchObject({ outcome: 'done' })
})

test('database roles: secrets and digests are for the issuer; a secret of another user opens nothing', async () => {
  const [user, twin] = await Promise.all([addUser(app), addUser(app)]).then((users) =>
    Promise.all(users.map((one) => enrol(app, one))),
  )
  const { tenantId, workspaceId } = app.workspace
  for (const role of ['tenon_admin', 'tenon_operator'])
    for (const column of ['sealed', 'recovery', 'last_step'])
      await expect(
        sqlAsRole(role, [tenantId, workspaceId], `select ${column} from tenon.second_factors`),
      ).rejects.toThrow(/permission denied/)
  for (const role of ['tenon_anon', 'tenon_service', 'tenon_user', 'tenon_relay'])
    await expect(
      sqlAsRole(role, [tenantId, workspaceId], 'select from tenon.second_factors'),
    ).rejects.toThrow(/permission denied/)
  const { workspace } = other
  const seen = await sqlAsRole(
    'tenon_admin',
    [workspace.tenantId, workspace.workspaceId],
    'select user_id from tenon.second_factors',
  )
  expect(seen).toEqual([])
  await asSuperuser(
    'update tenon.second_factors set sealed = (select sealed from tenon.second_factors where user_id = $1) where user_id = $2',
    [twin?.id, user?.id],
  )
  const { enter } = await withPassword(user as Enrolled)
  expect((await enter(codeAt(twin?.secret ?? '', 1))).status).toBe(500)
})
