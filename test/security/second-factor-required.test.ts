/** Policies that require a second factor, and operations that demand a recent proof: refusals, challenges, and what satisfies them. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import { createSweepResources, ROWS, type World } from '../isolation/sweep-rows.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  type TestAccount,
  tokensOf,
} from '../support/clients/browser.ts'
import { ok } from '../support/clients/mcp.ts'
import {
  type EnrolledAccount,
  enrolAccount,
  enterAccountPage,
  signInWithCode,
} from '../support/clients/second-factors.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  sharedOperator,
  type TestWorkspace,
  tokenOf,
} from '../support/fixtures/tenants.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import { migrateHere, withDatabase } from '../support/stack/own-database.ts'

const POLICY = '/v1/sign-in-policy'

let clientId: string
let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  clientId = await addClient(workspace.operator)
})

const addAdmin = (of = workspace) => addAccount(of.operator, { role: 'tenant_admin', tenant_id: of.tenantId })

async function strongTokens(person: EnrolledAccount, more: Record<string, string> = {}) {
  const flow = authorization(clientId, more)
  return (await exchange(clientId, flow, await signInWithCode(new Browser(REDIRECT), flow, person))).body
}
const strong = async (person: EnrolledAccount) => bearer((await strongTokens(person))['access_token'])
const weakTokens = async (person: TestAccount) => (await tokensOf(clientId, person)).body

describe('require_mfa', () => {
  test('tenant: tokens without a second factor open nothing within 5 s, whoever issued them; enrolment opens everything', async () => {
    const place = await createTestWorkspace()
    const [chief, second, helper] = await Promise.all([
      addAdmin(place).then(enrolAccount),
      addAdmin(place),
      addAccount(place.operator, { role: 'workspace_admin', ...inWorkspace(place) }),
    ])
    const [weak, own, before] = await Promise.all([weakTokens(second), weakTokens(helper), strong(chief)])
    const forged = await tokenOf({ sub: 'someone', roles: ['tenant_admin'], tenant_id: place.tenantId })
    const callers = [bearer(weak['access_token']), bearer(own['access_token']), forged]
    for (const as of callers) expect((await call('GET', '/v1/me', { as })).status).toBe(200)
    const set = await call('PUT', POLICY, { as: before, body: { require_mfa: true } })
    expect(set).toMatchObject({
      status: 200,
      body: { tenant_id: place.tenantId, require_mfa: true, updated_by: chief.id },
    })
    for (const as of callers) {
      const refused = await eventually(async () => {
        const reply = await call('GET', '/v1/me', { as })
        return reply.status === 401 ? reply : undefined
      })
      expect(refused.body).toMatchObject({
        code: 'insufficient_user_authentication',
        acr_values: 'urn:tenon:acr:multi-factor',
        account_url: `${inject('tenon').url}/auth/account`,
      })
      expect(refused.headers.get('www-authenticate')).toMatch(
        /^Bearer .*error="insufficient_user_authentication".*acr_values="urn:tenon:acr:multi-factor"/,
      )
    }
    // A refresh proves nothing.
    const again = (await refresh(clientId, weak['refresh_token'])).body
    expect((await call('GET', '/v1/me', { as: bearer(again['access_token']) })).status).toBe(401)
    expect((await call('GET', '/v1/me', { as: before })).status).toBe(200)
    expect((await call('GET', '/v1/limits', { as: place.service })).status).toBe(200)
    // The password alone leads to the page that adds a factor, and to no other.
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(clientId).url)
    const { tenant, email, password } = second
    const page = await browser.submit(login, { action: 'login', tenant, email, password })
    expect([page.status, page.html]).toEqual([403, expect.stringContaining('href="/auth/account"')])
    expect((await enterAccountPage(second, `${inject('tenon').url}/auth/agents`)).page.status).toBe(403)
    const as = await strong(await enrolAccount(second))
    expect((await call('GET', '/v1/me', { as })).status).toBe(200)
  })

  test('caller without a second factor: cannot require one; nor can an admin of a workspace or of another tenant', async () => {
    const [admin, helper] = await Promise.all([
      addAdmin(),
      addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) }).then(
        enrolAccount,
      ),
    ])
    const body = { require_mfa: true }
    const as = bearer((await weakTokens(admin))['access_token'])
    const refused = await call('PUT', POLICY, { as, body })
    expect(refused).toMatchObject({ status: 409, body: { code: 'state_conflict' } })
    expect(refused.body.hint).toContain('/auth/account')
    expect((await call('PUT', POLICY, { as: await strong(helper), body })).status).toBe(403)
    const other = await createTestWorkspace()
    const strongAdmin = await strong(await enrolAccount(await addAdmin()))
    for (const [as, status] of [[strongAdmin, 404]] as const)
      expect((await call('PUT', POLICY, { as, body: { ...body, tenant_id: other.tenantId } })).status).toBe(
        status,
      )
    expect((await call('GET', POLICY, { as: strongAdmin })).body).toMatchObject({ require_mfa: false })
  })

  // An installation of its own: the policy is that of all operators.
  test('operators: people without a second factor may do nothing within 5 s; machines and admins of tenants are not affected', async () => {
    const first = inject('tenon')
    await withDatabase(async ({ url, env }) => {
      await migrateHere(url, first.masterKey)
      const { at, close } = await startInProcessNode(env, { ...first, databaseUrl: url })
      const ofInstallation = { at, issuer: `${first.url}/auth`, audience: `${first.url}/v1` }
      const person = (claims: object) =>
        tokenOf({ sub: 'someone', roles: ['operator'], ...claims }, ofInstallation)
      const statusOf = async (as: Caller) => (await call('GET', '/v1/me', { as, at })).status
      const becomes = (status: number, as: Caller) =>
        eventually(async () => ((await statusOf(as)) === status ? true : undefined))
      try {
        const machine = await sharedOperator(at)
        const tenant_id = 'ten_01h00000000000000000000000'
        await asSuperuser(
          "insert into tenon.tenants (id, name, slug, state) values ($1, 'Test', 'test', 'active')",
          [tenant_id],
          at,
        )
        const [weak, strongOne, admin] = await Promise.all([
          person({ amr: ['pwd'] }),
          person({ amr: ['pwd', 'otp', 'mfa'] }),
          tokenOf({ sub: 'an admin', roles: ['tenant_admin'], tenant_id }, ofInstallation),
        ])
        const unaffected = [strongOne, admin, machine]
        const require_mfa = true
        const locksOut = await call('PUT', POLICY, { as: weak, at, body: { require_mfa } })
        expect([locksOut.status, locksOut.body.code]).toEqual([409, 'state_conflict'])
        const set = await call('PUT', POLICY, { as: strongOne, at, body: { require_mfa } })
        expect(set).toMatchObject({
          status: 200,
          body: { tenant_id: null, require_mfa, updated_by: 'someone' },
        })
        await becomes(401, weak)
        expect(await Promise.all(unaffected.map(statusOf))).toEqual([200, 200, 200])
        expect((await call('GET', POLICY, { as: machine, at })).body).toMatchObject({ require_mfa })
        const ofTenant = await call('GET', `${POLICY}?tenant_id=${tenant_id}`, { as: machine, at })
        expect(ofTenant.body).toMatchObject({ tenant_id, require_mfa: false })
        await ok(call('PUT', POLICY, { as: machine, at, body: { require_mfa: false } }))
        await becomes(200, weak)
      } finally {
        await close()
      }
    })
  })
})

/** The operations that demand a recent proof, whatever their input. */
const DEMANDING = OPERATIONS.filter(({ recentProof }) => recentProof !== undefined)

