/**
 * Attacks on accounts: no peer gains access to another account, and a reset account cannot decide approvals
 * unnoticed.
 */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { type Entry, entriesOfWorkspace } from '../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  Browser,
  bearer,
  inWorkspace,
  refresh,
  type TestAccount,
  tokensOf,
} from '../support/clients/browser.ts'
import { ok } from '../support/clients/mcp.ts'
import { Executions } from '../support/fixtures/executions.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'

let testWorkspace: TestWorkspace
let executions: Executions
let clientId: string
let mallory: TestAccount
let malloryToken: Caller
let trent: TestAccount
let trentToken: Caller

beforeAll(async () => {
  testWorkspace = await createTestWorkspace()
  executions = new Executions(testWorkspace)
  clientId = await addClient(testWorkspace.operator)
  mallory = await createAdmin()
  malloryToken = await tokenFor(mallory)
  trent = await addAccount(testWorkspace.operator, {
    role: 'tenant_admin',
    tenant_id: testWorkspace.tenantId,
  })
  trentToken = await tokenFor(trent)
})

const createAdmin = () =>
  addAccount(testWorkspace.operator, { role: 'workspace_admin', ...inWorkspace(testWorkspace) })

async function tokenFor(person: TestAccount): Promise<Caller> {
  const { status, body } = await tokensOf(clientId, person)
  expect(status, JSON.stringify(body)).toBe(200)
  return bearer(body['access_token'])
}

const sendCommand = (verb: string, { id }: { id: string }, as: Caller) =>
  call('POST', `/v1/accounts/${id}/${verb}`, { as, body: {} })
const statusOf = async ({ id }: TestAccount) =>
  (await ok(call('GET', `/v1/accounts/${id}`, { as: testWorkspace.operator }))).status

/** Audit entries about an account. */
const entriesOf = async ({ id }: TestAccount): Promise<Entry[]> =>
  (await entriesOfWorkspace(testWorkspace)).filter(({ target }) => String(target).includes(id))

/** Sets a password through a link. @returns the status of the page */
async function setPasswordByLink(url: string, password: string): Promise<number> {
  const browser = new Browser('nowhere:')
  const page = await browser.open(url)
  return page.status === 200
    ? (await browser.submit(page, { password, again: password })).status
    : page.status
}

const isAccepted = async (as: Caller) => (await call('GET', '/v1/accounts', { as })).status === 200

