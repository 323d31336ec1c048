/** Second factors of administrators' accounts: enrolled on the page of the account, asked for wherever an account signs in. */

import { beforeAll, expect, inject, test } from 'vitest'
import type { Account } from '../../../src/features/identity/accounts/accounts-store.ts'
import { SecondFactors } from '../../../src/features/identity/factors/second-factors.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { type Entry, entriesOfWorkspace } from '../../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  tokensOf,
} from '../../support/clients/browser.ts'
import { mailTo } from '../../support/clients/mails.ts'
import {
  codeAt,
  enrolAccount,
  enterAccountPage,
  forgetUsedCodes,
  sendCode,
  signInWithCode,
  ticketIn,
} from '../../support/clients/second-factors.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let clientId: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  clientId = await addClient(workspace.operator)
})

const PLACES = {
  operator: () => ({}),
  tenant_admin: () => ({ tenant_id: workspace.tenantId }),
  workspace_admin: () => inWorkspace(workspace),
}

const addPerson = (role: keyof typeof PLACES = 'workspace_admin') =>
  addAccount(workspace.operator, { role, ...PLACES[role]() })

/** Waits for an entry of the audit log. */
const entryOf = (operation: string, fits: (entry: Entry) => boolean) =>
  eventually(async () => (await entriesOfWorkspace(workspace, `&operation=${operation}`)).find(fits))

const isSignedIn = ({ url }: Seen) => url.startsWith(REDIRECT) && new URL(url).searchParams.has('code')

test.each(Object.keys(PLACES) as (keyof typeof PLACES)[])(
  'account of a %s with an app: sign-in takes password and code, and the token says so',
  async (role) => {
    const person = await enrolAccount(await addPerson(role))
    expect(new Set(person.recovery).size).toBe(10)
    const flow = authorization(clientId)
    const end = await signInWithCode(new Browser(REDIRECT), flow, person)
    const { body } = await exchange(clientId, flow, end)
    expect(claimsOf(body['access_token'])).toMatchObject({
      ...{ sub: person.id, roles: [role], amr: ['pwd', 'otp', 'mfa'], acr: 'urn:tenon:acr:multi-factor' },
      auth_time: expect.any(Number),
    })
    expect((await call('GET', '/v1/me', { as: bearer(body['access_token']) })).body.subject).toBe(person.id)
    await mailTo(person.email, 'has changed')
  },
)

test('password alone of an account with an app: opens no client and no page, and does not change the password', async () => {
  const person = await enrolAccount(await addPerson())
  const { tenant, email, password, secret, ...rest } = person
  const browser = new Browser(REDIRECT)
  const login = await browser.open(authorization(clientId).url)
  const asked = await browser.submit(login, { action: 'login', tenant, email, password })
  expect([asked.status, asked.html]).toEqual([200, expect.stringContaining('Enter a code')])
  expect(isSignedIn(await browser.open(authorization(clientId, { prompt: 'none' }).url))).toBe(false)
  for (const path of ['/auth/account', '/auth/agents']) {
    const { browser: visitor, page } = await enterAccountPage(
      { tenant, email, password, ...rest },
      `${inject('tenon').url}${path}`,
    )
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('Enter a code')])
    expect(visitor.cookies).toEqual([])
    const guessed = { action: 'code', ticket: ticketIn(page), code: '000000' }
    expect((await visitor.submit(page, guessed)).status).toBe(401)
    const opened = await sendCode(visitor, page, person)
    expect([opened.status, opened.html]).toEqual([200, expect.stringContaining(email)])
  }
  const next = unique('another horse ')
  const form = { tenant, email, current: password, password: next, again: next }
  const page = await browser.open(`${inject('tenon').url}/auth/password`)
  const refused = await browser.submit(page, form)
  expect([refused.status, refused.html]).toEqual([403, expect.stringContaining('/auth/account')])
})

test('recovery code of an account: signs in once; new ones replace all', async () => {
  const person = await enrolAccount(await addPerson())
  const { tenant, email, password, recovery, ...rest } = person
  const enter = async (code: string) => {
    const { browser, page } = await enterAccountPage({ tenant, email, password, id: rest.id })
    return { browser, page: await browser.submit(page, { action: 'code', ticket: ticketIn(page), code }) }
  }
  const [first = '', second = ''] = recovery
  const opened = await enter(first)
  expect(opened.page.html).toContain('Recovery codes left: 9')
  expect((await enter(first)).page.status).toBe(401)
  const renewed = await opened.browser.submit(opened.page, { action: 'recovery_renew', current: password })
  expect(renewed.html).toContain('Your recovery codes')
  expect((await enter(second)).page.status).toBe(401)
})

