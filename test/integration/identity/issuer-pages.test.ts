/** The issuer's pages: security headers, form protection, no disclosure. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { AttemptThrottle } from '../../../src/access/authentication/attempt-throttle.ts'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { hashPassword, verifyPassword } from '../../../src/features/identity/accounts/passwords.ts'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  inWorkspace,
  REDIRECT,
  type TestAccount,
} from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let person: TestAccount
let clientId: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  clientId = await addClient(workspace.operator, { name: '<script>alert(1)</script>"' })
})

const opened = async (more: Record<string, string> = {}) => {
  const browser = new Browser(REDIRECT)
  return { browser, page: await browser.open(authorization(clientId, more).url) }
}

describe('page', () => {
  test('page: any: restrictive headers, escaped values (T20)', async () => {
    const { page, browser } = await opened()
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      expect.stringMatching(/^style-src 'sha256-[A-Za-z0-9+/=]{44}'$/),
      "form-action 'self' http://127.0.0.1:9",
      "frame-ancestors 'none'",
      "base-uri 'none'",
    ])
    for (const [name, value] of [
      ['x-frame-options', 'DENY'],
      ['referrer-policy', 'same-origin'],
      ['cache-control', 'no-store'],
      ['x-content-type-options', 'nosniff'],
    ] as const)
      expect(page.headers.get(name)).toBe(value)
    expect(page.html).not.toContain('<script')
    expect(page.html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;&quot;')
    for (const { text } of browser.cookies) {
      expect(text).toMatch(/; httponly/i)
      expect(text).toMatch(/; samesite=lax/i)
    }
  })

  test('page: form from another browser or site: refused (T20)', async () => {
    const { browser, page } = await opened()
    const { tenant, email, password } = person
    const fields = { action: 'login', tenant, email, password }
    expect((await new Browser(REDIRECT).submit(page, fields)).status).toBe(404)
    expect((await new Browser(REDIRECT).open(page.url)).status).toBe(404)
    for (const headers of [
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { origin: 'null', 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ])
      expect((await browser.submit(page, fields, headers)).status).toBe(403)
    const own = { origin: inject('tenon').url, 'sec-fetch-site': 'same-origin' }
    expect((await browser.submit(page, fields, own)).html).toContain('Allow access?')
  })

  test('page: cookies of another authorization: refused', async () => {
    const { browser, page } = await opened()
    const other = await opened()
    const uid = other.page.url.split('/').at(-1) ?? ''
    const crossed = { ...page, url: page.url.replace(/[^/]+$/, uid) }
    expect((await browser.submit(crossed, { action: 'deny' })).status).toBe(404)
  })

  test.each(['allow', 'nothing', ''])('sign-in: skipped with the action “%s”: refused', async (action) => {
    const { browser, page } = await opened()
    expect((await browser.submit(page, { action })).status).toBeGreaterThanOrEqual(400)
  })

  test('page: invalid client or redirect URI: error page of the issuer, no redirect', async () => {
    const reply = await fetch(authorization('client_nobody').url, { redirect: 'manual' })
    expect([reply.status, reply.headers.get('location')]).toEqual([400, null])
    expect(reply.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  })
})

describe('sign-in', () => {
  test('sign-in: wrong password, unknown address, unknown tenant: same reply', async () => {
    const { browser, page } = await opened()
    const { tenant, email, password } = person
    const wrong = [
      { tenant, email, password: `${password}x` },
      { tenant, email: 'nobody@example.test', password },
      { tenant: 'no-such-tenant', email, password },
      { tenant: '', email, password },
      { tenant, email, password: '' },
    ]
    const seen = new Set<string>()
    for (const fields of wrong) {
      const reply = await browser.submit(page, { action: 'login', ...fields })
      expect(reply.status).toBe(401)
      // What was entered stays in the form.
      seen.add(reply.html.replaceAll(/ value="[^"]*"/g, ''))
    }
    expect(seen.size).toBe(1)
    expect(seen.values().next().value).not.toContain(email)
  })

  test('sign-in: address in other letter case: accepted', async () => {
    const { browser, page } = await opened()
    const { tenant, email, password } = person
    const fields = { action: 'login', tenant, email: email.toUpperCase(), password }
    expect((await browser.submit(page, fields)).html).toContain('Allow access?')
  })

  test('sign-in: too many guesses: refused, even with the right password', async () => {
    const victim = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const { browser, page } = await opened()
    const { tenant, email, password } = victim
    const guess = (text: string) => browser.submit(page, { action: 'login', tenant, email, password: text })
    const statuses: number[] = []
    while (statuses.length < ACCESS_LIMITS.attemptsMax.accountFromAddress) {
      const pair = await Promise.all([guess('wrong'), guess('wrong again')])
      statuses.push(...pair.map(({ status }) => status))
    }
    expect(new Set(statuses)).toEqual(new Set([401]))
    expect((await guess('wrong')).status).toBe(429)
    expect((await guess(password)).status).toBe(429)
  })

  test('sign-in: refused since too many passwords are under way: not counted as guesses', async () => {
    const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const { browser, page } = await opened()
    const { tenant, email, password } = person
    const login = (address: string, text: string) =>
      browser.submit(page, { action: 'login', tenant, email: address, password: text })
    const others = Array.from(
      { length: 3 * ISSUER_LIMITS.passwordHashesPendingMax },
      (_, n) => `${n}.${email}`,
    )
    const busy = others.map((other) => login(other, 'correct horse'))
    const refused = Array.from({ length: ACCESS_LIMITS.attemptsMax.accountFromAddress }, () =>
      login(email, 'correct horse'),
    )
    await Promise.all([...busy, ...refused])
    const statuses = (await Promise.all(refused)).map(({ status }) => status)
    expect(statuses).toContain(429)
    expect((await login(email, password)).html).toContain('Allow access?')
  })

  test('sign-in: one address in two tenants: two accounts with their own passwords', async () => {
    const other = await createTestWorkspace()
    const as = workspace.operator
    const body = { role: 'service', ...inWorkspace(other), email: person.email }
    expect((await call('POST', '/v1/accounts', { as, body })).status).toBe(201)
    expect(
      (await call('POST', '/v1/accounts', { as, body: { ...body, ...inWorkspace(workspace) } })).status,
    ).toBe(409)
  })
})

describe('invitation', () => {
  const invite = async () =>
    ok(
      call('POST', '/v1/accounts', {
        as: workspace.operator,
        body: { role: 'service', ...inWorkspace(workspace), email: `${unique('i')}@example.test` },
      }),
    )

  test('invitation: password long enough and repeated: accepted once', async () => {
    const { invitation_url: url, email, id, status } = await invite()
    expect([status, url]).toEqual([
      'invited',
      expect.stringContaining(`${inject('tenon').url}/auth/invitation?`),
    ])
    const browser = new Browser('nowhere:')
    const page = await browser.open(url)
    expect(page.html).toContain(email)
    const set = (password: string, again = password) => browser.submit(page, { password, again })
    expect((await set('short')).status).toBe(400)
    expect((await set('long enough for us', 'but not the same')).status).toBe(400)
    expect((await set('long enough for us')).status).toBe(200)
    expect((await set('another that is long')).status).toBe(404)
    expect((await browser.open(url)).status).toBe(404)
    const account = await ok(call('GET', `/v1/accounts/${id}`, { as: workspace.operator }))
    expect([account.status, account.invited_until]).toEqual(['active', null])
    expect(JSON.stringify(account)).not.toMatch(/scrypt|password|invitation_url/)
  })

  test('invitation: expired, superseded, or account disabled: refused', async () => {
    const first = await invite()
    const as = workspace.operator
    const open = async (url: string) => (await new Browser('nowhere:').open(url)).status
    const second = await ok(call('POST', `/v1/accounts/${first.id}/invite`, { as, body: {} }))
    expect([await open(first.invitation_url), await open(second.invitation_url)]).toEqual([404, 200])
    await ok(call('PATCH', `/v1/accounts/${first.id}`, { as, body: { disabled: true } }))
    expect(await open(second.invitation_url)).toBe(404)
    await ok(call('PATCH', `/v1/accounts/${first.id}`, { as, body: { disabled: false } }))
    await asSuperuser("update tenon.accounts set invited_until = now() - interval '1 s' where id = $1", [
      first.id,
    ])
    expect(await open(second.invitation_url)).toBe(404)
    expect(Date.parse(second.invited_until) - Date.now()).toBeGreaterThan(6.9 * 86_400_000)
  })

  test('invitation: token and password: stored in no table', async () => {
    const { invitation_url: url, id } = await invite()
    const token = new URL(url).searchParams.get('token') ?? ''
    const [row] = await asSuperuser('select t::text from tenon.accounts t where id = $1', [id])
    expect(JSON.stringify(row)).not.toContain(token)
    expect(JSON.stringify(row)).not.toContain(Buffer.from(token, 'base64url').toString('hex'))
  })
})

test('password: Unicode forms: normalised before comparison; account without password: never matches', async () => {
  const kept = await hashPassword('Ångström und so weiter', { network: 'n', realm: 'r' })
  expect(kept).toMatch(/^scrypt\$15\$8\$3\$/)
  expect(await verifyPassword('A\u030angstro\u0308m und so weiter', kept, { network: 'n', realm: 'r' })).toBe(
    true,
  )
  expect(await verifyPassword('angstrom und so weiter', kept, { network: 'n', realm: 'r' })).toBe(false)
  expect(await verifyPassword('', undefined, { network: 'n', realm: 'r' })).toBe(false)
})

test('login throttle: many addresses: attempts expire, memory is bounded', () => {
  let nowMs = 1
  const attempts = new AttemptThrottle(ACCESS_LIMITS.attemptsWindowMs, () => nowMs)
  expect([1, 2, 3].map(() => attempts.admit('a', 2))).toEqual([true, true, false])
  nowMs += ACCESS_LIMITS.attemptsWindowMs + 1
  expect(attempts.admit('a', 2)).toBe(true)
  for (let n = 0; n < ACCESS_LIMITS.attemptsCountedMax - 1; n++) attempts.admit(`b${n}`, 2)
  expect([attempts.admit('a', 2), attempts.admit('a', 2)]).toEqual([true, false])
  attempts.reset('a')
  expect(attempts.admit('a', 2)).toBe(true)
})