describe('accepted account', () => {
  test('invited again by a peer or a higher role: refused, keeps its password', async () => {
    const bob = await createAdmin()
    for (const as of [malloryToken, trentToken, testWorkspace.operator])
      expect(await sendCommand('invite', bob, as)).toMatchObject({
        status: 409,
        body: { code: 'state_conflict', detail: expect.stringContaining(`/v1/accounts/${bob.id}/reset`) },
      })
    expect(await isAccepted(await tokenFor(bob))).toBe(true)
  })

  test('reset by a peer or a lower role: refused, keeps its password and sessions', async () => {
    const bob = await createAdmin()
    const token = await tokenFor(bob)
    const peer = await sendCommand('reset', bob, malloryToken)
    expect([peer.status, peer.body.code]).toEqual([403, 'forbidden'])
    expect(JSON.stringify(peer.body)).not.toContain('token=')
    expect((await sendCommand('reset', trent, malloryToken)).status).toBe(404)
    const operator = await addAccount(testWorkspace.operator, { role: 'operator' })
    expect((await sendCommand('reset', operator, testWorkspace.operator)).status).toBe(403)
    expect(await isAccepted(token)).toBe(true)
    expect(await isAccepted(await tokenFor(bob))).toBe(true)
  })

  test('reset by itself: refused, names the page to change the password', async () => {
    const bob = await createAdmin()
    expect(await sendCommand('reset', bob, await tokenFor(bob))).toMatchObject({
      status: 403,
      body: { detail: expect.stringContaining('/auth/password') },
    })
  })

  test('reset by a strictly higher role: signed out at once until the link is used; both steps are audited', async () => {
    const bob = await createAdmin()
    const { body: tokens } = await tokensOf(clientId, bob)
    const token = bearer(tokens['access_token'])
    expect(await isAccepted(token)).toBe(true)
    const resetAccount = await sendCommand('reset', bob, trentToken)
    expect(resetAccount).toMatchObject({ status: 200, body: { id: bob.id, status: 'reset' } })
    expect(await isAccepted(token)).toBe(false)
    expect((await refresh(clientId, tokens['refresh_token'])).status).toBe(400)
    await expect(tokensOf(clientId, bob)).rejects.toThrow('forbidden')
    // It was accepted before, so it cannot be invited again.
    expect((await sendCommand('invite', bob, malloryToken)).status).toBe(409)
    expect(await setPasswordByLink(resetAccount.body.reset_url, 'correct horse again')).toBe(200)
    expect(await setPasswordByLink(resetAccount.body.reset_url, 'another horse again')).toBe(404)
    expect(await isAccepted(token)).toBe(false)
    expect(await isAccepted(await tokenFor({ ...bob, password: 'correct horse again' }))).toBe(true)
    const entries = await entriesOf(bob)
    expect(entries).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          operation: 'account.reset',
          actor: expect.objectContaining({ subject: trent.id }),
        }),
        expect.objectContaining({
          operation: 'account.password_set',
          actor: expect.objectContaining({ subject: bob.id }),
        }),
      ]),
    )
  })

  test('invitation or confirmation written to the database by an equal role: refused', async () => {
    const bob = await createAdmin()
    const invite = `update tenon.accounts set invitation = decode(repeat('ab', 32), 'hex'), invited_until = now() + interval '1 d'
      where id = '${bob.id}'`
    const confirm = `update tenon.accounts set confirmed_by = '{mallory}' where id = '${bob.id}'`
    const settings = (workspace: string) =>
      `select set_config('tenon.tenant', '${testWorkspace.tenantId}', true), set_config('tenon.workspace', '${workspace}', true)`
    for (const statement of [invite, confirm])
      await expect(
        asSuperuser(
          `begin; ${settings(testWorkspace.workspaceId)}; set local role tenon_admin; ${statement}; commit`,
        ),
      ).rejects.toThrow(/higher role/)
    expect(await isAccepted(await tokenFor(bob))).toBe(true)
    // A write by a higher role clears the password, independent of the product code.
    await asSuperuser(`begin; ${settings('')}; set local role tenon_admin; ${invite}; commit`)
    expect(await statusOf(bob)).toBe('reset')
  })
})

describe('account that was never accepted', () => {
  test('invited again by a peer: accepted; reset: refused', async () => {
    const body = {
      role: 'workspace_admin',
      ...inWorkspace(testWorkspace),
      email: `new-${Date.now()}@example.test`,
    }
    const made = await ok(call('POST', '/v1/accounts', { as: malloryToken, body }))
    expect(await sendCommand('reset', made, trentToken)).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining(`/v1/accounts/${made.id}/invite`) },
    })
    const again = await sendCommand('invite', made, malloryToken)
    expect(again.status).toBe(200)
    expect(await setPasswordByLink(again.body.invitation_url, 'correct horse again')).toBe(200)
  })
})

describe('account holder', () => {
  /** Changes the password on the page. @returns its status */
  async function change(person: TestAccount, current: string, password: string): Promise<number> {
    const browser = new Browser('nowhere:')
    const page = await browser.open(`${inject('tenon').url}/auth/password`)
    const { tenant, email } = person
    return (await browser.submit(page, { tenant, email, current, password, again: password })).status
  }

  test('changes the password: needs the current one, other sessions end', async () => {
    const bob = await createAdmin()
    const token = await tokenFor(bob)
    expect(await change(bob, 'not the password', 'correct horse again')).toBe(401)
    expect(await change(bob, bob.password, 'short')).toBe(400)
    expect(await isAccepted(token)).toBe(true)
    expect(await change(bob, bob.password, 'correct horse again')).toBe(200)
    expect(await isAccepted(token)).toBe(false)
    await expect(tokensOf(clientId, bob)).rejects.toThrow('forbidden')
    expect(await isAccepted(await tokenFor({ ...bob, password: 'correct horse again' }))).toBe(true)
    expect(await entriesOf(bob)).toEqual(
      expect.arrayContaining([expect.objectContaining({ operation: 'account.password_set' })]),
    )
  })

  test('guesses the current password: throttled like sign-in', async () => {
    const bob = await createAdmin()
    const statuses = new Set<number>()
    for (let n = 0; n < 12; n++) statuses.add(await change(bob, `wrong ${n}`, 'correct horse again'))
    expect([...statuses]).toEqual([401, 429])
  })
})