test('guesses of codes of an account: refused after ten, also with the right one, and recorded in the log of its tenant', async () => {
  const { secret, ...person } = await enrolAccount(await addPerson())
  const { browser, page } = await enterAccountPage({ ...person })
  const enter = (code: string) => browser.submit(page, { action: 'code', ticket: ticketIn(page), code })
  for (let n = 0; n < 10; n++) expect((await enter(String(100_000 + n))).status).toBe(401)
  await forgetUsedCodes(person)
  expect((await enter(codeAt(secret))).status).toBe(429)
  await entryOf(
    'person.sign_in',
    ({ code, detail }) => code === 'code_wrong' && detail?.['account_id'] === person.id,
  )
  // Whoever guesses codes knows the password.
  await mailTo(person.email, 'Wrong codes for your account')
})

test('last sign-in of an account: is that with all factors, not the one that only the password has begun', async () => {
  const person = await enrolAccount(await addPerson())
  await asSuperuser('update tenon.accounts set last_login_at = null where id = $1', [person.id])
  const lastSignIn = async () =>
    (await call('GET', `/v1/accounts/${person.id}`, { as: workspace.operator })).body.last_login_at
  const { id, tenant, email, password } = person
  const login = { action: 'login', tenant, email, password }
  const browser = new Browser(REDIRECT)
  await browser.submit(await browser.open(authorization(clientId).url), login)
  const { browser: visitor, page } = await enterAccountPage({ id, tenant, email, password })
  expect(await lastSignIn()).toBeNull()
  await forgetUsedCodes(person)
  expect((await sendCode(visitor, page, person)).status).toBe(200)
  expect(await lastSignIn()).toEqual(expect.any(String))
  await asSuperuser('update tenon.accounts set last_login_at = null where id = $1', [person.id])
  await forgetUsedCodes(person)
  await signInWithCode(new Browser(REDIRECT), authorization(clientId), person)
  expect(await lastSignIn()).toEqual(expect.any(String))
})

test('first passkey of an account: cut off before its recovery codes are stored: neither is', async () => {
  const person = await addPerson()
  const { env, masterKey } = inject('tenon')
  const database = Database.open(env['DATABASE_APP_URL'] ?? '', () => {}, 2)
  const locker = await connectSuperuser(inject('tenon'))
  try {
    const factors = new SecondFactors(database, new Secrets(masterKey), () => {})
    const { tenantId, workspaceId } = workspace
    const subject = { ...person, tenantId, workspaceId, role: 'workspace_admin', generation: 0 } as Account
    const insert = sql`
      insert into passkeys (id, account_id, tenant_id, workspace_id, public_key, counter, name)
      values ('first-key', ${person.id}, ${tenantId}, ${workspaceId}, '\\x00', 0, 'Phone') returning id`
    await locker.query('begin')
    await locker.query(
      `insert into tenon.second_factors (account_id, tenant_id, workspace_id, sealed, last_step, recovery)
       values ($1, $2, $3, '\\x00', 0, '{}')`,
      [person.id, tenantId, workspaceId],
    )
    const cutOff = expect(factors.addPasskey(subject, insert)).rejects.toThrow()
    await eventually(async () => {
      const [waiting] = await asSuperuser(
        "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and query like '%first-key%'",
      )
      return waiting
    })
    await cutOff
    await locker.query('rollback')
    expect(await factors.read(subject)).toBeUndefined()
    const added = await factors.addPasskey(subject, insert)
    expect(added?.enrolment?.codes.length).toBe(10)
    expect(await factors.read(subject)).toEqual({ hasTotp: false, codesLeft: 10 })
  } finally {
    await locker.end()
    await database.close()
  }
})

test('factors of an account: an admin whose role is not higher cannot delete them in the database either', async () => {
  const [above, beside] = [
    await enrolAccount(await addPerson('tenant_admin')),
    await enrolAccount(await addPerson()),
  ]
  const { tenantId, workspaceId } = workspace
  const remove = (ref: string[], { id }: { id: string }) =>
    sqlAsRole(
      'tenon_admin',
      ref,
      `delete from tenon.second_factors where account_id = '${id}' returning 1 as n`,
    )
  const refused = 'only a higher role may do this to the account'
  await expect(remove([tenantId], above)).rejects.toThrow(refused)
  await expect(remove([tenantId, workspaceId], beside)).rejects.toThrow(refused)
  expect(await remove([tenantId], beside)).toEqual([{ n: 1 }])
  // With their account they go.
  const gone = await sqlAsRole(
    'tenon_admin',
    [tenantId],
    `delete from tenon.accounts where id = '${above.id}' returning id`,
  )
  expect(gone).toEqual([{ id: above.id }])
})

test('app of an account: removed with password and code; then the password alone signs in', async () => {
  const { secret, ...person } = await enrolAccount(await addPerson())
  const { browser, page } = await enterAccountPage({ ...person, secret } as never)
  const off = (fields: object) =>
    browser.submit(page, { action: 'totp_off', current: person.password, ...fields })
  expect((await off({ code: '000000' })).status).toBe(401)
  await forgetUsedCodes(person)
  expect((await off({ code: codeAt(secret), current: 'a wrong password' })).status).toBe(401)
  await forgetUsedCodes(person)
  expect((await off({ code: codeAt(secret) })).html).toContain('no longer needs')
  const alone = await enterAccountPage(person)
  expect(alone.page.html).toContain(`Signed in as <b>${person.email}`)
  for (const operation of ['account.enable_totp', 'account.disable_totp'])
    await entryOf(operation, ({ actor }) => Object(actor).subject === person.id)
})

