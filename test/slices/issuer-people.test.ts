/** People sign in at the issuer: code with PKCE, consent, and tokens that say what they may. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  aClient,
  aPerson,
  askTokens,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  type Person,
  REDIRECT,
  signIn,
  tokensOf,
} from '../support/browser.ts'
import { aRoom, call, type Room } from '../support/tenants.ts'

let room: Room
let admin: Person
let clientId: string
beforeAll(async () => {
  room = await aRoom()
  admin = await aPerson(room.operator, { role: 'tenant_admin', tenant_id: room.tenantId })
  clientId = await aClient(room.operator)
})

describe('a person', () => {
  test('signs in, consents, and acts in her role', async () => {
    const browser = new Browser(REDIRECT)
    const flow = authorization(clientId)
    const login = await browser.open(flow.url)
    expect([login.status, login.html]).toEqual([
      200,
      expect.stringContaining('<b>App</b> asks you to sign in'),
    ])
    const { tenant, email, password } = admin
    const consent = await browser.submit(login, { action: 'login', tenant, email, password })
    expect(consent.html).toContain('127.0.0.1:9')
    expect(consent.html).toContain('<code>api</code>')
    const end = new URL((await browser.submit(consent, { action: 'allow' })).url)
    expect(Object.fromEntries(end.searchParams)).toEqual({
      code: expect.stringMatching(/^[\w-]{43}$/),
      state: flow.state,
      iss: `${inject('tenon').url}/auth`,
    })
    const { status, body } = await exchange(clientId, flow, end)
    expect([status, body]).toMatchObject([200, { token_type: 'Bearer', expires_in: 600, scope: 'api' }])
    expect(claimsOf(body['access_token'])).toMatchObject({
      sub: admin.id,
      client_id: clientId,
      roles: ['tenant_admin'],
      tenant_id: room.tenantId,
      aud: `${inject('tenon').url}/v1`,
    })
    const list = await call('GET', '/v1/workspaces', { as: bearer(body['access_token']) })
    expect(list.body.data.map(({ id }: { id: string }) => id)).toEqual([room.workspaceId])
  })
})
