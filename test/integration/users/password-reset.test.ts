/** Reset of a user's password by a mail: once, in time, for the workspace of the user, telling nothing about addresses. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  authorization,
  Browser,
  bearer,
  REDIRECT,
  refresh,
  type Seen,
} from '../../support/clients/browser.ts'
import { mailsTo, mailTo } from '../../support/clients/mails.ts'
import { ok } from '../../support/clients/mcp.ts'
import {
  addUser,
  createUserApp,
  expectSameDuration,
  newUser,
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

async function ask(email: string, of: UserApp = app): Promise<Seen> {
  const browser = new Browser(REDIRECT)
  const page = await browser.open(authorization(of.clientId).url)
  return submitStep(browser, page, 'forgot', { action: 'forgot', email })
}

const linkTo = async (email: string) => (await mailTo(email, 'Set a new password')).link

async function reset(link: string, password: string, again = password): Promise<Seen> {
  const browser = new Browser('nowhere:')
  return browser.submit(await browser.open(link), { action: 'set', password, again })
}

const NEW = 'another password of mine'

test('reset: sets another password once, ends sessions and tokens, tells the user by mail', async () => {
  const user = await addUser(app)
  const { body } = await userTokens(app, user)
  expect((await ask(user.email.toUpperCase())).status).toBe(200)
  const link = await linkTo(user.email)
  expect((await reset(link, 'short')).status).toBe(400)
  expect((await reset(link, NEW, `${NEW}x`)).status).toBe(400)
  const done = await reset(link, NEW)
  expect([done.status, done.html]).toEqual([200, expect.stringContaining('href="http://127.0.0.1:9/"')])
  expect((await reset(link, 'a third password of mine')).status).toBe(404)
  expect((await trySignIn(new Browser(REDIRECT), authorization(app.clientId), user)).status).toBe(401)
  expect((await userTokens(app, { ...user, password: NEW })).status).toBe(200)
  expect((await refresh(app.clientId, body['refresh_token'])).status).toBe(400)
  const as = bearer(body['access_token'])
  await eventually(
    async () => ((await call('GET', '/v1/me', { as })).status === 401 ? true : undefined),
    5_000,
  )
  expect((await mailTo(user.email, 'has changed')).link).toBe('')
})

describe('address', () => {
  test('known, unknown, of another workspace, disabled: the same page; a mail to the known one alone', async () => {
    const user = await addUser(app)
    const disabled = await addUser(app)
    const { operator: as } = app.workspace
    await ok(call('PATCH', `/v1/users/${disabled.id}`, { as, body: { disabled: true } }))
    const foreign = await addUser(other)
    const unknown = newUser()
    const pages = new Set<string>()
    for (const { email } of [user, disabled, foreign, unknown]) {
      const page = await ask(email)
      expect(page.status).toBe(200)
      pages.add(page.html.replaceAll(/interaction\/[\w-]+/g, ''))
    }
    expect(pages.size).toBe(1)
    await linkTo(user.email)
    for (const { email } of [disabled, foreign, unknown])
      expect(await mailsTo(email, 'Set a new password')).toEqual([])
  })

  test('known and unknown: take the same time', async () => {
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(app.clientId).url)
    const send = (email: string) => submitStep(browser, page, 'forgot', { action: 'forgot', email })
    await send(newUser().email)
    // The mail is sent later, one per address and minute.
    await expectSameDuration({
      known: async () => {
        const { email } = await addUser(app)
        return () => send(email)
      },
      unknown: async () => () => send(newUser().email),
    })
  })
})

describe('link', () => {
  test('expired, after a change of the password, or after the user was disabled: 404', async () => {
    const [expired, changed, disabled] = await Promise.all([addUser(app), addUser(app), addUser(app)])
    const users = [expired, changed, disabled]
    for (const { email } of users) await ask(email)
    const links = await Promise.all(users.map(({ email }) => linkTo(email)))
    await asSuperuser("update tenon.user_links set expires_at = now() - interval '1 s' where email = $1", [
      expired.email,
    ])
    const { operator: as } = app.workspace
    await ok(call('POST', `/v1/users/${changed.id}/sign-out`, { as, body: {} }))
    await ok(call('PATCH', `/v1/users/${disabled.id}`, { as, body: { disabled: true } }))
    for (const link of links) expect((await reset(link, NEW)).status).toBe(404)
  })

  test('of a sign-up: sets no password; of a reset: confirms no address', async () => {
    const user = await addUser(app)
    await ask(user.email)
    const link = await linkTo(user.email)
    const browser = new Browser('nowhere:')
    const page = await browser.open(link)
    // The purpose of the link decides, not the button.
    const sent = await browser.submit(page, { action: 'confirm', password: user.password })
    expect(sent.status).toBe(400)
    expect((await userTokens(app, user)).status).toBe(200)
  })

  test('two at the same time: one wins', async () => {
    const user = await addUser(app)
    await ask(user.email)
    const link = await linkTo(user.email)
    const answers = await Promise.all([reset(link, NEW), reset(link, `${NEW} 2`)])
    const [won, lost] = answers.map(({ status }) => status).sort()
    expect(won).toBe(200)
    // In use by the other one, or used already.
    expect([404, 409]).toContain(lost)
  })
})