/** Of those that demand it by their input: what makes them do so, as part of the query. */
const DEMANDED_BY: Readonly<Record<string, readonly string[]>> = {
  'user.delete': ['?data=delete', '?data=anonymize'],
}

/** How the operation is called so that it demands a proof. */
const demandingPaths = (name: string, world: World): string[] =>
  (DEMANDED_BY[name] ?? ['']).map((query) => `${ROWS[name]?.path(world)}${query}`)

/** A token of a caller whom the operation serves, with what it says of the sign-in. */
const signedIn = (
  domain: (typeof DEMANDING)[number]['domain'],
  { tenantId, workspaceId }: TestWorkspace,
  proof: object,
): Promise<Caller> =>
  tokenOf({
    ...(domain === 'structural_admin'
      ? { sub: 'someone', roles: ['operator'] }
      : {
          ...{ sub: 'mia', role: 'user', roles: ['user'], email: 'mia@example.com', claims: {} },
          ...{ tenant_id: tenantId, workspace_id: workspaceId },
        }),
    ...proof,
  })

const signedInBefore = (seconds: number) => ({ auth_time: Math.floor(Date.now() / 1_000) - seconds })

/** Sends what the sweep sends, so that nothing but the proof is refused. */
async function sendRow(name: string, path: string, { as, world }: { as: Caller; world: World }) {
  const operation = DEMANDING.find((one) => one.name === name)
  const body = ROWS[name]?.body?.(world)
  const sent = { as, headers: ROWS[name]?.headers?.(world) ?? {}, ...(body !== undefined && { body }) }
  return call(operation?.http.method ?? '', path, sent)
}