test('session that a password alone has opened: changes no factor of an account that has one, whatever it is asked', async () => {
  const [weak, strong] = await Promise.all([addPerson(), enrolAccount(await addPerson())])
  const { browser, page } = await enterAccountPage(weak)
  // As if the factor had come without the end of all sessions.
  await asSuperuser(
    `insert into tenon.second_factors (account_id, tenant_id, workspace_id, sealed, last_step, recovery)
     select $1, tenant_id, workspace_id, sealed, last_step, recovery from tenon.second_factors where account_id = $2`,
    [weak.id, strong.id],
  )
  const current = weak.password
  for (const action of ['totp_begin', 'recovery_renew', 'passkey_begin', 'passkey_delete']) {
    const refused = await browser.submit(page, { action, current, passkey: 'none' })
    expect([action, refused.status, refused.html]).toEqual([
      action,
      401,
      expect.stringContaining('you have signed in without it'),
    ])
  }
})

test('first factor of an account: ends sessions, tokens and pages that the password had opened, and keeps this browser signed in', async () => {
  const person = await addPerson()
  const { email, password } = person
  const { body } = await tokensOf(clientId, person)
  const { browser: elsewhere } = await enterAccountPage(person)
  const { browser, page } = await enterAccountPage(person)
  const setup = await browser.submit(page, { action: 'totp_begin', current: password })
  const [, secret = ''] = /secret=([A-Z2-7]+)/.exec(setup.html) ?? []
  const form = { action: 'totp_on', ticket: ticketIn(setup), code: codeAt(secret) }
  expect((await browser.submit(page, form)).html).toContain('Your recovery codes')
  expect((await browser.open(page.url)).html).toContain(`Signed in as <b>${email}`)
  expect((await elsewhere.open(page.url)).html).not.toContain(email)
  expect((await refresh(clientId, body['refresh_token'])).status).toBe(400)
  expect((await call('GET', '/v1/me', { as: bearer(body['access_token']) })).status).toBe(401)
  // Another change needs no other sign-in here.
  const renewed = await browser.submit(page, { action: 'recovery_renew', current: password })
  expect(renewed.html).toContain('Your recovery codes')
})

/** A passkey, which is stored without the page that registers one. */
const addPasskeyOf = (id: string) =>
  asSuperuser(
    `insert into tenon.passkeys (id, account_id, tenant_id, workspace_id, public_key, counter, name)
     select 'key-' || id, id, tenant_id, workspace_id, '\\x00', 0, 'Phone' from tenon.accounts where id = $1`,
    [id],
  )

test('recovery codes that are renewed while the app is removed: those that the person has seen work', async () => {
  const person = await enrolAccount(await addPerson())
  // Without a passkey, the codes would end with the app.
  await addPasskeyOf(person.id)
  const { env, masterKey } = inject('tenon')
  const database = Database.open(env['DATABASE_APP_URL'] ?? '', () => {}, 2)
  const locker = await connectSuperuser(inject('tenon'))
  try {
    const factors = new SecondFactors(database, new Secrets(masterKey), () => {})
    const { tenantId, workspaceId } = workspace
    const subject = { ...person, tenantId, workspaceId, role: 'workspace_admin', generation: 0 } as Account
    const read = 'select sealed, recovery from tenon.second_factors where account_id = $1'
    const write = 'update tenon.second_factors set sealed = $2, recovery = $3 where account_id = $1'
    const [before] = await asSuperuser<{ sealed: Buffer; recovery: string[] }>(read, [person.id])
    const [code = ''] = (await factors.renewRecoveryCodes(subject)) ?? []
    const [after] = await asSuperuser<{ sealed: Buffer; recovery: string[] }>(read, [person.id])
    await asSuperuser(write, [person.id, before?.sealed, before?.recovery])
    await locker.query('begin')
    await locker.query(`${read} for update`, [person.id])
    const disabled = factors.disable(subject)
    await eventually(async () => {
      const [waiting] = await asSuperuser(
        "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%set has_totp = false%'",
      )
      return waiting
    })
    await locker.query(write, [person.id, after?.sealed, after?.recovery])
    await locker.query('commit')
    await disabled
    expect(await factors.verify(subject, code)).toBe('right')
    expect(await factors.read(subject)).toMatchObject({ hasTotp: false })
  } finally {
    await locker.end()
    await database.close()
  }
})

test('account with a passkey and without recovery codes: the password alone does not sign in, and the account shows its factor', async () => {
  const person = await addPerson()
  await addPasskeyOf(person.id)
  const { browser, page } = await enterAccountPage(person)
  expect([page.status, page.html]).toEqual([200, expect.stringContaining('Enter a code')])
  expect(browser.cookies).toEqual([])
  const { body } = await call('GET', `/v1/accounts/${person.id}`, { as: workspace.operator })
  expect(body).toMatchObject({ second_factor: true, passkeys: 1 })
})
