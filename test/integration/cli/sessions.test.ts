/** Commands about sign-ins: sessions and consents of a person, and the sign-in that a command asks for when its token is too old. */

import { beforeAll, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  Browser,
  inWorkspace,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { startOnTerminal } from '../../support/clients/cli-process.ts'
import { addUser, createUserApp, userTokens } from '../../support/clients/users.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let env: NodeJS.ProcessEnv
let clientId: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  env = operatorEnv(workspace)
  clientId = await addClient(workspace.operator, { redirect_uris: ['http://127.0.0.1/callback'] })
})

const addAdmin = () => addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId })

/** Runs a command with the token of a person; absent: as the operator. @returns its output */
async function tenon(args: readonly string[], TENON_TOKEN?: string): Promise<string> {
  const { code, stdout, stderr } = await runCommand(args, { env: { ...env, TENON_TOKEN } })
  expect([args, code], stderr).toEqual([args, 0])
  return stdout
}

const linesOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))

test('session list, end: those of the person, with the one of the command; another session is ended', async () => {
  const person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  const app = await addClient(workspace.operator)
  await tokensOf(app, person)
  const token = (await tokensOf(app, person)).body['access_token'] ?? ''
  const table = await tenon(['session', 'list'], token)
  expect(table).toMatch(/^SESSION +LAST USED +SIGNED IN +AT +FROM +DEVICE\n/)
  expect(table.match(/^ses_\w+ \(this one\)/gm)).toHaveLength(1)
  const sessions = linesOf(await tenon(['session', 'list', '--json'], token))
  const other = sessions.find(({ current }) => !current)
  expect(JSON.parse(await tenon(['session', 'end', other.id, '--json'], token))).toEqual({
    ...{ id: other.id, ended: true },
  })
  expect(linesOf(await tenon(['session', 'list', '--json'], token))).toMatchObject([{ current: true }])
})

test('session list, end: of an account or a user by e-mail address, for an admin', async () => {
  const person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  const app = await createUserApp(workspace)
  const user = await addUser(app)
  await tokensOf(await addClient(workspace.operator), person)
  await userTokens(app, user)
  for (const owner of [
    ['--account', person.email],
    ['--user', user.email],
  ]) {
    const [session, ...more] = linesOf(await tenon(['session', 'list', ...owner, '--json']))
    expect([owner, more]).toEqual([owner, []])
    expect(await tenon(['session', 'end', session.id, ...owner])).toMatch(/^ended +true$/m)
    expect(await tenon(['session', 'list', ...owner, '--json'])).toBe('')
  }
  const both = ['session', 'list', '--account', person.email, '--user', user.email]
  expect(await runCommand(both, { env })).toMatchObject({ code: 1, stdout: '' })
})

test('session, consent list without the token of a person: refused, with what to do', async () => {
  for (const noun of ['session', 'consent'])
    expect(await runCommand([noun, 'list'], { env })).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringContaining('TENON_TOKEN=$(npx tenon login)'),
    })
})

test('consent list, end: the clients that may act for the person', async () => {
  const person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  const token = (await tokensOf(await addClient(workspace.operator), person)).body['access_token'] ?? ''
  expect(await tenon(['consent', 'list'], token)).toMatch(
    /^CONSENT +CLIENT +LAST USED +GIVEN +FOR +SCOPES\n\S+ +App +.* +http\S+\/v1 +api\n$/,
  )
  const [consent] = linesOf(await tenon(['consent', 'list', '--json'], token))
  expect(await tenon(['consent', 'end', consent.id], token)).toMatch(/^ended +true$/m)
})

interface TooOld {
  readonly claims: (nowS: number) => object
  readonly said: RegExp
}

/** A person's token whose sign-in is too old for the command, or that has expired. */
const TOO_OLD: Readonly<Record<string, TooOld>> = {
  'sign-in too old': {
    claims: (nowS) => ({ auth_time: nowS - 601 }),
    said: /sign_in_policy\.set needs a sign-in that is at most 10 minutes old\. Sign in again/,
  },
  'expired token': {
    claims: (nowS) => ({ iat: nowS - 700, auth_time: nowS - 700, exp: nowS - 100 }),
    said: /The access token has expired\. Sign in again/,
  },
}