describe('recent proof', () => {
  test('operations that demand one: what deletes, exports, restores, rotates and changes factors', () => {
    const names = DEMANDING.map(({ name }) => name)
    expect(names).toEqual(
      expect.arrayContaining([
        ...[
          'tenant.delete',
          'workspace.delete',
          'account.delete',
          'user.delete',
          'tenant.restore',
          'workspace.restore',
        ],
        ...['tenant.export', 'workspace.export'],
        ...['user.export', 'user.export_data', 'issuer.rotate_keys', 'sign_in_policy.set'],
        ...['account.reset_factors', 'user.reset_factors'],
      ]),
    )
  })

  test('each operation, with valid input: refused with a challenge after ten minutes, and for a token that does not say when', async () => {
    const place = await createTestWorkspaceWithStorage()
    const world = await createSweepResources(place)
    const byInput = DEMANDING.filter(({ recentProof }) => typeof recentProof === 'function')
    expect(byInput.map(({ name }) => name)).toEqual(Object.keys(DEMANDED_BY))
    const outcomes = async (proof: object) => {
      const replies = []
      for (const { name, domain } of DEMANDING) {
        const as = await signedIn(domain, place, proof)
        for (const path of demandingPaths(name, world))
          replies.push({ name, ...(await sendRow(name, path, { as, world })) })
      }
      return replies
    }
    for (const proof of [signedInBefore(601), { auth_time: undefined }])
      for (const { name, status, body, headers } of await outcomes(proof)) {
        expect([name, status, body.code]).toEqual([name, 401, 'insufficient_user_authentication'])
        expect(headers.get('www-authenticate')).toContain('max_age="600"')
      }
    // Not refused for the proof, nor for what was sent.
    const fresh = await outcomes(signedInBefore(590))
    expect(fresh.filter(({ status }) => status === 401 || status === 400)).toEqual([])
    expect(fresh.map(({ name }) => name)).toContain('user.export_data')
  })

  test('person with a second factor: a recent sign-in without it does not suffice; the challenge leads to one that does', async () => {
    const person = await addAdmin()
    const weak = bearer((await weakTokens(person))['access_token'])
    const victim = () =>
      addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
    expect((await call('DELETE', `/v1/accounts/${(await victim()).id}`, { as: weak })).status).toBe(200)
    const [enrolled, { id }] = await Promise.all([addAdmin().then(enrolAccount), victim()])
    // As if the factor had come without the end of the tokens.
    await asSuperuser(
      `insert into tenon.second_factors (account_id, tenant_id, workspace_id, sealed, last_step, recovery)
       select $1, tenant_id, workspace_id, sealed, last_step, recovery from tenon.second_factors where account_id = $2`,
      [person.id, enrolled.id],
    )
    const refused = await eventually(async () => {
      const reply = await call('DELETE', '/v1/accounts/acct_none', { as: weak })
      return reply.status === 401 ? reply : undefined
    })
    const challenge = refused.headers.get('www-authenticate') ?? ''
    const asked = Object.fromEntries(
      [...challenge.matchAll(/(max_age|acr_values)="([^"]+)"/g)].map(([, name, value]) => [name, value]),
    )
    expect(asked).toEqual({ max_age: '600', acr_values: 'urn:tenon:acr:multi-factor' })
    const token = (await strongTokens(enrolled, { ...asked, scope: 'openid' }))['access_token']
    await ok(call('DELETE', `/v1/accounts/${id}`, { as: bearer(token) }))
  })

  test('session that is too old for max_age: the sign-in begins again', async () => {
    const person = await enrolAccount(await addAdmin())
    const browser = new Browser(REDIRECT)
    await signInWithCode(browser, authorization(clientId), person)
    const page = await browser.open(authorization(clientId, { max_age: '0', scope: 'openid' }).url)
    expect(page.html).toContain('asks you to sign in')
    const sameSession = await browser.open(authorization(clientId, { max_age: '600', scope: 'openid' }).url)
    expect(sameSession.html).not.toContain('asks you to sign in')
  })
})
