/** Payload viewer in the Temporal UI: which callers get its cookie, and what the cookie allows. */

import { expect, inject, test } from 'vitest'
import { PAYLOAD_SESSION_PATH } from '../../../src/access/authentication/payload-session.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const { url, env } = inject('tenon')
const PAGE = `${url}/auth/payloads`
const UI = new URL(env['TEMPORAL_UI_URL'] ?? '').origin

const signIn = (token: string, headers: Record<string, string> = {}) =>
  fetch(PAGE, { method: 'POST', body: new URLSearchParams({ token }), headers })

const tokenIn = ({ authorization = '' }: Readonly<Record<string, string>>) =>
  authorization.slice('Bearer '.length)
const adminOf = (workspace: TestWorkspace) =>
  tokenOf({ sub: 'ada', tenant_id: workspace.tenantId, roles: ['tenant_admin', 'payload_reader'] })

/** The cookie as a browser stores it. */
async function cookieOf(token: string): Promise<string> {
  const reply = await signIn(token)
  expect(reply.status).toBe(200)
  return reply.headers.get('set-cookie')?.split(';')[0] ?? ''
}

const decode = (
  cookie: string,
  payload: unknown,
  { origin = UI, path = PAYLOAD_SESSION_PATH, ...headers }: Record<string, string> = {},
) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', cookie, ...(origin !== '' && { origin }), ...headers },
    body: JSON.stringify({ payloads: [payload] }),
  })

/** The output payload of an execution, as Temporal stores it. */
async function outputIn(workspace: TestWorkspace, canary: string): Promise<unknown> {
  const executions = new Executions(workspace)
  const { workflow_id } = await executions.ended(
    await executions.start(await executions.publish(`  - a: { set: { x: ${canary} } }`)),
  )
  return withRawClient(async (client) => {
    // The record of an execution ends a moment before its workflow.
    const completed = await eventually(async () => {
      const { events } = await client.workflow.getHandle(workflow_id).fetchHistory()
      return events?.at(-1)?.workflowExecutionCompletedEventAttributes ?? undefined
    })
    const [payload] = completed.result?.payloads ?? []
    const metadata = Object.entries(payload?.metadata ?? {}).map(([name, bytes]) => [
      name,
      Buffer.from(bytes).toString('base64'),
    ])
    return {
      metadata: Object.fromEntries(metadata),
      data: Buffer.from(payload?.data ?? []).toString('base64'),
    }
  })
}

async function read(reply: Response): Promise<string> {
  const { payloads } = (await reply.json()) as { payloads: { data: string }[] }
  return Buffer.from(payloads[0]?.data ?? '', 'base64').toString()
}

test("viewer cookie: operator reads every tenant's payloads, tenant admin its own", async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const canary = unique('canary')
  const payload = await outputIn(workspace, canary)
  const readBy = async (as: Readonly<Record<string, string>>) =>
    read(await decode(await cookieOf(tokenIn(as)), payload))
  expect(await readBy(workspace.operator)).toContain(canary)
  expect(await readBy(await adminOf(workspace))).toContain(canary)
  expect(await readBy(await adminOf(other))).not.toContain(canary)
})

test('viewer cookie of a workspace admin: reads payloads of its own workspace only, each read is logged', async () => {
  const workspace = await createTestWorkspace()
  const neighbour = await addTestWorkspace(workspace)
  const canary = unique('canary')
  const payload = await outputIn(workspace, canary)
  const readBy = async ({ tenantId, workspaceId }: TestWorkspace) => {
    const claims = {
      sub: 'bo',
      tenant_id: tenantId,
      workspace_id: workspaceId,
      roles: ['workspace_admin', 'payload_reader'],
    }
    return read(await decode(await cookieOf(tokenIn(await tokenOf(claims))), payload))
  }
  expect(await readBy(workspace)).toContain(canary)
  expect(await readBy(neighbour)).not.toContain(canary)
  expect(await readBy(await createTestWorkspace())).not.toContain(canary)
  const entries = await entriesOfWorkspace(workspace, '&operation=codec.decode')
  expect(entries).toMatchObject([
    { actor: { role: 'workspace_admin' } },
    { actor: { role: 'workspace_admin' } },
  ])
})

test('viewer cookie of a workspace admin: a payload moved to its workspace is not decrypted', async () => {
  const workspace = await createTestWorkspace()
  const neighbour = await addTestWorkspace(workspace)
  const canary = unique('canary')
  type Wire = { metadata: Record<string, string>; data: string }
  const [theirs, mine] = (await Promise.all([
    outputIn(workspace, canary),
    outputIn(neighbour, unique('own')),
  ])) as Wire[]
  const metadata = { ...theirs?.metadata, 'tenon-bound-to': mine?.metadata['tenon-bound-to'] ?? '' }
  const claims = {
    sub: 'bo',
    tenant_id: neighbour.tenantId,
    workspace_id: neighbour.workspaceId,
    roles: ['workspace_admin', 'payload_reader'],
  }
  const cookie = await cookieOf(tokenIn(await tokenOf(claims)))
  const page = await (await decode(cookie, { ...theirs, metadata })).text()
  expect(page).not.toContain(canary)
  expect(Buffer.from(JSON.parse(page).payloads[0].data, 'base64').toString()).toContain('payload_unreadable')
})

