/** The example examples/support-desk, as its README sets it up, in Chromium and from another origin. */

import { readFile } from 'node:fs/promises'
import axe from 'axe-core'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addAccount, addClient, bearer, type TestAccount, tokensOf } from '../../support/clients/browser.ts'
import { hasChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { ExampleApp, sendTwiceWithExpiredToken } from '../../support/clients/example-app.ts'
import { mailsTo, mailTo } from '../../support/clients/mails.ts'
import { closeSubscriptions, messages, subscribeToEvents } from '../../support/clients/sse.ts'
import { newUser, type TestUser } from '../../support/clients/users.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

noticeWithoutChromium('examples/support-desk')

const PHOTO = { name: 'mug.svg', mimeType: 'image/svg+xml', buffer: Buffer.from('<svg onload="alert(1)"/>') }
const DOCUMENTS = '/v1/collections'

interface Person extends TestUser {
  readonly tab: Page
  readonly token: Caller
  readonly id: string
}

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('support-desk', () => {
  let workspace: TestWorkspace
  let app: ExampleApp
  let approver: TestAccount
  let objects: string
  let [mia, ben, agent] = [] as unknown as [Person, Person, Person]

  beforeAll(async () => {
    workspace = await createTestWorkspaceWithStorage()
    const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
    approver = await addAccount(workspace.operator, { role: 'service', ...place })
    app = await ExampleApp.start('support-desk', workspace, approver.email)
    objects = `/v1/objects/${await bucketOf(workspace)}/tickets`
    mia = await signUp()
    ben = await signUp()
    agent = await signUp({ role: 'agent', files: 'tickets' })
  })
  afterAll(() => {
    closeSubscriptions()
    return app?.close()
  })

  /** Signs up. With claims, an admin sets them, and the user signs in again. */
  async function signUp(claims?: object): Promise<Person> {
    const user = newUser()
    let tab = await app.signUp(user)
    if (claims !== undefined) {
      const { subject } = (await call('GET', '/v1/me', { as: await tokenIn(tab) })).body
      const set = await call('PATCH', `/v1/users/${subject}`, { as: workspace.operator, body: { claims } })
      expect(set.status).toBe(200)
      tab = await app.signIn(user)
    }
    const token = await tokenIn(tab)
    return { ...user, tab, token, id: (await call('GET', '/v1/me', { as: token })).body.subject }
  }

  /** The access token that the page sends. */
  async function tokenIn(tab: Page): Promise<Caller> {
    const [request] = await Promise.all([tab.waitForRequest(/\/v1\/collections\//), tab.reload()])
    return { authorization: (await request.allHeaders())['authorization'] ?? '' }
  }

  const ticketIn = ({ tab }: Person, subject: string): Locator => tab.getByRole('article', { name: subject })

  async function write({ tab }: Person, subject: string, file?: typeof PHOTO): Promise<void> {
    await tab.getByLabel('Subject').fill(subject)
    await tab.getByLabel('What happened?').fill(`${subject}, see there.`)
    if (file !== undefined) await tab.getByLabel('File (optional)').setInputFiles(file)
    await tab.getByRole('button', { name: 'Send', exact: true }).click()
    await tab.getByRole('article', { name: subject }).waitFor()
  }

  async function requestRefund(person: Person, subject: string, euros: number): Promise<void> {
    const ticket = ticketIn(person, subject)
    await ticket.getByLabel('Euros').fill(String(euros))
    await ticket.getByRole('button', { name: 'Request a refund' }).click()
    await ticket.getByText(`Refund of ${euros} euros: requested`).waitFor()
  }

  const list = async (as: Caller, collection: string) =>
    (await call('GET', `${DOCUMENTS}/desk_${collection}/documents`, { as })).body.data
  const stored = async (collection: string, subjectOrTicket: string) =>
    (await list(workspace.service, collection)).find(
      (one: { subject?: string; ticket?: string }) =>
        one.subject === subjectOrTicket || one.ticket === subjectOrTicket,
    )
  const create = (as: Caller, collection: string, body: object) =>
    call('POST', `${DOCUMENTS}/desk_${collection}/documents`, { as, body })
  const subjects = ({ tab }: Person) => tab.locator('.subject').allTextContents()
  const status = async (reply: Promise<{ status: number }>) => (await reply).status

  test('two customers and an agent – customers see their own tickets, the agent sees and answers all, live', async () => {
    await write(mia, 'Broken mug', PHOTO)
    await write(ben, 'Late parcel')
    await ticketIn(agent, 'Broken mug').waitFor()
    await ticketIn(agent, 'Late parcel').waitFor()
    expect([await subjects(mia), await subjects(ben)]).toEqual([['Broken mug'], ['Late parcel']])
    expect(await agent.tab.getByRole('button', { name: 'Send', exact: true }).isVisible()).toBe(false)
    expect(await ticketIn(mia, 'Broken mug').getByLabel('Answer', { exact: true }).isVisible()).toBe(false)

    const [saved] = await Promise.all([
      agent.tab.waitForEvent('download'),
      ticketIn(agent, 'Broken mug').getByRole('button', { name: 'Download mug.svg' }).click(),
    ])
    expect(saved.suggestedFilename()).toBe('mug.svg')
    expect(await readFile(await saved.path())).toEqual(PHOTO.buffer)

    const half = ticketIn(mia, 'Broken mug').getByLabel('Euros')
    await half.fill('12')
    const answer = ticketIn(agent, 'Broken mug')
    await answer.getByLabel('Answer', { exact: true }).fill('<b>Sorry!</b>')
    await answer.getByRole('button', { name: 'Send answer' }).click()
    await ticketIn(mia, 'Broken mug').getByText('<b>Sorry!</b>').waitFor()
    expect(await half.inputValue()).toBe('12')
    for (const { tab } of [mia, agent]) await expectAccessible(tab)
  })

  test('another customer by direct calls – reads and changes neither ticket, answer, refund nor file', async () => {
    const ticket = await stored('tickets', 'Broken mug')
    const answer = await stored('answers', ticket.id)
    expect(await list(ben.token, 'tickets')).toMatchObject([{ subject: 'Late parcel', _owner: ben.id }])
    expect([await list(ben.token, 'answers'), await list(ben.token, 'refunds')]).toEqual([[], []])
    for (const path of [`tickets/documents/${ticket.id}`, `answers/documents/${answer.id}`]) {
      expect(await status(call('GET', `${DOCUMENTS}/desk_${path}`, { as: ben.token }))).toBe(404)
      const patch = call('PATCH', `${DOCUMENTS}/desk_${path}`, { as: ben.token, body: { text: 'x' } })
      expect([403, 404]).toContain(await status(patch))
    }
    const file = `${objects}/${mia.id}/${ticket.id}`
    expect((await call('GET', file, { as: mia.token })).body).toBe(PHOTO.buffer.toString())
    expect(await status(call('GET', file, { as: agent.token }))).toBe(200)
    for (const method of ['GET', 'HEAD', 'DELETE'])
      expect([method, await status(call(method, file, { as: ben.token }))]).toEqual([method, 403])
    for (const as of [ben.token, agent.token])
      expect(
        await status(call('PUT', file, { as, body: 'x', headers: { 'content-type': 'text/plain' } })),
      ).toBe(403)
    const folder = objects.replace(/\/tickets$/, '?prefix=tickets/')
    expect(await status(call('GET', folder, { as: ben.token }))).toBe(403)
    expect(await status(call('GET', folder, { as: agent.token }))).toBe(200)
    for (const collection of ['desk_tickets', 'desk_answers', 'desk_refunds']) {
      const refused = await call('GET', `${DOCUMENTS}/${collection}/documents`, { as: workspace.anon })
      // By the declaration, whatever the workspace's setting.
      expect([refused.status, refused.body.detail]).toEqual([
        ...[403, `Anon keys may not read documents of ${collection}.`],
      ])
    }
  })

  test('forged documents of a customer – are refused', async () => {
    const { id } = await stored('tickets', 'Broken mug')
    const fixed = { email: mia.email, status: 'open', priority: 'normal' }
    const ticket = { ...fixed, subject: 'Forged', text: 'x', file: '' }
    const refund = { ticket: id, euros: 5, status: 'requested' }
    const forged: [string, object][] = [
      ['tickets', { ...ticket, email: ben.email }],
      ['tickets', { ...ticket, status: 'refunded' }],
      ['tickets', { ...ticket, priority: 'urgent' }],
      ['answers', { ticket: id, customer: mia.id, text: 'Your refund is approved.' }],
      ['refunds', { ...refund, status: 'approved' }],
      ['refunds', { ...refund, status: 'rejected' }],
    ]
    for (const [collection, body] of forged)
      expect([body, await status(create(mia.token, collection, body))]).toEqual([body, 403])
    for (const more of [{ euros: 1001 }, { euros: -5 }, { ticket: '../x' }, { approved: true }])
      expect([400, 422]).toContain(await status(create(mia.token, 'refunds', { ...refund, ...more })))
    const claims = { role: 'agent', files: 'tickets' }
    expect(await status(call('PATCH', `/v1/users/${mia.id}`, { as: mia.token, body: { claims } }))).toBe(403)
  })

  test('refund – only the approver decides it, and the customer sees the decision live', async () => {
    const topics = ['tickets', 'answers', 'refunds'].map((name) => `collections.desk_${name}.*`)
    const heardByBen = await subscribeToEvents(ben.token, `topic=${topics}`)
    await requestRefund(mia, 'Broken mug', 20)
    const ticket = await stored('tickets', 'Broken mug')
    const refund = await stored('refunds', ticket.id)
    const { link } = await mailTo(approver.email, 'Refund 20 euros')
    const [open] = (await call('GET', `${workspace.flows}/approvals`, { as: workspace.operator })).body.data
    expect(open).toMatchObject({ status: 'open', approvers: [approver.email] })
    expect(open.data).toMatchObject({ customer: mia.email, euros: 20, subject: 'Broken mug' })

    for (const { token: as } of [mia, ben, agent]) {
      const at = `${DOCUMENTS}/desk_refunds/documents/${refund.id}`
      const ops = [{ op: 'update', id: refund.id, data: { status: 'approved' } }]
      const attempts = [
        call('PATCH', at, { as, body: { status: 'approved' } }),
        call('PUT', at, { as, body: { status: 'approved' } }),
        call('DELETE', at, { as }),
        call('POST', `${DOCUMENTS}/desk_refunds/batch`, { as, body: { ops } }),
        call('PATCH', `${DOCUMENTS}/desk_tickets/documents/${ticket.id}`, {
          as,
          body: { status: 'refunded' },
        }),
        call('GET', '/v1/approvals', { as }),
        call('POST', `/v1/approvals/${open.id}/decide`, { as, body: { approved: true } }),
        call('POST', `${workspace.flows}/approvals/${open.id}/decide`, { as, body: { approved: true } }),
        call('POST', '/v1/flows/desk-refund/executions', { as, body: { input: [] } }),
        call('POST', '/v1/events/publish', { as, body: { topic: 'desk_refunds.created', data: {} } }),
      ]
      // What cannot be read does not exist.
      const expected = as === ben.token ? [403, 404] : [403]
      for (const reply of await Promise.all(attempts))
        expect(expected, JSON.stringify(reply)).toContain(reply.status)
      const event = { topic: 'collections.desk_refunds.created', data: { id: refund.id, owner: mia.id } }
      expect(await status(call('POST', '/v1/events/publish', { as, body: event }))).toBe(400)
    }
    const again = { ticket: ticket.id, euros: 30, status: 'requested' }
    expect(await status(create(mia.token, 'refunds', again))).toBe(409)

    const page = await app.open(link)
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0)
    await page.getByLabel('Password').fill(approver.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    expect(await page.locator('dl').textContent()).toContain('Broken mug')
    await page.getByRole('button', { name: 'Approve' }).click()
    for (const person of [mia, agent]) {
      await ticketIn(person, 'Broken mug').getByText('Refund of 20 euros: approved').waitFor()
      await ticketIn(person, 'Broken mug').getByText(`${mia.email}, refunded`).waitFor()
    }
    expect(await mia.tab.getByRole('status').textContent()).toBe('Refund of 20 euros: approved.')
    expect([await list(ben.token, 'refunds'), messages(heardByBen)]).toEqual([[], []])
  })

  test('refund that the approver rejects over the API – leaves the ticket open', async () => {
    await requestRefund(ben, 'Late parcel', 7)
    await mailTo(approver.email, 'Refund 7 euros')
    const tokens = await tokensOf(await addClient(workspace.operator), approver)
    const as = bearer(tokens.body['access_token'])
    const mine = (await call('GET', '/v1/approvals?mine=true', { as })).body.data
    expect(mine.map(({ data }: { data: { customer: string } }) => data.customer)).toEqual([ben.email])
    const [approval] = mine
    const decided = await call('POST', `/v1/approvals/${approval.id}/decide`, {
      as,
      body: { approved: false },
    })
    expect(decided.status).toBe(200)
    await ticketIn(ben, 'Late parcel').getByText('Refund of 7 euros: rejected').waitFor()
    expect(await stored('tickets', 'Late parcel')).toMatchObject({ status: 'open' })
  })

  test('refund for the ticket of another customer – is rejected without a mail, and not shown at that ticket', async () => {
    await write(mia, 'Wrong colour')
    await ticketIn(agent, 'Wrong colour').waitFor()
    const { id } = await stored('tickets', 'Wrong colour')
    const made = await create(ben.token, 'refunds', { ticket: id, euros: 999, status: 'requested' })
    expect(made.status).toBe(201)
    const at = `${DOCUMENTS}/desk_refunds/documents/${made.body.id}`
    await eventually(async () => {
      const { body } = await call('GET', at, { as: ben.token })
      return body.status === 'rejected' ? body : undefined
    })
    expect(await mailsTo(approver.email, 'Refund 999 euros')).toEqual([])
    await agent.tab.reload()
    await ticketIn(agent, 'Broken mug').getByText('Refund of 20 euros: approved').waitFor()
    expect(await ticketIn(agent, 'Wrong colour').locator('.refund').isVisible()).toBe(false)
  })

  test('setup run again – applies, and keeps documents and the client', async () => {
    const config = async () => (await fetch(`${app.origin}/config.json`)).json()
    const before = await config()
    await app.setUpAgain()
    expect(await config()).toEqual(before)
    expect(await list(mia.token, 'tickets')).toMatchObject([
      { subject: 'Broken mug' },
      { subject: 'Wrong colour' },
    ])
  })

  test('urgent ticket – the function marks it, live, and new tickets alone start the function', async () => {
    const badgeOf = (person: Person, subject: string) =>
      ticketIn(person, subject).getByText('Urgent', { exact: true })
    await write(mia, 'The shop is down')
    for (const person of [mia, agent]) {
      await badgeOf(person, 'The shop is down').waitFor()
      expect(await badgeOf(person, 'Wrong colour').isVisible()).toBe(false)
    }
    await expectAccessible(agent.tab)
    const tickets = await list(workspace.service, 'tickets')
    const priorities = tickets.map((one: { priority: string }) => one.priority)
    expect(priorities.toSorted()).toEqual(['normal', 'normal', 'normal', 'urgent'])
    // The flow and the function have changed a ticket each.
    const statuses = await eventually(async () => {
      const { body } = await call('GET', '/v1/invocations?function=desk-triage', { as: workspace.service })
      const found: string[] = body.data.map(({ status }: { status: string }) => status)
      return found.includes('running') || found.includes('queued') ? undefined : found
    })
    expect(statuses).toEqual(tickets.map(() => 'completed'))
  })

  test('access token that has expired – requests at the same time share one refresh', async () => {
    await ben.tab.getByLabel('Subject').fill('Twice')
    await ben.tab.getByLabel('What happened?').fill('Sent twice.')
    expect(await sendTwiceWithExpiredToken(ben.tab, '#write')).toBe(1)
    await ben.tab.getByRole('article', { name: 'Twice' }).nth(1).waitFor()
  })

  /** Runs axe with all of its rules. */
  async function expectAccessible(tab: Page): Promise<void> {
    await tab.evaluate(axe.source)
    const { violations } = (await tab.evaluate('axe.run()')) as { violations: { id: string }[] }
    expect(violations.map(({ id }) => id)).toEqual([])
  }
})