describe('approval requested before its approver was reset', () => {
  const publishApproval = (...approvers: TestAccount[]) =>
    executions.publish(
      `  - board: { approve: { approvers: [${approvers.map(({ id }) => id).join(', ')}] } }\n  - paid: { set: { paid: true } }`,
    )

  /** Resets the account of bob and sets a new password. @returns the next token */
  async function resetAccount(bob: TestAccount, by: Caller): Promise<Caller> {
    const { reset_url } = await ok(sendCommand('reset', bob, by))
    expect(await setPasswordByLink(reset_url, 'correct horse again')).toBe(200)
    return tokenFor({ ...bob, password: 'correct horse again' })
  }

  test('decided by the reset account: refused until an admin other than the starter confirms the account', async () => {
    const bob = await createAdmin()
    const flow = await publishApproval(bob)
    // Trent may reset bob, and started the execution.
    const id = await executions.start(flow, {}, trentToken)
    await executions.shown(id, 'waiting')
    const token = await resetAccount(bob, trentToken)
    const approve = () => executions.send(id, 'approve', { approved: true }, token)
    const suspended = {
      status: 409,
      body: { code: 'state_conflict', hint: expect.stringContaining(`/v1/accounts/${bob.id}/confirm`) },
    }
    expect(await approve()).toMatchObject(suspended)
    expect((await sendCommand('confirm', bob, malloryToken)).status).toBe(403)
    expect((await sendCommand('confirm', bob, token)).status).toBe(403)
    expect((await sendCommand('confirm', bob, trentToken)).status).toBe(200)
    expect(await approve()).toMatchObject(suspended)
    expect((await executions.read(id)).status).toBe('waiting')
    expect((await sendCommand('confirm', bob, testWorkspace.operator)).status).toBe(200)
    expect((await approve()).status).toBe(200)
    expect(await executions.ended(id)).toMatchObject({ status: 'completed', output: { paid: true } })
    expect(await entriesOf(bob)).toEqual(
      expect.arrayContaining([expect.objectContaining({ operation: 'account.confirm' })]),
    )
  })

  test('reset again after confirmation: refused again; an approval requested later is accepted', async () => {
    const bob = await createAdmin()
    const flow = await publishApproval(bob)
    await resetAccount(bob, trentToken)
    expect((await sendCommand('confirm', bob, testWorkspace.operator)).status).toBe(200)
    const before = await executions.start(flow, {}, malloryToken)
    await executions.shown(before, 'waiting')
    const token = await resetAccount(bob, trentToken)
    expect((await executions.send(before, 'approve', { approved: true }, token)).status).toBe(409)
    const after = await executions.start(flow, {}, malloryToken)
    await executions.shown(after, 'waiting')
    expect((await executions.send(after, 'approve', { approved: true }, token)).status).toBe(200)
    await executions.send(before, 'cancel')
    await executions.ended(before)
  })

  test('decided by another approver: accepted', async () => {
    const [bob, carol] = [await createAdmin(), await createAdmin()]
    const id = await executions.start(await publishApproval(bob, carol), {}, malloryToken)
    await executions.shown(id, 'waiting')
    await resetAccount(bob, trentToken)
    expect((await executions.send(id, 'approve', { approved: true }, await tokenFor(carol))).status).toBe(200)
    await executions.ended(id)
  })
})
