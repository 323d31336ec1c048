// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Who counts as the person of an end user (`fourEyes`): each admin who could sign in as the user, after every operation on users and
 * on the ways in which they sign in.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import {
  addAccount,
  authorization,
  Browser,
  bearer,
  REDIRECT,
  type Seen,
} from '../support/clients/browser.ts'
import { mailTo } from '../support/clients/mails.ts'
import { ok } from '../support/clients/mcp.ts'
import {
  accountPageOf,
  addUser,
  confirm,
  createUserApp,
  newUser,
  submitStep,
  type TestUser,
  trySignIn,
  type UserApp,
  userTokens,
} from '../support/clients/users.ts'
import { Admins, type Person, post, tokenFor } from '../support/fixtures/admins.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { publishScheduled } from '../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { FakeIdentityProvider } from '../support/servers/fake-identity-provider.ts'
import { configure } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let app: UserApp
let admins: Admins
let provider: FakeIdentityProvider
/** Mallory invites users and signs in as them. Carol is an admin who has done neither. */
let mallory: Person
let carol: Person

beforeAll(async () => {
  provider = await FakeIdentityProvider.open()
  workspace = await createTestWorkspace()
  app = await usersOf(workspace)
  admins = new Admins(workspace)
  const claims = { role: 'tenant_admin', tenant_id: workspace.tenantId }
  const person = () => admins.person(addAccount(workspace.operator, claims))
  ;[mallory, carol] = await Promise.all([person(), person()])
})
afterAll(() => provider?.close())

/** A client for the users of a workspace, whose admins may choose the provider. */
async function usersOf(place: TestWorkspace): Promise<UserApp> {
  await configure(place, { egress: { allow: [provider.host] } })
  return createUserApp(place, 'invite')
}

const invite = (of: UserApp, { email }: TestUser, as: Caller, more: object = {}) =>
  post(as, '/v1/users', { workspace_id: of.workspace.workspaceId, email, ...more })

async function use(link: string, { password }: TestUser): Promise<void> {
  const browser = new Browser('nowhere:')
  const form = { action: 'set', password, again: password }
  expect((await browser.submit(await browser.open(link), form)).status).toBe(200)
}

const offer = ({ workspace: { workspaceId } }: UserApp) => ({
  workspace_id: workspaceId,
  auth: { providers: [{ id: 'idp', name: 'Staff', issuer: provider.origin, client_id: 'tenon' }] },
})

const isSignedIn = ({ url }: Seen) => url.startsWith(REDIRECT) && new URL(url).searchParams.has('code')

/** Signs in at the provider as a person with the address. @returns the page that follows */
async function signInByProvider({ clientId }: UserApp, { email }: Pick<TestUser, 'email'>): Promise<Seen> {
  provider.person = { sub: unique('sub'), email, email_verified: true, name: 'Ida' }
  const browser = new Browser(REDIRECT)
  const [interaction] = (await browser.open(authorization(clientId).url)).url.split('?')
  return browser.open(`${interaction}/providers/idp`)
}

/** The operations of admins that change users, or the ways in which they sign in. */
const OF_USERS = /"Id of a user\."|"\^usr_|"providers"/
const CHANGES = OPERATIONS.filter(
  ({ reads, roles, input, output }) =>
    !reads && roles.includes('tenant_admin') && OF_USERS.test(JSON.stringify([input, output])),
)

const BODIES: Readonly<Record<string, (of: UserApp, user: TestUser) => object>> = {
  'user.create': ({ workspace: { workspaceId } }) => ({ workspace_id: workspaceId, email: newUser().email }),
  'user.update': () => ({ name: 'Ida', claims: { plan: 'pro' }, disabled: false }),
  'service.configure': offer,
}

/** Sets a password with the link in the response, if there is one, then tries to sign in by password and by provider. @returns true if one succeeds */
async function canSignIn(of: UserApp, email: string, { body }: Reply): Promise<boolean> {
  const own = { ...newUser(), email }
  const [link] = /https?:[^"]*token=[^"]+/.exec(JSON.stringify(body)) ?? []
  if (link !== undefined) await use(link, own)
  const pages = [
    await trySignIn(new Browser(REDIRECT), authorization(of.clientId), own),
    await signInByProvider(of, own),
  ]
  return pages.some(isSignedIn)
}

async function peopleBehind(subject: string): Promise<string[]> {
  const [row] = await asSuperuser<{ people: string[] }>(
    `with tenant as materialized (select set_config('tenon.tenant', $1, true))
     select tenon.people_behind(array[$2]) as people from tenant`,
    [workspace.tenantId, subject],
  )
  return row?.people ?? []
}

const STATES = {
  invited: async (of: UserApp) => {
    const user = newUser()
    return { ...user, ...(await invite(of, user, workspace.operator)) }
  },
  active: (of: UserApp) => addUser(of),
}

test.each(['invited', 'active'] as const)(
  'operations of an admin on a user who is %s: who can sign in afterwards counts as the person of the user, nobody else',
  async (state) => {
    const able: string[] = []
    for (const { name, http } of CHANGES) {
      const of = await usersOf(await addTestWorkspace(workspace))
      const user = await STATES[state](of)
      const body = BODIES[name]?.(of, user) ?? {}
      const reply = await call(http.method, http.path.replace('{id}', user.id), { as: mallory.as, body })
      const { id, email } = name === 'user.create' ? reply.body : user
      const signsIn = await canSignIn(of, email, reply)
      if (signsIn) able.push(name)
      expect([name, (await peopleBehind(id)).includes(mallory.id)]).toEqual([name, signsIn])
    }
    // An active user is asked for the password before a provider signs in.
    const expected = { invited: ['user.create', 'user.invite', 'service.configure'], active: ['user.create'] }
    expect(able).toEqual(expected[state])
  },
)

