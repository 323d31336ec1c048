/** Fifty posts of one link that sets a password: one counts, the others cost no hash, and people of other tenants sign in meanwhile. */

import { beforeAll, expect, test } from 'vitest'
import { addAccount, authorization, Browser, inWorkspace, REDIRECT } from '../support/clients/browser.ts'
import { mailTo } from '../support/clients/mails.ts'
import { ok } from '../support/clients/mcp.ts'
import {
  addUser,
  addUserByInvitation,
  createUserApp,
  newUser,
  submitStep,
  type TestUser,
  trySignIn,
  type UserApp,
} from '../support/clients/users.ts'
import { call, createTestWorkspace, unique } from '../support/fixtures/tenants.ts'
import { apiCpuTicks } from '../support/stack/shared-api.ts'

const POSTS = 50
/** Requests that read the link just before the first one used it may hash as well; before links were claimed, all did. */
const HASHES_MAX = 10

let app: UserApp
let elsewhere: UserApp
/** A user of another tenant, whose password costs as much to check as any. */
let bystander: TestUser

beforeAll(async () => {
  const workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[app, elsewhere] = (await Promise.all(workspaces.map((one) => createUserApp(one)))) as [UserApp, UserApp]
  bystander = await addUserByInvitation(elsewhere)
})

/** Makes a person, and the link that sets their password. */
const LINKS: Readonly<Record<string, () => Promise<string>>> = {
  'invitation of a user': async () => {
    const body = { workspace_id: app.workspace.workspaceId, email: newUser().email }
    return (await ok(call('POST', '/v1/users', { as: app.workspace.operator, body }))).invitation_url
  },
  'reset of a user': async () => {
    const { email } = await addUser(app)
    const browser = new Browser(REDIRECT)
    const page = await browser.open(authorization(app.clientId).url)
    await submitStep(browser, page, 'forgot', { action: 'forgot', email })
    return (await mailTo(email, 'Set a new password')).link
  },
  'invitation of an account': async () => {
    const body = {
      role: 'workspace_admin',
      ...inWorkspace(app.workspace),
      email: `${unique('ada')}@example.test`,
    }
    return (await ok(call('POST', '/v1/accounts', { as: app.workspace.operator, body }))).invitation_url
  },
  'reset of an account': async () => {
    const as = app.workspace.operator
    const { id } = await addAccount(as, { role: 'workspace_admin', ...inWorkspace(app.workspace) })
    return (await ok(call('POST', `/v1/accounts/${id}/reset`, { as, body: {} }))).reset_url
  },
}

/** @returns the statuses, and the CPU time of the API in ticks until all were answered and `meanwhile` was done */
async function post(link: string, times: number, meanwhile = async () => {}) {
  const browser = new Browser('nowhere:')
  const page = await browser.open(link)
  const password = 'another password of mine'
  const before = await apiCpuTicks()
  const posts = Array.from({ length: times }, () =>
    browser.submit(page, { action: 'set', password, again: password }),
  )
  const [seen] = await Promise.all([Promise.all(posts), meanwhile()])
  return { statuses: seen.map(({ status }) => status), ticks: (await apiCpuTicks()) - before }
}

async function signInElsewhere(): Promise<void> {
  const end = await trySignIn(new Browser(REDIRECT), authorization(elsewhere.clientId), bystander)
  expect(end.url, `${end.status} ${end.html}`).toMatch(REDIRECT)
}

test.each(Object.keys(LINKS))(
  '%s: fifty posts at once: one sets the password, few are hashed, and a user of another tenant signs in',
  async (kind) => {
    const make = LINKS[kind] as () => Promise<string>
    // One post with its hash, and the hash of one sign-in.
    const one = await post(await make(), 1, signInElsewhere)
    expect(one.statuses).toEqual([200])
    const all = await post(await make(), POSTS, signInElsewhere)
    expect(all.statuses.filter((status) => status === 200)).toHaveLength(1)
    for (const status of all.statuses) expect([200, 404, 409, 429]).toContain(status)
    expect(all.ticks).toBeLessThan(one.ticks * (HASHES_MAX / 2))
  },
)
