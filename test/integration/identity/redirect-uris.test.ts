/** Redirect URIs of applications on the device: which schemes a client may have, what people see, and where the code goes. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  askTokens,
  authorization,
  Browser,
  claimsOf,
  inWorkspace,
  REDIRECT,
  type TestAccount,
} from '../../support/clients/browser.ts'
import { type PublishedMcpServer, publishMcpServer } from '../../support/clients/mcp.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const CURSOR = 'cursor://anysphere.cursor-mcp/oauth/callback'

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let person: TestAccount
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mcpServer = await publishMcpServer(workspace, 'schemes')
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
})

const register = (redirect_uris: readonly string[], more: object = {}) =>
  call('POST', '/auth/register', { body: { redirect_uris, ...more } })

describe('private-use scheme', () => {
  test.each([
    CURSOR,
    'com.example.app:/oauth2redirect',
    'com.example.app:callback',
    'vscode://host.name/cb?id=1',
  ])(
    'private-use scheme: %s: consent names the scheme, the code goes there, tokens are issued',
    async (redirect_uri) => {
      const { status, body } = await register([redirect_uri])
      expect([status, body.redirect_uris]).toEqual([201, [redirect_uri]])
      const scheme = new URL(redirect_uri).protocol
      const browser = new Browser(scheme)
      const flow = authorization(body.client_id, { redirect_uri, resource: mcpServer.url })
      const { email, password } = person
      const consent = await browser.submit(await browser.open(flow.url), { action: 'login', email, password })
      expect(consent.html).toContain(`the application on this device that opens <code>${scheme}</code> links`)
      expect(consent.html).toContain('any program can pretend to be this client')
      expect(consent.headers.get('content-security-policy')).toContain(`form-action 'self' ${scheme};`)
      const end = await browser.submit(consent, { action: 'allow' })
      expect(end.url.startsWith(redirect_uri)).toBe(true)
      const tokens = await askTokens({
        ...{ grant_type: 'authorization_code', client_id: body.client_id, redirect_uri },
        ...{ code: new URL(end.url).searchParams.get('code') ?? '', code_verifier: flow.verifier },
      })
      expect(claimsOf(tokens.body['access_token']).aud).toBe(mcpServer.url)
    },
  )

  test('private-use scheme: another path, host or query: refused', async () => {
    const { body } = await register([CURSOR])
    for (const redirect_uri of [`${CURSOR}/x`, `${CURSOR}?x`, 'cursor://other/oauth/callback', 'cursor:'])
      expect(
        (await new Browser('nowhere:').open(authorization(body.client_id, { redirect_uri }).url)).status,
      ).toBe(400)
  })

  test('private-use scheme: page with an opaque origin: may not read tokens', async () => {
    const client_id = await addClient(workspace.operator, { redirect_uris: [CURSOR] })
    const response = await fetch(`${inject('tenon').url}/auth/token`, {
      method: 'POST',
      headers: { origin: 'null' },
      body: new URLSearchParams({ grant_type: 'refresh_token', client_id, refresh_token: 'x' }),
    })
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
  })
})

const UNUSABLE = [
  ...[
    'javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'blob:https://a.test/x',
    'about:blank',
  ],
  ...['vbscript:x', 'view-source:https://a.test/', 'mailto:a@b.test', 'ms-msdt:/id', 'intent://x#Intent;end'],
  ...['http://agent.test/cb', 'ws://agent.test/cb', 'wss://agent.test/cb', 'ftp://agent.test/cb'],
  ...[
    'cursor://u:p@host/cb',
    'cursor://host/cb#x',
    'cursor://host/*',
    'cursor://a;b/cb',
    'cursor',
    '/cb',
    '',
  ],
  ...['JavaScript:alert(1)', ' javascript:alert(1)', 'java\nscript:alert(1)', 'CURSOR://host/cb'],
]

describe('unusable URI', () => {
  test.each(UNUSABLE)(
    'unusable URI: %j: refused alone, left out beside a good one, refused from admins',
    async (uri) => {
      const alone = await register([uri])
      expect([alone.status, alone.body.error]).toEqual([400, 'invalid_redirect_uri'])
      const beside = await register([uri, REDIRECT])
      expect([beside.status, beside.body.redirect_uris]).toEqual([201, [REDIRECT]])
      const body = { kind: 'public', name: 'App', redirect_uris: [uri, REDIRECT] }
      expect((await call('POST', '/v1/oauth-clients', { as: workspace.operator, body })).status).toBe(400)
    },
  )

  test('unusable URI: https of a loopback address: left out for a native client, kept for a web client', async () => {
    const tls = 'https://localhost:5173/cb'
    expect((await register([tls])).body.redirect_uris).toEqual([tls])
    const native = (await register([tls, CURSOR])).body
    expect(native.redirect_uris).toEqual([CURSOR])
    const flow = authorization(native.client_id, { redirect_uri: CURSOR, resource: mcpServer.url })
    expect((await new Browser('nowhere:').open(flow.url)).url).toContain('/interaction/')
  })
})

test('registration: grant and response types that are not offered: left out', async () => {
  const grant_types = [
    'authorization_code',
    'refresh_token',
    'urn:ietf:params:oauth:grant-type:device_code',
    'implicit',
  ]
  const { status, body } = await register([REDIRECT], { grant_types, response_types: ['code', 'token'] })
  expect([status, body.grant_types, body.response_types]).toEqual([
    201,
    ['authorization_code', 'refresh_token'],
    ['code'],
  ])
})
