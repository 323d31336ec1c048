/** Several API processes form one issuer: sessions survive a process, new signing keys are known within seconds. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  askTokens,
  authorization,
  Browser,
  bearer,
  REDIRECT,
  refresh,
  signIn,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  operator,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let workspace: TestWorkspace
let person: TestAccount
let clientId: string
let second: Node
beforeAll(async () => {
  second = await startInProcessNode()
  workspace = await createTestWorkspace()
  person = await addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId })
  clientId = await addClient(workspace.operator)
})
afterAll(() => second?.close())

const kidOf = (token = '') =>
  JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid as string
const rotate = (body: object) => ok(call('POST', '/v1/issuer/rotate-keys', { as: workspace.operator, body }))
const kidsAt = async (url: string): Promise<string[]> => {
  const { keys } = (await (await fetch(`${url}/auth/jwks`)).json()) as { keys: { kid: string; d?: string }[] }
  expect(keys.filter(({ d }) => d !== undefined)).toEqual([])
  return keys.map(({ kid }) => kid)
}

test('sign-in: started at one process: completed at another, refreshed across processes', async () => {
  const { url } = inject('tenon')
  const at = second.at
  const flow = authorization(clientId)
  const browser = new Browser(REDIRECT)
  const login = await browser.open(flow.url.replace(url, at.url))
  // Its pages use the public address, which is the first process.
  expect(login.url.startsWith(url) || login.url.startsWith(at.url)).toBe(true)
  const { tenant, email, password } = person
  const consent = await browser.submit(login, { action: 'login', tenant, email, password })
  const end = new URL((await browser.submit(consent, { action: 'allow' })).url)
  const parameters = {
    grant_type: 'authorization_code',
    client_id: clientId,
    code: end.searchParams.get('code') ?? '',
    redirect_uri: REDIRECT,
    code_verifier: flow.verifier,
  }
  const { body } = await askTokens(parameters, at)
  const as = bearer(body['access_token'])
  for (const where of [inject('tenon'), at])
    expect((await call('GET', '/v1/workspaces', { as, at: where })).status).toBe(200)
  const renewed = await refresh(clientId, body['refresh_token'])
  expect(renewed.status).toBe(200)
  // Token reuse is detected by any process, once its grace is over.
  await asSuperuser(
    "update tenon.issuer_state set consumed_at = consumed_at - interval '1 hour' where client_id = $1",
    [clientId],
  )
  expect((await refresh(clientId, body['refresh_token'], at)).body['error']).toBe('invalid_grant')
  expect((await refresh(clientId, renewed.body['refresh_token'])).body['error']).toBe('invalid_grant')
})

test('refresh token: its process has ended: accepted by a process that starts later', async () => {
  const third = await startInProcessNode()
  const { body } = await tokensOf(clientId, person)
  const renewed = await refresh(clientId, body['refresh_token'], third.at)
  await third.close()
  expect(renewed.status).toBe(200)
  expect((await refresh(clientId, renewed.body['refresh_token'], second.at)).status).toBe(200)
})

test('behind https: cookies and addresses: host-only cookies, no header changes an address', async () => {
  const secure = await startInProcessNode({ TENON_PUBLIC_URL: 'https://tenon.test' })
  const begin = authorization(clientId).url.replace(inject('tenon').url, secure.at.url)
  const hostile = {
    'x-forwarded-host': 'evil.test',
    'x-forwarded-proto': 'http',
    forwarded: 'host=evil.test',
  }
  const reply = await fetch(begin, { redirect: 'manual', headers: hostile })
  const page = reply.headers.get('location') ?? ''
  expect(page).toMatch(/^\/auth\/interaction\/[\w-]+$/)
  const cookies = reply.headers.getSetCookie()
  const cookie = cookies.map((text) => text.split(';')[0]).join('; ')
  const seen = await fetch(`${secure.at.url}${page}`, { headers: { cookie } })
  const post = (origin: string) =>
    fetch(`${secure.at.url}${page}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie, origin },
      body: new URLSearchParams({ action: 'deny' }),
    })
  const [foreign, own] = [await post(secure.at.url), await post('https://tenon.test')]
  await secure.close()
  for (const text of cookies) {
    expect(text).toMatch(/^(__Host-tenon_session|__Secure-tenon_(interaction|resume))(\.sig)?=/)
    expect(text).toMatch(/; secure/i)
    expect(text).not.toMatch(/; domain/i)
    if (text.startsWith('__Host-')) expect(text).toContain('; path=/;')
  }
  expect(cookies.length).toBeGreaterThanOrEqual(4)
  expect([seen.status, foreign.status, own.status]).toEqual([200, 403, 303])
  expect(own.headers.get('location')).toMatch(/^https:\/\/tenon\.test\/auth\/authorize\//)
})

test('issuer tables: tokens, codes and sessions: stored only in unusable form', async () => {
  const browser = new Browser(REDIRECT)
  const flow = authorization(clientId)
  const end = await signIn(browser, flow, person)
  const rows = await asSuperuser('select t::text, sealed from tenon.issuer_state t where account_id = $1', [
    person.id,
  ])
  const text = JSON.stringify(rows) + rows.map((row) => (row as { sealed: Buffer }).sealed.toString()).join()
  const secrets = [end.searchParams.get('code'), ...browser.cookies.map(({ value }) => value)]
  expect(secrets.length).toBeGreaterThan(1)
  for (const secret of secrets) expect(text).not.toContain(secret)
})

test('issuer tables: expired rows: ignored at once, removed later', async () => {
  const { body } = await tokensOf(clientId, person)
  await asSuperuser(
    "update tenon.issuer_state set expires_at = now() - interval '1 s' where account_id = $1 and model = 'RefreshToken'",
    [person.id],
  )
  expect((await refresh(clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
  await eventually(async () => {
    await new Browser(REDIRECT).open(authorization(clientId).url)
    const left = await asSuperuser(
      'select from tenon.issuer_state where account_id = $1 and expires_at <= now()',
      [person.id],
    )
    return left.length === 0 ? true : undefined
  })
})

test('signing keys: rotated during requests: none fails, both processes follow within seconds', async () => {
  const { url } = inject('tenon')
  const before = await tokensOf(clientId, person)
  const old = kidOf(before.body['access_token'])
  let running = true
  const failed: unknown[] = []
  const load = [inject('tenon'), second.at].map(async (at) => {
    while (running) {
      const as = await operator(at)
      for (const where of [inject('tenon'), second.at]) {
        const { status } = await call('GET', '/v1/tenants', { as, at: where })
        if (status !== 200) failed.push([at.url, where.url, status])
      }
    }
  })
  const { kid } = await rotate({})
  expect(kid).not.toBe(old)
  await eventually(async () => {
    const kids = await Promise.all([url, second.at.url].map(kidsAt))
    return kids.every(([signing]) => signing === kid) ? true : undefined
  }, 15_000)
  const fresh = await operator(second.at)
  expect(kidOf(fresh['authorization']?.slice(7))).toBe(kid)
  running = false
  await Promise.all(load)
  expect(failed).toEqual([])
  expect(await kidsAt(url)).toEqual([kid, ...(await kidsAt(url)).slice(1)])
  expect(await kidsAt(url)).toContain(old)
  const as = bearer(before.body['access_token'])
  expect((await call('GET', '/v1/workspaces', { as })).status).toBe(200)
  expect((await refresh(clientId, before.body['refresh_token'])).status).toBe(200)
})

test('tokens with unknown key ids: many: keys are not read each time', async () => {
  const as = { authorization: `Bearer ${forgedToken()}` }
  const readings = async () => {
    const [row] = await asSuperuser<{ n: string }>(
      "select coalesce(sum(seq_scan + idx_scan), 0)::text as n from pg_stat_user_tables where relname = 'signing_keys'",
    )
    return Number(row?.n)
  }
  const before = await readings()
  const startedMs = performance.now()
  for (let n = 0; n < 200; n++) expect((await call('GET', '/v1/tenants', { as })).status).toBe(401)
  const seconds = (performance.now() - startedMs) / 1_000
  // Statistics are delayed; the point is that 200 tokens do not cause 200 reads.
  expect((await readings()) - before).toBeLessThan(20 + 8 * seconds)
})

function forgedToken(): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const { url } = inject('tenon')
  const now = Math.floor(Date.now() / 1_000)
  const claims = {
    iss: `${url}/auth`,
    aud: `${url}/v1`,
    sub: 'x',
    iat: now,
    exp: now + 60,
    roles: ['operator'],
  }
  return `${part({ alg: 'ES256', typ: 'at+jwt', kid: 'nobodys' })}.${part(claims)}.${'A'.repeat(86)}`
}