const BOARD = "[{ board: { approve: { approvers: ['role:tenant_admin'] } } }]"

/** Writes a document as the user, which starts a flow. @returns the execution, which waits for a decision */
async function startAs(as: Caller): Promise<string> {
  const [collection, flow] = [unique('orders'), unique('payout')]
  const access = { user: { create: true } }
  const declared = {
    workspace_id: workspace.workspaceId,
    collection,
    store: 'relational',
    schema: {},
    access,
  }
  await post(workspace.operator, '/v1/schemas', declared)
  await publishScheduled(
    workspace,
    flow,
    `{ on: { one: { with: { type: collections.${collection}.created } } } }`,
    BOARD,
  )
  await post(as, `/v1/collections/${collection}/documents`, { sum: 1 })
  return eventually(async () => {
    const path = `${workspace.flows}/definitions/${flow}/executions`
    const { data } = await ok(call('GET', path, { as: workspace.operator }))
    return data.find(({ status }: { status: string }) => status === 'waiting')?.id
  })
}

const signIn = async (user: TestUser) => bearer((await userTokens(app, user)).body['access_token'])

/** Gives the user another password, with a link in a mail. */
async function reset(user: TestUser): Promise<TestUser> {
  const browser = new Browser(REDIRECT)
  const page = await browser.open(authorization(app.clientId).url)
  await submitStep(browser, page, 'forgot', { action: 'forgot', email: user.email })
  const next = { ...newUser(), email: user.email }
  await use((await mailTo(user.email, 'Set a new password')).link, next)
  return next
}

async function changeAddress(user: TestUser, email: string): Promise<TestUser> {
  const browser = new Browser('nowhere:')
  const first = await browser.open(accountPageOf(app))
  const page = await browser.submit(first, { action: 'sign_in', ...user })
  await browser.submit(page, { action: 'email', email, current: user.password })
  const { link } = await mailTo(email, 'Confirm your new e-mail address')
  expect((await confirm(link, user)).status).toBe(200)
  return { ...user, email }
}

async function puppet(as: Caller = mallory.as): Promise<TestUser & { readonly id: string }> {
  const user = newUser()
  const { id, invitation_url } = await invite(app, user, as)
  await use(invitation_url, user)
  return { ...user, id }
}

const addPasskey = ({ id }: { readonly id: string }) =>
  asSuperuser(
    `insert into tenon.passkeys (id, tenant_id, workspace_id, user_id, public_key, counter, name)
    select $1, tenant_id, workspace_id, id, '', 0, 'k' from tenon.users where id = $1`,
    [id],
  )

/** The users who start an execution, and whether Mallory may decide in it. */
interface Way {
  readonly user: () => Promise<TestUser>
  readonly afterwards?: (user: TestUser) => Promise<unknown>
  readonly decides: boolean
}
const WAYS: Readonly<Record<string, Way>> = {
  'whose invitation she was shown': { user: () => puppet(), decides: false },
  'whose invitation she was shown, and whose password a mailed link sets afterwards': {
    user: () => puppet(),
    afterwards: reset,
    decides: false,
  },
  'whose invitation a client of hers was shown': {
    user: async () => puppet(await tokenFor(await admins.machine(mallory.as))),
    decides: false,
  },
  'whose invitation she was shown, and who has a passkey, after a mailed link has set the password': {
    user: async () => {
      const user = await puppet()
      await addPasskey(user)
      return reset(user)
    },
    decides: false,
  },
  'whose invitation she was shown, and who has had another address, after a mailed link has set the password':
    {
      user: async () => {
        const user = await puppet()
        const other = newUser().email
        await changeAddress(user, other)
        return reset(await changeAddress({ ...user, email: other }, user.email))
      },
      decides: false,
    },
  'who signs in at a provider that she has set': {
    user: async () => {
      await post(mallory.as, '/v1/services/configure', offer(app))
      const user = newUser()
      await invite(app, user, workspace.operator)
      expect(isSignedIn(await signInByProvider(app, user))).toBe(true)
      return reset(user)
    },
    decides: false,
  },
  'whose invitation she was shown, after a mailed link has set the password': {
    user: async () => reset(await puppet()),
    decides: true,
  },
  'whose invitation was mailed alone': {
    user: async () => {
      const user = newUser()
      expect((await invite(app, user, mallory.as, { mail: true })).invitation_url).toBeNull()
      await use((await mailTo(user.email, 'Your invitation')).link, user)
      return user
    },
    decides: true,
  },
}

test.concurrent.each(Object.keys(WAYS))(
  'execution of a user %s: she decides only if she could not be the user',
  async (name) => {
    const { user, afterwards, decides } = WAYS[name] as Way
    const executions = new Executions(workspace)
    const one = await user()
    const run = await startAs(await signIn(one))
    await afterwards?.(one)
    const { status, body } = await executions.send(run, 'approve', { approved: true }, mallory.as)
    if (decides) return expect(status, JSON.stringify(body)).toBe(200)
    expect([status, body.detail]).toEqual([409, expect.stringContaining('(fourEyes)')])
    await ok(executions.send(run, 'approve', { approved: true }, carol.as))
  },
)