test('viewer cookie from another origin or on another path: 401', async () => {
  const workspace = await createTestWorkspace()
  const canary = unique('canary')
  const payload = await outputIn(workspace, canary)
  const reply = await signIn(tokenIn(workspace.operator))
  const set = reply.headers.get('set-cookie') ?? ''
  // As long as the token, which other tests have used before.
  expect(set).toMatch(/; Max-Age=[1-3]\d{3}; Path=\/v1\/codec\/decode; HttpOnly; SameSite=Strict$/)
  expect(reply.headers.get('cache-control')).toBe('no-store')
  const cookie = set.split(';')[0] ?? ''
  // It does not contain the token.
  expect(Buffer.from(cookie, 'base64url').toString('latin1')).not.toContain('eyJ')

  const good = await decode(cookie, payload)
  expect(good.status).toBe(200)
  // The request of the Temporal UI.
  const fromUi = await decode(cookie, payload, { path: `${PAYLOAD_SESSION_PATH}?preserveStorageRefs=true` })
  expect(fromUi.status).toBe(200)
  expect(good.headers.get('access-control-allow-origin')).toBe(UI)
  for (const origin of ['', 'null', 'https://evil.test', `${UI}.evil.test`, url]) {
    const refused = await decode(cookie, payload, { origin })
    expect(refused.status, origin).toBe(401)
    expect(refused.headers.get('access-control-allow-origin')).toBeNull()
  }
  for (const path of ['/v1/codec/encode', '/v1/tenants', '/v1/api-keys'])
    expect((await decode(cookie, payload, { path })).status, path).toBe(401)
  const me = await fetch(`${url}/v1/me`, { headers: { cookie, origin: UI } })
  expect(me.status).toBe(401)
})

test('viewer cookie tampered with or replaced by a token: 401; an explicit credential takes precedence', async () => {
  const workspace = await createTestWorkspace()
  const payload = await outputIn(workspace, unique('canary'))
  const token = tokenIn(workspace.operator)
  const cookie = await cookieOf(token)
  const changed = `${cookie.slice(0, -3)}${cookie.endsWith('AAA') ? 'BBB' : 'AAA'}`
  for (const bad of [changed, `tenon_payloads=${token}`, 'tenon_payloads='])
    expect((await decode(bad, payload)).status, bad).toBe(401)
  expect((await decode(cookie, payload, { authorization: 'Bearer nonsense' })).status).toBe(401)
  expect((await decode(cookie, payload, workspace.service)).status).toBe(403)
})

test('caller that may not read payloads: no cookie; cross-site form: 403', async () => {
  const workspace = await createTestWorkspace()
  const bounds = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  const weak = await tokenOf({ sub: 'bo', ...bounds, roles: ['service'] })
  const old = await tokenOf({ sub: 'cy', roles: ['operator', 'payload_reader'], iat: 1_000, exp: 2_000 })
  for (const [token, status] of [
    [tokenIn(weak), 403],
    [tokenIn(old), 401],
    ['<b>', 401],
    ['', 401],
  ] as const) {
    const reply = await signIn(token)
    expect(reply.status, token).toBe(status)
    expect(reply.headers.get('set-cookie')).toBeNull()
    expect(await reply.text()).toContain('role="alert"')
  }
  const crossSite: Record<string, string>[] = [
    { origin: 'https://evil.test' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ]
  for (const headers of crossSite) {
    const reply = await signIn(tokenIn(workspace.operator), headers)
    expect(reply.status).toBe(403)
    expect(reply.headers.get('set-cookie')).toBeNull()
  }
})

test('tenant suspended or token expired: the cookie stops working', async () => {
  const workspace = await createTestWorkspace()
  const payload = await outputIn(workspace, unique('canary'))
  const cookie = await cookieOf(tokenIn(await adminOf(workspace)))
  expect((await decode(cookie, payload)).status).toBe(200)
  await call('POST', `/v1/tenants/${workspace.tenantId}/suspend`, { as: workspace.operator, body: {} })
  await expect.poll(async () => (await decode(cookie, payload)).status).toBe(403)
  await call('POST', `/v1/tenants/${workspace.tenantId}/resume`, { as: workspace.operator, body: {} })
  expect((await decode(cookie, payload)).status).toBe(200)

  const short = await tokenOf({
    sub: 'ada',
    roles: ['operator', 'payload_reader'],
    exp: Math.floor(Date.now() / 1_000) + 4,
  })
  const reply = await signIn(tokenIn(short))
  expect(reply.headers.get('set-cookie')).toMatch(/Max-Age=[0-4];/)
  const [brief = ''] = (reply.headers.get('set-cookie') ?? '').split(';')
  expect((await decode(brief, payload)).status).toBe(200)
  await expect.poll(async () => (await decode(brief, payload)).status).toBe(401)
})

test('viewer login accepted or denied: both in the audit log', async () => {
  const workspace = await createTestWorkspace()
  await cookieOf(tokenIn(await adminOf(workspace)))
  const bounds = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  await signIn(tokenIn(await tokenOf({ sub: 'bo', ...bounds, roles: ['service'] })))
  const entries = await eventually(async () => {
    const found = (await entriesOfWorkspace(workspace)).filter(
      ({ operation }) => operation === 'codec.admit_page',
    )
    return found.length === 2 ? found : undefined
  })
  const logged = entries.map(({ outcome, actor, code }) => ({ outcome, actor, code }))
  expect(logged).toEqual(
    expect.arrayContaining([
      { outcome: 'done', actor: expect.objectContaining({ subject: 'ada' }), code: null },
      {
        outcome: 'denied',
        actor: expect.objectContaining({ subject: 'bo' }),
        code: 'privilege_domain_mismatch',
      },
    ]),
  )
})
