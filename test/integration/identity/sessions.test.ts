/** Sessions and consents: listed and ended by the person, on the page and over the API, and by admins. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  bearer,
  inWorkspace,
  refresh,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import { accountPageUrl, enterAccountPage, openAccount } from '../../support/clients/second-factors.ts'
import { addUser, createUserApp, type UserApp, userTokens } from '../../support/clients/users.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let workspace: TestWorkspace
let app: UserApp
let clientId: string
let node: Node
beforeAll(async () => {
  ;[workspace, node] = await Promise.all([createTestWorkspace(), startInProcessNode()])
  app = await createUserApp(workspace)
  clientId = await addClient(workspace.operator)
})
afterAll(() => node?.close())

type Tokens = Readonly<Record<string, string>>

/** A kind of person: how one signs in, and what an admin calls them. */
interface Kind {
  readonly path: 'accounts' | 'users'
  readonly client: () => string
  readonly add: () => Promise<{
    readonly id: string
    readonly tokens: () => Promise<Tokens>
    readonly page: () => Promise<unknown>
  }>
}

const KINDS: Readonly<Record<string, Kind>> = {
  account: {
    path: 'accounts',
    client: () => clientId,
    add: async () => {
      const person: TestAccount = await addAccount(workspace.operator, {
        role: 'workspace_admin',
        ...inWorkspace(workspace),
      })
      const tokens = async () => (await tokensOf(clientId, person)).body
      return { id: person.id, tokens, page: () => enterAccountPage(person) }
    },
  },
  user: {
    path: 'users',
    client: () => app.clientId,
    add: async () => {
      const user = await addUser(app)
      const tokens = async () => (await userTokens(app, user)).body
      return { id: user.id, tokens, page: () => openAccount(app, user) }
    },
  },
}

const sessionsOf = async (as: ReturnType<typeof bearer>, path = '/v1/me/sessions') =>
  (await ok(call('GET', path, { as }))).data as {
    id: string
    page: string | null
    current?: boolean
    address: string
  }[]

/** Waits until both processes refuse a token. */
const refusedEverywhere = (as: ReturnType<typeof bearer>) =>
  Promise.all(
    [inject('tenon'), node.at].map((at) =>
      eventually(async () => (await call('GET', '/v1/me', { as, at })).status === 401 || undefined),
    ),
  )

test.each(Object.keys(KINDS))(
  'sessions of a %s: each sign-in is one; ending one ends its tokens in every process, and no other',
  async (name) => {
    const kind = KINDS[name] as Kind
    const person = await kind.add()
    const [first, second] = [await person.tokens(), await person.tokens()]
    await person.page()
    const [one, two] = [bearer(first['access_token']), bearer(second['access_token'])]
    for (const as of [one, two]) expect((await call('GET', '/v1/me', { as, at: node.at })).status).toBe(200)
    const listed = await sessionsOf(one)
    expect(listed).toHaveLength(3)
    expect(listed.map(({ page }) => page).sort()).toEqual([
      kind.path === 'users' ? '/auth/user' : '/auth/account',
      null,
      null,
    ])
    expect(listed.filter(({ current }) => current)).toHaveLength(1)
    expect(listed.every(({ address }) => address !== '')).toBe(true)
    const other = (await sessionsOf(two)).find(({ current }) => current)
    expect(await ok(call('DELETE', `/v1/me/sessions/${other?.id}`, { as: one }))).toEqual({
      id: other?.id,
      ended: true,
    })
    expect((await refresh(kind.client(), second['refresh_token'])).status).toBe(400)
    await refusedEverywhere(two)
    expect((await refresh(kind.client(), first['refresh_token'])).status).toBe(200)
    expect((await call('DELETE', `/v1/me/sessions/${other?.id}`, { as: one })).status).toBe(404)
  },
)

test.each(Object.keys(KINDS))(
  'admin of a %s: lists and ends sessions; another tenant finds neither',
  async (name) => {
    const kind = KINDS[name] as Kind
    const [person, twin] = [await kind.add(), await kind.add()]
    const { access_token } = await person.tokens()
    await twin.tokens()
    const as = workspace.operator
    const path = `/v1/${kind.path}/${person.id}/sessions`
    const [session] = await sessionsOf(as, path)
    const foreign = await createTestWorkspace()
    const admin = await addAccount(foreign.operator, { role: 'tenant_admin', tenant_id: foreign.tenantId })
    const stranger = bearer((await tokensOf(clientId, admin)).body['access_token'])
    expect((await call('GET', path, { as: stranger })).status).toBe(404)
    expect((await call('DELETE', `${path}/${session?.id}`, { as: stranger })).status).toBe(404)
    expect((await call('DELETE', `/v1/${kind.path}/${twin.id}/sessions/${session?.id}`, { as })).status).toBe(
      404,
    )
    await ok(call('DELETE', `${path}/${session?.id}`, { as }))
    await refusedEverywhere(bearer(access_token))
    expect(await sessionsOf(as, `/v1/${kind.path}/${twin.id}/sessions`)).toHaveLength(1)
  },
)

test('consents: listed with client and scopes; ending one ends its tokens', async () => {
  const person = await (KINDS['account'] as Kind).add()
  const { access_token, refresh_token } = await person.tokens()
  const as = bearer(access_token)
  const [consent] = (await ok(call('GET', '/v1/me/consents', { as }))).data
  expect(consent).toMatchObject({
    client_id: clientId,
    client_name: 'App',
    resource: `${inject('tenon').url}/v1`,
    scopes: ['api'],
  })
  expect((await call('DELETE', '/v1/me/consents/unknown', { as })).status).toBe(404)
  await ok(call('DELETE', `/v1/me/consents/${consent.id}`, { as }))
  expect((await refresh(clientId, refresh_token)).status).toBe(400)
  await refusedEverywhere(as)
})

test('page of the account: shows sessions and consents, and ends them; the cookie of an ended session opens nothing', async () => {
  const person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  const { refresh_token } = (await tokensOf(clientId, person)).body
  const [mine, other] = [await enterAccountPage(person), await enterAccountPage(person)]
  // Which one it is, is said from the first page on.
  expect(mine.page.html).toMatch(/, this page</)
  const page = await mine.browser.open(accountPageUrl())
  const ids = [...page.html.matchAll(/name="session" value="([^"]+)"/g)].map(([, id]) => id)
  expect(ids).toHaveLength(3)
  const [own] = /value="(ses_\w+)"[^>]*>[^<]*<small>[^<]*, this page/.exec(page.html)?.slice(1) ?? []
  for (const session of ids.filter((id) => id !== own))
    expect(
      (await mine.browser.submit(page, { action: 'session_end', session: session ?? '' })).html,
    ).toContain('The session has ended')
  expect((await other.browser.open(accountPageUrl())).html).not.toContain(person.email)
  expect((await mine.browser.open(accountPageUrl())).html).toContain(person.email)
  expect((await refresh(clientId, refresh_token)).status).toBe(400)
  await tokensOf(clientId, person)
  const again = await mine.browser.open(accountPageUrl())
  const [, grant = ''] = /name="grant" value="([^"]+)"/.exec(again.html) ?? []
  expect((await mine.browser.submit(again, { action: 'remove', grant })).html).toContain(
    'The access is removed',
  )
})

test('API key, restricted token, machine: have no sessions', async () => {
  for (const as of [workspace.service, workspace.anon, workspace.operator])
    expect((await call('GET', '/v1/me/sessions', { as })).status).toBe(403)
})