async function tokenTooOld({ id }: TestAccount, { claims }: TooOld): Promise<string> {
  const own = { sub: id, roles: ['tenant_admin'], tenant_id: workspace.tenantId, client_id: clientId }
  const { authorization } = await tokenOf({ ...own, ...claims(Math.floor(Date.now() / 1_000)) })
  return authorization?.replace('Bearer ', '') ?? ''
}

const SET = ['sign-in-policy', 'set', '--no-require-mfa']

/** Reads which account has set the sign-in policy last. */
const setBy = async () =>
  (
    await call('GET', `/v1/sign-in-policy?tenant_id=${workspace.tenantId}`, {
      as: workspace.operator,
    })
  ).body.updated_by

/** Starts the command on a terminal, and signs somebody in at the address that it prints. */
async function onTerminal(TENON_TOKEN: string, person: TestAccount) {
  const terminal = startOnTerminal(SET, { ...env, TENON_TOKEN })
  const url = await eventually(async () => /http\S+\/auth\/authorize\S+(?=\s)/.exec(terminal.sent())?.[0])
  const browser = new Browser('nowhere:')
  const { tenant, email, password } = person
  const consent = await browser.submit(await browser.open(url), { action: 'login', tenant, email, password })
  await browser.submit(consent, { action: 'allow' })
  return { code: await terminal.ended, sent: terminal.sent() }
}

test.each(Object.entries(TOO_OLD))(
  '%s, on a terminal: the person signs in again, and the command goes on',
  async (_, kind) => {
    const person = await addAdmin()
    const { code, sent } = await onTerminal(await tokenTooOld(person, kind), person)
    expect([code, await setBy()], sent).toEqual([0, person.id])
    expect(sent).toMatch(kind.said)
    expect(sent.match(/Sign in at/g)).toHaveLength(1)
    expect(sent).toMatch(/^require_mfa +false\r?$/m)
  },
)

test('sign-in too old, on a terminal, and another person signs in: refused, and nothing is changed', async () => {
  const [person, other] = await Promise.all([addAdmin(), addAdmin()])
  const before = await setBy()
  const { code, sent } = await onTerminal(
    await tokenTooOld(person, TOO_OLD['sign-in too old'] as TooOld),
    other,
  )
  expect([code, await setBy()], sent).toEqual([1, before])
  expect(sent).toContain('Another person has signed in')
})

test.each(Object.entries(TOO_OLD))('%s, without a terminal: says what to run', async (_, kind) => {
  const person = await addAdmin()
  const before = await setBy()
  const TENON_TOKEN = await tokenTooOld(person, kind)
  const run = (more: NodeJS.ProcessEnv) => runCommand(SET, { env: { ...env, TENON_TOKEN, ...more } })
  expect(await run({})).toMatchObject({
    ...{ code: 1, stdout: '' },
    stderr: expect.stringContaining(
      `Sign in again, and repeat the command: export TENON_TOKEN=$(tenon login --client ${clientId})\n`,
    ),
  })
  const { stderr } = await run({ TENON_LOGIN_CLIENT_ID: clientId })
  expect(stderr).toContain('export TENON_TOKEN=$(tenon login)\n')
  expect(await setBy()).toBe(before)
})

test('token of a machine that is too old: no sign-in of a person is asked for', async () => {
  const { authorization } = await tokenOf({
    ...{ sub: 'client_machine', roles: ['operator'] },
    auth_time: Math.floor(Date.now() / 1_000) - 601,
  })
  const TENON_TOKEN = authorization?.replace('Bearer ', '')
  const { code, stderr } = await runCommand([...SET, '--tenant', workspace.tenantId], {
    env: { ...env, TENON_TOKEN },
  })
  expect([code, stderr.includes('export TENON_TOKEN')]).toEqual([1, false])
})
